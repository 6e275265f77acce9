"""Every operator keeps every law; a failure names law, operator and example (`graph/ops`, `facets`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.laws import LAWS, engines_agree, hold
from nnc_func.testing.samples import arguments
from tests.profiles import examples

LAZY = nnc.lazy()
OF_VALUES = [law for law in LAWS if law is not engines_agree]

operators = pytest.mark.parametrize("op", CATALOGUE.values(), ids=str)


@operators
@examples(few=10, nightly=200)
@given(data=st.data())
def test_rules_kernels_views_and_declared_laws(op: Op, data: Any) -> None:
    hold(LAZY, op, OF_VALUES, data.draw(arguments(op)))


@operators
@examples(few=4, nightly=200)
@given(data=st.data())
def test_engines_give_the_devices_values(op: Op, data: Any) -> None:
    hold(LAZY, op, [engines_agree], data.draw(arguments(op)))
