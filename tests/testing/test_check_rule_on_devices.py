"""check_rule on devices whose arrays are not NumPy's, compute later, or compute nothing (`testing/rules`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules import RULES, rewrite, rule
from nnc_func.graph.rules.conditions import same_shape
from nnc_func.graph.rules.pattern import Param
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.elements import with_elements
from nnc_func.testing.rewrites import Trial
from nnc_func.testing.rules import check_rule, examined
from tests.profiles import examples

LAZY = nnc.eager(nnc.lazy())
NAMED = {each.name: each for each in RULES}
EXAMPLES = examples(100, 300).max_examples  # as tests/graph/test_rules.py asks of all rules on NumPy


@rule
def add_to_none(x, y):
    """What is added and subtracted again is gone."""
    return rewrite((x + y) - y).to(x).when(same_shape(x, y))


@rule
def solve_as_it_is(a, b, lower: Param, transpose: Param, unit_diagonal: Param):
    """The negative of the negative of a solution is the solution."""
    solved = OPS["solve_triangular"](a, b, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal)
    return rewrite(OPS["negative"](-solved)).to(solved)


@pytest.mark.parametrize("stack", [nnc.eager(nnc.Strict()), LAZY], ids=["strict", "lazy"])
@pytest.mark.parametrize(
    "name",
    ["fold_fills", "fold_constants", "drop_unit", "gather_constants", "slice_instead_of_gathering", "log_of_softmax"],
)
def test_rules_are_sound_on_every_kind_of_device(name: str, stack: Any) -> None:
    assert check_rule(NAMED[name], stack, examples=EXAMPLES).fired > 0


@pytest.mark.parametrize("stack", [nnc.eager(nnc.Strict()), LAZY], ids=["strict", "lazy"])
def test_a_wrong_rule_is_refuted_on_every_kind_of_device(stack: Any) -> None:
    assert "after = x" in examined(add_to_none, stack).counterexample


def test_a_rule_is_not_told_by_what_a_lazy_device_does_of_its_own() -> None:
    assert "another sign" in _negated(LAZY.operator)  # there -0.0 is dropped, a unit but for the signs of zeros
    assert not _negated(with_elements(LAZY.operator))


def _negated(operator: Any) -> str:
    """What is wrong with a rule that keeps the signs of zeros, on a real zero and a complex number."""
    x, y = (operator.symbol.input(name, nnc.Aval((), d)) for name, d in (("x", "float32"), ("y", "complex64")))
    root = operator.bind(OPS["add"], x, operator.bind(OPS["negative"], y))
    feeds = {x: np.array(-0.0, "float32"), y: np.array(complex(np.nan, 0.0), "complex64")}
    return Trial(operator).outcome(next(NAMED["add_negative"].instances(OPS)), Instance(root, feeds)).why


def test_what_fails_only_when_it_is_asked_for_is_no_graph() -> None:
    assert not examined(solve_as_it_is, LAZY, examples=100, conditions=False).counterexample


def test_a_device_without_elements_is_refused_in_words() -> None:
    with pytest.raises(RuleError, match=r"Null\(\) computes nothing: give a stack on a device that does"):
        check_rule(add_to_none, nnc.lazy(nnc.Null()))


def test_a_stack_as_a_device_computes_constants_where_they_are_known() -> None:
    found = nnc.lazy().fold_constant(OPS["add"], np.ones(1, "float32"), np.ones(1, "float32"))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [2]
    assert nnc.lazy().fold_constant(OPS["add"], nnc.lazy().asarray([1.0]), 2).tolist() == [3]
