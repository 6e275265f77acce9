"""Boxes of ONNX: the features within them, and which of them are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")

# --- features of boxes -----------------------------------------------------------------------------------


def _sides(o: Context, boxes: Tensor) -> list[Tensor]:
    """Columns of boxes, (boxes, 1) each."""
    count = boxes.shape[1]
    return list(o.split(boxes, sections=(1,) * count, axis=1))


def _line(o: Context, low: Tensor, high: Tensor, bins: int, samples: int, extent: Extent, least: float | None) -> Any:
    """The two pixels beside each sample along an axis of each box, and their weights; none outside of the image."""
    length = o.subtract(high, low)
    if least is not None:
        length = o.maximum(length, o.scalar(least, length))
    o.sized((bins, samples))
    steps = ((np.arange(bins * samples) + 0.5) / (bins * samples)).astype(low.dtype)[None, :]
    at = o.add(low, o.multiply(length, low.stack.asarray(steps)))
    end = o.scalar(extent, at)
    inside = o.logical_and(o.greater_equal(at, o.scalar(-1, at)), o.less_equal(at, end))
    last = o.subtract(end, o.scalar(1, at))
    at = o.minimum(o.maximum(at, o.scalar(0, at)), last)
    floor = o.floor(at)
    share, zero = o.subtract(at, floor), o.scalar(0, at)
    next_one = o.minimum(o.add(floor, o.scalar(1, at)), last)
    return [
        (o.cast(floor, dtype=INT64), o.where(inside, o.subtract(o.scalar(1, at), share), zero)),
        (o.cast(next_one, dtype=INT64), o.where(inside, share, zero)),
    ]  # fmt: skip


def _bins(
    o: Context, x: Tensor, images: Tensor, rows: Any, columns: Any, size: tuple[int, int], samples: tuple[int, int],
    largest: bool,
) -> Tensor:  # fmt: skip
    """Means, or the largest, of the samples of each bin: (boxes, channels, *size)."""
    n, channels, height, width = x.shape
    boxes = images.shape[0]
    pixels = o.reshape(o.permute_dims(x, axes=(0, 2, 3, 1)), shape=(n * height * width, channels))
    base = o.reshape(o.multiply(images, o.scalar(height, images)), shape=(boxes, 1))
    found = None
    for row, down in rows:
        lines = o.multiply(o.add(base, row), o.scalar(width, row))
        for column, across in columns:
            at = o.add(o.expand_dims(lines, axis=2), o.expand_dims(column, axis=1))
            weight = o.multiply(o.expand_dims(down, axis=2), o.expand_dims(across, axis=1))
            part = o.multiply(o.take(pixels, at, axis=0), o.expand_dims(weight, axis=3))
            found = part if found is None else o.maximum(found, part) if largest else o.add(found, part)
    shape = (boxes, size[0], samples[0], size[1], samples[1], channels)
    each = (o.max if largest else o.mean)(o.reshape(found, shape=shape), axis=(2, 4))
    return o.permute_dims(each, axes=(0, 3, 1, 2))


def _counts(o: Context, boxes: Tensor, scale: float, size: tuple[int, int], least: float | None) -> list[Any]:
    """How many samples the bins of each box have along both axes, where that depends on the box."""
    sides = np.asarray(o.known(boxes), np.float64) * scale
    lengths = sides[:, 2:] - sides[:, :2]
    lengths = lengths if least is None else np.maximum(lengths, least)
    counts = np.ceil(lengths[:, ::-1] / np.array(size)).astype(np.int64)
    return np.maximum(counts, 1).tolist()  # type: ignore[no-any-return]


def _aligned(
    o: Context, x: Tensor, boxes: Tensor, images: Tensor, mode: str, size: tuple[int, int], sampling_ratio: int,
    scale: float, half_pixel: bool,
) -> Tensor:  # fmt: skip
    if len(x.shape) != 4 or len(boxes.shape) != 2 or boxes.shape[1] != 4 or mode not in ("avg", "max"):
        raise ShapeError(f"RoiAlign, avg or max, wants images and boxes (n, 4); {x.shape}, {boxes.shape}, {mode!r}")
    images = o.cast(images, dtype=INT64)
    least = None if half_pixel else 1.0
    moved = o.multiply(boxes, o.scalar(scale, boxes))
    moved = o.subtract(moved, o.scalar(0.5, moved)) if half_pixel else moved

    def found(moved: Tensor, images: Tensor, samples: tuple[int, int]) -> Tensor:
        left, top, right, bottom = _sides(o, moved)
        rows = _line(o, top, bottom, size[0], samples[0], x.shape[2], least)
        columns = _line(o, left, right, size[1], samples[1], x.shape[3], least)
        return _bins(o, x, images, rows, columns, size, samples, mode == "max")

    if sampling_ratio > 0:
        return found(moved, images, (sampling_ratio, sampling_ratio))
    counts = _counts(o, boxes, scale, size, least)
    if not counts:
        return o.full(shape=(0, x.shape[1], *size), value=0, dtype=x.dtype)
    each = zip(
        o.split(moved, sections=(1,) * len(counts), axis=0), o.split(images, sections=(1,) * len(counts), axis=0),
        counts, strict=True,
    )  # fmt: skip
    return o.concat(*(found(box, image, tuple(samples)) for box, image, samples in each), axis=0)


@onnx_operator("RoiAlign", since=10)
def roi_align_of_pixels(
    o: Context, x: Tensor, boxes: Tensor, images: Tensor, /, *, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Features within boxes by bilinear samples, the middle of a pixel at its index."""
    return _aligned(o, x, boxes, images, mode, (output_height, output_width), sampling_ratio, spatial_scale, False)


@onnx_operator("RoiAlign", since=(16, 22))
def roi_align(
    o: Context, x: Tensor, boxes: Tensor, images: Tensor, /, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Features within boxes by bilinear samples; He et al., 2017."""
    half = coordinate_transformation_mode == "half_pixel"
    return _aligned(o, x, boxes, images, mode, (output_height, output_width), sampling_ratio, spatial_scale, half)


def _inside(o: Context, low: Tensor, high: Tensor, bins: int, extent: Extent) -> Tensor:
    """Which pixels of an axis each bin of each box has: (boxes, bins, pixels); whole pixels, at least one."""
    length = o.maximum(o.add(o.subtract(high, low), o.scalar(1, low)), o.scalar(1, low))
    size = o.divide(length, o.scalar(bins, length))
    o.sized((bins,))
    steps = low.stack.asarray(np.arange(bins, dtype=low.dtype)[None, :])
    begin = o.add(o.floor(o.multiply(size, steps)), low)
    end = o.add(o.ceil(o.multiply(size, o.add(steps, o.scalar(1, steps)))), low)
    pixels = o.reshape(o.cast(o.arange(start=0, stop=extent, dtype=INT64), dtype=low.dtype), shape=(1, 1, extent))
    return o.logical_and(
        o.greater_equal(pixels, o.expand_dims(begin, axis=2)), o.less(pixels, o.expand_dims(end, axis=2))
    )  # fmt: skip


@onnx_operator("MaxRoiPool", since=(1, 22))
def max_roi_pool(o: Context, x: Tensor, boxes: Tensor, /, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """The largest element of each bin of boxes, each (image, left, top, right, bottom); Girshick, 2015."""
    if len(x.shape) != 4 or len(boxes.shape) != 2 or boxes.shape[1] != 5:
        raise ShapeError(f"MaxRoiPool wants images and boxes (n, 5); given {x.shape} and {boxes.shape}")
    image, *sides = _sides(o, boxes)
    half = o.scalar(0.5, boxes)  # away from zero, as C rounds
    left, top, right, bottom = (o.floor(o.add(o.multiply(s, o.scalar(spatial_scale, s)), half)) for s in sides)
    count = boxes.shape[0]
    seen = o.take(x, o.reshape(o.cast(image, dtype=INT64), shape=(count,)), axis=0)
    lowest = o.scalar(-np.inf, x)
    for axis, low, high in ((3, left, right), (2, top, bottom)):
        bins, extent = int(pooled_shape[axis - 2]), seen.shape[axis]
        mask = _inside(o, low, high, bins, extent)
        shape = (count, 1, 1, bins, extent) if axis == 3 else (count, 1, bins, 1, extent)
        turned = seen if axis == 3 else o.permute_dims(seen, axes=(0, 1, 3, 2))
        wide = o.expand_dims(turned, axis=3 if axis == 3 else 2)
        seen = o.max(o.where(o.reshape(mask, shape=shape), wide, lowest), axis=4)
    return o.where(o.equal(seen, lowest), o.scalar(0, seen), seen)


# --- which boxes -----------------------------------------------------------------------------------------


def _corners(o: Context, boxes: Tensor, centred: bool) -> Tensor:
    """Boxes by two corners, the lower one first: (images, boxes, 4)."""
    first, second, third, fourth = o.split(boxes, sections=4, axis=2)
    if centred:
        half = o.scalar(0.5, boxes)
        wide, high = o.multiply(third, half), o.multiply(fourth, half)
        low, far = (o.subtract(first, wide), o.subtract(second, high)), (o.add(first, wide), o.add(second, high))
    else:
        low = o.minimum(first, third), o.minimum(second, fourth)
        far = o.maximum(first, third), o.maximum(second, fourth)
    return o.concat(*low, *far, axis=2)


@onnx_operator(
    "NonMaxSuppression",
    since=(10, 11),
    known=("most", "overlap", "score"),
)
def non_max_suppression(
    o: Context, boxes: Tensor, scores: Tensor, most: Any = None, overlap: Any = None, score: Any = None, /, *,
    center_point_box: int = 0,
) -> Tensor:  # fmt: skip
    """Which boxes have the best scores and overlap no better one: rows (image, class, box), as many as there are."""
    if len(boxes.shape) != 3 or len(scores.shape) != 3 or boxes.shape[2] != 4:
        raise ShapeError(f"wanted boxes (images, n, 4) and scores (images, classes, n); {boxes.shape}, {scores.shape}")
    images, classes, n = o.extents(scores)
    count = min(int(np.ravel(most)[0]) if most is not None else 0, n)
    share = float(np.ravel(overlap)[0]) if overlap is not None else 0.0
    if not 0 <= share <= 1:
        raise OperatorError(f"iou_threshold is from 0 to 1, given {share}")
    lowest = -np.inf if score is None else float(np.nextafter(np.float32(np.ravel(score)[0]), np.float32(np.inf)))
    rows = []
    corners = _corners(o, boxes, bool(center_point_box))
    for image in range(images if count > 0 else 0):
        of_image = o.reshape(_from(o, corners, image), shape=(n, 4))
        of_scores = _from(o, scores, image)
        for which in range(classes):
            each = o.reshape(
                o.slice(of_scores, starts=(0, which, 0), stops=(1, which + 1, n), steps=(1, 1, 1)), shape=(n,)
            )  # fmt: skip
            positions, found = o.non_maximum_suppression(of_image, each, count=count, overlap=share, lowest=lowest)
            kept = int(o.known(found))
            where = o.reshape(o.slice(positions, starts=(0,), stops=(kept,), steps=(1,)), shape=(kept, 1))
            head = o.tensor(np.tile(np.array([[image, which]], np.int64), (kept, 1)))
            rows.append(o.concat(head, where, axis=1))
    return o.concat(*rows, axis=0) if rows else o.full(shape=(0, 3), value=0, dtype=INT64)


def _from(o: Context, x: Tensor, image: int) -> Tensor:
    return o.slice(x, starts=(image, 0, 0), stops=(image + 1, *x.shape[1:]), steps=(1, 1, 1))
