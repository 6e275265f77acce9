"""The order is chosen anew with the scratch memory of kernels that were negotiated (`engine/planning/negotiation`)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.plan_rows import MEMORY
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.engine.planning.liveness import busiest, least_at
from nnc_func.engine.planning.planner import smallest_draft
from nnc_func.engine.verifying.verify import verify
from tests.engine.test_negotiation import kernel, stack_with

WIDE = kernel("wide", 8, 10, count=2)  # its scratch memory is two arrays, the other one's is one
NARROW = kernel("narrow", 1, 10.2)
SEEDS = (2, 7, 9, 17, 18, 22, 29, 43)  # of graphs in which another order is better with less scratch


def wired(seed: int, *kernels: Any, streams: int = 1) -> tuple[Any, Any, Any]:
    """A stack, an input, and what is computed of it, in chains that are wired at random."""
    stack, op = stack_with(*kernels)
    stack = stack.swap(engine=stack.engine.with_streams(streams))
    drawn, ops = random.Random(seed), stack.ops
    x = stack.input("x", (1000,), "float64")
    values = [x]
    for _ in range(12):
        a = drawn.choice(values[-5:])
        count, chance = a.shape[0], drawn.random()
        if chance < 0.35:
            value = stack.bind(op, a)
        elif chance < 0.6:
            value = ops.concat(a, drawn.choice(values[-5:]), axis=0) if count < 400_000 else ops.sort(a[: count // 4])
        elif chance < 0.8:
            value = ops.concat(a, a, a, axis=0) if count < 200_000 else a[: count // 3]
        else:
            value = ops.sort(a[: max(1, count // 3)])
        values.append(ops.sort(value) if drawn.random() < 0.3 else ops.exp(-value * value))
    return stack, x, sum((ops.sum(value) for value in values[-5:-1]), start=ops.sum(values[-1]))


def drafted(stack: Any, graph: Any) -> Draft:
    engine = stack.engine
    with engine.symbol.table.walking:
        return smallest_draft(engine.request(relaid(engine.graph.optimised(graph)[0], engine.kernels)))


def test_a_wired_network_takes_what_no_order_goes_below() -> None:
    """Its order was the best one with the scratch memory of kernels that were not taken after all."""
    null = nnc.lazy(nnc.Null())
    draft = drafted(null, models.get("randomly-wired").make(null, 1, False, seed=None))
    most, at = busiest(draft)
    assert draft.negotiated
    assert sum(draft.arenas.values()) <= 1.004 * least_at(draft, at) <= 1.004 * most


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_is_as_good_as_if_there_were_no_other_kernel(seed: int) -> None:
    plans = []
    for kernels in ((WIDE, NARROW), (NARROW,)):
        stack, x, y = wired(seed, *kernels)
        plans.append(stack.compile([x], [y]).plan)
    assert MEMORY in {i.choice for i in plans[0].instructions}
    assert plans[0].arena_bytes <= 1.01 * plans[1].arena_bytes


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_values_and_plans_are_right(seed: int, streams: int) -> None:
    stack, x, y = wired(seed, WIDE, NARROW, streams=streams)
    program = stack.compile([x], [y])
    verify(program.plan)
    wide, u, v = wired(seed, WIDE)
    given = np.linspace(-1.0, 1.0, 1000)
    want = wide.compile([u], [v])(given)
    for _ in range(2):
        np.testing.assert_array_equal(program(given), want)
