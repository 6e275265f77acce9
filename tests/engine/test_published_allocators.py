"""Published allocators against what others measured of them (`engine/allocators`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc_func.engine.allocators import ALLOCATORS, Allocator, Problem, answered, arena_size
from nnc_func.engine.allocators.greedy import ChooseBest, Greedy

CHALLENGING = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "minimalloc" / "challenging"
HERE = pytest.mark.skipif(not CHALLENGING.exists(), reason="the instances are not beside this repository")
INSTANCES = "ACEGIK"
RATIOS: dict[str, tuple[Allocator, tuple[float, ...]]] = {  # arena / max load of each instance
    "block_reuse": (ALLOCATORS["block_reuse"], (2.170, 2.140, 2.709, 1.376, 4.646, 3.179)),
    "busiest_first": (ALLOCATORS["busiest_first"], (1.266, 1.252, 1.269, 1.337, 1.305, 1.315)),
    "choose_best": (ChooseBest(), (1.290, 1.364, 1.369, 1.362, 1.410, 1.277)),
    "execution_order": (ALLOCATORS["execution_order"], (1.670, 1.686, 1.411, 1.251, 1.822, 1.950)),
    "flow_graph": (ALLOCATORS["flow_graph"], (1.272, 1.400, 1.451, 1.467, 1.666, 1.444)),
    "greedy_by_breadth": (ALLOCATORS["greedy_by_breadth"], (1.537, 1.686, 1.678, 1.231, 1.671, 2.358)),
    "greedy_by_size": (ALLOCATORS["greedy_by_size"], (1.311, 1.364, 1.401, 1.332, 1.410, 1.327)),
    "lifetime": (Greedy("temporal"), (1.456, 1.473, 1.600, 1.402, 1.631, 1.784)),
    "area": (Greedy("spatio_temporal", "lowest"), (1.669, 1.967, 1.706, 1.405, 2.310, 2.329)),
    "segregated_fit": (ALLOCATORS["segregated_fit"], (1.752, 1.686, 1.688, 1.291, 1.847, 1.925)),
}


def instance(letter: str) -> Problem:
    return Problem.from_csv((CHALLENGING / f"{letter}.1048576.csv").read_text(), alignment=1)


@HERE
@pytest.mark.parametrize("name", RATIOS)
def test_ratios_are_those_measured_elsewhere(name: str) -> None:
    allocator, wanted = RATIOS[name]
    for letter, ratio in zip(INSTANCES, wanted, strict=True):
        problem = instance(letter)
        assert arena_size(problem, answered(allocator, problem)) / problem.max_load == pytest.approx(ratio, abs=6e-4)


@HERE
@pytest.mark.parametrize(("name", "most"), [("hill_climb", 1.30), ("boxing", 1.42), ("pool_tree", 3.08)])
def test_what_draws_or_differs_in_detail_is_as_good_as_elsewhere(name: str, most: float) -> None:
    for letter in "ACG":
        problem = instance(letter)
        assert arena_size(problem, answered(ALLOCATORS[name], problem)) <= most * problem.max_load


# --- NNC's own examples ----------------------------------------------------------------------------------

CHAIN = Problem([64] * 5, [0, 0, 1, 2, 3], [1, 2, 3, 4, 5], alignment=1)


@pytest.mark.parametrize(
    ("sizes", "lives", "wanted"),
    [
        ([64, 64, 64, 64, 64], [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5)], 128),
        ([400, 200, 200], [(0, 1), (1, 3), (1, 3)], 400),
        ([200, 200, 400], [(0, 2), (0, 2), (2, 3)], 400),
        ([128, 192, 128], [(0, 1), (2, 3), (0, 2)], 320),  # where the flow graph misses 256
    ],
)
def test_the_flow_graph_places_as_the_original_does(
    sizes: list[int], lives: list[tuple[int, int]], wanted: int
) -> None:
    problem = Problem(sizes, [a for a, _ in lives], [b for _, b in lives], alignment=1)
    assert arena_size(problem, answered(ALLOCATORS["flow_graph"], problem)) == wanted


def test_a_part_of_a_large_dead_buffer_is_used_again() -> None:
    problem = Problem([400, 200, 200], [0, 1, 1], [1, 3, 3], alignment=1)
    assert sorted(answered(ALLOCATORS["flow_graph"], problem)) == [0, 0, 200]


def test_a_companion_travels_with_a_smaller_buffer() -> None:
    """The buffer with the most conflicts, and a larger one of another time, share a region from the beginning."""
    problem = Problem([64, 64, 128], [0, 1, 4], [3, 2, 5], alignment=1)
    offsets = answered(ALLOCATORS["flow_graph_article"], problem)
    assert offsets[2] in offsets[:2]


# --- what each is for ------------------------------------------------------------------------------------


def test_reuse_grows_from_parents_to_blocks_to_parts() -> None:
    sizes, lives = [256, 64, 256, 64, 64], [(0, 2), (2, 4), (3, 5), (5, 7), (5, 7)]
    problem = Problem(sizes, [a for a, _ in lives], [b for _, b in lives], alignment=1)
    found = [
        arena_size(problem, answered(ALLOCATORS[n], problem))
        for n in ("no_reuse", "parent_reuse", "block_reuse", "execution_order")
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] == sum(sizes)
    assert found[-1] == problem.max_load


def test_a_parents_place_is_taken_once() -> None:
    problem = Problem([64, 64, 64], [0, 1, 1], [1, 2, 2], alignment=1)
    assert sorted(answered(ALLOCATORS["parent_reuse"], problem)) == [0, 0, 64]
