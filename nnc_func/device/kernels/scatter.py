"""Kernels that write at indices, and that count several indices as one. Of repeated indices the last one is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.device.kernels.index import INT64, check_range, from_front, keep
from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_in, dtype_of
from nnc_func.facets.shapes import normalise_axis

# --- one after the other, in any namespace ------------------------------------------------------------------


def one_by_one(combine: str | None) -> Any:
    """The reference: each update in turn, written or combined with what is there."""

    def compute(xp: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
        at = normalise_axis(axis, x.ndim)
        out = xp.asarray(x, copy=True)
        flat = xp.reshape(from_front(xp, indices, x.shape[at]), (-1,))
        rows = xp.reshape(converted(xp, updates, dtype_of(x)), (*x.shape[:at], flat.shape[0], *x.shape[at + 1 :]))
        front = (slice(None),) * at
        for i in range(flat.shape[0]):
            where = (*front, int(flat[i]), ...)
            row = rows[(*front, i, ...)]
            out[where] = row if combine is None else getattr(xp, combine)(out[where], row)
        return out

    return compute


# --- at once, on the host -----------------------------------------------------------------------------------


def _rows(xp: Any, arrays: Arrays, out: Any, axis: int) -> tuple[Any, Any, Any]:
    """The result with the axis in front, the flat indices, and the updates likewise; the result holds the argument."""
    x, indices, updates = arrays
    at = normalise_axis(axis, x.ndim)
    check_range(xp, indices, x.shape[at])
    keep(xp, x, out)
    rows = updates.reshape(*x.shape[:at], indices.size, *x.shape[at + 1 :])
    front = (at, *(i for i in range(x.ndim) if i != at))
    return out.transpose(front), indices.reshape(-1), rows.transpose(front)


def set_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """By assignment: NumPy goes through the indices in order, when it has checked them."""
    if axis == 0 and xp is np:
        (x, indices, updates), (out,) = arrays, outs
        keep(xp, x, out)
        try:
            out[indices] = updates
        except IndexError:
            check_range(xp, indices, x.shape[0])
            raise
        return
    out, where, rows = _rows(xp, arrays, outs[0], axis)
    out[where] = rows


def combining_into(ufunc: str) -> Any:
    """By ``ufunc.at``."""

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
        out, where, rows = _rows(xp, arrays, outs[0], axis)
        getattr(xp, ufunc).at(out, where, rows)

    return into


def set_on_gpu(xp: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """For each row the last update of it, found by a maximum: assignment on a GPU has no order."""
    at = normalise_axis(axis, x.ndim)
    check_range(xp, indices, x.shape[at])
    count = indices.size
    rows = updates.reshape(*x.shape[:at], count, *x.shape[at + 1 :])
    last = xp.full(x.shape[at], -1, np.int32)
    xp.maximum.at(last, indices.reshape(-1) % max(x.shape[at], 1), xp.arange(count, dtype=np.int32))
    if not count:
        return xp.array(x, order="C")
    found = xp.take(rows, xp.maximum(last, 0), axis=at)
    written = (last >= 0).reshape(*(1,) * at, -1, *(1,) * (x.ndim - at - 1))
    return xp.where(written, found, x)


# --- several indices as one ---------------------------------------------------------------------------------


def ravel_multi_index(xp: Any, *indices: Any, shape: Any) -> Any:
    """In any namespace: each is checked against its own axis first."""
    total: Any = None
    for index, extent, stride in zip(indices, shape, _strides(shape), strict=True):
        term = from_front(xp, index, extent) * stride
        total = term if total is None else total + term
    if total is None:
        return xp.zeros((), dtype=dtype_in(xp, INT64))
    total = converted(xp, xp.asarray(total), INT64)
    return xp.array(total, order="C") if xp.__name__ in NUMPY else total


def _strides(shape: Any) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
