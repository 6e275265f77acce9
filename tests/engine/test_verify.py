"""A plan is refuted, in words, where it contradicts itself; plans are built by hand (`engine/verifying`)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import Buffer, Instruction, Slot
from nnc_func.engine.verifying.arena_overlap import apart, check_arena
from nnc_func.engine.verifying.columns import check_numbers
from nnc_func.engine.verifying.verify import verify
from nnc_func.errors import PlanError
from nnc_func.facets.kernels import reference
from nnc_func.facets.views import View
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.move import permute_dims, reshape

SQUARE = Aval((4, 4), "float32")
FLAT = Aval((16,), "float32")
partly = evolve(add, name="partly", kernels=(reference(lambda xp, a, b: a + b, overwrites=(1,)),))


wanting = evolve(
    multiply, kernels=(reference(lambda xp, a, b: a * b, scratch=lambda avals: (((4, 4), "float32"),), name="wanting"),)
)


def step(op: Any, operands: tuple[int, ...], *results: int, view: bool = False, **facts: Any) -> Instruction:
    kernel = facts.pop("kernel", "view" if view else op.kernels[0].name)
    scratch, origin = facts.pop("scratch", ()), facts.pop("origin", ())
    return Instruction(op, op.canonical(facts), kernel, operands, results, scratch, view, origin)


#  t  slots: 0 input, 1 variable, 2 constant                    buffers: 0 input, 1 variable, 2 constant
#  0  3 = add(0, 2)        buffer 3, arena [0, 4)
#  1  4 = transpose of 3   buffer 3
#  2  5 = multiply(1, 2)   buffer 4, arena [2, 4)
#  3  6 = add(4, 5)        buffer 4, in place
#  4  7 = add(6, 6)        buffer 5, output 0
#  5  8 = multiply(1, 2)   buffer 1, the variable, in place: update 0
def good() -> Plan:
    return Plan(
        instructions=(
            step(add, (0, 2), 3),
            step(permute_dims, (3,), 4, view=True),
            step(multiply, (1, 2), 5),
            step(add, (4, 5), 6),
            step(add, (6, 6), 7),
            step(multiply, (1, 2), 8),
        ),
        slots=tuple(Slot(b, SQUARE, i == 4) for i, b in enumerate((0, 1, 2, 3, 3, 4, 4, 5, 1))),
        buffers=(
            Buffer("input", 64, source=0),
            Buffer("variable", 64, source=0),
            Buffer("constant", 64, source=0),
            Buffer("arena", 64, 0, 4, 0),
            Buffer("arena", 64, 2, 5, 64),
            Buffer("output", 64, source=0),
        ),
        inputs=(0,),
        variables=(1,),
        constants=(2,),
        outputs=(7,),
        updates=((0, 8),),
        commit=5,
        arena_bytes=128,
        alignment=64,
    )


def changed(plan: Plan, field: str, at: int, value: Any = None, **fields: Any) -> Plan:
    """The plan with one entry replaced, or evolved."""
    rows = list(getattr(plan, field))
    rows[at] = evolve(rows[at], **fields) if fields else value
    entries: dict[str, Any] = {field: tuple(rows)}
    return evolve(plan, **entries)


def test_a_plan_that_holds_is_accepted() -> None:
    plan = good()
    assert plan.verify() is plan


def test_an_empty_plan_is_accepted() -> None:
    verify(Plan((), (), (), (), (), (), (), (), 0, 0, 64))


REFUTED: dict[str, tuple[Callable[[Plan], Plan], str]] = {
    "read before made": (
        lambda p: changed(p, "instructions", 0, operands=(0, 5)),
        r"instruction 0 \(add\) reads slot 5, which nothing has made yet",
    ),
    "no such slot": (lambda p: changed(p, "instructions", 0, operands=(0, 99)), r"instruction 0 \(add\) names slot 99"),
    "no such result": (lambda p: changed(p, "instructions", 0, results=(-1,)), r"names slot -1"),
    "no such buffer": (lambda p: changed(p, "slots", 3, buffer=17), r"slot 3 lives in buffer 17"),
    "no such kind": (lambda p: changed(p, "buffers", 3, kind="heap"), r"buffer 3 is of kind 'heap'"),
    "negative size": (lambda p: changed(p, "buffers", 3, nbytes=-1), r"buffer 3 has -1 bytes"),
    "made twice": (lambda p: changed(p, "instructions", 2, results=(3,)), r"instruction 2 \(multiply\) makes slot 3"),
    "a leaf made": (lambda p: changed(p, "instructions", 5, results=(1,)), r"makes slot 1, which is a leaf already"),
    "too small": (
        lambda p: changed(p, "buffers", 3, nbytes=32),
        r"slot 3 is float32\[4, 4\], 64 bytes, but buffer 3 has 32",
    ),
    "unknown size": (lambda p: changed(p, "slots", 3, aval=Aval(("n", 4), "float32")), r"whose size is not known"),
    "leaf in the arena": (lambda p: evolve(p, inputs=(3,)), r"input 0 is slot 3, but that lives in buffer 3"),
    "leaf of another place": (lambda p: changed(p, "buffers", 0, source=1), r"lives in buffer 0 \(input 1\)"),
    "alive too late": (
        lambda p: changed(p, "buffers", 3, lower=1),
        r"instruction 0 \(add\) makes slot 3 in buffer 3, which is alive in \[1, 4\) only",
    ),
    "dead too early": (
        lambda p: changed(p, "buffers", 3, upper=3),
        r"instruction 3 \(add\) reads slot 4 in buffer 3, which is alive in \[0, 3\) only",  # through the view
    ),
    "never alive": (
        lambda p: evolve(p, buffers=(*p.buffers, Buffer("arena", 0, 3, 3, 0))),
        r"buffer 6 is alive in \[3, 3\)",
    ),
    "overlap": (
        lambda p: changed(p, "buffers", 4, offset=0),
        r"buffers 3 and 4 are both alive at step 2 and overlap: bytes \[0, 64\) and \[0, 64\)",
    ),
    "unaligned": (lambda p: changed(p, "buffers", 4, offset=65), r"offset 65, which is no multiple of 64"),
    "outside": (lambda p: evolve(p, arena_bytes=127), r"buffer 4 takes bytes \[64, 128\) of an arena of 127"),
    "below zero": (lambda p: changed(p, "buffers", 3, offset=-64), r"buffer 3 takes bytes \[-64, 0\)"),
    "no alignment": (lambda p: evolve(p, alignment=0), r"aligned to 0"),
    "a view elsewhere": (
        lambda p: changed(p, "slots", 4, buffer=4),
        r"instruction 1 \(permute_dims\) is a view of slot 3 in buffer 3",
    ),
    "a view by what makes none": (
        lambda p: changed(p, "instructions", 1, op=add, operands=(3, 3)),
        r"marked as a view, but add makes none",
    ),
    "a view that is not marked": (
        lambda p: changed(p, "slots", 4, is_view=False),
        r"instruction 1 .* disagree on whether that is a view",
    ),
    "writes an input": (
        lambda p: changed(p, "slots", 5, buffer=0),
        r"instruction 2 \(multiply\) writes to buffer 0 \(input 0\)",
    ),
    "writes a constant": (lambda p: changed(p, "slots", 3, buffer=2), r"writes to buffer 2 \(constant 0\)"),
    "a variable too early": (lambda p: evolve(p, commit=6), r"before the commit section, which starts at 6"),
    "a variable that has no update": (
        lambda p: evolve(p, updates=()),
        r"instruction 5 \(multiply\) writes to buffer 1 \(variable 0\), which is not where that output or update is",
    ),
    "an update that is nowhere": (lambda p: evolve(p, updates=((0, 9),)), r"names slot 9"),
    "a variable that is not there": (lambda p: evolve(p, updates=((1, 8),)), r"an update of variable 1"),
    "updated twice": (lambda p: evolve(p, updates=((0, 8), (0, 8))), r"an update of variable 0"),
    "another update": (
        lambda p: changed(p, "slots", 8, aval=Aval((2, 4), "float32")),
        r"but the result is float32\[2, 4\]",
    ),
    "an output that is nowhere": (lambda p: evolve(p, outputs=(12,)), r"output 0 names slot 12"),
    "an output elsewhere": (
        lambda p: changed(evolve(p, outputs=(6,)), "buffers", 4, upper=7),
        r"output 0 is slot 6, which lives in buffer 4; it must be copied to a buffer of its own",
    ),
    "an output in the arena": (
        lambda p: evolve(p, outputs=(7, 4)),
        r"output 1 is slot 4, which lives in buffer 3; it must be copied",
    ),
    "an output that is an input": (
        lambda p: evolve(p, outputs=(7, 0)),
        r"output 1 is slot 0, which lives in buffer 0 \(input 0\); it must be",
    ),
    "two outputs in one": (
        lambda p: evolve(p, outputs=(7, 7)),
        r"output 1 is slot 7, which lives in buffer 5 \(output 0\); it must be",
    ),
    "an update that is the old value": (
        lambda p: evolve(p, instructions=p.instructions[:5], updates=((0, 1),)),
        r"the update of variable 0 is slot 1, which is a view or a leaf",
    ),
    "commit out of range": (lambda p: evolve(p, commit=7), r"the commit section starts at 7, of 6"),
    "written over, then read": (
        lambda p: changed(p, "instructions", 4, operands=(6, 5)),
        r"instruction 4 \(add\) reads slot 5 in buffer 4, which instruction 3 \(add\) has written over",
    ),
    "written over, then wanted": (
        lambda p: changed(evolve(p, outputs=(7, 5)), "buffers", 4, upper=7),
        r"output 1 reads slot 5 in buffer 4",
    ),
    "the old value of a variable is an output": (
        lambda p: evolve(p, outputs=(7, 1)),
        r"output 1 reads slot 1 in buffer 1 \(variable 0\), which instruction 5",
    ),
    "in place, not allowed": (
        lambda p: changed(p, "instructions", 3, op=partly, kernel="reference", operands=(5, 4)),
        r"operand 0, slot 5 in buffer 4, which the kernel 'reference' does not allow",
    ),
    "in place, and read elsewhere": (
        lambda p: changed(p, "instructions", 3, op=partly, kernel="reference", operands=(5, 5)),
        r"operand 0, slot 5 in buffer 4, which the kernel 'reference' does not allow",
    ),
    "in place over a transpose": (
        lambda p: changed(changed(p, "slots", 5, buffer=5), "slots", 6, buffer=3),
        r"operand 0, slot 4 in buffer 3, which is a view of other elements, or in another order",
    ),
    "a kernel that is not there": (
        lambda p: changed(p, "instructions", 0, kernel="blas"),
        r"instruction 0 \(add\) has no kernel 'blas'; there are: add",
    ),
    "scratch that nobody wants": (
        lambda p: changed(with_scratch(), "instructions", 2, op=multiply, kernel="multiply"),
        r"the kernel 'multiply' wants scratch \[\], given \[float32\[4, 4\]\]",
    ),
    "another shape than the operator's": (
        lambda p: changed(p, "slots", 7, aval=Aval((2, 2), "float32")),
        r"instruction 4 \(add\) gives float32\[4, 4\], but float32\[2, 2\] is written",
    ),
    "another dtype than the operator's": (
        lambda p: changed(p, "slots", 7, aval=Aval((4, 4), "int32")),
        r"instruction 4 \(add\) gives float32\[4, 4\], but int32\[4, 4\] is written",
    ),
    "a view of another shape": (
        lambda p: changed(p, "slots", 4, aval=Aval((16, 16), "float32")),
        r"instruction 1 \(permute_dims\) gives float32\[4, 4\], but float32\[16, 16\] is written",
    ),
    "too few operands": (
        lambda p: changed(p, "instructions", 4, operands=(6,)),
        r"instruction 4 \(add\) is refused: add\(float32\[4, 4\]\): add takes 2 tensors, given 1",
    ),
    "parameters that it has not": (
        lambda p: changed(p, "instructions", 4, items=(("axis", 0),)),
        r"instruction 4 \(add\) is refused: .*add has no parameter 'axis'",
    ),
    "parameters in another form": (
        lambda p: changed(p, "instructions", 1, items=(("axes", [1, 0]),)),
        r"not in the operator's own order and form",
    ),
    "in place, another dtype": (
        lambda p: changed(p, "slots", 6, aval=Aval((4, 4), "int32")),
        r"slot 5 in buffer 4: float32\[4, 4\], but",
    ),
}


@pytest.mark.parametrize("name", REFUTED)
def test_refuted(name: str) -> None:
    change, words = REFUTED[name]
    with pytest.raises(PlanError, match=words):
        verify(change(good()))


LARGE_NUMBERS = (2**62, -(2**62), 2**63, -(2**63), 2**64, 10**30, True, 1.0, None)


@pytest.mark.parametrize("number", LARGE_NUMBERS)
def test_numbers_are_integers_below_two_to_the_62(number: Any) -> None:
    for field_, at, fields in (
        ("buffers", 3, {"offset": number}),
        ("buffers", 3, {"lower": number}),
        ("slots", 3, {"offset": number}),
        ("slots", 3, {"strides": (16, number)}),
        ("instructions", 0, {"operands": (0, number)}),
        ("instructions", 0, {"waits": (number,)}),
    ):
        with pytest.raises(PlanError, match=r"is no integer below 2⁶²"):
            verify(changed(good(), field_, at, **fields))


def test_in_place_where_the_kernel_allows_it() -> None:
    verify(changed(good(), "instructions", 3, op=partly, kernel="reference", operands=(4, 5)))


def test_a_fresh_output_is_written_once() -> None:
    apart = changed(good(), "slots", 5, buffer=5)  # multiply writes the output's memory, the adds do again
    for twice in (apart, changed(apart, "slots", 6, buffer=5)):
        words = r"instruction [34] \(add\) writes to buffer 5 \(output 0\), which instruction 2 .* wrote before"
        with pytest.raises(PlanError, match=words):
            verify(twice)


def test_an_update_in_place_may_be_a_chain() -> None:
    plan = good()
    chained = evolve(
        plan,
        instructions=(*plan.instructions, step(add, (8, 2), 9)),
        slots=(*plan.slots, Slot(1, SQUARE)),
        updates=((0, 9),),
    )
    verify(chained)
    with pytest.raises(PlanError, match=r"update of variable 0 reads slot 8 .* which instruction 6 .* has written"):
        verify(evolve(chained, updates=((0, 8),)))
    broken = changed(chained, "instructions", 6, operands=(2, 2))
    with pytest.raises(PlanError, match=r"which instruction 5 \(multiply\) wrote before"):
        verify(broken)


def test_a_fresh_update_belongs_to_its_variable() -> None:
    plan = good()
    fresh = changed(evolve(plan, buffers=(*plan.buffers, Buffer("next", 64, source=0))), "slots", 8, buffer=6)
    verify(fresh)
    with pytest.raises(PlanError, match=r"the update of variable 0 is slot 8, which lives in buffer 6 \(next 1\)"):
        verify(changed(fresh, "buffers", 6, source=1))
    second = Buffer("variable", 64, source=1)
    other = evolve(fresh, slots=(*fresh.slots, Slot(7, SQUARE)), buffers=(*fresh.buffers, second))
    with pytest.raises(PlanError, match=r"the update of variable 1 is slot 8, which lives in buffer 6 \(next 0\)"):
        verify(evolve(other, variables=(1, 9), updates=((0, 8), (1, 8))))


def test_an_update_is_no_view() -> None:
    plan = good()
    turned = evolve(
        plan,
        instructions=(*plan.instructions, step(permute_dims, (8,), 9, view=True)),
        slots=(*plan.slots, Slot(1, SQUARE, True)),
        updates=((0, 9),),
    )
    with pytest.raises(PlanError, match=r"the update of variable 0 is slot 9, which is a view or a leaf"):
        verify(turned)


def test_what_only_contiguous_memory_can_show_is_no_view_of_a_transpose() -> None:
    plan = good()
    flat = changed(changed(plan, "slots", 6, buffer=3, aval=FLAT, is_view=True), "buffers", 3, upper=5)
    seen = changed(flat, "instructions", 3, step(reshape, (3,), 6, view=True, shape=(16,)))
    verify(changed(changed(seen, "slots", 7, aval=FLAT), "buffers", 4, upper=3))
    with pytest.raises(PlanError, match=r"a view of slot 4, which is not contiguous: reshape has to copy there"):
        verify(changed(seen, "instructions", 3, step(reshape, (4,), 6, view=True, shape=(16,))))


def test_a_view_of_an_operand_that_is_not_there() -> None:
    odd = evolve(permute_dims, view=View(argument=1))
    with pytest.raises(PlanError, match=r"has no operand 1 to be a view of"):
        verify(changed(good(), "instructions", 1, op=odd))


def with_scratch(**fields: Any) -> Plan:
    """Instruction 2 with a scratch slot 9 in buffer 6."""
    plan = good()
    buffer = evolve(Buffer("arena", 64, 2, 3, 128), **fields)
    plan = evolve(plan, slots=(*plan.slots, Slot(6, SQUARE)), buffers=(*plan.buffers, buffer), arena_bytes=192)
    return changed(plan, "instructions", 2, op=wanting, kernel="wanting", scratch=(9,))


def test_scratch_is_memory_of_its_own() -> None:
    verify(with_scratch())
    for fields, words in (
        ({"lower": 0, "upper": 2}, r"makes slot 9 in buffer 6, which is alive in \[0, 2\) only"),
        ({"kind": "next", "source": 0}, r"slot 9 as scratch, in buffer 6 \(next 0\), not in the arena"),
        ({"nbytes": 32}, r"slot 9 is float32\[4, 4\], 64 bytes, but buffer 6 has 32"),
        ({"offset": 0}, r"buffers 3 and 6 are both alive at step 2"),
    ):
        with pytest.raises(PlanError, match=words):
            verify(with_scratch(**fields))
    shared = changed(with_scratch(), "slots", 9, buffer=4)
    with pytest.raises(PlanError, match=r"instruction 2 \(multiply\) writes buffer 4 twice"):
        verify(shared)
    read = changed(changed(with_scratch(), "slots", 9, buffer=3), "instructions", 2, operands=(3, 2))
    with pytest.raises(PlanError, match=r"has buffer 3 as scratch and uses it for something else"):
        verify(read)
    over = changed(with_scratch(), "slots", 9, buffer=3)
    with pytest.raises(PlanError, match=r"reads slot 4 in buffer 3, which instruction 2 \(multiply\) has written over"):
        verify(over)


def test_the_line_of_the_user_is_named() -> None:
    plan = changed(good(), "instructions", 0, operands=(0, 5), origin=("model.py:12", "loss"))
    with pytest.raises(PlanError, match=r"instruction 0 \(add at model\.py:12 in loss\)"):
        verify(plan)


def arena(rows: list[tuple[int, int, int, int]]) -> Plan:
    """A plan that has nothing but an arena: rows of (size, lower, upper, offset)."""
    buffers = tuple(Buffer("arena", *row) for row in rows)
    return Plan((), (), buffers, (), (), (), (), (), 0, 1 << 40, 1)


def clash(rows: list[tuple[int, int, int, int]]) -> bool:
    """Whether two overlap, by looking at every pair."""
    return any(
        a[1] < b[2] and b[1] < a[2] and a[3] < b[3] + b[0] and b[3] < a[3] + a[0] and a[0] and b[0]
        for i, a in enumerate(rows)
        for b in rows[:i]
    )


ROW = st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(1, 4), st.integers(0, 12)).map(
    lambda r: (r[0], r[1], r[1] + r[2], r[3])
)


@given(st.lists(ROW, max_size=8))
def test_the_sweep_finds_an_overlap_exactly_where_two_overlap(rows: list[tuple[int, int, int, int]]) -> None:
    if clash(rows):
        with pytest.raises(PlanError, match="overlap"):
            check_arena(plan := arena(rows), check_numbers(plan))
    else:
        check_arena(plan := arena(rows), check_numbers(plan))


@given(st.lists(ROW.filter(lambda r: r[0]), max_size=8))
def test_no_two_overlap_just_where_those_in_each_piece_follow_each_other(rows: list[tuple[int, int, int, int]]) -> None:
    size, lower, upper, low = np.array(rows, np.int64).reshape(-1, 4).T
    assert apart(low, low + size, lower, upper) == (not clash(rows))


def test_what_takes_long_to_cut_up_is_swept() -> None:
    """A buffer beside each of many small ones: each but the small ones has as many pieces as these are."""
    small = [(1, 0, 1, place) for place in range(100)]
    large = [(100, t, t + 1, 0) for t in range(1, 100)]
    size, lower, upper, low = np.array(small + large, np.int64).T
    assert not apart(low, low + size, lower, upper)
    check_arena(plan := arena(small + large), check_numbers(plan))
    late = [(1, 0, 2, 7), *small[1:], *large]
    with pytest.raises(PlanError, match="overlap"):
        check_arena(plan := arena(late), check_numbers(plan))


def test_each_place_has_an_arena_of_its_own() -> None:
    rows = [("gpu", 8, 0, 2, 0), (None, 8, 0, 2, 0), ("gpu", 8, 1, 3, 8), (None, 8, 1, 3, 8)]

    def placed(rows: Any) -> Plan:
        buffers = tuple(Buffer("arena", *row, place=place) for place, *row in rows)
        return Plan((), (), buffers, (), (), (), (), (), 0, 16, 1, elsewhere=(("gpu", 16),))

    check_arena(plan := placed(rows), check_numbers(plan))
    with pytest.raises(PlanError, match="buffers 0 and 2 are both alive at step 1 and overlap"):
        check_arena(plan := placed([*rows[:2], ("gpu", 8, 1, 3, 4), rows[3]]), check_numbers(plan))
    with pytest.raises(PlanError, match=r"buffer 2 takes bytes \[9, 17\) of an arena of 16"):
        check_arena(plan := placed([*rows[:2], ("gpu", 8, 1, 3, 9), rows[3]]), check_numbers(plan))


@pytest.mark.parametrize("seed", range(3))
def test_one_overlap_among_thousands_is_found(seed: int) -> None:
    draw = random.Random(seed)
    places = draw.sample(range(2000), 2000)
    rows = [(8, t, t + draw.randrange(1, 900), 8 * place) for t, place in enumerate(places)]
    check_arena(plan := arena(rows), check_numbers(plan))
    one, other = sorted(draw.sample(range(1000), 2))
    size, lower, _, offset = rows[one]
    rows[one] = (size, lower, other + 1, offset)
    rows[other] = (size, other, other + 5, offset + draw.randrange(-7, 8) if offset else 3)
    assert clash(rows)
    with pytest.raises(PlanError, match="overlap"):
        check_arena(plan := arena(rows), check_numbers(plan))
