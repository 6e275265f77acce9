"""Plans in two levels are verified, kept and drawn as others (`engine/planning/spills`, `engine/verifying`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.levels import fast_bytes
from nnc_func.engine.verifying.graphs import check_graph
from nnc_func.errors import NumericsError, PlanError
from tests.engine.test_budgets import trained
from tests.engine.test_two_levels import LAZY, bits, moves, poisoned, there_and_back, within

KINDS = ("dense", "tanh", "dense", "sort", "concat", "skip", "dense", "tanh")
MUTATIONS = 2000


@cache
def program() -> Any:
    """A training step with parts of wholes, variables and moves."""
    plain, _, _ = trained(LAZY, KINDS, 0)
    return trained(within(int(0.65 * fast_bytes(plain.plan))), KINDS, 0)[0]


def exchanged(rows: tuple[Any, ...], at: int, **facts: Any) -> tuple[Any, ...]:
    return (*rows[:at], evolve(rows[at], **facts), *rows[at + 1 :])


def transfers(plan: Plan, place: Any) -> list[int]:
    """The instructions that move a value there."""
    rows = enumerate(plan.instructions)
    return [t for t, i in rows if i.op.name == "transfer" and plan.slots[i.results[0]].aval.place == place]


# --- what must be refused -----------------------------------------------------------------------------------


def test_to_read_a_value_where_it_was_before_it_was_moved_is_refused() -> None:
    """Each reader of what was brought back, given the slot that the value had in fast memory before."""
    plan, tried = program().plan.verify(), 0
    spilled = {plan.instructions[t].results[0]: plan.instructions[t].operands[0] for t in transfers(plan, "slow")}
    for t in transfers(plan, None):
        (source,), (fetched,) = plan.instructions[t].operands, plan.instructions[t].results
        for reader in range(t + 1, len(plan.instructions)):
            operands = plan.instructions[reader].operands
            if fetched not in operands or source not in spilled:
                continue
            wrong = tuple(spilled[source] if slot == fetched else slot for slot in operands)
            with pytest.raises(PlanError, match=r"which is alive in|has written over"):
                evolve(plan, instructions=exchanged(plan.instructions, reader, operands=wrong)).verify()
            tried += 1
    assert tried


def test_to_bring_a_value_over_one_that_is_alive_is_refused() -> None:
    plan, tried = program().plan, 0
    for place in (None, "slow"):
        for t in transfers(plan, place):
            number = plan.slots[plan.instructions[t].results[0]].buffer
            for other, b in enumerate(plan.buffers):
                mine = plan.buffers[number]
                together = b.lower < mine.upper and mine.lower < b.upper
                if other != number and b.kind == "arena" and b.place == place and together and b.nbytes:
                    with pytest.raises(PlanError, match=r"overlap|takes bytes"):
                        evolve(plan, buffers=exchanged(plan.buffers, number, offset=b.offset)).verify()
                    tried += 1
                    break
    assert tried


def test_to_bring_a_value_back_before_it_was_written_is_refused() -> None:
    plan = program().plan
    for t in transfers(plan, "slow"):
        (slot,) = plan.instructions[t].results
        reader = next(i for i in range(len(plan.instructions)) if slot in plan.instructions[i].operands)
        rows = [*plan.instructions]
        rows[t], rows[reader] = rows[reader], rows[t]
        with pytest.raises(PlanError):
            evolve(plan, instructions=tuple(rows)).verify()


def test_to_leave_a_move_out_is_refused() -> None:
    plan = program().plan
    for t in (*transfers(plan, "slow"), *transfers(plan, None)):
        with pytest.raises(PlanError, match=r"which nothing has made yet|starts at|alive"):
            evolve(plan, instructions=(*plan.instructions[:t], *plan.instructions[t + 1 :])).verify()


def test_a_kernel_that_reads_slow_memory_is_refused() -> None:
    plan = program().plan
    for t in transfers(plan, None):
        (source,), (fetched,) = plan.instructions[t].operands, plan.instructions[t].results
        reader = next(i for i in range(t + 1, len(plan.instructions)) if fetched in plan.instructions[i].operands)
        if plan.instructions[reader].view:
            continue
        operands = tuple(source if slot == fetched else slot for slot in plan.instructions[reader].operands)
        with pytest.raises(PlanError, match="works in different places, which only a transfer does"):
            evolve(plan, instructions=exchanged(plan.instructions, reader, operands=operands)).verify()


# --- drawn mutations ----------------------------------------------------------------------------------------


def _number(draw: random.Random, value: int, plan: Plan) -> int:
    step = draw.choice([-1, 1, -plan.alignment, plan.alignment, 2 * plan.alignment, -value, draw.randint(0, 4096)])
    return value + step


def _instruction(draw: random.Random, plan: Plan) -> Plan:
    at = draw.randrange(len(plan.instructions))
    name = draw.choice(["operands", "operands", "results", "scratch"])
    slots = [*getattr(plan.instructions[at], name)]
    if not slots:
        return plan
    slots[draw.randrange(len(slots))] = draw.randrange(len(plan.slots))
    return evolve(plan, instructions=exchanged(plan.instructions, at, **{name: tuple(slots)}))


def _order(draw: random.Random, plan: Plan) -> Plan:
    rows = [*plan.instructions]
    first = draw.randrange(len(rows))
    row = rows.pop(first)
    if draw.random() < 0.8:
        rows.insert(max(0, first + draw.choice([-3, -1, 1, 2, 9])), row)
    return evolve(plan, instructions=tuple(rows))


def _buffer(draw: random.Random, plan: Plan) -> Plan:
    at = draw.randrange(len(plan.buffers))
    name = draw.choice(["offset", "lower", "upper", "nbytes", "place", "kind"])
    value = getattr(plan.buffers[at], name)
    if name == "place":
        value = "slow" if value is None else None
    elif name == "kind":
        value = draw.choice(["arena", "output", "lent", "variable"])
    else:
        value = _number(draw, value, plan)
    return evolve(plan, buffers=exchanged(plan.buffers, at, **{name: value}))


def _slot(draw: random.Random, plan: Plan) -> Plan:
    at = draw.randrange(len(plan.slots))
    slot = plan.slots[at]
    facts: dict[str, Any] = draw.choice(
        [
            {"buffer": draw.randrange(len(plan.buffers))},
            {"offset": _number(draw, slot.offset, plan)},
            {"aval": slot.aval.having(place=None if slot.aval.place else "slow")},
            {"is_view": not slot.is_view},
        ]
    )
    return evolve(plan, slots=exchanged(plan.slots, at, **facts))


def _whole(draw: random.Random, plan: Plan) -> Plan:
    (place, nbytes), *_ = plan.elsewhere
    facts: dict[str, Any] = draw.choice(
        [
            {"arena_bytes": _number(draw, plan.arena_bytes, plan)},
            {"elsewhere": ((place, _number(draw, nbytes, plan)),)},
            {"elsewhere": ()},
            {"commit": _number(draw, plan.commit, plan)},
            {"outputs": (*plan.outputs[1:], plan.outputs[0])},
        ]
    )
    return evolve(plan, **facts)


CHANGES: tuple[Callable[[random.Random, Plan], Plan], ...] = (_instruction, _order, _buffer, _slot, _whole)


def ran(plan: Plan, values: list[Any], x: Any) -> list[bytes]:
    """What a plan computes over poisoned memory, and what variables are then."""
    constants = program()._constants
    made = LAZY.program(plan, constants, [np.array(each) for each in values])
    found = bits(made(x))
    return [*found, *(bits(v.array)[0] for v in made.variables.values())]


def test_of_mutated_plans_none_that_computes_something_else_is_accepted() -> None:
    """What `verify` and `check_graph` let pass gives the same bits, over poisoned memory."""
    found, own = Counter[str](), program()
    values = [np.array(v.array) for v in own.variables.values()]
    host = [LAZY.device.to_numpy(each) for each in own._constants]
    x = np.random.default_rng(5).normal(size=(8, 16))
    check_graph(own.plan.verify(), host, own.graph)
    with poisoned():
        wanted = ran(own.plan, values, x)
        for number in range(MUTATIONS):
            draw = random.Random(number)
            change = draw.choice(CHANGES)
            plan = change(draw, own.plan)
            if plan == own.plan:
                continue
            try:
                plan.verify()
                check_graph(plan, host, own.graph)
            except PlanError:
                found["refused"] += 1
                continue
            found["accepted"] += 1
            assert ran(plan, values, x) == wanted, f"mutation {number}, by {change.__name__}"
    assert found["refused"] > MUTATIONS // 2
    assert found["accepted"]


# --- files and pictures -------------------------------------------------------------------------------------


def test_a_program_that_is_loaded_computes_the_same_bits(tmp_path: Any) -> None:
    plain = there_and_back(LAZY)
    made = there_and_back(within(int(0.5 * fast_bytes(plain.plan))))
    made.save(tmp_path / "levels")
    again = nnc.load_program(tmp_path / "levels", LAZY)
    assert again.plan == made.plan
    x = np.linspace(0, 3, 1024)
    with poisoned():
        assert bits(again(x)) == bits(made(x)) == bits(plain(x))


def test_text_says_what_is_moved_and_is_read_back() -> None:
    plan = program().plan
    assert Plan.parse(str(plan), LAZY) == plan
    lines = [line for line in str(plan).splitlines() if "transfer(" in line]
    assert len(lines) == len(moves(plan))
    assert any('place="slow"' in line for line in lines)
    assert any("place=None" in line for line in lines)


def test_pictures_and_tables_show_both_levels() -> None:
    plan = program().plan
    for text in (plan.to_svg(), plan.to_html()):
        assert "transfer" in text
        assert "on slow" in text
    fast, slow = (plan.to_csv(place).splitlines() for place in (None, "slow"))
    assert len(fast) + len(slow) - 2 == len(plan.planned)
    assert len(slow) > 1


def test_plans_are_the_same_each_time() -> None:
    plain = there_and_back(LAZY)
    made = [there_and_back(within(int(0.5 * fast_bytes(plain.plan)))).plan for _ in range(2)]
    assert made[0] == made[1]


def test_checked_and_careful_programs_keep_their_promises() -> None:
    """A program that checks each result writes variables only when all is checked; in two levels, too."""
    plain, _, x = trained(LAZY, KINDS, 0)
    careful = LAZY.swap(engine=LAZY.engine.checking_numerics())
    first = trained(careful, KINDS, 0)[0]
    capacity = int(0.8 * fast_bytes(first.plan))
    made, weights, _ = trained(careful.swap(engine=careful.engine.with_fast_memory(capacity)), KINDS, 0)
    assert made.stats.traffic.moved
    assert made.plan.verify().commit == len(made.plan.instructions)
    assert bits(made(x)) == bits(plain(x))
    before = [np.array(w) for w in weights]
    with pytest.raises(NumericsError):
        made(np.full_like(x, np.nan))
    assert bits(before) == bits([np.array(w) for w in weights])
    assert config.spec < 3
