"""Whether every value of a plan lies in its buffer, in exact integers. Part of verification.

Nothing is replayed here: what is checked holds of each slot and buffer, whether an instruction uses it or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.shared.bounds import LIMIT, RANK, reach
from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, Slot
from nnc_func.engine.verifying.columns import Columns, first_of
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

ALIVE = (ARENA, LENT, DONATED)  # kinds of buffers that have a lifetime


def check_bounds(plan: Plan, columns: Columns) -> None:
    """Raise unless each value lies in its buffer, whether it is used or not, and each slot and buffer is used.

    A slot has at most 64 axes and a known size. A view has no place of its own. What is none has offset and strides in
    whole elements, no two elements in one place, and all of them within its buffer, wherever its strides lead (of an
    empty one: would lead). A buffer has just the bytes of what lies in it, and what is in no arena no place in one.

    Raises
    ------
    PlanError
        Names the slot or the buffer, and what it may be.
    """
    taken = np.array(_check_slots(plan, columns), np.int64)
    _check_uses(plan, columns)
    outside = plan.inputs, plan.variables, plan.constants, plan.outputs, [slot for _, slot in plan.updates]
    for slot in chain.from_iterable(outside) if plan.retained is None else ():
        aval, home = plan.slots[slot].aval, plan.slots[slot].buffer
        if aval.nbytes != plan.buffers[home].nbytes:  # whose array is as large as that one's, in each call
            raise PlanError(
                f"slot {slot}, {aval.nbytes} bytes, comes from outside or goes there; {_named(plan, home)}, of which "
                f"it is to be all, has {plan.buffers[home].nbytes}"
            )
    _check_buffers(plan, columns, taken)


def _check_buffers(plan: Plan, columns: Columns, taken: Any) -> None:
    """Each buffer has the bytes that are taken of it, and what lies outside of arenas no place and no lifetime."""
    last = len(plan.instructions) if plan.retained is None else LIMIT
    wrong = (taken != columns.nbytes) | (columns.lower < 0) | (columns.upper > last)
    for n in np.flatnonzero(~columns.in_arena).tolist():
        b = plan.buffers[n]
        wrong[n] |= b.kind not in ALIVE and (b.offset != 0 or b.lower != 0 or b.upper != 0)
    number = first_of(wrong)
    if number < 0:
        return
    buffer, found = plan.buffers[number], taken[number]
    if found != buffer.nbytes:
        raise PlanError(
            f"buffer {number} is used by no slot"
            if found < 0
            else f"buffer {number} has {buffer.nbytes} bytes, but what lies in it takes {found}"
        )
    if buffer.lower < 0 or buffer.upper > last:
        raise PlanError(
            f"buffer {number} is alive in [{buffer.lower}, {buffer.upper}), in a plan of {len(plan.instructions)} "
            "instructions"
        )
    raise PlanError(
        f"buffer {number} is {buffer.kind} {buffer.source}, which has no place in an arena, but it is "
        f"at {buffer.offset}, alive in [{buffer.lower}, {buffer.upper})"
    )


def _check_slots(plan: Plan, columns: Columns) -> list[int]:
    """Each slot lies in its buffer; for each buffer where the last slot in it ends, -1 where there is none."""
    sizes = columns.nbytes.tolist()
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


def _check_uses(plan: Plan, columns: Columns) -> None:
    """Each slot is a leaf, or some instruction's."""
    used = np.zeros(len(plan.slots), bool)
    used[columns.written] = True
    for slot in (*plan.inputs, *plan.variables, *plan.constants):
        used[slot] = True
        if plan.slots[slot].is_view:
            raise PlanError(f"slot {slot} is a view, but comes from outside")
    unused = first_of(~used)
    if unused >= 0:
        raise PlanError(f"slot {unused} is used by nothing: no leaf, and made by no instruction")
