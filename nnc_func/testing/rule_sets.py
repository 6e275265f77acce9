"""Random sets of rules: whichever rules there are, in whatever order and phases, rewriting ends and keeps values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from nnc_func.graph.rules import RULES
from nnc_func.graph.rules.phases import Phase
from nnc_func.graph.rules.rule import AnyRule

PHASES = ("first", "second", "third")


@st.composite
def rule_sets(draw: Any, rules: Sequence[AnyRule] = RULES, most: int | None = None) -> tuple[Phase, ...]:
    """Some of these rules, in any order, in one phase after the other: what an `Optimiser` is given.

    Parameters
    ----------
    most
        How many rules at most; all by default.

    Examples
    --------
    >>> from hypothesis import find
    >>> [len(phase.rules) for phase in find(rule_sets(), lambda phases: len(phases[0].rules) > 1)]
    [2]
    """
    chosen = draw(st.lists(st.sampled_from(list(rules)), min_size=1, max_size=most, unique_by=lambda r: r.name))
    count = draw(st.integers(1, min(len(PHASES), len(chosen))))
    return tuple(Phase(PHASES[i], tuple(chosen[i::count])) for i in range(count))
