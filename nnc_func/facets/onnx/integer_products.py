"""Products of bytes in ONNX, which has operators of its own for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.facets.dims import known
from nnc_func.facets.onnx.windows import as_given, channels_first, padding_around, pads
from nnc_func.facets.windows import numbers

BYTES, INT32 = frozenset(map(np.dtype, ("uint8", "int8"))), np.dtype("int32")
FLOAT64 = np.dtype("float64")


def _is_empty(*given: Any) -> bool:
    return any(known(n) and n == 0 for each in given for n in each.shape)


def _less(g: Any, x: Any, zero: Any) -> Any:
    return g.subtract(g.cast(x, dtype=INT32), g.cast(zero, dtype=INT32))


def conv2d_integer(
    g: Any, x: Any, w: Any, zero: Any, *, groups: int, data_format: str, small_sums: bool, **params: Any
) -> Any:
    """ConvInteger, the kernel's output channels brought to the front; by wider weights, one of float64."""
    if _is_empty(x, w):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    if w.dtype not in BYTES:
        wide = (g.having(each, each.shape, FLOAT64) for each in (_less(g, x, zero), w))
        return g.cast(g.conv2d(*wide, groups=groups, data_format=data_format, **params), dtype=INT32)
    around = padding_around(g, x.shape, w.shape[:2], data_format, **params)
    found = g.ConvInteger(
        channels_first(g, x, data_format), g.permute_dims(w, axes=(3, 2, 0, 1)), zero, group=groups, pads=pads(around),
        strides=numbers("stride", params["stride"]), dilations=numbers("dilation", params["dilation"]),
    )  # fmt: skip
    return as_given(g, found, data_format)


def matmul_integer(g: Any, x: Any, w: Any, zero: Any, *, small_sums: bool) -> Any:
    """MatMulInteger; an empty sum is zero; by wider weights, a product of int32."""
    if _is_empty(x, w):
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    if w.dtype not in BYTES:
        return g.matmul(_less(g, x, zero), g.cast(w, dtype=INT32))
    return g.MatMulInteger(x, w, zero)
