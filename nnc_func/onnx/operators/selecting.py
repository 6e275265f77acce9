"""Elements by index: gathering, scattering, slices, padding, and what is chosen by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.onnx.table import onnx_operator

MODES = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _mode(reduction: str) -> str:
    if reduction not in MODES:
        raise OnnxError(f"reduction is one of {', '.join(MODES)}, given {reduction!r}")
    return MODES[reduction]


@onnx_operator("Gather", since=(1, 11, 13))
def gather(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Elements of one axis."""
    return o.take(x, indices, axis=o.axis(axis, len(x.shape)))


@onnx_operator("GatherElements", since=(11, 13))
def gather_elements(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """For each index the element at its own place, but for one axis."""
    at = o.axis(axis, len(x.shape))
    return o.take_along_axis(_within(o, x, indices.shape, at), indices, axis=at)


def _within(o: Any, x: Any, shape: tuple[Any, ...], axis: int) -> Any:
    """The part of `x` that indices of that shape may read: only along the axis it may be larger."""
    if len(shape) != len(x.shape):
        raise OnnxError(f"indices of rank {len(shape)} into a tensor of rank {len(x.shape)}")
    key = tuple(slice(None) if i == axis or m == n else slice(0, n) for i, (m, n) in enumerate(_both(x, shape)))
    return x if all(s == slice(None) for s in key) else o.index(x, key=key)


def _both(x: Any, shape: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return list(zip(x.shape, shape, strict=True))


@onnx_operator("GatherND", since=(11, 12, 13))
def gather_nd(o: Any, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """Slices by whole indices; the first axes of both may be batches."""
    if not 0 <= batch_dims < min(len(x.shape), len(indices.shape)):
        raise OnnxError(f"batch_dims={batch_dims} of ranks {len(x.shape)} and {len(indices.shape)}")
    if batch_dims:
        batch = tuple(x.shape[:batch_dims])
        numbers = [_numbers(o, n, i, len(indices.shape)) for i, n in enumerate(batch)]
        shape = (*indices.shape[:-1], 1)
        indices = o.concat(*(o.broadcast_to(n, shape=shape) for n in numbers), indices, axis=-1)
    return o.gather_nd(x, indices)


def _numbers(o: Any, extent: Any, axis: int, rank: int) -> Any:
    """0, 1, 2… along one axis."""
    return o.reshape(o.arange(start=0, stop=extent), shape=tuple(extent if i == axis else 1 for i in range(rank)))


@onnx_operator("Scatter", since=(9, 11))
@onnx_operator("ScatterElements", since=(11, 13, 16, 18))
def scatter_elements(o: Any, x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    """Updates where `gather_elements` would read."""
    at, mode, rank = o.axis(axis, len(x.shape)), _mode(reduction), len(x.shape)
    if len(indices.shape) != rank or tuple(indices.shape) != tuple(updates.shape):
        raise ShapeError(
            f"indices {tuple(indices.shape)} and updates {tuple(updates.shape)} have one shape, of rank {rank}"
        )
    places = [
        indices if i == at else o.broadcast_to(_numbers(o, n, i, rank), shape=indices.shape)
        for i, n in enumerate(indices.shape)
    ]
    whole = o.stack(*(o.cast(p, dtype="int64") for p in places), axis=-1)
    return o.scatter_nd(x, whole, updates, mode=mode)


@onnx_operator("ScatterND", since=(11, 13, 16, 18))
def scatter_nd(o: Any, x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    """Updates where `gather_nd` would read."""
    return o.scatter_nd(x, indices, updates, mode=_mode(reduction))


FAR = 10**9
"""An end of a slice that is meant to be behind every axis."""

# --- slices ------------------------------------------------------------------------------------------------


def _sliced(o: Any, x: Any, starts: Sequence[Any], ends: Sequence[Any], axes: Any, steps: Any) -> Any:
    listed = o.axes(range(len(starts)) if axes is None else axes, len(x.shape))
    by = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(listed) == len(by):
        raise OnnxError(f"starts {starts}, ends {ends}, axes {listed} and steps {by} are as many as each other")
    if any(known(s) and s == 0 for s in by):
        raise OnnxError(f"steps are not 0, given {tuple(by)}")
    key: list[Any] = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(listed, starts, ends, by, strict=True):
        key[axis] = slice(start, end, step)
        if known(x.shape[axis]) and all(map(known, (start, end, step))):
            key[axis] = _settled(key[axis], x.shape[axis])
        elif known(end) and abs(end) >= FAR:
            key[axis] = slice(start, None, step)
    return o.index(x, key=tuple(key))


def _settled(part: slice, extent: int) -> slice:
    """The same without negative numbers; a start in front of the axis is its first element, backwards too."""
    begin = part.start if part.start is None or part.start >= -extent else 0
    start, stop, step = slice(begin, part.stop, part.step).indices(extent)
    return slice(max(start, 0), None if stop < 0 else stop, step)


@onnx_operator("Slice", since=1)
def slice_by_attributes(
    o: Any, x: Any, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Any:
    """A part of some axes."""
    return _sliced(o, x, starts, ends, axes, None)


@onnx_operator("Slice", since=(10, 11, 13), known=("starts", "ends", "axes", "steps"))
def slice_(o: Any, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """A strided part of some axes."""
    first, last = o.integers(starts), o.integers(ends)
    return _sliced(o, x, first, last, axes, None if steps is None else o.integers(steps))


@onnx_operator("Trilu", since=14, known=("k",))
def trilu(o: Any, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    """The upper or lower triangles of matrices."""
    listed = (0,) if k is None else o.integers(k)
    if len(listed) != 1:
        raise OnnxError(f"k is one number, given {len(listed)}")
    (at,) = listed
    return (o.triu if upper else o.tril)(x, k=at)


# --- padding -----------------------------------------------------------------------------------------------


def _padded(o: Any, x: Any, pads: Sequence[Any], axes: Sequence[int], mode: str, value: Any) -> Any:
    rank, count = len(x.shape), len(axes)
    if len(pads) != 2 * count:
        raise OnnxError(f"pads {tuple(pads)}: two for each of {count} axes")
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pairs[axis] = (pads[i], pads[i + count])
    cut = tuple(slice(max(0, -a), None if b >= 0 else b) if known(a) and known(b) else slice(None) for a, b in pairs)
    if any(part != slice(0, None) and part != slice(None) for part in cut):
        x = o.index(x, key=cut)
    widths = tuple((max(0, a), max(0, b)) if known(a) and known(b) else (a, b) for a, b in pairs)
    o.sized([a + n + b for n, (a, b) in zip(x.shape, widths, strict=True)])
    if mode == "constant":
        return _with_value(o, x, widths, value)
    if mode not in ("edge", "reflect", "wrap"):
        raise OnnxError(f"mode is constant, edge, reflect or wrap, given {mode!r}")
    return o.pad_mode(x, widths=widths, mode=mode)


def _with_value(o: Any, x: Any, widths: Any, value: Any) -> Any:
    if value is None:
        return o.pad(x, widths=widths)
    if o.is_known(value):
        return o.pad(x, widths=widths, value=o.known(value).ravel()[0].item())
    inside = o.pad(o.full(shape=x.shape, value=True, dtype="bool"), widths=widths, value=False)
    return o.where(inside, o.pad(x, widths=widths), o.reshape(value, shape=()))


@onnx_operator("Pad", since=(2,))
def pad_by_attributes(o: Any, x: Any, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Any:
    """With elements put around, or taken away."""
    return _padded(o, x, pads, range(len(x.shape)), mode, o.tensor(np.array(value, x.dtype)))


@onnx_operator("Pad", since=(11, 13, 18, 19, 21, 23, 24, 25), known=("pads", "axes"))
def pad(o: Any, x: Any, pads: Any, constant_value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    """With elements put around, or taken away."""
    rank = len(x.shape)
    listed = range(rank) if axes is None else o.axes(axes, rank)
    return _padded(o, x, o.integers(pads), listed, mode, constant_value)


# --- by value ----------------------------------------------------------------------------------------------


@onnx_operator("OneHot", since=(9, 11, 28), known=("depth",))
def one_hot(o: Any, indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    """The second of two values at the index along a new axis, and the first elsewhere."""
    if depth.size != 1 or tuple(values.shape) != (2,):
        raise OnnxError(f"depth is one number and values are two, given {depth.size} and {tuple(values.shape)}")
    count = int(depth.ravel()[0]) if depth.dtype != object else depth.ravel()[0]
    o.sized((*indices.shape, count))
    rank = len(indices.shape) + 1
    at = o.axis(axis, rank)
    places = o.expand_dims(o.cast(indices, dtype="int64"), axis=at)
    wrapped = o.where(o.less(places, 0), o.add(places, o.full(shape=(), value=count, dtype="int64")), places)
    hit = o.equal(wrapped, _numbers(o, count, at, rank))
    off, on = o.unstack(values, axis=0)
    return o.where(hit, on, off)


@onnx_operator("NonZero", since=(9, 13), known=("x",))
def nonzero(o: Any, x: Any) -> Any:
    """Where elements are not zero: a row of indices for each axis."""
    if not x.ndim:
        return o.tensor(np.zeros((0, int(bool(x))), np.int64))
    return o.stack(*o.nonzero(o.tensor(x)), axis=0)


@onnx_operator("Compress", since=(9, 11, 28), known=("condition",))
def compress(o: Any, x: Any, condition: Any, *, axis: int | None = None) -> Any:
    """The slices of an axis, or the elements, where a condition is true."""
    at = 0 if axis is None else o.axis(axis, len(x.shape))
    flat = o.reshape(x, shape=(-1,)) if axis is None else x
    return o.take(flat, o.tensor(np.flatnonzero(condition)), axis=at)


def _top(o: Any, x: Any, k: Any, axis: int, largest: int) -> Any:
    at = o.axis(axis, len(x.shape))
    if type(k) is not int or k < 0 or (known(x.shape[at]) and k > x.shape[at]):
        raise OnnxError(f"the {k} largest of {x.shape[at]}")
    return o.top_k(x, k=k, axis=at, largest=bool(largest))


@onnx_operator("TopK", since=1, multi_result=True)
def top_k_by_attribute(o: Any, x: Any, *, k: int, axis: int = -1) -> Any:
    """The largest elements along an axis, and where they stand."""
    return _top(o, x, k, axis, 1)


@onnx_operator("TopK", since=(10, 11, 24), known=("k",), multi_result=True)
def top_k(o: Any, x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The largest or smallest elements along an axis, and where they stand."""
    if k.size != 1:
        raise OnnxError(f"K is one number, given {k.size}")
    return _top(o, x, o.integers(k)[0], axis, largest)


@onnx_operator("Unique", since=(11, 28), known=("x",), multi_result=True)
def unique(o: Any, x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The different elements, or slices of an axis; where each first stands, which it is, how often each occurs."""
    if axis is None:
        values, first, which, counts = o.unique_all(o.tensor(x.ravel()))
        table, at = values, 0
    else:
        at = o.axis(axis, x.ndim)
        rows = np.moveaxis(x, at, 0)
        table = o.tensor(rows)
        labels = _labels(o, o.reshape(table, shape=(rows.shape[0], math.prod(rows.shape[1:]))))
        _, first, which, counts = o.unique_all(labels)
        table = o.take(o.tensor(x), first, axis=at)
    which = o.reshape(which, shape=(-1,))
    if sorted:
        return table, first, which, counts
    order = o.argsort(first)
    ranks = o.argsort(order)
    return o.take(table, order, axis=at), o.take(first, order), o.take(ranks, which), o.take(counts, order)


def _labels(o: Any, rows: Any) -> Any:
    """A number for each row: in the order of the rows, equal for equal ones."""
    labels = o.full(shape=(rows.shape[0],), value=0, dtype="int64")
    for column in o.unstack(rows, axis=1):
        _, _, which, _ = o.unique_all(column)
        pairs = o.add(o.multiply(labels, rows.shape[0]), o.reshape(which, shape=(-1,)))
        _, _, labels, _ = o.unique_all(pairs)
        labels = o.reshape(labels, shape=(-1,))
    return labels
