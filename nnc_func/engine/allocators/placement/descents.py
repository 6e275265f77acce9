"""Lowest offset first: each time the buffer that may lie lowest is placed there, ties by a rank.

It is the first descent of minimalloc's search (Moffitt, "MiniMalloc", 2023, section 4) without a capacity. A rank of
every buffer is all that there is to choose, so that orders can be tried side by side, as rows of one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.placement.cells import descent
from nnc_func.engine.allocators.placement.costs import Costs
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.locks import cached_property

FEW = 1024  # buffers up to which they are placed one by one
SPARSE = 8  # steps a buffer from which on they are numbered anew
APART = -1 << 40  # units: no rise at all
PLACED = -1  # instead of the least offset of one that has a place
ORDERS = ("TWA", "TAW", "WAT")  # most bytes alive meanwhile, width in time, area: the largest first


def loads(problem: Problem) -> Integers:
    """For each buffer the most bytes that are alive at a step of its life.

    Examples
    --------
    >>> loads(Problem([64, 64, 64], [0, 1, 4], [2, 3, 5]))
    array([128, 128,  64])
    """
    lower, upper, steps = _steps(problem)
    change = np.zeros(steps, np.int64)
    np.add.at(change, lower, problem.rounded)
    np.subtract.at(change, upper, problem.rounded)
    level, width = np.cumsum(change), np.frexp(upper - lower)[1] - 1
    found = np.zeros(len(problem), np.int64)
    for k in range(int(width.max(initial=-1)) + 1):  # the greatest of 2**k steps each, from every step on
        if k:
            level = np.maximum(level[: -(1 << k - 1)], level[1 << k - 1 :])
        some = np.flatnonzero(width == k)
        found[some] = np.maximum(level[lower[some]], level[upper[some] - (1 << k)])
    return found


def _steps(problem: Problem) -> tuple[Integers, Integers, int]:
    """Lives by numbers of steps from 0 on, and how many there are: those at which nothing happens left out if many."""
    if not len(problem):
        return problem.lower, problem.upper, 0
    begin, end = int(problem.lower.min()), int(problem.upper.max())
    if end - begin < SPARSE * len(problem):
        return problem.lower - begin, problem.upper - begin, end - begin + 1
    times, both = np.unique(np.concatenate((problem.lower, problem.upper)), return_inverse=True)
    lower, upper = both.reshape(2, -1)
    return lower, upper, len(times)


def static_ranks(problem: Problem, orders: Sequence[str] = ORDERS) -> Integers:
    """One row an order: the rank of each buffer in it, by what its letters say, the largest first."""
    keys: dict[str, NDArray[Any]] = {"T": -loads(problem), "W": problem.lower - problem.upper, "A": -_areas(problem)}
    ranks = np.empty((len(orders), len(problem)), np.int64)
    for row, order in zip(ranks, orders, strict=True):
        row[np.lexsort([keys[letter] for letter in reversed(order)])] = np.arange(len(problem))
    return ranks


def _areas(problem: Problem) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.multiply(problem.sizes, problem.upper - problem.lower, dtype=np.float64)
    return found


def _type(units: int, bits: int) -> tuple[np.dtype[Any], bool]:
    """Of offsets above the bits of a rank; and whether they have room in it."""
    most = units + 1 << bits + 1
    return np.dtype(np.int32 if most < 1 << 30 else np.int64), most < 1 << 62


def above(met: NDArray[np.bool_], rises: Integers, bits: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The table of `side_by_side`: by how much others are to be above, those that may not share with a buffer."""
    found: NDArray[Any] = np.where(met, (rises << bits).astype(dtype), dtype.type(-(np.iinfo(dtype).max // 2)))
    return found


def of_conflicts(conflicting: NDArray[np.bool_], sizes: Integers) -> tuple[NDArray[Any], int] | None:
    """The table of `side_by_side`, and the bits of a rank in it; None: so many units have no room.

    Examples
    --------
    >>> table, bits = of_conflicts(np.array([[False, True], [True, False]]), np.array([3, 5]))
    >>> side_by_side(table, np.array([[0, 1], [1, 0]]), bits)
    array([[0, 3],
           [5, 0]])
    """
    bits = max(1, len(sizes) - 1).bit_length()
    dtype, is_possible = _type(int(sizes.sum()), bits)
    return (above(conflicting, sizes[:, None], bits, dtype), bits) if is_possible else None


def side_by_side(
    table: NDArray[Any],
    ranks: Integers,
    bits: int,
    *,
    least: Integers | None = None,
    steps: NDArray[Any] | None = None,
) -> Integers:
    """The offsets of descents, a row for each row of ranks: each step places one buffer in each.

    Parameters
    ----------
    table
        Of `above`, a row a buffer.
    bits
        Of a rank, below those of an offset.
    least
        The least offset of each, above those that have a place, which are `PLACED`, and have 0. None: nobody has one.
    steps
        Alignments, above the bits of a rank.
    """
    never, left = np.iinfo(table.dtype).max, ranks.shape[1]
    ranks = ranks.astype(table.dtype)
    key, raised = ranks.copy(), np.empty_like(ranks)  # the least offset that each may have, and its rank
    if least is not None:
        free = least != PLACED
        key += (np.where(free, least, 0) << bits).astype(table.dtype)
        key[:, ~free] = never
        left = int(free.sum())
    offsets = np.zeros_like(ranks)
    flat, found, mask = key.reshape(-1), offsets.reshape(-1), table.dtype.type(-1 << bits)
    start = np.arange(len(ranks)) * ranks.shape[1]
    for _ in range(left):
        chosen = key.argmin(axis=1)
        at = start + chosen
        offset = flat[at] & mask
        found[at] = offset
        flat[at] = never
        table.take(chosen, axis=0, out=raised, mode="clip")
        raised += offset[:, None]
        if steps is not None:
            raised //= -steps
            raised *= -steps
        raised += ranks
        np.maximum(key, raised, out=key)
    return (offsets >> bits).astype(np.int64)


class Descents:
    """Descents of one problem by any ranks; of pins they know nothing.

    Attributes
    ----------
    unit
        Bytes of which all sizes, alignments and ends of pieces are multiples.
    sizes
        In units.
    steps
        Alignments in units; None: any unit will do.
    is_possible
        Whether numbers of bytes and ranks have room in one 64-bit integer.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.unit = int(np.gcd.reduce(problem.rounded)) or 1
        self.steps: Integers | None = None
        if problem.gaps:
            windows = np.concatenate((problem.pieces.low, problem.pieces.high))
            self.unit = math.gcd(self.unit, *np.unique(windows).tolist())
        step, waste = problem.granularity, 0
        if self.unit % step or not isinstance(problem.alignment, int):
            self.unit = math.gcd(self.unit, *np.unique(problem.alignments).tolist())
            self.steps = problem.alignments // self.unit
            waste = int(self.steps.sum())
        self.sizes: Integers = problem.rounded // self.unit
        self.bits = max(1, len(problem) - 1).bit_length()
        self.dtype, self.is_possible = _type(int(self.sizes.sum()) + waste, self.bits)

    @cached_property
    def rises(self) -> Integers:
        """A row a buffer: by how many units each other one must lie above it, if not below it; `APART`: they may share.

        Of a buffer with gaps the highest piece counts that meets the other, from the other's lowest byte on.
        """
        p = self.problem
        found = (p.lower[:, None] < p.upper) & (p.upper[:, None] > p.lower)
        if not p.gaps and p.uses is None:
            return np.where(found, self.sizes[:, None], APART)
        met = np.zeros_like(found)
        if p.uses is not None:
            for i, row in enumerate(met):
                np.logical_not(p.uses.apart(i), out=row)
        pieces = p.pieces
        at = pieces.buffer
        meet = (pieces.lower[:, None] < pieces.upper) & (pieces.upper[:, None] > pieces.lower) | met[at[:, None], at]
        above = np.where(meet, (pieces.high[:, None] - pieces.low) // self.unit, APART)
        begins = np.searchsorted(at, np.arange(len(p)))
        some = np.flatnonzero(np.append(begins[1:], len(at)) > begins)  # the others are never alive
        rises = np.full(found.shape, APART)
        if len(some):
            above = np.maximum.reduceat(np.maximum.reduceat(above, begins[some]), begins[some], axis=1)
            rises[np.ix_(some, some)] = above
        return rises

    @cached_property
    def _above(self) -> NDArray[Any]:
        """As `rises`, above the bits of a rank."""
        p = self.problem
        if p.gaps or p.uses is not None:
            return above(self.rises != APART, self.rises, self.bits, self.dtype)
        met = (p.lower[:, None] < p.upper) & (p.upper[:, None] > p.lower)
        return above(met, self.sizes[:, None], self.bits, self.dtype)

    def together(self, ranks: Integers) -> Integers:
        """For each row of ranks the offsets, in units: all rows take a step at a time."""
        steps = None if self.steps is None else (self.steps << self.bits).astype(self.dtype)
        return side_by_side(self._above, ranks, self.bits, steps=steps)

    def one(self, rank: Integers) -> Integers:
        """The offsets by one rank, in units."""
        p = self.problem
        if p.gaps or self.steps is not None:
            return self.together(rank[None])[0] if len(p) <= FEW else self.one_by_one(rank)
        if p.uses is None and len(p) > FEW and self.costs.in_cells < self.costs.one_by_one:
            return descent(self.sizes, p.lower, p.upper, rank)
        return self.one_by_one(rank)

    @cached_property
    def costs(self) -> Costs:
        """Of descents."""
        return Costs.of(self.problem)

    def one_by_one(self, rank: Integers) -> Integers:
        """As `one`: each step looks for the lowest of all, and at those of about its time, by their whole lives."""
        p = self.problem
        by_time = np.argsort(p.lower, kind="stable")
        lower, upper, sizes = p.lower[by_time], p.upper[by_time], (self.sizes[by_time] << self.bits).tolist()
        ranked = rank[by_time].astype(self.dtype)
        steps = None if self.steps is None else (self.steps[by_time] << self.bits).astype(self.dtype)
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
            keys, top = key[span], offset + sizes[i]
            if steps is None:
                np.maximum(keys, ranked[span] + top, out=keys, where=hurt)
            else:
                np.maximum(keys, ranked[span] + top // -steps[span] * -steps[span], out=keys, where=hurt)
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
