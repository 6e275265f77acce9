"""Indices, sorting and counting in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.facets.dims import known, product
from nnc_func.facets.dtypes import promote
from nnc_func.facets.onnx import describe_as
from nnc_func.facets.onnx.elementwise import wide
from nnc_func.facets.shapes import normalise_axis

INT64 = np.dtype("int64")
BOOL = np.dtype("bool")


def _places(g: Any, indices: Any) -> Any:
    """Indices of a dtype that ONNX indexes with."""
    return indices if indices.dtype.name in ("int32", "int64") else g.converted(indices, INT64)


def take(g: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """Gathered along an axis."""
    return g.Gather(x, _places(g, indices), axis=normalise_axis(axis, len(x.shape)))


def take_along_axis(g: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """Gathered element by element."""
    return g.GatherElements(x, _places(g, indices), axis=normalise_axis(axis, len(x.shape)))


def put_along_axis_add(g: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """Scattered element by element."""
    return _scattered(g, x, indices, updates, axis, "add")


def scatter(reduction: str) -> Any:
    """Scattered row by row: the index of a row is repeated for each of its elements."""

    @describe_as(f"ScatterElements with the reduction {reduction}, an index repeated for each element of its row.")
    def export(g: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
        return _scattered(g, x, *_by_element(g, x, indices, updates, axis), axis, reduction)

    return export


def _scattered(g: Any, x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    if any(known(n) and n == 0 for n in updates.shape):
        return x
    at = normalise_axis(axis, len(x.shape))
    x, updates = wide(g, x), wide(g, g.converted(updates, x.dtype))
    return g.ScatterElements(x, _places(g, indices), updates, axis=at, reduction=reduction)


def _by_element(g: Any, x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
    """Indices and updates of the tensor's rank: one axis for all axes of the indices."""
    at, rank = normalise_axis(axis, len(x.shape)), len(x.shape)
    count = product(indices.shape)
    shape = (*x.shape[:at], count, *x.shape[at + 1 :])
    flat = g.reshape(_said(g, indices), shape=(count, *(1,) * (rank - at - 1)))
    return g.broadcast_to(flat, shape=shape), g.reshape(updates, shape=shape)


def _said(g: Any, indices: Any) -> Any:
    return g.having(_places(g, indices), indices.shape)


def scatter_set(g: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """Which update is the last at each place is found first, since a runtime writes them in any order."""
    if any(known(n) and n == 0 for n in updates.shape):
        return x
    at, rank = normalise_axis(axis, len(x.shape)), len(x.shape)
    count, extent = product(indices.shape), x.shape[at]
    flat = g.reshape(_said(g, indices), shape=(count,))
    nobody = g.full(shape=(extent,), value=-1, dtype=INT64)
    last = g.scatter_max(nobody, flat, g.arange(start=0, stop=count, dtype=INT64))
    rows = g.reshape(g.cast(updates, dtype=x.dtype), shape=(*x.shape[:at], count, *x.shape[at + 1 :]))
    written = g.take(rows, g.maximum(last, 0), axis=at)
    mask = g.reshape(g.greater_equal(last, 0), shape=(extent, *(1,) * (rank - at - 1)))
    return g.where(mask, written, x)


def one_hot(g: Any, indices: Any, *, depth: Any, dtype: Any, checked: bool) -> Any:
    """Compared with all positions, unchecked: ONNX's OneHot counts negative indices from the end."""
    places = g.arange(start=0, stop=depth, dtype=INT64)
    return g.converted(g.Equal(g.converted(g.Unsqueeze(indices, g.integers((-1,))), INT64), places), dtype)


def ravel_multi_index(g: Any, *indices: Any, shape: Any) -> Any:
    """The sum of indices times strides; an index out of range is not noticed."""
    total = g.scalar(0, INT64)
    for axis, index in enumerate(indices):
        place = g.converted(index, INT64)
        place = g.Where(g.Less(place, 0), g.Add(place, g.extent(shape[axis])), place)
        total = g.Add(total, g.Mul(place, g.extent(product(shape[axis + 1 :]))))
    return total


def flatnonzero(g: Any, x: Any, *, size: Any, fill: int) -> Any:
    """The first few of those that there are and of as many fillers."""
    truth = g.converted(x, BOOL)
    found = g.Reshape(g.NonZero(g.Reshape(truth, g.integers((-1,)))), g.integers((-1,)))
    fillers = g.full(shape=(size,), value=fill, dtype=INT64)
    return g.Slice(g.Concat(found, fillers, axis=0), g.integers((0,)), g.extents((size,)), g.integers((0,)))


# --- sorting ----------------------------------------------------------------------------------------------


def _order(g: Any, x: Any, axis: int, largest: bool) -> Any:
    """Positions in order: TopK of all elements, where of equal ones the first comes first."""
    operand = x if x.dtype.kind != "b" else g.converted(x, np.dtype("int32"))
    count = g.extents((x.shape[axis],))
    return g.TopK(operand, count, axis=axis, largest=int(largest), sorted=1, outputs=2)[1]


def argsort(g: Any, x: Any, *, axis: int, descending: bool) -> Any:
    """By elements; then, of floats, by whether they are NaN, which is larger than any number."""
    at = normalise_axis(axis, len(x.shape))
    if x.dtype.kind in "biu":
        return _order(g, x, at, descending)
    is_nan = g.IsNaN(x)
    order = _order(g, g.having(g.Where(is_nan, g.scalar(math.inf, x.dtype), x), x.shape), at, descending)
    marks = g.GatherElements(g.converted(is_nan, np.dtype("int32")), order, axis=at)
    again = _order(g, g.having(marks, x.shape), at, descending)
    return g.GatherElements(order, again, axis=at)


def sort(g: Any, x: Any, *, axis: int, descending: bool) -> Any:
    """The elements in the order of `argsort`."""
    return g.take_along_axis(x, g.argsort(x, axis=axis, descending=descending), axis=axis)


def _part(g: Any, x: Any, axis: int, start: Any, stop: Any) -> Any:
    starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
    stops = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    return g.slice(x, starts=starts, stops=stops, steps=(1,) * len(x.shape))


def argtop_k(g: Any, x: Any, *, k: int, axis: int, largest: bool) -> Any:
    """The beginning of `argsort`."""
    return _part(g, g.argsort(x, axis=axis, descending=largest), normalise_axis(axis, len(x.shape)), 0, k)


def kth_value(g: Any, x: Any, *, k: int, axis: int, keepdims: bool) -> Any:
    """A part of `sort`."""
    at = normalise_axis(axis, len(x.shape))
    place = k if k >= 0 else x.shape[at] + k
    found = _part(g, g.sort(x, axis=axis, descending=False), at, place, place + 1)
    return found if keepdims else g.squeeze(found, axis=at)


def searchsorted(g: Any, x: Any, values: Any, *, side: str) -> Any:
    """The number of elements that stand before each value: all are compared."""
    if any(known(n) and n == 0 for n in x.shape):
        return g.full(shape=values.shape, value=0, dtype=INT64)
    common = promote(x.dtype, values.dtype)
    x, values = g.converted(x, common), g.Unsqueeze(g.converted(values, common), g.integers((-1,)))
    before = g.Less(x, values) if side == "left" else g.LessOrEqual(x, values)
    if common.kind not in "biu":  # NaN is larger than any number, and stands beside itself
        late = g.IsNaN(values)
        before = g.Or(before, late if side == "right" else g.And(late, g.Not(g.IsNaN(x))))
    return g.ReduceSum(g.converted(before, INT64), g.integers((-1,)), keepdims=0)


# --- detection --------------------------------------------------------------------------------------------


def non_maximum_suppression(
    g: Any, boxes: Any, scores: Any, *, count: int, overlap: float, lowest: float
) -> tuple[Any, Any]:
    """ONNX's, filled up; it takes scores above a threshold, so that is the number below the lowest score."""
    none = g.full(shape=(count,), value=-1, dtype=INT64)
    if count == 0 or boxes.shape[0] == 0:
        return none, g.scalar(0, INT64)
    single = np.dtype("float32")
    if boxes.dtype.itemsize > 4 or scores.dtype.itemsize > 4:
        g.refuse("ONNX's NonMaxSuppression takes float32; cast boxes and scores first")
    corner, opposite = g.split(g.cast(boxes, dtype=single), sections=2, axis=1)
    ordered = g.concat(corner, g.maximum(corner, opposite), axis=1)  # boxes without extent stay so
    least = np.finfo(single).min
    scores = g.Max(g.converted(scores, single), g.constant(np.nextafter(least, single.type(0))))
    below = least if lowest == -math.inf else np.nextafter(single.type(lowest), single.type(-math.inf))
    rows = g.NonMaxSuppression(
        g.Unsqueeze(ordered, g.integers((0,))), g.Unsqueeze(scores, g.integers((0, 1))), g.integers((count,)),
        g.constant(np.full(1, overlap, single)), g.constant(np.full(1, below, single)),
    )  # fmt: skip
    found = g.Gather(rows, g.scalar(2, INT64), axis=1)
    ends = g.Slice(g.Concat(found, none, axis=0), g.integers((0,)), g.integers((count,)), g.integers((0,)))
    return ends, g.Reshape(g.Shape(found), g.integers(()))
