"""Whole numbers that stand for others, as floats: what rewriting makes of the steps of a quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, lowering, shapes
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, Samples
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, in_steps, number
from nnc_func.graph.ops.fused import MADE_LATE

WIDE = (-200.0, 200.0)


def _one(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    if len(set(given)) > 1 or dtypes.kind_of(given[0]) != "f":
        raise DTypeError(f"quantize wants floating numbers of one dtype, given {', '.join(d.name for d in given)}")
    dtypes.check_held(given[0])
    return given[0]


def _quantize(xp: Any, x: Any, scale: Any, zero: Any, *, min: Any, max: Any) -> Any:
    found = xp.round(x / scale) + zero
    found = xp.where(xp.isnan(found), xp.zeros_like(found), found)
    low, high = (xp.asarray(bound, dtype=found.dtype) for bound in (min, max))
    return xp.minimum(xp.maximum(found, low), high)


def _quantize_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, min: Any, max: Any) -> None:
    """Bounds and NaN take ways through the elements of their own only where the least or the largest says so."""
    (x, scale, zero), (out,), (none,) = arrays, outs, scratch
    np.divide(x, scale, out)
    np.rint(out, out)
    np.add(out, zero, out)
    if out.size and not (np.minimum.reduce(out, None) >= min and np.maximum.reduce(out, None) <= max):
        np.copyto(out, 0, where=np.isnan(out, none))
        out.clip(min, max, out)


def _mask(avals: Any, **_: Any) -> Any:
    """A truth for each element: whether it is no number."""
    return ((shapes.broadcast(*(a.shape for a in avals)), np.dtype(bool)),)


@elementwise(
    MADE_LATE,
    dtype=_one,
    kernel=(
        in_steps(
            _quantize_into, dtype=_one, namespaces=frozenset({"numpy"}), overwrites=(0,), scratch=_mask,
        ),
        reference(_quantize, infallible=True),
    ),
    onnx=onnx_elementwise.quantize,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=tuple(
        (((x, dtype, WIDE), (scale, dtype, (0.5, 2.0)), (zero, dtype, (0.0, 9.0))), {"min": low, "max": 127.0})
        for dtype in ("float32", "float64") for low in (0.0, -128.0)
        for x, scale, zero in (((2, 3), (), ()), ((2, 3), (3,), (2, 1)), ((), (), ()), ((0, 2), (2,), ()))
    )),
    cost=per_element(6),
    lowering=lowering.Expression(lowering.quantized),
)  # fmt: skip
def quantize(x: Tensor, scale: Tensor, zero: Tensor, /, *, min: number, max: number) -> Tensor:
    """``round(x / scale) + zero``, not below `min` and not above `max`; halves go to the even integer, NaN is zero."""
