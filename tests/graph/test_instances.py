"""A hundred thousand graphs drawn from the left sides of the shipped rules, none of which is a false alarm."""

from __future__ import annotations

from typing import Any

import pytest

import nnc_func as nnc
from nnc_func.graph.rules import RULES, Pass
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.rewrites import quiet
from nnc_func.testing.rules import Checking
from tests.graph.rewriting import stack_with_fused

SMALL = {fuse_elementwise.name: fuse_elementwise.from_size(0)}
DRAWN = [SMALL.get(r.name, r) for r in RULES if not isinstance(r, Pass) or r.samples]
WANTED = 100_000
DRAWS = WANTED * 3 // 2 // len(DRAWN)  # some of what is drawn does not go together


@pytest.mark.slow
@pytest.mark.parametrize("each", DRAWN, ids=lambda r: r.name)
def test_graphs_of_a_rule_raise_no_alarm(each: Any) -> None:
    stack = stack_with_fused()
    if "transfer" in each.name:
        stack = stack.swap(device=nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()))
    checking = Checking(each, stack.operator, DRAWS)
    with quiet():
        fault = checking.fault()
    assert fault is None, fault[0]
    assert checking.fired
