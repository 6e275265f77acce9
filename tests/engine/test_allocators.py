"""Every allocator that is registered: no two buffers alive together overlap, offsets are aligned, and always the same.

A new allocator is tested by being in `ALLOCATORS`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnc_func.engine.allocators import ALLOCATORS, BestFit, NoReuse, Problem, arena_size, max_load
from nnc_func.errors import PlanError

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces"
KNOWN_RATIO = {"G_1": 1.012, "pangu_2.6B": 1.119, "resnet50": 1.004}  # best fit may not get worse than these

problems = st.builds(
    lambda rows, alignment: Problem([r[0] for r in rows], [r[1] for r in rows], [r[1] + r[2] for r in rows], alignment),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(1, 6)), max_size=24),
    st.sampled_from((1, 16, 64)),
)


def check(problem: Problem, offsets: Sequence[int]) -> None:
    """Look at every pair: quadratic, and independent of how anybody allocates."""
    assert len(offsets) == len(problem)
    rows = list(zip(offsets, problem.sizes, problem.lower, problem.upper, strict=True))
    for offset, *_ in rows:
        assert offset >= 0
        assert offset % problem.alignment == 0
    for i, (a, size, low, up) in enumerate(rows):
        for b, other, begin, end in rows[:i]:
            together = low < end and begin < up
            assert not (together and size and other and a < b + other and b < a + size), (a, size, b, other)


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
    assert list(type(allocator)()(problem)) == first


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


def test_a_problem_that_is_none_is_refused() -> None:
    for sizes, lower, upper, words in (
        ([1], [0], [0], "a lifetime of 1 step"),
        ([-1], [0], [1], "size >= 0"),
        ([1, 2], [0], [1], "wanted as many"),
    ):
        with pytest.raises(PlanError, match=words):
            Problem(sizes, lower, upper)
    with pytest.raises(PlanError, match="alignment is at least 1"):
        Problem([1], [0], [1], 0)


def read(path: Path) -> Problem:
    """A problem in minimalloc's format: its lifetimes are half open, as ours are."""
    with path.open(newline="") as file:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    return Problem([r["size"] for r in rows], [r["lower"] for r in rows], [r["upper"] for r in rows], alignment=1)


@pytest.mark.parametrize("name", KNOWN_RATIO)
def test_best_fit_on_traces_of_real_programs(name: str) -> None:
    path = TRACES / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"the trace {name} is not beside this repository: its place is shared/data/traces")
    problem = read(path)
    offsets = BestFit()(problem)
    size = arena_size(problem, offsets)
    print(f"{name}: {len(problem)} buffers, max load {problem.max_load}, ratio {size / problem.max_load:.4f}")
    if len(problem) < 2000:
        check(problem, offsets)
    assert size <= KNOWN_RATIO[name] * problem.max_load
