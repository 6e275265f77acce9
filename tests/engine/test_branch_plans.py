"""Branches are planned in place, saved, verified, refused (`engine/planning/branches`, `engine/verifying/branches`)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.engine.plan import Plan
from nnc_func.engine.running.program import Program
from nnc_func.errors import PlanError, RunError
from nnc_func.graph.ops import CATALOGUE as OPS
from tests.engine.drawn_loops import EXACT, agree

SHAPE = (3, 3)
ADD, TANH, SORT, MATMUL = (OPS[name] for name in ("add", "tanh", "sort", "matmul"))


@frozen
class Chosen:
    """A branch between bodies of two operands."""

    bodies: tuple[Body, ...]
    default: bool = False

    def compiled(self) -> Any:
        """Its program, of an index and operands that die in it."""
        index, x, y = (EXACT.input(n, s, d) for n, s, d in (("i", (), "int64"), ("x", SHAPE, "float64"),
                                                            ("y", SHAPE, "float64")))  # fmt: skip
        o = EXACT.ops
        given = o.sort(x, axis=0), o.sort(y, axis=1)
        found = o.branch(index, *given, bodies=self.bodies, default=self.default)
        return EXACT.compile([index, x, y], [o.sort(each, axis=0) for each in found])

    def wanted(self, index: int, *arrays: Any) -> list[Any]:
        """What it is to give."""
        body = self.bodies[index if 0 <= index < len(self.bodies) else -1]
        given = np.sort(arrays[0], axis=0), np.sort(arrays[1], axis=1)
        values = body.values(lambda op, xs, items: nnc.NumPy().bind(op, *xs, **dict(items)), given)
        return [np.sort(values[n], axis=0) for n in body.results]


PASSED = Chosen((Body.of(2, results=(0,)), Body.of(2, (TANH, 0), results=(2,))))
SWAPPED = Chosen((Body.of(2, results=(0, 1)), Body.of(2, results=(1, 0)), Body.of(2, (ADD, 0, 1), results=(2, 0))))
APART = Chosen((Body.of(2, (MATMUL, 0, 1), results=(2,)), Body.of(2, (SORT, 1), (TANH, 2), results=(3,))), default=True)
SEVERAL = Chosen(
    (
        Body.of(2, (MATMUL, 0, 1), (ADD, 2, 0), results=(3, 1)),
        Body.of(2, (TANH, 0), (ADD, 1, 1), results=(2, 3)),
        Body.of(2, (TANH, 1), results=(0, 2)),
    ),
    default=True,
)
ALL = (PASSED, SWAPPED, APART, SEVERAL)


def arrays(seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.uniform(-1, 1, SHAPE) for _ in range(2)]


def instruction(plan: Plan) -> int:
    (t,) = (t for t, i in enumerate(plan.instructions) if i.loops)
    return t


@pytest.mark.parametrize("each", ALL)
def test_each_body_is_computed(each: Chosen) -> None:
    program = each.compiled()
    assert len(program.plan.verify().instructions[instruction(program.plan)].loops) == len(each.bodies)
    for index in range(-1, len(each.bodies) + 1):
        if each.default or 0 <= index < len(each.bodies):
            agree(program(np.asarray(index), *arrays(index + 1)), each.wanted(index, *arrays(index + 1)))
        else:
            with pytest.raises(RunError, match=f"index {index} chooses none of {len(each.bodies)} branches"):
                program(np.asarray(index), *arrays())


@pytest.mark.parametrize("each", ALL)
def test_plans_are_read_back_and_saved(each: Chosen, tmp_path: Path) -> None:
    program = each.compiled()
    text = program.plan.text()
    again = Plan.parse(text)
    assert again == program.plan
    assert again.text() == text
    program.save(tmp_path / "branch.nnc")
    loaded = nnc.load_program(tmp_path / "branch.nnc", EXACT)
    assert loaded.plan == program.plan
    for index in range(len(each.bodies)):
        agree(loaded(np.asarray(index), *arrays()), each.wanted(index, *arrays()))


def test_what_some_body_passes_on_lies_where_it_lay() -> None:
    """The other body writes over it."""
    plan = PASSED.compiled().plan
    row = plan.instructions[instruction(plan)]
    assert plan.slots[row.results[0]].buffer == plan.slots[row.operands[1]].buffer
    assert not row.scratch


def test_results_of_bodies_share_memory_and_nothing_is_filled() -> None:
    plan = APART.compiled().plan
    inner = [i.op.name for t in plan.instructions for loop in t.loops for i in loop.plan.instructions]
    assert not {"full", "fill", "copy"} & {i.op.name for i in plan.instructions} | {"full", "copy"} & {*inner}


def altered(loop: Loop, draw: random.Random, count: int) -> Loop:
    """One number of it changed."""

    def address(a: Address) -> Address:
        kind = draw.randrange(3)
        if kind == 0:
            return Address((draw.randrange(count),))
        return Address(a.cycle, step=1) if kind == 1 else Address(a.cycle, first=(draw.randrange(count),))

    kind = draw.randrange(6)
    if kind == 0 and loop.writes:
        at = draw.randrange(len(loop.writes))
        return evolve(loop, writes=(*loop.writes[:at], address(loop.writes[at]), *loop.writes[at + 1 :]))
    if kind == 1:
        at = draw.randrange(len(loop.reads))
        return evolve(loop, reads=(*loop.reads[:at], address(loop.reads[at]), *loop.reads[at + 1 :]))
    if kind == 2 and loop.copies:
        at = draw.randrange(len(loop.copies))
        row = (draw.randrange(3), draw.randrange(count), draw.choice([None, 0]))
        return evolve(loop, copies=(*loop.copies[:at], *draw.choice([(), (row,)]), *loop.copies[at + 1 :]))
    if kind == 3:
        return evolve(loop, count=draw.randrange(4), limit=draw.choice([None, 0]))
    if kind == 4 and loop.carried:
        return evolve(loop, carried=(1 - loop.carried[0], *loop.carried[1:]))
    return evolve(loop, gives=tuple([draw.randrange(3) for _ in loop.gives])) if loop.gives else loop


@pytest.mark.parametrize("each", ALL)
def test_a_branch_that_is_changed_is_refused_or_computes_the_same(each: Chosen) -> None:
    program, draw = each.compiled(), random.Random(0)
    t = instruction(program.plan)
    row = program.plan.instructions[t]
    count = len(row.operands) + len(row.results) + len(row.scratch)
    refused = 0
    for _ in range(200):
        at = draw.randrange(len(row.loops))
        loops = [*row.loops]
        kind = draw.randrange(8)
        if kind == 7:
            loops = loops[:-1]
        elif kind == 6:
            loops.reverse()
        else:
            loops[at] = altered(loops[at], draw, count)
        if tuple(loops) == row.loops:
            continue
        instructions = [*program.plan.instructions]
        instructions[t] = evolve(row, loops=tuple(loops))
        plan = evolve(program.plan, instructions=tuple(instructions))
        try:
            plan.verify()
        except PlanError:
            refused += 1
            continue
        other = Program(plan, EXACT.device, [], [])
        for index in range(len(each.bodies)):
            agree(other(np.asarray(index), *arrays()), each.wanted(index, *arrays()))
    assert refused > 50


def test_a_result_over_what_a_body_reads_is_refused() -> None:
    """Of two operands one may lie there, which all bodies pass on or compute in place, and the other not."""
    plan = SEVERAL.compiled().plan
    t = instruction(plan)
    row = plan.instructions[t]
    over = evolve(plan.slots[row.results[0]], buffer=plan.slots[row.operands[2]].buffer)
    with pytest.raises(PlanError):
        evolve(plan, slots=(*plan.slots[: row.results[0]], over, *plan.slots[row.results[0] + 1 :])).verify()
