"""What decides is a function of the host: `host` makes a predicate of loops and branches of it.

It is `ops.callback` with a declared pure function: an effect, whose token keeps it in its place, so that it is called
once each time and in order, and no rewriting evaluates, merges or moves it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from nnc_func.body import Body
from nnc_func.control_flow.messages import check_body, given, whose
from nnc_func.control_flow.tracing import SCALARS, is_numbers, tensor_of
from nnc_func.engine.effects import recorder
from nnc_func.errors import DTypeError, OperatorError, RunError, ShapeError, UnboundError, check_hash
from nnc_func.graph.ops.effects import callback
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

KINDS = {"truth value": ("biu", np.dtype("bool")), "integer": ("biu", np.dtype("int64"))}
"""What may be asked for: kinds of dtypes that are taken for it, and the dtype of the answer."""
LARGE = 1 << 63  # what an int64 is less than


def host(function: Callable[..., Any]) -> Host:
    """A function of NumPy arrays that decides, where a loop or a branch takes a function of tensors to decide.

    That is the condition of `while_loop`, a condition of `loop_until`, the predicate of `cond` and the index of
    `case_of`, both of which then give it their operands. It may as well be called with tensors, in any function, and
    gives a truth value. It is called while the program runs, once for each time that its answer is wanted, in the order
    of the program and its effects; never while a function is traced. Of a `while_loop` that is once before the first
    time, and once after each.

    Parameters
    ----------
    function
        Takes what the function of tensors would, trees of arrays in place of trees of tensors, and returns one truth
        value, or an integer where there is no axis; for `case_of` an integer. The arrays are not to be written to, and
        are valid until it returns. It is to decide by its arguments alone: a loop or a branch within the body of a loop
        that is computed again for its derivative (``checkpoint=``) asks again.

    Returns
    -------
    A `Host`, which has no derivative: what it is asked about counts as constant, and a loop around it is differentiated
    for the number of times that it went.

    Raises
    ------
    OperatorError
        It is no function, or has no hash.

    See Also
    --------
    ops.callback : calls a function of the host whose results are tensors to compute with.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> small = nnc.host(lambda x: float(np.abs(x).max()) < 10)
    >>> _, (x,), times = stack.while_loop(small, lambda x: (None, (x * 2,)), (stack.asarray([1.0, 3.0]),))
    >>> x.numpy(), times.item()
    (array([ 4., 12.]), 2)
    >>> stack.grad(lambda a: stack.while_loop(small, lambda x: (None, (x * a,)), (a,))[1][0])(2.0).item()
    32.0
    """
    if isinstance(function, Host):
        return function
    if not callable(function):
        raise OperatorError(f"host wants a function of NumPy arrays, given {given(function)}")
    check_hash(function, "host")
    return Host(function)


class Host:
    """A predicate that is a function of the host; `host` makes it.

    Attributes
    ----------
    function
        Takes arrays, and decides.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = self.__wrapped__ = function
        with suppress(TypeError, ValueError):  # a function of C may have none
            self.__signature__ = inspect.signature(function)

    def __repr__(self) -> str:
        return f"host({getattr(self.function, '__qualname__', self.function)})"

    def __call__(self, *operands: Any) -> Tensor:
        """One truth value, of tensors or trees of them.

        Raises
        ------
        OperatorError
            There is no tensor among them.
        """
        leaves, _ = flatten(operands, is_leaf=is_numbers)
        stacks = [leaf.stack for leaf in leaves if isinstance(leaf, Tensor)]
        if not stacks:
            raise OperatorError(
                f"{self!r} is called with tensors, given none: give it to while_loop, cond or case_of as it is"
            )
        return self.asked(stacks[0], operands)

    def asked(self, stack: Any, operands: Sequence[Any], kind: str = "truth value") -> Tensor:
        """The answer for these operands, as a tensor without axes.

        Parameters
        ----------
        kind
            "truth value", a bool; or "integer", an int64.
        """
        leaves, structure = flatten(tuple(operands), is_leaf=is_numbers)
        check_body(self.function, "host", [f"operand{n}" for n in range(len(operands))], "the function")
        tensors = [stack.asarray(x) if type(x) in SCALARS else tensor_of(stack, x) for x in leaves]
        constant = [stack.ops.stop_gradient(x) for x in tensors]
        question = Question(self.function, structure, kind)
        _, dtype = KINDS[kind]
        (answer,) = getattr(stack.ops, callback.name)(
            *constant, function=question, shapes=((),), dtypes=(dtype.name,), pure=True
        )
        return answer  # type: ignore[no-any-return]


@frozen
class Question:
    """What is asked in one place: a function of arrays, which are leaves, whose answer is checked.

    Attributes
    ----------
    function, structure
        Of the user, and of its arguments.
    kind
        What the answer is to be.
    decides
        A loop goes on, or a branch is taken, by it: it is asked once, and not for each row of a batch.
    """

    function: Callable[..., Any]
    structure: Structure
    kind: str
    decides: ClassVar[bool] = True

    @property
    def __name__(self) -> str:
        return f"host predicate{whose('host', self.function)}"

    def __repr__(self) -> str:
        return f"host({getattr(self.function, '__qualname__', self.function)})"

    def __call__(self, *arrays: Any) -> Any:
        """The answer, as an array without axes.

        Raises
        ------
        OperatorError, ShapeError, DTypeError
            It is nothing of the kind.
        RunError
            The function raised something, which is the cause.
        """
        try:
            answer = self.function(*self.structure.build(arrays))
        except Exception as error:
            raise RunError(f"a {self.__name__} raised {type(error).__name__}: {error}") from error
        kinds, dtype = KINDS[self.kind]
        if isinstance(answer, (bool, np.bool_)):
            return np.asarray(answer, dtype)
        wanted = f"a {self.__name__} returns one {self.kind}"
        if isinstance(answer, (int, np.integer)):
            if dtype.kind == "i" and not -LARGE <= answer < LARGE:
                raise DTypeError(f"{wanted} of 64 bits, given {answer}")
            return np.asarray(answer if dtype.kind == "i" else bool(answer), dtype)
        if answer is None or isinstance(answer, (str, tuple, list, dict, Tensor)):
            raise OperatorError(f"{wanted}, given {given(answer)}")
        found = np.asarray(answer)
        if found.shape != ():
            raise ShapeError(f"{wanted}, given an array of shape {found.shape}; take all() or any() of it")
        if found.dtype.kind == "O":
            raise OperatorError(f"{wanted}, given {given(answer)}")
        if found.dtype.kind not in kinds:
            remedy = "compare it with something" if self.kind == "truth value" else "round it, and cast it with int()"
            raise DTypeError(f"{wanted}, given {found.dtype}; {remedy}")
        return found.astype(dtype)


def refuse_traced(stack: Any, body: Body, what: str, remedy: str) -> None:
    """Raise UnboundError where a body that is to be computed now asks the host, and that is part of what is traced."""
    if not body.is_pure and recorder(stack) is not None:
        raise UnboundError(
            f"{what} is asked of a host predicate while the program runs, and not while it is traced: say {remedy}"
        )


def decided(stack: Any, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What a function of tensors, or a predicate of the host, says of these arguments."""
    return function.asked(stack, arguments) if isinstance(function, Host) else function(*arguments)
