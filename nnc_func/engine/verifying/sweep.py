"""Whether places in an arena overlap: a sweep through time.

It is no part of any allocator, shares no code with one, and knows of no instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.plan import ARENA, Buffer, Plan
from nnc_func.errors import PlanError

WORD = 512  # bits
Numbers = Sequence[int] | NDArray[np.int64]


def check_arena(plan: Plan) -> None:
    """In each place offsets are aligned and inside the arena, and buffers alive together do not overlap."""
    numbers = [n for n, b in enumerate(plan.buffers) if b.kind == ARENA]
    arenas, alignment, buffers = plan.arenas, plan.alignment, plan.buffers
    for n in numbers:
        b = buffers[n]
        if b.lower >= b.upper or b.offset % alignment or not 0 <= b.offset <= arenas[b.place] - b.nbytes:
            _refuse(plan, n)
    for place in arenas:
        _sweep(buffers, [n for n in numbers if buffers[n].nbytes and buffers[n].place == place])


def _refuse(plan: Plan, n: int) -> None:
    b, size = plan.buffers[n], plan.arenas[plan.buffers[n].place]
    if b.lower >= b.upper:
        raise PlanError(f"buffer {n} is alive in [{b.lower}, {b.upper}), which is never")
    if b.offset % plan.alignment:
        raise PlanError(f"buffer {n} is at offset {b.offset}, which is no multiple of {plan.alignment}")
    raise PlanError(f"buffer {n} takes bytes [{b.offset}, {b.offset + b.nbytes}) of an arena of {size}")


def _sweep(buffers: Sequence[Buffer], numbers: list[int]) -> None:
    found = [buffers[n] for n in numbers]
    rectangles = [(b.offset, b.offset + b.nbytes, b.lower, b.upper) for b in found]
    hurt = meeting(*zip(*rectangles, strict=True)) if rectangles else None
    if hurt is not None:
        raise _overlap(buffers, numbers[hurt[0]], numbers[hurt[1]])


def meeting(lows: Numbers, highs: Numbers, lowers: Numbers, uppers: Numbers) -> tuple[int, int] | None:
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
    alive = _Ranks(len(by_offset))
    gone, first = 0, upper[ends[0]] if ends else 0
    for rank in starts:
        start = lower[rank]
        while first <= start:
            alive.remove(ends[gone])
            gone += 1
            first = upper[ends[gone]]
        before, after = alive.add(rank)
        if before >= 0 and high[before] > low[rank]:
            return by_offset[before], by_offset[rank]
        if after >= 0 and high[rank] > low[after]:
            return by_offset[rank], by_offset[after]
    return None


def _overlap(buffers: Sequence[Buffer], one: int, other: int) -> PlanError:
    first, second = min(one, other), max(one, other)
    a, b = buffers[first], buffers[second]
    return PlanError(
        f"buffers {first} and {second} are both alive at step {max(a.lower, b.lower)} and overlap: "
        f"bytes [{a.offset}, {a.offset + a.nbytes}) and [{b.offset}, {b.offset + b.nbytes})"
    )


class _Ranks:
    """A set of numbers below `count`, with the neighbours of each.

    Bits in words, in levels: a bit says which word of the level below is not empty. Most steps look at one word.
    """

    __slots__ = ("_levels",)

    def __init__(self, count: int) -> None:
        self._levels: list[list[int]] = []
        while not self._levels or count > 1:
            count = -(-count // WORD)
            self._levels.append([0] * count)

    def add(self, rank: int) -> tuple[int, int]:
        """Add one that is no member; the largest member below it and the smallest above it, -1 where there is none."""
        words, at, bit = self._levels[0], rank // WORD, rank % WORD
        had = words[at]
        below, above = had & ((1 << bit) - 1), had >> bit
        before = at * WORD + below.bit_length() - 1 if below else self._before(rank)
        after = rank + (above & -above).bit_length() - 1 if above else self._after(rank)
        words[at] = had | (1 << bit)
        if not had:
            self._mark(at)
        return before, after

    def _mark(self, rank: int) -> None:
        """A word of the lowest level is not empty any more."""
        for words in self._levels[1:]:
            rank, bit = divmod(rank, WORD)
            had = words[rank]
            words[rank] = had | (1 << bit)
            if had:
                return

    def remove(self, rank: int) -> None:
        """Remove a member."""
        for words in self._levels:
            rank, bit = rank // WORD, rank % WORD
            words[rank] ^= 1 << bit
            if words[rank]:
                return

    def _before(self, rank: int) -> int:
        for depth, words in enumerate(self._levels):
            rank, bit = divmod(rank, WORD)
            below = words[rank] & ((1 << bit) - 1)
            if below:
                found = rank * WORD + below.bit_length() - 1
                for lower in reversed(self._levels[:depth]):
                    found = found * WORD + lower[found].bit_length() - 1
                return found
        return -1

    def _after(self, rank: int) -> int:
        for depth, words in enumerate(self._levels):
            rank, bit = divmod(rank, WORD)
            above = words[rank] >> (bit + 1)
            if above:
                found = rank * WORD + bit + (above & -above).bit_length()
                for lower in reversed(self._levels[:depth]):
                    found = found * WORD + (lower[found] & -lower[found]).bit_length() - 1
                return found
        return -1
