"""Any rules in any order and phases: rewriting ends, values stay, once is enough (`graph/rewriting`, `graph/rules`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rules import REASSOCIATION, RULES
from nnc_func.graph.rules.phases import Phase
from nnc_func.testing.choices import Choices, search
from nnc_func.testing.instances import made
from nnc_func.testing.passes import roots_of
from nnc_func.testing.program import Program
from nnc_func.testing.programs import programs
from nnc_func.testing.rewrites import quiet, values
from nnc_func.testing.strategies import rule_sets
from tests.graph.rewriting import stack_with_fused
from tests.profiles import examples

OPERATOR = stack_with_fused().operator
TOGETHER = 4  # graphs made of several rules' left sides


def holds(optimiser: Any, roots: tuple[Any, ...], feeds: dict[Any, Any]) -> None:
    """Every root keeps its aval and its value, and nothing fires the second time."""
    found = optimiser.optimise(roots).roots
    for before, after in zip(roots, found, strict=True):
        assert before.aval == after.aval
        both = values(before, after, feeds, OPERATOR.device)
        assert both is None or not both.difference(REASSOCIATION, optimiser.fast_math)
    assert optimiser.optimise(found).roots == found


@examples(40, 3000)
@given(rule_sets(), programs(most_steps=8))
def test_random_rule_sets_keep_values_of_random_programs(phases: tuple[Phase, ...], program: Program) -> None:
    feeds: dict[Any, Any] = {}
    with quiet():
        holds(Optimiser(OPERATOR, phases, REASSOCIATION), roots_of(program, OPERATOR, feeds), feeds)


SOUND = [i for r in RULES for i in r.instances(OPERATOR.type.ops) if not i.fast_math and hasattr(i, "lhs")]


@examples(40, 3000)
@given(rule_sets(), st.integers(0, 10**6))
def test_random_rule_sets_keep_values_of_their_own_left_sides(phases: tuple[Phase, ...], seed: int) -> None:
    """Graphs that several rules match, as outputs of one program."""
    roots: list[Any] = []
    feeds: dict[Any, Any] = {}

    def enough(choose: Choices) -> Any:
        drawn = made(tuple(SOUND), OPERATOR, choose)
        if drawn is not None and not set(map(str, (n.data for n in drawn[1].feeds))) & set(
            map(str, (n.data for n in feeds))
        ):
            roots.append(drawn[1].root)
            feeds.update(drawn[1].feeds)
        return ("", ()) if len(roots) == TOGETHER else None

    with quiet():
        search(enough, 20, seed=seed)
        holds(Optimiser(OPERATOR, phases, REASSOCIATION), tuple(roots), feeds)


@pytest.mark.slow
@examples(10, 1000)
@given(programs())
def test_all_rules_backwards(program: Program) -> None:
    feeds: dict[Any, Any] = {}
    with quiet():
        backwards = Optimiser(OPERATOR, (Phase("simplify", RULES[::-1]),), REASSOCIATION)
        holds(backwards, roots_of(program, OPERATOR, feeds), feeds)
