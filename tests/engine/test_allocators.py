"""Every allocator: no two buffers alive together overlap; offsets are aligned (`engine/allocators`).

A new allocator is tested by being in `ALLOCATORS`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.allocators import ALLOCATORS, BestFit, NoReuse, Problem, answered, arena_size, max_load
from nnc_func.engine.allocators.greedy import FITS, ORDERS, Greedy
from nnc_func.engine.allocators.placement.fits import first_fit, tightest_fit
from nnc_func.engine.verifying.offsets import verify_offsets
from nnc_func.errors import PlanError
from tests.engine.problems import check, featured, hurried, taken
from tests.engine.problems import plain as problems
from tests.profiles import examples

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces"
KNOWN_RATIO = {"G_1": 1.012, "pangu_2.6B": 1.119, "resnet50": 1.004}  # best fit may not get worse than these


@pytest.mark.parametrize("name", ALLOCATORS)
@given(problem=problems)
def test_no_two_alive_together_overlap(name: str, problem: Problem) -> None:
    offsets = ALLOCATORS[name](problem)
    check(problem, offsets)
    assert arena_size(problem, offsets) >= problem.max_load


@pytest.mark.parametrize("name", ALLOCATORS)
@given(problem=problems)
def test_the_same_problem_gets_the_same_answer(name: str, problem: Problem) -> None:
    allocator = ALLOCATORS[name]
    first = list(allocator(problem))
    assert list(allocator(problem)) == first
    assert list(evolve(cast(Any, allocator))(problem)) == first  # a new one, of the same fields


@pytest.mark.parametrize("name", ALLOCATORS)
def test_edges(name: str) -> None:
    allocator = ALLOCATORS[name]
    assert list(allocator(Problem([], [], []))) == []
    for problem in (
        Problem([0], [0], [1]),
        Problem([0, 0, 64], [0, 0, 0], [1, 2, 3]),
        Problem([1] * 5, [0] * 5, [1] * 5),
        Problem([7, 9], [0, 1], [1, 2], alignment=1),
        Problem([1 << 40, 1 << 41], [0, 1], [2, 3]),
    ):
        check(problem, allocator(problem))


@given(problem=problems)
def test_one_after_another_needs_the_sum(problem: Problem) -> None:
    assert arena_size(problem, NoReuse()(problem)) == sum(problem.rounded)


@given(problem=problems)
def test_best_fit_is_never_worse_than_no_reuse(problem: Problem) -> None:
    assert arena_size(problem, BestFit()(problem)) <= sum(problem.rounded)


@given(problem=problems)
def test_max_load_is_what_is_alive_at_the_worst_step(problem: Problem) -> None:
    sizes = problem.rounded
    worst = max(
        (
            sum(s for s, low, up in zip(sizes, problem.lower, problem.upper, strict=True) if low <= t < up)
            for t in range(20)
        ),
        default=0,
    )
    assert problem.max_load == worst == max_load(sizes, problem.lower, problem.upper)


@pytest.mark.parametrize("name", KNOWN_RATIO)
def test_best_fit_on_traces_of_real_programs(name: str) -> None:
    path = TRACES / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"the trace {name} is not beside this repository: its place is shared/data/traces")
    problem = Problem.from_csv(path)
    offsets = BestFit()(problem)
    size = arena_size(problem, offsets)
    print(f"{name}: {len(problem)} buffers, max load {problem.max_load}, ratio {size / problem.max_load:.4f}")
    low, high = np.array(offsets), np.array(offsets) + problem.sizes
    for i in range(len(problem)):
        together = (problem.lower < problem.upper[i]) & (problem.upper > problem.lower[i])
        assert (together & (low < high[i]) & (high > low[i])).sum() == 1
    assert size <= KNOWN_RATIO[name] * problem.max_load


@pytest.mark.parametrize("name", ALLOCATORS)
@given(problem=featured())
@settings(max_examples=20)
def test_whatever_a_problem_says_is_answered(name: str, problem: Problem) -> None:
    allocator = hurried()[name]
    offsets = answered(allocator, problem)
    check(problem, offsets)
    assert answered(allocator, problem) == offsets


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOCATORS)
@given(problem=featured(30))
@settings(max_examples=200)
def test_whatever_a_larger_problem_says_is_answered(name: str, problem: Problem) -> None:
    check(problem, answered(ALLOCATORS[name], problem))


@given(problem=featured(16))
@examples(60, 20_000)
def test_no_allocator_has_a_wrong_answer(problem: Problem) -> None:
    for name, allocator in hurried().items():
        offsets = answered(allocator, problem)
        try:
            verify_offsets(problem, offsets)
        except PlanError as error:
            raise AssertionError(f"{name}: {error}") from error


def size(problem: Problem, offsets: list[int]) -> int:
    """The bytes of all spaces together."""
    spaces = np.zeros(len(problem), int) if problem.spaces is None else problem.spaces
    return sum(arena_size(problem.of(np.flatnonzero(spaces == s)), np.array(offsets)[spaces == s]) for s in set(spaces))


@given(problem=featured())
@example(Problem([0, 1], [0, 0], [1, 1], [1, 2], groups=[0, 0]))
@settings(max_examples=25)
def test_no_plan_is_smaller_than_the_max_load(problem: Problem) -> None:
    steps = range(int(problem.lower.min(initial=0)), int(problem.upper.max(initial=0)))
    spaces = np.zeros(len(problem), int) if problem.spaces is None else problem.spaces
    groups = np.full(len(problem), -1) if problem.groups is None else problem.groups
    least = 0
    for space in set(spaces.tolist()):
        loads = [0]
        for t in steps:
            bytes_: dict[tuple[bool, int], tuple[int, int]] = {}
            for i in np.flatnonzero(spaces == space).tolist():
                key = (True, i) if groups[i] == -1 else (False, int(groups[i]))
                (low, high), was = taken(problem, i, t), bytes_.get(key)
                if low < high:
                    bytes_[key] = (low, high) if was is None else (min(low, was[0]), max(high, was[1]))
            loads.append(sum(high - low for low, high in bytes_.values()))
        least += max(loads)
    offsets = answered(BestFit(), problem)
    assert least <= problem.max_load <= size(problem, offsets)


@given(problem=featured(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_fitting_in_any_order_is_first_fit(problem: Problem, seed: int) -> None:
    pins = problem.pins if problem.groups is None else None  # those of a group are pinned at one place
    problem = evolve(problem, groups=None, spaces=None, pins=pins)
    order = np.random.default_rng(seed).permutation(len(problem)).tolist()
    offsets = first_fit(problem, order)
    check(problem, offsets)
    check(problem, tightest_fit(problem, order))
    pinned = [] if problem.pins is None else np.flatnonzero(problem.pins >= 0).tolist()
    for n, i in list(enumerate(order))[-3:]:  # nothing lower would do: as `check` tells, of those before it
        if problem.sizes[i] == 0 or i in pinned:
            continue
        before = sorted({*order[:n], *pinned})
        part, step = problem.of([*before, i]), int(problem.alignments[i])
        ends = {offsets[b] + edge for b in before for edge in (0, *_edges(problem, b))}
        tops = {0, *(-(-(end - low) // step) * step for end in ends for low in (0, *_edges(problem, i)))}
        for lower in (at for at in tops if 0 <= at < offsets[i]):
            with pytest.raises(AssertionError):
                check(part, [*(offsets[b] for b in before), lower])


def _edges(problem: Problem, i: int) -> set[int]:
    windows = [gap.window for gap in problem.gaps if gap.buffer == i and gap.window]
    return {int(problem.sizes[i]), int(problem.rounded[i]), *(edge for window in windows for edge in window)}


@given(problem=problems)
def test_the_tightest_gap_is_taken(problem: Problem) -> None:
    order = list(range(len(problem)))[::-1]
    offsets = tightest_fit(problem, order)
    for n, i in enumerate(order):
        size = int(problem.rounded[i])
        others = [j for j in order[:n] if problem.lower[j] < problem.upper[i] and problem.lower[i] < problem.upper[j]]
        held = sorted((offsets[j], offsets[j] + int(problem.rounded[j])) for j in others if problem.sizes[j])
        top, gaps = 0, []
        for low, high in held:
            gaps.append((low - top, top))
            top = max(top, high)
        fits = sorted(gap for gap in gaps if gap[0] >= size)
        assert not size or offsets[i] == (fits[0][1] if fits else top)


PINNED = Problem([8, 64, 64], [0, 0, 1], [1, 2, 3], pins=[-1, 0, 32 * 2], alignment=32)


def test_two_buffers_that_are_pinned_over_one_another_are_no_problem() -> None:
    check(PINNED, first_fit(PINNED, [0, 1, 2]))
    for names, said in (((), "1 and 2"), (("a", "b", "c"), "'b' and 'c'")):
        with pytest.raises(PlanError, match=rf"buffers {said} are pinned at 0 and 32, .*: their pins contradict each"):
            evolve(PINNED, pins=[-1, 0, 32], names=names)
    with pytest.raises(PlanError, match=r"buffer 2 is pinned at 64 and ends at 128: the capacity is 100 bytes"):
        evolve(PINNED, capacity=100)


@pytest.mark.parametrize("name", ALLOCATORS)
def test_a_capacity_that_is_too_small_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=r"capacity is 100 bytes, .* needs 128; no plan needs less than 128"):
        answered(ALLOCATORS[name], evolve(PINNED, pins=[-1, 0, -1], capacity=100))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fit", FITS)
@given(problem=featured())
@examples(few=10, nightly=200)
def test_any_order_goes_with_any_fit(order: str, fit: str, problem: Problem) -> None:
    check(problem, answered(Greedy(order, fit), problem))
    assert sorted({*ORDERS[order](problem)} | {*np.flatnonzero(problem.sizes == 0).tolist()}) == [*range(len(problem))]


def test_greedy_allocators_are_rows_of_which_each_order_says_its_source() -> None:
    rows = {name: each for name, each in ALLOCATORS.items() if isinstance(each, Greedy)}
    assert {name: (row.order, row.fit) for name, row in rows.items()} == {
        "busiest_first": ("busiest", "lowest"),
        "decreasing": ("spatial", "best"),
        "greedy_by_breadth": ("breadth", "best"),
        "greedy_by_size": ("size", "best"),
    }
    assert [order for order in ORDERS if "source: " not in (ORDERS[order].__doc__ or "").lower()] == []
    with pytest.raises(ValueError, match="'order' must be in"):
        Greedy("none")
    with pytest.raises(PlanError, match=r"Greedy\(order='size', fit='lowest'\) needs 128; no plan needs less"):
        answered(Greedy("size", "lowest"), Problem([64, 64], [0, 1], [2, 3], capacity=100))


def test_more_bytes_than_there_are() -> None:
    problem = Problem([64, 64], [0, 1], [2, 3], capacity=100)
    with pytest.raises(PlanError, match=r"capacity is 100 bytes, .* BestFit needs 128; no plan needs less than 128"):
        answered(BestFit(), problem)
    apart = Problem([64, 64], [0, 1], [1, 2], capacity=64)
    assert answered(BestFit(), apart) == [0, 0]
    with pytest.raises(PlanError, match="the plan of NoReuse needs 128; another allocator may do with less"):
        answered(NoReuse(), apart)


def test_answers_that_are_none() -> None:
    problem = Problem([64, 64], [0, 1], [2, 3])
    answers: list[tuple[Any, str]] = [
        ([0], "gave 1 offsets for 2 buffers"),
        ([0, -64], "gave a negative offset, -64"),
        ([0, 64.0], "gave no integers"),
        (None, "gave no integers"),
    ]
    for answer, words in answers:
        with pytest.raises(PlanError, match=rf"the allocator <lambda> {words}"):
            answered(lambda problem, answer=answer: answer, problem)

    class Boasting(NoReuse):
        handles = frozenset({"everything"})

    with pytest.raises(PlanError, match="says it handles 'everything'"):
        answered(Boasting(), problem)


def stacked(problem: Problem) -> list[int]:
    """One after another."""
    return [0, *np.cumsum(problem.rounded)[:-1].tolist()][: len(problem)]


def test_a_plan_has_the_name_of_ones_own_function(tmp_path: Path) -> None:
    for allocator, name in (
        (stacked, "stacked"),
        (partial(partial(stacked)), "stacked"),
        (lambda p: stacked(p), "<lambda>"),
    ):
        stack = nnc.lazy()
        stack = stack.swap(engine=stack.engine.with_allocator(allocator))
        x = stack.input("x", (8, 8), "float32")
        program = stack.compile([x], stack.ops.exp(stack.ops.sort(x @ x)))
        assert program.plan.allocator == name
        assert f'allocator "{name}"' in str(program.plan)
        program.save(tmp_path / "program")
        assert nnc.load_program(tmp_path / "program").plan.allocator == name


def _refuses_sizes(problem: Problem, offset: int) -> bool:
    with pytest.raises(PlanError, match=rf"wanted offsets of 64 bits, given {offset}"):
        arena_size(problem, [offset] * len(problem))
    return True


def test_an_offset_above_all_bytes_is_a_plan_error() -> None:
    for offset in (1 << 62, 1 << 63, 1 << 70):
        for problem in (Problem([8], [0], [1]), Problem([8, 8], [0, 0], [1, 1], spaces=[0, 1])):
            with pytest.raises(PlanError, match=rf"gave the offset {offset}; wanted less than 2\*\*62"):
                answered(lambda p, offset=offset: [offset] * len(p), problem)
            assert problem.spaces is None or offset < 1 << 63 or _refuses_sizes(problem, offset)
        with pytest.raises(PlanError, match="wanted"):
            verify_offsets(Problem([8], [0], [1]), [offset])
    stack = nnc.lazy()
    stack = stack.swap(engine=stack.engine.with_allocator(lambda p: [1 << 70] * len(p)))
    x = stack.input("x", (8, 8), "float32")
    value = stack.ops.exp(stack.ops.sort(x @ x))
    with pytest.raises(PlanError, match="gave the offset 1180591620717411303424"):
        stack.compile([x], value)
