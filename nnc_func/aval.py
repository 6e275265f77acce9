"""Avals: what is known of a tensor without its elements."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets.dims import Dim, Extent, product, symbols_of


class Aval:
    """Shape and dtype of a tensor; an extent may be symbolic.

    Parameters
    ----------
    shape
        Extents; None makes a fresh unknown one, a string the dimension of that name.
    dtype
        Whatever ``numpy.dtype`` takes.

    Examples
    --------
    >>> Aval(("n", 784), "float32")
    float32[n, 784]
    >>> Aval((2, 3), "float64").nbytes
    48
    """

    __slots__ = ("_hash", "dtype", "shape")
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape = tuple(map(_extent, shape))
        self.dtype = np.dtype(dtype)
        if self.dtype.kind not in "biufc":
            raise DTypeError(f"tensors hold numbers and booleans, given dtype {self.dtype}")
        self._hash = hash((self.shape, self.dtype))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Aval)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Aval, (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return product(self.shape) * self.dtype.itemsize

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the unknown dimensions in the shape."""
        return symbols_of(self.shape)


def _extent(n: Any) -> Extent:
    if type(n) is int:
        return n
    if n is None:
        return Dim.fresh()
    if isinstance(n, str):
        return Dim.named(n)
    if isinstance(n, Dim):
        return n
    try:
        return operator.index(n)
    except TypeError:
        raise ShapeError(f"an extent is an integer, a name, or None, given {n!r}") from None
