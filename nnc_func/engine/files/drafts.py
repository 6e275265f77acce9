"""Buffers of a plan as far as a person wrote them, and what follows from the rest: sizes, lifetimes, arenas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define

from nnc_func.engine.plan_rows import ARENA, DONATED, KINDS, LENT, Buffer, Instruction, Slot
from nnc_func.errors import GraphError
from nnc_func.facets.places import Place


@define
class Draft:
    """A buffer as far as it was written."""

    kind: str
    source: int = -1
    offset: int = 0
    nbytes: int | None = None
    alive: tuple[int, int] | None = None
    place: Place = None
    refuse: Callable[[str], Exception] = GraphError


def checked(drafts: Sequence[Draft], buffers: Sequence[Buffer], alignment: int, **counts: int) -> tuple[Buffer, ...]:
    """The buffers, where no line that makes one contradicts itself or the rest; `counts` are of inputs and so on.

    Raises
    ------
    GraphError
        One does: names the line.
    """
    for n, (draft, b) in enumerate(zip(drafts, buffers, strict=True)):
        if b.kind not in KINDS:
            raise draft.refuse(f"@{n} is of kind {b.kind!r}; kinds are {', '.join(KINDS)}")
        if b.offset % alignment:
            raise draft.refuse(f"@{n} is at {b.offset}, which is no multiple of the alignment, {alignment}")
        if b.kind == ARENA and b.lower >= b.upper:
            raise draft.refuse(f"@{n} is alive in [{b.lower}, {b.upper}), which is never: nothing uses it, or too few")
        if b.kind in counts and not 0 <= b.source < counts[b.kind]:
            raise draft.refuse(f"@{n} is {b.kind} {b.source}, of which there are {counts[b.kind]}, from 0 on")
    return tuple(buffers)


def finished(drafts: Sequence[Draft], slots: Sequence[Slot], instructions: Sequence[Instruction]) -> tuple[Buffer, ...]:
    """Buffers with their sizes and lifetimes: as large as what lives in them, alive from first to last use."""
    sizes, first, last = [0] * len(drafts), [len(instructions)] * len(drafts), [-1] * len(drafts)
    for s in slots:
        if not s.is_view and isinstance(s.aval.nbytes, int):
            sizes[s.buffer] = max(sizes[s.buffer], s.offset + s.aval.nbytes)
    for t, i in enumerate(instructions):
        for at in (*i.operands, *i.results, *i.scratch):
            b = slots[at].buffer
            first[b], last[b] = min(first[b], t), t
    found = []
    for n, draft in enumerate(drafts):
        lower, upper = draft.alive or (first[n], last[n] + 1)
        if draft.kind not in (ARENA, LENT, DONATED):
            lower = upper = 0
        nbytes = sizes[n] if draft.nbytes is None else draft.nbytes
        found.append(Buffer(draft.kind, nbytes, lower, upper, draft.offset, draft.source, draft.place))
    return tuple(found)


def arena_ends(buffers: Iterable[Buffer], alignment: int) -> dict[str, int]:
    """The bytes that the arena of each place needs; of the device's own under no name."""
    ends = {"": 0}
    for b in buffers:
        if b.kind == ARENA:
            place = b.place or ""
            ends[place] = max(ends.get(place, 0), -(-(b.offset + b.nbytes) // alignment) * alignment)
    return ends
