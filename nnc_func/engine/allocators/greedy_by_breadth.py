"""Greedy by breadth: the steps at which the most is alive come first, and of each the largest buffer.

Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, sections 4 and 5;
TensorFlow Lite's GPU delegate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.base import FEATURES, Integers, Problem
from nnc_func.engine.allocators.fitting import tightest_fit


@frozen
class GreedyByBreadth:
    """Each buffer takes the smallest gap that holds it; ties go to the lower offset.

    Steps go by the bytes alive, the most first, then by time; the buffers of a step by size, the largest first, then
    by number. O(n log n) for the order.

    Examples
    --------
    >>> GreedyByBreadth()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        if not len(problem):
            return []
        times, first, last, load = sections(problem)
        rank = np.empty(len(times), np.int64)
        rank[np.lexsort((np.arange(len(times)), -load))] = np.arange(len(times))
        return tightest_fit(problem, np.lexsort((np.arange(len(problem)), -problem.sizes, _least(rank, first, last))))


def sections(problem: Problem) -> tuple[Integers, Integers, Integers, Integers]:
    """Time cut where a buffer starts: when each section begins, each buffer's first and last, and the bytes alive.

    Examples
    --------
    >>> sections(Problem([64, 128], [0, 5], [7, 9]))[1:]
    (array([0, 1]), array([1, 1]), array([ 64, 192]))
    """
    times = np.unique(problem.lower)
    first, after = np.searchsorted(times, problem.lower), np.searchsorted(times, problem.upper)
    change = np.zeros(len(times) + 1, np.int64)
    np.add.at(change, first, problem.rounded)
    np.subtract.at(change, after, problem.rounded)
    return times, first, after - 1, np.cumsum(change)[:-1]


def _least(values: Integers, first: Integers, last: Integers) -> Integers:
    """For each pair the least value from the first to the last, both included: by a sparse table."""
    table = [values]
    while 1 << len(table) <= len(values):
        half = 1 << (len(table) - 1)
        table.append(np.minimum(table[-1][:-half], table[-1][half:]))
    level = np.frexp(last - first + 1)[1] - 1
    found = np.empty(len(first), np.int64)
    for k in np.unique(level):
        those = level == k
        found[those] = np.minimum(table[k][first[those]], table[k][last[those] - (1 << int(k)) + 1])
    return found
