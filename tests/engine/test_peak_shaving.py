"""Peaks are lowered a few buffers at a time (`engine/allocators/peak_shaving`)."""

from __future__ import annotations

import pytest

from nnc_func.engine.allocators import answered, arena_size, portfolio
from nnc_func.engine.allocators.best_fit import in_order
from nnc_func.engine.allocators.branch_and_bound import BranchAndBound
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE
from nnc_func.engine.allocators.peak_shaving import PeakShaving
from nnc_func.engine.allocators.portfolio import Portfolio
from nnc_func.engine.allocators.problems.generators import concurrent, pinwheel, skewed, uniform
from nnc_func.engine.verifying.offsets import verify_offsets


@pytest.mark.parametrize("seed", range(3))
def test_each_step_lowers_the_arena_or_is_the_last(seed: int) -> None:
    problem = uniform(1500, seed, live=40)
    sizes = []
    for steps in range(6):
        offsets = PeakShaving(enough=1.0, around=100, steps=steps)(problem)
        verify_offsets(problem, offsets)
        sizes.append(arena_size(problem, offsets))
    assert sizes[0] == arena_size(problem, in_order(problem.rounded, problem.lower, problem.upper))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_what_is_enough_is_enough() -> None:
    problem = uniform(3000, 2)
    first = arena_size(problem, in_order(problem.rounded, problem.lower, problem.upper)) / problem.max_load
    found = arena_size(problem, PeakShaving(around=200)(problem)) / problem.max_load
    assert found <= 1.1 < first
    assert arena_size(problem, PeakShaving(enough=first)(problem)) / problem.max_load == first


def test_streams_are_no_matter_of_time() -> None:
    problem = concurrent(60)
    assert PeakShaving()(problem) == GREEDY_BY_SIZE(problem)


@pytest.mark.parametrize("count", [40, 200, 700])
def test_a_portfolio_is_for_few_buffers_for_more_and_for_many(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "SMALL", 100)
    for make in (uniform, skewed):
        problem = make(count, 3)
        offsets = answered(Portfolio(), problem)
        verify_offsets(problem, offsets)
        assert answered(Portfolio(), problem) == offsets
        assert arena_size(problem, offsets) <= 1.15 * problem.max_load


def test_a_portfolio_with_many_steps_searches_exactly() -> None:
    from attrs import evolve

    problem = evolve(pinwheel(281), capacity=None)  # of fewer it is asked with few steps as well
    few, many = (arena_size(problem, Portfolio(steps=n)(problem)) for n in (32, 4000))
    assert few > problem.max_load
    assert many == arena_size(problem, BranchAndBound(4000)(problem)) == problem.max_load
