"""Products of bytes, less a number, summed in int32: what quantised networks are made of.

Devices whose library multiplies bytes compute these as they are; for others rewriting makes products of floats of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.conv import CONV2D
from nnc_func.device.kernels.linalg import MATMUL
from nnc_func.device.kernels.onednn_integer import convolution_kernels, product_kernels
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets import layouts
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import product, same_extent
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import integer_products as onnx_integers
from nnc_func.facets.samples import EXACT, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.conv import convolved
from nnc_func.graph.ops.families import Nested, Tensor
from nnc_func.op import operator

BYTES, SMALL = (frozenset(map(np.dtype, names)) for names in (("uint8", "int8"), ("int8", "int16")))
INT32 = np.dtype("int32")
DTYPES = (("uint8", ("int8", (-128, 127))), ("int8", ("int8", (-128, 127))), ("uint8", ("int16", (-255, 255))))
WHOLE = Constant("its operands are whole numbers")


def _dtype(x: Any, w: Any, zero: Any, **_: Any) -> Any:
    if x not in BYTES or w not in SMALL or zero != x:
        raise DTypeError(
            f"integer products are of uint8 or int8, by int8 or int16, less a number of the first one's dtype: given "
            f"{x.name}, {w.name} and {zero.name}"
        )
    return INT32


def _one_number(zero: ShapeT) -> None:
    if zero != ():
        raise ShapeError(f"one number, of shape (), is taken off all elements; given shape {zero}: subtract it before")


# --- convolutions ------------------------------------------------------------------------------------------


def _convolved(x: ShapeT, w: ShapeT, zero: ShapeT, *, small_sums: bool, **params: Any) -> ShapeT:
    _one_number(zero)
    return convolved(x, w, **params)


def _conv(xp: Any, x: Any, w: Any, zero: Any, *, small_sums: bool, **params: Any) -> Any:
    wide = xp.astype(x, xp.int32) - xp.astype(zero, xp.int32)
    return CONV2D[-1].compute(xp, wide, xp.astype(w, xp.int32), **params)  # type: ignore[misc]


def _conv_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    height, width, channels, _out = args[1].shape
    return Cost(2 * results[0].size * height * width * channels, threaded=True)


_IMAGES: tuple[tuple[ShapeT, ShapeT, dict[str, Any]], ...] = (
    ((2, 5, 6, 1), (3, 3, 1, 2), {}),
    ((1, 6, 5, 2), (2, 3, 2, 3), {"stride": (2, 1), "padding": "SAME"}),
    ((1, 7, 6, 2), (2, 2, 2, 2), {"dilation": (2, 3), "padding": ((0, 1), (1, 1))}),
    ((2, 4, 4, 4), (2, 2, 2, 6), {"groups": 2}),
    ((1, 5, 5, 3), (3, 3, 1, 3), {"groups": 3, "padding": "SAME"}),
    ((0, 4, 4, 2), (3, 3, 2, 2), {}),
    ((2, 16, 5, 6), (3, 3, 16, 8), {"data_format": "NCHW", "padding": "SAME"}),
    ((2, 4, 6, 5), (2, 3, 2, 4), {"data_format": "NCHW", "groups": 2, "stride": (2, 1), "dilation": (2, 1)}),
)


@operator(
    shape=_convolved, dtype=_dtype, layout=layouts.first, derivative=WHOLE,
    kernels=(*convolution_kernels(convolved), reference(_conv)), cost=_conv_cost, onnx=onnx_integers.conv2d_integer,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=tuple(
        (((x, dtype), (w, *weights), ((), dtype)), params)
        for x, w, params in _IMAGES for dtype, weights in DTYPES
    )),
)  # fmt: skip
def conv2d_integer(
    x: Tensor, w: Tensor, zero: Tensor, /, *, stride: Nested = (1, 1), padding: Nested = "VALID",
    dilation: Nested = (1, 1), groups: int = 1, data_format: str = "NHWC", small_sums: bool = False,
) -> Tensor:  # fmt: skip
    """``conv2d(x - zero, w)`` of bytes in int32, which wraps around.

    Shapes and parameters are those of `conv2d`; `x` is of uint8 or int8, `w` of int8, or of int16 where it has
    been moved by a zero point of its own, and `zero`, of shape ``()``, has the dtype of `x`: elements of that value
    stand around the images. Source: ConvInteger of the ONNX standard.

    `small_sums` says that 255 times the magnitudes of the weights of no output are more than 2**24 together. Whoever
    knows the weights may say so: a library may then compute sums of more than 514 products. It changes no result where
    it is true; where it is not, sums above 2**24 may be rounded to float32.
    """


# --- matrix products ---------------------------------------------------------------------------------------


def _multiplied(x: ShapeT, w: ShapeT, zero: ShapeT, *, small_sums: bool) -> ShapeT:
    _one_number(zero)
    if len(x) < 2 or len(w) != 2 or not same_extent(x[-1], w[0]):
        raise ShapeError(f"matmul_integer wants (..., rows, inner) and (inner, columns), given {x} and {w}")
    return (*x[:-1], w[1])


def _matmul(xp: Any, x: Any, w: Any, zero: Any, *, small_sums: bool) -> Any:
    wide = xp.astype(x, xp.int32) - xp.astype(zero, xp.int32)
    return MATMUL[-1].compute(xp, wide, xp.astype(w, xp.int32), transpose_a=False, transpose_b=False)  # type: ignore[misc]


def _matmul_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    return Cost(2 * product(args[0].shape) * args[1].shape[1], threaded=True)


@operator(
    shape=_multiplied, dtype=_dtype, derivative=WHOLE, kernels=(*product_kernels(), reference(_matmul)),
    cost=_matmul_cost, onnx=onnx_integers.matmul_integer, tolerance=EXACT,
    samples=Samples(relation="cases", cases=tuple(
        (((x, dtype), (w, *weights), ((), dtype)), {})
        for x, w in (((3, 4), (4, 2)), ((2, 3, 16), (16, 8)), ((0, 4), (4, 2)), ((3, 0), (0, 2)))
        for dtype, weights in DTYPES
    )),
)  # fmt: skip
def matmul_integer(x: Tensor, w: Tensor, zero: Tensor, /, *, small_sums: bool = False) -> Tensor:
    """``(x - zero) @ w`` of bytes in int32, which wraps around.

    Shapes: `x` ``(..., rows, inner)``, `w` ``(inner, columns)``, `zero` ``()``. `x` and `zero` are both of uint8 or
    both of int8, `w` is of int8, or of int16 where it has been moved by a zero point of its own. `small_sums` is
    that of `conv2d_integer`. Source: MatMulInteger of the ONNX standard.
    """
