"""Whether places in an arena overlap: a sweep through time.

It is no part of any allocator, shares no code with one, and knows of no instructions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.plan_rows import ARENA, Buffer
from nnc_func.engine.verifying.work import free
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

MOVED = 4096  # numbers of a list that are moved as quickly as one step is made
Numbers = Sequence[int] | NDArray[np.int64]


def check_arena(plan: Plan, spend: Callable[[int], None] = free) -> None:
    """In each place offsets are aligned and inside the arena, and buffers alive together do not overlap."""
    numbers = [n for n, b in enumerate(plan.buffers) if b.kind == ARENA]
    arenas, alignment, buffers = plan.arenas, plan.alignment, plan.buffers
    for n in numbers:
        b = buffers[n]
        if b.lower >= b.upper or b.offset % alignment or not 0 <= b.offset <= arenas[b.place] - b.nbytes:
            _refuse(plan, n)
    for place in arenas:
        _sweep(buffers, [n for n in numbers if buffers[n].nbytes and buffers[n].place == place], spend)


def _refuse(plan: Plan, n: int) -> None:
    b, size = plan.buffers[n], plan.arenas[plan.buffers[n].place]
    if b.lower >= b.upper:
        raise PlanError(f"buffer {n} is alive in [{b.lower}, {b.upper}), which is never")
    if b.offset % plan.alignment:
        raise PlanError(f"buffer {n} is at offset {b.offset}, which is no multiple of {plan.alignment}")
    raise PlanError(f"buffer {n} takes bytes [{b.offset}, {b.offset + b.nbytes}) of an arena of {size}")


def _sweep(buffers: Sequence[Buffer], numbers: list[int], spend: Callable[[int], None]) -> None:
    found = [buffers[n] for n in numbers]
    lows, highs = [b.offset for b in found], [b.offset + b.nbytes for b in found]
    hurt = meeting(lows, highs, [b.lower for b in found], [b.upper for b in found], spend)
    if hurt is not None:
        raise _overlap(buffers, numbers[hurt[0]], numbers[hurt[1]])


def meeting(
    lows: Numbers, highs: Numbers, lowers: Numbers, uppers: Numbers, spend: Callable[[int], None] = free
) -> tuple[int, int] | None:
    """Two rectangles of bytes ``[low, high)`` and steps ``[lower, upper)`` that overlap; None: no two do.

    It walks through time with those alive in the order of their offsets: a newcomer can only meet its neighbours.

    Examples
    --------
    >>> meeting([0, 32, 0], [64, 96, 64], [0, 1, 2], [2, 3, 4])
    (0, 1)
    """
    order = np.argsort(lows, kind="stable")
    columns = [np.asarray(each, np.int64)[order] for each in (lows, highs, lowers, uppers)]
    starts, ends = (np.argsort(each, kind="stable").tolist() for each in columns[2:])
    low, high, lower, upper = (each.tolist() for each in columns)
    by_offset = order.tolist()
    alive: list[int] = []  # in the order of their offsets
    gone, first = 0, upper[ends[0]] if ends else 0
    for rank in starts:
        start = lower[rank]
        while first <= start:
            del alive[bisect_left(alive, ends[gone])]
            gone += 1
            first = upper[ends[gone]]
        at = bisect_left(alive, rank)
        if at and high[alive[at - 1]] > low[rank]:
            return by_offset[alive[at - 1]], by_offset[rank]
        if at < len(alive) and high[rank] > low[alive[at]]:
            return by_offset[rank], by_offset[alive[at]]
        alive.insert(at, rank)
        spend(1 + len(alive) // MOVED)
    return None


def _overlap(buffers: Sequence[Buffer], one: int, other: int) -> PlanError:
    first, second = min(one, other), max(one, other)
    a, b = buffers[first], buffers[second]
    return PlanError(
        f"buffers {first} and {second} are both alive at step {max(a.lower, b.lower)} and overlap: "
        f"bytes [{a.offset}, {a.offset + a.nbytes}) and [{b.offset}, {b.offset + b.nbytes})"
    )
