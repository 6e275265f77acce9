"""Kernels of convolution: matrix products with windows laid out as columns, a few images or rows of windows at a time.

Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing", 2006 (im2col).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device.kernels import conv_rows, depthwise, onednn_conv, shifted
from nnc_func.device.kernels.columns import (
    DEVICE_COLUMNS,
    FEW_COLUMNS,
    HOST_COLUMNS,
    LEAST,
    PARTIAL,
    Blocks,
    columns_scratch,
    fill_columns,
    part,
    planned,
    spread,
    swapped,
    times,
)
from nnc_func.device.kernels.linalg import (
    Arrays,
    Scratch,
    allocating,
    blas_ready,
    common,
    from_nhwc,
    last_channels,
    nhwc,
    spans,
    windows_of,
    zeros,
)
from nnc_func.device.kernels.reordered import with_reordered
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.views import Cost

Plan = Callable[..., Blocks]

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


# --- the three convolutions by columns ---------------------------------------------------------------


def _conv_scratch(limit: int, avals: Arrays, **params: Any) -> Scratch:
    x, w = avals
    dtype = np.result_type(x.dtype, w.dtype)
    return columns_scratch(planned(limit, dtype.itemsize, x.shape, w.shape, **params), dtype)


def _conv_into(limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
    (x, w), (out,), images = arrays, outs, params["data_format"]
    plan = planned(limit, out.dtype.itemsize, x.shape, w.shape, **params)
    kernel = blas_ready(xp, plan.kernel(w))
    for each in plan.blocks(x.shape[0]):
        seen = fill_columns(xp, each.plan, part(x, each.images, each.elements, images), scratch)
        target = part(out, each.images, each.windows, images)
        times(xp, each.plan, seen, kernel, each.plan.pixels_of(target, plan.out))


def _conv_bound(limit: int, avals: Arrays, **params: Any) -> Any:
    """As `_conv_into` does, of images that are one block, with all views of its scratch memory made before."""
    x, w, out = avals
    plan = planned(limit, out.dtype.itemsize, tuple(x.shape), tuple(w.shape), **params)
    count, images = x.shape[0], params["data_format"]
    if count > plan.images or plan.height < plan.over.outputs[0] or not out.size or out.dtype.kind not in "fc":
        return None
    if not x.dtype == w.dtype == out.dtype or 0 in w.shape or not count:
        return None
    return lambda *scratch: partial(_conv_at_once, _OneBlock.of(plan, count, images, scratch))


@frozen(eq=False)
class _OneBlock:
    """A convolution of images that are one block.

    Attributes
    ----------
    plan, images
        The block, and the data format.
    whole, matrices
        Columns in scratch memory, in both of their forms; None where images are their own columns.
    seen, inside, around
        Of padded images in scratch memory the windows, the images, and what is around these; None where nothing is.
    """

    plan: Blocks
    images: str
    whole: Any = None
    matrices: Any = None
    seen: Any = None
    inside: Any = None
    around: tuple[Any, ...] = ()

    @classmethod
    def of(cls, plan: Blocks, count: int, images: str, scratch: Arrays) -> _OneBlock:
        """The views of some scratch memory."""
        if plan.direct:
            return cls(plan, images)
        whole, matrices = plan.columns(scratch[0], count)
        if not plan.pads:
            return cls(plan, images, whole, matrices)
        shape = plan.padded_shape(count)
        store = last_channels(scratch[1][: math.prod(shape)].reshape(shape), images)
        around = tuple([each for each in plan.around(store) if each.size])
        return cls(plan, images, whole, matrices, plan.seen(np, store), plan.inside(store), around)

    def windows(self, x: Any) -> Any:
        """Those over images without padding."""
        last = last_channels(x, self.images)
        if not x.flags.c_contiguous:
            return self.plan.seen(np, last)
        shape, strides = self.plan.window_view(last)
        return np.ndarray(shape, x.dtype, x, 0, strides)


def _conv_at_once(block: _OneBlock, x: Any, w: Any, out: Any) -> None:
    plan, matrices = block.plan, block.matrices
    if matrices is None:
        matrices = blas_ready(np, plan.pixels_of(x, plan.channels))
    elif block.seen is None:
        np.copyto(block.whole, block.windows(x))
    else:
        for each in block.around:
            each.fill(0)
        np.copyto(block.inside, last_channels(x, block.images))
        np.copyto(block.whole, block.seen)
    times(np, plan, matrices, blas_ready(np, plan.kernel(w)), plan.pixels_of(out, plan.out))


def _kernel_gradient_scratch(limit: int, avals: Arrays, *, kernel_shape: tuple[int, ...], **params: Any) -> Scratch:
    x, g = avals
    dtype = np.result_type(x.dtype, g.dtype)
    plan = planned(limit, dtype.itemsize, x.shape, kernel_shape, **params)
    partial_sum = ((plan.groups, _partial_rows(plan), plan.out // plan.groups), dtype)
    return (partial_sum, *columns_scratch(plan, dtype))


def _partial_rows(plan: Blocks) -> int:
    """How many rows of the sum are added to at a time."""
    return min(plan.depth, max(LEAST, PARTIAL // max(1, plan.out)))


def _kernel_gradient_into(
    limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, kernel_shape: tuple[int, ...], **params: Any
) -> None:
    (x, g), (out,), (partial_sum, *rest), images = arrays, outs, scratch, params["data_format"]
    plan = planned(limit, out.dtype.itemsize, x.shape, kernel_shape, **params)
    total = plan.kernel(out)
    parts = [*spans(plan.depth, max(1, _partial_rows(plan)))]
    out.fill(0)
    for each in plan.blocks(x.shape[0]):
        matrices = swapped(fill_columns(xp, each.plan, part(x, each.images, each.elements, images), tuple(rest)))
        cotangents = blas_ready(xp, each.plan.pixels_of(part(g, each.images, each.windows, images), plan.out))
        pairs = zip(matrices, cotangents, strict=True) if images == "NCHW" else ((matrices, cotangents),)
        for left, right in pairs:
            for rows in parts:
                product = partial_sum[:, : rows.stop - rows.start]
                xp.matmul(left[..., rows, :], right, out=product)
                xp.add(total[:, rows], product, out=total[:, rows])


def _input_gradient_scratch(limit: int, avals: Arrays, *, input_shape: tuple[int, ...], **params: Any) -> Scratch:
    g, w = avals
    dtype = np.result_type(g.dtype, w.dtype)
    return columns_scratch(planned(limit, dtype.itemsize, input_shape, w.shape, **params), dtype)[:1]


def _input_gradient_into(
    limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, input_shape: tuple[int, ...], **params: Any
) -> None:
    (g, w), (out,), images = arrays, outs, params["data_format"]
    plan = planned(limit, out.dtype.itemsize, input_shape, w.shape, **params)
    for each in plan.blocks(g.shape[0]):
        cotangents = blas_ready(xp, each.plan.pixels_of(part(g, each.images, each.windows, images), plan.out))
        target = part(out, each.images, each.elements, images)
        if plan.direct:
            back = swapped(blas_ready(xp, plan.kernel(w)))
            times(xp, plan, cotangents, back, plan.pixels_of(target, plan.channels))
            continue
        if each.is_first:
            out[each.images].fill(0)
        sent = spread(xp, each.plan, cotangents, w, scratch[0], target.shape[0])
        target = last_channels(target, images)
        target = target.reshape(*target.shape[:3], plan.groups, plan.channels // plan.groups)
        for i, j, (rows, out_columns), (in_rows, in_columns) in each.plan.over.offsets():
            sums = target[:, in_rows, in_columns]
            xp.add(sums, sent[:, rows, out_columns, i, j], out=sums)


# --- what they cost -------------------------------------------------------------------------------------


def _conv_cost(plan: Plan, args: Arrays, results: Arrays, **params: Any) -> Cost:
    x, w = args
    return plan(_dtype(args).itemsize, x.shape, w.shape, **params).cost(x.shape[0], _dtype(args).itemsize)


def _input_gradient_cost(
    plan: Plan, args: Arrays, results: Arrays, *, input_shape: tuple[int, ...], **params: Any
) -> Cost:
    itemsize = _dtype(args).itemsize
    return plan(itemsize, input_shape, args[1].shape, **params).cost(input_shape[0], itemsize, 1)


def _kernel_gradient_cost(
    plan: Plan, args: Arrays, results: Arrays, *, kernel_shape: tuple[int, ...], **params: Any
) -> Cost:
    x, itemsize = args[0], _dtype(args).itemsize
    return plan(itemsize, x.shape, kernel_shape, **params).cost(x.shape[0], itemsize)


def _dtype(avals: Arrays) -> Any:
    return np.result_type(avals[0].dtype, avals[1].dtype)


# --- kernels -----------------------------------------------------------------------------------------


def _kernels(
    into: Any, scratch: Any, cost: Any, result: Any, fallback: Any, firsts: tuple[Kernel, ...], *others: Kernel,
    bound: Any = None,
) -> tuple[Kernel, ...]:  # fmt: skip
    """As the first ones do, by columns on the host, by more columns on a GPU, as others do, by offsets anywhere."""
    fast = [*firsts]
    for name, on, limit in (
        ("columns on numpy", "numpy", HOST_COLUMNS),
        ("columns on cupy", "cupy", DEVICE_COLUMNS),
        ("columns of 512 KiB", "numpy", FEW_COLUMNS),
    ):
        write, wants = partial(into, limit), partial(scratch, limit)
        fast.append(
            Kernel(
                name, compute=allocating(write, result, wants), into=write, scratch=wants,
                cost=partial(cost, partial(planned, limit)), layouts=("row-major",), namespaces=frozenset({on}),
                bound=partial(bound, limit) if bound is not None and on == "numpy" else None,
            )
        )  # fmt: skip
    return (*fast, *others, reference(fallback, multiplies=True))


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


CONV2D = *onednn_conv.convolution_kernels("forward", conv_result), *with_reordered(
    _kernels(
        _conv_into, _conv_scratch, _conv_cost, conv_result, _conv_reference,
        (depthwise.conv2d(conv_result), *conv_rows.conv2d(conv_result)), shifted.conv2d(conv_result),
        bound=_conv_bound,
    ),
    (True, False, True),
)  # fmt: skip
CONV2D_INPUT_GRADIENT = *onednn_conv.convolution_kernels("by data", _input_result), *with_reordered(
    _kernels(
        _input_gradient_into, _input_gradient_scratch, _input_gradient_cost, _input_result, _input_gradient_reference,
        (depthwise.conv2d_input_gradient(_input_result),),
        shifted.conv2d_input_gradient(_input_result, _input_gradient_reference),
    ),
    (True, False, True),
)  # fmt: skip
CONV2D_KERNEL_GRADIENT = *onednn_conv.convolution_kernels("by kernel", _kernel_result), *with_reordered(
    _kernels(
        _kernel_gradient_into, _kernel_gradient_scratch, _kernel_gradient_cost, _kernel_result,
        _kernel_gradient_reference,
        (depthwise.conv2d_kernel_gradient(_kernel_result),),
        shifted.conv2d_kernel_gradient(_kernel_result, _kernel_gradient_reference),
    ),
    (True, True, False),
)  # fmt: skip
