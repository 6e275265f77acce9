"""Elements between pixels: grids of ONNX, the convolution whose windows are bent, and the features within boxes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, product
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.convolution import per_channel
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")
Taps = list[tuple[Tensor, Any]]  # along one axis: which elements, and their weights

# --- neighbours of places --------------------------------------------------------------------------------


def _bounds(o: Context, x: Tensor, n: Extent, align: bool) -> tuple[Tensor, Tensor]:
    """Where an axis begins and ends: at the middle of pixels, or at their borders."""
    last = o.scalar(n, x)
    if align:
        return o.scalar(0, x), o.subtract(last, o.scalar(1, x))
    return o.scalar(-0.5, x), o.subtract(last, o.scalar(0.5, x))


def _reflected(o: Context, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Thrown back at both ends until it is between them."""
    length = o.subtract(high, low)
    some = o.greater(length, o.scalar(0, length))
    turn = o.where(some, o.add(length, length), o.scalar(1, length))
    way = o.remainder(o.subtract(x, low), turn)
    found = o.add(low, o.minimum(way, o.subtract(turn, way)))
    return o.where(some, found, low)


def _brought_in(o: Context, x: Tensor, n: Extent, padding: str, align: bool) -> Tensor:
    """Places outside of an axis, as the padding says."""
    low, high = _bounds(o, x, n, align)
    if padding == "border":
        end = o.subtract(o.scalar(n, x), o.scalar(1, x))
        outside = o.logical_or(o.less(x, low), o.greater(x, high))
        return o.where(outside, o.minimum(o.maximum(x, o.scalar(0, x)), end), x)
    return _reflected(o, x, low, high) if padding == "reflection" else x


def _elements(o: Context, at: Tensor, weight: Any, n: Extent, padding: str, align: bool) -> tuple[Tensor, Any]:
    """Whole places as indices; with zeros outside the weight is zero there."""
    if padding == "zeros":
        inside = o.logical_and(o.greater_equal(at, o.scalar(0, at)), o.less(at, o.scalar(n, at)))
        weight = o.where(inside, o.scalar(1, at) if weight is None else weight, o.scalar(0, at))
    elif padding == "reflection":
        at = _reflected(o, at, *_bounds(o, at, n, align))
    end = o.subtract(o.scalar(n, at), o.scalar(1, at))
    return o.cast(o.minimum(o.maximum(at, o.scalar(0, at)), end), dtype=INT64), weight


def _cubic(o: Context, t: Tensor) -> list[Tensor]:
    """Weights of four neighbours, of which the second is t before the place; Keys' cubic convolution, a = -0.75."""

    def polynomial(x: Tensor, *factors: float) -> Tensor:
        y = o.scalar(factors[0], x)
        for factor in factors[1:]:
            y = o.add(o.multiply(y, x), o.scalar(factor, x))
        return y

    one = o.scalar(1, t)
    other = o.subtract(one, t)
    far, near = (-0.75, 3.75, -6.0, 3.0), (1.25, -2.25, 0.0, 1.0)
    return [
        polynomial(o.add(t, one), *far), polynomial(t, *near), polynomial(other, *near),
        polynomial(o.add(other, one), *far),
    ]  # fmt: skip


def _taps(o: Context, x: Tensor, n: Extent, mode: str, padding: str, align: bool) -> Taps:
    """The neighbours of places along an axis."""
    if mode == "nearest":
        x = _brought_in(o, o.round(x), n, padding, align)
        return [_elements(o, o.round(x), None, n, padding, align)]
    if mode == "linear":
        x = _brought_in(o, x, n, padding, align)
    low = o.floor(x)
    share = o.subtract(x, low)
    if mode == "linear":
        pairs = [(0, o.subtract(o.scalar(1, share), share)), (1, share)]
    else:
        pairs = list(zip((-1, 0, 1, 2), _cubic(o, share), strict=True))
    return [_elements(o, o.add(low, o.scalar(step, low)), w, n, padding, align) for step, w in pairs]


def _pixels(o: Context, x: Tensor) -> Tensor:
    """Channels last, and all pixels in a row: (n * pixels, channels)."""
    rank = len(x.shape)
    moved = o.permute_dims(x, axes=(0, *range(2, rank), 1))
    return o.reshape(moved, shape=(x.shape[0] * product(x.shape[2:]), x.shape[1]))


def _sampled(o: Context, x: Tensor, taps: list[Taps]) -> Tensor:
    """Weighed sums of neighbours: (n, places, channels) of images (n, channels, …), taps (n, places) of each axis."""
    pixels, n = _pixels(o, x), x.shape[0]
    each = product(x.shape[2:])
    first = o.multiply(o.arange(start=0, stop=n, dtype=INT64), o.full(shape=(), value=each, dtype=INT64))
    total = None
    for chosen in itertools.product(*taps):
        at, weight = o.full(shape=(), value=0, dtype=INT64), None
        for extent, (index, factor) in zip(x.shape[2:], chosen, strict=True):
            at = o.add(o.multiply(at, o.full(shape=(), value=extent, dtype=INT64)), index)
            weight = factor if weight is None else weight if factor is None else o.multiply(weight, factor)
        found = o.take(pixels, o.add(at, o.reshape(first, shape=(n, 1))), axis=0)
        if weight is not None:
            found = o.multiply(found, o.expand_dims(o.cast(weight, dtype=x.dtype), axis=-1))
        total = found if total is None else o.add(total, found)
    return total


# --- grids -----------------------------------------------------------------------------------------------

_NAMES = {"bilinear": "linear", "bicubic": "cubic"}


@onnx_operator("GridSample", since=(16, 20, 22))
def grid_sample(
    o: Context, x: Tensor, grid: Tensor, /, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:  # fmt: skip
    """Images at places of a grid, whose coordinates are from -1 to 1, the last axis first."""
    mode = _NAMES.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise OperatorError(f"GridSample of mode {mode!r} with padding {padding_mode!r} is unknown")
    axes, rest = len(x.shape) - 2, grid.shape[1:-1]
    if grid.shape[-1] != axes or len(rest) != axes:
        raise ShapeError(f"a grid (n, …, {axes}) fits {x.shape}; given {grid.shape}")
    columns = o.split(o.reshape(grid, shape=(x.shape[0], product(rest), axes)), sections=(1,) * axes, axis=-1)
    taps = []
    for extent, column in zip(x.shape[2:], reversed(columns), strict=True):
        low, high = _bounds(o, column, extent, bool(align_corners))
        share = o.multiply(o.add(o.squeeze(column, axis=-1), o.scalar(1, column)), o.scalar(0.5, column))
        at = o.add(low, o.multiply(share, o.subtract(high, low)))
        taps.append(_taps(o, at, extent, mode, padding_mode, bool(align_corners)))
    found = o.permute_dims(_sampled(o, x, taps), axes=(0, 2, 1))
    return o.reshape(found, shape=(*x.shape[:2], *rest))


@onnx_operator("AffineGrid", since=20, known=("size",))
def affine_grid(o: Context, theta: Tensor, size: Any, /, *, align_corners: int = 0) -> Tensor:
    """Where an affine map takes the middles of pixels: a grid for `GridSample`."""
    extents = [int(n) for n in size][2:]
    axes = len(extents)
    if axes not in (2, 3) or tuple(theta.shape[1:]) != (axes, axes + 1):
        raise ShapeError(f"maps (n, {axes}, {axes + 1}) of images or volumes {list(size)}; given {theta.shape}")
    o.sized((*extents, axes + 1))
    lines = [
        np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in extents
    ]  # fmt: skip
    columns = [np.ravel(c) for c in reversed(np.meshgrid(*lines, indexing="ij"))]
    points = np.stack([*columns, np.ones(columns[0].shape)], axis=-1).astype(theta.dtype)
    grid = o.matmul(theta.stack.asarray(points), theta, transpose_b=True)
    return o.reshape(grid, shape=(theta.shape[0], *extents, axes))


# --- bent windows ----------------------------------------------------------------------------------------


@onnx_operator("DeformConv", since=(19, 22))
def deform_conv(
    o: Context, x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None, /, *,
    dilations: Ints = (1, 1), group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints = (0, 0, 0, 0), strides: Ints = (1, 1),
) -> Tensor:  # fmt: skip
    """Convolution of images, each element of each window moved by an offset; Dai et al., 2017, and Zhu et al., 2019."""
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise ShapeError(f"DeformConv of images is there; given {x.shape} and kernels {w.shape}")
    n, channels, *extents = x.shape
    window, found = w.shape[2:], offset.shape[2:]
    taps_count, places, groups = product(window), product(found), offset_group
    if offset.shape[1] != groups * taps_count * 2 or channels % groups or channels != w.shape[1] * group:
        raise ShapeError(f"offsets {offset.shape}, kernels {w.shape} and images {x.shape} do not fit")
    # images of one group of channels each; places (n * groups, taps * places)
    apart = o.reshape(x, shape=(n * groups, channels // groups, *extents))
    moved = o.reshape(offset, shape=(n * groups, taps_count, 2, places))
    taps = []
    for axis, column in enumerate(o.split(moved, sections=2, axis=2)):
        o.sized((*window, *found))
        inner = np.arange(window[axis]) * dilations[axis]
        outer = np.arange(found[axis]) * strides[axis] - pads[axis]
        base = np.zeros((*window, *found))
        inner = inner.reshape([window[axis] if i == axis else 1 for i in range(4)])
        outer = outer.reshape([found[axis] if i == axis + 2 else 1 for i in range(4)])
        base = (base + inner + outer).reshape(1, taps_count * places).astype(offset.dtype)
        at = o.add(o.reshape(column, shape=(n * groups, taps_count * places)), x.stack.asarray(base))
        taps.append(_taps(o, at, extents[axis], "linear", "zeros", True))
    seen = o.permute_dims(_sampled(o, apart, taps), axes=(0, 2, 1))  # (n * groups, channels of one, taps * places)
    if mask is not None:
        seen = o.multiply(seen, o.reshape(mask, shape=(n * groups, 1, taps_count * places)))
    seen = o.reshape(seen, shape=(n, group, w.shape[1] * taps_count, places))
    kernel = o.reshape(w, shape=(group, w.shape[0] // group, w.shape[1] * taps_count))
    y = o.reshape(o.matmul(kernel, seen), shape=(n, w.shape[0], *found))
    return y if b is None else o.add(y, per_channel(o, b, 4))
