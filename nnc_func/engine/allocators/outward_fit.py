"""Best fit away from the busiest step, after it and before it: an order of placing of our own.

What is alive at the busiest step fills the arena, whatever else is done. Stacked there by when it dies, it leaves room
from the top down, in which the rest is placed as close to the top as may be: holes come together instead of lying
between what lives on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.base import Problem
from nnc_func.engine.allocators.best_fit import either_way, fill
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE
from nnc_func.engine.allocators.problems.conversion import Integers


@frozen
class OutwardFit:
    """What is alive at the busiest step is stacked, what lives longest at the bottom; then best fit away from there.

    Each of the others takes the high end of the smallest hole that holds it, in the order of time behind the step, and
    in the reverse order before it. Ties: the first busiest step, then the largest, then the index. Run in both
    directions of time, and the smaller arena kept. Deterministic; O(n log n) but for the insertion into the list of
    holes.

    Examples
    --------
    >>> OutwardFit()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        if problem.uses is not None:
            return GREEDY_BY_SIZE(problem)
        return either_way(problem, outward)


def outward(sizes: Integers, lower: Integers, upper: Integers) -> list[int]:
    """Offsets by best fit away from the busiest step.

    Examples
    --------
    >>> outward(np.array([64, 64, 32]), np.array([0, 0, 1]), np.array([9, 1, 2]))
    [0, 64, 96]
    """
    step = busiest(sizes, lower, upper)
    some = sizes > 0
    there = np.flatnonzero(some & (lower <= step) & (step < upper))
    there = there[np.lexsort((-sizes[there], -upper[there]))]
    ends = np.cumsum(sizes[there])
    offsets = [0] * len(sizes)
    for i, end in zip(there.tolist(), ends.tolist(), strict=True):
        offsets[i] = end - int(sizes[i])
    fill(offsets, sizes, lower, upper, np.flatnonzero(some & (lower > step)), there)
    fill(offsets, sizes, -upper, -lower, np.flatnonzero(some & (upper <= step)), there)
    return offsets


def busiest(sizes: Integers, lower: Integers, upper: Integers) -> int:
    """The first step at which the most bytes are alive; 0 of none.

    Examples
    --------
    >>> busiest(np.array([64, 64, 32]), np.array([0, 3, 5]), np.array([4, 6, 7]))
    3
    """
    if not len(sizes):
        return 0
    times = np.concatenate((upper, lower))  # ends before starts where they meet
    order = np.argsort(times, kind="stable")
    return int(times[order[np.cumsum(np.concatenate((-sizes, sizes))[order]).argmax()]])
