"""Resize and Upsample of ONNX: along each axis a few neighbours of each place, weighed by numbers known beforehand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

FLOAT32 = np.dtype("float32")
FEW = 8
"""So many neighbours are taken one by one; more are a product with a matrix."""
_HALF_PIXELS = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
_MODES = (*_HALF_PIXELS, "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize")

# --- places ----------------------------------------------------------------------------------------------


@frozen
class Way:
    """How images are resized: ONNX's attributes."""

    mode: str = "nearest"
    places: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    outside: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.places not in _MODES:
            raise OperatorError(f"coordinate_transformation_mode is one of {', '.join(_MODES)}; given {self.places!r}")
        if self.mode not in ("nearest", "linear", "cubic") or self.nearest not in _ROUNDED:
            raise OperatorError(f"mode {self.mode!r} with nearest_mode {self.nearest!r} is no way to resize")
        if self.antialias and self.mode == "nearest":
            raise OperatorError("antialias goes with the modes linear and cubic")


def _places(n: int, m: int, scale: float, way: Way, roi: tuple[float, float]) -> Any:
    """Where the m elements of the result lie on an axis of n."""
    i, mode, whole = np.arange(m, dtype=np.float64), way.places, scale * n
    if mode == "align_corners":
        return i * 0.0 if whole == 1 else i * (n - 1) / (whole - 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if mode == "tf_crop_and_resize":
        first, last = roi[0] * (n - 1), roi[1] * (n - 1)
        return i * 0.0 + (first + last) / 2 if whole == 1 else first + i * (last - first) / (whole - 1)
    if mode == "pytorch_half_pixel" and whole == 1:
        return i * 0.0
    away = n / 2 * (1 - m / whole) if mode == "half_pixel_symmetric" else 0.0
    return away + (i + 0.5) / scale - 0.5


_ROUNDED: dict[str, Any] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _kernel(distance: Any, way: Way) -> Any:
    """The weight of a neighbour at that distance."""
    t = np.abs(distance)
    if way.mode == "linear":
        return np.maximum(1 - t, 0)
    a = way.cubic  # of Keys' cubic convolution, 1981
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _neighbours(x: Any, n: int, scale: float, way: Way) -> tuple[Any, Any]:
    """Which elements of n are taken for places, and their weights: (places, neighbours) each."""
    if way.mode == "nearest":
        at = _ROUNDED[way.nearest](x)[:, None]
        return np.clip(at, 0, n - 1).astype(np.int64), np.ones(at.shape)
    wide = min(scale, 1.0) if way.antialias else 1.0
    reach = math.ceil((1 if way.mode == "linear" else 2) / wide)
    at = np.floor(x)[:, None] + np.arange(1 - reach, reach + 1)
    weights = _kernel((at - x[:, None]) * wide, way)
    if way.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    if way.exclude_outside:
        weights = np.where((at >= 0) & (at < n), weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return np.clip(at, 0, n - 1).astype(np.int64), weights


# --- along one axis --------------------------------------------------------------------------------------


def _along(o: Context, x: Tensor, axis: int, places: Any, scale: float, way: Way) -> Tensor:
    at, weights = _neighbours(places, x.shape[axis], scale, way)
    stack = x.stack
    if way.mode == "nearest":
        return o.take(x, stack.asarray(at[:, 0]), axis=axis)
    if at.shape[1] > FEW:
        matrix = np.zeros((x.shape[axis], len(at)))
        np.add.at(matrix, (at, np.arange(len(at))[:, None]), weights)
        y = o.tensordot(x, stack.asarray(matrix.astype(x.dtype)), axes=((axis,), (0,)))
        order = [*range(axis), len(x.shape) - 1, *range(axis, len(x.shape) - 1)]
        return o.permute_dims(y, axes=tuple(order))
    shape = (len(at), *(1,) * (len(x.shape) - axis - 1))
    total = None
    for column in range(at.shape[1]):
        if not weights[:, column].any():
            continue
        each = stack.asarray(weights[:, column].reshape(shape).astype(x.dtype))
        part = o.multiply(o.take(x, stack.asarray(at[:, column]), axis=axis), each)
        total = part if total is None else o.add(total, part)
    return total


def _factor(n: Extent, m: Extent, scale: float | None, way: Way) -> int | None:
    """By how much every element is repeated, where that is all."""
    if scale is not None:
        factor = int(scale) if scale == int(scale) else 0
    else:
        found = m // n if not known(n) or n else 0
        factor = int(found) if known(found) and found * n == m else 0
    repeated = way.mode == "nearest" and way.places in (*_HALF_PIXELS, "asymmetric") and factor >= 1
    if not repeated:
        return None
    tried = _neighbours(_places(4, 4 * factor, factor, way, (0.0, 1.0)), 4, factor, way)[0][:, 0]
    return factor if np.array_equal(tried, np.arange(4 * factor) // factor) else None


def _repeated(o: Context, x: Tensor, factors: list[int]) -> Tensor:
    """Every element so many times along each axis."""
    if all(f == 1 for f in factors):
        return x
    wide: list[Any] = []
    broadcast: list[Any] = []
    for n, f in zip(x.shape, factors, strict=True):
        wide += [n] if f == 1 else [n, 1]
        broadcast += [n] if f == 1 else [n, f]
    copied = o.broadcast_to(o.reshape(x, shape=tuple(wide)), shape=tuple(broadcast))
    return o.reshape(copied, shape=tuple(n * f for n, f in zip(x.shape, factors, strict=True)))


def resized(
    o: Context, x: Tensor, sizes: list[Extent], scales: list[float | None], way: Way,
    roi: list[tuple[float, float]],
) -> Tensor:  # fmt: skip
    """Every axis brought to its size; scales are those that were given, else they follow from the sizes."""
    factors = [_factor(n, m, s, way) for n, m, s in zip(x.shape, sizes, scales, strict=True)]
    x = _repeated(o, x, [f or 1 for f in factors])
    own = x.dtype
    for axis, factor in enumerate(factors):
        n, m, scale = x.shape[axis], sizes[axis], scales[axis]
        if factor is not None or (n == m and scale in (None, 1.0) and way.places != "tf_crop_and_resize"):
            continue
        if not known(n) or not known(m):
            o.extents(x)  # says that they are not known
            raise ShapeError(f"an extent of {m} in the place of {n} is not known")
        if n == 0 and m:
            raise ShapeError(f"axis {axis} of {x.shape} has no elements to be resized")
        places = _places(n, m, scale or m / n, way, roi[axis])
        if way.mode != "nearest" and x.dtype.kind != "f":
            x = o.cast(x, dtype=FLOAT32)
        x = _along(o, x, axis, places, scale or m / n, way)
        if way.places == "tf_crop_and_resize":
            inside = ((places >= 0) & (places <= n - 1)).reshape(m, *(1,) * (len(x.shape) - axis - 1))
            if not inside.all():
                x = o.where(x.stack.asarray(inside), x, o.scalar(way.outside, x))
    return x if x.dtype == own else _saturated(o, x, own)


def _saturated(o: Context, x: Tensor, dtype: Any) -> Tensor:
    bounds = np.iinfo(dtype)
    return o.cast(o.clip(o.round(x), min=int(bounds.min), max=int(bounds.max)), dtype=dtype)


# --- sizes -----------------------------------------------------------------------------------------------


def _scaled(o: Context, n: Extent, scale: float) -> Extent:
    if known(n):
        return int(n * scale)
    if scale == int(scale):
        return n * int(scale)
    raise ShapeError(f"an extent of {n} is scaled by {scale}; give the input's shape")


def _one_each(name: str, values: Any, axes: Ints) -> Any:
    if len(values) != len(axes) or any(isinstance(v, list) for v in values):
        raise OperatorError(f"{name} are one number for each of {len(axes)} axes, given {values}")
    return values


def _by_scales(
    o: Context, x: Tensor, axes: Ints, scales: Any, way: Way, roi: list[tuple[float, float]]
) -> Tensor:  # fmt: skip
    given: list[float | None] = [1.0] * len(x.shape)
    for axis, scale in zip(axes, _one_each("scales", np.asarray(scales).tolist(), axes), strict=True):
        if not scale > 0:
            raise OperatorError(f"scales are positive, given {scale}")
        given[axis] = float(scale)
    sizes = [_scaled(o, n, s) for n, s in zip(x.shape, given, strict=True)]  # type: ignore[arg-type]
    return resized(o, x, sizes, given, way, roi)


def _by_sizes(
    o: Context, x: Tensor, axes: Ints, sizes: Any, way: Way, roi: list[tuple[float, float]], policy: str
) -> Tensor:
    wanted: list[Extent] = [*x.shape]
    given: list[float | None] = [1.0] * len(x.shape)
    for axis, size in zip(axes, _one_each("sizes", o.integers(sizes), axes), strict=True):
        wanted[axis], given[axis] = size, None
    if policy != "stretch":
        if policy not in ("not_larger", "not_smaller"):
            raise OperatorError(f"keep_aspect_ratio_policy {policy!r} is unknown")
        extents = o.extents(x)
        ratios = [wanted[a] / extents[a] for a in axes]
        scale = float(min(ratios) if policy == "not_larger" else max(ratios))
        for axis in axes:
            wanted[axis], given[axis] = int(scale * extents[axis] + 0.5), scale
    return resized(o, x, wanted, given, way, roi)


def _regions(roi: Any, axes: Ints, rank: int) -> list[tuple[float, float]]:
    found = [(0.0, 1.0)] * rank
    if roi is not None and np.size(roi):
        values = np.asarray(roi, np.float64)
        for i, axis in enumerate(axes):
            found[axis] = float(values[i]), float(values[i + len(axes)])
    return found


# --- entries ---------------------------------------------------------------------------------------------


def _mode(mode: str) -> str:
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


@onnx_operator("Upsample", since=7)
def upsample_by_attribute(o: Context, x: Tensor, /, *, scales: Any, mode: str = "nearest") -> Tensor:
    """Each axis times a scale: the element at the floor of ``i / scale``, or weighed with the next one."""
    return resize_by_scales(o, x, scales, mode=mode)


@onnx_operator("Upsample", since=(9, 10), known=("scales",))
@onnx_operator("Resize", since=10, known=("scales",))
def resize_by_scales(o: Context, x: Tensor, scales: Any, /, *, mode: str = "nearest") -> Tensor:
    """Each axis times a scale: the element at the floor of ``i / scale``, or weighed with the next one."""
    way = Way(mode=_mode(mode), places="asymmetric", nearest="floor")
    axes = range(len(x.shape))
    return _by_scales(o, x, axes, scales, way, _regions(None, axes, len(x.shape)))


@onnx_operator("Resize", since=(11, 13, 18, 19), known=("roi", "scales", "sizes"))
def resize(
    o: Context, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, /, *, antialias: int = 0,
    axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    """Axes brought to other extents, by scales or sizes; places, weights and edges as the attributes say."""
    way = Way(
        mode=_mode(mode), places=coordinate_transformation_mode, nearest=nearest_mode, cubic=cubic_coeff_a,
        exclude_outside=bool(exclude_outside), antialias=bool(antialias), outside=extrapolation_value,
    )  # fmt: skip
    rank = len(x.shape)
    over = list(range(rank)) if axes is None else o.axes(axes, rank)
    regions = _regions(roi, over, rank)
    by_scale = scales is not None and np.size(scales)
    if bool(by_scale) == bool(sizes is not None and np.size(sizes)):
        raise OperatorError("Resize wants scales or sizes, and not both")
    if by_scale:
        return _by_scales(o, x, over, scales, way, regions)
    return _by_sizes(o, x, over, sizes, way, regions, keep_aspect_ratio_policy)
