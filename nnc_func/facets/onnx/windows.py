"""Convolution and pooling in ONNX, which has channels behind the number of images; and their adjoints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.facets.dims import known, product
from nnc_func.facets.onnx.fused import blockwise
from nnc_func.facets.windows import amounts, image_axes, image_shape, numbers, window_extents

FIRST, LAST = "NCHW", "NHWC"
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def channels_first(g: Any, x: Any, data_format: str) -> Any:
    """Images of that data format with channels first."""
    return x if data_format == FIRST else g.permute_dims(x, axes=TO_FIRST)


def as_given(g: Any, x: Any, data_format: str) -> Any:
    """Images with channels first, whose shape need not be known, in that data format."""
    return x if data_format == FIRST else g.Transpose(x, perm=TO_LAST)


def padding_around(g: Any, x: Any, window: Any, data_format: str, **params: Any) -> tuple[tuple[int, int], ...]:
    """Padding before and after each spatial axis."""
    padding = amounts(params["padding"])
    if padding is not None:
        return padding
    extents: Any = image_axes(x, data_format)[1]
    if not all(map(known, extents)):
        g.refuse("padding='SAME' depends on extents of images that are not known; say them, or the padding")
    counts: Any = window_extents(extents, window, params["stride"], "SAME")
    spans = _spans(window, params["dilation"])
    strides = numbers("stride", params["stride"])
    missing = (max(0, (c - 1) * s + k - n) for n, c, s, k in zip(extents, counts, strides, spans, strict=True))
    return tuple((m // 2, m - m // 2) for m in missing)


def _spans(window: Any, dilation: Any) -> tuple[int, ...]:
    return tuple(d * (k - 1) + 1 for k, d in zip(window, numbers("dilation", dilation), strict=True))


def pads(around: Any) -> tuple[int, ...]:
    """Padding as ONNX has it: of all axes what comes before, then what comes after."""
    before, after = zip(*around, strict=True)
    return (*before, *after)


# --- convolution ------------------------------------------------------------------------------------------


def conv2d(g: Any, x: Any, w: Any, *, groups: int, data_format: str, **params: Any) -> Any:
    """Conv, the kernel's output channels brought to the front."""
    around = padding_around(g, x.shape, w.shape[:2], data_format, **params)
    x, w = (g.having(each, each.shape, g.result.dtype) for each in (x, w))
    found = g.Conv(
        channels_first(g, x, data_format), g.permute_dims(w, axes=(3, 2, 0, 1)), group=groups, pads=pads(around),
        strides=numbers("stride", params["stride"]), dilations=numbers("dilation", params["dilation"]),
    )  # fmt: skip
    return as_given(g, found, data_format)


def conv2d_blockwise(g: Any, x: Any, w: Any, *others: Any, body: Any, **params: Any) -> Any:
    """Conv, and the operators that follow it."""
    return blockwise(g, g.conv2d(x, w, **params), *others, body=body)


def conv2d_input_gradient(
    g: Any, cotangent: Any, w: Any, *, input_shape: Any, groups: int, data_format: str, **params: Any
) -> Any:
    """ConvTranspose; what no window has reached is added as output padding."""
    if any(known(n) and n == 0 for n in cotangent.shape):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    around = padding_around(g, input_shape, w.shape[:2], data_format, **params)
    strides, spans = numbers("stride", params["stride"]), _spans(w.shape[:2], params["dilation"])
    rest = tuple(_left_over(g, *each) for each in zip(
        image_axes(input_shape, data_format)[1], image_axes(cotangent.shape, data_format)[1], strides, spans, around,
        strict=True,
    ))  # fmt: skip
    cotangent, w = (g.having(each, each.shape, g.result.dtype) for each in (cotangent, w))
    found = g.ConvTranspose(
        channels_first(g, cotangent, data_format), g.permute_dims(w, axes=(3, 2, 0, 1)), group=groups,
        pads=pads(around), strides=strides, dilations=numbers("dilation", params["dilation"]), output_padding=rest,
    )  # fmt: skip
    return as_given(g, found, data_format)


def _left_over(g: Any, extent: Any, count: Any, stride: int, span: int, around: tuple[int, int]) -> int:
    """By how much an axis is longer than what its windows cover."""
    rest = 0 if stride == 1 else extent + sum(around) - (stride * (count - 1) + span)
    if not known(rest):
        g.refuse("how far the windows of a stride above 1 reach depends on extents that are not known")
    return int(rest)


def conv2d_kernel_gradient(
    g: Any, x: Any, cotangent: Any, *, kernel_shape: Any, groups: int, data_format: str, **params: Any
) -> Any:
    """A Conv of the images with the cotangents, images and channels exchanged, and stride and dilation too."""
    if any(known(n) and n == 0 for n in (*x.shape, *cotangent.shape)):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    height, width = kernel_shape[:2]
    around = padding_around(g, x.shape, (height, width), data_format, **params)
    count, extents, channels = image_axes(x.shape, data_format)
    x, cotangent = (
        channels_first(g, g.having(each, each.shape, g.result.dtype), data_format) for each in (x, cotangent)
    )
    each = channels // groups
    runs = g.reshape(x, shape=(count, groups, each, *extents))
    images = g.reshape(g.permute_dims(runs, axes=(2, 1, 0, 3, 4)), shape=(each, groups * count, *extents))
    found = g.Conv(
        images, g.permute_dims(cotangent, axes=(1, 0, 2, 3)), group=groups, pads=pads(around),
        strides=numbers("dilation", params["dilation"]), dilations=numbers("stride", params["stride"]),
    )  # fmt: skip
    cut = g.Slice(found, g.integers((0, 0)), g.integers((height, width)), g.integers((2, 3)))
    return g.Transpose(cut, perm=(2, 3, 0, 1))


# --- the maximum of a window ------------------------------------------------------------------------------


@frozen
class _Pooled:
    """MaxPool of images, channels first.

    Attributes
    ----------
    result, places
        What it gives; and where in the tensor each comes from, the first of equal ones.
    widths, shape
        What was put around the images before, and their shape then.
    """

    result: Any
    places: Any
    widths: tuple[tuple[int, int], ...]
    shape: tuple[Any, ...]


def _pooled(g: Any, x: Any, window: Any, stride: Any, data_format: str, **params: Any) -> _Pooled:
    """Padding that is not narrower than the window's own extents, which MaxPool refuses, is put around before."""
    over = numbers("window", window)
    stride = over if stride is None else stride
    around = padding_around(g, x.shape, over, data_format, stride=stride, **params)
    if x.dtype.kind in "iu" and x.dtype.itemsize in (2, 4):  # a double holds them, and MaxPool takes no others
        x = g.having(x, x.shape, np.dtype("float64"))
    images, widths = channels_first(g, x, data_format), ((0, 0),) * 4
    if any(amount >= k for pair, k in zip(around, over, strict=True) for amount in pair):
        least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -math.inf
        around, widths = ((0, 0), (0, 0)), ((0, 0), (0, 0), *around)
        images = g.pad(images, widths=widths, value=int(least) if x.dtype.kind in "iu" else least)
    result, places = g.MaxPool(
        images, kernel_shape=over, strides=numbers("stride", stride), pads=pads(around),
        dilations=numbers("dilation", params["dilation"]), outputs=2,
    )  # fmt: skip
    return _Pooled(result, places, widths, images.shape)


def max_pool2d(g: Any, x: Any, *, window: Any, stride: Any, data_format: str, **params: Any) -> Any:
    """MaxPool."""
    return as_given(g, _pooled(g, x, window, stride, data_format, **params).result, data_format)


def max_pool2d_gradient(
    g: Any, x: Any, cotangent: Any, *, window: Any, stride: Any, data_format: str, **params: Any
) -> Any:
    """Scattered to where MaxPool says that the largest elements stand."""
    if any(known(n) and n == 0 for n in cotangent.shape):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    pooled = _pooled(g, x, window, stride, data_format, **params)
    zeros = g.full(shape=(product(pooled.shape),), value=0, dtype=cotangent.dtype)
    images = channels_first(g, cotangent, data_format)
    values = g.reshape(images, shape=(product(images.shape),))
    places = g.having(g.Reshape(pooled.places, g.integers((-1,))), values.shape)
    found = g.reshape(g.put_along_axis_add(zeros, places, values, axis=0), shape=pooled.shape)
    starts = tuple(before for before, _ in pooled.widths)
    stops = tuple(n - after for n, (_, after) in zip(pooled.shape, pooled.widths, strict=True))
    return as_given(g, g.slice(found, starts=starts, stops=stops, steps=(1,) * 4), data_format)


def max_pool2d_tangent(g: Any, x: Any, t: Any, *, window: Any, stride: Any, data_format: str, **params: Any) -> Any:
    """Gathered from where MaxPool says that the largest elements stand."""
    pooled = _pooled(g, x, window, stride, data_format, **params)
    wide = g.pad(channels_first(g, t, data_format), widths=pooled.widths, value=0)
    flat = g.Reshape(wide, g.integers((-1,)))
    return as_given(g, g.Gather(flat, pooled.places, axis=0), data_format)


# --- the mean of a window ---------------------------------------------------------------------------------


def _one_by_one(g: Any, x: Any, data_format: str) -> tuple[Any, tuple[Any, ...]]:
    """Each channel of each image as an image of its own, and their shape, channels first."""
    shape = image_shape(*image_axes(x.shape, data_format), FIRST)
    return g.reshape(channels_first(g, x, data_format), shape=(shape[0] * shape[1], *shape[2:], 1)), shape


def _counts(g: Any, extents: Any, ones: Any, inside: bool, dtype: Any, **params: Any) -> Any:
    """The number of elements of each window, of those inside of the image only, or of all."""
    if not inside:
        height, width = ones.shape[:2]
        return g.scalar(height * width, dtype)
    return g.conv2d(g.full(shape=(1, *extents, 1), value=1, dtype=dtype), ones, **params)


def average_pool2d(
    g: Any, x: Any, *, window: Any, stride: Any, count_padding: bool, data_format: str, **params: Any
) -> Any:
    """AveragePool; with a dilation, which it has in later opsets only, sums by Conv, divided."""
    over = numbers("window", window)
    stride = over if stride is None else stride
    x = g.having(x, x.shape, g.result.dtype)
    if numbers("dilation", params["dilation"]) == (1, 1):
        around = padding_around(g, x.shape, over, data_format, stride=stride, **params)
        found = g.AveragePool(
            channels_first(g, x, data_format), kernel_shape=over, strides=numbers("stride", stride),
            pads=pads(around), count_include_pad=int(count_padding),
        )  # fmt: skip
        return as_given(g, found, data_format)
    ones = g.full(shape=(*over, 1, 1), value=1, dtype=x.dtype)
    flat, shape = _one_by_one(g, x, data_format)
    counts = _counts(g, shape[2:], ones, not count_padding, x.dtype, stride=stride, **params)
    means = g.divide(g.conv2d(flat, ones, stride=stride, **params), counts)
    rows, columns = means.shape[1:3]
    return as_given(g, g.reshape(means, shape=(*shape[:2], rows, columns)), data_format)


def average_pool2d_gradient(
    g: Any, cotangent: Any, *, input_shape: Any, window: Any, stride: Any, count_padding: bool, data_format: str,
    **params: Any,
) -> Any:  # fmt: skip
    """The adjoint of a convolution with ones, of cotangents divided by the number of elements."""
    over = numbers("window", window)
    stride = over if stride is None else stride
    if any(known(n) and n == 0 for n in cotangent.shape):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    cotangent = g.having(cotangent, cotangent.shape, g.result.dtype)
    ones = g.full(shape=(*over, 1, 1), value=1, dtype=cotangent.dtype)
    shape = image_shape(*image_axes(input_shape, data_format), FIRST)
    flat, _ = _one_by_one(g, cotangent, data_format)
    counts = _counts(g, shape[2:], ones, not count_padding, cotangent.dtype, stride=stride, **params)
    found = g.conv2d_input_gradient(
        g.divide(flat, counts), ones, input_shape=(shape[0] * shape[1], *shape[2:], 1), stride=stride, **params
    )
    return as_given(g, g.reshape(found, shape=shape), data_format)
