"""Avals: what is known of a tensor without its elements."""

from __future__ import annotations

import operator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Dim, Extent, Extents, product, symbols_of
from nnc_func.facets.dtypes import REGISTERED, as_dtype, check_held
from nnc_func.facets.expressions import parsed
from nnc_func.facets.layouts import Layout, permutation, strides
from nnc_func.facets.places import Place
from nnc_func.garbage_collection import uncollected
from nnc_func.locks import forkable_lock

_made: WeakValueDictionary[Any, Aval] = WeakValueDictionary()
_making = forkable_lock()


class Aval:
    """Shape, dtype, layout and place of a tensor; an extent may be symbolic.

    Shape and axes are logical. The layout is the order in which the axes lie in memory wherever the value is computed
    into memory of its own; a view shows its base's memory, and its layout is a copy's. Equal avals are one object.

    Parameters
    ----------
    shape
        Extents; None makes a fresh unknown one, a string names one or is an expression of names: ``"2*n + 1"``.
    dtype
        Whatever ``numpy.dtype`` takes.
    layout
        The axes in the order in which they lie in memory, outermost first; None: row-major.
    place
        Which of the device's places, by name; None: its own, or its first.

    Examples
    --------
    >>> Aval(("n", 784), "float32")
    float32[n, 784]
    >>> Aval((2, 3), "float64").nbytes
    48
    >>> Aval((2, 3), "float64", layout=(1, 0), place="gpu")
    float64[2, 3]{1, 0} on gpu
    """

    __slots__ = ("__weakref__", "_size", "dtype", "layout", "place", "shape")
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    layout: Layout
    place: Place
    _size: Any  # None until somebody asks

    def __new__(cls, shape: Any, dtype: Any, layout: Layout = None, place: Place = None) -> Aval:
        """The one of these facts: equal ones are one object, so that they are compared and hashed by identity."""
        if type(shape) is tuple and isinstance(dtype, np.dtype) and (layout is None or type(layout) is tuple):
            for extent in shape:
                if type(extent) is not int and type(extent) is not Dim:
                    break
            else:
                found = _made.get((shape, dtype, layout, place))
                if found is not None:
                    return found
        shape = tuple(map(_extent, shape))
        dtype = as_dtype(dtype)
        layout = layout if layout is None else permutation(layout, len(shape))
        key = (shape, dtype, layout, place)
        found = _made.get(key)
        if found is None:
            if dtype.kind not in "biufc" or dtype.num >= REGISTERED:
                check_held(dtype)
            with uncollected(), _making:
                found = _made.get(key)
                if found is None:
                    found = object.__new__(cls)
                    found.shape = Extents(shape) if Dim in map(type, shape) else shape
                    found.dtype, found.layout, found.place, found._size = dtype, layout, place, None
                    _made[key] = found
        return found

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]{self.where}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Aval, (self.shape, self.dtype, self.layout, self.place)

    @property
    def where(self) -> str:
        """Layout and place as they are written behind dtype and shape: nothing where they are the usual ones."""
        order = "" if self.layout is None else f"{{{', '.join(map(str, self.layout))}}}"
        return order if self.place is None else f"{order} on {self.place}"

    def having(self, **facts: Any) -> Aval:
        """The same with another shape, dtype, layout or place.

        Examples
        --------
        >>> Aval((2, 3), "float64", place="gpu").having(shape=(6,))
        float64[6] on gpu
        """
        get = facts.pop
        found = get("shape", self.shape), get("dtype", self.dtype), get("layout", self.layout), get("place", self.place)
        return Aval(*found, **facts)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Bytes from one element to the next along each axis, of known extents; None for row-major."""
        return None if self.layout is None else strides(self.layout, self.shape, self.dtype.itemsize)

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        if self._size is None:
            self._size = product(self.shape)
        return self._size

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        size = self._size
        return (self.size if size is None else size) * self.dtype.itemsize

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
        return parsed(n)
    if isinstance(n, Dim):
        return n
    try:
        return operator.index(n)
    except TypeError:
        raise ShapeError(f"an extent is an integer, a name, or None, given {n!r}") from None
