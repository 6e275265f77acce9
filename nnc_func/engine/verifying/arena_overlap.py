"""Whether places in an arena overlap: a sweep through time.

It is no part of any allocator, shares no code with one, and knows of no instructions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnc_func.device.shared.bounds import LIMIT
from nnc_func.engine.plan_rows import Buffer
from nnc_func.engine.verifying.columns import Columns, first_of
from nnc_func.engine.verifying.work import free
from nnc_func.errors import PlanError
from nnc_func.facets.places import Place

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

MOVED = 4096  # numbers of a list that are moved as quickly as one step is made
PIECES = 32  # that a rectangle has, on the average, where cutting is quicker than sweeping
TOLD = 8  # pieces that are told apart as quickly as one step is made
Array = NDArray[np.int64]
Numbers = Sequence[int] | Array


def check_arena(plan: Plan, columns: Columns, spend: Callable[[int], None] = free) -> None:
    """In each place offsets are aligned and inside the arena, and buffers alive together do not overlap."""
    mine: dict[Place, list[int]] = {place: [] for place in plan.arenas}
    for n in np.flatnonzero(columns.in_arena).tolist():
        mine[columns.places[n]].append(n)
    for place, nbytes in plan.arenas.items():
        if mine[place]:
            _check_place(plan, columns, np.array(mine[place]), nbytes, spend)


def _check_place(plan: Plan, columns: Columns, numbers: Array, nbytes: int, spend: Callable[[int], None]) -> None:
    low, lower, upper = (each[numbers] for each in (columns.offset, columns.lower, columns.upper))
    high = low + columns.nbytes[numbers]
    wrong = first_of((lower >= upper) | (low % plan.alignment != 0) | (low < 0) | (high > nbytes))
    if wrong >= 0:
        _refuse(plan, int(numbers[wrong]))
    some = low < high
    numbers, low, high, lower, upper = (each[some] for each in (numbers, low, high, lower, upper))
    hurt = None if apart(low, high, lower, upper, spend) else meeting(low, high, lower, upper, spend)
    if hurt is not None:
        raise _overlap(plan.buffers, *(int(numbers[n]) for n in hurt))


def _refuse(plan: Plan, n: int) -> None:
    b, size = plan.buffers[n], plan.arenas[plan.buffers[n].place]
    if b.lower >= b.upper:
        raise PlanError(f"buffer {n} is alive in [{b.lower}, {b.upper}), which is never")
    if b.offset % plan.alignment:
        raise PlanError(f"buffer {n} is at offset {b.offset}, which is no multiple of {plan.alignment}")
    raise PlanError(f"buffer {n} takes bytes [{b.offset}, {b.offset + b.nbytes}) of an arena of {size}")


def apart(low: Array, high: Array, lower: Array, upper: Array, spend: Callable[[int], None] = free) -> bool:
    """Whether no two rectangles of bytes and steps overlap; False, too, where that would take long to see.

    The bytes are cut wherever a rectangle begins or ends. In a piece no two are alive together if they follow each
    other: the first to end has ended when the second begins, and so on.

    Examples
    --------
    >>> columns = np.array([[0, 32, 0], [64, 96, 64], [0, 1, 2], [1, 2, 3]])
    >>> apart(*columns), apart(*columns[:3], columns[3] + 1)
    (True, False)
    """
    if not len(low):
        return True
    cuts = np.unique(np.concatenate([low, high]))
    first, last = np.searchsorted(cuts, low), np.searchsorted(cuts, high)
    counts = last - first
    most, steps = int(counts.sum()), int(upper.max()) + 1
    if most > PIECES * len(low) or lower.min() < 0 or steps * len(cuts) >= LIMIT:
        return False
    spend(most // TOLD)
    piece = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(most)
    begins, ends = (np.sort(piece * steps + np.repeat(each, counts)) for each in (lower, upper))
    return bool((ends[:-1] <= begins[1:]).all())


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
