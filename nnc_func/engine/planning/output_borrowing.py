"""Output borrowing: values that are dead by then live in a result before it is written, or in an input given up."""

from __future__ import annotations

from nnc_func.engine.allocators.placement.housing import WORTHWHILE, borrowers
from nnc_func.engine.plan_rows import ARENA, DONATED, LENT, OUTPUT
from nnc_func.engine.planning.draft import Draft
from nnc_func.facets.places import Place


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
