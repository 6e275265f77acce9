"""The replay of a plan, for the verifier: what the usual instruction does is looked at in a few steps.

Usual is a kernel with one result in memory of the arena. Whatever is not plainly right goes to the methods of the
replay, which decide it exactly, and have the words.
"""

from __future__ import annotations

from typing import Any

from nnc_func.engine.plan_rows import ARENA, DONATED, LENT
from nnc_func.engine.verifying.assembly import assembly
from nnc_func.facets.kernels import ALL

PLANNED = (ARENA, LENT, DONATED)  # kinds that have a lifetime, and may be written more than once
LEAF, UNMADE = -1, -2  # where a slot is made, if not by an instruction


def replayed(replay: Any) -> None:
    """All instructions, one after the other; raises PlanError at the first that is refused."""
    until, home, kinds, slots = replay.until, replay.home, replay.columns.kinds, replay.plan.slots
    valid = replay.valid
    written = _writer(replay)
    for t, i in enumerate(replay.plan.instructions):
        if i.view:
            assembly(replay, t, i) if i.op.parts is not None else replay.view(t, i)
            continue
        operands, results = i.operands, i.results
        for slot in operands:
            if t >= until[slot]:
                replay.reads(t, i)
                break
        scratch = i.scratch
        if (
            len(results) != 1
            or i.op.multi_result
            or (scratch and home[results[0]] in [home[slot] for slot in scratch])
            or not written(t, i, operands, results[0])
        ):
            replay.kernel(t, i)
            continue
        for position, slot in enumerate(scratch):
            number = home[slot]
            if (
                valid[number]  # by an operand, a result or other scratch: or was
                or kinds[number] != ARENA
                or slots[slot].strides is not None
                or not written(t, i, (), slot)
            ):
                replay.scratch(t, slot, [home[other] for other in (*results, *operands, *scratch[:position])])


def _writer(replay: Any) -> Any:
    """A function that notes what a kernel writes, and says True; or, where that is not usual, says False."""
    plan, home, made, over, until = replay.plan, replay.home, replay.made, replay.over, replay.until
    begins, ends_at, valid, first, writer = replay.begins, replay.ends_at, replay.valid, replay.first, replay.writer
    lies, plain, meet, allowed, slots = replay.region, replay.plain, replay.meet, replay.allowed, plan.slots
    room = replay.room
    regions: dict[Any, Any] = {}
    near = replay.near
    chosen: dict[Any, Any] = {}

    def may_be_overwritten(i: Any, position: int) -> bool:
        may = allowed(i)[0]
        if callable(may):  # of each result; a loop's own is the replay's to ask
            if i.loops:
                return False
            key = i.op, i.kernel, id(i.items), len(i.operands)
            if key not in chosen:
                chosen[key] = may(len(i.operands), **dict(i.items))[0]
            may = chosen[key]
        return may == ALL or position in may

    def written(t: int, i: Any, operands: tuple[int, ...], slot: int) -> bool:
        found, number = slots[slot], home[slot]
        aval, offset, strides = found.aval, found.offset, found.strides
        key = id(aval) if strides is None and not offset else (id(aval), offset, strides)
        region = regions.get(key)
        if region is None:
            region = regions[key] = replay.fits(slot, t)
        if not (region.high <= room[number] and 0 <= region.low < region.high) or found.is_view:
            return False
        if made[slot] != UNMADE or not begins[number] <= t < ends_at[number]:
            return False
        if (strides is not None or aval.layout is not None) and not allowed(i)[1]:
            return False
        held = valid[number]
        if held:
            for position, operand in enumerate(operands):
                if home[operand] != number:
                    continue
                shown = slots[operand].aval
                if lies[operand] is region and plain[operand] and (shown is aval or shown == aval):
                    if not may_be_overwritten(i, position):
                        return False
                elif meet(lies[operand], region):
                    return False
            if len(held) == 1 and lies[held[0]] is region:
                over[held[0]], until[held[0]] = t, UNMADE
                held[0] = slot
            else:
                gone = [other for other in near(number, region) if meet(lies[other], region)]
                for other in gone:
                    over[other], until[other] = t, UNMADE
                if gone:
                    held = valid[number] = [other for other in held if until[other] != UNMADE]
                held.append(slot)
        else:
            held.append(slot)
        lies[slot] = region
        if writer[number] == LEAF:
            first[number] = t
        writer[number] = made[slot] = t
        until[slot] = ends_at[number]
        return True

    return written
