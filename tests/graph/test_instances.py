"""A hundred thousand graphs drawn from shipped rules: no alarm (`testing/instances`, `testing/rules`, `graph/rules`).

They are drawn from the left sides, and an alarm would be a false one.
"""

from __future__ import annotations

from typing import Any

import pytest

from nnc_func.testing.rewrites import quiet
from nnc_func.testing.rules import Checking
from tests.graph.rewriting import stack_with_fused
from tests.graph.shipped import drawn_rules, stack_for

DRAWN = drawn_rules()
WANTED = 100_000
DRAWS = WANTED * 3 // 2 // len(DRAWN)  # some of what is drawn does not go together


@pytest.mark.slow
@pytest.mark.parametrize("each", DRAWN, ids=lambda r: r.name)
def test_graphs_of_a_rule_raise_no_alarm(each: Any) -> None:
    stack = stack_for(each, stack_with_fused())
    checking = Checking(each, stack.operator, DRAWS)
    with quiet():
        fault = checking.fault()
    assert fault is None, fault[0]
    assert checking.fired
