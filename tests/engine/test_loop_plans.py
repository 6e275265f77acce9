"""Plans of loops are read back, saved, verified and refused (`engine/loop_instruction`, `engine/files/loops`)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.engine.plan import Plan
from nnc_func.engine.running.program import Program
from nnc_func.errors import GraphError, PlanError
from tests.engine.drawn_loops import (
    ALL,
    DECAY,
    DELAYED,
    EXACT,
    LAZY,
    SHAPE,
    TANH,
    Drawn,
    agree,
    compiled,
    loops,
)

# --- text, files ---------------------------------------------------------------------------------------------


@given(loops())
def test_a_plan_with_a_loop_is_read_back_as_it_was(drawn: Drawn) -> None:
    plan = compiled(drawn).plan
    text = plan.text()
    again = Plan.parse(text)
    assert again == plan
    assert again.text() == text
    again.verify()


@pytest.mark.parametrize("drawn", ALL)
def test_a_program_with_a_loop_is_saved_and_loaded(drawn: Drawn, tmp_path: Path) -> None:
    program, arrays = compiled(drawn), drawn.arrays()
    program.save(tmp_path / "loop.nnc")
    loaded = nnc.load_program(tmp_path / "loop.nnc", EXACT)
    assert loaded.plan == program.plan
    agree(loaded(*arrays), program(*arrays))
    assert loaded.graph.nodes  # which is held against the plan


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  times 5 carried 1\n", "", "wanted 'times'"),
        ("  read 1 then 2\n", "  read then 2\n", "integer|number"),
        ("  write 2\n", "  wrote 2\n", "wanted read, write, copy or number"),
        ("}", "", "in braces stand a plan"),
    ],
)
def test_text_that_is_no_loop_is_refused_with_its_line(old: str, new: str, said: str) -> None:
    text = compiled(DECAY).plan.text()
    assert old in text
    with pytest.raises(GraphError, match=rf"line \d+.*({said})"):
        Plan.parse(text.replace(old, new, 1) if old != "}" else "\n".join(r for r in text.splitlines() if r != "}"))


# --- verification --------------------------------------------------------------------------------------------


def altered(loop: Loop, draw: random.Random, arrays: int) -> Loop:
    """One number of it changed."""

    def number(n: int) -> int:
        return max(0, draw.choice([n - 1, n + 1, draw.randrange(arrays)]))

    def address(a: Address) -> Address:
        kind = draw.randrange(6)
        if kind == 0 and a.first:
            at = draw.randrange(len(a.first))
            return evolve(a, first=(*a.first[:at], number(a.first[at]), *a.first[at + 1 :]))
        if kind == 1 and a.first:
            return evolve(a, first=a.first[1:])
        if kind == 2:
            return evolve(a, cycle=(*a.cycle[1:], a.cycle[0]), step=a.step)
        if kind == 3:
            return evolve(a, step=1 - a.step)
        if kind == 4:
            return evolve(a, start=number(a.start))
        at = draw.randrange(len(a.cycle))
        return evolve(a, cycle=(*a.cycle[:at], number(a.cycle[at]), *a.cycle[at + 1 :]))

    kind = draw.randrange(8)
    if kind == 6:
        which = draw.choice(["limit", "condition"])
        was = getattr(loop, which)
        return evolve(loop, **{which: draw.randrange(arrays) if was is None else draw.choice([None, number(was)])})
    if kind == 7:
        return evolve(loop, ends=(*loop.ends[1:], number(loop.ends[0])) if loop.ends else (draw.randrange(arrays),))
    if kind == 0:
        return evolve(loop, count=number(loop.count))
    if kind == 1 and loop.writes:
        at = draw.randrange(len(loop.writes))
        return evolve(loop, writes=(*loop.writes[:at], address(loop.writes[at]), *loop.writes[at + 1 :]))
    if kind == 2:
        return evolve(loop, copies=loop.copies[1:] if loop.copies else ((0, draw.randrange(arrays), None),))
    if kind == 3 and loop.gives:
        at = draw.randrange(len(loop.gives))
        return evolve(loop, gives=(*loop.gives[:at], number(loop.gives[at]), *loop.gives[at + 1 :]))
    if kind == 4 and loop.carried:
        return evolve(loop, carried=(*loop.carried[1:], number(loop.carried[0])))
    at = draw.randrange(len(loop.reads))
    return evolve(loop, reads=(*loop.reads[:at], address(loop.reads[at]), *loop.reads[at + 1 :]))


@pytest.mark.parametrize("drawn", ALL)
def test_a_loop_that_is_changed_is_refused_or_computes_the_same(drawn: Drawn) -> None:
    program, draw = compiled(drawn), random.Random(0)
    times = [drawn] if drawn.times is None else [evolve(drawn, times=n) for n in (3, 0, 1, 5, 9)]
    given = [each.arrays(seed) for each in times for seed in ((0, 1, 4) if drawn.conditional else (0,))]
    wanted = [program(*arrays) for arrays in given]
    (t,) = (t for t, i in enumerate(program.plan.instructions) if i.loops)
    row = program.plan.instructions[t]
    count = len(row.operands) + len(row.results) + len(row.scratch)
    refused = 0
    for _ in range(200):
        assert row.loops
        loop = altered(row.loops[0], draw, count)
        instructions = [*program.plan.instructions]
        instructions[t] = evolve(row, loops=(loop,))
        plan = evolve(program.plan, instructions=tuple(instructions))
        if loop == row.loops[0]:
            continue
        try:
            plan.verify()
        except PlanError:
            refused += 1
            continue
        other = Program(plan, EXACT.device, [], [])
        for arrays, each in zip(given, wanted, strict=True):
            agree(other(*arrays), each)
    assert refused > 50


def test_a_body_that_computes_something_else_is_refused() -> None:
    text = compiled(DECAY).plan.text()
    with pytest.raises(PlanError, match="is not result 0 of the body"):
        Plan.parse(text.replace("tanh(%2) [tanh]", "sin(%2) [sin]")).verify()
    with pytest.raises(PlanError, match=r"instruction 0.*the loop there"):
        Plan.parse(text.replace("read 1 then 2", "read 1 then 1")).verify()
    lines = text.splitlines()
    without = Plan.parse("\n".join([*lines[: lines.index("{")], *lines[lines.index("}") + 1 :]]))
    with pytest.raises(PlanError, match="no kernel 'planned'"):
        without.verify()


@pytest.mark.parametrize("kind", ["update", "slot"])
def test_a_body_whose_numbers_name_nothing_is_refused(kind: str) -> None:
    x, c = LAZY.input("x", SHAPE, "float64"), LAZY.input("c", SHAPE, "float64")
    (y,) = LAZY.ops.loop(c, LAZY.ops.sort(x), **DECAY.params)
    plan = LAZY.compile([x, c], LAZY.ops.sort(y)).plan  # the loop lies over its operand, which is looked at first
    (t,) = (t for t, i in enumerate(plan.instructions) if i.loops)
    (loop,) = plan.instructions[t].loops
    inner = loop.plan
    if kind == "update":
        inner = evolve(inner, updates=((1, inner.updates[0][1]),))
    else:
        inner = evolve(inner, slots=(*inner.slots[:1], evolve(inner.slots[1], buffer=99), *inner.slots[2:]))
    rows = [*plan.instructions]
    rows[t] = evolve(rows[t], loops=(evolve(loop, plan=inner),))
    with pytest.raises(PlanError):
        evolve(plan, instructions=tuple(rows)).verify()


def test_carries_that_pass_on_through_many_are_verified_soon() -> None:
    count = 200
    body = Body.of(count, (TANH, 0), results=(*range(1, count), count))
    null = nnc.lazy(nnc.Null())
    inputs = [null.input(f"x{n}", (1,), "float64") for n in range(count)]
    plan = null.compile(inputs, list(null.ops.loop(*inputs, body=body, carries=count, length=10**9))).plan
    start = time.perf_counter()
    plan.verify()
    assert time.perf_counter() - start < 5  # it took 15 s, of which all was for what nobody had asked


def test_a_loop_of_any_count_is_verified_at_once() -> None:
    for count in (10**3, 10**15):
        x = LAZY.input("x", (2,), "float64")
        null = nnc.lazy(nnc.Null())
        x = null.input("x", (2,), "float64")
        found = null.ops.loop(x, x, x, body=DELAYED.body, carries=3, length=count)
        assert null.compile([x], list(found)).plan.verify().arena_bytes == 64
