"""Buffers that live in memory which is free for a while and lies elsewhere: which of them, and where in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc_func.engine.allocators.problems.fields import Uses

WORTHWHILE = 1 << 16  # bytes of a house, or of a buffer, from which on it is considered
MOST = 512  # buffers that one may house


def borrowers(
    sizes: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    capacity: int,
    before: int,
    alignment: int = 1,
    uses: Uses | None = None,
    least: int = WORTHWHILE,
) -> dict[int, int]:
    """Which buffers to house in `capacity` bytes that are free until instruction `before`, and where, in bytes.

    Greedy: a buffer that is alive where the most bytes are, the largest first, at the lowest place that is free while
    it is alive, as long as that lowers the peak. With `uses`, of these buffers and of the lender behind them, they are
    apart from it and from each other by those too. What has less than `least` bytes neither houses nor is housed.

    Examples
    --------
    >>> big = 1 << 20
    >>> borrowers([big, big, big], [0, 1, 2], [2, 3, 4], capacity=big, before=3)
    {1: 0}
    >>> borrowers([big, big], [0, 0], [2, 2], capacity=2 * big, before=3)
    {0: 0, 1: 1048576}
    """
    chosen: dict[int, int] = {}
    if capacity < least or not len(sizes):
        return chosen
    size, low, up = (np.asarray(v, np.int64) for v in (sizes, lower, upper))
    change = np.zeros(int(up.max()) + 1, np.int64)
    np.add.at(change, low, size)
    np.subtract.at(change, up, size)
    load = np.cumsum(change)
    fits = (size <= capacity) & (size >= least) & (up <= before)
    if uses is not None:
        fits &= uses.apart(len(size))[:-1]
    while len(chosen) < MOST:
        peak = len(load) - 1 - int(load[::-1].argmax())  # the last one: near the end there is least choice
        there = np.flatnonzero(fits & (low <= peak) & (peak < up))
        best = -1
        for best in there[np.lexsort((there, -size[there]))].tolist():
            fits[best] = False
            apart = (up <= low[best]) | (low >= up[best]) if uses is None else uses.apart(best)[:-1]
            taken = sorted((at, at + sizes[other]) for other, at in chosen.items() if not apart[other])
            place = lowest(taken, sizes[best], alignment)
            if place + sizes[best] <= capacity:
                chosen[best] = place
                load[low[best] : up[best]] -= size[best]
                break
        else:
            return chosen
    return chosen


def lowest(taken: Sequence[tuple[int, int]], nbytes: int, alignment: int) -> int:
    """The lowest multiple of the alignment from which so many bytes are in none of these ranges, which are sorted.

    Examples
    --------
    >>> lowest([(0, 10), (20, 30), (90, 99)], 30, 8)
    32
    """
    found = 0
    for low, high in taken:
        if found + nbytes <= low:
            break
        found = max(found, -(-high // alignment) * alignment)
    return found
