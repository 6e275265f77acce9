"""Mutations of shipped rules are refuted, by small counterexamples (`testing/rules`, `graph/rules`)."""

from __future__ import annotations

from typing import Any

import pytest

from nnc_func.graph.rules import RULES
from tests.graph.mutations import judged, mutations
from tests.graph.rewriting import stack_with_fused

OPERATOR = stack_with_fused().operator
SAMPLE = ("merge_transposes", "merge_broadcasts", "merge_slices", "drop_broadcast")
NODES = 4


@pytest.mark.parametrize("each", [r for r in RULES if r.name in SAMPLE], ids=lambda r: r.name)
def test_every_mutation_of_a_rule_is_refuted(each: Any) -> None:
    found = list(mutations(each, OPERATOR.type.ops))
    assert found
    for mutation in found:
        verdict = judged(mutation, OPERATOR, 300)
        assert verdict is None or verdict.refuted, mutation
        assert verdict is None or verdict.nodes <= NODES, mutation
