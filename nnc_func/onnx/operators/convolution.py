"""Convolutions of ONNX: channels first, kernels ``(out, in // groups, …)``, of one to three axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import (
    Ints,
    amounts_of,
    channels_first,
    constant_array,
    spatial,
    transposed,
    widened,
)
from nnc_func.onnx.table import onnx_operator

INT8, INT16, INT32 = map(np.dtype, ("int8", "int16", "int32"))

# --- convolution -----------------------------------------------------------------------------------------


def per_channel(o: Context, values: Tensor, rank: int, axis: int = 1) -> Tensor:
    """A vector, shown so that it broadcasts along an axis of tensors of that rank; a number stays one."""
    if len(values.shape) == 0:
        return values
    return o.reshape(values, shape=tuple(values.shape[0] if i == axis else 1 for i in range(rank)))


def convolved(
    o: Context, x: Tensor, w: Tensor, *, auto_pad: str = "NOTSET", dilations: Ints | None = None, group: int = 1,
    kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None, zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`Conv` without a bias, with ONNX's attributes; of bytes less a `zero`, an integer one of images."""
    axes = spatial(x.shape, "Conv")
    if len(w.shape) != axes + 2:
        raise ShapeError(f"a kernel of rank {axes + 2}, (out, in // groups, …), fits {x.shape}; given {w.shape}")
    window = w.shape[2:]
    if kernel_shape is not None and not all(a == b for a, b in zip(kernel_shape, window, strict=True)):
        raise ShapeError(f"kernel_shape is {tuple(kernel_shape)}, and the kernel has shape {w.shape}")
    stride, dilation = strides or (1,) * axes, dilations or (1,) * axes
    padding = amounts_of(x.shape[2:], window, stride, dilation, auto_pad, pads)
    kernel = transposed(o, w, (*range(2, axes + 2), 1, 0))
    name, beside = (f"conv{axes}d", ()) if zero is None else ("conv2d_integer", (zero,))
    return getattr(o, name)(
        x, kernel, *beside, stride=tuple(stride), padding=padding, dilation=tuple(dilation), groups=group,
        data_format=channels_first(axes),
    )  # fmt: skip


@onnx_operator("Conv", since=(1, 11, 22))
def conv(
    o: Context, x: Tensor, w: Tensor, b: Tensor | None = None, /, *, auto_pad: str = "NOTSET",
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Convolution, cross-correlation, of signals, images or volumes.

    A signal with a bias is an image one pixel high, so that what follows stands beside the product.
    """
    if b is not None and len(x.shape) == len(w.shape) == 3:
        beside = {"dilations": dilations, "kernel_shape": kernel_shape, "strides": strides}
        wider = {name: None if given is None else (1, *given) for name, given in beside.items()}
        y = conv(
            o, o.reshape(x, shape=(*x.shape[:2], 1, x.shape[2])), widened(o, w, 2), b, auto_pad=auto_pad, group=group,
            pads=None if pads is None else (0, pads[0], 0, pads[1]), **wider,
        )  # fmt: skip
        return o.reshape(y, shape=(*y.shape[:2], y.shape[3]))
    y = convolved(
        o, x, w, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return y if b is None else o.add(y, per_channel(o, b, len(x.shape)))


@onnx_operator("ConvInteger", since=(10,))
def conv_integer(
    o: Context, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, /, *,
    auto_pad: str = "NOTSET", dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of bytes in int32, less their zero points."""
    return convolved_integers(
        o, x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip


def convolved_integers(
    o: Context, x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None, **params: Any
) -> Tensor:
    """A convolution of bytes less their zero points, in int32: of images by constant bytes, as such."""
    weights, zero = without_zero(o, w, w_zero, INT32, 0), single_zero(o, x, x_zero)
    small = as_small(weights)
    if small is None or zero is None or len(x.shape) != 4:
        return convolved(o, without_zero(o, x, x_zero, INT32, 1), weights, **params)
    return convolved(o, x, small, zero=zero, **params)


def single_zero(o: Context, x: Tensor, zero: Tensor | None) -> Tensor | None:
    """The zero point of all of a tensor of bytes, of its dtype; None where there are several, or it has no bytes."""
    if x.dtype not in (np.uint8, np.int8):
        return None
    if zero is None:
        return o.scalar(0, x)
    return o.reshape(zero, shape=()) if all(known(n) and n == 1 for n in zero.shape) else None


def as_small(w: Tensor) -> Tensor | None:
    """Constant whole numbers in int8 or, a little larger ones, in int16."""
    found = constant_array(w)
    if found is None:
        return None
    low, high = found.min(initial=0), found.max(initial=0)
    fitting = next((each for each in (INT8, INT16) if np.iinfo(each).min <= low <= high <= np.iinfo(each).max), None)
    return None if fitting is None else w.stack.asarray(found.astype(fitting))


def without_zero(o: Context, x: Tensor, zero: Tensor | None, dtype: Any, axis: int) -> Tensor:
    """Quantised numbers less their zero point, in a wider dtype: at once where they are constants."""
    numbers, away = constant_array(x), None if zero is None else constant_array(zero)
    if numbers is not None and (zero is None or away is not None):
        numbers = numbers.astype(dtype)
        if away is not None and away.ndim:
            away = away.reshape([-1 if i == axis else 1 for i in range(numbers.ndim)])
        return x.stack.asarray(numbers if away is None else numbers - away.astype(dtype))
    x = o.cast(x, dtype=dtype)
    return x if zero is None else o.subtract(x, o.cast(per_channel(o, zero, len(x.shape), axis), dtype=dtype))


# --- transposed ------------------------------------------------------------------------------------------


def _grown(n: Extent, window: Extent, stride: int, dilation: int, more: int) -> Extent:
    """The extent of a transposed convolution before anything is cut off."""
    return (n - 1) * stride + (window - 1) * dilation + 1 + more


def _cut(
    extents: tuple[Extent, ...], full: tuple[Extent, ...], strides: Ints, auto_pad: str, pads: Ints | None,
    output_shape: Ints | None,
) -> list[tuple[Any, Any]]:  # fmt: skip
    """What is cut off before and after each axis of the whole; less than zero where zeros are added."""
    axes = len(full)
    if output_shape is None and auto_pad in ("NOTSET", "VALID"):
        around = tuple(pads or (0,) * 2 * axes) if auto_pad == "NOTSET" else (0,) * 2 * axes
        return list(zip(around[:axes], around[axes:], strict=True))
    wanted = (
        output_shape[-axes:] if output_shape is not None else [n * s for n, s in zip(extents, strides, strict=True)]
    )
    found = []
    for m, n in zip(full, wanted, strict=True):
        total = m - n
        if not known(total):
            raise ShapeError(f"what is cut off an extent of {m} to leave {n} is not known")
        less = total // 2
        if total < 0:  # zeros are added behind
            found.append((0, total))
        else:
            found.append((less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less))
    return found


@onnx_operator("ConvTranspose", since=(1, 11, 22))
def conv_transpose(
    o: Context, x: Tensor, w: Tensor, b: Tensor | None = None, /, *, auto_pad: str = "NOTSET",
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None,
    output_padding: Ints | None = None, output_shape: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The adjoint of convolution, as a layer of its own."""
    axes = spatial(x.shape, "ConvTranspose")
    stride, dilation = tuple(strides or (1,) * axes), tuple(dilations or (1,) * axes)
    more, window = tuple(output_padding or (0,) * axes), w.shape[2:]
    if len(window) != axes or (kernel_shape is not None and tuple(kernel_shape) != tuple(window)):
        raise ShapeError(f"a kernel (in, out // groups, {kernel_shape or '…'}) fits {x.shape}; given {w.shape}")
    full = tuple(map(_grown, x.shape[2:], window, stride, dilation, more))
    cut = _cut(x.shape[2:], full, stride, auto_pad, pads, output_shape)
    direct = all(m < s for m, s in zip(more, stride, strict=True)) and all(c >= 0 for cs in cut for c in cs)
    y = getattr(o, f"conv_transpose{axes}d")(
        x, transposed(o, w, (*range(2, axes + 2), 1, 0)), stride=stride, dilation=dilation, groups=group,
        padding=tuple(cut) if direct else "VALID", output_padding=more if direct else 0,
        data_format=channels_first(axes),
    )  # fmt: skip
    if not direct:
        y = _within(o, y, [(c[0], c[1] - m) for c, m in zip(cut, more, strict=True)])
    return y if b is None else o.add(y, per_channel(o, b, len(x.shape)))


def _within(o: Context, x: Tensor, cut: list[tuple[int, int]]) -> Tensor:
    """Less so many elements before and after each spatial axis; zeros where it is less than none."""
    widths = tuple((max(-before, 0), max(-after, 0)) for before, after in cut)
    starts = (0, 0, *(max(before, 0) for before, _ in cut))
    stops = (*x.shape[:2], *(n - max(after, 0) for n, (_, after) in zip(x.shape[2:], cut, strict=True)))
    x = o.slice(x, starts=starts, stops=stops, steps=(1,) * len(stops))
    return o.pad(x, widths=((0, 0), (0, 0), *widths))
