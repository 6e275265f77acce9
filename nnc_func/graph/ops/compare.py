"""Comparisons: booleans come out, by NumPy's promotion of both sides."""

from __future__ import annotations

from typing import Any

from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, lowering
from nnc_func.facets.laws import cancels, commutative, opposite, unit
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import ANY, EXACT, Samples
from nnc_func.graph.ops.families import Tensor, comparable, predicate

WHY = "comparisons jump"


def _orderable(a: dtypes.DType, b: dtypes.DType, **_: Any) -> dtypes.DType:
    if dtypes.promote(a, b).kind == "c":
        raise DTypeError(f"complex numbers have no order, given {a.name} and {b.name}; compare their magnitudes")
    return dtypes.BOOL


BOTH: dict[str, Any] = {"samples": Samples(dtypes=ANY), "tolerance": EXACT}
EQUALITY: dict[str, Any] = {**BOTH, "common": dtypes.promote}
ORDER: dict[str, Any] = {**BOTH, "common": comparable, "dtype": _orderable}


@predicate(
    WHY,
    onnx="Equal",
    laws=(commutative, cancels(1).of("biu"), unit(1).of("b"), opposite("not_equal")),
    **EQUALITY,
    lowering=lowering.Expression(lowering.is_equal),
)
def equal(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether two elements are equal; NaN equals nothing, and 0.0 equals -0.0."""


@predicate(
    WHY,
    onnx=onnx_elementwise.not_equal,
    laws=(commutative, cancels(0).of("biu"), unit(0).of("b"), opposite("equal")),
    **EQUALITY,
    lowering=lowering.Expression(lambda s, a, b: s.bit_not(lowering.is_equal(s, a, b))),
)
def not_equal(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether two elements differ; NaN differs from everything."""


@predicate(
    WHY,
    onnx="Less",
    laws=(cancels(0), opposite("greater_equal").of("biu")),
    lowering=lowering.Expression(lowering.is_less),
    **ORDER,
)
def less(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether the first element is smaller; false if either is NaN."""


@predicate(
    WHY,
    onnx="LessOrEqual",
    laws=(cancels(1).of("biu"), opposite("greater").of("biu")),
    lowering=lowering.Expression(lowering.is_at_most),
    **ORDER,
)
def less_equal(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether the first element is smaller or equal; false if either is NaN."""


@predicate(
    WHY,
    onnx="Greater",
    laws=(cancels(0), opposite("less_equal").of("biu")),
    lowering=lowering.Expression(lambda s, a, b: lowering.is_less(s, b, a)),
    **ORDER,
)
def greater(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether the first element is larger; false if either is NaN."""


@predicate(
    WHY,
    onnx="GreaterOrEqual",
    laws=(cancels(1).of("biu"), opposite("less").of("biu")),
    lowering=lowering.Expression(lambda s, a, b: lowering.is_at_most(s, b, a)),
    **ORDER,
)
def greater_equal(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether the first element is larger or equal; false if either is NaN."""
