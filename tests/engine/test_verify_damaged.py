"""Real plans, damaged at random, are refused or compute the same (`engine/verifying`)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from nnc_func.engine.plan import Plan
from nnc_func.engine.running.program import Program
from nnc_func.engine.verifying import applications, fast_path
from nnc_func.engine.verifying.columns import check_numbers
from nnc_func.engine.verifying.verify import _Replay
from nnc_func.errors import PlanError


def changed(plan: Plan, field: str, at: int, **fields: Any) -> Plan:
    """The plan with one entry evolved."""
    rows = list(getattr(plan, field))
    rows[at] = evolve(rows[at], **fields)
    entries: dict[str, Any] = {field: tuple(rows)}
    return evolve(plan, **entries)


def program(lazy: Any, draw: random.Random) -> tuple[Any, list[Any]]:
    """A random program with views, several results and updates; and its variables."""
    o = lazy.ops
    variables = [lazy.variable(f"w{i}", np.arange(16.0).reshape(4, 4) / 9 + i) for i in range(2)]
    inputs = [lazy.input(f"x{i}", (4, 4), "float64") for i in range(2)]
    values = [*inputs, *variables]
    makers: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, _: o.tanh(a),
        lambda a, _: o.permute_dims(a),
        lambda a, b: a @ b,
        lambda a, b: o.where(o.greater(a, 0.3), b, a),
        lambda a, b: o.concat(a[0:2], b[1:3], axis=0),
        lambda a, _: o.reshape(o.reshape(a, shape=(16,)), shape=(4, 4)),
        lambda _, b: o.concat(*o.split(b, sections=2)),
        lambda a, b: o.concat(o.tanh(a), o.sin(b), axis=1)[:, ::2],
        lambda a, b: o.pad(o.stack(o.sin(a[0]), o.cos(b[1])), widths=((1, 1), (0, 0)), value=1),
        lambda a, b: o.assemble(
            o.sin(a[::2]), o.cos(b[::2]), shape=(4, 4), offsets=((0, 0), (3, 0)), strides=((2, 1), (-2, 1))
        ),
    ]
    for _ in range(draw.randrange(3, 14)):
        values.append(draw.choice(makers)(draw.choice(values[-5:]), draw.choice(values)))
    updates = [(w, draw.choice(values)) for w in variables if draw.random() < 0.8]
    return lazy.compile(inputs=inputs, outputs=draw.choices(values, k=2), updates=updates), variables


def damaged(plan: Plan, draw: random.Random) -> Plan:
    """The plan with a place, a buffer or two neighbouring instructions exchanged: it may still be right."""
    kind = draw.randrange(5)
    if kind == 0 and plan.arena_bytes:
        at = draw.choice([n for n, b in enumerate(plan.buffers) if b.kind == "arena"])
        return changed(plan, "buffers", at, offset=64 * draw.randrange(plan.arena_bytes // 64))
    if kind == 1:
        return changed(plan, "slots", draw.randrange(len(plan.slots)), buffer=draw.randrange(len(plan.buffers)))
    if kind >= 3:  # a window somewhere else
        at = draw.choice([n for n, s in enumerate(plan.slots) if s.offset or s.strides] or [0])
        slot = plan.slots[at]
        if kind == 3:
            return changed(plan, "slots", at, offset=max(0, slot.offset + 8 * draw.randrange(-4, 5)))
        strides = tuple(8 * draw.randrange(-4, 9) for _ in slot.aval.shape)
        return changed(plan, "slots", at, strides=draw.choice([None, strides]))
    at = draw.randrange(max(1, len(plan.instructions) - 1))
    rows = [*plan.instructions]
    rows[at : at + 2] = rows[at : at + 2][::-1]
    return evolve(plan, instructions=tuple(rows))


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_plan_is_refused_or_computes_the_same(seed: int, lazy: Any) -> None:
    draw = random.Random(seed)
    made, variables = program(lazy, draw)
    made.plan.verify()
    start = [w.value.array.copy() for w in variables]
    given_ = [np.random.default_rng(seed + i).normal(size=(4, 4)) for i in range(2)]

    def run(each: Any) -> list[Any]:
        for w, value in zip(variables, start, strict=True):
            w.value.array = value.copy()
        found = [np.array(a) for _ in range(2) for a in each(*given_)]
        return found + [np.array(w.value.array) for w in variables]

    right, refused = run(made), 0
    for _ in range(40):
        plan = damaged(made.plan, draw)
        try:
            plan.verify()
        except PlanError:
            refused += 1
            continue
        found = run(Program(plan, made._device, made._constants, [*made.variables.values()]))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(right, found, strict=True)), plan
    assert refused


@pytest.mark.parametrize("seed", range(16))
def test_what_is_looked_at_in_a_few_steps_is_judged_as_in_full(
    seed: int, lazy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    made, _ = program(lazy, draw)
    plans = [made.plan, *(damaged(made.plan, draw) for _ in range(60))]

    def judged(plan: Plan) -> str:
        try:
            plan.verify()
        except PlanError as error:
            return str(error)
        return "right"

    quick = [judged(plan) for plan in plans]
    monkeypatch.setattr(fast_path, "_writer", lambda replay: lambda t, i, operands, slot: False)
    assert quick == [judged(plan) for plan in plans]
    assert quick[0] == "right"
    assert len({*quick}) > 1


def applied_wrongly(plan: Plan, draw: random.Random) -> Plan:
    """The plan with another operand, result, kernel or parameter in one of its instructions: it may still be right."""
    at, other = (draw.choice(range(len(plan.instructions))) for _ in range(2))
    i, o = plan.instructions[at], plan.instructions[other]
    fields: dict[str, Any] = draw.choice([
        {"operands": tuple(draw.choices(range(len(plan.slots)), k=len(i.operands)))},
        {"operands": i.operands + o.operands},
        {"results": o.results},
        {"kernel": o.kernel},
        {"items": o.items},
        {"op": o.op, "items": o.items},
        {"view": o.view},
    ])  # fmt: skip
    return changed(plan, "instructions", at, **fields)


@pytest.mark.parametrize("seed", range(16))
def test_applications_that_are_alike_are_judged_as_each_by_itself(seed: int, lazy: Any) -> None:
    draw = random.Random(seed)
    made, _ = program(lazy, draw)
    told = []
    for plan in [made.plan, *(applied_wrongly(made.plan, draw) for _ in range(40))]:
        words = ["right", "right"]
        for at, alike in enumerate((applications.alike, lambda rows: range(len(rows)))):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(applications, "alike", alike)
                try:
                    applications.check_applications(plan, check_numbers(plan), True)
                except PlanError as error:
                    words[at] = str(error)
        assert words[0] == words[1]
        told.append(words[0])
    assert told[0] == "right"
    assert len({*told}) > 1


def test_what_is_written_in_the_arena_is_looked_at_in_a_few_steps(lazy: Any) -> None:
    x = lazy.input("x", (4, 4), "float64")
    plan = lazy.compile([x], [lazy.ops.tanh(lazy.ops.sin(x) @ lazy.ops.cos(x) + 1) * 2]).plan
    replay = _Replay(plan, check_numbers(plan))
    replay.leaves()
    written = fast_path._writer(replay)
    known = [written(t, i, i.operands, i.results[0]) for t, i in enumerate(plan.instructions)]
    arena = [plan.buffers[plan.slots[i.results[0]].buffer].kind == "arena" for i in plan.instructions]
    assert known == arena
    assert any(known)
