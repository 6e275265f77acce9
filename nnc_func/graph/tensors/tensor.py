"""Tensors: the handles that users hold. One class for every stack; what is inside is the stack's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DeviceError, DTypeError, GraphError, NncError, ShapeError, TracingError
from nnc_func.facets.dims import known
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.leaves import CONSTANT, HELD, VARIABLE, Variable
from nnc_func.graph.node import InternTable, Node, Result, Value, leaves
from nnc_func.graph.origin import describe, origin
from nnc_func.graph.pauses import paused_here
from nnc_func.graph.tensors import bridges
from nnc_func.graph.tensors.arithmetic import OPS, matrix_product
from nnc_func.graph.tensors.numpy_methods import Methods
from nnc_func.graph.tensors.promise import Promise
from nnc_func.locks import forkable_lock

INSTEAD = {
    "bool()": "choose with stack.cond(pred, then, else_), go on with stack.while_loop, or let stack.jit(f, "
    "control_flow=True) write these; choose element by element with ops.where",
    "an index": "take elements with ops.take, choose functions with stack.case_of, and count with stack.fori",
    "": "compute with the tensor itself, or cast it with x.astype",
}  # of what Python asks, by how that begins: what to write in its place


class Tensor(Methods):
    """A value of a stack, with Python's operators.

    Attributes
    ----------
    stack
        The stack that applies operators to it.
    value
        A device array, a graph value, a `Variable`, or a value under differentiation.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().asarray([1.0, 2.0])
    >>> (x * x + 1).numpy()
    array([2., 5.])
    """

    __slots__ = ("__weakref__", "exports", "hold", "stack", "value")
    __array_priority__ = 100

    def __hash__(self) -> int:
        """By identity: two tensors are two keys.

        Raises
        ------
        TracingError
            It stands for a number in converted code (`control_flow/conversion`), which Python would hash as such.
        """
        listener = written.get()
        return object.__hash__(self) if listener is None or self.shape else listener.key(self)

    def __init__(self, stack: Any, value: Any) -> None:
        self.stack = stack
        self.value = value
        self.hold = value.hold() if type(value) in _WITH_AVAL else None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What is not there: the node of a result that `showing` gave, made now that it is first needed.

            Or what was promised, which is computed then.
            """
            pending = self.hold if name == "value" else None
            if type(pending) is Promise:
                self.value = pending.kept()
                self.hold = None
                return self.value
            if type(pending) is not tuple:
                return super().__getattr__(name)  # which says what is wrong
            with uncollected(), _making:
                if self.hold is pending:  # no other thread was first
                    array, avals, where, table = pending
                    (self.value,) = leaves(table, CONSTANT, (avals,), where, (array,))
                    self.hold = None
            return self.value

    _bind = property(attrgetter("stack.bind"))  # no frame of Python's between an operator and the stack

    @property
    def aval(self) -> Any:
        """Shape and dtype."""
        return self.stack.aval(self)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents; an unknown one is symbolic."""
        hold = self.hold
        if type(hold) is Promise:
            return hold.aval.shape  # type: ignore[no-any-return]
        value = self.value
        if type(value) is np.ndarray:
            return value.shape  # type: ignore[no-any-return]
        return value.aval.shape if type(value) in _WITH_AVAL else self.stack.aval(self).shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.stack.aval(self).dtype

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self.stack.aval(self).size

    def numpy(self) -> Any:
        """Its value on the host, as a NumPy array that is the caller's own.

        Raises
        ------
        UnboundError
            It depends on an input, which has no value outside of a program's call.
        TracingError
            It is being traced by grad, jvp or jit.
        """
        return self.stack.to_numpy(self)

    def item(self) -> Any:
        """Its one element as a Python number.

        Raises
        ------
        ShapeError
            It has more than one element, or none.
        """
        array = self.numpy()
        if array.size != 1:
            raise ShapeError(f"item() wants a tensor of one element, given shape {array.shape}")
        return array.item()

    def detach(self) -> Tensor:
        """The same value as a constant: no gradient flows to what it was made of, and a dynamic stack forgets that.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().grad(lambda x: x * x.detach())(3.0).item()
        3.0
        """
        if type(self.hold) is Promise:
            with uncollected(), self.stack.no_grad():  # which is not for a finaliser
                constantly: Tensor = self._bind(OPS["stop_gradient"], self)
            return constantly
        found: Tensor = self._bind(OPS["stop_gradient"], self)
        constant = getattr(found.value, "detached", None)
        return found if constant is None else Tensor(found.stack, constant)

    # --- bridges to other libraries -------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return bridges.as_numpy(self, dtype, copy)

    @property
    def __array_interface__(self) -> Any:
        return bridges.interface(self, "__array_interface__")

    @property
    def __cuda_array_interface__(self) -> Any:
        return bridges.interface(self, "__cuda_array_interface__")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        op = OPS.get(ufunc.__name__)
        if op is not None and method == "__call__" and not keywords and ufunc is not np.matmul:
            return self._bind(op, *inputs)
        return self.stack.array_api.numpy_ufunc(ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return self.stack.array_api.numpy_function(function, args, keywords)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return self.stack.array_api.of_version(api_version)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return bridges.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> Any:
        return bridges.placed(self)

    @property
    def device(self) -> str:
        """Which of its stack's devices it is on, by name."""
        return str(self.aval.place or self.stack.array_api.places[0])

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The same value on another device of its stack.

        Raises
        ------
        DeviceError
            There is no such device, or a stream is given.
        """
        return bridges.moved(self, device, stream)

    # --- Python's numbers -----------------------------------------------------------------------------

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool(), if, while, and, or, not", "; use x.any() or x.all(), and & | ~"))

    def __index__(self) -> int:
        found = self._scalar("an index")
        if type(found) is not int:
            raise DTypeError(f"an index is an integer, given {self.dtype}")
        return int(found)

    def _scalar(self, what: str, advice: str = "") -> Any:
        try:
            array = self.numpy()
        except TracingError:
            line = describe(origin())
            remedy = next((said for start, said in INSTEAD.items() if what.startswith(start)), INSTEAD[""])
            raise TracingError(
                f"{what} needs the elements of a tensor that is being traced, {self.aval!r}"
                f"{f' (at {line})' if line else ''}, which are not known: {remedy}, or pass what decides as a static "
                "argument"
            ) from None
        if array.size != 1:
            raise ShapeError(f"{what} wants a tensor of one element, given shape {array.shape}{advice}")
        return array.item()

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None or type(other) is str else self._bind(OPS["equal"], self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None or type(other) is str else self._bind(OPS["not_equal"], self, other)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor of rank 0; x.item() is its number")
        return int(self._extent("len()"))

    def _extent(self, what: str) -> Any:
        """The first extent, which is to be known."""
        extent = self.shape[0]
        if not known(extent):
            raise ShapeError(
                f"{what} of a tensor of shape {self.shape}: its first extent, {extent}, is not known before the "
                "program is called. Compute with x.shape[0], apply operators to the whole axis (a sum, a scan), or "
                "give the input a known extent"
            )
        return extent

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no elements to go through; x.item() is its number")
        return iter([self[i] for i in range(self._extent("going through the rows"))])

    def _logic(self, name: str) -> Any:
        return OPS[_BITWISE[name]] if self.dtype.kind in "iu" else OPS[f"logical_{name}"]

    def __pos__(self) -> Any:
        if paused_here():  # an operator, which is recorded or not as all others are
            return self._bind(OPS["cast"], self, dtype=self.dtype)
        if type(self.hold) is Promise:
            return self.__copy__()
        value = self.value
        return Tensor(self.stack, self.stack.value_of(value) if type(value) is Variable else value)

    # --- copies: values are never written into, so that handles may share them -------------------------

    def __copy__(self) -> Any:
        if paused_here():
            return +self
        hold = self.hold
        if type(hold) is not Promise:
            return Tensor(self.stack, self.value)
        found = object.__new__(Tensor)
        found.stack, found.hold = self.stack, hold
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        value = self.value
        if isinstance(value, Value) or hasattr(value, "primal"):
            return self.__copy__()
        build, arguments = self.__reduce__()
        found = memo[id(self)] = build(*arguments)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        value, place = self.value, self.aval.place
        try:
            array = self.numpy()
        except NncError as error:
            raise GraphError(f"a tensor is pickled as its value: {error}; graph.save(path) keeps a graph") from None
        if type(value) is Variable:
            return bridges.variable, (self.stack, value.name, array, place)
        return bridges.value, (self.stack, array, place)

    def __matmul__(self, other: Any) -> Any:
        return matrix_product(self._bind, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matrix_product(self._bind, other, self)

    def __getitem__(self, key: Any) -> Any:
        from nnc_func.graph.composites.keys import indexed

        found = indexed(self.stack.ops.functions, self, key)
        return +self if found is self else found  # which may be written into

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write into it, as a value may be written into: this handle gets another value, others keep theirs."""
        from nnc_func.graph.composites.keys import index_updated

        if type(self.value) is Variable:
            raise GraphError(
                f"{self.value!r} is a name for a place: give it a value with w.value.assign(...) or as an update of a "
                "program, or write into a value of its own, y = w + 0"
            )
        given: Any = value if isinstance(value, NUMBERS) else self._fitting(self.stack.asarray(value))
        before, hold, told = self.value, self.hold, written.get()
        found = index_updated(self.stack.ops.functions, self, key, given)
        self.value = after = (+found).value if found is given else found.value
        self.hold = after.hold() if type(after) in _WITH_AVAL else None
        if told is not None:
            told(self, before, hold)

    def _fitting(self, value: Tensor) -> Tensor:
        given, wanted = value.dtype, self.dtype
        return value.astype(wanted) if given != wanted and np.can_cast(given, wanted, "same_kind") else value

    def __contains__(self, value: Any) -> bool:
        return bool(self._bind(OPS["any"], self == value))

    # --- as an expression -----------------------------------------------------------------------------

    def simplify(self, numerics: Any = None, *, fast_math: bool | None = None) -> Tensor:
        """The expression simplified by the rules of algebra; the numerics are those of the stack unless given.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> x = nnc.lazy().input("x", (), "float64")
        >>> print((-(-x) * 1 + x).simplify().to_formula())
        2*x
        """
        if type(self.value) not in (Node, Result):
            return self
        from nnc_func.graph.formulas.simplification import simplified

        (found,) = simplified(self.stack.optimiser, [self.value], numerics, fast_math)
        return Tensor(self.stack, found)

    def to_formula(self) -> Any:
        """The expression as it is read: `str` of it is text, ``to_latex()`` LaTeX.

        Raises
        ------
        GraphError
            It is an array, not an expression.
        """
        from nnc_func.graph.formulas.formula import formula

        if type(self.value) not in (Node, Result):
            raise GraphError(f"{self!r} is a value, not an expression; a lazy stack builds expressions of its inputs")
        return formula(self.value)

    def _repr_latex_(self) -> str | None:
        from nnc_func.graph.formulas.simplification import is_small

        return self.to_formula()._repr_latex_() if is_small(self.value) else None

    def __repr__(self) -> str:
        plain, listener = f"Tensor({self.aval!r}{_shown(self)})", written.get()
        return plain if listener is None or self.shape else listener.text(self, plain, sys._getframe(1).f_code)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


_BITWISE = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_invert"}
NUMBERS = (bool, int, float, complex)
SHOWN = 1000  # elements of a tensor that is printed with its value
_WITH_AVAL = frozenset((Node, Result))
written: ContextVar[Any] = ContextVar("written", default=None)
"""Is called with each tensor that was written into, the value that it had, and what held that.

Its methods `key` and `text` give the hash and the text of a tensor of one element.
"""
_making = forkable_lock()  # of results' nodes; amid it the collector may run what needs another


def showing(stack: Any, table: InternTable, avals: Sequence[Any]) -> Callable[[Sequence[Any]], list[Tensor]]:
    """What makes of arrays of these avals tensors of a stack that show them: each a constant, its own node.

    The node is made when it is first needed: until then `hold` is what it is made of, the array first. Whether a user
    holds a constant nobody asks: it has nothing to compute and nothing to forget.
    """
    facts, blank = [(aval,) for aval in avals], object.__new__

    def shown(arrays: Sequence[Any]) -> list[Tensor]:
        found, where = [], origin(within=3)
        for its, array in zip(facts, arrays, strict=True):
            tensor = blank(Tensor)
            tensor.stack, tensor.hold = stack, (array, its, where, table)
            found.append(tensor)
        return found

    return shown


def listed(tensors: Any, what: str) -> Any:
    """What a list of tensors is wanted for, unless it is one tensor: going through its elements is something else.

    Raises
    ------
    GraphError
        It is one, or no list of anything.

    Examples
    --------
    >>> listed((n for n in "ab"), "inputs")
    ['a', 'b']
    """
    if isinstance(tensors, Tensor):
        raise GraphError(f"{what} are a list of tensors, given one, {tensors!r}: put it into brackets")
    if isinstance(tensors, (str, bytes, type)) or not hasattr(tensors, "__iter__"):
        raise GraphError(f"{what} are a list of tensors, given {tensors!r}")
    if isinstance(tensors, (tuple, list)):
        return tensors
    try:
        return [*tensors]
    except (TypeError, RuntimeError) as error:  # an array without axes, say
        raise GraphError(f"{what} are a list of tensors, given {tensors!r}: {error}") from None


def paired(updates: Any) -> list[tuple[Any, Any]]:
    """Pairs (variable, new value), of a mapping or a list of them.

    Raises
    ------
    GraphError
        It is neither.

    Examples
    --------
    >>> paired({"w": 1})
    [('w', 1)]
    """
    found = list(updates.items() if isinstance(updates, Mapping) else listed(updates, "updates"))
    for pair in found:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise GraphError(f"updates are pairs of a variable and its new value, {{variable: value}}, given {pair!r}")
    return found


def _shown(x: Tensor) -> str:
    """A tensor's value, computed if it is small; or how it depends on what is not known."""
    value = x.value
    waiting = type(value) in _WITH_AVAL and value.node.op not in (CONSTANT, HELD, VARIABLE)
    later = f", {value.node.op.name}, not computed" if waiting else ""
    if waiting and not (known(x.size) and x.size <= SHOWN):
        return later
    if hasattr(value, "primal"):
        return ", traced"
    if isinstance(value, Tensor):
        return f", on {value!r}"
    try:
        found = np.asarray(x.numpy())
    except DeviceError:  # a device without elements
        return later
    except NncError:  # it depends on an input, or cannot be computed: what asks for its value is told why
        if not waiting:
            raise
        return later
    return ", " + np.array2string(found, threshold=20, separator=", ") if found.size <= SHOWN else ""
