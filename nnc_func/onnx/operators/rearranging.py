"""Elements moved between channels and space, cut out of the middle, put into a cache: ONNX's own movements."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known, product
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")

# --- channels and space ----------------------------------------------------------------------------------


def _images(x: Tensor, blocksize: int, name: str) -> None:
    if len(x.shape) != 4 or blocksize < 1:
        raise ShapeError(f"{name} wants images (n, channels, height, width) and a block; given {x.shape}, {blocksize}")


def _depth_to_space(o: Context, x: Tensor, blocksize: int, mode: str) -> Tensor:
    _images(x, blocksize, "DepthToSpace")
    n, channels, height, width = x.shape
    each = channels // blocksize**2
    if known(channels) and channels % blocksize**2:
        raise ShapeError(f"the channels of {x.shape} are no multiple of blocksize ** 2, {blocksize**2}")
    if mode not in ("DCR", "CRD"):
        raise OperatorError(f"the mode of DepthToSpace is 'DCR' or 'CRD', given {mode!r}")
    if mode == "DCR":
        x = o.reshape(x, shape=(n, blocksize, blocksize, each, height, width))
        x = o.permute_dims(x, axes=(0, 3, 4, 1, 5, 2))
    else:
        x = o.reshape(x, shape=(n, each, blocksize, blocksize, height, width))
        x = o.permute_dims(x, axes=(0, 1, 4, 2, 5, 3))
    return o.reshape(x, shape=(n, each, height * blocksize, width * blocksize))


@onnx_operator("DepthToSpace", since=1)
def depth_to_space_of_depth(o: Context, x: Tensor, /, *, blocksize: int) -> Tensor:
    """Channels become blocks of pixels, the depth outermost."""
    return _depth_to_space(o, x, blocksize, "DCR")


@onnx_operator("DepthToSpace", since=(11, 13, 28))
def depth_to_space(o: Context, x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels become blocks of pixels, the depth outermost or, of mode ``"CRD"``, innermost."""
    return _depth_to_space(o, x, blocksize, mode)


@onnx_operator("SpaceToDepth", since=(1, 13, 28))
def space_to_depth(o: Context, x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels become channels, the depth innermost."""
    _images(x, blocksize, "SpaceToDepth")
    n, channels, height, width = x.shape
    if any(known(extent) and extent % blocksize for extent in (height, width)):
        raise ShapeError(f"the extents of {x.shape} are no multiples of blocksize, {blocksize}")
    down, across = height // blocksize, width // blocksize
    x = o.reshape(x, shape=(n, channels, down, blocksize, across, blocksize))
    x = o.permute_dims(x, axes=(0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return o.reshape(x, shape=(n, channels * blocksize**2, down, across))


@onnx_operator("Col2Im", since=18, known=("image_shape", "block_shape"))
def col2im(
    o: Context, x: Tensor, image_shape: Any, block_shape: Any, /, *, dilations: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Sums of the columns that every window of an image was: the adjoint of taking windows out, of any rank."""
    image, block = [int(n) for n in image_shape], [int(n) for n in block_shape]
    axes = len(image)
    stride, dilation, around = strides or (1,) * axes, dilations or (1,) * axes, pads or (0,) * 2 * axes
    n, columns, places = x.shape
    channels = columns // product(tuple(block))
    whole = [m + around[i] + around[i + axes] for i, m in enumerate(image)]
    counts = [
        (m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(whole, block, stride, dilation, strict=True)
    ]  # fmt: skip
    if product(tuple(counts)) != places:
        raise ShapeError(f"Col2Im: windows {block} of an image {image} are {counts}, not {places}")
    o.sized((*block, *counts))
    at = np.zeros((1, 1), np.int64)
    for m, k, c, s, d in zip(whole, block, counts, stride, dilation, strict=True):  # row by row of window and image
        here = np.arange(k)[:, None] * d + np.arange(c)[None, :] * s
        at = (at[:, None, :, None] * m + here[None, :, None, :]).reshape(at.shape[0] * k, at.shape[1] * c)
    zeros = o.full(shape=(n * channels, product(tuple(whole))), value=0, dtype=x.dtype)
    flat = o.reshape(x, shape=(n * channels, at.size))
    summed = o.scatter_add(zeros, x.stack.asarray(at.reshape(-1)), flat, axis=1)
    summed = o.reshape(summed, shape=(n, channels, *whole))
    starts = (0, 0, *around[:axes])
    stops = (n, channels, *(before + m for before, m in zip(around[:axes], image, strict=True)))
    return o.slice(summed, starts=starts, stops=stops, steps=(1,) * (axes + 2))


# --- the middle ------------------------------------------------------------------------------------------


@onnx_operator("CenterCropPad", since=18, known=("shape",))
def center_crop_pad(o: Context, x: Tensor, shape: Any, /, *, axes: Ints | None = None) -> Tensor:
    """The middle of a tensor, or a tensor in the middle of zeros, axis by axis."""
    over = range(len(x.shape)) if axes is None else [normalise_axis(a, len(x.shape)) for a in axes]
    if len(over) != np.size(shape):
        raise ShapeError(f"CenterCropPad wants an extent for each of {len(over)} axes, given {shape}")
    starts, stops, widths = [0] * len(x.shape), [*x.shape], [(0, 0)] * len(x.shape)
    for axis, wanted in zip(over, o.sized(shape), strict=True):
        have = x.shape[axis]
        if not known(have):
            raise ShapeError(f"the middle of an extent of {have} is not known; give the input's shape")
        starts[axis] = max(have - wanted, 0) // 2
        stops[axis] = starts[axis] + min(have, wanted)
        before = max(wanted - have, 0) // 2
        widths[axis] = (before, max(wanted - have, 0) - before)
    x = o.slice(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(starts))
    return o.pad(x, widths=tuple(widths))


# --- caches ----------------------------------------------------------------------------------------------


@onnx_operator("TensorScatter", since=24)
def tensor_scatter(
    o: Context, cache: Tensor, update: Tensor, positions: Tensor | None = None, /, *, axis: int = -2,
    mode: str = "linear",
) -> Tensor:  # fmt: skip
    """A cache with an update at a position of an axis, of each sample its own; ``"circular"`` goes on at the front."""
    at = normalise_axis(axis, len(cache.shape))
    if at == 0 or mode not in ("linear", "circular"):
        raise OperatorError(f"wanted an axis behind the first, and linear or circular; {axis}, {mode!r}")
    n, steps, length = cache.shape[0], update.shape[at], cache.shape[at]
    rows = o.reshape(o.arange(start=0, stop=steps, dtype=INT64), shape=(1, steps))
    if positions is not None:
        rows = o.add(o.reshape(positions, shape=(n, 1)), rows)
    rows = o.broadcast_to(rows, shape=(n, steps))
    if mode == "circular":
        rows = o.remainder(rows, o.full(shape=(), value=length, dtype=INT64))
    order = (0, at, *(i for i in range(1, len(cache.shape)) if i != at))
    back = tuple(order.index(i) for i in range(len(order)))
    front, new = o.permute_dims(cache, axes=order), o.permute_dims(update, axes=order)
    rest = front.shape[2:]
    samples = o.multiply(o.arange(start=0, stop=n, dtype=INT64), o.full(shape=(), value=length, dtype=INT64))
    places = o.reshape(o.add(o.reshape(samples, shape=(n, 1)), rows), shape=(n * steps,))
    written = o.scatter_set(
        o.reshape(front, shape=(n * length, *rest)), places, o.reshape(new, shape=(n * steps, *rest)), axis=0
    )  # fmt: skip
    return o.permute_dims(o.reshape(written, shape=front.shape), axes=back)
