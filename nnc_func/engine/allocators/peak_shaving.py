"""Best fit in execution order, of which the highest peaks are planned anew: for more buffers than others take.

Of very many buffers few moments decide how large the arena is. Those who reach highest are taken out with all that
live at about that time, and put back greedily by size, which fragments less; who lives on before or after stays where
it is. Each time costs as much as a small problem does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.allocators.best_fit import in_order
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE, by_size
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE

MOST = 16  # times as many buffers as around a peak that may be alive there with them
WIDER = 8  # times as many buffers, at most, where a peak is not lowered


@frozen
class PeakShaving:
    """The highest buffer and those around it in time are put first fit, the largest first, until the arena will do.

    It starts from best fit in the order of time. Of buffers that reach as high the first is taken; of those around it
    buffers of one size go by the start of their lives, then by index. Where a peak is not lowered, twice as many are
    taken, then it ends. Deterministic; O(n log n), and for each peak as for so many buffers.

    Attributes
    ----------
    enough
        Times the lower bound: an arena that will do.
    around
        Buffers that start before the highest one, and after it, that are planned anew.
    steps
        How often at most.
    seconds
        Of processor time at most, but for best fit; None: as long as the steps take.

    Examples
    --------
    >>> PeakShaving()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [0, 64, 0]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    enough: float = field(default=1.1, kw_only=True)
    around: int = field(default=1500, kw_only=True)
    steps: int = field(default=1000, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)

    def __call__(self, problem: Problem) -> Sequence[int] | Integers:
        """The offsets, in bytes."""
        if problem.uses is not None:
            return GREEDY_BY_SIZE(problem)
        return self.shaved(problem, in_order(problem.rounded, problem.lower, problem.upper))

    def shaved(self, problem: Problem, offsets: Sequence[int] | Integers) -> Sequence[int] | Integers:
        """The offsets of another plan, its peaks lowered."""
        deadline, goal = Deadline(self.seconds), int(self.enough * problem.max_load)
        if arena_size(problem, offsets) <= goal:
            return offsets
        places, around = _Places(problem, np.array(offsets, np.int64)), self.around
        for _ in range(self.steps):
            if places.ends.max() <= goal or not deadline.has_room():
                break
            if places.lower_highest(around):
                around = self.around
            elif around < WIDER * self.around:
                around *= 2
            else:
                break
        found: list[int] = places.offsets.tolist()
        return found


class _Places:
    """A plan, and who is alive when."""

    def __init__(self, problem: Problem, offsets: Integers) -> None:
        self.problem, self.offsets = problem, offsets
        self.ends = offsets + problem.rounded
        self.by_start = np.argsort(problem.lower, kind="stable")
        self.starts = problem.lower[self.by_start]
        self.latest = np.maximum.accumulate(problem.upper[self.by_start])

    def lower_highest(self, around: int) -> bool:
        """Plan the highest buffer anew, with those around it; whether the highest of these is lower."""
        p, i = self.problem, int(self.ends.argmax())
        at = int(np.searchsorted(self.starts, p.lower[i]))
        begin = min(int(p.lower[i]), int(self.starts[max(0, at - around)]))
        end = int(self.latest[-1] if at + around >= len(p) else max(p.upper[i], self.starts[at + around]))
        alive = self._alive(begin, end)
        if len(alive) > MOST * around:
            return False
        within = (p.lower[alive] >= begin) & (p.upper[alive] <= end)
        pins = np.where(within, FREE, self.offsets[alive])
        part = Problem(p.sizes[alive], p.lower[alive], p.upper[alive], p.alignment, pins=pins)
        found = np.array(first_fit(part, by_size(part)), np.int64)
        ends = found + part.rounded
        if ends[within].max() >= self.ends[i]:
            return False
        self.offsets[alive], self.ends[alive] = found, ends
        return True

    def _alive(self, begin: int, end: int) -> Integers:
        """Who is alive at some step from `begin` to `end`."""
        first, stop = np.searchsorted(self.latest, begin, side="right"), np.searchsorted(self.starts, end)
        some = self.by_start[first:stop]
        found: Integers = some[self.problem.upper[some] > begin]
        return found
