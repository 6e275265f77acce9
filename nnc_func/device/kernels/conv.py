"""Kernels of convolution: matrix products with windows laid out as columns, a few images at a time.

Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing", 2006 (im2col).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.device.kernels import conv_rows, depthwise, shifted
from nnc_func.device.kernels.linalg import (
    Arrays,
    Pair,
    Scratch,
    Windows,
    allocating,
    blas_ready,
    common,
    from_nhwc,
    last_channels,
    nhwc,
    pair,
    spans,
    windows_of,
    zeros,
)
from nnc_func.device.kernels.reordered import with_reordered
from nnc_func.device.shared.bounds import strided
from nnc_func.facets.kernels import Kernel, reference

# --- reference: a matrix product for each offset of the window ---------------------------------------


def _grouped(xp: Any, x: Any, groups: int) -> Any:
    """Rows of channels by group: (groups, pixels, channels of a group)."""
    pixels = math.prod(x.shape[:-1])
    return xp.permute_dims(xp.reshape(x, (pixels, groups, x.shape[-1] // groups)), (1, 0, 2))


def _ungrouped(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    return xp.reshape(xp.permute_dims(x, (1, 0, 2)), shape)


def _conv_reference(
    xp: Any, x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str
) -> Any:
    x, w = common(xp, x, w)
    x = nhwc(xp, x, data_format)
    over = windows_of(x.shape[1:3], w.shape[:2], stride, padding, dilation)
    out = zeros(xp, (x.shape[0], *over.outputs, w.shape[3]), x)
    for i, j, (rows, columns), (in_rows, in_columns) in over.offsets():
        seen = x[:, in_rows, in_columns, :]
        found = xp.matmul(_grouped(xp, seen, groups), _grouped(xp, w[i, j, :, :], groups))
        out[:, rows, columns, :] += _ungrouped(xp, found, (*seen.shape[:3], w.shape[3]))
    return from_nhwc(xp, out, data_format)


def _input_gradient_reference(
    xp: Any, g: Any, w: Any, *, input_shape: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int,
    data_format: str,
) -> Any:  # fmt: skip
    g, w = common(xp, g, w)
    g = nhwc(xp, g, data_format)
    extents = input_shape[1:3] if data_format == "NHWC" else input_shape[2:]
    over = windows_of(extents, w.shape[:2], stride, padding, dilation)
    out = zeros(xp, (g.shape[0], *extents, w.shape[2] * groups), g)
    for i, j, (rows, columns), (in_rows, in_columns) in over.offsets():
        seen = g[:, rows, columns, :]
        back = xp.matrix_transpose(_grouped(xp, w[i, j, :, :], groups))
        found = xp.matmul(_grouped(xp, seen, groups), back)
        out[:, in_rows, in_columns, :] += _ungrouped(xp, found, (*seen.shape[:3], out.shape[3]))
    return from_nhwc(xp, out, data_format)


def _kernel_gradient_reference(
    xp: Any, x: Any, g: Any, *, kernel_shape: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int,
    data_format: str,
) -> Any:  # fmt: skip
    x, g = common(xp, x, g)
    x, g = nhwc(xp, x, data_format), nhwc(xp, g, data_format)
    over = windows_of(x.shape[1:3], kernel_shape[:2], stride, padding, dilation)
    out = zeros(xp, kernel_shape, x)
    for i, j, (rows, columns), (in_rows, in_columns) in over.offsets():
        seen = xp.matrix_transpose(_grouped(xp, x[:, in_rows, in_columns, :], groups))
        found = xp.matmul(seen, _grouped(xp, g[:, rows, columns, :], groups))
        out[i, j, :, :] = _ungrouped(xp, found, kernel_shape[2:])
    return out


# --- columns: blocks of images -----------------------------------------------------------------------


@frozen
class Blocks:
    """How a convolution goes over its images: `images` at a time, their windows laid out as columns of a matrix.

    With channels last, columns are stored either window by window (``rows``: each window's elements side by side),
    or element by element (each element's windows side by side): whichever has the longer runs to copy. BLAS reads
    both. With channels first it is always element by element, image by image.
    """

    over: Windows
    images: int
    channels: int
    out: int
    groups: int
    data_format: str
    rows: bool

    @property
    def pixels(self) -> int:
        """Windows in one image."""
        return math.prod(self.over.outputs)

    @property
    def depth(self) -> int:
        """Elements of a window that one group sees."""
        return math.prod(self.over.size) * (self.channels // self.groups)

    @property
    def direct(self) -> bool:
        """Windows of one element, each pixel once: images are their own columns, and nothing is copied."""
        return self.over.size == self.over.stride == (1, 1) and not self.pads

    @property
    def padded(self) -> Pair:
        """Extents of an image with its padding, or as far as windows reach."""
        h, w = (n + a + b for n, a, b in zip(self.over.inputs, self.over.before, self.over.after, strict=True))
        return h, w

    @property
    def pads(self) -> bool:
        """There is padding."""
        return self.padded != self.over.inputs

    def padded_shape(self, images: int) -> tuple[int, ...]:
        """Of padded images, in their own data format."""
        if self.data_format == "NHWC":
            return (images, *self.padded, self.channels)
        return (images, self.channels, *self.padded)

    def inside(self, padded: Any) -> Any:
        """The images within padded ones; channels last in both."""
        (top, left), (h, w) = self.over.before, self.over.inputs
        return padded[:, top : top + h, left : left + w]

    def columns(self, flat: Any, images: int) -> tuple[Any, Any]:
        """Columns in flat memory, twice: as (images, rows, columns, window rows, window columns, groups, channels),
        and as matrices (…, pixels, elements), one a group, with channels first also one an image."""
        (kh, kw), (oh, ow), g, c = self.over.size, self.over.outputs, self.groups, self.channels // self.groups
        flat = flat[: images * self.pixels * self.groups * self.depth]
        if self.data_format == "NCHW":
            whole = flat.reshape(images, g, kh, kw, c, oh, ow).transpose(0, 5, 6, 2, 3, 1, 4)
            return whole, flat.reshape(images, g, self.depth, self.pixels).swapaxes(2, 3)
        if self.rows:
            whole = flat.reshape(g, images, oh, ow, kh, kw, c).transpose(1, 2, 3, 4, 5, 0, 6)
            return whole, flat.reshape(g, images * self.pixels, self.depth)
        whole = flat.reshape(g, kh, kw, c, images, oh, ow).transpose(4, 5, 6, 1, 2, 0, 3)
        return whole, flat.reshape(g, self.depth, images * self.pixels).swapaxes(1, 2)

    def seen(self, xp: Any, x: Any) -> Any:
        """The windows of images (padded already, channels last) as a view in the order of `columns`."""
        n, (s_image, s_row, s_column, s_channel) = x.shape[0], x.strides
        c = self.channels // self.groups
        (sh, sw), (dh, dw) = self.over.stride, self.over.dilation
        return strided(
            xp, x, (n, *self.over.outputs, *self.over.size, self.groups, c),
            (s_image, s_row * sh, s_column * sw, s_row * dh, s_column * dw, s_channel * c, s_channel),
        )  # fmt: skip

    def kernel(self, w: Any) -> Any:
        """A kernel as matrices (groups, elements, channels of a group): a view of a contiguous one."""
        return w.reshape(self.depth, self.groups, self.out // self.groups).transpose(1, 0, 2)

    def pixels_of(self, y: Any, channels: int) -> Any:
        """Results or cotangents as matrices that go with those of `columns`: views of contiguous ones."""
        n, g = y.shape[0], self.groups
        if self.data_format == "NCHW":
            return y.reshape(n, g, channels // g, self.pixels).swapaxes(2, 3)
        return y.reshape(n * self.pixels, g, channels // g).transpose(1, 0, 2)


@lru_cache(maxsize=4096)
def _blocks(
    limit: int, itemsize: int, x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any,
    groups: int, data_format: str,
) -> Blocks:  # fmt: skip
    n, h, width, c = x if data_format == "NHWC" else (x[0], x[2], x[3], x[1])
    over = windows_of((h, width), w[:2], stride, padding, dilation)
    image = max(1, math.prod(over.outputs) * math.prod(w[:2]) * c * itemsize)
    run = c // groups * (w[1] if groups == 1 and pair(dilation)[1] == 1 else 1)
    return Blocks(over, max(1, min(n, limit // image)), c, w[3], groups, data_format, run >= min(over.outputs[1], 48))


def _swapped(matrices: Any) -> Any:
    return matrices.swapaxes(-1, -2)


def _fill_columns(xp: Any, plan: Blocks, x: Any, span: slice, scratch: Arrays) -> Any:
    """The windows of these images as matrices; the padding of the second scratch array is zero already."""
    if plan.direct:
        return blas_ready(xp, plan.pixels_of(x[span], plan.channels))
    columns, *padded = scratch
    block = last_channels(x[span], plan.data_format)
    whole, matrices = plan.columns(columns, block.shape[0])
    if padded:
        store = last_channels(padded[0][: block.shape[0]], plan.data_format)
        xp.copyto(plan.inside(store), block)
        block = store
    xp.copyto(whole, plan.seen(xp, block))
    return matrices


def _times(xp: Any, plan: Blocks, left: Any, right: Any, out: Any) -> None:
    """A product into results as `Blocks.pixels_of` gives them."""
    if plan.data_format == "NCHW":  # their memory has channels as rows
        xp.matmul(_swapped(right), _swapped(left), out=_swapped(out))
    else:
        xp.matmul(left, right, out=out)


def _columns_scratch(plan: Blocks, dtype: Any) -> Scratch:
    if plan.direct:
        return ()
    columns = ((plan.images * plan.pixels * plan.groups * plan.depth,), dtype)
    return (columns, (plan.padded_shape(plan.images), dtype)) if plan.pads else (columns,)


# --- the three convolutions by columns ---------------------------------------------------------------


def _conv_scratch(limit: int, avals: Arrays, **params: Any) -> Scratch:
    x, w = avals
    dtype = np.result_type(x.dtype, w.dtype)
    return _columns_scratch(_blocks(limit, dtype.itemsize, x.shape, w.shape, **params), dtype)


def _conv_into(limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
    (x, w), (out,) = arrays, outs
    plan = _blocks(limit, out.dtype.itemsize, x.shape, w.shape, **params)
    kernel = blas_ready(xp, plan.kernel(w))
    for padded in scratch[1:]:
        padded.fill(0)
    for span in spans(x.shape[0], plan.images):
        _times(xp, plan, _fill_columns(xp, plan, x, span, scratch), kernel, plan.pixels_of(out[span], plan.out))


def _kernel_gradient_scratch(limit: int, avals: Arrays, *, kernel_shape: tuple[int, ...], **params: Any) -> Scratch:
    x, g = avals
    dtype = np.result_type(x.dtype, g.dtype)
    plan = _blocks(limit, dtype.itemsize, x.shape, kernel_shape, **params)
    partial_sum = ((plan.groups, plan.depth, plan.out // plan.groups), dtype)
    return (partial_sum, *_columns_scratch(plan, dtype))


def _kernel_gradient_into(
    limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, kernel_shape: tuple[int, ...], **params: Any
) -> None:
    (x, g), (out,), (partial_sum, *rest) = arrays, outs, scratch
    plan = _blocks(limit, out.dtype.itemsize, x.shape, kernel_shape, **params)
    total = plan.kernel(out)
    out.fill(0)
    for padded in rest[1:]:
        padded.fill(0)
    for span in spans(x.shape[0], plan.images):
        matrices = _swapped(_fill_columns(xp, plan, x, span, tuple(rest)))
        cotangents = blas_ready(xp, plan.pixels_of(g[span], plan.out))
        pairs = zip(matrices, cotangents, strict=True) if plan.data_format == "NCHW" else ((matrices, cotangents),)
        for left, right in pairs:
            xp.matmul(left, right, out=partial_sum)
            xp.add(total, partial_sum, out=total)


def _input_gradient_scratch(limit: int, avals: Arrays, *, input_shape: tuple[int, ...], **params: Any) -> Scratch:
    g, w = avals
    dtype = np.result_type(g.dtype, w.dtype)
    return _columns_scratch(_blocks(limit, dtype.itemsize, input_shape, w.shape, **params), dtype)[:1]


def _input_gradient_into(
    limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, input_shape: tuple[int, ...], **params: Any
) -> None:
    (g, w), (out,) = arrays, outs
    plan = _blocks(limit, out.dtype.itemsize, input_shape, w.shape, **params)
    for span in spans(g.shape[0], plan.images):
        cotangents = blas_ready(xp, plan.pixels_of(g[span], plan.out))
        if plan.direct:
            back = _swapped(blas_ready(xp, plan.kernel(w)))
            _times(xp, plan, cotangents, back, plan.pixels_of(out[span], plan.channels))
            continue
        spread = _spread(xp, plan, cotangents, w, scratch[0], span.stop - span.start)
        target = out[span]
        target.fill(0)
        target = last_channels(target, plan.data_format)
        target = target.reshape(*target.shape[:3], plan.groups, -1) if plan.groups > 1 else target[:, :, :, None]
        for i, j, (rows, out_columns), (in_rows, in_columns) in plan.over.offsets():
            sums = target[:, in_rows, in_columns]
            xp.add(sums, spread[:, rows, out_columns, i, j], out=sums)


def _spread(xp: Any, plan: Blocks, cotangents: Any, w: Any, flat: Any, images: int) -> Any:
    """What each window's cotangent sends to each of its elements, in the order of `Blocks.columns`."""
    channels = plan.channels // plan.groups
    if plan.data_format == "NHWC" and channels >= 8:  # offset by offset: long runs of channels to add up
        (kh, kw), (oh, ow), g = plan.over.size, plan.over.outputs, plan.groups
        flat = flat[: images * plan.pixels * g * plan.depth]
        kernels = w.reshape(kh, kw, channels, g, plan.out // g).transpose(0, 1, 3, 4, 2)
        xp.matmul(
            cotangents, blas_ready(xp, kernels),
            out=flat.reshape(kh, kw, images * plan.pixels, g, channels).transpose(0, 1, 3, 2, 4),
        )  # fmt: skip
        return flat.reshape(kh, kw, images, oh, ow, g, channels).transpose(2, 3, 4, 0, 1, 5, 6)
    plan = evolve(plan, rows=False)
    whole, matrices = plan.columns(flat, images)
    xp.matmul(blas_ready(xp, plan.kernel(w)), _swapped(cotangents), out=_swapped(matrices))
    return whole


# --- kernels -----------------------------------------------------------------------------------------

HOST_COLUMNS = 1 << 22  # bytes of columns at a time: fewer products, and still in cache
DEVICE_COLUMNS = 1 << 28  # a GPU wants few large products


def _kernels(
    into: Any, scratch: Any, result: Any, fallback: Any, firsts: tuple[Kernel, ...], *others: Kernel
) -> tuple[Kernel, ...]:
    """As the first ones do, by columns on the host, by more columns on a GPU, as others do, by offsets anywhere."""
    fast = [*firsts]
    for namespace, limit in (("numpy", HOST_COLUMNS), ("cupy", DEVICE_COLUMNS)):
        write, wants = partial(into, limit), partial(scratch, limit)
        fast.append(
            Kernel(
                f"columns on {namespace}", compute=allocating(write, result, wants), into=write, scratch=wants,
                layouts=("row-major",), namespaces=frozenset({namespace}),
            )
        )  # fmt: skip
    return (*fast, *others, reference(fallback))


def conv_result(
    x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str
) -> tuple[Any, Any]:
    """Shape and dtype of `conv2d`."""
    h, width = x.shape[1:3] if data_format == "NHWC" else x.shape[2:]
    found = windows_of((h, width), w.shape[:2], stride, padding, dilation).outputs
    shape = (x.shape[0], *found, w.shape[3]) if data_format == "NHWC" else (x.shape[0], w.shape[3], *found)
    return shape, np.result_type(x.dtype, w.dtype)


def _input_result(g: Any, w: Any, *, input_shape: tuple[int, ...], **_: Any) -> tuple[Any, Any]:
    return input_shape, np.result_type(g.dtype, w.dtype)


def _kernel_result(x: Any, g: Any, *, kernel_shape: tuple[int, ...], **_: Any) -> tuple[Any, Any]:
    return kernel_shape, np.result_type(x.dtype, g.dtype)


CONV2D = with_reordered(
    _kernels(
        _conv_into, _conv_scratch, conv_result, _conv_reference,
        (depthwise.conv2d(conv_result), conv_rows.conv2d(conv_result)), shifted.conv2d(conv_result),
    ),
    (True, False, True),
)  # fmt: skip
CONV2D_INPUT_GRADIENT = with_reordered(
    _kernels(
        _input_gradient_into, _input_gradient_scratch, _input_result, _input_gradient_reference,
        (depthwise.conv2d_input_gradient(_input_result),),
        shifted.conv2d_input_gradient(_input_result, _input_gradient_reference),
    ),
    (True, False, True),
)  # fmt: skip
CONV2D_KERNEL_GRADIENT = with_reordered(
    _kernels(
        _kernel_gradient_into, _kernel_gradient_scratch, _kernel_result, _kernel_gradient_reference,
        (depthwise.conv2d_kernel_gradient(_kernel_result),),
        shifted.conv2d_kernel_gradient(_kernel_result, _kernel_gradient_reference),
    ),
    (True, True, False),
)  # fmt: skip
