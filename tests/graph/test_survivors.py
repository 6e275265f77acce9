"""Each mutation that is told to be equivalent is of a shipped rule, and makes a difference to it (`graph/rules`)."""

from __future__ import annotations

import json
from pathlib import Path

import nnc_func as nnc
from nnc_func.graph.rules import RULES
from tests.graph.mutations import mutations

BENCH = Path(__file__).parents[2] / "bench"
SURVIVORS = json.loads((BENCH / "survivors.json").read_text())
ROWS = json.loads((BENCH / "results" / "mutations.json").read_text())["rows"]
MEMBERS = 3  # of a family, as bench/mutations.py judges them


def test_what_is_explained_is_a_mutation_of_a_shipped_rule() -> None:
    listed = [each for own in SURVIVORS.values() for each in own]
    assert len(listed) == len(set(listed))
    about = {each.split(":")[0].split("[")[0] for each in listed}
    ops = nnc.lazy().type.ops
    made = {str(m) for rule in RULES if rule.name in about for m in mutations(rule, ops, MEMBERS)}
    assert [each for each in listed if each not in made] == []


def test_the_recorded_score_counts_each_survivor_as_explained() -> None:
    row = next(r for r in ROWS if r["kind"] == "all but claim")
    survived = row["mutations"] - row["refuted"]
    assert row["unexplained"] == 0
    assert survived == row["explained"] == sum(map(len, SURVIVORS.values()))
    assert row["refuted"] / row["mutations"] >= 0.97
