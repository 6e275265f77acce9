"""The joint choice is exact: brute force, a peer, proofs (`engine/joint_choice`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc_func.engine.allocators.base import arena_size
from nnc_func.engine.allocators.exact.decision import minimise
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.joint_choice import cp_sat
from nnc_func.engine.joint_choice.choice import Choice, Run, arena, blocks, loads
from nnc_func.engine.joint_choice.completion import completed
from nnc_func.engine.joint_choice.generators import network
from nnc_func.engine.joint_choice.placed_states import PlacedStates
from nnc_func.engine.joint_choice.placement import exactly, placed
from nnc_func.engine.joint_choice.problem import Alternative, JointProblem
from nnc_func.engine.joint_choice.search import JointSearch, floor
from nnc_func.engine.joint_choice.states import LeastLoad
from nnc_func.engine.orders import OrderProblem
from nnc_func.errors import AnswerError, PlanError

STEPS = 100_000

small = st.builds(
    network,
    st.integers(0, 10**6),
    st.integers(1, 9),
    width=st.integers(2, 5),
    again=st.sampled_from((0.0, 0.5)),
    houses=st.booleans(),
    mixed=st.booleans(),
)
tiny = st.builds(
    network, st.integers(0, 10**6), st.integers(1, 4), width=st.just(3), again=st.just(0.7), mixed=st.booleans()
)


def sequences(problem: JointProblem, most: int) -> Iterator[list[int]]:
    """All sequences of runs, each task in them, of so many runs more at the most."""
    needs, again, barrier = problem.tasks.needs, problem.again, problem.barrier

    def longer(ran: list[int], extra: int) -> Iterator[list[int]]:
        if len(set(ran)) == len(problem):
            yield ran
        for task in range(len(problem)):
            if task not in ran and set(needs[task]) <= set(ran):
                yield from longer([*ran, task], extra)
            elif task in ran and task in again and extra and (barrier is None or barrier not in ran):
                yield from longer([*ran, task], extra - 1)

    return longer([], most)


def ways(problem: JointProblem, sequence: Sequence[int]) -> Iterator[list[Run]]:
    """A sequence with all kernels, and all that may be written over."""
    options = []
    for task in sequence:
        pairs = problem.tasks.overwrites.get(task, ())
        over = [
            tuple((made, o) for (made, _), o in zip(pairs, chosen, strict=True) if o is not None)
            for chosen in product(*([None, *others] for _, others in pairs))
        ]
        options.append([Run(task, k, each) for k in range(len(problem.offers[task])) for each in over])
    for runs in product(*options):
        yield [*runs]


def brute(problem: JointProblem) -> int:
    """The least arena of all choices with one more run at the most: each placed by first fit in every order."""
    best = None
    for sequence in sequences(problem, 1):
        for runs in ways(problem, sequence):
            try:
                found = blocks(problem, runs)
            except AnswerError:
                continue
            lives = [b.size for b in found], [b.lower for b in found], [b.upper for b in found]
            asked = Problem(*lives, 1)
            if best is not None and asked.max_load >= best:
                continue
            if len(found) > 6:
                size = minimise(asked).size
            else:
                plans = (first_fit(asked, order) for order in permutations(range(len(found))))
                size = min((arena_size(asked, plan) for plan in plans), default=0)
            best = size if best is None else min(best, size)
    assert best is not None
    return best


@settings(max_examples=25)
@given(tiny)
def test_nothing_is_smaller_by_brute_force(problem: JointProblem) -> None:
    cheapest = min((offers[0].cost for task, offers in enumerate(problem.offers) if task in problem.again), default=1)
    one = evolve(problem, limit=min(problem.limit or 0, problem.least_cost + 2 * cheapest - 1))
    if one.usual_cost > (one.limit or 0):
        one = evolve(problem, again={})
    found = JointSearch(STEPS).solved(one)
    assert found.is_proven
    assert found.nbytes == brute(one)


@given(small)
def test_answers_are_valid_and_bounds_hold(problem: JointProblem) -> None:
    found = JointSearch(400).solved(problem)
    assert found.choice is not None
    assert arena(problem, found.choice) == found.nbytes
    assert floor(problem) <= found.bound <= found.nbytes
    more = JointSearch(STEPS).solved(problem, [run.task for run in found.choice.runs])
    assert found.bound <= more.nbytes <= found.nbytes
    if not problem.houses:
        assert max(loads(problem, found.choice.runs)) <= found.nbytes


@pytest.mark.parametrize("seed", range(20))
def test_cp_sat_finds_the_same(seed: int) -> None:
    pytest.importorskip("ortools")
    problem = network(seed, 6 + seed // 2, width=4, again=0.3, houses=seed % 3 == 0, mixed=seed % 2 == 0)
    ours, peer = JointSearch(STEPS).solved(problem), cp_sat.solve(problem)
    assert peer.is_proven
    assert ours.nbytes == peer.nbytes
    assert ours.is_proven


def test_what_lasts_is_not_written_over() -> None:
    pytest.importorskip("ortools")
    tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], (0,), {1: [(1, (0,))]})
    assert cp_sat.solve(JointProblem(tasks)).nbytes == JointSearch().solved(JointProblem(tasks)).nbytes == 16


def test_cp_sat_proves_that_nothing_is_below() -> None:
    pytest.importorskip("ortools")
    problem = network(8, 16)
    ours = JointSearch().solved(problem)
    peer = cp_sat.solve(problem, below=ours.nbytes)
    assert peer.choice is None
    assert peer.bound == ours.nbytes
    assert cp_sat.solve(problem, below=ours.nbytes + 1).nbytes == ours.nbytes


def test_cp_sat_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(PlanError, match="OR-tools"):
        cp_sat.solve(network(1, 3))
    assert JointSearch().solved(network(1, 3)).is_proven


@given(small)
def test_a_problem_is_saved_and_read(problem: JointProblem) -> None:
    again = JointProblem.from_json(problem.to_json())
    assert again.to_json() == problem.to_json()
    assert JointSearch(500).solved(again) == JointSearch(500).solved(problem)


def chain(limit: int) -> JointProblem:
    """Three results that are read again in the reverse order."""
    needs = [(), (0,), (1,), (2,), (1, 3), (0, 4)]
    tasks = OrderProblem(needs, [(0,), (0, 1), (1, 2), (2,), (1,), (0,)], [8, 8, 8])
    kernels = [[Alternative((), 1)]] * 3 + [[Alternative()]] * 3
    return JointProblem(tasks, kernels, {0: (0,), 1: (1,)}, limit=limit)


def test_what_is_computed_again_is_paid_for() -> None:
    assert [JointSearch().solved(chain(limit)).nbytes for limit in (3, 4)] == [24, 16]
    found = JointSearch().solved(chain(9))
    assert found.choice is not None
    assert [run.task for run in found.choice.runs] == [0, 1, 2, 3, 4, 0, 5]


def test_nothing_is_computed_again_behind_a_barrier() -> None:
    assert JointSearch().solved(evolve(chain(9), barrier=3)).nbytes == 24
    assert JointSearch().solved(evolve(chain(9), barrier=5)).nbytes == 16


def two(scratch: int) -> OrderProblem:
    """Two chains that meet; the second task of each is given a kernel by tests."""
    return OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [8, 8, scratch, scratch])


def test_an_order_and_a_kernel_are_chosen_together() -> None:
    usual = [Alternative((8,), 1)]
    kernels = [[Alternative()], [Alternative()], [*usual, Alternative((), 3)], usual, [Alternative()]]
    assert JointSearch().solved(JointProblem(two(1), kernels, limit=2)).nbytes == 18
    found = JointSearch().solved(JointProblem(two(1), kernels, limit=4))
    assert found.nbytes == 17
    assert found.choice is not None  # the chain whose kernel has the choice is the second one
    assert [(run.task, run.kernel) for run in found.choice.runs] == [(1, 0), (3, 0), (0, 0), (2, 1), (4, 0)]


def test_what_saves_nothing_is_not_paid_for() -> None:
    offers = [Alternative((8,), 1), Alternative((), 3)]
    kernels = [[Alternative()], [Alternative()], offers, [Alternative((9,), 1)], [Alternative()]]
    found = JointSearch().solved(JointProblem(two(1), kernels, limit=4))
    assert found.choice is not None
    assert found.nbytes == 18
    assert JointSearch().solved(JointProblem(two(1), kernels, limit=2)).nbytes == 18
    assert all(run.kernel == 0 for run in found.choice.runs)


def test_a_capacity_is_decided_where_lives_leave_gaps() -> None:
    sizes, lower, upper = [2, 1, 2, 1, 1], [0, 0, 1, 2, 3], [1, 3, 2, 4, 4]
    asked = Problem(sizes, lower, upper, 1)
    assert asked.max_load == 3
    steps = max(upper)
    needs = [() if not t else (t - 1,) for t in range(steps)]
    uses = [tuple(b for b in range(5) if t in (lower[b], upper[b] - 1)) for t in range(steps)]
    problem = JointProblem(OrderProblem(needs, uses, sizes))
    assert JointSearch().solved(problem).nbytes == minimise(asked).size


@given(small)
def test_what_is_within_the_arena_is_found_and_nothing_below_it(problem: JointProblem) -> None:
    found = JointSearch(STEPS).solved(problem)
    if found.is_proven:
        assert PlacedStates(problem, found.nbytes, 10**6).choice() is not None
        if found.nbytes:
            assert PlacedStates(problem, found.nbytes - 1, 10**6).choice() is None


@given(small)
def test_a_search_that_ends_early_has_proven_less(problem: JointProblem) -> None:
    whole = LeastLoad(problem).run(10**6)
    search, states = LeastLoad(problem), 0
    for steps in (0, 1, 5, 25, 10**6):  # it goes on where it was
        part = search.run(steps)
        states += part.states
        assert part.bound <= whole.bound
        assert part.states <= steps
    assert states == whole.states
    assert whole.runs == part.runs is not None
    assert LeastLoad(problem).run(10**6, whole.bound).bound == whole.bound


@given(small)
def test_loads_of_a_sequence_are_those_of_its_blocks(problem: JointProblem) -> None:
    found = completed(problem, range(len(problem)))
    assert found is not None
    if problem.houses:  # at the least, whatever these have in them
        assert found.peak <= placed(problem, found.runs, exactly(200))[0]
    else:
        assert [*found.loads] == loads(problem, found.runs)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([0, 1, 2, 3, 4], "task 5 is never run"),
        ([1, 0, 2, 3, 4, 5], "before what it needs"),
        ([0, 1, 2, 2, 3, 4, 5], "may not be run there"),
        ([0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0], "the limit is 9"),
        ([0, 1, 2, 3, 4, 9], "which there is not"),
    ],
)
def test_wrong_runs_are_refused(runs: list[int], said: str) -> None:
    with pytest.raises(AnswerError, match=said):
        blocks(chain(9), [Run(task) for task in runs])


def test_wrong_places_are_refused() -> None:
    problem = chain(3)
    runs = tuple(Run(task) for task in range(6))
    assert arena(problem, Choice(runs, (0, 8, 16), (-1, -1, -1))) == 24
    for offsets, homes in (
        ((0, 8, 12), (-1,) * 3),
        ((0, 8, -8), (-1,) * 3),
        ((0, 8, 16), (-1, -1, 2)),
        ((0, 8), (-1, -1)),
    ):
        with pytest.raises(AnswerError):
            arena(problem, Choice(runs, offsets, homes))


def test_wrong_problems_are_refused() -> None:
    tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], (1,), {1: [(1, (0,))]})
    one = [Alternative((), 1)]
    for wrong, said in (
        ({"kernels": [one]}, "kernels of 1"),
        ({"kernels": [one, []]}, "no kernel"),
        ({"kernels": [one, [Alternative((-1,))]]}, "whole numbers"),
        ({"again": {0: (0,)}}, "a limit of costs"),
        ({"kernels": [one, one], "again": {1: (1,)}, "limit": 5}, "does not last"),
        ({"houses": (0,)}, "that last"),
        ({"houses": (1,)}, "is a house"),
        ({"housed": (7,)}, "may be housed"),
        ({"barrier": 2}, "no task 2"),
        ({"limit": -1}, "limit"),
    ):
        with pytest.raises(PlanError, match=said):
            JointProblem(tasks, **wrong)
    with pytest.raises(PlanError, match="the text of a joint problem"):
        JointProblem.from_json("{}")
    with pytest.raises(PlanError, match="no choice costs 1 or less"):
        JointSearch().solved(JointProblem(tasks, [one, one], limit=1))
    with pytest.raises(PlanError, match="whole numbers"):
        JointProblem(tasks, [[Alternative((), 0.5)], one])  # type: ignore[arg-type]
