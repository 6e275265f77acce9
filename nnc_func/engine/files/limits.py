"""How much the plan in a file may ask for: no more threads than anybody plans, no more memory than its buffers need."""

from __future__ import annotations

from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, NEXT, OUTPUT, Buffer
from nnc_func.errors import FileFormatError
from nnc_func.facets.places import Place

ALIGNMENT = 1 << 16  # bytes
STREAMS = 256
HOLE = 20 << 20  # bytes that an allocator of ours leaves idle before a buffer at most: a segment of `caching`


def check_limits(plan: Plan) -> None:
    """Raise unless a plan asks for no larger an alignment, and no more threads, than anybody plans.

    Raises
    ------
    FileFormatError
        Says what it asks for, and the most.
    """
    if plan.alignment > ALIGNMENT or plan.streams > STREAMS:
        raise FileFormatError(
            f"its plan has offsets aligned to {plan.alignment} bytes and {plan.streams} streams, each a thread; "
            f"{ALIGNMENT} and {STREAMS} are the most"
        )


def memory_of(plan: Plan) -> int:
    """Bytes that a plan's program takes before it is called, besides constants and variables: arenas, results.

    Allocators may leave holes. An arena that is larger than the sum of what lies in it ends with the last of that, and
    has a hole before each of it at most.

    Raises
    ------
    FileFormatError
        An arena is larger than what lies in it lets it be.
    """
    mine: dict[Place, list[Buffer]] = {place: [] for place in plan.arenas}
    for b in plan.buffers:
        if b.kind == ARENA:
            mine[b.place].append(b)
    for place, nbytes in plan.arenas.items():
        most = sum([-(-b.nbytes // plan.alignment) for b in mine[place]]) * plan.alignment
        if nbytes > most:
            end = max([b.offset + -(-b.nbytes // plan.alignment) * plan.alignment for b in mine[place]], default=0)
            if nbytes > min(end, most + len(mine[place]) * HOLE):
                raise FileFormatError(f"its plan has an arena of {nbytes} bytes for buffers that take {most}")
    return sum(plan.arenas.values()) + sum([b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT)])
