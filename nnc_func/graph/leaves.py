"""Leaves of a graph: the operators without operands, and variables. They are symbols, not catalogue entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.errors import DTypeError, GraphError, ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.samples import Refused
from nnc_func.facets.views import free
from nnc_func.op import Op


def _leaf(name: str, doc: str, pure: bool, several: bool = False) -> Op:
    return Op(
        name=name,
        module=__name__,
        doc=doc,
        args=(),
        variadic=False,
        params={},
        converters={},
        shape=lambda **_: (),
        dtype=lambda **_: None,
        kernels=(),
        derivative=Constant("a leaf has no operands"),
        pure=pure,
        several=several,
        cost=free,
        onnx=Refused("a leaf is a graph input or an initializer, not an operator"),
    )


INPUT = input_ = _leaf("input", "A value that a caller gives.", pure=False)
VARIABLE = variable = _leaf("variable", "The value that a `Variable` has when a program starts.", pure=False)
CONSTANT = constant = _leaf("constant", "A value fixed when the graph was built.", pure=True)
HELD = held = _leaf("held", "Several values that were computed, kept by their holders.", pure=True, several=True)
LEAVES = frozenset((INPUT, VARIABLE, CONSTANT, HELD))


def owned(device: Any, value: Any, dtype: Any = None) -> Any:
    """A device array with that value, in C order, that nobody else holds: programs may write over it."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "dtype"):
        return device.asarray(np.array(value, dtype, order="C"), dtype)
    array = device.asarray(value, dtype)
    copy = getattr(array, "copy", None)
    return copy() if array is value and copy is not None else array


class Variable:
    """A named place for a value; its identity is the object, its value lives in it.

    Attributes
    ----------
    name
        Unique within one graph, checked when that is compiled.
    aval
        Shape and dtype; an assigned value must have both.
    array
        The device array. Programs may write over it: copy what you keep.
    """

    __slots__ = ("__weakref__", "_device", "array", "aval", "name", "version")

    def __init__(self, name: str, array: Any, aval: Aval, device: Any) -> None:
        self.name = name
        self.array = array
        self.aval = aval
        self.version = 0
        self._device = device

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.aval.dtype

    def assign(self, value: Any) -> None:
        """Give it another value, of the same shape and dtype. The value is copied.

        Raises
        ------
        ShapeError, DTypeError
            The value has another shape, or a dtype that does not cast to the variable's safely.
        """
        aval = self._device.aval(self._device.asarray(value))
        if aval.shape != self.aval.shape:
            raise ShapeError(f"variable {self.name!r} has shape {self.aval.shape}, given a value of {aval.shape}")
        if aval.dtype != self.aval.dtype and not np.can_cast(aval.dtype, self.aval.dtype, "same_kind"):
            raise DTypeError(f"variable {self.name!r} is {self.aval.dtype}, given {aval.dtype}; cast it first")
        self.array = owned(self._device, value, self.aval.dtype)
        self.version += 1

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.aval!r})"


def check_names(leaves: Any, what: str) -> None:
    """Raise GraphError where two different leaves of one graph have one name."""
    seen: dict[str, Any] = {}
    for leaf in leaves:
        name = leaf.data.name if leaf.op is VARIABLE else leaf.data
        if seen.setdefault(name, leaf) is not leaf:
            raise GraphError(f"two {what} named {name!r} in one graph; names tell them apart, so give one another name")
