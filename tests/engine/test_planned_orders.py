"""Values are the same in any order, and default orders take no more than depth-first (`engine/planning/ordering`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.orders import DEFAULT, ORDERS, MinimumCut, OrderProblem, Portfolio, Solution, simulated_peak
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


def test_a_search_is_asked_once_about_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where outputs house values a plan is tried with other orders as well: what these are is known by then."""
    asked: list[str] = []
    solved = MinimumCut.solved

    def counted(search: MinimumCut, problem: OrderProblem, order: Sequence[int]) -> Solution:
        asked.append(repr((problem.needs, problem.uses, problem.sizes)))
        return solved(search, problem, order)

    monkeypatch.setattr(MinimumCut, "solved", counted)
    for name, training in (("u-net", False), ("lenet-5", True), ("resnet-18", True)):
        stack = nnc.lazy(nnc.Null())
        stack.engine.compile(models.get(name).make(stack, 8 if training else 1, training, seed=None))
        assert len(asked) == len({*asked}) > 0
        asked.clear()


@pytest.mark.parametrize("name", ["lenet-5", "mnist"])
def test_the_simulated_peak_is_the_plans_and_next_values_take_the_same_in_any_order(name: str) -> None:
    """A next value lies in its variable's memory, or in memory of its own beside the arena: it counts in no order."""
    beside = set()
    for order in ("depth_first", "breadth_first", "list_scheduling", "minimum_cut"):
        stack = nnc.lazy(nnc.Null())
        stack = stack.swap(engine=stack.engine.with_orders(order))
        graph = models.get(name).reduced().make(stack, 1, True, seed=None)
        plan, problem = stack.engine.compile(graph).plan, stack.engine.order_problem(graph)
        assert plan.max_load == simulated_peak(problem, ORDERS[order](problem))
        beside.add(sum(b.nbytes for b in plan.buffers if b.kind == "next"))
    assert len(beside) == 1


@given(programs())
@settings(max_examples=10, deadline=None)
def test_random_programs_take_no_more_than_depth_first(program: Program) -> None:
    taken = []
    for orders in (DEFAULT, ("depth_first",)):
        engine = nnc.lazy().engine.with_orders(*orders)
        taken.append(program.build(nnc.lazy().swap(engine=engine)).program.plan.arena_bytes)
    assert taken[0] <= taken[1]
