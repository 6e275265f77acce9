"""A product in which zero absorbs what is not finite: where no cotangent flows, an infinite slope has no effect."""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.facets import dtypes, lowering, shapes
from nnc_func.facets.derivatives import Custom
from nnc_func.facets.kernels import ALL, reference
from nnc_func.facets.laws import absorbs, keeps_nonnegative, odd, unit
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, FLOATS, Samples
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, in_steps


def _masked(xp: Any, a: Any, b: Any) -> Any:
    wanted = dtypes.numeric(dtype_of(a), dtype_of(b))
    a, b = converted(xp, a, wanted), converted(xp, b, wanted)
    product = xp.asarray(a * b)
    return xp.where(xp.broadcast_to(b == 0, product.shape), xp.zeros_like(product), product)


def _mask(avals: Any, **_: Any) -> tuple[tuple[Any, Any], ...]:
    return ((shapes.broadcast(*(a.shape for a in avals)), dtypes.BOOL),)


def _masked_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    a, b = arrays
    xp.equal(b, 0, out=scratch[0])
    xp.multiply(a, b, out=outs[0])
    xp.copyto(outs[0], 0, where=scratch[0])


def _tangent(o: Any, ts: Any, y: Any, a: Any, b: Any) -> Any:
    left = None if ts[0] is None else o.multiply_no_nan(ts[0], b)
    right = None if ts[1] is None else o.multiply_no_nan(a, ts[1])
    return right if left is None else left if right is None else o.add(left, right)


@elementwise(
    Custom(
        _tangent,
        (
            lambda o, g, y, a, b: o.sum_to(o.multiply_no_nan(g, b), a.shape),
            lambda o, g, y, a, b: o.sum_to(o.multiply_no_nan(a, g), b.shape),
        ),
    ),
    kernel=(
        in_steps(_masked_into, dtype=dtypes.numeric, overwrites=ALL, scratch=_mask),
        reference(_masked, infallible=True),
    ),
    dtype=dtypes.numeric,
    cost=per_element(2),
    onnx=onnx_elementwise.multiply_no_nan,
    samples=Samples(dtypes=FLOATS),
    tolerance=EXACT,
    laws=(odd, keeps_nonnegative, unit(1, "right").of("iuf", nearly="c"), absorbs(0, "right")),
    lowering=lowering.Expression(lowering.multiplied_unless_zero),
)
def multiply_no_nan(a: Tensor, b: Tensor, /) -> Tensor:
    """Product, element by element, and 0 where `b` is 0, even if `a` is infinite or NaN there.

    Derivatives of operators with infinite slopes (sqrt at 0) are multiplied by it, so that what ``where`` leaves out
    has the gradient zero.
    """
