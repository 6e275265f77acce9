"""With NNC_SPEC=2 both sides of each rewrite are computed, and a wrong rule is named (`graph/rewriting/evaluating`).

A rule that changes values is named with both sides and the values.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.config import config
from nnc_func.errors import RuleError
from nnc_func.graph.node import topological
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting.evaluating import Sides
from nnc_func.graph.rules import ROUNDING, rewrite, rewriter, rule, whole_graph
from nnc_func.graph.rules.pattern import apply


@pytest.fixture(autouse=True)
def comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "spec", 2)


@rule
def sine_is_its_argument(x):
    """True of small numbers only."""
    return rewrite(apply(OPS["sin"], x)).to(x).up_to("rounding")


@rule
def negative_is_zero_minus(x):
    """Another zero, which is not said."""
    return rewrite(-x).to(0 - x)


@rewriter([OPS["cos"]])
def cosine_fails(node, builder):
    """A right side whose kernel refuses the values: there is no row 100."""
    return builder.apply(OPS["take"], (*node.args, np.full(3, 100)), {"axis": 0})


@whole_graph(numerics=ROUNDING)
def outputs_doubled(roots, order, builder):
    """Each output twice."""
    return tuple(builder.apply(OPS["add"], (r, r), {}) for r in roots), 1


def with_rules(*rules: Any) -> Any:
    lazy = nnc.lazy()
    return lazy.swap(optimiser=lazy.optimiser.with_rules(*rules))


def test_a_wrong_rule_is_named_with_its_line_both_sides_and_the_values() -> None:
    lazy = with_rules(sine_is_its_argument)
    x = lazy.input("x", (4,), "float64")
    y = lazy.ops.exp(lazy.ops.sin(x * 3))
    with pytest.raises(RuleError) as error:
        lazy.compile([x], y)
    said = str(error.value)
    assert "rule sine_is_its_argument changes values by more than it says (rounding)" in said
    assert "sin(v0) -> v0 (built at test_sides.py:" in said
    assert all(each in said for each in ("v0 = [", "was: [", "is:  ["))


def test_a_sign_of_a_zero_is_seen() -> None:
    lazy = with_rules(negative_is_zero_minus)
    x = lazy.input("x", (64,), "float32")
    with pytest.raises(RuleError, match=r"negative_is_zero_minus .*\(exact\): a zero has another sign"):
        lazy.compile([x], -x)


def test_a_right_side_without_a_value_is_refused() -> None:
    lazy = with_rules(cosine_fails)
    x = lazy.input("x", (3, 3), "float64")
    with pytest.raises(RuleError, match=r"cosine_fails .*it has no value there"):
        lazy.compile([x], lazy.ops.cos(x))


def test_a_wrong_pass_is_named() -> None:
    lazy = with_rules(outputs_doubled)
    x = lazy.input("x", (3,), "float32")
    with pytest.raises(RuleError, match="rule outputs_doubled changes values"):
        lazy.compile([x], lazy.ops.tanh(x))


def test_unknown_extents_have_three_elements() -> None:
    lazy = with_rules(sine_is_its_argument)
    x = lazy.input("x", ("n", 2), "float32")
    with pytest.raises(RuleError, match="sine_is_its_argument"):
        lazy.compile([x], lazy.ops.sum(lazy.ops.sin(x), axis=0))
    right = nnc.lazy()
    x = right.input("x", ("n", 2), "float32")
    program = right.compile([x], right.ops.reshape(x * 1 + 0, shape=(-1,)) - 0)
    np.testing.assert_array_equal(program(np.ones((5, 2), "float32")), np.ones(10))


def test_it_is_not_done_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "spec", 1)
    lazy = with_rules(sine_is_its_argument)
    x = lazy.input("x", (4,), "float64")
    assert "sin" not in [i.op.name for i in lazy.compile([x], lazy.ops.sin(x)).plan.instructions]


def test_a_device_without_elements_has_nothing_to_compare() -> None:
    null = nnc.lazy(nnc.Null())
    null = null.swap(optimiser=null.optimiser.with_rules(sine_is_its_argument))
    x = null.input("x", (4,), "float32")
    assert null.compile([x], null.ops.sin(x)) is not None


def test_our_rules_keep_the_values_of_a_training_step() -> None:
    parts = (nn.Conv2D(4, 3, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(5))
    model = nn.Sequential(*parts).init(seed=3, shape=(None, 6, 6, 1))
    step = nn.Step(nnc.lazy(), model, nn.softmax_cross_entropy, nn.SGD(momentum=0.9))
    rng = np.random.default_rng(0)
    loss = step(rng.normal(size=(8, 6, 6, 1)).astype("float32"), rng.integers(0, 5, 8), 0.05)[0]
    assert np.isfinite(float(np.asarray(step.ask([loss])[0])))


def test_every_value_of_a_graph_is_computed_once() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (2,), "float32")
    roots = [(x + 1).value, ((x + 1) * 2).value]
    sides = Sides(lazy.device)
    for root in roots:
        sides.check("same", ROUNDING, False, root, root)
    assert set(sides.values) == set(topological(roots))


def test_a_loop_that_may_never_end_on_drawn_values_is_checked_all_the_same() -> None:
    """Where `a` is drawn below 0, x never reaches 4: each side goes a hundred times, in loops within loops, too."""
    lazy = nnc.lazy()

    def reached(x: Any, a: Any) -> Any:
        return lazy.while_loop(lambda x: x < 4, lambda x: (None, (x * a + x * a + 0.1) * 1), x)[1]

    x, a = lazy.input("x", (), "float64"), lazy.input("a", (), "float64")
    program = lazy.compile([x, a], lazy.fori(0, 3, lambda i, x: reached(lazy.ops.sin(x), a), reached(x, a)))

    np.testing.assert_allclose(program(0.25, 1.5), 9.40545505409761)  # the same in plain Python
