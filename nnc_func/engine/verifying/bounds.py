"""Whether every number of a plan is one, and every value lies in its buffer, in exact integers. Part of verification.

Nothing is replayed here: what is checked holds of each slot and buffer, whether an instruction uses it or not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.bounds import LIMIT, RANK, reach
from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, Slot
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

IN_BUFFERS, IN_SLOTS = attrgetter("nbytes", "lower", "upper", "offset", "source"), attrgetter("buffer", "offset")
ALIVE = (ARENA, LENT, DONATED)  # kinds of buffers that have a lifetime


def check_bounds(plan: Plan) -> None:
    """Raise unless each value lies in its buffer, whether it is used or not, and each slot and buffer is used.

    A slot has at most 64 axes and a known size. A view has no place of its own. What is none has offset and strides in
    whole elements, no two elements in one place, and all of them within its buffer, wherever its strides lead (of an
    empty one: would lead). A buffer has just the bytes of what lies in it, and what is in no arena no place in one.

    Raises
    ------
    PlanError
        Names the slot or the buffer, and what it may be.
    """
    taken = _check_slots(plan)
    _check_uses(plan)
    outside = plan.inputs, plan.variables, plan.constants, plan.outputs, [slot for _, slot in plan.updates]
    for slot in chain.from_iterable(outside) if plan.retained is None else ():
        aval, home = plan.slots[slot].aval, plan.slots[slot].buffer
        if aval.nbytes != plan.buffers[home].nbytes:  # whose array is as large as that one's, in each call
            raise PlanError(
                f"slot {slot}, {aval.nbytes} bytes, comes from outside or goes there; {_named(plan, home)}, of which "
                f"it is to be all, has {plan.buffers[home].nbytes}"
            )
    for number, (buffer, found) in enumerate(zip(plan.buffers, taken, strict=True)):
        if found != buffer.nbytes:
            raise PlanError(
                f"buffer {number} is used by no slot"
                if found < 0
                else f"buffer {number} has {buffer.nbytes} bytes, but what lies in it takes {found}"
            )
        if buffer.lower < 0 or (buffer.upper > len(plan.instructions) and plan.retained is None):
            raise PlanError(
                f"buffer {number} is alive in [{buffer.lower}, {buffer.upper}), in a plan of {len(plan.instructions)} "
                "instructions"
            )
        alive = buffer.kind in ALIVE
        if (buffer.kind != ARENA and buffer.offset) or (not alive and (buffer.lower or buffer.upper)):
            raise PlanError(
                f"buffer {number} is {buffer.kind} {buffer.source}, which has no place in an arena, but it is "
                f"at {buffer.offset}, alive in [{buffer.lower}, {buffer.upper})"
            )


def check_numbers(plan: Plan) -> None:
    """Raise unless all numbers are integers, of type `int`, and below 2⁶²; the alignment is a power of two.

    Raises
    ------
    PlanError
        Says which number is none, or too large.
    """
    if not _small(chain.from_iterable(_columns(plan).values())):
        for what, numbers in _columns(plan).items():
            _check_column(what, [*numbers])
    if plan.alignment < 1 or plan.alignment & (plan.alignment - 1):
        raise PlanError(f"offsets aligned to {plan.alignment}: wanted a power of two")
    if min(plan.arenas.values()) < 0:
        raise PlanError(f"an arena of {min(plan.arenas.values())} bytes")


def _small(numbers: Iterable[Any]) -> bool:
    """Whether all are integers below 2⁶²."""
    found = [*numbers]
    if not {int}.issuperset(map(type, found)):
        return False
    try:
        packed = np.frombuffer(array("q", found), np.int64)
    except OverflowError:
        return False
    return not found or bool(packed.min() > -LIMIT and packed.max() < LIMIT)


def _columns(plan: Plan) -> dict[str, Iterable[Any]]:
    """All numbers of a plan, by what they are."""
    flat, b, s, i = chain.from_iterable, plan.buffers, plan.slots, plan.instructions
    leaves = plan.inputs, plan.variables, plan.constants
    return {
        "arenas, alignment, commit section": (*plan.arenas.values(), plan.alignment, plan.commit),
        "leaves, outputs, updates": flat((*leaves, plan.outputs, *plan.updates, plan.retained or ())),
        "buffers": flat(map(IN_BUFFERS, b)),
        "slots": flat(map(IN_SLOTS, s)),
        "strides": flat([x.strides for x in s if x.strides is not None]),
        "operands, results, scratch": flat([x.operands + x.results + x.scratch for x in i]),
        "streams": [x.stream for x in i],
        "waits": flat([x.waits for x in i if x.waits]),
    }


def _check_column(what: str, numbers: Sequence[Any]) -> None:
    for n in numbers:
        if type(n) is not int or abs(n) >= LIMIT:
            raise PlanError(f"{what}: {n!r} is no integer below 2⁶²")


def _check_slots(plan: Plan) -> list[int]:
    """Each slot lies in its buffer; for each buffer where the last slot in it ends, -1 where there is none."""
    sizes = [b.nbytes for b in plan.buffers]
    taken = [-1] * len(sizes)
    ends: dict[Any, int] = {}
    known = ends.get
    for number, s in enumerate(plan.slots):
        aval, offset, strides = s.aval, s.offset, s.strides
        key = (id(aval), s.is_view) if not offset and strides is None else (id(aval), s.is_view, offset, strides)
        end = known(key)
        if end is None:
            end = ends[key] = _end(number, s)
        home = s.buffer
        if end > taken[home]:
            taken[home] = end
            if end > sizes[home]:
                where = "" if not offset and strides is None else f" in [{offset}, {end})"
                raise PlanError(
                    f"slot {number} is {aval!r}, {aval.nbytes} bytes{where}, but {_named(plan, home)} has {sizes[home]}"
                )
    return taken


def _named(plan: Plan, number: int) -> str:
    b = plan.buffers[number]
    return f"buffer {number}" + ("" if b.kind == ARENA else f" ({b.kind} {b.source})")


def _end(number: int, s: Slot) -> int:
    """Where the last byte of a slot ends in its buffer; -1 of a view, which has no place of its own."""
    aval = s.aval
    _check_aval(number, aval)
    if s.is_view:
        if s.offset or s.strides is not None:
            raise PlanError(f"slot {number} is a view, which lies where its base does, but it has a place of its own")
        return -1
    itemsize = aval.dtype.itemsize
    if s.offset < 0 or s.offset % itemsize:
        raise PlanError(f"slot {number} is at byte {s.offset}: wanted a multiple of {itemsize}, its element's bytes")
    if s.strides is None:
        return s.offset + aval.nbytes  # type: ignore[no-any-return]
    if len(s.strides) != len(aval.shape):
        raise PlanError(f"slot {number} is {aval!r}, with strides {s.strides}")
    return _end_of_strided(number, s, itemsize)


def _end_of_strided(number: int, s: Slot, itemsize: int) -> int:
    assert s.strides is not None
    shape, strides = s.aval.shape, s.strides
    if 0 in shape and strides == s.aval.strides:
        return s.offset
    low, high = reach([max(n, 1) for n in shape], strides, 0)
    if s.offset + low < 0:
        raise PlanError(
            f"slot {number} is {s.aval!r} with strides {strides} at byte {s.offset}: it begins at {s.offset + low}"
        )
    if 0 in shape:
        return s.offset + high
    if any(stride % itemsize for stride in strides) or not _injective(shape, strides, itemsize):
        raise PlanError(f"slot {number} is {s.aval!r} with strides {strides}: elements of it lie in one place")
    return s.offset + high + itemsize


def _injective(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether each axis steps over all that the axes with smaller strides take."""
    taken = itemsize
    for stride, n in sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1):
        if stride < taken:
            return False
        taken += (n - 1) * stride
    return True


def _check_aval(number: int, aval: Aval) -> None:
    size = aval.dtype.itemsize
    if len(aval.shape) > RANK:
        raise PlanError(f"slot {number} has {len(aval.shape)} axes; {RANK} is the most")
    for n in aval.shape:
        if type(n) is not int:
            raise PlanError(f"slot {number} is {aval!r}, whose size is not known")
        size *= max(n, 1)
        if n < 0 or size >= LIMIT:
            raise PlanError(f"slot {number} is {aval!r}: extents are from 0 on, and so many bytes that 62 bits tell")


def _check_uses(plan: Plan) -> None:
    """Each slot is a leaf, or some instruction's."""
    used = {*plan.inputs, *plan.variables, *plan.constants}
    for slot in used:
        if plan.slots[slot].is_view:
            raise PlanError(f"slot {slot} is a view, but comes from outside")
    for i in plan.instructions:
        used.update(i.results, i.scratch)
    if len(used) < len(plan.slots):
        unused = next(n for n in range(len(plan.slots)) if n not in used)
        raise PlanError(f"slot {unused} is used by nothing: no leaf, and made by no instruction")
