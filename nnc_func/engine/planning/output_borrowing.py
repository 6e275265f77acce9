"""Output borrowing: values that are dead by then live in a result before it is written, or in an input given up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc_func.engine.allocators.base import Uses
from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, OUTPUT
from nnc_func.engine.planning.draft import Draft
from nnc_func.facets.places import Place

WORTHWHILE = 1 << 16  # bytes of a result, or of a value, from which on lending is considered
MOST = 512  # values that one result may house


def lenders(draft: Draft) -> list[int]:
    """The storages of results whose memory is lent, by number: views into others would have to be of flat memory."""
    if draft.request.retain is not None or not draft.request.lends:  # a row of an output is another array each time
        return []
    rows = [draft.slots[slot] for slot in draft.outputs]
    large = {r.storage for r in rows if r.aval.layout is None and r.aval.nbytes >= WORTHWHILE}
    return sorted(number for number in large if draft.storages[number].kind == OUTPUT)


def lend(draft: Draft) -> None:
    """What is dead before an output is written may live in its memory, where that lowers the peak."""
    storages = draft.storages
    uses = None if draft.streams is None else draft.streams.uses([s.users for s in storages])
    for lender in sorted(lenders(draft), key=lambda number: -storages[number].nbytes):
        output = storages[lender]
        numbers = _free(draft, output.place)
        arena = [storages[number] for number in numbers]
        chosen = borrowers(
            [s.nbytes for s in arena],
            [s.first for s in arena],
            [s.last + 1 for s in arena],
            output.nbytes,
            output.first,
            draft.alignment,
            None if uses is None else uses.of([*numbers, lender]),
        )
        for at, place in chosen.items():
            arena[at].kind, arena[at].source, arena[at].offset = LENT, output.source, place


def reuse(draft: Draft) -> None:
    """What comes after the last use of an input that was given up may live in its memory, where that lowers the peak.

    It is lending with time reversed. Among streams, where after is not decided by numbers, nothing is housed so.
    """
    storages = draft.storages
    given_up = [s for i, s in enumerate(storages) if s.kind == DONATED and s.merged == i]
    end = len(draft.instructions) + 1
    for home in sorted(given_up, key=lambda s: -s.nbytes) if draft.streams is None else ():
        arena = [storages[number] for number in _free(draft, home.place)]
        chosen = borrowers(
            [s.nbytes for s in arena],
            [end - s.last - 1 for s in arena],
            [end - s.first for s in arena],
            home.nbytes,
            end - home.last - 1,
            draft.alignment,
        )
        for at, place in chosen.items():
            arena[at].kind, arena[at].source, arena[at].offset = DONATED, home.source, place


def _free(draft: Draft, place: Place) -> list[int]:
    """Numbers of the arena's storages in a place that may live elsewhere: scratch is bound once, outputs are fresh."""
    bound = {s for *_, scratch, _ in draft.instructions for _, s in scratch}
    rows = enumerate(draft.storages)
    return [i for i, s in rows if s.merged == i and s.kind == ARENA and i not in bound and s.place == place]


def borrowers(
    sizes: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    capacity: int,
    before: int,
    alignment: int = 1,
    uses: Uses | None = None,
) -> dict[int, int]:
    """Which buffers to house in `capacity` bytes that are free until instruction `before`, and where, in bytes.

    Greedy: a buffer that is alive where the most bytes are, the largest first, at the lowest place that is free while
    it is alive, as long as that lowers the peak. With `uses`, of these buffers and of the lender behind them, they are
    apart from it and from each other by those too.

    Examples
    --------
    >>> big = 1 << 20
    >>> borrowers([big, big, big], [0, 1, 2], [2, 3, 4], capacity=big, before=3)
    {1: 0}
    >>> borrowers([big, big], [0, 0], [2, 2], capacity=2 * big, before=3)
    {0: 0, 1: 1048576}
    """
    chosen: dict[int, int] = {}
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
