"""Detection: how boxes overlap, and the features within them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.windows import image_axes, numbers
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Extent, Nested, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

INT64 = np.dtype("int64")


def _check_boxes(*shapes: ShapeT) -> None:
    for each in shapes:
        if len(each) != 2 or not same_extent(each[1], 4):
            raise ShapeError(f"wanted boxes of shape (n, 4), each (left, top, right, bottom), given {each}")


def _sides(o: Ops[Any], boxes: Tensor, shape: tuple[Any, ...]) -> list[Tensor]:
    """Left, top, right and bottom of all boxes, each of that shape."""
    return [o.reshape(side, shape=shape) for side in o.split(boxes, sections=(1, 1, 1, 1), axis=1)]


# --- overlaps --------------------------------------------------------------------------------------------

_BOX = (0, 5)


@composite(
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", cases=tuple(
        ((((n, 4), "int64", _BOX), ((m, 4), "int64", _BOX)), {}) for n, m in ((2, 3), (1, 1), (0, 2))
    )),
)  # fmt: skip
def box_iou(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """Intersection over union of each box with each other: ``(n, m)`` of ``(n, 4)`` and ``(m, 4)``.

    A box is ``(left, top, right, bottom)``; one whose right is not beyond its left, or whose bottom is not beyond its
    top, is empty. Two empty boxes have zero.
    """
    _check_boxes(a.shape, b.shape)
    left, right = _sides(o, a, (a.shape[0], 1)), _sides(o, b, (1, b.shape[0]))

    def length(low: Tensor, high: Tensor) -> Tensor:
        return o.maximum(o.subtract(high, low), o.number(0, high))

    def area(sides: list[Tensor]) -> Tensor:
        return o.multiply(length(sides[0], sides[2]), length(sides[1], sides[3]))

    common = o.multiply(*(length(o.maximum(left[i], right[i]), o.minimum(left[i + 2], right[i + 2])) for i in (0, 1)))
    union = o.subtract(o.add(area(left), area(right)), common)
    some = o.greater(union, o.number(0, union))
    shares = o.divide(common, o.where(some, union, o.number(1, union)))
    return o.where(some, shares, o.number(0, shares))


# --- features of boxes -----------------------------------------------------------------------------------


def _points(o: Ops[Any], low: Tensor, high: Tensor, count: int, sampling: int, aligned: bool) -> Tensor:
    """Where an axis is sampled in each box: (boxes, count * sampling), in pixels."""
    length = o.subtract(high, low)
    if not aligned:
        length = o.maximum(length, o.number(1, length))
    steps = o.cast(o.arange(start=0, stop=count * sampling, dtype=INT64), dtype=o.dtype(low))
    middles = o.multiply(o.add(steps, o.number(0.5, low)), o.number(1.0 / (count * sampling), low))
    return o.add(low, o.multiply(length, o.reshape(middles, shape=(1, count * sampling))))


def _neighbours(o: Ops[Any], points: Tensor, extent: Extent) -> list[tuple[Tensor, Tensor]]:
    """The two pixels beside each point of an axis, and their weights; none beyond a pixel outside of the image."""
    last = o.full(shape=(), value=extent, dtype=INT64)
    end = o.cast(last, dtype=o.dtype(points))
    inside = o.logical_and(o.greater_equal(points, o.number(-1, points)), o.less_equal(points, end))
    zero, one = o.number(0, points), o.number(1, points)
    clipped = o.minimum(o.maximum(o.where(inside, points, zero), zero), o.subtract(end, one))
    floor = o.floor(clipped)
    low = o.cast(floor, dtype=INT64)
    high = o.minimum(o.add(low, o.number(1, low)), o.subtract(last, o.number(1, last)))
    share = o.subtract(clipped, floor)
    return [(low, o.where(inside, o.subtract(one, share), zero)), (high, o.where(inside, share, zero))]


def _gathered(o: Ops[Any], features: Tensor, images: Tensor, rows: Any, columns: Any) -> Tensor:
    """Sums of the four pixels beside each point: (boxes, rows, columns, channels)."""
    n, height, width, channels = features.shape
    pixels = o.reshape(features, shape=(n * height * width, channels))
    boxes = images.shape[0]
    total = None
    for row, down in rows:
        base = o.add(o.multiply(o.reshape(images, shape=(boxes, 1)), o.full(shape=(), value=height, dtype=INT64)), row)
        base = o.multiply(base, o.full(shape=(), value=width, dtype=INT64))
        for column, across in columns:
            at = o.add(o.reshape(base, shape=(*row.shape, 1)), o.reshape(column, shape=(boxes, 1, column.shape[1])))
            weight = o.multiply(
                o.reshape(down, shape=(*row.shape, 1, 1)), o.reshape(across, shape=(boxes, 1, column.shape[1], 1))
            )
            part = o.multiply(o.take(pixels, at, axis=0), weight)
            total = part if total is None else o.add(total, part)
    return total


def _roi_cases() -> Any:
    for d in FLOATS:
        for x, params in (
            ((2, 5, 6, 2), {"size": (2, 3)}),
            ((1, 4, 4, 1), {"size": 2, "sampling": 1, "scale": 0.5}),
            ((2, 2, 4, 5), {"size": (1, 2), "aligned": False, "data_format": "NCHW"}),
        ):
            yield ((x, d), ((3, 4), "int64", (-1, 6)), ((3,), "int64", (0, x[0] - 1))), params


@composite(
    tolerance=Tolerance(64.0), samples=Samples(relation="cases", cases=tuple(_roi_cases())),
)  # fmt: skip
def roi_align(
    o: Ops[Any], features: Tensor, boxes: Tensor, images: Tensor, /, *, size: Nested, scale: float = 1.0,
    sampling: int = 2, aligned: bool = True, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Features within boxes, each brought to one size by means of bilinear samples; He et al., ICCV 2017.

    Shapes: features ``(images, height, width, channels)``, or of the data format ``"NCHW"``; boxes ``(n, 4)``, each
    ``(left, top, right, bottom)``, which times `scale` are in pixels of the features; `images` ``(n,)``, of integers,
    says of which image each box is. The result is ``(n, *size, channels)``, or ``(n, channels, *size)``.

    A box is cut into ``size`` bins, and each is the mean of ``sampling * sampling`` points, spread evenly. A point more
    than a pixel outside of the image counts as zero, as does one that is NaN. With `aligned` the middle of a pixel lies
    at its index and a half; else at its index, and boxes are at least a pixel long. The number of points does not
    depend on the box: `sampling` is at least 1. It has derivatives with respect to features, and to floating boxes
    wherever no point lies on a pixel's middle line.
    """
    _, (height, width), _ = image_axes(features.shape, data_format)
    _check_boxes(boxes.shape)
    if len(images.shape) != 1 or not same_extent(images.shape[0], boxes.shape[0]):
        raise ShapeError(f"wanted the image of each of {boxes.shape[0]} boxes, given shape {images.shape}")
    if o.dtype(images).kind not in "iu":
        raise DTypeError(f"the image of each box is said by integers, given {o.dtype(images)}; cast them first")
    if sampling < 1 or not scale > 0:
        raise OperatorError(f"sampling is at least 1 and scale positive, given sampling={sampling}, scale={scale}")
    if any(known(n) and n == 0 for n in (height, width)):
        raise ShapeError(f"there are no pixels in features of shape {features.shape}")
    down, across = numbers("size", size)
    x = o.permute_dims(features, axes=(0, 2, 3, 1)) if data_format == "NCHW" else features
    moved = o.multiply(o.cast(boxes, dtype=o.dtype(x)), o.number(scale, x))
    if aligned:
        moved = o.subtract(moved, o.number(0.5, x))
    left, top, right, bottom = _sides(o, moved, (boxes.shape[0], 1))
    rows = _neighbours(o, _points(o, top, bottom, down, sampling, aligned), height)
    columns = _neighbours(o, _points(o, left, right, across, sampling, aligned), width)
    found = _gathered(o, x, o.cast(images, dtype=INT64), rows, columns)
    found = o.reshape(found, shape=(boxes.shape[0], down, sampling, across, sampling, x.shape[3]))
    found = o.mean(found, axis=(2, 4), keepdims=False)
    return o.permute_dims(found, axes=(0, 3, 1, 2)) if data_format == "NCHW" else found
