"""Offsets are refuted exactly where looking at every pair and every step refutes them (`engine/verifying/offsets`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc_func.engine.allocators import Problem, answered, arena_size
from nnc_func.engine.allocators.best_fit import BestFit
from nnc_func.engine.allocators.local_search import LocalSearch
from nnc_func.engine.allocators.lowest_first import LowestFirst
from nnc_func.engine.allocators.portfolio import Portfolio
from nnc_func.engine.allocators.problems.generators import uniform
from nnc_func.engine.verifying.offsets import verify_offsets
from nnc_func.errors import PlanError
from tests.engine.problems import check, featured

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "minimalloc"


@given(problem=featured(), moves=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 400)), max_size=3))
@settings(max_examples=60)
def test_offsets_are_refuted_where_two_buffers_meet(problem: Problem, moves: list[tuple[int, int]]) -> None:
    offsets = answered(BestFit(), problem)
    verify_offsets(problem, offsets)
    if problem.groups is not None:
        return  # what is between the windows of a group counts as taken
    for i, to in moves if len(problem) else ():
        offsets[i % len(problem)] = to
    try:
        check(problem, offsets)
    except AssertionError:
        with pytest.raises(PlanError):
            verify_offsets(problem, offsets)
    else:
        verify_offsets(problem, offsets)


@pytest.mark.parametrize(
    ("offsets", "said", "words"),
    [
        ([0], {}, "wanted 2 integers, one offset a buffer"),
        ([0.0, 64.0], {}, "wanted 2 integers"),
        ([0, -64], {}, "buffer 1 is at offset -64; wanted a multiple of 64, 0 or more"),
        ([0, 96], {}, "buffer 1 is at offset 96; wanted a multiple of 64"),
        ([0, 64], {"pins": [64, -1]}, "buffer 0 is at offset 0, but pinned at 64"),
        ([0, 64], {"groups": [3, 3]}, "buffers 0 and 1 are of group 3, but at offsets 0 and 64"),
        ([0, 64], {"capacity": 100}, r"buffer 1 takes \[64, 128\) of 100 bytes"),
        ([64, 64], {"names": ["a", "b"]}, r"buffers 'a' and 'b' overlap: bytes \[64, 128\) and .* alive from step 1"),
    ],
)
def test_each_fault_has_its_words(offsets: Any, said: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        verify_offsets(Problem([64, 64], [0, 1], [2, 3], **said), offsets)


def test_what_does_not_meet_may_overlap() -> None:
    problem = Problem([64, 64], [0, 1], [2, 3])
    verify_offsets(evolve(problem, spaces=[0, 1]), [0, 0])
    verify_offsets(evolve(problem, groups=[0, 0]), [0, 0])


@pytest.mark.slow
def test_a_million_buffers_are_planned_and_verified() -> None:
    problem = uniform(1_000_000)
    offsets = answered(Portfolio(), problem)
    verify_offsets(problem, offsets)
    assert arena_size(problem, offsets) <= 1.15 * problem.max_load


def instances(folder: str) -> list[Problem]:
    """Of minimalloc, where they are beside this repository."""
    found = [Problem.from_csv(path) for path in sorted((DATA / folder).glob("*.csv"))]
    return found or pytest.skip(f"minimalloc's instances are not beside this repository: {DATA / folder}")


def mean_ratio(allocator: Any, problems: list[Problem]) -> float:
    """Arena to max load."""
    ratios = []
    for problem in problems:
        offsets = answered(allocator, problem)
        verify_offsets(problem, offsets)
        ratios.append(arena_size(problem, offsets) / problem.max_load)
    return float(np.mean(ratios))


def test_hard_instances() -> None:
    problems = instances("challenging")
    assert mean_ratio(LowestFirst(), problems) <= 1.21
    assert mean_ratio(Portfolio(), problems) <= 1.20


@pytest.mark.slow
def test_hard_instances_with_a_search() -> None:
    assert mean_ratio(LocalSearch(steps=8000), instances("challenging")) <= 1.09


def test_small_instances_are_optimal() -> None:
    assert mean_ratio(Portfolio(), instances("small")) == 1.0


def test_a_search_is_never_worse_than_where_it_starts() -> None:
    for seed in range(3):
        problem = uniform(60, seed, live=20)
        best = arena_size(problem, LowestFirst()(problem))
        for steps in (0, 1, 130):
            found = LocalSearch(steps=steps, seed=seed)(problem)
            verify_offsets(problem, found)
            assert arena_size(problem, found) <= best
            best = arena_size(problem, found)


def test_the_clock_is_looked_at_where_it_is_asked_for() -> None:
    problem = uniform(60, 1, live=20)
    assert LocalSearch(seconds=0.0)(problem) == LowestFirst()(problem)


def test_ties_by_orders_of_many_buffers_are_those_of_few() -> None:
    from nnc_func.engine.allocators.placement.descents import Descents, static_ranks

    problem = uniform(200)
    descents = Descents(problem)
    ranks = static_ranks(problem)
    assert [descents.one(rank).tolist() for rank in ranks] == descents.together(ranks).tolist()


def test_plans_are_equal_over_hash_seeds_and_threads() -> None:
    code = (
        "from nnc_func.engine.allocators import answered\n"
        "from nnc_func.engine.allocators.problems.generators import concurrent, uniform\n"
        "from tests.engine.problems import hurried\n"
        "for p in (uniform(80, live=20), concurrent(40)):\n"
        "    print({name: answered(allocator, p) for name, allocator in hurried().items()})\n"
    )
    said = set()
    for seed, threads in (("0", "1"), ("1", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT)
        assert ran.returncode == 0, ran.stderr
        said.add(ran.stdout)
    assert len(said) == 1
    assert "portfolio" in said.pop()
