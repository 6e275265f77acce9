"""Families of rules name where they are rooted, and are made there (`graph/rules/rule`, `graph/rewriting/rule_index`).

That is what their left sides are applications of; where such a node is met, they are made.
"""

from __future__ import annotations

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting.compiled import Numbered
from nnc_func.graph.rules import RULES, for_each, rewrite
from nnc_func.graph.rules.rule import EXACT, OWN, Each, Family, Numerics, Rule

FAMILIES = [each for each in RULES if isinstance(each, Family)]
MANY = 20  # rules of a family, which are not made for nothing


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_makes_at_an_operator_is_what_it_makes_there_of_all(family: Family) -> None:
    every = [*family.instances(OPS)]
    assert [each for op in OPS.values() for each in family.rooted(op, OPS)] == sorted(every, key=_root)
    assert len(every) < MANY or family.at is not None


def _root(rule: Rule) -> int:
    return [*OPS.values()].index(rule.lhs.op)


def _opposite(x, f):  # type: ignore[no-untyped-def]
    return rewrite(OPS["negative"](f(x))).to(f(OPS["negative"](x)))


def test_a_family_that_is_elsewhere_than_it_says_is_refused_with_its_line() -> None:
    @for_each(lambda op: [(Each(op), None)] if op.name == "sin" else [], "is a sine", at=OWN)
    def push_negative(f, value, x):  # type: ignore[no-untyped-def]
        """A negation goes inside."""
        return _opposite(x, f)

    with pytest.raises(RuleError, match=r"rule push_negative, test_rooted_rules\.py:\d+: its left side is .* negative"):
        [*push_negative.instances(OPS)]


@pytest.mark.parametrize("at", [None, (OPS["negative"],)])
def test_a_family_fires_whether_or_not_it_says_where(at: object) -> None:
    @for_each(lambda op: [(Each(op), None)] if op.name == "sin" else [], "is a sine", at=at)  # type: ignore[arg-type]
    def push_negative(f, value, x):  # type: ignore[no-untyped-def]
        """A negation goes inside."""
        return _opposite(x, f)

    lazy = nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.without_rules(*(r.name for r in lazy.optimiser.rules)))
    lazy = lazy.swap(optimiser=lazy.optimiser.with_rules(push_negative))
    x = lazy.input("x", (2,), "float64")
    program = lazy.compile([x], -lazy.ops.sin(x))
    assert [n.op.name for n in program.graph.nodes] == ["input", "negative", "sin"]
    np.testing.assert_array_equal(program([1.0, 2.0]), np.sin([-1.0, -2.0]))


def test_rules_are_made_for_the_operators_that_are_met() -> None:
    lazy = nnc.lazy()
    optimiser = lazy.optimiser.with_numerics("exact")
    lazy = lazy.swap(optimiser=optimiser.without_rules("fuse_elementwise"))
    x = lazy.input("x", (2,), "float64")
    lazy.compile([x], x + 1)
    met = set(lazy.optimiser.tables[-1].depths)
    assert OPS["add"] in met
    assert not met & {OPS["reshape"], OPS["matmul"], OPS["sin"]}


def test_dormant_rules_are_found_without_a_graph() -> None:
    lazy = nnc.lazy()
    assert "gather_shifts_finite" in lazy.optimiser.with_numerics("exact").dormant
    assert "drop_unit" not in lazy.optimiser.dormant


def test_what_follows_from_rules_alone_is_found_once_for_all_stacks() -> None:
    one, other = nnc.lazy().optimiser, nnc.lazy().optimiser
    add, leaf = OPS["add"], OPS["full"]
    for mine, theirs in zip(one.tables, other.tables, strict=True):
        assert mine.index is theirs.index
        assert mine.rooted(add) is theirs.rooted(add)
        ours, others = mine.at((add, leaf, leaf)), theirs.at((add, leaf, leaf))
        assert isinstance(ours, Numbered)
        assert isinstance(others, Numbered)
        assert [each.rule for each in ours.rules] == [each.rule for each in others.rules] != []
        assert not {*ours.rules} & {*others.rules}, "what makes nodes is of one stack"
        first = one.tables[0].at((add, leaf, leaf))
        assert isinstance(first, Numbered)
        assert {*first.rules} <= {*ours.rules}, "and in all its phases the same"


@pytest.mark.parametrize("level", Numerics)
def test_rules_that_numerics_forbid_are_in_no_index(level: Numerics) -> None:
    exact = nnc.lazy().optimiser.with_numerics(level)
    met = {rule for table in exact.tables for op in OPS.values() for rule in table.rooted(op)[0][0]}
    assert {rule.numerics for rule in met} == {each for each in Numerics if EXACT <= each <= level}
    assert not any(rule.fast_math for rule in met)
