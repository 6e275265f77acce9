"""The catalogue is complete: every operator has every facet, or says why not (`facets`, `graph/ops`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from nnc_func.declaration import CONVERTERS, REQUIRED
from nnc_func.facets import shapes
from nnc_func.facets.derivatives import (
    Bilinear,
    Constant,
    Custom,
    Linear,
    OfBodies,
    OfParameters,
    Partials,
    Refusal,
)
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.facets.laws import Law
from nnc_func.facets.lowering import Expression, IndexMap
from nnc_func.facets.samples import Refused, Samples, Tolerance
from nnc_func.facets.views import View
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from tests.throughout import throughout

CHECKS: list[Callable[[Op], None]] = []


def every(check: Callable[[Op], None]) -> Callable[[Op], None]:
    """A check of each operator."""
    CHECKS.append(check)
    return check


def _reason(text: str) -> bool:
    return len(text.split()) >= 2 and text != "not mapped yet"


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(op.name for op in CATALOGUE.ops).items() if count > 1] == []


@every
def its_docstring_is_a_sentence(op: Op) -> None:
    first = op.doc.split("\n\n")[0]
    assert first.endswith("."), first


@every
def its_arguments_are_documented_by_their_kind(op: Op) -> None:
    assert len(set(op.args)) == len(op.args)
    assert set(op.converters) <= set(op.params)
    plain = [name for name in op.params if name not in op.converters]
    assert plain == [], f"parameters without a converter: annotate them with one of {', '.join(CONVERTERS)}"


@every
def its_defaults_are_canonical(op: Op) -> None:
    for name, default in op.params.items():
        if default is not REQUIRED and default is not None:
            hash(default)
            assert op.converters[name](default) == default or op.converters[name].__name__ == "dtype"


@every
def it_has_a_shape_and_a_dtype_rule(op: Op) -> None:
    assert callable(op.shape)
    assert callable(op.dtype)


@every
def it_has_a_kernel_that_takes_anything_anywhere(op: Op) -> None:
    names = [k.name for k in op.kernels]
    assert len(set(names)) == len(names), "kernels of one operator have different names: plans show them"
    for kernel in op.kernels:
        assert isinstance(kernel, Kernel)
        assert kernel.compute is not None or kernel.ufunc is not None, f"{kernel.name} computes nothing"
        if not callable(kernel.overwrites):
            assert kernel.overwrites == ALL or set(kernel.overwrites) <= {*range(len(op.args))}
    last = op.kernels[-1]
    assert last.namespaces is None, "the last kernel is the reference: it runs on any namespace"
    assert last.accepts(()), "the last kernel takes whatever the operator takes"


@every
def it_has_a_derivative_or_says_why_not(op: Op) -> None:
    found = op.derivative
    assert isinstance(found, (Partials, Linear, Bilinear, Custom, OfBodies, OfParameters, Constant, Refusal))
    assert isinstance(found, OfBodies) == op.holds_body or isinstance(found, Refusal)
    if isinstance(found, Partials):
        assert len(found.of) == len(op.args)
    elif isinstance(found, Bilinear):
        assert len(op.args) == 2
    elif isinstance(found, Custom):
        assert len(found.vjp) == len(op.args)
    elif isinstance(found, OfParameters):
        assert _reason(found.refusal(function=len).why)
    elif isinstance(found, (Constant, Refusal)):
        assert _reason(found.why), found.why


@every
def its_laws_are_laws(op: Op) -> None:
    for law in op.laws:
        assert isinstance(law, Law)
        if law.name == "inverse_of":
            assert law.value in CATALOGUE, f"{op.name} is the inverse of {law.value}, which does not exist"
        if law.name in ("commutative", "associative", "unit", "absorbs"):
            assert len(op.args) == 2
        if law.name == "involution":
            assert len(op.args) == 1


@every
def its_lowering_is_an_expression_or_a_map_of_indices(op: Op) -> None:
    if isinstance(op.lowering, Expression):
        assert op.shape in (shapes.broadcast, shapes.same)
    elif op.lowering is not None:
        assert isinstance(op.lowering, IndexMap)
        assert op.data_movement or not op.args


@every
def its_view_is_of_an_argument(op: Op) -> None:
    if op.view is not None:
        assert isinstance(op.view, View)
        assert op.view.argument < len(op.args)


@every
def it_goes_to_onnx_or_says_why_not(op: Op) -> None:
    found: Any = op.onnx
    if isinstance(found, Refused):
        assert _reason(found.why), f"{op.name}: {found.why}"
    else:
        assert callable(found) or (isinstance(found, str) and found.isidentifier()), found


@every
def it_has_samples_a_tolerance_and_a_cost(op: Op) -> None:
    assert isinstance(op.samples, Samples)
    assert isinstance(op.tolerance, Tolerance)
    assert callable(op.cost)
    needs = [name for name, default in op.params.items() if default is REQUIRED]
    given = op.samples.params is not None or bool(op.samples.cases)
    assert not needs or given, f"required parameters {needs} and no samples of them"
    if op.samples.relation == "cases":
        assert op.samples.cases


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_of_every_operator(check: Callable[[Op], None]) -> None:
    throughout(CATALOGUE.values(), check)
