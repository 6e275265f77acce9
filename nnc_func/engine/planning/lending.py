"""Memory of results lent out before it is written: values that are dead by then may live there instead of the arena."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc_func.engine.allocators.base import Uses

WORTHWHILE = 1 << 16  # bytes of a result, or of a value, from which on lending is considered
ROUNDS = 64  # values that one result may house, at the most


def borrowers(
    sizes: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    capacity: int,
    before: int,
    uses: Uses | None = None,
) -> list[int]:
    """Which buffers to house in `capacity` bytes that are free until instruction `before`, one at a time.

    Greedy: a buffer that is alive where the most bytes are, the largest first, as long as that lowers the peak. With
    `uses`, of these buffers and of the lender behind them, they are apart from it and from each other by those too.

    Examples
    --------
    >>> big = 1 << 20
    >>> borrowers([big, big, big], [0, 1, 2], [2, 3, 4], capacity=big, before=3)
    [1]
    """
    chosen: list[int] = []
    if capacity < WORTHWHILE or not len(sizes):
        return chosen
    size, low, up = (np.asarray(v, np.int64) for v in (sizes, lower, upper))
    change = np.zeros(int(up.max()) + 1, np.int64)
    np.add.at(change, low, size)
    np.subtract.at(change, up, size)
    load = np.cumsum(change)
    fits = (size <= capacity) & (size >= WORTHWHILE) & (up <= before)
    if uses is not None:
        fits &= uses.apart(len(size))[:-1]
    for _ in range(ROUNDS):
        peak = len(load) - 1 - int(load[::-1].argmax())  # the last one: near the end there is least choice
        there = np.flatnonzero(fits & (low <= peak) & (peak < up))
        if not len(there):
            return chosen
        best = int(there[np.lexsort((there, -size[there]))[0]])
        chosen.append(best)
        load[low[best] : up[best]] -= size[best]
        fits &= (up <= low[best]) | (low >= up[best])
        if uses is not None:
            fits &= uses.apart(best)[:-1]
    return chosen
