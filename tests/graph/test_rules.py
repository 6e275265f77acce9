"""Every rule by registry: no counterexample, it fires, no condition needless (`graph/rules`, `testing/rules`).

And what the rule language promises.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.errors import OperatorError, RuleError
from nnc_func.graph.leaves import INPUT
from nnc_func.graph.node import Node
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting.evaluating import differs
from nnc_func.graph.rules import (
    EXACT,
    ROUNDING,
    RULES,
    SIGNED_ZERO,
    Numerics,
    Pass,
    Rule,
    for_law,
    rewrite,
    rewriter,
    rule,
)
from nnc_func.graph.rules.conditions import broadcasts, same_aval, same_shape, used_once
from nnc_func.graph.rules.pattern import Param, Scalar, Tensor, apply, computed, dtype_of, shape_of
from nnc_func.testing.rules import check_rule, examined
from tests.graph.rewriting import stack_with_fused
from tests.graph.shipped import drawn_rules, stack_for
from tests.profiles import examples

fma, sqrt, exp, broadcast_to = OPS["fma"], OPS["sqrt"], OPS["exp"], OPS["broadcast_to"]


@pytest.fixture(scope="module")
def lazy() -> Any:
    return stack_with_fused()


# --- the registry ----------------------------------------------------------------------------------------

CHECKED = drawn_rules()
EXAMPLES = examples(100, 3000).max_examples


@pytest.mark.parametrize("each", CHECKED, ids=lambda r: r.name)
def test_rule_is_sound_fires_and_needs_its_conditions(each: Any, lazy: Any) -> None:
    report = check_rule(each, stack_for(each, lazy), examples=EXAMPLES)
    assert report.fired > 0
    assert not report.needless
    assert "no counterexample in" in report.verdict
    assert report.missing == ""


@pytest.mark.parametrize("each", RULES, ids=lambda r: r.name)
def test_rule_says_what_it_does_in_one_sentence(each: Any) -> None:
    assert each.doc.endswith(".")
    assert "\n" not in each.doc
    assert each.name in str(each)


@pytest.mark.parametrize("each", RULES, ids=lambda r: r.name)
def test_rule_pickles_as_where_it_is_defined(each: Any) -> None:
    assert pickle.loads(pickle.dumps(each)) is each


def test_what_was_counted_found_no_counterexample() -> None:
    entries = json.loads((Path(__file__).parent.parent / "golden" / "firings.json").read_text())
    assert [name for name, entry in entries.items() if "verdict" in entry] == []
    assert entries.keys() == {each.name for each in CHECKED}


def test_no_rule_lacks_an_operator(lazy: Any) -> None:
    widest = lazy.optimiser.with_numerics(Numerics.REASSOCIATION, fast_math=True)
    assert widest.dormant == ()


def test_names_are_unique() -> None:
    names = [r.name for r in RULES]
    assert len(names) == len(set(names))


# --- the language ----------------------------------------------------------------------------------------


@rule
def fuse_multiply_add(a, b, c):
    """A product that only a sum uses is computed with the sum."""
    product = a * b
    return rewrite(product + c).to(fma(a, b, c)).when(used_once(product)).up_to(ROUNDING)


@rule
def owl_drop_repeat(x, y, s: Param):
    """Owl's pattern 023, which does not ask whether the other operand supplies the shape."""
    return rewrite(broadcast_to(x, shape=s) + y).to(x + y)


@rule
def owl_drop_zeros(x):
    """Owl's pattern 002, which does not ask whether the zeros widen x."""
    return rewrite(x + 0).to(x).up_to(SIGNED_ZERO)


@rule
def owl_zero_times(x):
    """Owl's pattern 020, which forgets NaN and infinity."""
    product = x * 0.0
    return rewrite(product).to(x - x).when(same_aval(x, product)).up_to(SIGNED_ZERO)


@rule
def zero_exactly(x):
    """A zero that is dropped, said to be exact."""
    total = x + 0.0
    return rewrite(total).to(x).when(same_aval(x, total)).up_to(EXACT)


@rule
def with_a_needless_condition(x, y):
    """Negation moves out of a difference."""
    return rewrite(-(x - y)).to(y - x).when(same_shape(x, y)).up_to(SIGNED_ZERO)


@rule
def never(x):
    """It asks for what cannot be."""
    return rewrite(exp(x)).to(exp(x)).when(broadcasts(x, x, to=x), used_once(x))


def test_owls_faults_are_refuted_with_a_smallest_counterexample(lazy: Any) -> None:
    repeat = examined(owl_drop_repeat, lazy).counterexample
    assert "became" in repeat
    assert "shape=" in repeat
    assert "became" in examined(owl_drop_zeros, lazy).counterexample
    assert "elsewhere" in examined(owl_zero_times, lazy).counterexample


def test_numerics_are_held_to() -> None:
    report = examined(zero_exactly, stack_with_fused())
    assert report.faults
    assert "-0." in report.counterexample
    assert not examined(RULES[0], stack_with_fused(), examples=100).counterexample


def test_what_is_written_twice_is_two_patterns() -> None:
    def asks_anew(x, y):
        """What is added is subtracted."""
        return rewrite((x + y) - y).to(x).when(used_once(x + y))

    def makes_anew(x, y):
        """What is added is subtracted."""
        return rewrite((x + y) - y).to(x + apply(OPS["full"], shape=shape_of(x + y), value=0, dtype=dtype_of(x)))

    with pytest.raises(
        RuleError, match=r"the condition 'only this uses \(x \+ y\)' is about \(x \+ y\), which is no pa"
    ):
        rule(asks_anew)
    with pytest.raises(RuleError, match=r"shape_of\(\(x \+ y\)\) on the right side is about .*: give it a name"):
        rule(makes_anew)


def test_a_needless_condition_is_told(lazy: Any) -> None:
    with pytest.raises(RuleError, match=r"condition 'x and y have one shape' is not needed"):
        check_rule(with_a_needless_condition, lazy)


def test_a_rule_that_never_fires_is_told(lazy: Any) -> None:
    with pytest.raises(RuleError, match=r"fires on 0 of"):
        check_rule(never, lazy, examples=50)


def test_a_pass_that_declares_no_samples_finds_nothing(lazy: Any) -> None:
    with pytest.raises(RuleError, match="fires on 0 of 0"):
        check_rule(evolve(next(r for r in RULES if isinstance(r, Pass)), samples=()), lazy, examples=10)


def test_a_rule_prints_itself() -> None:
    assert str(fuse_multiply_add) == "fuse_multiply_add: ((a * b) + c) -> fma(a, b, c)   when only this uses (a * b)"


def test_a_condition_is_taken_away_and_the_rule_still_pickles() -> None:
    weaker = fuse_multiply_add.without(fuse_multiply_add.conditions[0])
    assert weaker.conditions == ()
    assert weaker.name == fuse_multiply_add.name
    (_, (_, name, dropped)) = weaker.__reduce__()
    assert (name, dropped) == ("fuse_multiply_add", ("only this uses (a * b)",))
    with pytest.raises(RuleError, match="has no condition"):
        weaker.without("only this uses (a * b)")


def test_malformed_rules_are_refused_by_name() -> None:
    with pytest.raises(RuleError, match="silent has no docstring"):

        @rule
        def silent(x):
            return rewrite(-x).to(x)

    with pytest.raises(RuleError, match="y on the right side is not bound"):

        @rule
        def loose(x):
            """It has a variable too many."""
            return rewrite(-x).to(x + Tensor("y"))

    with pytest.raises(RuleError, match="split has several results"):

        @rule
        def several(x):
            """It has a pattern that cannot be."""
            return rewrite(exp(OPS["split"](x, sections=2))).to(x)

    with pytest.raises(RuleError, match="its left side an application"):

        @rule
        def bare(x):
            """It matches everything."""
            return rewrite(x).to(-x)

    with pytest.raises(RuleError, match=r"when\(\) takes conditions, .*; given True"):
        rewrite(Tensor("x") + 1).when(True)

    with pytest.raises(RuleError, match="is not known before it is matched"):
        bool(Tensor("x") + 1)

    assert str(np.exp(Tensor("x")) + np.float64(2) * Tensor("x")) == "(exp(x) + (2 * x))"
    for given in (np.spacing, np.sum, np.asarray):
        with pytest.raises(RuleError, match=rf"numpy.{given.__name__} takes arrays, and was given a pattern"):
            given(Tensor("x"))

    with pytest.raises(OperatorError, match="has no parameter 'axes'"):
        apply(OPS["sum"], Tensor("x"), axes=1)


# --- matching --------------------------------------------------------------------------------------------


def attempt(each: Any, root: Node, lazy: Any, uses: int = 1) -> Any:
    from nnc_func.graph.rewriting.compiled import Builder, compiled

    return compiled(each, Builder(lazy.operator)).attempt(root, lambda value: uses)


def inputs(lazy: Any, *names: str, shape: Any = (2, 3), dtype: str = "float32") -> list[Any]:
    return [lazy.symbol.input(n, Aval(shape, dtype)) for n in names]


def bind(lazy: Any, op: str, *args: Any, **params: Any) -> Any:
    return lazy.operator.bind(lazy.type.ops[op], *args, **params)


def test_operands_match_in_both_orders(lazy: Any) -> None:
    a, b, c = inputs(lazy, "a", "b", "c")
    product = bind(lazy, "multiply", a, b)
    for root in (bind(lazy, "add", product, c), bind(lazy, "add", c, product)):
        assert attempt(fuse_multiply_add, root, lazy) is bind(lazy, "fma", a, b, c)
    assert attempt(fuse_multiply_add, bind(lazy, "subtract", product, c), lazy) is None
    assert attempt(fuse_multiply_add, bind(lazy, "add", product, c), lazy, uses=2) is None


@rule
def share(x, y):
    """A factor is taken out, whichever operand it is."""
    return rewrite(x * y + x).to(x * (y + 1)).up_to(ROUNDING)


def test_a_repeated_variable_is_one_node_and_other_orders_are_tried(lazy: Any) -> None:
    a, b, c = inputs(lazy, "a", "b", "c")
    wanted = bind(lazy, "multiply", a, bind(lazy, "add", b, 1))
    for product in (bind(lazy, "multiply", a, b), bind(lazy, "multiply", b, a)):
        assert attempt(share, bind(lazy, "add", a, product), lazy) is wanted
        assert attempt(share, bind(lazy, "add", product, a), lazy) is wanted
        assert attempt(share, bind(lazy, "add", product, c), lazy) is None


@computed
def plus_one(n):
    """One more."""
    return n + 1


@rule
def scale_up(x, s: Scalar):
    """Not a law at all: it shows that a scalar is a number."""
    return rewrite(x * s).to(x * plus_one(s))


def test_a_scalar_is_one_repeated_real_number_stored_or_filled(lazy: Any) -> None:
    (x,) = inputs(lazy, "x")
    full = bind(lazy, "full", shape=(2, 3), value=4, dtype="float32")
    for factor in (4.0, np.full((2, 3), 4, np.float32), full):
        assert attempt(scale_up, bind(lazy, "multiply", x, factor), lazy) is bind(lazy, "multiply", x, 5.0)
    uneven = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert attempt(scale_up, bind(lazy, "multiply", x, uneven), lazy) is None
    assert attempt(scale_up, bind(lazy, "multiply", x, x), lazy) is None


@pytest.mark.parametrize(("zero", "fires"), [(0.0, True), (-0.0, False), (1e-30, False)])
def test_zero_in_an_exact_pattern_has_its_own_sign(zero: float, fires: bool, lazy: Any) -> None:
    (x,) = inputs(lazy, "x")
    total = bind(lazy, "add", x, zero)
    assert (attempt(zero_exactly, total, lazy) is x) == fires


def test_a_parameter_that_is_not_named_has_its_default(lazy: Any) -> None:
    x, y = inputs(lazy, "x", "y", shape=(3, 3))

    @rule
    def product(x, y):
        """A product with the operands exchanged, which is wrong."""
        return rewrite(x @ y).to(y @ x)

    assert attempt(product, bind(lazy, "matmul", x, y), lazy) is not None
    assert attempt(product, bind(lazy, "matmul", x, y, transpose_a=True), lazy) is None


def test_rules_quantify_over_laws_also_of_a_users_operator(lazy: Any) -> None:
    drop_involution = next(r for r in RULES if r.name == "drop_involution")
    over = {r.lhs.op.name for r in drop_involution.instances(lazy.type.ops)}
    assert {"negative", "logical_not", "flip"} <= over
    drop_unit = next(r for r in RULES if r.name == "drop_unit")
    numerics = {r.lhs.op.name: r.numerics for r in drop_unit.instances(lazy.type.ops)}
    assert numerics["add"] is SIGNED_ZERO
    assert numerics["multiply"] is EXACT
    assert isinstance(next(drop_unit.instances(lazy.type.ops)), Rule)


def test_families_and_rewriters_need_a_docstring() -> None:
    with pytest.raises(RuleError, match="quiet has no docstring"):

        @for_law("unit", arity=2)
        def quiet(f, unit, x):
            return rewrite(f(x, unit)).to(x)

    with pytest.raises(RuleError, match="hushed has no docstring"):

        @rewriter([OPS["add"]])
        def hushed(node, builder):
            return None


# --- the kit's own comparison ----------------------------------------------------------------------------


def test_values_are_told_apart_by_numerics() -> None:
    one, off = np.float32([1.0]), np.float32([1.0 + 2e-7])
    assert differs(one, off, EXACT) == "elements differ"
    assert differs(one, off, ROUNDING) == ""
    assert differs(one, np.float32([1.01]), ROUNDING)
    assert differs(np.float32([np.nan]), np.float32([np.nan]), EXACT) == ""
    assert differs(np.float32([np.nan]), one, ROUNDING) == "NaN is elsewhere"
    assert differs(np.float32([np.inf]), np.float32([-np.inf]), ROUNDING) == "infinity is elsewhere"
    assert differs(np.float32([np.nan]), one, ROUNDING, fast_math=True) == ""
    assert INPUT.pure is False
