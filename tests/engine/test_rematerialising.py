"""Strategies of rematerialisation as data: valid answers, true peaks, known results (`engine/rematerialising`).

A new strategy is tested by being in `STRATEGIES`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnc_func.engine.rematerialising import STRATEGIES, RematerialisationProblem, answered, simulated
from nnc_func.engine.rematerialising.binomial import forward_steps
from nnc_func.engine.rematerialising.generators import chain, layers, random_problem
from nnc_func.engine.rematerialising.hastening import hastened, reordered
from nnc_func.errors import PlanError

NAMES = [name for name in STRATEGIES if name != "optimal"]  # which takes its time, and is an extra

problems = st.builds(random_problem, st.integers(0, 10**6), st.integers(0, 24))


def looked_at(problem: RematerialisationProblem, sequence: Sequence[int]) -> list[int]:
    """The bytes alive at each step, one result and one step at a time: quadratic, and independent."""
    uses: dict[int, list[int]] = {step: [step] for step in range(len(sequence))}
    for step, task in enumerate(sequence):
        for needed in problem.needs[task]:
            made = max(s for s in range(step) if sequence[s] == needed)
            uses[made].append(step)
    for task in problem.lasting:
        uses[max(s for s, t in enumerate(sequence) if t == task)].append(len(sequence))
    loads = []
    for step, task in enumerate(sequence):
        alive = sum(problem.sizes[sequence[s]] for s, used in uses.items() if s <= step <= used[-1])
        over = [s for s, used in uses.items() if used[-1] == step and sequence[s] in problem.overwrites.get(task, ())]
        if any(problem.sizes[sequence[s]] == problem.sizes[task] for s in over):
            alive -= problem.sizes[task]
        loads.append(alive + (problem.scratch[task] if problem.scratch else 0))
    return loads


@pytest.mark.parametrize("name", NAMES)
@given(problems, st.integers(0, 600))
def test_answers_are_valid_and_take_what_they_say(name: str, problem: RematerialisationProblem, budget: int) -> None:
    found = answered(STRATEGIES[name], problem, budget)
    assert found.loads == looked_at(problem, found.sequence)
    assert found.cost == sum(problem.costs[t] for t in found.sequence) >= problem.base.cost
    assert found.peak <= max(budget, problem.base.peak)
    if problem.base.peak <= budget:
        assert [*found.sequence] == [*range(len(problem))]
    again = answered(STRATEGIES[name], problem, budget)
    assert [*again.sequence] == [*found.sequence]


@cache
def by_recursion(steps: int, checkpoints: int) -> int:
    if steps == 1:
        return 0
    if checkpoints == 1:
        return steps * (steps - 1) // 2
    ways = (j + by_recursion(steps - j, checkpoints - 1) + by_recursion(j, checkpoints) for j in range(1, steps))
    return min(ways)


@pytest.mark.parametrize("checkpoints", range(1, 9))
def test_chains_are_turned_back_in_revolves_number_of_steps(checkpoints: int) -> None:
    for steps in range(1, 61):
        assert forward_steps(steps, checkpoints) == by_recursion(steps, checkpoints)
        if steps in (1, 2, 10, 33, 60):
            problem = chain(steps)
            found = answered(STRATEGIES["binomial"], problem, checkpoints + 1)
            assert found.peak <= checkpoints + 1
            assert found.cost == forward_steps(steps, checkpoints)


@pytest.mark.slow
def test_every_chain_is_turned_back_in_revolves_number_of_steps() -> None:
    for steps in range(1, 61):
        for checkpoints in range(1, 9):
            found = answered(STRATEGIES["binomial"], chain(steps), checkpoints + 1)
            assert found.peak <= checkpoints + 1
            assert found.cost == forward_steps(steps, checkpoints)


def test_sixty_four_layers_in_segments_take_a_third_of_the_tape() -> None:
    problem = layers(64)
    found = answered(STRATEGIES["square_root"], problem, 0)
    assert found.peak <= 0.35 * problem.base.peak
    assert found.cost <= 1.4 * problem.base.cost


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_is_turned_back_within_budgets_that_are_generous(name: str) -> None:
    problem = layers(64)
    for budget in (20, 30, 40, 50, 60):
        found = answered(STRATEGIES[name], problem, budget)
        assert found.peak <= budget
        assert found.cost <= 1.34 * problem.base.cost


def test_targets_that_are_computed_first_do_not_hide_a_chain() -> None:
    plain = layers(64)
    needs = [(), *(tuple(n + 1 for n in needed) for needed in plain.needs)]
    needs[64] += (0,)  # the last layer of the forward part reads them
    problem = RematerialisationProblem(needs, [1, *plain.sizes], [1, *plain.costs])
    for name in ("binomial", "square_root", "greedy"):
        found = answered(STRATEGIES[name], problem, 20)
        assert found.peak <= 20
        assert found.cost <= 1.34 * problem.base.cost


def test_what_may_run_only_once_is_kept() -> None:
    problem = RematerialisationProblem([(), (0,), (1,), (0,)], [8, 8, 8, 8], [1] * 4, once={0})
    with pytest.raises(PlanError, match="again runs task 0 again, which may be run only once"):
        answered(again, problem, 0)


def again(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    return [0, 1, 2, 0, 3]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([0, 1], "never runs task 2"),
        ([0, 2, 1], "runs task 2 before what it needs"),
        ([0, 1, 5], "runs task 5, of 3"),
        ([0, 1, 2.5], "gave no sequence of tasks"),
        (None, "gave no sequence of tasks"),
    ],
)
def test_answers_that_are_none(answer: object, words: str) -> None:
    problem = RematerialisationProblem([(), (0,), (0, 1)], [8] * 3, [1] * 3)
    with pytest.raises(PlanError, match=words):
        answered(lambda *_: answer, problem, 0)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"needs": [(), (1,)], "sizes": [1, 1], "costs": [1, 1]}, "needs one that is not before it|need lower ones"),
        ({"needs": [()], "sizes": [1, 1], "costs": [1]}, "wanted as many"),
        ({"needs": [()], "sizes": [-1], "costs": [1]}, "0 or more"),
        ({"needs": [()], "sizes": [1], "costs": [float("nan")]}, "0 or more"),
        ({"needs": [(), (0,)], "sizes": [1, 1], "costs": [1, 1], "overwrites": {0: (1,)}}, "does not need"),
        ({"needs": [()], "sizes": [1], "costs": [1], "once": {3}}, "there is no task 3"),
    ],
)
def test_problems_that_are_none(given_: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        RematerialisationProblem(**given_)  # type: ignore[arg-type]


@given(problems)
@example(RematerialisationProblem([], [], []))
def test_the_base_sequence_is_measured_as_it_is(problem: RematerialisationProblem) -> None:
    assert simulated(problem, range(len(problem))).loads == looked_at(problem, range(len(problem)))


@given(problems, st.integers(0, 24))
def test_hastening_is_a_valid_order_of_the_same_tasks(problem: RematerialisationProblem, late: int) -> None:
    order = hastened(problem, late)
    assert sorted(order) == [*range(len(problem))]
    assert [t for t in order if t >= late] == [*range(late, len(problem))]
    soon = reordered(problem, order)  # which refuses tasks that come before what they need
    assert soon.base.cost == problem.base.cost


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ortools"), reason="the extra exact")
def test_no_strategy_is_better_than_what_is_proven_optimal() -> None:
    from nnc_func.engine.rematerialising.optimal import Optimal

    for problem in (layers(8), layers(12), layers(12, skips=3)):
        for part in (0.5, 0.7):
            budget = int(part * problem.base.peak)
            found = Optimal(30.0).solved(problem, budget)
            told = answered(lambda *_, found=found: found.sequence, problem, budget)
            assert found.optimal
            assert told.peak <= budget
            assert told.cost == pytest.approx(found.bound, rel=1e-3)
            for name in NAMES:
                other = answered(STRATEGIES[name], problem, budget)
                assert other.peak > budget or other.cost >= told.cost
                assert name != "greedy" or other.cost <= 1.1 * told.cost


def test_without_its_solver_the_optimal_strategy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(PlanError, match=r"pip install nnc_func\[exact\]"):
        STRATEGIES["optimal"](layers(8), 4)
