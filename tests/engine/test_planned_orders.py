"""Orders in plans: values are the same in any, and those tried by default take no more than depth-first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.orders import DEFAULT, Portfolio
from nnc_func.testing.program import Program
from nnc_func.testing.programs import programs
from nnc_func.tree import flatten

REST = tuple(name for name in models.names() if name not in ("lenet-5", "u-net", "darts"))


@pytest.mark.parametrize(("name", "training"), [("u-net", False), ("mnist", True)])
def test_programs_compute_the_same_in_any_order_and_a_portfolio_takes_the_least(name: str, training: bool) -> None:
    model = models.get(name).reduced()
    given_ = model.examples(batch=2)
    seen: dict[str, Any] = {}
    peaks = {}
    for order in ("depth_first", "breadth_first", "least_peak", Portfolio(1_000, 20)):
        stack = nnc.lazy()
        stack = stack.swap(engine=stack.engine.with_orders(order))
        graph = model.training(stack, 2, seed=0) if training else model.make(stack, batch=2)
        program = stack.engine.compile(graph)
        program.plan.verify()
        found = program(*given_, *(1, 0.01) * training) if training else program(given_[0])
        seen[program.plan.order] = np.concatenate([np.ravel(np.asarray(f)) for f in flatten(found)[0]])
        peaks[program.plan.order] = program.plan.max_load
    for values in seen.values():
        np.testing.assert_allclose(values, seen["depth_first"], rtol=1e-5, atol=1e-6)
    assert peaks["Portfolio"] == min(peaks.values())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "name", ["lenet-5", "u-net", "darts", *(pytest.param(n, marks=pytest.mark.slow) for n in REST)]
)
def test_the_orders_that_are_tried_by_default_take_no_more_than_depth_first(name: str, training: bool) -> None:
    model = models.get(name)
    if training and not model.trains:
        return
    for each in (model.reduced(),) if name not in REST else (model.reduced(), model):
        taken = {}
        for orders in (DEFAULT, ("depth_first",)):
            stack = nnc.lazy(nnc.Null())
            stack = stack.swap(engine=stack.engine.with_orders(*orders))
            plan = stack.engine.compile(each.make(stack, 1, training, seed=None)).plan
            taken[orders] = (plan.max_load, plan.arena_bytes)
        assert taken[DEFAULT][0] <= taken[("depth_first",)][0]
        assert taken[DEFAULT][1] <= taken[("depth_first",)][1]


@given(programs())
@settings(max_examples=10, deadline=None)
def test_random_programs_take_no_more_than_depth_first(program: Program) -> None:
    taken = []
    for orders in (DEFAULT, ("depth_first",)):
        engine = nnc.lazy().engine.with_orders(*orders)
        taken.append(program.build(nnc.lazy().swap(engine=engine)).program.plan.arena_bytes)
    assert taken[0] <= taken[1]
