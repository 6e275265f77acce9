"""Functions of a dynamic stack as functions of the host: what a static program calls, and how it is differentiated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.dynamic.records import Recorded
from nnc_func.errors import OperatorError, ShapeError, check_hash
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.host_functions import name_of
from nnc_func.graph.tensors.tensor import Tensor


def _values_of(function: Any) -> int:
    """How many arguments a function has, by its signature."""
    if not callable(function):
        raise OperatorError(f"DynamicFunction wants a function of tensors, given {function!r}")
    try:
        kinds = [p.kind for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        kinds = []
    if not kinds or not {*kinds} <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        raise OperatorError(
            f"DynamicFunction wants to know of how many tensors {name_of(function)} is a function, and its signature "
            "does not say it: say values="
        )
    return len(kinds)


@frozen(repr=False)
class DynamicFunction:
    """A function of tensors of a dynamic stack, as a function of the host: what `ops.callback` takes as its `function`.

    A program of any stack calls it, within loops and branches too. Python's own `if` and `for` decide within it, and
    its derivatives are gradients of values, `Stack.gradients`, in both modes and to any order. They compute it again,
    so that it is declared ``pure=True`` where it is differentiated. It runs in a context of its own: what is traced
    around it, or not recorded, is of no consequence within.

    Parameters
    ----------
    function
        Takes tensors of the stack, one for each value of the callback, and returns one, or a tuple or list of them.
        It may ask for gradients with respect to them. What it reads from around it, variables of the stack among it,
        counts as constant.
    stack
        The dynamic stack.
    values
        How many tensors it takes; by default what its signature says.

    Raises
    ------
    OperatorError
        It is no function, has no hash, or does not say how many tensors it takes; the stack is no dynamic one.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy, dynamic = nnc.lazy(), nnc.dynamic()
    >>> def halved(x):
    ...     while x.sum().item() > 1:
    ...         x = x / 2
    ...     return x
    >>> by_value = nnc.DynamicFunction(halved, dynamic)
    >>> def f(x):
    ...     (y,) = lazy.ops.callback(x, function=by_value, shapes=(x.shape,), dtypes=("float64",), pure=True)
    ...     return (y * y).sum()
    >>> lazy.jit(lazy.grad(f))(np.array([1.0, 2.0])).numpy()
    array([0.125, 0.25 ])
    """

    function: Callable[..., Any]
    stack: Any
    values: int = field()
    repeats: ClassVar[bool] = True

    @values.default
    def _by_signature(self) -> int:
        return _values_of(self.function)

    def __attrs_post_init__(self) -> None:
        check_hash(self.function, "DynamicFunction")
        if getattr(getattr(self.stack, "engine", None), "recording", None) is None:
            raise OperatorError(
                f"DynamicFunction of {self.__name__} wants a dynamic stack, given {self.stack!r}: nnc.dynamic()"
            )

    @property
    def __name__(self) -> str:
        return name_of(self.function)

    def __repr__(self) -> str:
        return f"DynamicFunction({self.__name__})"

    def __call__(self, *arrays: Any) -> Any:
        """What the function gives, as arrays; None where it gives nothing.

        Raises
        ------
        ShapeError
            It is given more arrays, or fewer, than it takes.
        """
        if len(arrays) != self.values:
            raise ShapeError(f"{self.__name__} is a function of {self.values} tensors, given {len(arrays)}")
        return _run(self.stack, self.function, arrays)

    @property
    def vjp(self) -> Derived:
        """Its cotangents, as `HostFunction` has them."""
        return Derived(self, Count(self.values, (1, 2), (1, 0)), "vjp")

    @property
    def jvp(self) -> Derived:
        """Its tangents, as `HostFunction` has them."""
        return Derived(self, Count(self.values, (2, 1), (0, 1)), "jvp")


@frozen
class Count:
    """How many arguments and results a derivative has, of a function of `values` whose results are counted at a call.

    Attributes
    ----------
    values
        Arguments of the function that all is derived of.
    takes, gives
        How often the derivative has these, and the function's results, among its arguments, and its own results.
    """

    values: int
    takes: tuple[int, int]
    gives: tuple[int, int]

    def results(self, given: int) -> int:
        """How many results the function has, if the derivative is given so many arguments."""
        return (given - self.takes[0] * self.values) // self.takes[1]

    def derived(self, kind: str) -> Count:
        """That of its own derivative."""
        once, more = (self.takes, self.gives) if kind == "vjp" else (self.gives, self.takes)
        takes = once[0] + 2 * more[0], once[1] + 2 * more[1]
        return Count(self.values, takes, self.takes if kind == "vjp" else self.gives)


@frozen(repr=False)
class Derived:
    """The derivative of a function of a dynamic stack, or of a derivative.

    Attributes
    ----------
    of
        The function.
    count
        How many arguments and results it has itself.
    kind
        "vjp", or "jvp".
    """

    of: Any
    count: Count
    kind: str
    repeats: ClassVar[bool] = True

    stack = property(lambda self: self.of.stack, doc="That of the function.")
    vjp = property(lambda self: Derived(self, self.count.derived("vjp"), "vjp"), doc="Its cotangents.")
    jvp = property(lambda self: Derived(self, self.count.derived("jvp"), "jvp"), doc="Its tangents.")

    @property
    def __name__(self) -> str:
        return f"{self.kind} of {self.of.__name__}"

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def __call__(self, *arrays: Any) -> Any:
        """What it gives, as arrays."""
        return _run(self.stack, self.function, arrays)

    def function(self, *tensors: Tensor) -> list[Any]:
        """What it gives of tensors: of values, results and cotangents; or of values, results and tangents."""
        results = self.count.results(len(tensors))
        if self.kind == "vjp":
            gives = self.count.gives
            count = gives[0] * self.count.values + gives[1] * results
            own = (len(tensors) - count) // 2
            return self._pulled(tensors[:count], tensors[count + own :])
        takes, gives = self.count.takes, self.count.gives
        own = gives[0] * self.count.values + gives[1] * results
        count = (takes[0] * self.count.values + takes[1] * results - own) // 2
        return self._pushed(tensors[:count], tensors[count + own :])

    def _pulled(self, xs: Sequence[Tensor], gs: Sequence[Tensor]) -> list[Any]:
        """Cotangents, None where there is none; as any gradients of values they are values in turn."""
        given = [_moving(self.stack, x) for x in xs]
        moving = [x for x in given if _is_smooth(x)]
        pairs = [(y, g) for y, g in zip(self._values(given), gs, strict=True) if y is not None and _is_smooth(y)]
        found = iter(self.stack.gradients([y for y, _ in pairs], moving, cotangents=[g for _, g in pairs]))
        return [next(found) if _is_smooth(x) else None for x in given]

    def _pushed(self, xs: Sequence[Tensor], ts: Sequence[Tensor]) -> list[Any]:
        """Tangents: gradients are linear in cotangents, so that their gradients by these are tangents."""
        given = [_moving(self.stack, x) for x in xs]
        pairs = [(x, t) for x, t in zip(given, ts, strict=True) if _is_smooth(x)]
        values = self._values(given)
        ys = [y for y in values if y is not None and _is_smooth(y)]
        weights = [_moving(self.stack, self.stack.asarray(np.zeros(y.shape, y.dtype))) for y in ys]
        back = self.stack.gradients(ys, [x for x, _ in pairs], cotangents=weights)
        found = iter(self.stack.gradients(back, weights, cotangents=[t for _, t in pairs]))
        return [next(found) if y is not None and _is_smooth(y) else None for y in values]

    def _values(self, tensors: Sequence[Tensor]) -> list[Any]:
        return listed(self.stack, self.of.function(*tensors))


def listed(stack: Any, found: Any) -> list[Any]:
    """The results of a function, as tensors; None stays."""
    given = list(found) if isinstance(found, (tuple, list)) else [found]
    return [None if y is None else stack.asarray(y) for y in given]


def _run(stack: Any, function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """What a function of tensors gives, in a context of its own: nothing is traced there, and all is recorded."""

    def run() -> Any:
        found = function(*[_moving(stack, stack.asarray(each)) for each in arrays])
        return None if found is None else [None if y is None else y.numpy() for y in listed(stack, found)]

    return Context().run(run)


def _moving(stack: Any, x: Tensor) -> Tensor:
    """A value that takes gradients, unless it is of integers."""
    if not _is_smooth(x) or type(x.value) is Recorded:
        return x
    return Tensor(stack, stack.engine.recording.leaf(x.value))


def _is_smooth(x: Tensor) -> bool:
    return kind_of(x.dtype) in "fc"
