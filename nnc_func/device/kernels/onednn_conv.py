"""Kernels of oneDNN: convolutions over images whose channels are innermost in memory, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from nnc_func.device.kernels.linalg import Scratch, Windows, windows_of
from nnc_func.device.kernels.onednn import (
    FAST,
    PACKED,
    Primitives,
    Run,
    accepted,
    contiguous,
    in_layout,
    kernel_of,
    looked_at,
    pad,
    result_array,
    takes_products,
    widely,
)
from nnc_func.device.kernels.onednn_bfloat16 import exact
from nnc_func.facets.dtypes import is_bfloat16
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import CHANNELS_INNERMOST, NCHW, NHWC, ROW_MAJOR

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After, Convolution, Primitive


IMAGES = in_layout(CHANNELS_INNERMOST)
FEW = 1 << 16  # elements of images and results that are put into order in no time


def convolution_of(
    kind: str, avals: Sequence[Any], *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str,
    input_shape: Any = None, kernel_shape: Any = None, lasting: tuple[int, ...] = (),
    after: tuple[After, ...] = (), by_channel: bool = False,
) -> Primitive:  # fmt: skip
    """The primitive of a convolution, or of one of its gradients, whose first arguments are of these avals.

    With `by_channel` images of the format NCHW, and the result, lie row by row in memory.
    """
    from nnc_func.device.onednn.handles import data_type
    from nnc_func.device.onednn.primitives import convolution

    first, second = avals[0].shape, avals[1].shape
    over = description(
        input_shape if kind == "by data" else first, kernel_shape if kind == "by kernel" else second, stride=stride,
        padding=padding, dilation=dilation, groups=groups, data_format=data_format, by_channel=by_channel,
    )  # fmt: skip
    over = evolve(over, dtype=data_type(avals[0].dtype))
    return convolution(over, kind, lasting, after)


def description(
    images: Any, kernel: Any, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str,
    by_channel: bool = False,
) -> Convolution:  # fmt: skip
    """What the library is told of a convolution of images and a kernel of these shapes."""
    from nnc_func.device.onednn.primitives import Convolution

    images = tuple(images) if data_format == NHWC else tuple(images[i] for i in CHANNELS_INNERMOST)
    over = windows_of(images[1:3], tuple(kernel[:2]), stride, padding, dilation)
    return Convolution(
        images, tuple(kernel), over.outputs, over.stride, over.dilation, over.before, over.after, groups, by_channel
    )  # fmt: skip


def pads_inward(padding: Any) -> bool:
    """Whether some of it is negative: what the library has no code for."""
    return not isinstance(padding, str) and any(n < 0 for both in padding for n in both)


def takes_images(kind: str, avals: Sequence[Any], *, fast: bool = False, **params: Any) -> bool:
    """Whether the library has code for a convolution."""
    shapes = (params.get("input_shape") or (), params.get("kernel_shape") or ())
    if not takes_products(avals, params.get("after", ()), fast) or not all(
        isinstance(n, int) and n > 0 for shape in shapes for n in shape
    ):
        return False
    if pads_inward(params["padding"]) or (is_bfloat16(avals[0].dtype) and not _is_right(kind, avals, **params)):
        return False
    return accepted(partial(convolution_of, kind), avals, **params)


def _is_right(
    kind: str, avals: Sequence[Any], *, stride: Any, padding: Any, dilation: Any, data_format: str,
    input_shape: Any = None, kernel_shape: Any = None, **_: Any,
) -> bool:  # fmt: skip
    """Whether the library's convolution of bfloat16 is what it should be.

    Its gradient by the kernel (3.2, AVX-512) is not where windows have gaps: whole groups are wrong, or the last
    channels; nor where an element of the kernel sees padding alone, or a step is over a whole image: it is what was in
    memory before. The others are not where the first window begins in padding and no window reads the last elements,
    some of these at least, with long steps or gaps: it writes where nothing of its is.
    """
    images = avals[0].shape if kind != "by data" else input_shape
    kernel = avals[1].shape if kind != "by kernel" else kernel_shape
    spatial = images[1:3] if data_format == NHWC else images[2:4]
    over = windows_of(tuple(spatial), tuple(kernel[:2]), stride, padding, dilation)
    if kind == "by kernel":
        return over.dilation == (1, 1) and all(
            len(over.along(axis)) == over.size[axis] and over.stride[axis] <= over.inputs[axis] for axis in (0, 1)
        )
    return not any(_leaves_out(over, axis) for axis in (0, 1))


def _leaves_out(over: Windows, axis: int) -> bool:
    """Whether the first window begins in padding, and the last elements are in none."""
    span, step, before = (over.size[axis] - 1) * over.dilation[axis] + 1, over.stride[axis], over.before[axis]
    return before > 0 and (over.outputs[axis] - 1) * step + span < over.inputs[axis] + before


def _sums_pairs(kind: str, kernel: Sequence[int], groups: int) -> bool:
    """Whether the library multiplies elements that are none by zero, which makes NaN of what lies behind others.

    It sums products of bfloat16 two by two: of an odd number of channels the last one's other is the next pixel's
    first. Of a gradient by the kernel it is that of an element in a row.
    """
    return kind == "by kernel" or (kernel[2] if kind == "forward" else kernel[3] // groups) % 2 == 1


def _takes_narrow(kind: str, avals: Sequence[Any], **params: Any) -> bool:
    """Whether the library has code for a convolution of bfloat16, which is not looked at."""
    return is_bfloat16(avals[0].dtype) and takes_images(kind, avals, fast=True, **params)


def takes_few(kind: str, avals: Sequence[Any], **params: Any) -> bool:
    """Whether the library has code for a convolution of images that lie channel by channel, and these are small."""
    if params["data_format"] != NCHW or not takes_images(kind, avals, **params):
        return False
    windows = [params[name] for name in ("stride", "padding", "dilation")]
    n, _, *inputs = avals[0].shape
    outputs = windows_of(tuple(inputs), tuple(avals[1].shape[:2]), *windows).outputs
    return bool(math.prod(avals[0].shape) + n * math.prod(outputs) * avals[1].shape[3] <= FEW)


def bound_convolution(
    kind: str, avals: Sequence[Any], *, shares: bool = False, fast: bool = False, **params: Any
) -> Callable[..., Run]:
    """What makes, of scratch memory, the convolution as a function of operands and result."""
    from nnc_func.device.onednn.bound import bound

    images = IMAGES if params["data_format"] != NHWC and not params.get("by_channel") else contiguous
    others = [images if each.other == "whole" else contiguous for each in params.get("after", ()) if each.other]
    ready = (images, images if kind == "by kernel" else contiguous, *others)
    primitive = convolution_of(kind, avals, **params)

    def of(*scratch: Any) -> Run:
        return bound(primitive, scratch[0] if scratch else None, ready, shares)

    if not looked_at(avals, fast):
        return of
    lasting = params.pop("lasting", ())
    wide = partial(widely, partial(bound_convolution, kind), partial(_scratch, kind), params)
    pairs = _sums_pairs(kind, avals[1].shape, params["groups"])
    return exact(of, wide, lasting if shares else (), finite=pairs)


def _scratch(kind: str, avals: Sequence[Any], *, fast: bool = False, **params: Any) -> Scratch:
    return (*looked_at(avals, fast), *pad(convolution_of(kind, avals, **params)))


def _empty(kind: str, result: Callable[..., Any], *arrays: Any, **params: Any) -> Any:
    shape, dtype = result(*arrays, **params)
    return result_array(shape, dtype, NHWC if kind == "by kernel" else params["data_format"])


def _empty_by_channel(result: Callable[..., Any], *arrays: Any, **params: Any) -> Any:
    return result_array(*result(*arrays, **params))


def primitives(kind: str) -> Primitives:
    """The library's convolution, or one of its gradients."""
    return Primitives(partial(bound_convolution, kind), partial(_scratch, kind), partial(takes_images, kind))


BY_CHANNEL = Primitives(
    partial(bound_convolution, "forward", by_channel=True), partial(_scratch, "forward", by_channel=True),
    partial(takes_few, "forward", by_channel=True),
)  # fmt: skip
"""The library's convolution of small images that lie channel by channel."""


def convolution_kernels(kind: str, result: Callable[..., Any]) -> tuple[Kernel, ...]:
    """Of a convolution, or of one of its gradients; but for that by the kernel, also with a kernel that stays the same.

    ``result(*arrays, **params)`` is its shape and dtype.
    """
    parts, empty = primitives(kind), partial(_empty, kind, result)
    given = parts.bound, parts.scratch, parts.takes, empty
    fast = parts.fast.bound, parts.fast.scratch, partial(_takes_narrow, kind), empty
    if kind == "by kernel":
        layouts: Any = ((NHWC, NHWC, ROW_MAJOR),)
        return (
            kernel_of("onednn, fast math", *fast, layouts=layouts, narrow=True, library=FAST),
            kernel_of("onednn", *given, layouts=layouts, narrow=True),
        )
    layouts = ((NHWC, ROW_MAJOR, NHWC),)
    named = f"{PACKED}, fast math"
    found = (
        kernel_of("onednn, fast math", *fast, layouts=layouts, packed=named, narrow=True, library=FAST),
        kernel_of(named, *fast, (1,), layouts=layouts, narrow=True, library=FAST),
        kernel_of("onednn", *given, layouts=layouts, packed=PACKED, narrow=True),
        kernel_of(PACKED, *given, (1,), layouts=layouts, narrow=True),
    )
    if kind != "forward":
        return found
    few = BY_CHANNEL.bound, BY_CHANNEL.scratch, BY_CHANNEL.takes, partial(_empty_by_channel, result)
    return (
        *found,
        kernel_of("onednn, by channel", *few, layouts=(ROW_MAJOR,), packed=f"{PACKED}, by channel", narrow=True),
        kernel_of(f"{PACKED}, by channel", *few, (1,), layouts=(ROW_MAJOR,), narrow=True),
    )
