"""Lowest offset first, by three static orders, of which the best is kept.

Source: the first descent of Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine
learning", 2023, without backtracking and without a capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import Problem
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE
from nnc_func.engine.allocators.placement.descents import ORDERS, Descents, static_ranks, tops, whole
from nnc_func.engine.allocators.placement.skyline import Skyline

SMALL = 1024  # buffers up to which the orders are tried side by side
JUMPS = 8  # a part of the buffers: as often a dive goes back


@frozen
class LowestFirst:
    """Whichever buffer may lie lowest goes there; ties by the busiest step of its life, its length, its area.

    The three are taken in three orders, and the least arena is kept, the first of equals; further ties go by index.
    Deterministic; O(n²) in whole arrays.

    Attributes
    ----------
    orders
        Letters of what decides ties, one after the other: T for the most bytes alive in its life, W for its length,
        A for its area.

    Examples
    --------
    >>> LowestFirst()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses", "gaps", "alignments"})

    orders: tuple[str, ...] = field(default=ORDERS, kw_only=True)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        return lowest(problem, of_bytes(problem), self.orders)


def of_bytes(problem: Problem) -> Descents:
    """The descents of those buffers that have bytes.

    Examples
    --------
    >>> len(of_bytes(Problem([64, 0], [0, 0], [1, 1])).problem)
    1
    """
    some = np.flatnonzero(problem.sizes)
    return Descents(problem if len(some) == len(problem) else problem.of(some))


def lowest(problem: Problem, descents: Descents, orders: Sequence[str]) -> Sequence[int]:
    """The offsets of the best of a problem's descents, one for each order; greedily, by size, where there are none.

    Examples
    --------
    >>> problem = Problem([64, 128, 64], [0, 1, 2], [2, 3, 4])
    >>> lowest(problem, of_bytes(problem), ["TWA"])
    [128, 0, 128]
    """
    if not descents.is_possible:  # more bytes than a rank leaves room for
        return GREEDY_BY_SIZE(problem)
    ranks = static_ranks(descents.problem, orders)
    together = len(ranks) > 1 and len(descents.problem) <= SMALL
    found = descents.together(ranks) if together else np.array([descents.one(rank) for rank in ranks])
    best = found[tops(descents.sizes, found).argmin()]
    return whole(problem, np.flatnonzero(problem.sizes), best * descents.unit)


def dived(problem: Problem, descents: Descents, orders: Sequence[str], deadline: Deadline) -> list[int]:
    """The offsets of the best of a problem's dives on a skyline: one for each order, while there is time.

    Parameters
    ----------
    descents
        Of a problem of which lives and sizes say all, `is_possible`.

    Examples
    --------
    >>> problem = Problem([64, 128, 64], [0, 1, 2], [2, 3, 4])
    >>> dived(problem, of_bytes(problem), ["TWA"], Deadline(None))
    [128, 0, 128]
    """
    known, sizes = descents.problem, descents.sizes
    skyline = Skyline(sizes, known.lower, known.upper)
    bound, top, best = max(skyline.load, default=0), 0, np.zeros(0, np.int64)
    for order, rank in zip(orders, static_ranks(known, orders), strict=True):
        found = skyline.dive(
            np.argsort(rank).tolist(),
            bound,
            jumps=len(rank) // JUMPS,
            below=None if order == orders[0] else top,
            deadline=deadline,
        )
        if found is not None:
            best = np.array(found, np.int64)
            top = int(tops(sizes, best))
        if top <= bound or deadline.is_over:
            break
    return whole(problem, np.flatnonzero(problem.sizes), best * descents.unit)
