"""Policies of spilling move few bytes, and stay within a capacity (`engine/spilling`)."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc_func.engine.spilling import POLICIES, Gap, SpillProblem, answered, simulated
from nnc_func.engine.spilling.cover import Cover
from nnc_func.engine.spilling.exact import SOLVERS, Exact
from nnc_func.engine.spilling.furthest import furthest
from nnc_func.engine.spilling.generators import drawn, layers
from nnc_func.engine.spilling.prefetch import prefetched
from nnc_func.engine.spilling.states import fewest
from nnc_func.errors import PlanError

PROBLEMS = st.builds(drawn, st.integers(2, 14), st.integers(1, 8), st.integers(0, 1 << 20))
PARTS = st.sampled_from([0.0, 0.3, 0.6, 0.9])


def between(problem: SpillProblem, part: float) -> int:
    """A capacity between the least that any answer takes, and what is taken where nothing is moved."""
    least, most = problem.least.peak, problem.base.peak
    return int(least + part * (most - least))


def walked(problem: SpillProblem, dropped: Collection[int]) -> tuple[list[int], int]:
    """Loads and bytes moved by the definition: fast memory step by step, value by value."""
    away = {problem.gaps[n] for n in dropped}
    loads, moved = [], 0
    for step in range(len(problem)):
        alive = {}
        for value, touched in enumerate(problem.touches):
            end = len(problem) if value in problem.lasting else touched[-1]
            between_two = [Gap(value, a, b) for a, b in pairwise(touched) if a < step < b]
            if touched[0] <= step <= end and not away.intersection(between_two):
                alive[value] = problem.sizes[value]
        taken: set[int] = set()
        for made, homes in problem.overwrites.get(step, ()):
            for home in homes:
                stays = home in problem.lasting or any(t > step for t in problem.touches[home])
                if stays and any(gap.value == home and gap.start == step for gap in away):
                    stays = False
                if home not in taken and not stays and problem.sizes[home] == problem.sizes[made]:
                    taken.add(home)
                    del alive[made]
                    break
        loads.append(sum(alive.values()) + problem.scratch[step])
    for value in range(len(problem.sizes)):
        times = sum(gap.value == value for gap in away)
        if value in problem.clean:  # what makes it brings it, and does not where it would leave at once
            times -= any(gap.value == value and gap.start == problem.touches[value][0] for gap in away)
        moved += problem.sizes[value] * (times + (times > 0 and value not in problem.clean))
    return loads, moved


@given(PROBLEMS, st.data())
def test_what_an_answer_takes_is_what_a_walk_through_memory_finds(problem: SpillProblem, data: Any) -> None:
    dropped = data.draw(st.sets(st.integers(0, len(problem.gaps) - 1))) if problem.gaps else set()
    found = simulated(problem, dropped)
    assert (list(found.loads), found.moved) == walked(problem, dropped)


@settings(deadline=None)
@given(PROBLEMS, PARTS)
def test_the_default_moves_at_most_a_fifth_more_than_is_proven_and_never_more_than_what_is_furthest(
    problem: SpillProblem, part: float
) -> None:
    capacity = between(problem, part)
    least = answered(fewest, problem, capacity)
    default = answered(POLICIES["cover"], problem, capacity)
    simple = answered(furthest, problem, capacity)
    assert max(each.peak for each in (least, default, simple)) <= capacity
    assert least.moved <= default.moved <= min(1.2 * least.moved, simple.moved)


@pytest.mark.parametrize("seed", range(8))
def test_states_and_both_solvers_find_the_same_optimum(seed: int) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("ortools")
    problem = drawn(14, 9, seed)
    capacity = between(problem, 0.3)
    wanted = simulated(problem, fewest(problem, capacity)).moved
    for solver in SOLVERS:
        found = Exact(30.0, solver).solved(problem, capacity)
        assert found.optimal, solver
        assert found.bound == simulated(problem, found.dropped).moved == wanted


def test_layers_move_what_does_not_fit() -> None:
    """All but what fits goes and comes back once: nobody does with less."""
    problem = layers(40)
    found = answered(POLICIES["cover"], problem, 20)
    assert found.peak <= 20
    assert found.moved == 2 * (problem.base.peak - 20)


def test_what_slow_memory_has_is_not_written_there() -> None:
    problem = SpillProblem([8, 8, 16], [(0, 1, 5), (1, 4), (2, 3)], [0] * 6, clean=[0])
    assert answered(POLICIES["cover"], problem, 24).moved == 8
    assert simulated(problem, range(len(problem.gaps))).spilled == 24
    late = SpillProblem([8, 16], [(0, 3), (1, 2)], [0] * 4, clean=[0])
    assert simulated(late, [0]).moved == 0  # it is brought when it is wanted


def test_values_that_stay_or_are_made_in_parts_have_no_gaps_there() -> None:
    problem = SpillProblem([8] * 3, [(0, 3), (0, 1, 3), (0, 3)], [0] * 4, complete={1: 1}, kept=[0], lasting=[2])
    assert problem.gaps == (Gap(1, 1, 3),)


def test_a_value_is_overwritten_where_it_is_brought_back_later() -> None:
    """The copy in fast memory may be written over, since the value is in slow memory."""
    problem = SpillProblem([8, 8, 1], [(0, 1, 3), (1, 2), (2, 3)], [0] * 4, {1: [(1, [0])]})
    assert simulated(problem, ()).loads[1] == 16
    assert simulated(problem, [0, 1]).loads[1] == 8
    for policy in ("cover", "furthest"):
        assert answered(POLICIES[policy], problem, 9).peak <= 9


def test_a_policy_that_answers_nonsense_is_named() -> None:
    problem = layers(4)

    def mine(problem: SpillProblem, capacity: int) -> Any:
        return [99]

    with pytest.raises(PlanError, match="the policy mine gave gap 99, of 10"):
        answered(mine, problem, 2)
    with pytest.raises(PlanError, match="gave no numbers of gaps"):
        answered(lambda problem, capacity: ["all"], problem, 2)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([8], [], [0]), "1 sizes of values, and 0 lists"),
        (([-8], [(0,)], [0]), "sizes are 0 or more"),
        (([8], [(0, 3)], [0, 0]), "value 0 is touched by"),
        (([8], [(1, 0)], [0, 0]), "value 0 is touched by"),
        (([8], [(0,)], [0], {}, {}, [4]), "there is no value 4"),
        (([8], [(0,)], [0], {3: [(0, [0])]}), "step 3 writes over values, of 1 steps"),
    ],
)
def test_problems_that_are_none_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        SpillProblem(*arguments)


def test_solvers_that_there_are_not_are_told() -> None:
    with pytest.raises(PlanError, match="no solver named 'simplex'; there are: highs, cp_sat"):
        Exact(1.0, "simplex").solved(layers(4), 3)


def test_too_many_states_are_told() -> None:
    with pytest.raises(PlanError, match="ask the policy exact"):
        fewest(drawn(30, 30, 1), between(drawn(30, 30, 1), 0.0), most=2)


@given(PROBLEMS, PARTS, st.sampled_from([0.1, 1.0, 5.0]))
def test_what_is_brought_back_early_has_room(problem: SpillProblem, part: float, taken: float) -> None:
    capacity = between(problem, part)
    found = answered(Cover(rounds=0), problem, capacity)
    early = prefetched(problem, found, capacity, [1.0] * len(problem), dict.fromkeys(found.dropped, taken))
    loads = [*found.loads]
    for number, step in early.items():
        value, start, end = problem.gaps[number]
        assert start < step <= end
        for each in range(step, end):
            loads[each] += problem.sizes[value]
    assert max(loads, default=0) <= capacity
    assert set(early) == found.dropped
