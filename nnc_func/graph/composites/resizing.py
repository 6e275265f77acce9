"""Images of another size, axis by axis: what is taken where is said in whole numbers, so that no rounding moves it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.windows import numbers
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.pooling import spatial_axes
from nnc_func.graph.ops.families import Extent, Nested, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

INT64 = np.dtype("int64")


def _extents(shape: ShapeT, axes: tuple[int, ...], size: Any, scale: Any) -> tuple[Extent, ...]:
    """The wanted extents, by either parameter."""
    if (size is None) == (scale is None):
        raise OperatorError(f"either size or scale says how large images become; given size={size}, scale={scale}")
    if size is not None:
        return numbers("size", size, len(axes))
    factors = scale if isinstance(scale, tuple) else (scale,) * len(axes)
    if len(factors) != len(axes) or not all(isinstance(f, (int, float)) and 0 < f < math.inf for f in factors):
        raise ShapeError(f"scale is a positive number or one for each of the {len(axes)} axes, given {scale!r}")
    return tuple(_scaled(shape[a], f) for a, f in zip(axes, factors, strict=True))


def _scaled(n: Extent, factor: float) -> Extent:
    if known(n):
        return int(n * factor)
    if factor != int(factor):
        raise ShapeError(f"an extent that is not known, {n}, is scaled by whole numbers only, given {factor}; say size")
    return n * int(factor)


def _whole(o: Ops[Any], value: Extent) -> Tensor:
    return o.full(shape=(), value=value, dtype=INT64)


def _places(o: Ops[Any], n: Extent, m: Extent, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Where the elements of an axis of extent m lie on one of extent n: numerators, and their denominator."""
    i = o.arange(start=0, stop=m, dtype=INT64)
    if align_corners:
        return o.multiply(i, _whole(o, n - 1)), o.maximum(_whole(o, m - 1), _whole(o, 1))
    twice = o.add(o.multiply(i, _whole(o, 2 * n)), _whole(o, n - m))
    return twice, _whole(o, 2 * m)


def _nearest(o: Ops[Any], x: Tensor, axis: int, m: Extent, align_corners: bool) -> Tensor:
    n = x.shape[axis]
    if not align_corners and known(n) and known(m) and n and m % n == 0:  # copies side by side: no gather, no scatter
        wide = o.broadcast_to(
            o.expand_dims(x, axis=axis + 1), shape=(*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
        )
        return o.reshape(wide, shape=(*x.shape[:axis], m, *x.shape[axis + 1 :]))
    places, unit = _places(o, n, m, align_corners)
    nearest = o.floor_divide(o.add(o.multiply(places, _whole(o, 2)), unit), o.multiply(unit, _whole(o, 2)))
    return o.take(x, nearest, axis=axis)


def _linear(o: Ops[Any], x: Tensor, axis: int, m: Extent, align_corners: bool) -> Tensor:
    n = x.shape[axis]
    places, unit = _places(o, n, m, align_corners)
    places = o.minimum(o.maximum(places, _whole(o, 0)), o.multiply(unit, _whole(o, n - 1)))
    low = o.floor_divide(places, unit)
    high = o.minimum(o.add(low, _whole(o, 1)), _whole(o, n - 1))
    share = o.cast(o.divide(o.remainder(places, unit), unit), dtype=o.dtype(x))
    share = o.reshape(share, shape=(m, *(1,) * (len(x.shape) - axis - 1)))
    near = o.multiply(o.take(x, low, axis=axis), o.subtract(o.number(1, x), share))
    return o.add(near, o.multiply(o.take(x, high, axis=axis), share))


_CASES: Any = (
    ((2, 3, 2), {"scale": 2}),
    ((1, 4, 3, 2), {"size": (3, 5)}),
    ((1, 2, 3, 4), {"scale": (2, 1.5), "axis": 1, "align_corners": True}),
    ((1, 3, 4, 2), {"size": (7, 1), "align_corners": True}),
    ((1, 2, 3, 2, 1), {"size": (3, 2, 5)}),
    ((0, 2, 2, 1), {"scale": 2}),
)


@composite(
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        ((x,), {**params, "method": method}) for x, params in _CASES for method in ("nearest", "linear")
    )),
)  # fmt: skip
def resize(
    o: Ops[Any], x: Tensor, /, *, size: Nested | None = None, scale: Nested | None = None, method: str = "nearest",
    align_corners: bool = False, axis: int = -1,
) -> Tensor:  # fmt: skip
    """Signals, images or volumes of another size: up-sampling, or down-sampling without a filter.

    `axis` is that of the channels; all others but the first are resized. `size` gives their extents, or `scale` what
    they are multiplied by (rounded down), each a number or one for each axis.

    Elements are the middles of pixels (half-pixel centres): of m in the place of n, element i lies at ``(i + 0.5) * n /
    m - 0.5``; with `align_corners` the first and the last ones coincide, and it lies at ``i * (n - 1) / (m - 1)``.
    The method ``"nearest"`` takes the element nearest to that, the later one of two; ``"linear"`` weighs its two
    neighbours along each axis, which is bilinear on images, and takes the outermost elements beyond them.

    Refused: integers to be weighed, an axis without elements that is to have some.
    """
    if method not in ("nearest", "linear"):
        raise OperatorError(f"the method of resizing is 'nearest' or 'linear', given {method!r}")
    if method == "linear" and kind_of(o.dtype(x)) not in "fc":
        raise DTypeError(f"linear resizing weighs floating numbers, given {o.dtype(x)}; cast them, or use 'nearest'")
    axes = spatial_axes(x.shape, axis)
    along = _nearest if method == "nearest" else _linear
    for at, m in zip(axes, _extents(x.shape, axes, size, scale), strict=True):
        if known(x.shape[at]) and x.shape[at] == 0:
            raise ShapeError(f"axis {at} of {x.shape} has no elements to be resized")
        if x.shape[at] != m:
            x = along(o, x, at, m, align_corners)
    return x
