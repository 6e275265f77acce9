"""Exact answers against all permutations, CP-SAT and published instances (`engine/allocators/exact`)."""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from nnc_func.engine.allocators import FREE, OPTIONAL, Gap, Problem, Uses, answered, arena_size, cp_sat
from nnc_func.engine.allocators.branch_and_bound import BranchAndBound
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.conflicts import conflicts
from nnc_func.engine.allocators.exact.decision import (
    PORTFOLIO,
    Feasible,
    Infeasible,
    OutOfBudget,
    decide,
    infeasible_subset,
    minimise,
)
from nnc_func.engine.allocators.exact.dives import Dives
from nnc_func.engine.allocators.lowest_first import LowestFirst
from nnc_func.engine.allocators.omnimalloc import OmniMalloc
from nnc_func.engine.allocators.problems.generators import tiling
from nnc_func.errors import PlanError

SUITES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "minimalloc"
CHALLENGING = ("A", "C", "E", "G", "I", "K")


def read(path: Path) -> Problem:
    """An instance of the suites, whose files are beside this repository."""
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this repository: its place is shared/data/minimalloc")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return Problem(*([int(row[name]) for row in rows] for name in ("size", "lower", "upper")), alignment=1)


def conflict(problem: Problem, i: int, j: int) -> bool:
    """Whether two buffers are alive together at some step; step by step where there are gaps."""
    if problem.groups is not None and problem.groups[i] == problem.groups[j] != -1:
        return False
    if problem.uses is not None and bool(problem.conflicting(i)[j]):
        return True

    if not problem.gaps:
        return bool(problem.lower[i] < problem.upper[j] and problem.lower[j] < problem.upper[i])

    def steps(b: int) -> set[int]:
        alive = set(range(int(problem.lower[b]), int(problem.upper[b])))
        return alive.difference(*(range(g.lower, g.upper) for g in problem.gaps if g.buffer == b))

    return bool(steps(i) & steps(j))


def check(problem: Problem, offsets: Any, capacity: int) -> None:
    """Every pair, and every buffer by itself."""
    n, sizes = len(problem), problem.sizes.tolist()
    assert len(offsets) == n
    for i in range(n):
        assert offsets[i] >= 0
        assert offsets[i] % problem.alignments[i] == 0
        assert offsets[i] + sizes[i] <= capacity
        if problem.pins is not None and problem.pins[i] != FREE:
            assert offsets[i] == problem.pins[i]
        for j in range(i):
            if sizes[i] and sizes[j] and conflict(problem, i, j):
                assert offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i], (i, j, offsets)


def optimum(problem: Problem) -> int | None:
    """The least arena: of all orders, each buffer on top of those before it that it conflicts with; None: no plan."""
    n, sizes, steps = len(problem), problem.rounded.tolist(), problem.alignments.tolist()
    pairs = {(i, j): conflict(problem, i, j) for i in range(n) for j in range(n) if i != j}
    least = 0 if problem.pins is None else max(0, *problem.pins.tolist())
    best: int | None = None
    for order in permutations(i for i in range(n) if sizes[i]):
        tops: dict[int, int] = {}
        for i in order:
            at = max((top for j, top in tops.items() if pairs[i, j]), default=0)
            at = -(-at // steps[i]) * steps[i]
            pin = FREE if problem.pins is None else int(problem.pins[i])
            if pin != FREE and at > pin:
                break
            tops[i] = (at if pin == FREE else pin) + sizes[i]
        else:
            height = max([least, *tops.values()])
            best = height if best is None else min(best, height)
    return best


@st.composite
def small(draw: st.DrawFn, most: int = 6) -> Problem:
    """A few buffers, with pins, gaps, alignments, streams or many bytes now and then."""
    n = draw(st.integers(1, most))
    lower = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    upper = [low + draw(st.integers(1, 5)) for low in lower]
    sizes = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    kind = draw(st.sampled_from(("plain", "plain", "pins", "gaps", "alignments", "streams", "many bytes")))
    given: dict[str, Any] = {"alignment": draw(st.sampled_from((1, 1, 4)))}
    if kind == "many bytes":
        sizes = [(size << 50) + draw(st.integers(0, 1)) for size in sizes]
    if kind == "alignments":
        given["alignment"] = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=n, max_size=n))
    if kind == "pins":
        step = given["alignment"]
        given["pins"] = [draw(st.one_of(st.just(FREE), st.integers(0, 3).map(lambda k: k * step))) for _ in range(n)]
    if kind == "gaps":
        given["gaps"] = [
            Gap(i, lower[i] + 1, upper[i] - 1) for i in range(n) if upper[i] - lower[i] > 2 and draw(st.booleans())
        ]
    if kind == "streams":
        before = [[draw(st.integers(0, 3)) for _ in range(2)] for _ in range(n)]
        given["uses"] = Uses(before, [[b + draw(st.integers(0, 2)) for b in row] for row in before])  # type: ignore[arg-type]
    try:
        problem = Problem(sizes, lower, upper, **given)
    except PlanError as error:
        if "contradict each other" not in str(error):  # where two pins do, there is no problem
            raise
        reject()
    return problem


def agrees(problem: Problem) -> None:
    """At the optimum there is a plan, and below there is none."""
    best = optimum(problem)
    if best is None:
        assert isinstance(decide(problem, 1000), Infeasible)
        return
    found = decide(problem, best)
    assert isinstance(found, Feasible), found
    check(problem, found.offsets, best)
    if best:
        assert isinstance(decide(problem, best - 1), Infeasible)
    result = minimise(problem)
    assert (result.size, result.lower_bound, result.proven) == (best, best, True)
    check(problem, result.offsets, best)


@given(problem=small())
@settings(max_examples=60, deadline=None)
@example(Problem([5, 3, 4, 2], [0, 1, 0, 2], [2, 4, 1, 3], alignment=1, pins=[FREE, 0, FREE, FREE]))
@example(Problem([0], [0], [1], alignment=1, pins=[FREE]))
@example(Problem([0, 2, 2], [0, 0, 0], [1, 1, 1], alignment=[1, 3, 3]))
@example(Problem([4, 2, 2, 4, 3], [0, 0, 1, 2, 3], [1, 2, 3, 4, 4], alignment=1))
def test_all_permutations_of_few_buffers_agree(problem: Problem) -> None:
    agrees(problem)


@pytest.mark.slow
@given(problem=small(7))
@settings(max_examples=1500, deadline=None)
def test_all_permutations_of_some_more_buffers_agree(problem: Problem) -> None:
    agrees(problem)


@pytest.mark.slow
@pytest.mark.parametrize("choose", PORTFOLIO)
@given(problem=small())
@settings(max_examples=300, deadline=None)
def test_each_member_of_the_portfolio_agrees(choose: Any, problem: Problem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnc_func.engine.allocators.exact.decision.PORTFOLIO", (choose,))
        agrees(problem)


drawn = st.builds(
    lambda rows: Problem([r[0] for r in rows], [r[1] for r in rows], [r[1] + r[2] for r in rows], alignment=1),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 14), st.integers(1, 6)), min_size=8, max_size=22),
)


@given(problem=drawn)
@settings(max_examples=25, deadline=None)
def test_cp_sat_agrees(problem: Problem) -> None:
    pytest.importorskip("ortools")
    for capacity in (problem.max_load, problem.max_load + 1):
        ours, theirs = decide(problem, capacity), cp_sat.decide(problem, capacity)
        assert type(ours) is type(theirs)
        for found in (ours, theirs):
            if isinstance(found, Feasible):
                check(problem, found.offsets, capacity)


@given(problem=small(5))
@settings(max_examples=25, deadline=None)
def test_cp_sat_agrees_on_what_a_problem_may_say(problem: Problem) -> None:
    pytest.importorskip("ortools")
    problem = evolve(problem, uses=None)
    best = optimum(problem)
    found = cp_sat.decide(problem, 1000 if best is None else best)
    assert isinstance(found, Infeasible if best is None else Feasible)
    if isinstance(found, Feasible):
        check(problem, found.offsets, 1000 if best is None else best)
        assert best == 0 or best is None or isinstance(cp_sat.decide(problem, best - 1), Infeasible)


def tiles(count: int, pinwheels: bool, seed: int) -> Problem:
    """Tiles of a rectangle of 4096 by 4096: cut in two again and again, or into four blades round a centre."""
    from random import Random

    draw, found = Random(seed), [(0, 4096, 0, 4096)]
    while len(found) < count:
        a, b, low, high = tile = max(found, key=lambda t: ((t[1] - t[0]) * (t[3] - t[2]), t))
        found.remove(tile)
        t, u = sorted(draw.sample(range(a + 1, b), 2)) if b - a > 2 else (a, b)
        p, q = sorted(draw.sample(range(low + 1, high), 2)) if high - low > 2 else (low, high)
        if pinwheels:
            found += [(a, u, low, p), (u, b, low, q), (t, b, q, high), (a, t, p, high), (t, u, p, q)]
        elif b - a > high - low:
            found += [(a, t, low, high), (t, b, low, high)]
        else:
            found += [(a, b, low, p), (a, b, p, high)]
    draw.shuffle(found)
    return Problem([t[3] - t[2] for t in found], [t[0] for t in found], [t[1] for t in found], alignment=1)


@pytest.mark.parametrize("pinwheels", [False, True], ids=["tiling", "pinwheel"])
@pytest.mark.parametrize("seed", range(3))
def test_a_rectangle_that_was_cut_is_put_together(pinwheels: bool, seed: int) -> None:
    problem = tiles(101, pinwheels, seed)
    assert problem.max_load == 4096
    found = decide(problem, 4096)
    assert isinstance(found, Feasible)
    check(problem, found.offsets, 4096)
    assert isinstance(decide(problem, 4095), Infeasible)


@pytest.mark.parametrize("name", ["a.6", "b.6", "c.8", "d.9", "e.12", "f.14", "g.7", "input.12"])
def test_small_instances_are_solved(name: str) -> None:
    problem, best = read(SUITES / "small" / f"{name}.csv"), int(name.rpartition(".")[2])
    result = minimise(problem)
    assert (result.size, result.proven) == (best, True)
    check(problem, result.offsets, best)
    assert arena_size(problem, BranchAndBound()(problem)) == best
    assert isinstance(decide(problem, best - 1), Infeasible)


@pytest.mark.parametrize("name", CHALLENGING)
def test_challenging_instances_are_solved(name: str) -> None:
    problem = read(SUITES / "challenging" / f"{name}.1048576.csv")
    result = minimise(problem, steps=20_000)
    assert result.proven, result.nodes
    assert result.size == problem.max_load <= 1048576
    check(problem, result.offsets, problem.max_load)


@pytest.mark.parametrize(("name", "more"), [("A", 15), ("C", 2), ("E", 129), ("G", 13), ("K", 21)])
def test_the_first_search_goes_almost_straight_to_a_plan(name: str, more: int) -> None:
    """Nodes beyond one a buffer: what the search infers and chooses stays what it is, however fast it becomes."""
    problem = read(SUITES / "challenging" / f"{name}.1048576.csv")
    found = decide(problem, problem.max_load, steps=2 * len(problem) + 64)
    assert isinstance(found, Feasible)
    assert found.nodes == len(problem) + more
    check(problem, found.offsets, problem.max_load)


@pytest.mark.parametrize("seed", [1, 2])
def test_dives_put_a_rectangle_together(seed: int) -> None:
    problem = evolve(tiling(100, seed), capacity=None)
    known = conflicts(problem)
    found, nodes = Dives(known, 0).lowered(problem.max_load * 11 // 10, problem.max_load, 3000, Deadline(None))
    assert found is not None
    assert 0 < nodes <= 3000
    check(problem, found, problem.max_load)
    again, _ = Dives(known, 0).lowered(problem.max_load * 11 // 10, problem.max_load, 3000, Deadline(None))
    assert again is not None
    assert found.tolist() == again.tolist()


@given(problem=small())
@settings(max_examples=30, deadline=None)
def test_dives_find_plans_and_nothing_else(problem: Problem) -> None:
    known, best = conflicts(problem), optimum(problem)
    if best is None or not len(known):
        return
    least = -(-best // known.unit)
    found, _ = Dives(known, 1).lowered(least + 1, 0, 200, Deadline(None))
    if found is not None:
        plan = np.zeros(len(problem), np.int64) if problem.pins is None else np.maximum(problem.pins, 0)
        plan[known.buffers] = found * known.unit
        check(problem, plan.tolist(), least * known.unit)
    assert Dives(known, 1).lowered(least, 0, 200, Deadline(None))[0] is None


def test_half_way_to_the_bound_is_asked_before_ranks_are_drawn() -> None:
    problem = evolve(tiling(300, 9), capacity=None)
    known, load = conflicts(problem), problem.max_load
    size = arena_size(problem, LowestFirst()(problem))
    found, nodes = Dives(known, 0).halved(size, load, 20 * len(problem), Deadline(None))
    assert found is not None
    plan = known.in_bytes(problem, found)
    check(problem, plan.tolist(), arena_size(problem, plan))
    assert nodes <= 20 * len(problem)
    assert arena_size(problem, plan) - load < (size - load) / 10
    assert Dives(known, 0).halved(load, load, 1000, Deadline(None)) == (None, 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_plan_that_local_search_finds_soon_is_found(seed: int) -> None:
    """The exact searches alone had found none of 300 buffers in 20,000 nodes, though the max load is enough."""
    draw = np.random.default_rng(seed)
    lower, life, size = draw.integers(0, 200, 300), draw.integers(1, 80, 300), draw.integers(1, 64, 300) * 1024
    problem = Problem(size.tolist(), lower.tolist(), (lower + life).tolist())
    found = decide(problem, problem.max_load, steps=5000)
    assert isinstance(found, Feasible)
    check(problem, found.offsets, problem.max_load)
    result = minimise(problem, steps=20_000)
    assert result.proven
    assert result.nodes < 5000


def test_what_is_not_found_in_the_budget_is_not_called_infeasible() -> None:
    problem = tiles(101, True, 0)
    found = decide(problem, 4096, steps=20)
    assert found == OutOfBudget(20)
    assert decide(problem, 4096, seconds=0.0).nodes < 10
    assert isinstance(decide(problem, 4096, seconds=0.0), OutOfBudget)
    result = minimise(problem, steps=20)
    assert not result.proven
    assert result.lower_bound == 4096 < result.size
    check(problem, result.offsets, result.size)


@given(problem=small(), steps=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_what_a_search_has_not_placed_is_placed_by_descents(problem: Problem, steps: int) -> None:
    least = problem.max_load if problem.pins is None else 1000
    found = decide(problem, least, steps=steps)
    if isinstance(found, OutOfBudget) and found.offsets is not None:
        check(problem, found.offsets, arena_size(problem, found.offsets))


@pytest.mark.parametrize("pinwheels", [True, False])
@pytest.mark.parametrize("seconds", [None, 0.003])
def test_a_search_that_is_out_of_budget_has_a_plan(pinwheels: bool, seconds: float | None) -> None:
    problem = evolve(tiles(101, pinwheels, 0), capacity=None)
    found = decide(problem, 4096, steps=60, seconds=seconds)
    assert isinstance(found, OutOfBudget)
    assert found.offsets is not None
    size = arena_size(problem, found.offsets)
    assert 4096 < size < 2 * 4096
    check(problem, found.offsets, size)


@pytest.mark.parametrize("name", CHALLENGING)
def test_half_a_dive_leads_to_a_plan(name: str) -> None:
    problem = read(SUITES / "challenging" / f"{name}.1048576.csv")
    found = decide(problem, problem.max_load, steps=len(problem) // 2)
    assert isinstance(found, OutOfBudget)
    assert found.offsets is not None
    check(problem, found.offsets, problem.max_load * 5 // 4)


def test_groups_and_spaces() -> None:
    problem = Problem([4, 6, 4, 3], [0, 0, 3, 1], [2, 2, 5, 4], alignment=1, groups=[7, FREE, 7, FREE])
    result = minimise(problem)
    assert (result.size, result.proven) == (13, True)
    assert result.offsets[0] == result.offsets[2]
    check(problem, result.offsets, 13)
    apart = evolve(problem, groups=None, spaces=[0, 1, 0, 1])
    assert minimise(apart).size == 4 + 9
    assert isinstance(decide(apart, 9), Feasible)
    assert isinstance(decide(apart, 8), Infeasible)


def test_windows_are_refused_but_not_by_the_allocator() -> None:
    problem = Problem([4, 2], [0, 1], [3, 2], alignment=1, gaps=[Gap(0, 1, 2, (0, 2))])
    with pytest.raises(PlanError, match="window"):
        decide(problem, 4)
    offsets = BranchAndBound()(problem)
    assert arena_size(problem, offsets) == 6


def test_bad_arguments() -> None:
    problem = Problem([4], [0], [1])
    for answer in (decide, cp_sat.decide):
        with pytest.raises(PlanError, match="capacity of zero bytes or more, given -1"):
            answer(problem, -1)
    with pytest.raises(PlanError, match="one step or more"):
        BranchAndBound(steps=0)
    with pytest.raises(PlanError, match="4096 buffers"):
        decide(Problem([1] * 5000, [0] * 5000, [1] * 5000), 1)
    assert len(BranchAndBound()(Problem([1] * 5000, range(5000), range(1, 5001)))) == 5000


def test_the_empty_problem() -> None:
    assert decide(Problem([], [], []), 0) == Feasible((), 0)
    assert minimise(Problem([], [], [])).proven
    assert decide(Problem([0, 0], [0, 0], [1, 1]), 0) == Feasible((0, 0), 0)


@given(problem=small(6))
@settings(max_examples=25, deadline=None)
def test_an_infeasible_subset_is_irreducible(problem: Problem) -> None:
    best = optimum(problem)
    if not best:
        return
    found = infeasible_subset(problem, best - 1)
    assert found.irreducible
    kept = list(found.buffers)
    assert isinstance(decide(problem.of(kept), best - 1), Infeasible)
    for b in kept:
        rest = [k for k in kept if k != b]
        if rest:
            assert (optimum(problem.of(rest)) or 0) < best
    with pytest.raises(PlanError, match="there is a plan"):
        infeasible_subset(problem, best)


def test_plans_are_deterministic_and_better_with_more_steps() -> None:
    problem = tiles(60, True, 5)
    assert minimise(problem) == minimise(problem)
    sizes = [arena_size(problem, BranchAndBound(steps=n)(problem)) for n in (1, 50, 5000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 4096


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1])
    for name in ("ortools", "ortools.sat.python.cp_model", "omnimalloc"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PlanError, match=r"nnc_func\[exact\]"):
        cp_sat.decide(problem, 128)
    with pytest.raises(PlanError, match=r"nnc_func\[exact\]"):
        OmniMalloc()(problem)


def test_peers() -> None:
    pytest.importorskip("omnimalloc")
    pytest.importorskip("ortools")
    problem = tiles(40, False, 1)
    for allocator in OPTIONAL.values():
        offsets = answered(allocator, problem)
        check(problem, offsets, arena_size(problem, offsets))
    pinned = Problem([4, 4], [0, 0], [1, 1], alignment=4, pins=[FREE, 0])
    assert answered(OmniMalloc(), pinned) == [4, 0]
    with pytest.raises(PlanError, match="no allocator 'fastest'"):
        OmniMalloc("fastest")(problem)
    assert isinstance(cp_sat.race(problem, 4096), Feasible)
    assert isinstance(cp_sat.race(problem, 4095), Infeasible)


def test_an_interrupt_is_still_an_exception_after_the_solver_ran() -> None:
    """OR-tools puts the operating system's default in place of Python's handler, which ends the process."""
    pytest.importorskip("ortools")
    code = """
import signal
from nnc_func.engine.allocators import Problem
from nnc_func.engine.allocators.cp_sat import CpSat
CpSat()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "interrupted\n", done
