"""Lowest offset first: each time the buffer that may lie lowest is placed there, ties by a rank.

It is the first descent of minimalloc's search (Moffitt, "MiniMalloc", 2023, section 4) without a capacity. A rank of
every buffer is all that there is to choose, so that orders can be tried side by side, as rows of one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.problem import Problem

ORDERS = ("TWA", "TAW", "WAT")  # most bytes alive meanwhile, width in time, area: the largest first


def loads(problem: Problem) -> Integers:
    """For each buffer the most bytes that are alive at a step of its life.

    Examples
    --------
    >>> loads(Problem([64, 64, 64], [0, 1, 4], [2, 3, 5]))
    array([128, 128,  64])
    """
    times, both = np.unique(np.concatenate((problem.lower, problem.upper)), return_inverse=True)
    lower, upper = both.reshape(2, -1)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, lower, problem.rounded)
    np.subtract.at(change, upper, problem.rounded)
    spans = both.reshape(2, -1).T.ravel()  # start, end, start, ...: of the slices between them every other one
    return np.maximum.reduceat(np.cumsum(change), spans)[::2]


def static_ranks(problem: Problem, orders: Sequence[str] = ORDERS) -> Integers:
    """One row an order: the rank of each buffer in it, by what its letters say, the largest first."""
    keys = {"T": -loads(problem), "W": problem.lower - problem.upper, "A": -np.array(problem.areas, np.float64)}
    ranks = np.empty((len(orders), len(problem)), np.int64)
    for row, order in zip(ranks, orders, strict=True):
        row[np.lexsort([keys[letter] for letter in reversed(order)])] = np.arange(len(problem))
    return ranks


class Descents:
    """Descents of one problem by any ranks.

    Attributes
    ----------
    unit
        Bytes of which all sizes are multiples.
    sizes
        In units.
    conflicts
        Which buffers may not share a place: one row a buffer.
    is_possible
        Whether numbers of bytes and ranks have room in one 64-bit integer.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.unit = math.gcd(*np.unique(problem.rounded).tolist()) or 1
        self.sizes: Integers = problem.rounded // self.unit
        self.bits = max(1, len(problem) - 1).bit_length()
        most = int(self.sizes.sum()) + 1 << self.bits + 1
        self.is_possible = most < 1 << 62
        self.dtype = np.dtype(np.int32 if most < 1 << 30 else np.int64)

    @property
    def conflicts(self) -> NDArray[np.bool_]:
        """A row a buffer: with whom it may not share a place."""
        p = self.problem
        if p.uses is not None:
            return np.array([p.conflicting(i) for i in range(len(p))]).reshape(len(p), len(p))
        return (p.lower[:, None] < p.upper) & (p.upper[:, None] > p.lower)

    def together(self, ranks: Integers) -> Integers:
        """For each row of ranks the offsets, in units: all rows take a step at a time."""
        if not hasattr(self, "_apart"):
            dtype = self.dtype.type
            self._never = np.iinfo(dtype).max
            self._apart = np.where(self.conflicts, dtype(0), dtype(-(self._never // 2)))
            self._rise = (self.sizes << self.bits).astype(dtype)
        rows, count = ranks.shape
        ranks = ranks.astype(self.dtype)
        key, raised = ranks.copy(), np.empty_like(ranks)  # the least offset that each may have, and its rank
        offsets = np.empty_like(ranks)
        flat, found, mask = key.reshape(-1), offsets.reshape(-1), self.dtype.type(-1 << self.bits)
        start = np.arange(rows) * count
        for _ in range(count):
            chosen = key.argmin(axis=1)
            at = start + chosen
            offset = flat[at] & mask
            found[at] = offset
            flat[at] = self._never
            self._apart.take(chosen, axis=0, out=raised)
            raised += ranks
            raised += (offset + self._rise[chosen])[:, None]
            np.maximum(key, raised, out=key)
        return (offsets >> self.bits).astype(np.int64)

    def one(self, rank: Integers) -> Integers:
        """The offsets by one rank, in units: of many buffers, each step looks at those of about that time."""
        p = self.problem
        by_time = np.argsort(p.lower, kind="stable")
        lower, upper, sizes = p.lower[by_time], p.upper[by_time], (self.sizes[by_time] << self.bits).tolist()
        ranked = rank[by_time].astype(self.dtype)
        key, never, mask = ranked.copy(), int(np.iinfo(self.dtype.type).max), -1 << self.bits
        first = np.searchsorted(np.maximum.accumulate(upper), lower, side="right").tolist()
        stop = np.searchsorted(lower, upper, side="left").tolist()
        starts = lower.tolist()
        offsets = [0] * len(p)
        for _ in range(len(p)):
            i = int(key.argmin())
            offsets[i] = offset = key.item(i) & mask
            key[i] = never
            if p.uses is None:
                span = slice(first[i], stop[i])
                hurt = upper[span] > starts[i]
            else:
                span, hurt = slice(None), p.conflicting(int(by_time[i]))[by_time]
            keys = key[span]
            np.maximum(keys, ranked[span] + (offset + sizes[i]), out=keys, where=hurt)
        found = np.empty(len(p), np.int64)
        found[by_time] = np.array(offsets, np.int64) >> self.bits
        return found


def tops(sizes: Integers, offsets: Integers) -> Integers:
    """The top of each row of offsets."""
    return np.asarray((offsets + sizes).max(axis=-1, initial=0))


def whole(problem: Problem, some: Integers, offsets: Sequence[int] | Integers) -> list[int]:
    """The offsets of all buffers, given those of some; the others, which have no bytes, are at 0."""
    found = np.zeros(len(problem), np.int64)
    found[some] = offsets
    return found.tolist()
