"""Schedulers and allocators alone: tasks with costs and needs, buffers with uses (`engine/planning/schedule`)."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.allocators import ALLOCATORS, BestFit, GreedyBySize, Problem, arena_size
from nnc_func.engine.allocators.base import answered
from nnc_func.engine.linkers.kernel_calls import Frame
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.schedule import ListScheduler, Tasks, issued, serial
from nnc_func.engine.planning.streams import Streams
from nnc_func.errors import PlanError
from nnc_func.testing.schedules import RandomScheduler

LAZY = nnc.lazy()


@st.composite
def tasks(draw: Any) -> Tasks:
    count = draw(st.integers(0, 24))
    seconds = [draw(st.sampled_from((0.0, 1e-6, 1e-4, 1.0))) for _ in range(count)]
    needs = [draw(st.sets(st.integers(max(0, t - 6), t - 1), max_size=3)) if t else set() for t in range(count)]
    first = frozenset(t for t in range(count) if draw(st.integers(0, 9)) == 9)
    return Tasks(seconds, seconds, [sorted(n) for n in needs], first)


def makespan(found: list[tuple[int, int]], given_: Tasks, streams: int, wait: float) -> float:
    free, finish, where = [0.0] * streams, {}, dict(found)
    for task, stream in found:
        after = [finish[n] + (0.0 if where[n] == stream else wait) for n in given_.needs[task]]
        finish[task] = free[stream] = max([free[stream], *after]) + given_.seconds[task]
    return max(finish.values(), default=0.0)


@given(tasks(), st.integers(1, 4), st.sampled_from((0.0, 1e-5, 1.0)))
def test_every_task_is_issued_once_after_what_it_needs(given_: Tasks, streams: int, wait: float) -> None:
    for scheduler in (ListScheduler(wait=wait, gain=1.0), RandomScheduler(streams)):
        issued(scheduler, given_, streams)


@given(tasks(), st.integers(2, 4), st.sampled_from((0.0, 1e-5, 1.0)))
def test_several_streams_are_taken_only_where_they_are_estimated_to_pay(
    given_: Tasks, streams: int, wait: float
) -> None:
    found = issued(ListScheduler(wait=wait, gain=1.2), given_, streams)
    if any(stream for _, stream in found):
        assert makespan(found, given_, streams, wait) * 1.2 <= sum(given_.seconds) + 1e-12
    else:
        assert found == serial(given_)


@pytest.mark.parametrize("streams", [2, 3, 4])
def test_independent_branches_are_spread_evenly_and_stay_whole(streams: int) -> None:
    length, count = 3, 8
    needs = [(t - 1,) if t % length else () for t in range(length * count)]
    given_ = Tasks([1.0] * len(needs), [1.0] * len(needs), needs)
    found = issued(ListScheduler(), given_, streams)
    assert makespan(found, given_, streams, 0.0) == length * -(-count // streams)
    where = dict(found)
    assert all(where[t] == where[n[0]] for t, n in enumerate(needs) if n)


def test_what_a_library_spreads_over_the_cores_itself_is_left_to_it() -> None:
    spread = Tasks([1.0, 1.0], [0.5, 0.5], [(), ()])
    assert ListScheduler()(spread, 2) == serial(spread)
    assert ListScheduler()(Tasks([1.0, 1.0], [1.0, 1.0], [(), ()]), 2) == [(0, 0), (1, 1)]


def test_waits_are_paid_for_even_where_work_hides_them() -> None:
    """Two chains that read each other's values now and then: in large tasks that pays, in small ones it does not."""

    def crossed(seconds: float) -> Tasks:
        needs: list[tuple[int, ...]] = [(), ()]
        for t in range(2, 100):
            needs.append((t - 2, t - 9) if t > 9 and t % 10 in (8, 9) else (t - 2,))
        return Tasks([seconds] * 100, [seconds] * 100, needs)

    small, large = crossed(30e-6), crossed(600e-6)
    assert ListScheduler()(small, 2) == serial(small)
    found = issued(ListScheduler(), large, 2)
    assert makespan(found, large, 2, 100e-6) * 1.2 <= sum(large.seconds)
    assert {s for _, s in found} == {0, 1}
    assert {s for _, s in ListScheduler(wait=0.0)(small, 2)} == {0, 1}


def test_a_task_with_many_followers_takes_linear_time() -> None:
    count = 20_000
    given_ = Tasks([1.0] * count, [1.0] * count, [()] + [(0,)] * (count - 1))
    found = issued(ListScheduler(), given_, 2)
    assert abs(sum(s for _, s in found) - count / 2) <= 2


# --- waits -----------------------------------------------------------------------------------------------


@given(tasks(), st.integers(2, 4), st.integers(0, 99))
def test_waits_are_the_transitive_reduction(given_: Tasks, streams: int, seed: int) -> None:
    """With them all that is needed is before; without any one of them something that is needed is not."""
    found = issued(RandomScheduler(seed), given_, streams)
    place = {task: p for p, (task, _) in enumerate(found)}
    needs = [{place[n] for n in given_.needs[task]} for task, _ in found]
    stream = [s for _, s in found]
    waits = Streams(stream, [False] * len(found), needs).waits

    def before(waits: Any) -> list[set[int]]:
        known: list[set[int]] = []
        last: dict[int, int] = {}
        for t, s in enumerate(stream):
            direct = {*waits[t], *([last[s]] if s in last else [])}
            known.append(direct.union(*(known[d] for d in direct)))
            last[s] = t
        return known

    assert all(n <= known for n, known in zip(needs, before(waits), strict=True))
    for t, rows in enumerate(waits):
        for w in rows:
            fewer = [tuple(x for x in r if (u, x) != (t, w)) for u, r in enumerate(waits)]
            assert not needs[t] <= before(fewer)[t]


# --- memory ----------------------------------------------------------------------------------------------


Schedule = tuple[list[int], list[set[int]], list[list[int]]]


@st.composite
def schedules(draw: Any) -> Schedule:
    """Instructions of a random schedule: streams, needs, and of each result's buffer the maker and the readers."""
    given_ = draw(tasks())
    streams = draw(st.integers(2, 3))
    found = issued(RandomScheduler(draw(st.integers(0, 99))), given_, streams)
    place = {task: p for p, (task, _) in enumerate(found)}
    needs = [{place[n] for n in given_.needs[task]} for task, _ in found]
    users = [sorted({p, *(q for q, n in enumerate(needs) if p in n)}) for p in range(len(found))]
    return [s for _, s in found], needs, users


def problem_of(schedule: Schedule, sizes: list[int]) -> Problem:
    stream, needs, users = schedule
    uses = Streams(stream, [False] * len(stream), needs).uses(users)
    return Problem(sizes, [u[0] for u in users], [u[-1] + 1 for u in users], 64, uses)


@st.composite
def problems(draw: Any) -> Problem:
    """Buffers used by instructions of a random schedule."""
    schedule = draw(schedules())
    return problem_of(schedule, [draw(st.sampled_from((0, 1, 64, 100, 4096))) for _ in schedule[2]])


@given(schedules())
def test_buffers_conflict_unless_all_that_use_one_are_over_before_any_that_use_the_other(schedule: Schedule) -> None:
    """By brute force: what is before what is followed through streams and needs."""
    stream, needs, users = schedule
    before: list[set[int]] = []
    for t, s in enumerate(stream):
        direct = {*needs[t], *(u for u in range(t) if stream[u] == s)}
        before.append(direct.union(*(before[u] for u in direct)))

    def over(one: list[int], other: list[int]) -> bool:
        return all(u in before[v] for u in one for v in other)

    problem = problem_of(schedule, [64] * len(users))
    for i, mine in enumerate(users):
        wanted = [not over(mine, theirs) and not over(theirs, mine) for theirs in users]
        assert problem.conflicting(i).tolist() == wanted


def apart(problem: Problem, offsets: Any) -> None:
    for i, (start, size) in enumerate(zip(offsets, problem.rounded, strict=True)):
        assert start % problem.alignment == 0
        for j in np.flatnonzero(problem.conflicting(i)):
            if i != j and size and problem.sizes[j]:
                assert start + size <= offsets[j] or offsets[j] + problem.rounded[j] <= start, (i, j)


@pytest.mark.parametrize("name", ALLOCATORS)
@given(problem=problems())
def test_buffers_that_conflict_are_apart(name: str, problem: Problem) -> None:
    apart(problem, answered(ALLOCATORS[name], problem))


@given(problems())
def test_longer_lifetimes_say_all_that_conflicts(problem: Problem) -> None:
    wide = problem.widened
    assert wide.uses is None
    for i in range(len(problem)):
        assert not (problem.conflicting(i) & ~wide.conflicting(i)).any()
    apart(problem, BestFit()(wide))


def test_conflicts_are_what_uses_say() -> None:
    """Stream 0 runs 0 and 1, stream 1 runs 2, which waits for 0: what 0 alone uses is free for 2."""
    uses = Streams([0, 0, 1], [False] * 3, [(), (), (0,)]).uses([[0], [1], [2], [0, 1]])
    problem = Problem([64] * 4, [0, 1, 2, 0], [1, 2, 3, 2], 64, uses)
    assert problem.conflicting(2).tolist() == [False, True, True, True]
    assert problem.conflicting(0).tolist() == [True, False, False, True]
    assert arena_size(problem, GreedyBySize()(problem)) == 128 + 64


# --- plans -----------------------------------------------------------------------------------------------


def plan(seed: int = 2) -> Plan:
    stack = LAZY.swap(engine=LAZY.engine.with_streams(2, RandomScheduler(seed)))
    o, x = stack.ops, stack.input("x", (64, 64), "float32")
    ends = [o.cumulative_sum(f(x), axis=0) @ x for f in (o.tanh, o.sin, o.cos, o.exp)]
    found = stack.compile([x], [o.cumulative_sum(ends[0] @ ends[1] + ends[2] @ ends[3], axis=1)]).plan
    assert isinstance(found, Plan)
    assert found.streams == 2
    return found


def test_the_problem_of_a_plan_is_the_one_that_it_answers() -> None:
    found = plan()
    assert found.problem.uses is not None
    assert list(BestFit()(found.problem)) == [b.offset for b in found.planned]


def test_a_plan_of_streams_is_read_back_from_its_text() -> None:
    found = plan()
    again = Plan.parse(found.text(), LAZY)
    assert [(i.stream, i.waits) for i in again.instructions] == [(i.stream, i.waits) for i in found.instructions]
    x = np.linspace(-1, 1, 64 * 64, dtype="float32").reshape(64, 64)
    program = LAZY.program(again)
    (lease,) = program.arenas.arenas[0].leases.values()
    assert isinstance(lease.executable, Frame)
    assert lease.executable.together is not None
    assert np.isfinite(program(x)).all()


def test_the_picture_has_a_lane_for_each_stream_and_a_line_for_each_wait() -> None:
    found = plan()
    root = ElementTree.fromstring(found.to_svg())
    steps = {int(g.attrib["data-step"]): g for g in root.iter() if "data-step" in g.attrib}
    assert sorted(steps) == [t for t, i in enumerate(found.instructions) if not i.view]
    heights = {}
    for t, group in steps.items():
        rectangle = next(iter(group.iter("{http://www.w3.org/2000/svg}rect")))
        heights.setdefault(found.instructions[t].stream, set()).add((rectangle.attrib["y"], rectangle.attrib["fill"]))
    assert [len(h) for h in heights.values()] == [1, 1]
    assert heights[0].isdisjoint(heights[1])
    lines = {e.attrib["data-wait"] for e in root.iter() if "data-wait" in e.attrib}
    assert lines == {f"{w} {t}" for t, i in enumerate(found.instructions) for w in i.waits}
    assert "2 streams" in found.to_html()
    assert "2 streams" in repr(found)


@pytest.mark.parametrize(
    "answer", [None, [0, 1], [(0, 0, 0), (1, 0, 0)], [(0.0, 0), (1.0, 0)], [("0", 0), ("1", 0)]], ids=repr
)
def test_an_answer_that_is_no_pairs_of_integers_is_refused(answer: Any) -> None:
    def mine(tasks: Tasks, streams: int) -> Any:
        return answer

    with pytest.raises(PlanError, match=r"the scheduler mine gave no pairs \(task, stream\) of integers, but"):
        issued(mine, Tasks([1.0, 1.0], [1.0, 1.0], [(), (0,)]), 2)
