"""What a loop stacks lies over rows that it has read (`engine/planning/row_reuse`, `engine/verifying/loops`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.engine.planning import in_place_reuse
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.row_reuse import distance
from nnc_func.errors import PlanError
from nnc_func.models import get
from tests.engine.test_configurations import spec

EAGER, LAZY = nnc.eager(), nnc.lazy()


def without(draft: Draft) -> Draft:
    """Values take over memory as a whole only."""
    in_place_reuse.share(draft)
    return draft


APART = LAZY.swap(engine=LAZY.engine.with_passes(in_place=without))


def widened(stack: Any, x: Any, widths: tuple[int, ...], directions: tuple[bool, ...]) -> Any:
    """Loops one after the other, each of which sorts the rows of the one before, beside what it carries."""
    ops = stack.ops
    y = ops.sort(x, axis=1)
    for width, reverse in zip(widths, directions, strict=True):

        def step(row: Any, carry: Any, width: int = width) -> Any:
            return ops.cumulative_sum(ops.tile(row, repetitions=(width,)), axis=0) + carry, carry + ops.sum(row)

        y, _ = stack.foreach(step, y, ops.sum(y[0]), reverse=reverse)
    return ops.sort(y, axis=1).sum()


def compiled(stack: Any, shape: tuple[int, int], dtype: str, widths: tuple[int, ...], directions: Any) -> Any:
    x = stack.input("x", shape, dtype)
    return stack.compile([x], widened(stack, x, widths, directions))


@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("width", [1, 3])
def test_two_arrays_take_hardly_more_than_the_larger(reverse: bool, width: int) -> None:
    """Ten rows are read and ten are written, in memory for eleven."""
    shape, rows = (10, 1000), 8 * 1000
    plan = compiled(LAZY, shape, "float64", (width,), (reverse,)).plan
    apart = compiled(APART, shape, "float64", (width,), (reverse,)).plan
    assert apart.arena_bytes > 10 * rows * (1 + width)
    assert plan.arena_bytes < apart.arena_bytes - 8.5 * rows
    (loop,) = [i for i in plan.instructions if i.loops]
    read, written = plan.slots[loop.operands[-1]], plan.slots[loop.results[-1]]
    assert read.buffer == written.buffer


def test_the_tape_of_a_recurrent_layer_lies_between_what_it_is_made_of_and_its_slopes() -> None:
    """Two arrays in one memory would raise the peak of one of the loops; three lower both."""
    model = get("char-lstm")

    def plan(stack: Any) -> Any:
        return stack.engine.compile(model.make(stack, 8, True, seed=None)).plan

    null = nnc.lazy(nnc.Null())
    made, apart = plan(null), plan(null.swap(engine=null.engine.with_passes(in_place=without)))
    assert made.arena_bytes < 0.85 * apart.arena_bytes
    forward, backward = [i for i in made.instructions if i.loops]
    homes = [{made.slots[s].buffer for s in slots} for slots in (forward.operands, forward.results, backward.results)]
    assert homes[0] & homes[1] & homes[2]


@st.composite
def chains(draw: Any) -> Any:
    """Rows, their bytes, and how loops widen them."""
    count = draw(st.integers(1, 3))
    shape = draw(st.integers(1, 7)), draw(st.sampled_from([1, 3, 17, 64, 400]))
    widths = tuple(draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))
    directions = tuple(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return shape, draw(st.sampled_from(["float32", "float64"])), widths, directions


@given(chains(), st.integers(1, 2))
def test_values_are_the_eager_stacks(chain: Any, streams: int) -> None:
    shape, dtype, widths, directions = chain
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(dtype)
    wanted = widened(EAGER, EAGER.asarray(x), widths, directions).numpy()
    several = LAZY.swap(engine=LAZY.engine.with_streams(streams))
    with spec(3):  # memory is poisoned
        program = compiled(several, *chain)
        program.plan.verify()
        for _ in range(2):
            np.testing.assert_allclose(program(x), wanted, rtol=1e-4 if dtype == "float32" else 1e-12)
    assert program.plan.arena_bytes <= compiled(APART, *chain).plan.arena_bytes


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([1, 8, 64]),
)
def test_rows_are_so_near_as_may_be(rows: tuple[int, int], count: int, reverse: bool, alignment: int) -> None:
    """No row is written over one that is still to be read; one step nearer, and some row is."""

    def harmless(apart: int) -> bool:
        for at in range(count):
            still = [*range(at + 1)] if reverse else [*range(at, count)]
            first, last = min(still) * rows[0], (max(still) + 1) * rows[0]
            begins, ends = apart + at * rows[1], apart + (at + 1) * rows[1]
            if begins < last and first < ends:
                return False
        return True

    apart = distance(rows, count, reverse, alignment)
    assert apart % alignment == 0
    assert harmless(apart)
    assert not harmless(apart + (-alignment if reverse else alignment))


@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_plan_whose_rows_are_nearer_is_refused(reverse: bool) -> None:
    plan = compiled(LAZY, (10, 1000), "float64", (2,), (reverse,)).plan
    plan.verify()
    (loop,) = [i for i in plan.instructions if i.loops]
    both = {loop.operands[-1], loop.results[-1]}
    moved = [n for n in both if plan.slots[n].offset]
    assert moved
    for n in moved:
        slots = [evolve(s, offset=s.offset - 64) if m == n else s for m, s in enumerate(plan.slots)]
        with pytest.raises(PlanError, match=r"writes over its operand|reads slot"):
            evolve(plan, slots=tuple(slots)).verify()


def test_arrays_that_a_loop_does_not_take_are_refused_with_words() -> None:
    """Whether rows lie over others is asked before all else is known to be right."""
    plan = compiled(LAZY, (10, 1000), "float64", (2,), (False,)).plan
    (loop,) = [i for i in plan.instructions if i.loops]
    for n in (loop.operands[-1], loop.results[-1]):
        for shape in ((), (10,), (0, 1000), (9, 1000)):
            slots = list(plan.slots)
            slots[n] = evolve(slots[n], aval=Aval(shape, "float64"))
            with pytest.raises(PlanError):
                evolve(plan, slots=tuple(slots)).verify()


def test_what_is_read_otherwise_too_keeps_its_memory() -> None:
    """As a whole each time, or by what comes later."""

    def arena(stack: Any, late: bool) -> tuple[int, int]:
        ops, x = stack.ops, stack.input("x", (10, 1000), "float64")
        rows = ops.sort(x, axis=1)

        def step(row: Any, carry: Any) -> Any:
            return row * 2 + carry, carry + (0.0 if late else ops.sum(ops.sin(rows * carry)))

        y, _ = stack.foreach(step, rows, ops.sum(x))
        total = ops.sort(y, axis=1).sum()
        made = stack.compile([x], total + (ops.sum(ops.sin(rows * total)) if late else 0.0))
        (loop,) = [i for i in made.plan.instructions if i.loops]
        homes = [made.plan.slots[s].buffer for s in (*loop.operands, *loop.results)]
        return made.plan.arena_bytes, len({*homes})

    for late in (False, True):
        assert arena(LAZY, late) == arena(APART, late)


def test_a_program_is_saved_and_loaded(tmp_path: Path) -> None:
    program = compiled(LAZY, (10, 100), "float64", (2, 1), (False, False))
    program.save(tmp_path / "rows.nnc")
    loaded = nnc.load_program(tmp_path / "rows.nnc", LAZY)
    assert loaded.plan == program.plan
    x = np.random.default_rng(0).uniform(size=(10, 100))
    np.testing.assert_array_equal(loaded(x), program(x))
