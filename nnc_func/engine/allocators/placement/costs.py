"""What placing buffers takes, foretold from counts: microseconds of one core, measured once, equal on all machines."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.placement.cells import alive
from nnc_func.engine.allocators.problems.problem import Problem

ROUNDS = 10  # of a descent in cells, for each buffer that is alive at one time
ROUND = 30.0  # microseconds
NODE, CROWDED = 24.0, 0.0016  # microseconds a buffer that branch and bound places, and for each alive at each time
RANKED, SPREAD = 0.25, 0.0007  # microseconds a buffer of one order that local search tries, and for each other buffer


def of_node(alive: float) -> float:
    """Microseconds of a buffer that branch and bound places, which looks at all that are alive at each time."""
    return NODE + CROWDED * alive


def of_order(count: int) -> float:
    """Microseconds of one order of so many buffers that local search tries, beside others."""
    return (RANKED + SPREAD * count) * count


@frozen
class Costs:
    """Of one problem.

    Attributes
    ----------
    count
        Buffers.
    alive
        How many are alive at one time, in the mean.
    window
        How many start between the first one and the last one that may meet a buffer, in the mean: with long lives and
        short ones together more than are alive.
    """

    count: int
    alive: float
    window: float

    @classmethod
    def of(cls, problem: Problem) -> Costs:
        """Those of a problem.

        Examples
        --------
        >>> Costs.of(Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])).alive
        0.6666666666666666
        """
        if not len(problem):
            return cls(0, 0.0, 0.0)
        by_time = np.argsort(problem.lower, kind="stable")
        lower, upper = problem.lower[by_time], problem.upper[by_time]
        first = np.searchsorted(np.maximum.accumulate(upper), lower, side="right")
        return cls(
            len(problem), float(alive(lower, upper).mean()), float((np.searchsorted(lower, upper) - first).mean())
        )

    @property
    def fit(self) -> float:
        """Of any order, with the first fit or the tightest."""
        return (12 + 0.04 * self.alive) * self.count

    @property
    def busiest(self) -> float:
        """Of first fit at the busiest step each time."""
        return self.fit + (12 + 0.0017 * self.count) * self.count

    @property
    def one_by_one(self) -> float:
        """Of a descent from lowest offsets that places one buffer at a time."""
        return (4 + 0.0002 * self.count + 0.0015 * self.window + 0.01 * self.alive) * self.count

    @property
    def in_cells(self) -> float:
        """Of the same descent in all parts of time at once."""
        return ROUND * ROUNDS * self.alive + (1 + 0.06 * self.alive) * self.count

    @property
    def descent(self) -> float:
        """Of the cheaper one."""
        return min(self.one_by_one, self.in_cells)
