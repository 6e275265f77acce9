"""Greedy by size: the largest buffer first, each into the tightest gap among those that it conflicts with.

Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, section 5. It needs to
know only which buffers conflict, so that it serves partial orders as it does lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.base import Problem


@frozen
class GreedyBySize:
    """Each buffer takes the smallest gap that holds it, the largest buffers first; ties go to the lower offset.

    Buffers of one size go by the start of their lives, then by index. Deterministic; O(n²) in whole-array steps.

    Examples
    --------
    >>> GreedyBySize()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        sizes, lower = problem.rounded.tolist(), problem.lower.tolist()
        offsets = np.zeros(len(sizes), np.int64)
        placed = np.zeros(0, np.int64)  # in the order of their offsets
        ends = np.asarray(sizes, np.int64)  # of those placed
        for i in sorted((i for i in range(len(sizes)) if sizes[i]), key=lambda i: (-sizes[i], lower[i], i)):
            there = placed[problem.conflicting(i)[placed]]
            offsets[i] = _tightest(offsets[there], ends[there], sizes[i])
            ends[i] = offsets[i] + sizes[i]
            placed = np.insert(placed, np.searchsorted(offsets[placed], offsets[i]), i)
        return [*map(int, offsets)]


def _tightest(starts: NDArray[np.int64], ends: NDArray[np.int64], size: int) -> int:
    """The start of the smallest gap of `size` bytes at least below the last end, else that end. Starts ascend."""
    if not len(starts):
        return 0
    free = np.concatenate((np.zeros(1, np.int64), np.maximum.accumulate(ends)))
    gaps = starts - free[:-1]
    fitting = np.flatnonzero(gaps >= size)
    return int(free[fitting[gaps[fitting].argmin()]] if len(fitting) else free[-1])
