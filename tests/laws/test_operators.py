"""Every operator of the catalogue keeps every law. A failure names the law, the operator and a smallest example."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.derivatives import DERIVATIVE_LAWS, is_smooth
from nnc_func.testing.laws import LAWS, engines_agree, hold
from nnc_func.testing.samples import arguments

LAZY = nnc.lazy()
OF_VALUES = [law for law in LAWS if law is not engines_agree]
FEW = settings(max_examples=max(3, settings().max_examples // 3))  # operators are many

operators = pytest.mark.parametrize("op", CATALOGUE.values(), ids=str)
smooth = pytest.mark.parametrize("op", [op for op in CATALOGUE.values() if is_smooth(op)], ids=str)


@operators
@settings(FEW, max_examples=2 * FEW.max_examples)
@given(data=st.data())
def test_rules_kernels_views_and_declared_laws(op: Op, data: Any) -> None:
    hold(LAZY, op, OF_VALUES, data.draw(arguments(op)))


@operators
@FEW
@given(data=st.data())
def test_engines_give_the_devices_values(op: Op, data: Any) -> None:
    hold(LAZY, op, [engines_agree], data.draw(arguments(op)))


@smooth
@FEW
@given(data=st.data())
def test_derivatives(op: Op, data: Any) -> None:
    hold(LAZY, op, DERIVATIVE_LAWS, data.draw(arguments(op, differentiable=True)))
