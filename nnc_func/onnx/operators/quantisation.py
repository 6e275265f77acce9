"""Quantisation of ONNX: whole numbers that stand for ``(x - zero point) * scale``; of NumPy's own dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.convolution import convolved, per_channel, without_zero
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator
from nnc_func.onnx.types import dtype_of

FLOAT32, INT32, UINT8 = np.dtype("float32"), np.dtype("int32"), np.dtype("uint8")

# --- parts -----------------------------------------------------------------------------------------------


def _spread(o: Context, values: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Scales or zero points of the whole, of an axis or of blocks along one, so that they broadcast against `x`."""
    if all(known(n) and n == 1 for n in values.shape) and len(values.shape) <= 1:
        return o.reshape(values, shape=())
    at = normalise_axis(axis, len(x.shape))
    if len(values.shape) == 1 and not block_size:
        return per_channel(o, values, len(x.shape), at)
    if len(values.shape) != len(x.shape) or not block_size:
        raise ShapeError(f"scales have one element, a rank of 1, or blocks and block_size; given shape {values.shape}")
    whole = o.repeat(values, repeats=block_size, axis=at)
    bounds = tuple(whole.shape[i] if i != at else x.shape[at] for i in range(len(x.shape)))
    return o.slice(whole, starts=(0,) * len(bounds), stops=bounds, steps=(1,) * len(bounds))


def _saturated(o: Context, x: Tensor, dtype: Any) -> Tensor:
    """Numbers as an integer dtype, the nearest that it has."""
    if dtype.kind not in "iu":
        raise DTypeError(f"quantisation to integers of NumPy is there, given {dtype}")
    bounds = np.iinfo(dtype)
    return o.cast(o.clip(x, min=int(bounds.min), max=int(bounds.max)), dtype=dtype)


def quantised(o: Context, x: Tensor, zero: Tensor | None, dtype: Any) -> Tensor:
    """Rounded to even, plus the zero point, saturated."""
    x = o.round(x)
    return _saturated(o, x if zero is None else o.add(x, o.cast(zero, dtype=x.dtype)), dtype)


# --- there and back --------------------------------------------------------------------------------------


@onnx_operator("QuantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def quantize_linear(
    o: Context, x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    """``saturate(round(x / scale) + zero)``, with the zero point's dtype, else uint8."""
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else UINT8
    wide = dtype_of(precision) if precision else scale.dtype
    wide = wide if wide.kind == "f" else FLOAT32
    over = o.divide(o.cast(x, dtype=wide), o.cast(_spread(o, scale, x, axis, block_size), dtype=wide))
    shift = None if zero is None else _spread(o, zero, x, axis, block_size)
    return quantised(o, o.cast(over, dtype=FLOAT32) if wide.itemsize < 4 else over, shift, dtype)


@onnx_operator("DequantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(
    o: Context, x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    """``(x - zero) * scale``, with the scale's dtype."""
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    away = o.cast(x, dtype=INT32)
    if zero is not None:
        away = o.subtract(away, o.cast(_spread(o, zero, x, axis, block_size), dtype=INT32))
    return o.multiply(o.cast(away, dtype=dtype), o.cast(_spread(o, scale, x, axis, block_size), dtype=dtype))


@onnx_operator("DynamicQuantizeLinear", since=11, several=True)
def dynamic_quantize_linear(o: Context, x: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
    """To uint8, by the range of the elements; the scale and the zero point."""
    zero = o.scalar(0, x)
    low, high = o.minimum(o.min(x, axis=None), zero), o.maximum(o.max(x, axis=None), zero)
    scale = o.divide(o.subtract(high, low), o.scalar(255, x))
    scale = o.where(o.equal(scale, zero), o.scalar(1, x), scale)
    shift = quantised(o, o.divide(o.negative(low), scale), None, UINT8)
    return quantised(o, o.divide(x, scale), shift, UINT8), scale, shift


# --- products --------------------------------------------------------------------------------------------


def _rows(o: Context, values: Tensor, rank: int) -> Tensor:
    """Scales or zero points of rows of matrices, if there are several."""
    return o.reshape(values, shape=(values.shape[0], 1)) if len(values.shape) == 1 and rank > 1 else values


def _product(o: Context, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """The product of matrices less their zero points, in int32."""
    left, right = o.cast(a, dtype=INT32), o.cast(b, dtype=INT32)
    if a_zero is not None:
        left = o.subtract(left, o.cast(_rows(o, a_zero, len(a.shape)), dtype=INT32))
    if b_zero is not None:
        right = o.subtract(right, o.cast(b_zero, dtype=INT32))
    return o.matmul(left, right)


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
    return quantised(o, o.multiply(o.cast(y, dtype=FLOAT32), factor), _rows(o, y_zero, rank), y_zero.dtype)


@onnx_operator("QLinearConv", since=10)
def qlinear_conv(
    o: Context, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, b: Tensor | None = None, /, *, auto_pad: str = "NOTSET",
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of quantised tensors, quantised; the bias is int32, of the scale of the products."""
    y = convolved(
        o, without_zero(o, x, x_zero, INT32, 1), without_zero(o, w, w_zero, INT32, 0), auto_pad=auto_pad,
        dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    rank = len(x.shape)
    y = y if b is None else o.add(y, per_channel(o, b, rank))
    factor = o.divide(o.multiply(x_scale, per_channel(o, w_scale, rank)), y_scale)
    return quantised(o, o.multiply(o.cast(y, dtype=FLOAT32), factor), y_zero, y_zero.dtype)
