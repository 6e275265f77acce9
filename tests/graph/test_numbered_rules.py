"""Rules found by the numbers that they want are those that trying every rule finds (`graph/rewriting/compiled`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.graph.rewriting.compiled import Builder, Compiled, Numbered, compiled
from nnc_func.graph.rules import RULES, Pass
from tests.graph.rewriting import stack_with_fused
from tests.profiles import examples

LAZY = stack_with_fused()
OPS = LAZY.type.ops
BUILDER = Builder(LAZY.operator)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, np.inf, np.nan)
DTYPES = ("float32", "float64", "int64", "bool")
KINDS = ("input", "constant", "full", "array")
ALL: tuple[Compiled, ...] = tuple(
    compiled(rule, BUILDER) for each in RULES if not isinstance(each, Pass) for rule in each.instances(OPS)
)
WANTED = sorted({each.rule.lhs.op.name for each in ALL if each.facts.numbers})
CHOICES = [(name, len(OPS[name].args)) for name in WANTED]


def operand(kind: str, number: float, dtype: str, label: str) -> Any:
    """An input, one number stored or filled, or an array that is none."""
    if kind == "input":
        return LAZY.symbol.input(label, Aval((2, 3), dtype))
    value = np.float64(number) if dtype.startswith("float") else np.nan_to_num(number, posinf=1)
    stored = np.array(value).astype(dtype)
    if kind == "full":
        return LAZY.operator.bind(OPS["full"], shape=(2, 3), value=stored.item(), dtype=dtype)
    return LAZY.symbol.constant(stored if kind == "constant" else np.array([stored, 1 - stored.astype("int8")], dtype))


@st.composite
def applications(draw: Any) -> Any:
    """An operator of which some rule wants a number, on operands that are mostly numbers."""
    name, arity = draw(st.sampled_from(CHOICES))
    one = st.tuples(st.sampled_from(KINDS), st.sampled_from(NUMBERS), st.sampled_from(DTYPES))
    return name, draw(st.lists(one, min_size=arity, max_size=arity))


def test_rules_that_want_numbers_are_many() -> None:
    assert sum(bool(each.facts.numbers) for each in ALL) > 20
    assert {"add", "multiply", "power"} <= {*WANTED}


@examples(300, 5000)
@given(applications())
@example(("add", [("input", 0.0, "float32"), ("constant", -0.0, "float32")]))
@example(("multiply", [("full", 1.0, "int64"), ("input", 0.0, "float32")]))
@example(("multiply", [("constant", 1.0, "bool"), ("full", 1.0, "float64")]))
def test_rules_found_by_numbers_are_those_that_fire(drawn: Any) -> None:
    name, given_operands = drawn
    args = [operand(*each, label) for each, label in zip(given_operands, "xyz", strict=False)]
    try:
        node = LAZY.operator.bind(OPS[name], *args)
    except Exception:  # not of these dtypes
        return
    operands = tuple(a.node.op for a in node.args)
    able = tuple(each for each in ALL if each.facts.wants(node.op, operands))
    BUILDER.numbers.clear()
    listed = Numbered(able, operands).of(node, BUILDER.number_of)
    assert [*listed] == [each for each in able if each in listed], "in the order in which they stand"
    firing = [each for each in able if each.attempt(node, lambda value: 1) is not None]
    assert {each.name for each in firing} <= {each.name for each in listed}
    assert not [each for each in firing if each not in listed]


@pytest.mark.parametrize("order", [(1.0, None), (None, 1.0)], ids=str)
def test_operands_that_may_be_exchanged_are_numbers_in_either_order(order: tuple[Any, ...]) -> None:
    units = [r for r in ALL if r.name == "drop_unit" and r.rule.lhs.op.name in ("multiply", "divide")]
    taking = {each.rule.lhs.op.name for each in units if each.facts.takes(order)}
    assert taking == ({"multiply", "divide"} if order[1] == 1.0 else {"multiply"})
