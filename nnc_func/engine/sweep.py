"""Whether places in an arena overlap: a sweep through time.

It is no part of any allocator, shares no code with one, and knows of no instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.engine.plan import ARENA, Buffer, Plan
from nnc_func.errors import PlanError

WORD = 512  # bits


def check_arena(plan: Plan) -> None:
    """In each place offsets are aligned and inside the arena, and buffers alive together do not overlap."""
    numbers = [n for n, b in enumerate(plan.buffers) if b.kind == ARENA]
    arenas = plan.arenas
    for n in numbers:
        b = plan.buffers[n]
        if b.lower >= b.upper:
            raise PlanError(f"buffer {n} is alive in [{b.lower}, {b.upper}), which is never")
        if b.offset % plan.alignment:
            raise PlanError(f"buffer {n} is at offset {b.offset}, which is no multiple of {plan.alignment}")
        size = arenas[b.place]
        if not 0 <= b.offset <= size - b.nbytes:
            raise PlanError(f"buffer {n} takes bytes [{b.offset}, {b.offset + b.nbytes}) of an arena of {size}")
    for place in arenas:
        _sweep(plan.buffers, [n for n in numbers if plan.buffers[n].nbytes and plan.buffers[n].place == place])


def _sweep(buffers: Sequence[Buffer], numbers: list[int]) -> None:
    """Walk through time with those alive in the order of their offsets: a newcomer can only meet its neighbours."""
    by_offset = sorted(numbers, key=lambda n: buffers[n].offset)
    found = [buffers[n] for n in by_offset]
    low, high = [b.offset for b in found], [b.offset + b.nbytes for b in found]
    lower, upper = [b.lower for b in found], [b.upper for b in found]
    starts = sorted(range(len(found)), key=lower.__getitem__)
    ends = sorted(range(len(found)), key=upper.__getitem__)
    alive = _Ranks(len(found))
    gone = 0
    for rank in starts:
        while upper[ends[gone]] <= lower[rank]:
            alive.remove(ends[gone])
            gone += 1
        before, after = alive.before(rank), alive.after(rank)
        if before is not None and high[before] > low[rank]:
            raise _overlap(buffers, by_offset[before], by_offset[rank])
        if after is not None and high[rank] > low[after]:
            raise _overlap(buffers, by_offset[after], by_offset[rank])
        alive.add(rank)


def _overlap(buffers: Sequence[Buffer], one: int, other: int) -> PlanError:
    first, second = min(one, other), max(one, other)
    a, b = buffers[first], buffers[second]
    return PlanError(
        f"buffers {first} and {second} are both alive at step {max(a.lower, b.lower)} and overlap: "
        f"bytes [{a.offset}, {a.offset + a.nbytes}) and [{b.offset}, {b.offset + b.nbytes})"
    )


class _Ranks:
    """A set of numbers below `count`, with the neighbours of each.

    Bits in words, in levels: a bit says which word of the level below is not empty. Each step is one word a level.
    """

    __slots__ = ("_levels",)

    def __init__(self, count: int) -> None:
        self._levels: list[list[int]] = []
        while not self._levels or count > 1:
            count = -(-count // WORD)
            self._levels.append([0] * count)

    def add(self, rank: int) -> None:
        for words in self._levels:
            rank, bit = divmod(rank, WORD)
            had = words[rank]
            words[rank] = had | (1 << bit)
            if had:
                return

    def remove(self, rank: int) -> None:
        for words in self._levels:
            rank, bit = divmod(rank, WORD)
            words[rank] ^= 1 << bit
            if words[rank]:
                return

    def before(self, rank: int) -> int | None:
        """The largest member below `rank`."""
        for depth, words in enumerate(self._levels):
            rank, bit = divmod(rank, WORD)
            below = words[rank] & ((1 << bit) - 1)
            if below:
                found = rank * WORD + below.bit_length() - 1
                for lower in reversed(self._levels[:depth]):
                    found = found * WORD + lower[found].bit_length() - 1
                return found
        return None

    def after(self, rank: int) -> int | None:
        """The smallest member above `rank`."""
        for depth, words in enumerate(self._levels):
            rank, bit = divmod(rank, WORD)
            above = words[rank] >> (bit + 1)
            if above:
                found = rank * WORD + bit + (above & -above).bit_length()
                for lower in reversed(self._levels[:depth]):
                    found = found * WORD + (lower[found] & -lower[found]).bit_length() - 1
                return found
        return None
