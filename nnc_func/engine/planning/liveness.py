"""The planner frees each value after its last use: liveness, and how many bytes are alive at a time."""

from __future__ import annotations

from itertools import accumulate

from nnc_func.engine.needs import inverted, spans
from nnc_func.engine.plan_rows import ARENA, DONATED, NEXT, OUTPUT
from nnc_func.engine.planning.draft import FOREVER, Draft
from nnc_func.graph.node import Node

TOLERATED = 1.1  # so many times the bytes of a plan with a long commit section one with the shortest may need


def lifetimes(draft: Draft) -> None:
    """First and last use of every storage, views counted for their base; with streams, every use."""
    storages = draft.storages
    first, last = spans(draft.touched)
    end = len(draft.instructions)
    for number, storage in enumerate(storages):
        storage.first, storage.last = first.get(number, FOREVER), last.get(number, -1)
        storage.merged, storage.users = number, ()
        if storage.kind in (OUTPUT, NEXT):
            storage.last = end
        elif storage.kind == DONATED:  # it is there before the first instruction
            storage.first = 0
    for number, other in draft.spared.items():
        storages[number].merged = other
    if draft.streams is not None:
        for storage, found in zip(storages, inverted(draft.touched, len(storages)), strict=True):
            storage.users = found


def peak(draft: Draft) -> int:
    """The most bytes of the arena alive at one time."""
    if draft.peak is None:
        draft.loads = loads_of(draft)
        draft.peak = max(draft.loads)
    return draft.peak


def unfinished_peak(draft: Draft) -> int:
    """The same of wholes of which a part is there, but not all."""
    return max(_loads(draft, {s: t for s, t in draft.finished.items() if draft.storages[s].kind == ARENA}))


def unfinished(draft: Draft) -> set[Node]:
    """The wholes of which a part is there, but not all, when the most bytes are alive."""
    _, at = busiest(draft)
    whole = {n: s for n, s in draft.assembled.items() if draft.storages[s].kind == ARENA}
    return {n for n, s in whole.items() if draft.storages[s].first <= at < draft.finished[s]}


def footprint(draft: Draft) -> int:
    """Bytes of the arena, at most, and of next values of variables."""
    homes = {draft.slots[slot].storage for _, slot in draft.updates}
    fresh = [s.nbytes for i in homes if (s := draft.storages[i]).kind == NEXT and s.merged == i]
    return peak(draft) + sum(fresh)


def busiest(draft: Draft) -> tuple[int, int]:
    """The most bytes of the arena alive at one time, and the first instruction where they are."""
    loads = loads_of(draft)
    most = max(loads)
    return most, loads.index(most)


def passing(draft: Draft, at: int) -> tuple[set[int], set[int]]:
    """The storages that are alive while an instruction runs, in any order and with any commit section.

    They are what it uses, and what one before it in any order uses as well as one behind it; the latter are given, too.
    As `orders.bounds.bound_at`, but without what a section adds.
    """
    rows, uses = draft.instructions, draft.uses
    operands: set[int] = set(rows[at].operands)
    begun: set[int] = set(uses[at])
    for t in range(at - 1, -1, -1):
        if not operands.isdisjoint(rows[t].results):
            operands.update(rows[t].operands)
            begun.update(uses[t])
    results: set[int] = set(rows[at].results)
    wanted: set[int] = set()
    for t in range(at + 1, len(rows)):
        if not results.isdisjoint(rows[t].operands):
            results.update(rows[t].results)
            wanted.update(uses[t])
    return (begun & wanted).union(uses[at]), wanted


def least_at(draft: Draft, at: int) -> int:
    """The least bytes that are alive while an instruction runs, in any order and with any commit section."""
    alive, wanted = passing(draft, at)
    over = [made for made, homes, _ in draft.overwritable[at] if not wanted.issuperset(homes)]
    return sum([draft.sizes[s] for s in alive]) - sum([draft.sizes[made] for made in over])


def loads_of(draft: Draft) -> list[int]:
    """The bytes of the arena that are alive at each instruction, as they are aligned."""
    rows = enumerate(draft.storages)
    return _loads(draft, {i: s.last for i, s in rows if s.merged == i and s.kind == ARENA and s.last >= 0})


def _loads(draft: Draft, until: dict[int, int]) -> list[int]:
    """The bytes alive at each instruction, of storages and their last instructions, as they are aligned."""
    change = [0] * (len(draft.instructions) + 2)
    storages, sizes = draft.storages, draft.sizes
    for s, last in until.items():
        change[storages[s].first] += sizes[s]
        change[last + 1] -= sizes[s]
    return [*accumulate(change)]
