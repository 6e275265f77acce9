"""Plans as text: buffers, then leaves, then one line an instruction. What is written is read back by `parsing`.

A plan's slots are numbered ``%0``, its buffers ``@0``::

    plan "twice" arena 64 align 64
    @0 = input 0 : 8 bytes
    @1 = constant 0 : 4 bytes
    @2 = arena at 0 : 8 bytes alive [0, 2)
    @3 = output 0 : 8 bytes
    %0 = input "x" : float32[2] in @0
    %1 = constant : float32[] in @1
    0: %2 = multiply(%0, %1) [multiply] : float32[2] in @2
    1: %3 = add(%2, %1) [add] : float32[2] in @3  # model.py:3 in double
    return %3
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nnc_func.body import is_pure
from nnc_func.engine.copying import INSERTED
from nnc_func.engine.files.loops import block
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DEFAULT, DONATED, INPUT, LENT, VARIABLE, Buffer, Instruction
from nnc_func.graph.origin import describe
from nnc_func.graph.text.literals import Names, quoted
from nnc_func.graph.text.nesting import nested_text
from nnc_func.graph.text.writing import parameters

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

VIEW = "view"  # in the place of a kernel's name


def printed(plan: Plan) -> str:
    """The plan as text: equal plans, equal text, but for the users' lines.

    Raises
    ------
    GraphError
        A parameter, or a class in which the outputs are nested, that has no written form.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> print(printed(lazy.compile(inputs=[x], outputs=lazy.ops.exp(x)).plan).partition("  #")[0])
    plan "program" arena 0 align 64 order "depth_first" allocator "Portfolio"
    @0 = input 0 : 8 bytes
    @1 = output 0 : 8 bytes
    %0 = input "x" : float32[2] in @0
    0: %1 = exp(%0) [exp] : float32[2] in @1
    """
    return _Printer(plan).text()


class _Printer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names()

    def text(self) -> str:
        return "\n".join([self.header(), *self.buffers(), *self.leaves(), *self.others(), *self.body(), self.end()])

    def header(self) -> str:
        plan = self.plan
        facts = (("order", plan.order), ("allocator", plan.allocator), ("machine", plan.machine))
        made = "".join(f" {k} {_string(v)}" for k, v in facts if v)
        others = "".join(f" and {nbytes} on {quoted(place)}" for place, nbytes in plan.elsewhere)
        return f"plan {_string(plan.name)} arena {plan.arena_bytes}{others} align {plan.alignment}{made}"

    def buffers(self) -> Iterable[str]:
        for number, b in enumerate(self.plan.buffers):
            yield f"@{number} = {place(b)} : {b.nbytes} bytes{lifetime(b)}{on(b)}"

    def leaves(self) -> Iterable[str]:
        plan = self.plan
        for kind, slots, names in (
            (INPUT, plan.inputs, plan.input_names),
            (VARIABLE, plan.variables, plan.variable_names),
            (CONSTANT, plan.constants, ()),
        ):
            for position, slot in enumerate(slots):
                name = f" {_string(names[position])}" if names else ""
                yield f"%{slot} = {kind}{name} : {self.value(slot)}"

    def others(self) -> Iterable[str]:
        """Slots that are no leaf, and that no instruction makes."""
        plan = self.plan
        told_of = {*plan.inputs, *plan.variables, *plan.constants}
        for i in plan.instructions:
            told_of.update(i.results, i.scratch)
        for slot, s in enumerate(plan.slots):
            if slot not in told_of:
                yield f"%{slot} = slot{' view' if s.is_view else ''} : {self.value(slot)}"

    def body(self) -> Iterable[str]:
        again = repeated(self.plan)
        for t, i in enumerate(self.plan.instructions):
            if t == self.plan.commit:
                yield "commit"
            where = describe(i.origin)
            mark = f"  # again, as {again[t]}" if t in again else ""
            yield f"{t}: {self.instruction(i)}{mark}" + (f"  # {where}" if where else "")
            for loop in i.loops:
                yield from block(loop, self.names, printed)

    def instruction(self, i: Instruction) -> str:
        """``%2 = add(%0, %1) [add] : float32[2] in @2``."""
        inside = ", ".join([*(f"%{a}" for a in i.operands), *parameters(i, self.names)])
        kernel = VIEW if i.view else f"`{VIEW}`" if i.kernel == VIEW else quoted(i.kernel)
        chosen = kernel if i.choice == DEFAULT else f"{kernel}, {quoted(i.choice)}"
        written = f"{', '.join(f'%{r}' for r in i.results)} = {quoted(i.op.name)}({inside}) [{chosen}]"
        if i.results:
            written += f" : {', '.join(map(self.value, i.results))}"
        if i.scratch:
            written += f" scratch {', '.join(f'%{s} : {self.value(s)}' for s in i.scratch)}"
        if i.stream:
            written += f" stream {i.stream}"
        return written + (f" after {', '.join(map(str, i.waits))}" if i.waits else "")

    def value(self, slot: int) -> str:
        """``float32[2] in @2 offset 16 strides (8,)``."""
        s = self.plan.slots[slot]
        written = f"{self.names.aval(s.aval)} in @{s.buffer}"
        if s.offset:
            written += f" offset {s.offset}"
        return written + (f" strides {self.names.literal(s.strides)}" if s.strides is not None else "")

    def end(self) -> str:
        plan = self.plan
        names = plan.variable_names
        lines = [f"update {_string(names[at]) if names else at} <- %{slot}" for at, slot in plan.updates]
        if plan.retained is not None:
            lines.insert(0, f"retain {', '.join(f'@{b}' for b in plan.retained)}".rstrip())
        outputs = [f"%{slot}" for slot in plan.outputs]
        return "\n".join([*lines, f"return {nested_text(plan.structure, outputs, self.names)}"])


def repeated(plan: Plan) -> dict[int, int]:
    """Instructions that compute again what one before them has computed, and that one, by number.

    Two do if they apply the same operator to equal values: a graph has such a node once, but within a budget of memory.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> lazy = lazy.swap(engine=lazy.engine.with_memory_budget("20 kB"))
    >>> x = lazy.input("x", (1000,), "float32")
    >>> layers = [x]
    >>> for _ in range(6):
    ...     layers.append(lazy.ops.sort(layers[-1] * 0.5))
    >>> total = sum(lazy.ops.sum(layer * layers[-1]) for layer in reversed(layers))
    >>> len(repeated(lazy.compile([x], total).plan)) > 0
    True
    """
    value = [*range(len(plan.slots))]  # of each slot a number that it has in common with its equals
    known: dict[Any, tuple[int, tuple[int, ...]]] = {}
    found: dict[int, int] = {}
    for t, i in enumerate(plan.instructions):
        if i.op.name in INSERTED or not is_pure(i.op, i.items) or not i.operands:
            continue
        key = (i.op, i.op.key(i.items), tuple([value[slot] for slot in i.operands]))
        first, results = known.setdefault(key, (t, i.results))
        if first != t:
            for slot, other in zip(i.results, results, strict=True):
                value[slot] = value[other]
            if not i.view:
                found[t] = first
    return found


def place(buffer: Buffer) -> str:
    """``arena at 64``, ``output 0``, ``lent 0 at 64``."""
    source = "" if buffer.kind == ARENA else f" {buffer.source}"
    return f"{buffer.kind}{source} at {buffer.offset}" if not source or buffer.offset else f"{buffer.kind}{source}"


def lifetime(buffer: Buffer) -> str:
    """`` alive [0, 2)``, of those that have one."""
    return f" alive [{buffer.lower}, {buffer.upper})" if buffer.kind in (ARENA, LENT, DONATED) else ""


def on(buffer: Buffer) -> str:
    """`` on gpu``, of those that are not in the device's own place."""
    return "" if buffer.place is None else f" on {quoted(buffer.place)}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
