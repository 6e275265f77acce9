"""Gaps are chosen by the bytes that they spare where there are too many, for each byte that they move; then improved.

Steps with more bytes than the capacity are to be covered: a greedy cover, of which what is not needed is taken back
(V. Chvatal, A greedy heuristic for the set-covering problem, Mathematics of Operations Research, 1979). A search then
takes some gaps out of the answer, forbids them, and covers anew what that leaves uncovered; or it puts one in, and
takes back what that makes needless. It keeps what moves no more (P. Shaw, Using constraint programming and local search
methods to solve vehicle routing problems, CP 1998).
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.spilling.furthest import furthest
from nnc_func.engine.spilling.problem import SpillProblem, simulated

ROUNDS = 400  # of the search
WORK = 150_000  # gaps that the search looks at, at most: of large problems it has fewer rounds
Numbers = NDArray[Any]
FREE = 1e-3  # bytes, of what costs nothing
MOST = 8  # gaps that are taken out at once


class Choice:
    """Gaps that are spent in slow memory, and what follows from them, while they change.

    Attributes
    ----------
    dropped
        The gaps.
    moved
        The bytes that these move.
    over
        For each step the bytes in fast memory above the capacity; less than 0 where there is room.
    """

    def __init__(self, problem: SpillProblem, capacity: int) -> None:
        self.problem = problem
        self.dropped: set[int] = set()
        self.moved = 0
        self.over = np.array(problem.base.loads, np.int64) - capacity
        gaps = problem.gaps
        self.value = np.array([gap.value for gap in gaps], np.int64)
        self.start = np.array([gap.start for gap in gaps], np.int64)
        self.end = np.array([gap.end for gap in gaps], np.int64)
        self.size = np.array([problem.sizes[gap.value] for gap in gaps], np.int64)
        self.fetched = np.array(problem.costs, np.int64)
        self.is_clean = np.array([gap.value in problem.clean for gap in gaps], bool)
        self.times = np.zeros(len(problem.sizes), np.int64)  # that each value is brought back
        self.writes = np.array([step in problem.overwrites for step in range(len(problem))], bool)
        self.over_at = self.writes.tolist()

    def change(self, number: int) -> None:
        """Spend a gap in slow memory, or no longer."""
        value, start, end = self.problem.gaps[number]
        size, gone = int(self.size[number]), number not in self.dropped
        saved = self.problem.saved(start, self.dropped) if self.over_at[start] else 0
        if gone:
            self.moved += self.cost(number)
            self.dropped.add(number)
        else:
            self.dropped.remove(number)
        self.times[value] += 1 if gone else -1
        if not gone:
            self.moved -= self.cost(number)
        self.over[start + 1 : end] += -size if gone else size
        if self.over_at[start]:
            self.over[start] += saved - self.problem.saved(start, self.dropped)

    def cost(self, number: int) -> int:
        """Bytes that one more gap in slow memory moves."""
        written = not self.is_clean[number] and not self.times[self.value[number]]
        return int(self.fetched[number]) + (int(self.size[number]) if written else 0)

    def costs(self) -> Numbers:
        """The same of all gaps."""
        written = ~self.is_clean & (self.times[self.value] == 0)
        found: Numbers = self.fetched + self.size * written
        return found

    def fits(self, number: int) -> bool:
        """Whether there is room to spend a gap in fast memory again."""
        gap, size = self.problem.gaps[number], self.size[number]
        if (self.over[gap.start + 1 : gap.end] > -size).any():
            return False
        if not self.over_at[gap.start]:
            return True
        dropped = self.dropped
        more = self.problem.saved(gap.start, dropped) - self.problem.saved(gap.start, dropped - {number})
        return bool(self.over[gap.start] + more <= 0)

    def gain(self, number: int) -> int:
        """The bytes that a gap in slow memory spares where there are too many, summed over steps."""
        _, start, end = self.problem.gaps[number]
        size = self.size[number]
        found = int(np.clip(self.over[start + 1 : end], 0, size).sum())
        if self.over_at[start] and self.over[start] > 0:
            more = self.problem.saved(start, self.dropped | {number}) - self.problem.saved(start, self.dropped)
            found += min(more, int(self.over[start]))
        return found

    def most(self) -> Numbers:
        """For each gap no less than that: as if there were as many too many at each of its steps as together."""
        above = np.maximum(self.over, 0)
        total, count = (np.concatenate(([0], np.cumsum(each))) for each in (above, above > 0))
        first, last = self.start + 1, self.end
        spared: Numbers = np.minimum(total[last] - total[first], self.size * (count[last] - count[first]))
        spared += np.where(self.writes[self.start], np.minimum(above[self.start], self.size), 0)
        return spared

    def cover(self, forbidden: Collection[int] = ()) -> bool:
        """Spend gaps in slow memory until no step has too much; False: those that are not forbidden do not suffice.

        What a gap spares becomes less with each one that is chosen. So the best by what was found before is looked at
        again, until it stays the best.
        """
        if not (self.over > 0).any():
            return True
        rates = self.most() / np.maximum(self.costs(), FREE)
        rates[[*self.dropped, *forbidden]] = 0
        while rates.any():
            number = int(rates.argmax())
            rates[number] = self.gain(number) / max(self.cost(number), FREE)
            if rates[number] and int(rates.argmax()) == number:
                written = self.times[self.value[number]]
                self.change(number)
                rates[number] = 0
                if not written:  # to bring its value back in other gaps costs half as much from here on
                    rates[self.value == self.value[number]] *= 2
                if not (self.over > 0).any():
                    return True
        return False

    def prune(self, first: int = 0, last: int | None = None, held: Collection[int] = ()) -> None:
        """Spend gaps in fast memory again that need not be in slow memory: the largest first, of those near steps.

        Those that are held stay.
        """
        until = len(self.over) if last is None else last
        near = (self.start <= until) & (self.end >= first)
        near[[*held]] = False
        for number in self.dearest():
            if near[number] and self.fits(number):
                self.change(number)

    def dearest(self) -> list[int]:
        """The gaps in slow memory, the largest first."""
        return sorted(self.dropped, key=lambda number: (-int(self.size[number]), number))

    def span(self, before: Collection[int]) -> tuple[int, int]:
        """The first and the last step of the gaps by which the choice differs from another one."""
        gaps = self.problem.gaps
        changed = [gaps[number] for number in self.dropped.symmetric_difference(before)]
        return min([gap.start for gap in changed], default=0), max([gap.end for gap in changed], default=-1)

    def become(self, dropped: Collection[int]) -> None:
        """Let these gaps be the ones in slow memory."""
        for number in sorted(self.dropped.symmetric_difference(dropped)):
            self.change(number)


@frozen
class Cover:
    """A policy: the better one of a greedy cover and of what is wanted furthest away, improved by a search.

    Attributes
    ----------
    rounds
        Of the search, of small problems; large ones have fewer.
    seed
        Of its draws.

    Examples
    --------
    Of two that spare enough, the one that slow memory has already is not written there:

    >>> problem = SpillProblem([8, 8, 16], [(0, 5), (1, 2, 5), (3, 4)], [0] * 6, clean=[1])
    >>> simulated(problem, Cover()(problem, 24))
    <movement: peak 24, 8 bytes moved>
    """

    rounds: int = ROUNDS
    seed: int = 0

    def __call__(self, problem: SpillProblem, capacity: int) -> Collection[int]:
        """The gaps in slow memory; all of them where nothing else fits."""
        if problem.base.peak <= capacity:
            return ()
        everything = frozenset(range(len(problem.gaps)))
        if problem.least.peak > capacity:
            return everything
        choice, found = Choice(problem, capacity), list[frozenset[int]]()
        for dropped in (None, furthest(problem, capacity), everything):
            choice.become(dropped or ())
            if dropped is not None or choice.cover():
                if (choice.over > 0).any():
                    continue
                choice.prune()
                found.append(frozenset(choice.dropped))
        best = min(found, key=lambda dropped: (simulated(problem, dropped).moved, sorted(dropped)))
        choice.become(best)
        return self._searched(choice, Random(self.seed))

    def _searched(self, choice: Choice, random: Random) -> Collection[int]:
        best, least = frozenset(choice.dropped), choice.moved
        current = best
        rounds = min(self.rounds, WORK // len(choice.value))
        for _ in range(rounds):
            before = choice.moved
            taken = self._taken_out(choice, random) if random.random() < 0.5 else self._put_in(choice, random)
            held = [number for number in taken if number not in choice.dropped]
            for number in taken:
                choice.change(number)
            if choice.cover(taken) or choice.cover():
                choice.prune(*choice.span(current), held)
            if (choice.over > 0).any() or choice.moved > before:
                choice.become(current)
                continue
            current = frozenset(choice.dropped)
            if choice.moved < least:
                best, least = current, choice.moved
        return best

    @staticmethod
    def _taken_out(choice: Choice, random: Random) -> list[int]:
        """A few gaps in slow memory that are near each other: all of a value, or those around a step."""
        dropped = sorted(choice.dropped)
        gaps = choice.problem.gaps
        value, start, end = gaps[random.choice(dropped)]
        if random.random() < 0.5:
            near = [n for n in dropped if gaps[n].value == value]
        else:
            near = [n for n in dropped if gaps[n].start < end and start < gaps[n].end]
        return random.sample(near, min(len(near), random.randint(1, MOST)))

    @staticmethod
    def _put_in(choice: Choice, random: Random) -> list[int]:
        """A gap in fast memory that is near one in slow memory; half of the times that one as well, to be exchanged."""
        other = random.choice(sorted(choice.dropped))
        _, start, end = choice.problem.gaps[other]
        near = (choice.start < end) & (choice.end > start)
        near[[*choice.dropped]] = False
        numbers = np.flatnonzero(near).tolist()
        exchanged = [other] if random.random() < 0.5 else []
        return [random.choice(numbers), *exchanged] if numbers else [other]
