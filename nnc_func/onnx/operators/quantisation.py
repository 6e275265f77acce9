"""Quantisation of ONNX: whole numbers that stand for ``(x - zero point) * scale``; those of `quantize_linear`."""

from __future__ import annotations

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.convolution import (
    as_small,
    convolved_integers,
    per_channel,
    single_zero,
    without_zero,
)
from nnc_func.onnx.operators.matrices import as_matrices
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator
from nnc_func.onnx.types import dtype_of

FLOAT32, INT32, UINT8 = np.dtype("float32"), np.dtype("int32"), np.dtype("uint8")

# --- parts -----------------------------------------------------------------------------------------------


def _single(values: Tensor) -> bool:
    return all(known(n) and n == 1 for n in values.shape)


def _spread(o: Context, values: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Scales or zero points of the whole, of an axis or of blocks along one, so that they broadcast against `x`."""
    if len(values.shape) <= 1 and _single(values):
        return o.reshape(values, shape=())
    if not block_size:
        return values
    at = normalise_axis(axis, len(x.shape))
    if len(values.shape) != len(x.shape):
        raise ShapeError(f"blocks of {x.shape} have scales of the same rank, given shape {values.shape}")
    whole = o.repeat(values, repeats=block_size, axis=at)
    bounds = tuple(whole.shape[i] if i != at else x.shape[at] for i in range(len(x.shape)))
    return o.slice(whole, starts=(0,) * len(bounds), stops=bounds, steps=(1,) * len(bounds))


# --- there and back --------------------------------------------------------------------------------------


@onnx_operator("QuantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def quantize_linear(
    o: Context, x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    """``saturate(round(x / scale) + zero)``, with the zero point's dtype, else uint8."""
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else UINT8
    wide = dtype_of(precision) if precision else scale.dtype
    wide = wide if kind_of(wide) == "f" else FLOAT32
    by = o.cast(_spread(o, scale, x, axis, block_size), dtype=wide)
    shift = None if zero is None else _spread(o, zero, x, axis, block_size)
    return o.quantize_linear(o.cast(x, dtype=wide), by, shift, dtype=dtype, axis=axis)


@onnx_operator("DequantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(
    o: Context, x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    """``(x - zero) * scale``, with the scale's dtype."""
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    by = o.cast(_spread(o, scale, x, axis, block_size), dtype=dtype)
    return o.dequantize_linear(x, by, None if zero is None else _spread(o, zero, x, axis, block_size), axis=axis)


@onnx_operator("DynamicQuantizeLinear", since=11, multi_result=True)
def dynamic_quantize_linear(o: Context, x: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
    """To uint8, by the range of the elements; the scale and the zero point."""
    zero = o.scalar(0, x)
    low, high = o.minimum(o.min(x, axis=None), zero), o.maximum(o.max(x, axis=None), zero)
    scale = o.divide(o.subtract(high, low), o.scalar(255, x))
    scale = o.where(o.equal(scale, zero), o.scalar(1, x), scale)
    shift = o.quantize_linear(o.negative(low), scale, dtype=UINT8)
    return o.quantize_linear(x, scale, shift, dtype=UINT8), scale, shift


# --- products --------------------------------------------------------------------------------------------


def _rows(o: Context, values: Tensor, rank: int) -> Tensor:
    """Scales or zero points of rows of matrices, if there are several."""
    if _single(values):
        return o.reshape(values, shape=())
    return o.reshape(values, shape=(values.shape[0], 1)) if len(values.shape) == 1 and rank > 1 else values


def _product(o: Context, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """The product of matrices less their zero points, in int32; a vector is a row on the left, and a column else."""
    if 1 in (len(a.shape), len(b.shape)):
        return as_matrices(o, a, b, lambda left, right: _product(o, left, right, a_zero, b_zero))
    zero = single_zero(o, a, a_zero)
    if zero is not None and len(b.shape) == 2 and len(a.shape) > 1 and (b_zero is None or len(b_zero.shape) < 2):
        right = as_small(without_zero(o, b, b_zero, INT32, 1))
        if right is not None:
            return o.matmul_integer(a, right, zero)
    left = o.cast(a, dtype=INT32)
    if a_zero is not None:
        left = o.subtract(left, o.cast(_rows(o, a_zero, len(a.shape)), dtype=INT32))
    if b_zero is None or len(b_zero.shape) < 2:
        return o.matmul(left, without_zero(o, b, b_zero, INT32, len(b.shape) - 1))
    return o.matmul(left, o.subtract(o.cast(b, dtype=INT32), o.cast(b_zero, dtype=INT32)))


@onnx_operator("MatMulInteger", since=10)
def matmul_integer(
    o: Context, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None, /
) -> Tensor:
    """The product of matrices less their zero points, in int32."""
    return _product(o, a, b, a_zero, b_zero)


@onnx_operator("QLinearMatMul", since=(10, 21))
def qlinear_matmul(
    o: Context, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, /,
) -> Tensor:  # fmt: skip
    """The product of quantised matrices, quantised."""
    y, rank = _product(o, a, b, a_zero, b_zero), len(a.shape)
    scales = [o.cast(s, dtype=FLOAT32) for s in (_rows(o, a_scale, rank), b_scale, _rows(o, y_scale, rank))]
    factor = o.divide(o.multiply(scales[0], scales[1]), scales[2])
    y = o.multiply(o.cast(y, dtype=FLOAT32), factor)
    return o.quantize_linear(y, o.scalar(1, y), _rows(o, y_zero, rank), dtype=y_zero.dtype)


@onnx_operator("QLinearConv", since=10)
def qlinear_conv(
    o: Context, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, b: Tensor | None = None, /, *, auto_pad: str = "NOTSET",
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of quantised tensors, quantised; the bias is int32, of the scale of the products."""
    y = convolved_integers(
        o, x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    rank = len(x.shape)
    y = y if b is None else o.add(y, per_channel(o, b, rank))
    factor = o.divide(o.multiply(x_scale, per_channel(o, w_scale, rank)), y_scale)
    y = o.multiply(o.cast(y, dtype=FLOAT32), factor)
    return o.quantize_linear(y, o.scalar(1, y), o.reshape(y_zero, shape=()), dtype=y_zero.dtype)
