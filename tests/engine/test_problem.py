"""Allocation problems as data: refusals, texts read back, known optima (`engine/allocators/problems`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings

from nnc_func.engine.allocators import ALLOCATORS, Gap, Problem, Uses, answered, arena_size
from nnc_func.engine.allocators.problems.generators import concurrent, pinwheel, skewed, tiling, uniform
from nnc_func.engine.verifying.offsets import verify_offsets
from nnc_func.errors import PlanError
from tests.engine.problems import check, featured


def test_a_problem_that_is_none_is_refused() -> None:
    for sizes, lower, upper, words in (
        ([1], [0], [0], r"buffer 0: 1 bytes alive in \[0, 0\); wanted size >= 0 and a lifetime of 1 step"),
        ([1, 1], [0, 3], [1, 2], r"buffer 1: 1 bytes alive in \[3, 2\)"),
        ([-1], [0], [1], "buffer 0: -1 bytes .* wanted size >= 0"),
        ([1, 2], [0], [1], "2 sizes, 1 starts, 1 ends: wanted as many"),
        ([1 << 63], [0], [1], "has no room in 64 bits"),
        ([1 << 64], [0], [1], "has no room in 64 bits"),
        ([1 << 62], [0], [1], "wanted less than 2\\*\\*62 bytes"),
        ([1 << 61, 1 << 61], [0, 5], [1, 6], "wanted less than 2\\*\\*62 bytes"),
        ([1], [-(1 << 63)], [(1 << 63) - 1], "wanted them within 2\\*\\*62 of 0"),
        ([1.5], [0], [1], "wanted integers"),
        (["1"], [0], [1], "wanted integers"),
        ([[1]], [0], [1], "one a buffer"),
    ):
        with pytest.raises(PlanError, match=words):
            Problem(sizes, lower, upper, 1)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"alignment": 0}, "alignment is at least 1 byte, given 0"),
        ({"alignment": [1, 0, 1]}, "buffer 1: alignment is at least 1 byte, given 0"),
        ({"alignment": [1, 1]}, "3 sizes, but 2 alignments"),
        ({"alignment": 1 << 61}, "multiples of up to 2305843009213693952: wanted less"),
        ({"alignment": [(1 << 40) - 1, (1 << 40) + 1, 1 << 20]}, "wanted less than 2\\*\\*62 bytes, aligned"),
        ({"pins": [0, 1]}, "3 sizes, but 2 pins"),
        ({"pins": [0, 32, -1]}, "buffer 1 is pinned at 32; wanted a multiple of its alignment, 64"),
        ({"pins": [0, -2, -1]}, "buffer 1 is pinned at -2"),
        (
            {"pins": [0, 64, -1], "groups": [4, 4, -1]},
            "buffers 0 and 1 are of group 4, but of different pins, 0 and 64",
        ),
        ({"spaces": [0, 1, 0], "groups": [4, 4, -1]}, "of group 4, but of different spaces, 0 and 1"),
        ({"gaps": [Gap(3, 0, 1)]}, "a gap of buffer 3: there are 3 buffers"),
        ({"gaps": [Gap(0, 0, 9)]}, r"buffer 0 is alive in \[0, 4\), with a gap in \[0, 9\)"),
        ({"gaps": [Gap(0, 2, 2)]}, "wanted gaps of a step or more"),
        ({"gaps": [Gap(0, 0, 2), Gap(0, 1, 3)]}, "two gaps of buffer 0 overlap, at step 1"),
        ({"gaps": [Gap(0, 0, 1, (8, 65))]}, r"buffer 0 has 64 bytes, of which \[8, 65\) are alive in a gap"),
        ({"names": ["a", "b", "a"]}, "two buffers are named 'a'"),
        ({"names": ["a", "b"]}, "3 sizes, but 2 names"),
        ({"names": [1, 2, 3]}, "wanted a name a buffer, each a string"),
        ({"names": "abc"}, "wanted a name a buffer, each a string, given 'abc'"),
        ({"gaps": [(0, 0, 1)]}, r"wanted gaps as Gap\(buffer, lower, upper\), given \(0, 0, 1\)"),
        ({"uses": 3}, "wanted uses as Uses"),
        ({"uses": Uses(np.zeros((3, 1)), np.zeros((3, 2)))}, r"given shapes \(3, 1\) and \(3, 2\)"),
        ({"capacity": -1}, "the capacity is -1 bytes"),
        ({"capacity": 1.5}, "wanted a capacity in whole bytes, given 1.5"),
        ({"uses": Uses(np.zeros((2, 1)), np.zeros((3, 1)))}, "3 sizes, but 2 rows of uses"),
        ({"uses": Uses(np.zeros((3, 1)), np.zeros((2, 1)))}, "3 sizes, but 2 rows of last uses"),
    ],
)
def test_each_contradiction_has_its_words(said: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Problem([64, 64, 32], [0, 1, 2], [4, 5, 6], **said)


def test_pins_that_contradict_each_other_are_refused_where_the_problem_is_made() -> None:
    def made(pins: list[int], **more: Any) -> Problem:
        return Problem([64, 64, 32], [0, 1, 2], [4, 5, 6], 32, pins=pins, **more)

    said = "buffers 0 and 1 are pinned at 0 and 32, with 64 and 64 bytes, and may be alive at one time: their pins"
    with pytest.raises(PlanError, match=said):
        made([0, 32, -1])
    with pytest.raises(PlanError, match="buffers 0 and 2 are pinned at 0 and 32"):
        made([0, -1, 32])
    with pytest.raises(PlanError, match="buffer 1 is pinned at 64 and ends at 128: the capacity is 100 bytes"):
        made([0, 64, -1], capacity=100)
    made([0, 64, -1], capacity=128)
    made([0, 64, 128])
    made([0, 32, -1], spaces=[0, 1, 0])
    made([0, 0, -1], groups=[3, 3, -1])
    made([0, 0, -1], gaps=[Gap(0, 1, 4)])
    made([0, 32, -1], gaps=[Gap(0, 1, 4, (0, 32))])
    with pytest.raises(PlanError, match="contradict"):
        made([0, 0, -1], gaps=[Gap(0, 1, 3)])
    with pytest.raises(PlanError, match="buffers 0 and 2 are pinned at 0 and 32"):  # the group is whole, with its gaps
        made([0, 0, 32], groups=[3, 3, -1])
    one_after_another = Problem([8, 8], [0, 2], [2, 4], 1, pins=[0, 0])
    assert answered(ALLOCATORS["best_fit"], one_after_another) == [0, 0]
    apart = Uses(np.array([[0, 0], [0, 0]]), np.array([[1, 0], [0, 1]]))
    with pytest.raises(PlanError, match="may be alive at one time"):
        evolve(one_after_another, uses=apart)
    with pytest.raises(PlanError, match=r"buffers 'a' and 'b' are pinned at 0 and 0"):
        Problem.from_csv("id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,8,0\n")


@given(problem=featured())
@settings(max_examples=60)
def test_pins_are_refused_where_no_plan_has_them(problem: Problem) -> None:
    """The offsets of a plan are pins; moved ones are refused wherever they are no plan."""
    offsets = np.array(answered(ALLOCATORS["best_fit"], evolve(problem, capacity=None)), np.int64)
    free = evolve(problem, capacity=None, pins=None)
    evolve(free, pins=offsets)
    if len(offsets) > 1:
        steps = free.alignments
        for moved in (np.roll(offsets, 1), np.zeros_like(offsets), offsets // 2):
            moved = moved // steps * steps
            try:
                verify_offsets(free, moved)
            except PlanError:
                with pytest.raises(PlanError, match=r"contradict|are of group"):
                    evolve(free, pins=moved)
            else:
                evolve(free, pins=moved)


def test_no_buffers_of_streams_and_groups_have_a_plan() -> None:
    uses = Uses(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64))
    assert answered(ALLOCATORS["portfolio"], Problem([], [], [], uses=uses, groups=[])) == []


def test_sizes_times_lifetimes_do_not_wrap() -> None:
    assert list(Problem([1 << 60, 3], [0, 0], [1 << 40, 5]).areas) == [1 << 100, 15]
    problem = Problem([1 << 60, 3], [0, 0], [1 << 40, 5], 1)
    for name, allocator in ALLOCATORS.items():
        assert arena_size(problem, answered(allocator, problem)) == (1 << 60) + 3, name


def test_arrays_are_read_only_and_counts_may_be_numpys() -> None:
    given_ = np.array([64, 64])
    problem = Problem(given_, [0, 0], [1, 1], np.int64(32), capacity=np.int64(128))
    given_[0] = 0
    assert problem.sizes.tolist() == [64, 64]
    with pytest.raises(ValueError, match="read-only"):
        problem.sizes[0] = 1
    assert (problem.alignment, problem.capacity) == (32, 128)


def same(one: Problem, other: Problem) -> bool:
    """Equal in each field."""
    return one.to_json() == other.to_json()


def tabular(problem: Problem) -> Problem:
    """Without what a table has no column for; and without pins, where only that keeps these apart."""
    bare = evolve(problem, uses=None, groups=None, spaces=None, capacity=None, pins=None)
    try:
        return evolve(bare, pins=problem.pins)
    except PlanError:
        return bare


PINNED_IN_A_GROUP = Problem([1, 1], [0, 0], [1, 1], 1, pins=[0, 0], groups=[0, 0])


@given(problem=featured())
@example(PINNED_IN_A_GROUP)
@settings(max_examples=50)
def test_what_is_written_is_read_back(problem: Problem) -> None:
    assert same(Problem.from_json(problem.to_json()), problem)
    plain = tabular(problem)
    each = plain.alignments.tolist()
    again = Problem.from_csv(plain.to_csv())
    gaps = sorted(plain.gaps, key=lambda gap: gap.buffer)
    pins = None if plain.pins is None or (plain.pins < 0).all() else plain.pins
    alignment = (each[0] if each else 1) if len(set(each)) < 2 else each
    assert same(again, evolve(plain, gaps=gaps, pins=pins, alignment=alignment))


def test_columns_in_any_order_by_any_of_their_names(tmp_path: Path) -> None:
    wanted = Problem(
        [64, 32], [0, 4], [4, 8], 1, names=["x", "y"], pins=[-1, 0], gaps=[Gap(0, 1, 2), Gap(0, 2, 3, (0, 8))]
    )
    text = "Size,offset,buffer_id,gaps,end,start\n64,,x,1-2 2-3@0:8,3,0\n32,0,y,,7,4\n\n"
    assert same(Problem.from_csv(text), wanted)
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert same(Problem.from_csv(path), wanted)
    path.write_text(text, encoding="utf-8-sig")  # as spreadsheets write it
    assert same(Problem.from_csv(path), wanted)
    with pytest.raises(PlanError, match=r"wanted a text, or the path of a file as Path\('a.csv'\)"):
        Problem.from_csv("a.csv")
    assert Problem.from_csv(
        "id,lower,upper,size,alignment\n0,0,1,5,8\n1,0,1,5,\n", alignment=4
    ).alignments.tolist() == [8, 4]
    assert len(Problem.from_csv("id,lower,upper,size\n")) == 0
    with pytest.warns(UserWarning, match="the column hint is ignored"):
        Problem.from_csv("id,lower,upper,size,hint\n0,0,1,5,64\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no row names the columns; wanted id,lower,upper,size"),
        ("id,lower,upper\n", "no column says size"),
        ("id,lower,upper,size,colour\n", "there is no column 'colour'; there are id, lower"),
        ("id,lower,upper,end,size\n", "two columns say upper"),
        ("# pool_offset=4096\nid,lower,upper,size\n", "line 1: '# pool_offset=4096' is of another format"),
        ("id,lower,upper,size\n0,0,1\n", "line 2: 3 cells; wanted 4"),
        ("id,lower,upper,size\n0,0,1,x\n", "line 2, column size: wanted an integer in digits 0 to 9, given 'x'"),
        (
            "id,lower,upper,size\n0,0:1:2,1,8\n",
            "line 2, column lower: wanted an integer in digits 0 to 9, given '0:1:2'",
        ),
        ("id,lower,upper,size\n0,0,1,\n", "column size: wanted an integer in digits 0 to 9, given ''"),
        ("id,lower,upper,size\n0,0,1,8\n1,0,1,1_000\n", "line 3, column size: wanted an integer .*, given '1_000'"),
        ("id,lower,upper,size\n0,0,1,٣\n", "line 2, column size: wanted an integer in digits 0 to 9, given '٣'"),
        ("id,lower,upper,size\n0,0,1,+8\n", "column size: wanted an integer in digits 0 to 9, given '\\+8'"),
        ("id,lower,upper,size\n0,0,1,8-\n", "column size: wanted an integer in digits 0 to 9, given '8-'"),
        ("id,lower,upper,size\n0,0,1," + "9" * 5000, "column size: wanted an integer in digits 0 to 9"),
        ("\n\nid,lower,upper,size\n\n0,0,1,8\n\n1,0,x,8\n", "line 7, column upper: wanted an integer"),
        ('id,lower,upper,size\n"a\nb",0,1,8\nc,0,1,x\n', "line 4, column size: wanted an integer"),
        ('id,lower,upper,size\n"a\nb",0,1,y\n', "line 2, column size: wanted an integer"),
        ("\n\nid,lower,upper,size,colour\n", "line 3: there is no column 'colour'"),
        ("id,lower,upper,size,offset\n0,0,1,8,1_0\n", "line 2, column offset: wanted an integer .*, given '1_0'"),
        ("id,lower,upper,size,gaps\n0,0,9,8,٣-4\n", "line 2, column gaps: wanted lower-upper"),
        ("id,lower,upper,size,offset\n0,0,1,8,-8\n", "column offset: wanted 0 or more, or nothing, given -8"),
        (
            "id,lower,upper,size,gaps\n0,0,9,8,1:2\n",
            "column gaps: wanted lower-upper or lower-upper@low:high, given '1:2'",
        ),
        ("id,lower,upper,size\na,0,1,8\na,0,1,8\n", "two buffers are named 'a'"),
        ("id,lower,upper,size\n0,3,3,8\n", "a lifetime of 1 step"),
    ],
)
def test_tables_that_are_none(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Problem.from_csv(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "this is no JSON"),
        ("[]", "wanted an object with sizes, lower, upper"),
        ('{"sizes": [], "lower": []}', "no field says upper"),
        ('{"sizes": [], "lower": [], "upper": [], "colour": 1}', "there is no field 'colour'"),
        ('{"sizes": [8], "lower": [0], "upper": [1], "gaps": [[0]]}', "a field is of another form"),
        ('{"sizes": [8], "lower": [0], "upper": [1], "uses": 3}', "a field is of another form"),
        ('{"sizes": ["8"], "lower": [0], "upper": [1]}', "wanted integers"),
    ],
)
def test_objects_that_are_none(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Problem.from_json(text)


def test_what_minimalloc_has_no_column_for() -> None:
    with pytest.raises(PlanError, match="no column for groups; to_json has"):
        Problem([8, 8], [0, 0], [1, 1], groups=[1, 1]).to_csv()
    with pytest.raises(PlanError, match="1 offsets for 2 buffers"):
        Problem([8, 8], [0, 0], [1, 1]).to_csv([0])


def test_problems_of_a_seed() -> None:
    for make in (tiling, pinwheel, uniform, skewed, concurrent):
        one = make(101, seed=3)
        assert len(one) == 101
        assert same(one, make(101, seed=3))
        assert not same(one, make(101, seed=4))
    for make in (tiling, pinwheel):
        for seed in range(3):
            problem = make(41, seed)
            load = np.zeros(int(problem.upper.max()), int)
            for size, low, up in zip(problem.sizes, problem.lower, problem.upper, strict=True):
                load[low:up] += size
            assert set(load.tolist()) == {problem.capacity}  # full at every step
    with pytest.raises(PlanError, match=r"1 \+ 4 k tiles, given 100; 101 is near"):
        pinwheel(100)
    assert tiling(50, capacity=1024).max_load == 1024  # cut in time only
    with pytest.raises(PlanError, match="cannot be cut into 5 tiles"):
        pinwheel(5, capacity=3000)
    for make, said, words in (
        (tiling, {"count": 0}, "wanted 1 buffers or more, given 0"),
        (tiling, {"count": 2.5}, "wanted 1 buffers or more, given 2.5"),
        (tiling, {"count": 2, "capacity": 0}, "wanted 1 bytes of capacity or more, given 0"),
        (uniform, {"count": 2, "live": 0}, "wanted 1 buffers alive or more, given 0"),
        (skewed, {"count": 2, "live": -1}, "wanted 1 buffers alive or more, given -1"),
        (concurrent, {"count": 2, "streams": 0}, "wanted 1 streams or more, given 0"),
    ):
        with pytest.raises(PlanError, match=words):
            make(**said)


def test_streams_that_never_meet_share_nothing() -> None:
    problem = concurrent(20, meeting=0.0)
    assert problem.uses is not None
    assert not any(problem.uses.apart(0)[1::2])
    for allocator in ALLOCATORS.values():
        check(problem, answered(allocator, problem))
