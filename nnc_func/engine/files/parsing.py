"""Plans read from text, as `text` writes it or as it is written by hand: NNC's concrete graph.

By hand one may leave out: the arena's size, sizes and lifetimes of buffers, the buffers of leaves, kernels, the numbers
of instructions, and dtypes and shapes of results. Nothing is evaluated; operators are those of the stack that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device import NumPy
from nnc_func.engine.copying import INSERTED
from nnc_func.engine.files import loops
from nnc_func.engine.files.drafts import Draft, arena_ends, checked, finished
from nnc_func.engine.files.text import VIEW
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DEFAULT, INPUT, OUTPUT, VARIABLE, Instruction, Slot
from nnc_func.engine.verifying.applications import inferred
from nnc_func.errors import GraphError, NncError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.loop import DEEPEST
from nnc_func.graph.origin import Origin
from nnc_func.graph.text.literals import Line
from nnc_func.graph.text.nesting import by_name, nested
from nnc_func.graph.text.parsing import placed
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

LEAVES = (INPUT, VARIABLE, CONSTANT)
ALIGNMENT = 64  # bytes, where the text does not say it
ORIGIN = re.compile(r"(?:# again, as \d+\s*)?#\s*(?P<line>\S.*?:\d+) in (?P<function>.+)\Z")


class PlanLine(Line):
    """A line whose errors name the column, too."""

    def error(self, words: str) -> GraphError:
        """An error that names the line and the column."""
        return GraphError(f"line {self.number}, column {self.column}: {words}")

    def refuse(self, mark: int, words: str) -> GraphError:
        """An error at a place that was marked."""
        self.back(mark)
        return self.error(words)

    def natural(self) -> int:
        """An integer, zero or more."""
        mark, written = self.mark(), self.word("number")
        if not written.isdecimal() or len(written) > 18:
            raise self.refuse(mark, f"wanted an integer, found {written[:30]!r}")
        return int(written)


def parsed(make: Callable[..., Plan], text: str, stack: Any = None, classes: Iterable[type] = ()) -> Plan:
    """The plan that a text describes; it is not verified.

    Parameters
    ----------
    make
        `Plan`, of whose fields the text tells.
    text
        As `Plan.text` gives it, or by hand; empty lines and comments may be added.
    stack
        Whose operators are named, and whose device chooses a kernel where none is named. None: this library's
        operators, on NumPy.
    classes
        Named tuples and attrs classes in which the outputs may be nested.

    Raises
    ------
    GraphError
        The text is not that of a plan: names the line and the column.

    Examples
    --------
    >>> from nnc_func.engine.plan import Plan
    >>> plan = parsed(Plan, '''plan "square"
    ... @0 = arena at 0
    ... @1 = output 0
    ... %0 = input "x" : float32[3]
    ... %1 = multiply(%0, %0) : in @0
    ... %2 = add(%1, %0) : in @1
    ... return %2''')
    >>> plan.arena_bytes, plan.buffers[0].upper, plan.instructions[1].kernel
    (64, 2, 'add')
    >>> parsed(Plan, plan.text()) == plan.verify()
    True
    """
    if not isinstance(text, str):
        raise GraphError(f"a plan is read from text, given {type(text).__name__}")
    try:
        return _Reader(make, stack, classes).read(text)
    except RecursionError:
        raise GraphError("the text is nested too deeply") from None


class _Reader:
    """What has been read so far."""

    def __init__(self, make: Callable[..., Plan], stack: Any, classes: Iterable[type]) -> None:
        self.make = make
        self.ops = CATALOGUE if stack is None else stack.type.ops
        self.device = NumPy() if stack is None else stack.device
        self.classes = by_name(classes)
        self.buffers: list[Draft] = []
        self.slots: dict[int, Slot] = {}
        self.leaves: dict[str, list[int]] = {kind: [] for kind in LEAVES}
        self.names: dict[str, list[str]] = {kind: [] for kind in LEAVES}
        self.instructions: list[Instruction] = []
        self.updates: list[tuple[int, int]] = []
        self.commit: int | None = None
        self.retained: tuple[int, ...] | None = None
        self.header: dict[str, Any] = {}
        self.elsewhere: list[tuple[str, int]] = []
        self.deep = 0  # loops that it lies in

    def read(self, text: str) -> Plan:
        """The plan."""
        lines = [PlanLine(row, number, {}) for number, row in enumerate(text.splitlines(), 1)]
        return self.rows([line for line in lines if not line.empty])

    def rows(self, rows: list[PlanLine]) -> Plan:
        """The plan that these lines are."""
        if not rows:
            raise GraphError("line 1: an empty text is no plan")
        self.first(rows[0])
        between = iter(rows[1:-1])
        for line in between:
            if line.peek("{"):
                self.loop(line, between)
                continue
            self.line(line)
            line.end()
        last = rows[-1]
        if len(rows) == 1 or not last.take("return"):
            raise last.error("the last line is `return …`: the text is not complete")
        outputs, structure = nested(last, lambda: self.slot(last), self.classes)
        if sorted(self.slots) != list(range(len(self.slots))):
            missing = next(n for n in range(len(self.slots)) if n not in self.slots)
            raise last.error(f"slots are numbered without gaps, and there is no %{missing}")
        return self.plan(outputs, structure)

    def loop(self, line: PlanLine, rest: Iterator[PlanLine]) -> None:
        """``{``, the plan of a loop's body, where its values lie, ``}``."""
        if not self.instructions or self.deep >= DEEPEST:
            raise line.error(f"braces are for bodies of the loop or the branch before them, {DEEPEST} deep at the most")
        inside: list[PlanLine] = []
        depth = 1
        for row in rest:
            depth += row.peek("{") - row.peek("}")
            if not depth:
                break
            inside.append(row)
        ends = [n for n, row in enumerate(inside) if row.peek("return")]
        if depth or not ends or ends[-1] + 1 == len(inside):
            raise line.error("in braces stand a plan, which ends with `return …`, and what goes how many times")
        reader = _Reader(self.make, None, ())
        reader.ops, reader.device, reader.deep = self.ops, self.device, self.deep + 1
        found = loops.read_block(reader.rows(inside[: ends[-1] + 1]), inside[ends[-1] + 1 :])
        last = self.instructions[-1]
        self.instructions[-1] = evolve(last, loops=(*last.loops, found))

    def plan(self, outputs: list[int], structure: Any) -> Plan:
        """What was read, and what follows from it."""
        slots = tuple(self.slots[n] for n in range(len(self.slots)))
        alignment = self.header.get("align", ALIGNMENT)
        made = finished(self.buffers, slots, self.instructions)
        counts = {k: len(v) for k, v in self.leaves.items()} | {OUTPUT: len(outputs)}
        buffers = checked(self.buffers, made, alignment, **counts)
        ends = arena_ends(buffers, alignment)
        own = ends.pop("")
        count = len(self.instructions)
        return self.make(
            instructions=tuple(self.instructions),
            slots=slots,
            buffers=buffers,
            inputs=tuple(self.leaves[INPUT]),
            variables=tuple(self.leaves[VARIABLE]),
            constants=tuple(self.leaves[CONSTANT]),
            outputs=tuple(outputs),
            updates=tuple(self.updates),
            commit=count if self.commit is None else self.commit,
            arena_bytes=self.header.get("arena", own),
            alignment=alignment,
            order=self.header.get("order", ""),
            allocator=self.header.get("allocator", ""),
            machine=self.header.get("machine", ""),
            name=self.header["name"],
            input_names=tuple(self.names[INPUT]),
            variable_names=tuple(self.names[VARIABLE]),
            structure=structure,
            elsewhere=tuple(self.elsewhere or ends.items()),
            retained=self.retained,
        )

    # --- lines ------------------------------------------------------------------------------------------

    def first(self, line: PlanLine) -> None:
        """``plan "twice" arena 64 align 64 order "depth_first" allocator "BestFit"``."""
        line.expect("plan")
        self.header["name"] = line.string()
        for key in ("arena", "align", "order", "allocator", "machine"):
            if line.take(key):
                self.header[key] = line.natural() if key in ("arena", "align") else line.string()
            while key == "arena" and line.take("and"):
                nbytes = line.natural()
                line.expect("on")
                self.elsewhere.append((line.name(), nbytes))
        if self.header.get("align") == 0:
            raise line.error("an alignment is at least 1 byte")
        line.end()

    def line(self, line: PlanLine) -> None:
        """Any line but the first and the last."""
        if line.kind() == "buffer":
            self.buffer(line)
        elif line.take("commit"):
            self.commit = len(self.instructions)
        elif line.take("update"):
            self.update(line)
        elif line.take("retain"):
            self.retain(line)
        else:
            self.slots_made(line)

    def buffer(self, line: PlanLine) -> None:
        """``@2 = arena at 128 : 64 bytes alive [0, 2)``."""
        mark = line.mark()
        if int(line.word("buffer")[1:]) != len(self.buffers):
            raise line.refuse(mark, f"the next buffer is @{len(self.buffers)}")
        line.expect("=")
        draft = Draft(line.name(), refuse=partial(line.refuse, mark))
        if draft.kind == ARENA:
            line.expect("at")
            draft.offset = line.natural()
        else:
            draft.source = line.natural()
            draft.offset = line.natural() if line.take("at") else 0
        if line.take(":"):
            draft.nbytes = line.natural()
            line.expect("bytes")
        if line.take("alive"):
            line.expect("[")
            lower = line.natural()
            line.expect(",")
            draft.alive = lower, line.natural()
            line.expect(")")
        draft.place = line.name() if line.take("on") else None
        self.buffers.append(draft)

    def update(self, line: PlanLine) -> None:
        """``update "w" <- %7``, or by its position, ``update 0 <- %7``."""
        mark = line.mark()
        if line.kind() == "string":
            name, names = line.string(), self.names[VARIABLE]
            if name not in names:
                raise line.refuse(mark, f"no variable {name!r} was defined above")
            at = names.index(name)
        else:
            at = line.natural()
        line.expect("<-")
        self.updates.append((at, self.slot(line)))

    def retain(self, line: PlanLine) -> None:
        """``retain @0, @3``: what outlives a run; nothing, where no buffer is named."""
        found: list[int] = []
        while not line.empty and (not found or line.take(",")):
            mark = line.mark()
            found.append(int(line.word("buffer")[1:]))
            if found[-1] >= len(self.buffers):
                raise line.refuse(mark, f"no buffer @{found[-1]} was defined above")
        self.retained = tuple(found)

    def slots_made(self, line: PlanLine) -> None:
        """A leaf, or an instruction."""
        if line.kind() == "number":
            mark = line.mark()
            if line.natural() != len(self.instructions):
                raise line.refuse(mark, f"this is instruction {len(self.instructions)}")
            line.expect(":")
        numbers = []
        while line.kind() == "value":
            numbers.append(self.number(line))
            if not line.take(","):
                break
        line.expect("=")
        kind = next((k for k in (*LEAVES, "slot") if line.peek(k) and not line.peek("(", 1)), None)
        if kind is None:
            self.instruction(line, numbers)
        else:
            self.leaf(line, numbers, kind)

    def leaf(self, line: PlanLine, numbers: list[int], kind: str) -> None:
        """``%0 = input "x" : float32[2] in @0``; without a buffer it gets one."""
        line.expect(kind)
        view = kind == "slot" and line.take("view")
        if line.kind() == "string" and kind in self.names:
            self.names[kind].append(line.string())
        line.expect(":")
        if len(numbers) != 1:
            raise line.error(f"a line defines one {kind}, written are {len(numbers)}")
        source = len(self.leaves[kind]) if kind in self.leaves else -1
        slot = self.value(line, None, view, None if kind == "slot" else Draft(kind, source))
        self.slots[numbers[0]] = slot
        if kind in self.leaves:
            self.leaves[kind].append(numbers[0])
            if self.names[kind] and len(self.names[kind]) != len(self.leaves[kind]):
                raise line.error(f"either every {kind} has a name, or none has")

    def instruction(self, line: PlanLine, numbers: list[int]) -> None:
        """``%2 = add(%0, %1) [add] : float32[2] in @2 stream 1 after 3, 4``."""
        mark = line.mark()
        op = self.operator(line)
        operands, items = self.arguments(line, op)
        view, kernel, choice = False, "", DEFAULT
        if line.take("["):
            view = line.peek(VIEW)
            kernel = line.name()
            choice = line.name() if line.take(",") else DEFAULT
            line.expect("]")
        results: list[Slot] = []
        if numbers:
            line.expect(":")
            inferred = self.inferred(line, mark, op, operands, items) if line.peek("in") else (None,) * len(numbers)
            for position in range(len(numbers)):
                if position:
                    line.expect(",")
                known = inferred[position] if position < len(inferred) else None
                results.append(self.value(line, known, view and op.parts is None))
        self.slots.update(zip(numbers, results, strict=True))
        if not kernel:
            kernel = self.kernel(line, mark, op, operands, items)
        scratch = self.scratch(line) if line.take("scratch") else ()
        stream = line.natural() if line.take("stream") else 0
        waits = [line.natural()] if line.take("after") else []
        while waits and line.take(","):
            waits.append(line.natural())
        made = Instruction(
            op, items, kernel, operands, tuple(numbers), scratch, view, self.origin(line), stream, tuple(waits), choice
        )
        self.instructions.append(made)

    # --- parts ------------------------------------------------------------------------------------------

    def operator(self, line: Any) -> Op:
        mark, name = line.mark(), line.name()
        found = self.ops.get(name) or INSERTED.get(name)
        if found is None:
            raise line.refuse(mark, f"no operator {name!r} in this stack; a stack with it: stack.type.with_ops(...)")
        return found

    def arguments(self, line: PlanLine, op: Op) -> tuple[tuple[int, ...], Items]:
        mark = line.mark()
        operands, params = line.arguments(op, lambda: self.slot(line), self.operator)
        try:
            return tuple(operands), op.canonical(params)
        except NncError as error:
            raise line.refuse(mark, str(error)) from None

    def inferred(self, line: PlanLine, mark: int, op: Op, operands: tuple[int, ...], items: Items) -> tuple[Any, ...]:
        """Avals of the results, where the text leaves them out."""
        try:
            return inferred(op, tuple(self.slots[o].aval for o in operands), items)
        except NncError as error:
            raise line.refuse(mark, str(error)) from None

    def kernel(self, line: PlanLine, mark: int, op: Op, operands: tuple[int, ...], items: Items) -> str:
        """The kernel that the device chooses."""
        try:
            return str(self.device.choose(op, tuple(self.slots[o].aval for o in operands), items).name)
        except NncError as error:
            raise line.refuse(mark, str(error)) from None

    def scratch(self, line: PlanLine) -> tuple[int, ...]:
        """``scratch %9 : float32[4] in @4, %10 : …``."""
        found = []
        while True:
            number = self.number(line)
            line.expect(":")
            self.slots[number] = self.value(line, None, False)
            found.append(number)
            if not line.take(","):
                return tuple(found)

    def origin(self, line: PlanLine) -> Origin:
        """The line of user code that a comment tells, or the line of the text itself."""
        found = ORIGIN.match(line.comment)
        if found is not None:
            return found["line"], found["function"]
        return f"<text>:{line.number}", self.header["name"]

    def number(self, line: PlanLine) -> int:
        mark = line.mark()
        number = int(line.word("value")[1:])
        if number in self.slots:
            raise line.refuse(mark, f"%{number} is defined twice")
        return number

    def slot(self, line: PlanLine) -> int:
        mark = line.mark()
        number = int(line.word("value")[1:])
        if number not in self.slots:
            raise line.refuse(mark, f"%{number} is not defined above")
        return number

    def value(self, line: PlanLine, inferred: Aval | None, view: bool, leaf: Draft | None = None) -> Slot:
        """``float32[2] in @2 offset 16 strides (8,)``; `leaf` is the buffer where none is named."""
        aval = inferred if inferred is not None and line.peek("in") else self.aval(line)
        if leaf is not None and not line.peek("in"):
            self.buffers.append(evolve(leaf, place=aval.place))
            return Slot(len(self.buffers) - 1, aval)
        line.expect("in")
        mark = line.mark()
        buffer = int(line.word("buffer")[1:])
        if buffer >= len(self.buffers):
            raise line.refuse(mark, f"@{buffer} is not defined above")
        if inferred is not None:
            aval = aval.having(place=self.buffers[buffer].place)
        offset = line.natural() if line.take("offset") else 0
        if not line.take("strides"):
            return Slot(buffer, aval, view, offset)
        mark, strides = line.mark(), line.literal()
        if not isinstance(strides, tuple) or not all(type(s) is int for s in strides):
            raise line.refuse(mark, "strides are a tuple of integers, in bytes")
        return Slot(buffer, aval, view, offset, strides)

    def aval(self, line: PlanLine) -> Aval:
        dtype = line.dtype()
        line.expect("[")
        return placed(line, tuple(line.sequence(line.extent, "]")), dtype)
