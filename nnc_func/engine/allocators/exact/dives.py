"""Ranks are searched by where they lead: dives that all but never go back, of which the best are changed.

Where no order that is known beforehand leads to a plan, going back seldom helps, as what is wrong was chosen long
before. A dive takes as long as some hundred buffers that are placed, and even where it finds no plan, what comes of it
when descents place the rest says how good its rank is: by how much buffers reach above the bound, in the fourth power.
So ranks are kept and changed as local search does it. Where descents do not know all that is said, of pins and several
alignments, the rank is as good as the dive is deep.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.completion import Completion
from nnc_func.engine.allocators.exact.conflicts import Conflicts, conflicts
from nnc_func.engine.allocators.exact.ranking import Ranking, by_rank
from nnc_func.engine.allocators.exact.search import Search, fewest_candidates, least_slack, lowest_floor
from nnc_func.engine.allocators.placement.descents import tops
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.allocators.problems.reductions import merged

CHOICES = (least_slack, lowest_floor, fewest_candidates)
KEPT = 12  # ranks
FRESH = 0.15  # chance of a rank that is drawn anew
BACK = 8  # a part of the buffers that a dive may place in vain
APART = 4  # a part of what is between the bound and the smallest plan by which the next one is to be smaller
CLOSE = 32  # a part of the same, that is too little to look between
KNOWN = "TWA"  # the order of ranks that are not drawn
LESS = 30  # buffers by which ranks of earlier plans count as less deep than those of the last
FINENESS, CLIPPED = 1 << 12, 6000  # parts of the bound in which an excess is counted, and the most that counts
NOISE = (0.035, 0.07, 0.2)  # of a drawn rank, as a part of all ranks
MOVED, FAR = (0.02, 0.1, 0.3), (0.07, 0.35)  # what part of a rank is changed, and by how much


class Dives:
    """The ranks that are kept of one problem, the best first.

    A rank is a number for each buffer, the greatest first. A drawn one mixes three: the load of the fullest section,
    the number of sections, and the size, each by its place in their order. Deterministic for a seed.

    Examples
    --------
    >>> from nnc_func.engine.allocators.base import Problem
    >>> from nnc_func.engine.allocators.exact.conflicts import conflicts
    >>> dives = Dives(conflicts(Problem([2, 1, 2, 1], [0, 1, 2, 0], [2, 3, 3, 1], alignment=1)), seed=0)
    >>> found, nodes = dives.lowered(size=5, bound=3, steps=100, deadline=Deadline(None))
    >>> int((found + dives.conflicts.sizes).max())
    3
    """

    def __init__(self, conflicts: Conflicts, seed: int) -> None:
        self.conflicts, self.draw = conflicts, Random(seed)
        self.orders = [_places(key) for key in (conflicts.fullest, conflicts.widths, conflicts.sizes)]
        self.completion, self.load = Completion(conflicts), int(conflicts.loads.max(initial=0))
        self.kept: list[tuple[int, NDArray[np.float64], int]] = []  # how bad, the rank, and the choice of sections

    def lowered(self, size: int, bound: int, steps: int, deadline: Deadline) -> tuple[Integers | None, int]:
        """The offsets of the smallest plan below a size that is found, in units; and how many buffers were placed.

        Each plan is to be smaller than the last one by a quarter of what is between it and the bound.
        """
        best: Integers | None = None
        nodes, count = 0, len(self.conflicts)
        while size > bound and nodes < steps and not deadline.is_over:
            rank, choice = self._next()
            order = np.argsort(-rank, kind="stable")
            target = size - max(1, (size - bound) // APART)
            search = Search(Ranking(self.conflicts, target, order), CHOICES[choice])
            found = search.run(min(count + count // BACK + 1, steps - nodes), deadline)
            nodes += max(search.nodes, 1)
            if found is False:
                bound = max(bound, target + 1)
                continue
            plan = self.completion.of(search) if isinstance(found, bool) or found is None else found
            if plan is not None and (top := int(tops(self.conflicts.sizes, plan))) < size:
                best, size = plan, top
                if not self.completion.is_possible:
                    self.kept = [(cost + LESS, *rest) for cost, *rest in self.kept]  # type: ignore[misc]
            if plan is None:
                cost = count - search.deepest
            else:
                cost = self._cost(plan) if self.completion.is_possible else 0
            self.kept.append((cost, rank, choice))
            self.kept.sort(key=lambda kept: kept[0])
            del self.kept[KEPT:]
        return best, nodes

    def halved(self, size: int, bound: int, steps: int, deadline: Deadline) -> tuple[Integers | None, int]:
        """As `lowered`, by a rank that is known beforehand.

        Each plan is to be half as far above the bound as the last one, or above what was asked for in vain: with a
        little room to waste a dive most often ends.
        """
        best: Integers | None = None
        nodes, count, order = 0, len(self.conflicts), by_rank(self.conflicts, KNOWN)
        for choose in CHOICES:
            below = bound
            while size - below > (size - bound) // CLOSE and nodes < steps and not deadline.is_over:
                target = (below + size) // 2
                search = Search(Ranking(self.conflicts, target, order), choose)
                found = search.run(min(count + count // BACK + 1, steps - nodes), deadline)
                nodes += max(search.nodes, 1)
                if found is False:
                    bound = below = target + 1
                    continue
                plan = self.completion.of(search) if isinstance(found, bool) or found is None else found
                if plan is not None and (top := int(tops(self.conflicts.sizes, plan))) < size:
                    best, size = plan, top
                if size > target:
                    below = target + 1
        return best, nodes

    def _cost(self, offsets: Integers) -> int:
        """By how much buffers reach above the max load, in the fourth power: integers, so that all machines agree."""
        excess = np.maximum(offsets + self.conflicts.sizes - self.load, 0) // max(1, self.load // FINENESS)
        return int((np.minimum(excess, CLIPPED) ** 4).sum())

    def _next(self) -> tuple[NDArray[np.float64], int]:
        """A rank that is drawn, or one of those that are kept, changed; and how sections are chosen."""
        draw, count = self.draw, len(self.conflicts)
        if len(self.kept) < KEPT or draw.random() < FRESH:
            rank = sum(draw.random() * order for order in self.orders) + draw.choice(NOISE) * self._noise(count)
            return rank, draw.randrange(len(CHOICES))
        _, rank, choice = self.kept[min(draw.randrange(KEPT), draw.randrange(KEPT))]
        part, far = draw.choice(MOVED), draw.choice(FAR)
        moved = np.array([draw.random() < part for _ in range(count)])
        rank = rank.copy()
        rank[moved] += far * self._noise(int(moved.sum()))
        return rank, draw.randrange(len(CHOICES)) if draw.random() < 0.1 else choice

    def _noise(self, count: int) -> NDArray[np.float64]:
        """Numbers between -1 and 1, the more seldom the farther from zero."""
        return np.array([self.draw.random() + self.draw.random() - 1 for _ in range(count)])


class DivedPlans:
    """Plans that dives find for one space of a problem, in bytes; ranks are kept from one time to the next.

    Examples
    --------
    >>> from nnc_func.engine.allocators.base import Problem
    >>> plans = DivedPlans(Problem([2, 1, 2, 1], [0, 1, 2, 0], [2, 3, 3, 1], alignment=1))
    >>> plans.lowered(size=5, bound=3, steps=100, deadline=Deadline(None))[0]
    [0, 2, 0, 2]
    """

    def __init__(self, problem: Problem) -> None:
        self._reduced = merged(problem)
        self._dives, self._is_new = Dives(conflicts(self._reduced.problem), 0), True

    def lowered(self, size: int, bound: int, steps: int, deadline: Deadline) -> tuple[list[int] | None, int]:
        """The smallest plan below a size that is found; and how many buffers were placed. As of `Dives`.

        The first time it begins with a rank that is known beforehand.
        """
        known, found, nodes = self._dives.conflicts, None, 0
        top, least = -(-size // known.unit), -(-bound // known.unit)
        if self._is_new:
            found, nodes = self._dives.halved(top, least, steps, deadline)
            self._is_new = False
        if found is not None:
            top = int(tops(known.sizes, found))
        smaller, more = self._dives.lowered(top, least, steps - nodes, deadline)
        found, nodes = found if smaller is None else smaller, nodes + more
        if found is None:
            return None, nodes
        plan: list[int] = known.in_bytes(self._reduced.problem, found)[self._reduced.stands_for].tolist()
        return plan, nodes


def _places(key: NDArray[Any]) -> NDArray[np.float64]:
    """The place of each in the order of a key, from 0 to 1."""
    found = np.empty(len(key))
    found[np.argsort(key, kind="stable")] = np.arange(len(key))
    return found / max(1, len(key) - 1)
