"""Local search over the ranks of lowest-first: the best descents are kept, and buffers of theirs are ranked anew.

What is made smaller is not the top, which seldom moves, but by how much buffers reach above the max load, in the
fourth power. Buffers that do, what they lie on, and what they conflict with, are moved.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import Problem
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.lowest_first import SMALL, LowestFirst
from nnc_func.engine.allocators.placement.descents import APART, Descents, static_ranks, tops, whole
from nnc_func.engine.allocators.problems.conversion import Integers

PARENTS, CHILDREN = 8, 16  # descents that are kept, and what is made of each at a time
FINENESS, CLIPPED = 1 << 12, 6000  # parts of the max load in which an excess is counted, and the most that counts
DEPTH = 3  # buffers that are passed on the way from one that reaches too high to the one that is moved


@frozen
class LocalSearch:
    """Orders are changed by a buffer at a time, and the best ones kept; it stops at the lower bound.

    Deterministic for a seed: it counts steps, and looks at the clock only where `seconds` says so. Of more than
    1,024 buffers it is `LowestFirst`.

    Attributes
    ----------
    steps
        Orders that are tried.
    seed
        Of the moves.
    seconds
        Of processor time after which it stops, whatever the steps; None: never.

    Examples
    --------
    >>> LocalSearch(steps=100)(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses", "gaps", "alignments"})

    steps: int = field(default=2000, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        deadline = Deadline(self.seconds)
        search = RankSearch.of(problem, self.seed)
        if search is None:
            return LowestFirst()(problem)
        search.run(self.steps, 0, deadline)
        return search.plan()


class RankSearch:
    """The descents that are kept, and the best one so far."""

    def __init__(self, problem: Problem, some: Integers, descents: Descents, draw: Random) -> None:
        self.problem, self.some, self.descents, self.draw = problem, some, descents, draw
        self.sizes = descents.sizes
        self.bound = descents.problem.max_load // descents.unit
        self.conflicts = descents.rises != APART
        np.fill_diagonal(self.conflicts, False)
        self.neighbours: dict[int, list[int]] = {}
        ranks = static_ranks(descents.problem)
        self.kept = np.argsort(ranks, axis=1)
        self.places = descents.together(ranks)
        self.costs = self._costs(self.places)
        at = tops(self.sizes, self.places).argmin()
        self.offsets = self.places[at]
        self.top = int(tops(self.sizes, self.offsets))

    @classmethod
    def of(cls, problem: Problem, seed: int) -> RankSearch | None:
        """The search of a problem; None: it has more than 1,024 buffers, or too many bytes."""
        some = np.flatnonzero(problem.sizes)
        descents = Descents(problem.of(some))
        return None if len(some) > SMALL or not descents.is_possible else cls(problem, some, descents, Random(seed))

    @property
    def best(self) -> int:
        """Bytes of the smallest arena so far."""
        return self.top * self.descents.unit

    def run(self, orders: int, capacity: int, deadline: Deadline) -> int:
        """Try so many orders, until one does with that capacity, or with the bound, or time is over: how many."""
        most, tried, took = max(self.bound, capacity // self.descents.unit), 0, 0.0
        while tried < orders and self.top > most and not deadline.is_over:
            count = min(orders - tried, PARENTS * CHILDREN)
            before = deadline.left
            if before < math.inf:  # as many as there is time for, as far as the last ones tell
                count = min(count, PARENTS if not took else int(before / took))
                if not count:
                    break
            tried += self.round(count)
            took = (before - deadline.left) / count if before < math.inf else took
        return tried

    def plan(self) -> list[int]:
        """The offsets of the smallest arena, in bytes."""
        return whole(self.problem, self.some, self.offsets * self.descents.unit)

    def _costs(self, offsets: Integers) -> Integers:
        """By how much they reach above the bound, in the fourth power: integers, so that all machines agree."""
        excess = np.maximum(offsets + self.sizes - self.bound, 0) // max(1, self.bound // FINENESS)
        return (np.minimum(excess, CLIPPED) ** 4).sum(axis=1)  # type: ignore[no-any-return]

    def round(self, count: int) -> int:
        """Try so many orders; how many they were."""
        parents = [n % len(self.kept) for n in range(count)]
        reach = [self._reaching(n) for n in range(len(self.kept))]
        orders = np.array([self._moved(n, *reach[n]) for n in parents])
        ranks = np.empty_like(orders)
        np.put_along_axis(ranks, orders, np.arange(orders.shape[1])[None], axis=1)
        places = self.descents.together(ranks)
        top = tops(self.sizes, places)
        at = int(top.argmin())
        if top[at] < self.top:
            self.top, self.offsets = int(top[at]), places[at]
        self._keep(orders, places)
        return count

    def _keep(self, orders: Integers, places: Integers) -> None:
        """The best of all, one of each cost, the latest of equals."""
        orders, places = np.concatenate((orders, self.kept)), np.concatenate((places, self.places))
        costs = self._costs(places)
        _, first = np.unique(costs, return_index=True)
        chosen = first[:PARENTS]
        self.kept, self.places, self.costs = orders[chosen], places[chosen], costs[chosen]

    def _reaching(self, n: int) -> tuple[list[int], list[int], list[int], list[int]]:
        """Of a kept descent: its order, its offsets, and the buffers that reach highest, with how far below the top."""
        ends = self.places[n] + self.sizes
        by_end = np.argsort(-ends, kind="stable")
        below = ends.max() - ends[by_end]
        return self.kept[n].tolist(), self.places[n].tolist(), by_end.tolist(), below.tolist()

    def _moved(self, n: int, order: list[int], offsets: list[int], by_end: list[int], below: list[int]) -> list[int]:
        """An order with one or two buffers at other places."""
        draw, moved = self.draw, order.copy()
        for _ in range(2 if draw.random() < 0.3 else 1):
            top = offsets[by_end[0]] + int(self.sizes[by_end[0]])
            chosen = by_end[draw.randrange(bisect_right(below, int((top - self.bound) * draw.random())))]
            for _ in range(draw.randrange(DEPTH + 1)):
                chosen = self._next(chosen, offsets)
            at, to = moved.index(chosen), draw.randrange(len(moved))
            if draw.random() < 0.3:
                moved[at], moved[to] = moved[to], moved[at]
            else:
                moved.insert(to, moved.pop(at))
        return moved

    def _next(self, buffer: int, offsets: list[int]) -> int:
        """One that it conflicts with, half of the time one that it lies on; itself, if there is none."""
        found = self.neighbours.get(buffer)
        if found is None:
            found = self.neighbours[buffer] = np.flatnonzero(self.conflicts[buffer]).tolist()
        if self.draw.random() < 0.5:
            found = [j for j in found if offsets[j] + int(self.sizes[j]) == offsets[buffer]]
        return self.draw.choice(found) if found else buffer
