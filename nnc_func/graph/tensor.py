"""Tensors: the handles that users hold. One class for every stack; what is inside is the stack's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import ref

import numpy as np

from nnc_func.errors import DeviceError, DTypeError, GraphError, OperatorError, TracingError
from nnc_func.graph.arithmetic import OPS, Arithmetic, sliced
from nnc_func.graph.leaves import CONSTANT, HELD, VARIABLE
from nnc_func.graph.node import Node, Result, Value
from nnc_func.op import Op


class Tensor(Arithmetic):
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

    __slots__ = ("__weakref__", "stack", "value")
    __array_priority__ = 100
    __hash__ = object.__hash__

    def __init__(self, stack: Any, value: Any) -> None:
        self.stack = stack
        self.value = value
        if type(value) in _WITH_AVAL:
            value.handle = ref(self)

    def _bind(self, op: Op, *args: Any, **params: Any) -> Any:
        return self.stack.bind(op, *args, **params)

    @property
    def aval(self) -> Any:
        """Shape and dtype."""
        return self.stack.aval(self)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents; an unknown one is symbolic."""
        value = self.value
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
            from nnc_func.errors import ShapeError

            raise ShapeError(f"item() wants a tensor of one element, given shape {array.shape}")
        return array.item()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        op = OPS.get(_BITWISE.get(ufunc.__name__, ufunc.__name__))
        if method != "__call__" or keywords or op is None:
            raise DTypeError(
                f"numpy.{ufunc.__name__} does not work on tensors of a stack; use stack.ops, or x.numpy() for its value"
            )
        return self._bind(op, *inputs)

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool(), if, while, and, or, not"))

    def __index__(self) -> int:
        found = self._scalar("an index")
        if not isinstance(found, int):
            raise DTypeError(f"an index is an integer, given {self.dtype}")
        return int(found)

    def _scalar(self, what: str) -> Any:
        try:
            return self.item()
        except TracingError as error:
            raise TracingError(
                f"{what} needs the elements of a tensor that is being traced, {self.aval!r}: {error}; "
                "use ops.where for a choice by elements, or pass what decides as a static argument"
            ) from None

    def __eq__(self, other: Any) -> Any:
        return self._bind(OPS["equal"], self, other)

    def __ne__(self, other: Any) -> Any:
        return self._bind(OPS["not_equal"], self, other)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor of rank 0")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        return sliced(self._bind, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "tensors are values: writing into one would be lost on a lazy stack; "
            "use x = ops.set_slice(x, value, starts=..., stops=..., steps=...), or ops.where"
        )

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """With its axes reversed."""
        return self._bind(OPS["permute_dims"], self, axes=None)

    def reshape(self, *shape: Any) -> Any:
        """The same elements in another shape; one extent may be -1."""
        return self._bind(OPS["reshape"], self, shape=shape[0] if len(shape) == 1 else shape)

    def astype(self, dtype: Any) -> Any:
        """Cast to another dtype."""
        return self._bind(OPS["cast"], self, dtype=dtype)

    def sum(self, axis: Any = None, keepdims: bool = False, **numpy: Any) -> Any:
        """Sum over axes."""
        _refuse_given("sum", numpy)
        return self._bind(OPS["sum"], self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False, **numpy: Any) -> Any:
        """Mean over axes."""
        _refuse_given("mean", numpy)
        return self._bind(OPS["mean"], self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False, **numpy: Any) -> Any:
        """Largest element over axes."""
        _refuse_given("max", numpy)
        return self._bind(OPS["max"], self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False, **numpy: Any) -> Any:
        """Smallest element over axes."""
        _refuse_given("min", numpy)
        return self._bind(OPS["min"], self, axis=axis, keepdims=keepdims)

    def __repr__(self) -> str:
        return f"Tensor({self.aval!r}{_shown(self)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


_WITH_AVAL = frozenset((Node, Result))
_BITWISE = {  # of booleans, what Python and NumPy call bitwise is logical
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor", "invert": "logical_not",
}  # fmt: skip


def _refuse_given(name: str, numpy: dict[str, Any]) -> None:
    """Refuse what ``numpy.sum(x)`` and the like hand on, unless it is None; it does so of dtype and out."""
    given = [keyword for keyword, value in numpy.items() if value is not None]
    if given:
        raise OperatorError(
            f"{name} of a tensor takes axis and keepdims, given {', '.join(given)}; use stack.ops.{name} and "
            "stack.ops.cast, or x.numpy() for its value"
        )


def listed(tensors: Any, what: str) -> Any:
    """What a list of tensors is wanted for, unless it is one tensor: going through its elements is something else.

    Raises
    ------
    GraphError
        It is one, or no list of anything.

    Examples
    --------
    >>> listed([], "inputs")
    []
    """
    if isinstance(tensors, Tensor):
        raise GraphError(f"{what} are a list of tensors, given one, {tensors!r}: put it into brackets")
    if isinstance(tensors, (str, bytes)) or not hasattr(tensors, "__iter__"):
        raise GraphError(f"{what} are a list of tensors, given {tensors!r}")
    return tensors


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
    """A tensor's value, or how it depends on what is not known."""
    value = x.value
    if isinstance(value, Value) and value.node.op not in (CONSTANT, HELD, VARIABLE):
        return f", {value.node.op.name}, not computed"
    if hasattr(value, "primal"):
        return ", traced"
    if isinstance(value, Tensor):
        return f", on {value!r}"
    try:
        found = np.asarray(x.numpy())
    except DeviceError:  # a device without elements
        return ""
    return ", " + np.array2string(found, threshold=20, separator=", ") if found.size <= 1000 else ""
