"""The golden of rules: each rule alone makes of its graph what is written, with equal values (`graph/rules`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rewriting.evaluating import differs, evaluated
from nnc_func.graph.rules import REASSOCIATION, RULES
from nnc_func.graph.text.writing import parsed
from nnc_func.testing.rewrites import quiet
from tests.graph.rewriting import fills

GOLDEN = Path(__file__).with_name("rules.txt")
MOST = 1 << 20  # elements of a graph that is computed here

ENTRIES = dict(
    entry.partition("\n")[::2] for entry in GOLDEN.read_text(encoding="utf-8").removeprefix("# ").split("\n# ")
)


def test_every_rule_has_one_and_says_how_far_it_goes() -> None:
    assert [title.partition(" (")[0] for title in ENTRIES] == [rule.name for rule in RULES]
    for rule, title in zip(RULES, ENTRIES, strict=True):
        assert title.endswith(")")
        assert ("fast math" in title) >= bool(getattr(rule, "fast_math", False))


@pytest.mark.parametrize(("title", "rule"), list(zip(ENTRIES, RULES, strict=True)), ids=[r.name for r in RULES])
def test_a_rule_makes_of_its_graph_what_is_written(title: str, rule: Any) -> None:
    places = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()) if "transfer" in rule.name else nnc.NumPy()
    stack = nnc.lazy(places)
    stack = stack.swap(optimiser=Optimiser(stack.operator, [rule], REASSOCIATION, fast_math=True))
    before, after = (text.strip() for text in ENTRIES[title].split("\n\n")[:2])
    graph = parsed(before, stack)
    assert str(graph) == before
    found = graph.with_roots(stack.optimiser.optimise(graph.roots).roots)
    assert str(found) == after
    if sum(n.aval.size for n in graph.nodes if not n.op.multi_result) < MOST:
        agree(rule, graph, found, stack)


def agree(rule: Any, before: Any, after: Any, stack: Any) -> None:
    feeds = {n: np.asarray(np.abs(x), x.dtype) for n, x in fills(before.roots).items()}
    with quiet():
        old, scale = evaluated(before.roots, feeds, stack.device)
        new, _ = evaluated(after.roots, feeds, stack.device)
    for was, now in zip(old, new, strict=True):
        assert not differs(was, now, REASSOCIATION, True, scale=scale), (was, now)
