"""The rows of a plan: buffers, the values in them, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import define, field, frozen

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.engine.loop_instruction import Loop
from nnc_func.facets.places import Place
from nnc_func.graph.origin import Origin
from nnc_func.op import Op

ARENA, INPUT, VARIABLE, CONSTANT = "arena", "input", "variable", "constant"
OUTPUT, NEXT, LENT, DONATED = "output", "next", "lent", "donated"
KINDS = (ARENA, INPUT, VARIABLE, CONSTANT, OUTPUT, NEXT, LENT, DONATED)  # of buffers
DEFAULT, TABLE, MEMORY = "default", "table", "memory"
Row = TypeVar("Row")


@define(eq=False)
class BufferFields:
    """`Buffer` while it is made: see `sealed`."""

    kind: str
    nbytes: int
    lower: int = 0
    upper: int = 0
    offset: int = 0
    source: int = -1
    place: Place = None


@frozen
class Buffer(BufferFields):
    """A run of bytes.

    Attributes
    ----------
    kind
        ``"arena"``: planned; ``"input"``, ``"variable"``, ``"constant"``: there before the run; ``"output"``: fresh,
        for the caller; ``"next"``: fresh, becomes the variable's array after the run; ``"lent"``: the memory of an
        output before that is written; ``"donated"``: an input that the caller gave up, and what lives in its memory
        after it; `offset` says where.
    nbytes
        Size.
    lower, upper
        Alive when instruction `t` reads or writes it, for ``lower <= t < upper``; of arena, lent and donated
        buffers only.
    offset
        Bytes into the arena, or into the output or the input that houses it; 0 of others.
    source
        Position among the inputs, variables, constants or outputs (of lent and donated buffers too); -1 for the arena.
    place
        Which of the device's places it lies in; None: its own, or its first. There is one arena a place.
    """


@define(eq=False)
class SlotFields:
    """`Slot` while it is made: see `sealed`."""

    buffer: int
    aval: Aval
    is_view: bool = False
    offset: int = 0
    strides: tuple[int, ...] | None = None


@frozen
class Slot(SlotFields):
    """A value of the plan: the buffer that it lives in, and what is known of it. Views share their base's buffer.

    Attributes
    ----------
    buffer
        The buffer that it lives in.
    aval
        What is known of it.
    is_view
        It shows memory that another slot was computed into.
    offset
        Bytes from the start of the buffer: more than 0 where it is computed into a part of it.
    strides
        Bytes from one element to the next along each axis; None: row-major, without gaps.
    """


@define(eq=False)
class InstructionFields:
    """`Instruction` while it is made: see `sealed`."""

    op: Op
    items: Items = field(eq=repr)  # a NaN that was read back is another object, and 0.0 is not -0.0
    kernel: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    scratch: tuple[int, ...]
    view: bool
    origin: Origin = field(eq=False)
    stream: int = 0
    waits: tuple[int, ...] = ()
    choice: str = DEFAULT
    loops: tuple[Loop, ...] = ()


@frozen
class Instruction(InstructionFields):
    """One application.

    Attributes
    ----------
    op, items, kernel
        The operator, its parameters, the name of the chosen kernel.
    operands, results
        Slots, by number.
    scratch
        Buffers, by number.
    view
        Nothing is computed: the result shows its operand's memory.
    origin
        User lines that asked for it; plans are equal whatever these say.
    stream
        The queue that runs it; the instructions of one stream run one after the other.
    waits
        Instructions of other streams that must have run before, by number.
    choice
        Who chose the kernel: ``"default"``, the device; ``"table"``, the engine's recorded table; ``"memory"``, the
        planner, for the scratch that it does without.
    loops
        Of a loop that is planned: the plan of its body, and where values lie each time. Of a branch: one of each body,
        which goes once.
    """


def sealed(kind: type[Row], made: Sequence[Any]) -> tuple[Row, ...]:
    """Rows of a plan, of objects that were made with their fields: from here on nobody sets one.

    Setting the fields of what is frozen takes three times as long, and a plan has a hundred thousand.

    Examples
    --------
    >>> sealed(Buffer, [BufferFields("arena", 64)])
    (Buffer(kind='arena', nbytes=64, lower=0, upper=0, offset=0, source=-1, place=None),)
    """
    for each in made:
        each.__class__ = kind
    return tuple(made)
