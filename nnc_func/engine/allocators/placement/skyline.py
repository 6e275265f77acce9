"""Lowest offset first on a skyline, with a look at what a choice leaves, and jumps back to the choice that is to blame.

The skyline is how high each section of time is filled. Whoever lives wholly within the lowest part of it may be placed
there; if nobody does, the part is raised to the lower of its neighbours, and those bytes are lost. A section has as
many bytes to lose as its load is below the capacity. So a choice is looked at by what it leaves beside it: bytes that
nobody can fill, and more of them than there are to lose. Where every choice loses too many, an earlier one beside it
took the place of somebody who is missing now, and the dive goes back to that one, over all that was chosen since.

Sets of buffers are bits of one integer, by rank, so that who lives within some sections is two operations.

Source: the skyline is that of strip packing (Burke, Kendall, Whitwell, "A new placement heuristic for the orthogonal
stock-cutting problem", 2004); to jump to the choice to blame is Prosser's conflict-directed backjumping (1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from operator import add, or_

import numpy as np

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.problems.conversion import Integers

WALL = 1 << 62  # how high it is before the first section, and behind the last
BEHIND = 60  # choices that are looked at for one to blame
OFTEN = 32  # turns between two looks at the clock
SPARED = 0.25  # of the time: in it a dive goes back no more, so that others may come after it
LOOKS = 2  # times as long as without looks a dive takes, at least
SAVED = 16  # turns after which all is saved once more


class Skyline:
    """Buffers by the sections of time in which they are alive: the sets of buffers alive to which nobody can be added.

    Parameters
    ----------
    sizes
        In any unit, one or more each.
    lower, upper
        The steps in which each is alive, half open.

    Examples
    --------
    >>> skyline = Skyline(np.array([1, 2, 1]), np.array([0, 1, 2]), np.array([2, 3, 4]))
    >>> skyline.load, skyline.dive([1, 0, 2], 3)
    ([3, 3], [2, 0, 2])
    """

    def __init__(self, sizes: Integers, lower: Integers, upper: Integers) -> None:
        starts, ends = np.unique(lower), np.sort(upper)
        over = np.searchsorted(ends, starts, side="right")
        full = np.append(over[1:] != over[:-1], True)[: len(starts)]  # somebody ends before the next one starts
        first = (np.cumsum(full) - full)[np.searchsorted(starts, lower)]
        stop = np.searchsorted(starts[full], upper)
        change = np.zeros(int(full.sum()) + 1, np.int64)
        np.add.at(change, first, sizes)
        np.subtract.at(change, stop, sizes)
        self.load: list[int] = np.cumsum(change)[:-1].tolist()
        self.first: list[int] = first.tolist()
        self.stop: list[int] = stop.tolist()
        self.sizes: list[int] = sizes.tolist()

    def dive(
        self,
        order: Sequence[int],
        capacity: int,
        *,
        jumps: int = 0,
        below: int | None = None,
        deadline: Deadline | None = None,
    ) -> list[int] | None:
        """The offsets of a plan, which may need more than the capacity.

        Parameters
        ----------
        order
            Of all buffers: who is taken first of those that may be placed.
        jumps
            How often it goes back; then it goes on with what loses least.
        below
            What the plan is to need less than; None: any will do.
        deadline
            Behind it whoever comes first is chosen, without a look; or, where `below` is given, it gives up.

        Returns
        -------
        None: it came to none below that, or time was over.
        """
        dive = _Dive(self, order, capacity, WALL if below is None else below)
        if not dive.run(jumps, Deadline(None) if deadline is None else deadline):
            return None
        found = [0] * len(order)
        for buffer, offset in zip(order, dive.offsets, strict=True):
            found[buffer] = offset
        return found


class _Dive:
    """One by an order; buffers are numbered by it.

    Attributes
    ----------
    height, until, since
        Of the part of the skyline that begins at a section: how high it is, -1 if none begins there, and where it ends;
        of the part that ends at one, where it begins.
    slack
        Units that each section has to lose.
    by
        The number of the turn in which each section got its last buffer; -1: none.
    parts
        A heap of parts by their height, above the bits of where they begin; some are there no more.
    rest
        Where parts begin that are as high as the one taken last.
    turns
        Of each turn who was placed, 0 where a part was raised; who could be and who was tried there; and the part.
    saved
        All as it was before every so many turns.
    """

    def __init__(self, skyline: Skyline, order: Sequence[int], capacity: int, below: int) -> None:
        count, last = len(order), len(skyline.load)
        self.capacity, self.below, self.last = capacity, below, last
        self.first, self.stop, self.sizes = (
            [of[i] for i in order] for of in (skyline.first, skyline.stop, skyline.sizes)
        )
        from_here, until_here = [0] * (last + 1), [0] * (last + 1)
        for rank in range(count):
            from_here[self.first[rank]] |= 1 << rank
            until_here[self.stop[rank]] |= 1 << rank
        self.after = list(accumulate(reversed(from_here), or_))[::-1]  # who starts there or later
        self.before = list(accumulate(until_here, or_))  # who ends there or earlier
        self.free, self.offsets = (1 << count) - 1, [0] * count
        self.height, self.until, self.since = [0] + [-1] * (last - 1) + [WALL], [last] * (last + 1), [0] * (last + 1)
        self.slack, self.by = [capacity - each for each in skyline.load], [-1] * (last + 1)
        self.parts, self.rest = [0], list[int]()
        self.shift = last.bit_length()
        self.turns: list[tuple[int, int, int, int, int]] = []
        self.saved: list[tuple[int, tuple[list[int], ...]]] = []

    def run(self, jumps: int, deadline: Deadline) -> bool:
        """Place all; whether that came to a plan below what is wanted."""
        count, looks, turns, start = 0, True, self.turns, deadline.left
        while self.free:
            count += 1
            if start < math.inf and count % OFTEN == 1:
                left = deadline.left
                if left <= 0 and self.below < WALL:
                    return False
                rest = (start - left) / count * self.free.bit_count() if count > 1 else 0.0  # as the turns so far took
                jumps = jumps if left - start * SPARED > rest else 0
                looks = left > rest / LOOKS
            if jumps and len(turns) == SAVED * len(self.saved):
                self._save()
            a, b = self._lowest()
            able = self.after[a] & self.before[b] & self.free
            chosen, excess = self._best(a, b, able) if looks else (able & -able, 0)
            tried = chosen
            if excess > 0:
                blamed = self._blamed(a, b) if jumps else None
                if blamed is not None:
                    number, chosen = blamed
                    _, able, tried, a, b = turns[number]
                    tried |= chosen
                    self._back(number)
                    jumps -= 1
                elif self.capacity + excess >= self.below:
                    return False
            self._take(a, b, chosen, len(turns))
            turns.append((chosen, able, tried, a, b))
        return max(map(add, self.offsets, self.sizes), default=0) < self.below

    def _lowest(self) -> tuple[int, int]:
        """The lowest part of the skyline, the first of these: where it begins and ends."""
        if self.rest:
            a = self.rest.pop()
            return a, self.until[a]
        height, until = self.height, self.until
        while True:
            part = heappop(self.parts)
            low, a = part >> self.shift, part & ((1 << self.shift) - 1)
            if height[a] == low:
                break
        b = until[a]
        while height[b] == low:
            height[b] = -1
            b = until[b]
        until[a], self.since[b] = b, a
        return a, b

    def _best(self, a: int, b: int, able: int) -> tuple[int, int]:
        """Of those who could be placed in a part, the first that loses not too much; and by how much it does.

        Nobody, where to raise the part is better.
        """
        height, slack = self.height, self.slack
        low, right = height[a], height[b]
        left = height[self.since[a]] if a else WALL
        best, least, rest = 0, WALL, able
        while rest:
            bit = rest & -rest
            rank = bit.bit_length() - 1
            begin, end, top, excess = self.first[rank], self.stop[rank], low + self.sizes[rank], 0
            if a < begin and not self.after[a] & self.before[begin] & self.free:
                excess = min(left, top) - low - min(slack[a:begin])
            if end < b and not self.after[end] & self.before[b] & self.free:
                excess = max(excess, min(right, top) - low - min(slack[end:b]))
            if excess <= 0:
                return bit, 0
            if excess < least:
                best, least = bit, excess
            rest ^= bit
        rise = min(left, right)
        if rise < WALL:
            excess = rise - low - min(slack[a:b])
            if excess < least:
                return 0, excess
        return best, least

    def _blamed(self, a: int, b: int) -> tuple[int, int] | None:
        """A turn before, and who is missing in a part and could be placed then instead; None: there is none.

        First the turns beside the part, of these the last; then the last of all that were near it.
        """
        turns, slack = self.turns, self.slack[a:b]
        section = a + slack.index(min(slack))
        missing = self.free & ~self.after[section + 1] & ~self.before[section]
        beside = (self.by[a - 1] if a else -1, self.by[b] if b < self.last else -1)
        for number in sorted(beside, reverse=True):
            if number >= 0:
                _, able, tried, _, _ = turns[number]
                if others := able & missing & ~tried:
                    return number, others & -others
        for number in range(len(turns) - 1, max(-1, len(turns) - 1 - BEHIND), -1):
            _, able, tried, begin, end = turns[number]
            if begin <= b and end >= a and (others := able & missing & ~tried):
                return number, others & -others
        return None

    def _save(self) -> None:
        """Keep all as it is before the next turn."""
        lists = (self.height, self.until, self.since, self.slack, self.by, self.parts, self.rest)
        self.saved.append((self.free, tuple([each[:] for each in lists])))

    def _back(self, number: int) -> None:
        """All as it was in a turn, when a part had been taken off the heap."""
        del self.saved[number // SAVED + 1 :]
        self.free, lists = self.saved.pop()
        self.height, self.until, self.since, self.slack, self.by, self.parts, self.rest = lists
        self._save()
        for at in range(number // SAVED * SAVED, number):
            self._take(*self._lowest(), self.turns[at][0], at)
        self._lowest()
        del self.turns[number:]

    def _take(self, a: int, b: int, chosen: int, number: int) -> None:
        """Place the chosen one in a part, whose ends beside it are as low as before; raise it where nobody is."""
        if not chosen:
            self._raise(a, b)
            return
        height, until, since = self.height, self.until, self.since
        low, rank = height[a], chosen.bit_length() - 1
        begin, end = self.first[rank], self.stop[rank]
        self.by[begin:end] = [number] * (end - begin)
        self.free ^= chosen
        self.offsets[rank] = low
        top = low + self.sizes[rank]
        height[begin], until[begin], since[end] = top, end, begin
        heappush(self.parts, top << self.shift | begin)
        if a < begin:
            height[a], until[a], since[begin] = low, begin, a
            self.rest.append(a)
        if end < b:
            height[end], until[end], since[b] = low, b, end
            self.rest.append(end)

    def _raise(self, a: int, b: int) -> None:
        """Raise a part to the lower of its neighbours, and join it with that one."""
        height, until, since = self.height, self.until, self.since
        left, right = height[since[a]] if a else WALL, height[b]
        rise = min(left, right)
        if rise == WALL:  # nobody is missing there
            return
        lost = rise - height[a]
        self.slack[a:b] = [each - lost for each in self.slack[a:b]]
        begin, end = a, b
        height[a] = -1
        if left == rise:
            begin = since[a]
        if right == rise:
            height[b], end = -1, until[b]
        height[begin], until[begin], since[end] = rise, end, begin
        if left != rise:
            heappush(self.parts, rise << self.shift | begin)
