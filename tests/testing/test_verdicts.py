"""A verdict on a rule depends on the rule and the kit's own draws, not on what was judged before (`testing/rules`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.rules.conditions import floating, same_aval
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule
from nnc_func.testing.assignments import number_dtype
from nnc_func.testing.numbers import Elements, numbers
from nnc_func.testing.rules import examined

EAGER = nnc.eager()


@rule
def add_zero_first(x):
    """A zero that is added does not matter."""
    added = (x + 0.0) * 3.0
    return rewrite(added).to(x * 3.0).when(floating(x), same_aval(x, added)).up_to(ROUNDING)


@rule
def add_negative_zero_first(x):
    """Nor does the other one."""
    added = (x + -0.0) * 3.0
    return rewrite(added).to(x * 3.0).when(floating(x), same_aval(x, added)).up_to(ROUNDING)


@pytest.mark.parametrize("points", [(0.0, -0.0), (-0.0, 0.0)])
def test_numbers_of_a_rule_that_are_equal_and_differ_in_their_bits_give_other_elements(points: Any) -> None:
    drawn = {repr(p): numbers(400, np.dtype("float32"), Elements("points", 0.0, (p,)), 40) for p in points}
    assert np.signbit(drawn["-0.0"]).sum() > np.signbit(drawn["0.0"]).sum()


@pytest.mark.parametrize("order", [(1, 1.0), (1.0, 1)])
def test_the_dtype_of_a_number_does_not_depend_on_an_equal_one_asked_for_before(order: Any) -> None:
    found = {type(n): number_dtype(n, (np.dtype("int16"),)).name for n in order}
    assert found == {int: "int16", float: "float64"}


def test_a_verdict_does_not_depend_on_the_order_of_rules() -> None:
    rules = [add_zero_first, add_negative_zero_first]
    first = [str(examined(r, EAGER, examples=60)) for r in rules]
    again = [str(examined(r, EAGER, examples=60)) for r in reversed(rules)]
    assert first == again[::-1]
