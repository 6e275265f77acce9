"""What can be said of a plan without replaying it: what its numbers refer to is there. Part of verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.engine.plan_rows import ARENA, DONATED, KINDS, LENT
from nnc_func.engine.verifying.columns import Columns
from nnc_func.errors import PlanError
from nnc_func.facets.places import Place, given
from nnc_func.facets.places import named as place_named
from nnc_func.graph.origin import describe

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

SHARED = (ARENA, LENT, DONATED)


def check_references(plan: Plan, columns: Columns) -> None:
    """Raise PlanError unless each number is in range, each kind is one, and what refers to another is in its place."""
    if not 0 <= plan.commit <= len(plan.instructions):
        raise PlanError(f"the commit section starts at {plan.commit}, of {len(plan.instructions)} instructions")
    kinds = set(zip(columns.kinds, columns.places, strict=True))
    if columns.nbytes.min(initial=0) < 0 or any(_amiss(plan, *each) for each in kinds):
        _refuse_buffers(plan)
    _apart(plan, columns)
    if columns.home.min(initial=0) < 0 or columns.home.max(initial=-1) >= len(plan.buffers):
        _refuse_slots(plan)
    if not ({place for _, place in kinds} == {None} and {aval.place for aval in columns.known.values()} == {None}):
        _refuse_slots(plan)
    if columns.used.min(initial=0) < 0 or columns.used.max(initial=-1) >= len(plan.slots):
        _refuse_instructions(plan)
    if plan.elsewhere:
        for t, i in enumerate(plan.instructions):
            if i.op.place is not given:
                _together(plan, t)


def _apart(plan: Plan, columns: Columns) -> None:
    """No two buffers are the memory of one array: but what is lent, or was given up, is there for several."""
    known: dict[tuple[str, int], int] = {}
    for number in [n for n, kind in enumerate(columns.kinds) if kind not in SHARED]:
        b = plan.buffers[number]
        if known.setdefault((b.kind, b.source), number) != number:
            first = known[b.kind, b.source]
            raise PlanError(f"buffers {first} and {number} are both {b.kind} {b.source}")


def _amiss(plan: Plan, kind: str, place: Place) -> bool:
    return kind not in KINDS or (kind == ARENA and place not in plan.arenas)


def _refuse_buffers(plan: Plan) -> None:
    for number, buffer in enumerate(plan.buffers):
        if buffer.kind not in KINDS:
            raise PlanError(f"buffer {number} is of kind {buffer.kind!r}; kinds are {', '.join(KINDS)}")
        if buffer.nbytes < 0:
            raise PlanError(f"buffer {number} has {buffer.nbytes} bytes")
        if _amiss(plan, buffer.kind, buffer.place):
            raise PlanError(f"buffer {number} is on {buffer.place}, where there is no arena")


def _refuse_slots(plan: Plan) -> None:
    places = [b.place for b in plan.buffers]
    for number, slot in enumerate(plan.slots):
        if not 0 <= slot.buffer < len(places):
            raise PlanError(f"slot {number} lives in buffer {slot.buffer}, which is none of the {len(places)}")
        place = places[slot.buffer]
        if slot.aval.place != place:
            raise PlanError(f"slot {number} is {slot.aval!r}, but buffer {slot.buffer} is in {place_named(place)}")


def _refuse_instructions(plan: Plan) -> None:
    count = len(plan.slots)
    for t, i in enumerate(plan.instructions):
        for at in (*i.operands, *i.results, *i.scratch):
            if not 0 <= at < count:
                raise PlanError(f"{named(plan, t)} names slot {at}, which is none of the {count}")


def _together(plan: Plan, t: int) -> None:
    """Whatever is no transfer reads and writes in one place."""
    i = plan.instructions[t]
    found = {plan.buffers[plan.slots[s].buffer].place for s in (*i.operands, *i.results, *i.scratch)}
    if len(found) > 1:
        said = ", ".join(sorted(map(place_named, found)))
        raise PlanError(f"{named(plan, t)} works in different places, which only a transfer does: {said}")


def named(plan: Plan, t: int) -> str:
    """An instruction, as messages name it."""
    where = describe(plan.instructions[t].origin)
    return f"instruction {t} ({plan.instructions[t].op.name}{f' at {where}' if where else ''})"
