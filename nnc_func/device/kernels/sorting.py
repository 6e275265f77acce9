"""Kernels that sort and search. Descending order is ascending order seen from the end, so that it is stable as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_in, dtype_of
from nnc_func.facets.shapes import normalise_axis

INT64 = np.dtype("int64")


def ordered(xp: Any, x: Any) -> Any:
    """The array in a dtype that the standard sorts: its own, but for booleans."""
    return converted(xp, x, np.dtype("int8")) if dtype_of(x).kind == "b" else x


def _turned(x: Any, axis: int) -> Any:
    return x[(*(slice(None),) * normalise_axis(axis, x.ndim), slice(None, None, -1), ...)]


def sort(xp: Any, x: Any, *, axis: int, descending: bool) -> Any:
    """In any namespace; CuPy sorts with NumPy's words, and stably always."""
    if xp.__name__ not in NUMPY:
        if dtype_of(x).kind == "c":
            return xp.take_along_axis(x, sorting_order(xp, x, axis=axis, descending=descending), axis=axis)
        found = xp.sort(ordered(xp, x), axis=axis, descending=descending, stable=True)
        return converted(xp, found, dtype_of(x))
    if not descending:
        return xp.sort(x, axis=axis)
    return xp.ascontiguousarray(_turned(xp.sort(_turned(x, axis), axis=axis), axis))


def sort_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int, descending: bool) -> None:
    """Of `sort`, where the result stands."""
    if outs[0] is not arrays[0]:
        xp.copyto(outs[0], arrays[0])
    (_turned(outs[0], axis) if descending else outs[0]).sort(axis=axis, kind="stable")


def sort_numpy(xp: Any, x: Any, *, axis: int, descending: bool) -> Any:
    """Of `sort_into`."""
    out = xp.array(x, order="C")
    sort_into(xp, (out,), (out,), (), axis=axis, descending=descending)
    return out


def sorting_order(xp: Any, x: Any, *, axis: int, descending: bool) -> Any:
    """In any namespace."""
    if xp.__name__ not in NUMPY:
        if dtype_of(x).kind == "c":
            return _complex_order(xp, x, axis, descending)
        found = xp.argsort(ordered(xp, x), axis=axis, descending=descending, stable=True)
        return converted(xp, found, INT64)
    words = {"kind": "stable"} if xp is np else {}
    if not descending:
        return xp.asarray(xp.argsort(x, axis=axis, **words), INT64)
    found = _turned(xp.argsort(_turned(x, axis), axis=axis, **words), axis)
    return xp.asarray(x.shape[axis] - 1 - found, INT64, order="C")


def _complex_order(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """As NumPy orders complex numbers: key after key, the last one first, each sorting stably."""
    real, imag = xp.real(x), xp.imag(x)
    order = None
    for key in (imag, real, xp.isnan(imag), xp.isnan(real)):
        words = ordered(xp, key if order is None else xp.take_along_axis(key, order, axis=axis))
        step = xp.argsort(words, axis=axis, descending=descending, stable=True)
        order = step if order is None else xp.take_along_axis(order, step, axis=axis)
    return converted(xp, order, INT64)


def kth(xp: Any, x: Any, *, k: int, axis: int, keepdims: bool) -> Any:
    """In any namespace: of the sorted axis."""
    at = normalise_axis(axis, x.ndim)
    found = sort(xp, x, axis=at, descending=False)[(*(slice(None),) * at, k % x.shape[at], ...)]
    return xp.asarray(xp.expand_dims(found, axis=at) if keepdims else found, copy=True)


def kth_numpy(xp: Any, x: Any, *, k: int, axis: int, keepdims: bool) -> Any:
    """By selection, in time proportional to the axis."""
    at = normalise_axis(axis, x.ndim)
    found = xp.take(xp.partition(x, k, axis=at), [k], axis=at)
    return found if keepdims else found[(*(slice(None),) * at, 0, ...)].copy()


def first_order(xp: Any, x: Any, *, k: int, axis: int, largest: bool) -> Any:
    """In any namespace: the beginning of the order of all."""
    order = sorting_order(xp, x, axis=axis, descending=largest)
    return xp.asarray(order[(*(slice(None),) * normalise_axis(axis, x.ndim), slice(0, k), ...)], copy=True)


def first_order_numpy(xp: Any, x: Any, *, k: int, axis: int, largest: bool) -> Any:
    """What comes before the k-th element, and as many of its equals as are wanted, the first ones; these are sorted."""
    at, n = normalise_axis(axis, x.ndim), x.shape[axis]
    if k == 0 or 2 * k >= n:
        return first_order(xp, x, k=k, axis=axis, largest=largest)
    rows = xp.moveaxis(x, at, -1)
    place = n - k if largest else k - 1
    kth = xp.partition(rows, place, axis=-1)[..., place : place + 1]
    before, equal = (rows > kth) if largest else (rows < kth), rows == kth
    if x.dtype.kind == "f":  # NaN is larger than any number, and equal to NaN
        missing, is_missing = xp.isnan(rows), xp.isnan(kth)
        before |= (missing & ~is_missing) if largest else (~missing & is_missing)
        equal |= missing & is_missing
    wanted = k - before.sum(axis=-1, keepdims=True)
    before |= equal & (xp.cumsum(equal, axis=-1) <= wanted)
    places = xp.nonzero(before)[-1].reshape(*rows.shape[:-1], k)
    order = sorting_order(xp, xp.take_along_axis(rows, places, axis=-1), axis=-1, descending=largest)
    return xp.moveaxis(xp.take_along_axis(places, order, axis=-1), -1, at)


def searchsorted(xp: Any, x: Any, values: Any, *, side: str) -> Any:
    """In any namespace."""
    common = np.result_type(dtype_of(x), dtype_of(values))
    if common.kind == "b":
        common = np.dtype("int8")
    found = xp.searchsorted(converted(xp, x, common), converted(xp, values, common), side=side)
    return converted(xp, xp.asarray(found), INT64)


def flatnonzero(xp: Any, x: Any, *, size: int, fill: int) -> Any:
    """In any namespace: the first `size` positions, and `fill` where there are not as many."""
    found = xp.nonzero(xp.reshape(x, (-1,)))[0]
    found = found[: min(size, found.shape[0])]
    missing = size - found.shape[0]
    if not missing:
        return xp.asarray(found, dtype=dtype_in(xp, INT64), copy=True)
    rest = xp.full((missing,), fill, dtype=dtype_in(xp, INT64))
    return xp.concat([converted(xp, found, INT64), rest])


# --- what they take for themselves -------------------------------------------------------------------------


def order_private(avals: Arrays, *, axis: int, descending: bool) -> int:
    """The order, twice where it is turned round, and half a row while NumPy merges."""
    (x,) = avals
    row = x.shape[normalise_axis(axis, x.ndim)] if x.ndim else 1
    return int((1 + descending) * x.size * INT64.itemsize + row * INT64.itemsize // 2)


def kth_private(avals: Arrays, **_: Any) -> int:
    """A copy that is partly sorted."""
    return int(avals[0].nbytes)


def first_order_private(avals: Arrays, *, k: int, axis: int, largest: bool) -> int:
    """A copy that is partly sorted, three masks, and numbers of equals twice; where much is wanted, all is sorted."""
    (x,) = avals
    if k == 0 or 2 * k >= x.shape[axis]:
        return order_private(avals, axis=axis, descending=largest)
    return int(x.nbytes + x.size * (3 + 2 * INT64.itemsize))


def searchsorted_private(avals: Arrays, **_: Any) -> int:
    """The result, and what is converted."""
    x, values = avals
    dtype = np.result_type(x.dtype, values.dtype)
    converts = sum([a.size * dtype.itemsize for a in avals if a.dtype != dtype])
    return int(values.size * INT64.itemsize + converts)


def flatnonzero_private(avals: Arrays, *, size: int, **_: Any) -> int:
    """The positions, and as many once they are filled up."""
    return 2 * size * INT64.itemsize
