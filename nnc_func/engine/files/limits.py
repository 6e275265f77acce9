"""How much the plan in a file may ask for: no more threads than anybody plans, no more memory than its buffers need."""

from __future__ import annotations

from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, NEXT, OUTPUT
from nnc_func.errors import FileFormatError
from nnc_func.facets.places import Place

ALIGNMENT = 1 << 16  # bytes
STREAMS = 256


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

    Raises
    ------
    FileFormatError
        An arena is larger than all that lies in it.
    """
    mine: dict[Place, list[int]] = {place: [] for place in plan.arenas}
    for place, nbytes in [(b.place, b.nbytes) for b in plan.buffers if b.kind == ARENA]:
        mine[place].append(nbytes)
    for place, nbytes in plan.arenas.items():
        most = sum([-(-n // plan.alignment) for n in mine[place]]) * plan.alignment
        if nbytes > most:
            raise FileFormatError(f"its plan has an arena of {nbytes} bytes for buffers that take {most}")
    return sum(plan.arenas.values()) + sum([b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT)])
