"""What a file may ask for: operators of this library that only compute, and memory that its own buffers need."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from nnc_func.engine.copying import INSERTED
from nnc_func.engine.plan import ARENA, NEXT, OUTPUT, Plan
from nnc_func.errors import FileFormatError
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op

ALIGNMENT = 1 << 16  # bytes
STREAMS = 256


def allowed_names(allow: Any) -> frozenset[str]:
    """Names of operators, of one name or several.

    Raises
    ------
    FileFormatError
        They are no names.
    """
    found = (allow,) if isinstance(allow, str) else tuple(allow)
    if not all(isinstance(name, str) for name in found):
        raise FileFormatError(f"allow= wants names of operators, given {allow!r}")
    return frozenset(found)


def check_operators(ops: Iterable[Op], allow: Collection[str]) -> None:
    """Raise unless each operator is this library's own and does nothing but compute, or is allowed by name.

    Raises
    ------
    FileFormatError
        Names the first that is not, and what to write where it is wanted.

    Examples
    --------
    >>> check_operators([CATALOGUE["add"]], ())
    >>> check_operators([CATALOGUE["print"]], ())
    Traceback (most recent call last):
    nnc_func.errors.FileFormatError: it applies 'print', which does more than compute: ... allow=('print',)
    """
    for op in ops:
        if op.name in allow or op in LEAVES or INSERTED.get(op.name) is op:
            continue
        is_own = CATALOGUE.get(op.name) is op
        if is_own and op.pure:
            continue
        why = "does more than compute" if is_own else "is no operator of this library"
        raise FileFormatError(
            f"it applies {op.name!r}, which {why}: if you trust the file, load it with allow=({op.name!r},)"
        )


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
    for place, nbytes in plan.arenas.items():
        mine = [b.nbytes for b in plan.buffers if b.kind == ARENA and b.place == place]
        most = sum(-(-n // plan.alignment) * plan.alignment for n in mine)
        if nbytes > most:
            raise FileFormatError(f"its plan has an arena of {nbytes} bytes for buffers that take {most}")
    return sum(plan.arenas.values()) + sum(b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT))
