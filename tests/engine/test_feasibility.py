"""Budgets are kept from the least on (`engine/planning/budgets`, `engine/rematerialising/portfolio`).

Bounds of it are proven, work is counted, and refusals say what was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.orders import DEFAULT, MinimumCut, OrderProblem, Solution
from nnc_func.engine.planning.answers import Answers, footprint, taken
from nnc_func.engine.planning.planner import Drafting, placed, smallest_draft
from nnc_func.engine.planning.recomputed import recomputables
from nnc_func.engine.planning.unavoidable import unavoidable, unavoidable_once
from nnc_func.engine.rematerialising import STRATEGIES, RematerialisationProblem, answered, simulated
from nnc_func.engine.rematerialising.generators import chain, layers, random_problem
from nnc_func.engine.rematerialising.greedy import greedy
from nnc_func.engine.rematerialising.hastening import with_last
from nnc_func.engine.rematerialising.portfolio import least_answers
from nnc_func.engine.rematerialising.pruning import pruned
from nnc_func.engine.rematerialising.replay import Replay
from nnc_func.errors import PlanError
from nnc_func.testing.program import Program
from nnc_func.testing.programs import programs
from tests.engine.test_budgets import KINDS, LAZY, SORTED, WIDTH, chained, trained, within

kinds = st.lists(st.sampled_from(KINDS), min_size=3, max_size=12)


def moody(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    """A strategy of one's own that keeps some budgets, and no others."""
    return greedy(problem, budget) if budget // 64 % 3 == 1 else problem.base.sequence


def unet(stack: Any, depth: int, width: int) -> Any:
    """A loss and its gradient of what goes down in halves, and up again beside what it has left on the way."""
    ops = stack.ops

    def loss(x: Any) -> Any:
        left = []
        for _ in range(depth):
            x = ops.sort(ops.sin(x))
            left.append(x)
            x = x[: x.shape[0] // 2] + x[x.shape[0] // 2 :]
        for each in reversed(left):
            x = ops.sort(ops.concat(x, x, axis=0) * each)
        return ops.sum(x)

    x = stack.input("x", (width << depth,), "float64")
    value, (slope,) = stack.value_and_grad(loss, (0,))(x)
    return stack.compile([x], [value, slope])


def wide(stack: Any, branches: int) -> Any:
    """Branches of one value that all meet at the end, each of several steps."""
    ops = stack.ops
    x = stack.input("x", (200,), "float64")
    ends = [ops.sort(ops.sin(x * (i + 1.0))) for i in range(branches)]
    total = ends[0]
    for end in ends[1:]:
        total = ops.cumulative_sum(total * end, axis=0)
    return stack.compile([x], [total, *(ops.sum(end * total) for end in ends)])


def looped(stack: Any, length: int) -> Any:
    """A loop within a loop, its tape, and what is read again behind it."""
    ops = stack.ops
    x = stack.input("x", (64,), "float64")

    def loss(x: Any) -> Any:
        kept = [ops.sort(x * 0.5)]
        for _ in range(3):
            kept.append(ops.sort(ops.sin(kept[-1])))

        def inner(carry: Any, _: Any) -> Any:
            return ops.tanh(carry * 0.9), None

        def outer(carry: Any, _: Any) -> Any:
            return stack.scan(inner, carry, None, length=2)[0], None

        y, _ = stack.scan(outer, kept[-1], None, length=length)
        for each in reversed(kept):
            y = ops.cumulative_sum(y * each, axis=0)
        return ops.sum(y)

    value, (slope,) = stack.value_and_grad(loss, (0,))(x)
    return stack.compile([x], [value, slope])


def outcome(make: Any, nbytes: int, strategy: Any = "greedy") -> tuple[bool, int]:
    """Whether a budget is kept, and the bytes of the plan, or those that the refusal names."""
    try:
        program = make(within(nbytes, strategy))
    except PlanError as error:
        return False, int(re.search(r"the least (?:found )?is (\d+) bytes", str(error))[1])  # type: ignore[index]
    found_bytes = footprint(program.plan.verify())
    assert found_bytes <= nbytes
    assert found_bytes == program.stats.recomputation.nbytes
    return True, found_bytes


def answers_of(program: Any) -> Answers:
    """The answers of strategies to what a program computes."""
    request = LAZY.engine.request(program.graph)
    draft = smallest_draft(request)
    return Answers(draft.request, recomputables(draft, request.machine), lambda: placed(draft), greedy)


def check_monotone(make: Any, parts: Sequence[float], strategies: Sequence[Any]) -> None:
    """Every budget is kept from the least on that any strategy takes for any of them, and none below."""
    program = make(LAZY)
    takes, answers = footprint(program.plan), answers_of(program)
    each = [
        answers.planned(answers.to(0, tasks, STRATEGIES[name])).nbytes
        for tasks in answers.tasks
        for name in ("binomial", "square_root", "greedy")
    ]
    tried = sorted({0, takes - 1, *each, min(each) - 1, max(each) - 1, *(int(p * takes) for p in parts)})
    results = [(n, *outcome(make, n, s)) for s in strategies for n in tried]
    met = min(nbytes for _, kept, nbytes in results if kept)
    assert met <= min(each)
    for nbytes, kept, told in results:
        assert kept == (nbytes >= met), (nbytes, kept, told, met)
        assert kept or told == met


@given(kinds, st.integers(0, 99), st.lists(st.floats(0.2, 1.0), min_size=2, max_size=4))
@settings(max_examples=4)
def test_training_steps_are_kept_from_the_least_budget_on(drawn: list[str], seed: int, parts: list[float]) -> None:
    check_monotone(lambda s: trained(s, (*drawn, "dense"), seed)[0], parts, ("greedy", moody))


GRAPHS = pytest.mark.parametrize(
    "make",
    [lambda s: chained(s, 8), lambda s: unet(s, 2, 50), lambda s: wide(s, 4), lambda s: looped(s, 2)],
    ids=["a chain", "skips", "a wide one", "loops"],
)


@GRAPHS
def test_graphs_are_kept_from_the_least_budget_on(make: Any) -> None:
    check_monotone(make, (0.6, 0.9), ("greedy", moody))


def test_a_budget_that_one_strategy_keeps_is_kept_by_default() -> None:
    def make(stack: Any) -> Any:
        return unet(stack, 3, 30)

    for strategy in ("binomial", "square_root", moody):
        kept, least = outcome(make, 0, strategy)
        assert not kept
        assert outcome(make, least) == (True, least)
        assert outcome(make, least - 1) == (False, least)


def test_what_a_plan_takes_by_default_is_a_budget_that_it_keeps() -> None:
    for make in (lambda s: chained(s, 6), lambda s: wide(s, 4), lambda s: trained(s, ("dense", "relu", "dense"), 0)[0]):
        plain = make(LAZY)
        assert make(within(footprint(plain.plan))).plan == plain.plan


@given(kinds, st.integers(0, 99))
@settings(max_examples=8)
def test_no_plan_takes_less_than_what_is_proven(drawn: list[str], seed: int) -> None:
    program = trained(LAZY, (*drawn, "dense"), seed)[0]
    answers = answers_of(program)
    bound = unavoidable(smallest_draft(answers.request))
    assert 0 < bound.nbytes <= answers.least.nbytes <= answers.plain.nbytes


def floor_of(graph: Any, **changes: Any) -> tuple[int, int]:
    """What is proven of plans in which nothing is computed twice, and the least of them in several orders."""
    request = LAZY.engine.request(graph)
    floor = unavoidable_once(Drafting(request).as_written())
    drafting = Drafting(request)
    orders: Any = [DEFAULT, ("least_peak",), ("breadth_first",)]
    return floor, min(taken(drafting.smallest(orders=each, memory=memory)) for each in orders for memory in (None, 0))


@given(kinds, st.integers(0, 99))
@settings(max_examples=8)
def test_no_plan_of_a_training_step_takes_less_than_its_floor(drawn: list[str], seed: int) -> None:
    floor, least = floor_of(trained(LAZY, (*drawn, "dense"), seed)[0].graph)
    assert 0 < floor <= least


@given(programs())
@settings(max_examples=30, deadline=None)
def test_no_plan_of_a_random_program_takes_less_than_its_floor(program: Program) -> None:
    floor, least = floor_of(program.build(LAZY).program.graph)
    assert floor <= least


@GRAPHS
def test_no_plan_takes_less_than_its_floor(make: Any) -> None:
    floor, least = floor_of(make(LAZY).graph)
    assert 0 < floor <= least


def test_a_budget_far_below_what_all_takes_is_refused_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No order keeps it, so none is searched for: only what is found with values computed again is told."""
    asked: list[int] = []
    solved = MinimumCut.solved

    def counted(search: MinimumCut, problem: OrderProblem, order: Sequence[int]) -> Solution:
        asked.append(len(problem))
        return solved(search, problem, order)

    monkeypatch.setattr(MinimumCut, "solved", counted)
    stack = nnc.lazy(nnc.Null())
    graph = models.get("mobilenet-v2").training(stack, 2, seed=None)
    with pytest.raises(PlanError, match=r"chooses, without that at least \d+ bytes") as caught:
        stack.engine.with_memory_budget(0).compile(graph)
    assert not asked
    floor = int(re.search(r"at least (\d+)", str(caught.value))[1])  # type: ignore[index]
    plain = footprint(stack.engine.compile(graph).plan)
    assert 0.8 * plain < floor <= plain
    assert asked


def test_a_refusal_says_what_was_found_by_whom_and_what_to_do() -> None:
    with pytest.raises(PlanError) as caught:
        chained(within(64), 16)
    said = str(caught.value)
    least = outcome(lambda s: chained(s, 16), 64)[1]
    assert f"the memory budget of 'program' is 64 bytes (64 B); the least found is {least} bytes (" in said
    assert "as binomial chooses" in said or "as greedy chooses" in said or "as square_root chooses" in said
    assert "asked: square_root, binomial, greedy" in said
    assert re.search(r"no plan takes less than \d+ bytes \(.*\), of \w+, which reads float64\[500\].* and makes ", said)
    assert said.endswith(f"Give {least} bytes or more, or a graph that needs less: a smaller batch, say")


def test_a_strategy_of_ones_own_is_told_among_those_that_were_asked() -> None:
    with pytest.raises(PlanError, match="asked: square_root, binomial, greedy, moody"):
        chained(within(64, moody), 16)


def test_what_is_proven_is_called_least() -> None:
    def make(stack: Any) -> Any:
        x = stack.input("x", (500,), "float64")
        return stack.compile([x], [x + 1.0, x * 2.0])

    with pytest.raises(
        PlanError, match=r"the least is 8000 bytes \(7.81 KiB\), with nothing computed again: no plan ta"
    ):
        make(within(7999))
    assert outcome(make, 8000) == (True, 8000)


def test_variables_are_written_in_place_where_values_are_computed_again() -> None:
    kinds_ = (*SORTED, "dense", *SORTED, "dense")
    plain = trained(LAZY, kinds_, 0)[0]
    small = trained(within(outcome(lambda s: trained(s, kinds_, 0)[0], 0)[1]), kinds_, 0)[0]
    assert small.stats.recomputation.again > 0
    for plan in (plain.plan, small.plan):
        assert sum(b.nbytes for b in plan.buffers if b.kind == "next") <= WIDTH * WIDTH * 8


@given(st.builds(random_problem, st.integers(0, 10**6), st.integers(1, 24)), st.integers(0, 24))
def test_the_last_tasks_as_one_take_what_they_take(problem: RematerialisationProblem, start: int) -> None:
    one = with_last(problem, start)
    assert len(one) == min(len(problem), start + 1)
    assert one.base.peak == problem.base.peak
    assert one.base.cost == problem.base.cost
    assert [*one.base.loads[:start]] == [*problem.base.loads[:start]]


@given(st.builds(random_problem, st.integers(0, 10**6), st.integers(2, 24)), st.floats(0.4, 1.0), st.randoms())
def test_pruning_takes_runs_out_and_keeps_the_budget(
    problem: RematerialisationProblem, part: float, random: Any
) -> None:
    run = Replay(problem)
    for task in range(len(problem)):
        run.bring(task)
        run.drop(t for t in sorted(run.alive) if random.random() < 0.3)
    budget = int(part * simulated(problem, run.sequence).peak)
    found = answered(lambda *_: pruned(problem, run.sequence, budget), problem, budget)
    before = simulated(problem, run.sequence)
    assert found.cost <= before.cost
    assert found.peak <= max(budget, before.peak)
    if before.peak > budget:
        assert [*found.sequence] == [*before.sequence]


@pytest.mark.parametrize(
    "problem",
    [layers(600), layers(4000, skips=7), chain(3000), random_problem(1, 5000)],
    ids=["layers", "many layers with skips", "a long chain", "many tasks"],
)
def test_the_least_is_found_in_few_steps(problem: RematerialisationProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    count = [0]
    own = Replay.run

    def counted(self: Replay, task: int) -> None:
        count[0] += 1
        own(self, task)

    monkeypatch.setattr(Replay, "run", counted)
    found = [*least_answers(problem, greedy)]
    assert count[0] <= 600_000
    assert min(answer.peak for _, answer in found) <= problem.base.peak


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u-net", "resnet-50", "gpt-2"])
def test_networks_are_kept_from_the_least_budget_on(name: str) -> None:
    stack = nnc.lazy(nnc.Null())
    graph = models.get(name).training(stack, 2, seed=None)
    takes = footprint(stack.engine.compile(graph).plan)

    def kept(nbytes: int) -> int:
        """What it takes, or less than nothing: what the refusal names."""
        try:
            found: int = stack.engine.with_memory_budget(nbytes).compile(graph).stats.recomputation.nbytes
        except PlanError as error:
            return -int(re.search(r"the least found is (\d+)", str(error))[1])  # type: ignore[index]
        return found

    least = -kept(0)
    assert 0 < least < takes
    assert np.all([kept(n) == -least for n in (least // 2, least - 1)])
    assert all(least <= kept(n) <= n for n in (least, least + 1, (least + takes) // 2, takes))
