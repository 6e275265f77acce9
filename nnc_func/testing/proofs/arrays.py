"""Lowerings interpreted by NumPy: what they say an operator computes, which tests compare with its kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnc_func.facets.lowering import Expression, IndexMap
from nnc_func.op import Op

Array = np.ndarray[Any, Any]


def lowered(op: Op, arrays: Sequence[Array], params: dict[str, Any]) -> Array:
    """What the lowering of an operator gives of arrays, element by element.

    Raises
    ------
    IndexError
        An index map reads where there is no element.
    LoweringError
        It says nothing of these dtypes.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> lowered(CATALOGUE["flip"], [np.arange(3)], {"axis": None})
    array([2, 1, 0])
    """
    shape = op.shape(*(x.shape for x in arrays), **params)
    if isinstance(op.lowering, Expression):
        found = op.lowering.function(Arrays(), *(np.broadcast_to(x, shape) for x in arrays), **params)
        return np.broadcast_to(found, shape)
    assert isinstance(op.lowering, IndexMap), f"{op.name} has no lowering"
    index = [i.reshape(-1) for i in np.indices(shape, dtype=np.int64)]
    points = math.prod(shape)
    algebra = Arrays(points)
    found = op.lowering.function(algebra, [Read(x, algebra) for x in arrays], shape, index, **params)
    return np.broadcast_to(found, (points,)).reshape(shape)


class Arrays:
    """The algebra of arrays: an element is an array of one for each point of the result, an index likewise."""

    def __init__(self, points: int = 1) -> None:
        self.asked = np.ones(points, bool)  # the points whose elements exist in the branch that is being taken

    @contextmanager
    def where(self, condition: Any) -> Iterator[None]:
        """In a branch that only some points take."""
        before = self.asked
        self.asked = before & condition
        yield
        self.asked = before

    def branch(self, condition: Any, a: Callable[[], Array], b: Callable[[], Array]) -> Array:
        """One of two elements, as a comparison of indices says."""
        with self.where(condition):
            chosen = a()
        with self.where(np.logical_not(condition)):
            return np.where(condition, chosen, b())

    def either(self, condition: Any, a: Any, b: Any) -> Any:
        """One of two indices, as a comparison says."""
        return np.where(condition, a, b)

    def whole(self, x: Array) -> Array:
        """An integer element as an index."""
        return x.astype(np.int64)

    def number(self, value: Any, dtype: Any) -> Array:
        """A Python number as an element of that dtype."""
        return np.array(value, dtype)

    def cast(self, x: Array, dtype: Any) -> Array:
        """The element in another dtype."""
        return x.astype(dtype)

    def negative(self, x: Array) -> Array:
        """The opposite."""
        return np.negative(x)

    def absolute(self, x: Array) -> Array:
        """The magnitude."""
        return np.abs(x)

    def sqrt(self, x: Array) -> Array:
        """The square root."""
        return np.sqrt(x)

    def rounded(self, x: Array, way: str) -> Array:
        """The nearest whole number that way: floor, ceil, trunc, rint."""
        return x if x.dtype.kind in "iu" else getattr(np, way)(x)

    def is_nan(self, x: Array) -> Array:
        """Whether it is no number."""
        return np.not_equal(x, x)

    def bit_not(self, x: Array) -> Array:
        """The other bits."""
        return np.invert(x)

    def select(self, condition: Array, a: Array, b: Array) -> Array:
        """One of two elements, as a truth value says."""
        return np.where(condition, a, b)


def _two(name: str, function: Any) -> Any:
    def operation(self: Arrays, a: Array, b: Array) -> Array:
        assert a.dtype == b.dtype, f"{name} of {a.dtype} and {b.dtype}: a lowering casts what meets"
        found: Array = function(a, b)
        return found

    return operation


for _name, _function in {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "less": np.less, "equal": np.equal,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "left_shift": np.left_shift, "right_shift": np.right_shift,
}.items():  # fmt: skip
    setattr(Arrays, _name, _two(_name, _function))


class Read:
    """An operand as an index map sees it: it refuses to be read where it has no elements."""

    def __init__(self, array: Array, algebra: Arrays) -> None:
        self.array, self.algebra = array, algebra
        self.shape, self.dtype = array.shape, array.dtype

    def __call__(self, index: Sequence[Any]) -> Array:
        asked, places = self.algebra.asked, []
        for i, n in zip(index, self.shape, strict=True):
            i = np.broadcast_to(np.asarray(i), asked.shape)
            if np.any(asked & ((i < 0) | (i >= n))):
                raise IndexError(f"an index map reads at {i[asked]} of an axis of extent {n}")
            places.append(np.where(asked, i, 0))
        if not self.array.size:
            return np.zeros(asked.shape, self.dtype)
        return np.broadcast_to(self.array[tuple(places)], asked.shape)

    def flat(self, position: Any) -> Array:
        """The element at a row-major position."""
        return Read(self.array.reshape(-1), self.algebra)([position])
