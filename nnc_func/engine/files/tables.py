"""Plans as tables of plain data, for files: columns of numbers, and what repeats written once.

Read back, nothing is planned, chosen or evaluated; what is read has the right types, and is verified by who binds it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nnc_func.archives.plain import fields, rows, short
from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.engine.copying import INSERTED
from nnc_func.engine.files import loops
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import (
    DEFAULT,
    Buffer,
    BufferFields,
    Instruction,
    InstructionFields,
    Slot,
    SlotFields,
    sealed,
)
from nnc_func.errors import FileFormatError
from nnc_func.facets.dtypes import as_dtype
from nnc_func.graph.ops.loop import DEEPEST
from nnc_func.graph.origin import lines
from nnc_func.graph.text.literals import Line, Names
from nnc_func.graph.text.nesting import by_name, nested, nested_text
from nnc_func.graph.text.parsing import placed
from nnc_func.graph.text.trust import check_operator
from nnc_func.graph.text.writing import parameters
from nnc_func.op import Op

NUMBERS = ("arena_bytes", "alignment", "commit")
STRINGS = ("order", "allocator", "name")
NAMES = ("input_names", "variable_names")
SLOTS = ("inputs", "variables", "constants", "outputs")


class _Table:
    """What repeats, by its number."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._at: dict[Any, int] = {}

    def add(self, key: Any, row: Any) -> int:
        at = self._at.get(key)
        if at is None:
            at = self._at[key] = len(self.rows)
            self.rows.append(row())
        return at


# --- to tables --------------------------------------------------------------------------------------------


def tables(plan: Plan) -> dict[str, Any]:
    """The plan as what JSON can write: equal plans with equal lines of users, equal tables.

    Raises
    ------
    GraphError
        A parameter, or a class in which the outputs are nested, that has no written form.
    """
    names, avals = Names(), _Table()
    outputs = [f"%{at}" for at in range(len(plan.outputs))]
    found: dict[str, Any] = {key: getattr(plan, key) for key in (*NUMBERS, *STRINGS, *NAMES, *SLOTS)}
    found["machine"] = plan.machine
    found["updates"] = plan.updates
    found["elsewhere"] = plan.elsewhere
    found["retained"] = plan.retained
    found["nesting"] = nested_text(plan.structure, outputs, names)
    b, s = plan.buffers, plan.slots
    found["buffers"] = {
        "kind": [x.kind for x in b],
        "nbytes": [x.nbytes for x in b],
        "lower": [x.lower for x in b],
        "upper": [x.upper for x in b],
        "offset": [x.offset for x in b],
        "source": [x.source for x in b],
        "place": [(n, x.place) for n, x in enumerate(b) if x.place is not None],
    }
    found["slots"] = {
        "buffer": [x.buffer for x in s],
        "aval": [avals.add(x.aval, lambda x=x: names.aval(x.aval)) for x in s],
        "view": [n for n, x in enumerate(s) if x.is_view],
        "offset": [(n, x.offset) for n, x in enumerate(s) if x.offset],
        "strides": [(n, x.strides) for n, x in enumerate(s) if x.strides is not None],
    }
    found["avals"] = avals.rows
    return found | _instructions(plan.instructions, names)


def _instructions(instructions: Sequence[Instruction], names: Names) -> dict[str, Any]:
    calls, origins = _Table(), _Table()
    which, where = [], []
    slots: list[int] = []
    for i in instructions:
        counts = (len(i.operands), len(i.results), len(i.scratch))
        key = (i.op, i.op.key(i.items), i.kernel, i.view, i.choice, counts)
        row = (i.op.name, i.kernel, i.view, i.choice, *counts)
        which.append(calls.add(key, lambda i=i, row=row: (*row, _written(i, names))))
        told = tuple((f"{Path(file).name}:{line}", function) for file, line, function in lines(i.origin))
        where.append(origins.add(told, lambda told=told: told))
        slots += (*i.operands, *i.results, *i.scratch)
    return {
        "calls": calls.rows,
        "origins": origins.rows,
        "instructions": {
            "call": which,
            "origin": where,
            "slots": slots,
            "stream": [(t, i.stream) for t, i in enumerate(instructions) if i.stream],
            "waits": [(t, i.waits) for t, i in enumerate(instructions) if i.waits],
        },
        "loops": [(t, loops.table(each, tables)) for t, i in enumerate(instructions) for each in i.loops],
    }


def _written(i: Instruction, names: Names) -> Any:
    """The parameters: by name where all of them are plain data, as text else."""
    params = dict(i.items)
    for key, value in params.items():
        if isinstance(value, np.dtype) and i.op.converters.get(key) is as_dtype:
            params[key] = str(value)
        elif not _plain(value):
            return ", ".join(parameters(i, names))
    return params


def _plain(value: Any) -> bool:
    """Whether JSON keeps it, tuples as lists: no list is a parameter."""
    if type(value) is tuple:
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value


# --- from tables ------------------------------------------------------------------------------------------


def from_tables(
    written: Any, ops: Mapping[str, Op], classes: Iterable[type], allow: Collection[str], deep: int = 0
) -> Plan:
    """The plan that the tables tell; it is not verified.

    Parameters
    ----------
    written
        As `tables` gives it.
    ops
        The operators of the stack, by name.
    classes
        In which the outputs may be nested.
    allow
        Names of those that it may apply although they are not this library's, or do more than compute.
    deep
        How many loops it lies in.

    Raises
    ------
    FileFormatError, GraphError
        Something is missing, or not of its type, or an operator is not among these.
    """
    found = fields(written)
    facts: dict[str, Any] = {key: _number(found[key]) for key in NUMBERS}
    facts |= {key: _string(found[key]) for key in STRINGS}
    facts |= {key: tuple(_strings(found[key])) for key in NAMES}
    facts |= {key: tuple(_numbers(found[key])) for key in SLOTS}
    for key, slots in (("input_names", "inputs"), ("variable_names", "variables")):
        if facts[key] and len(facts[key]) != len(facts[slots]):
            raise FileFormatError(f"{len(facts[key])} {key} for {len(facts[slots])} {slots}")
    line = Line(_string(found["nesting"]), 1, {})
    outputs, structure = nested(line, lambda: line.word("value"), by_name(classes))
    if outputs != [f"%{at}" for at in range(len(facts["outputs"]))]:
        raise FileFormatError(f"{len(outputs)} outputs are nested, but there are {len(facts['outputs'])}")
    return Plan(
        **facts,
        structure=structure,
        machine=_string(found.get("machine", "")),  # files of before have none
        updates=tuple((_number(at), _number(slot)) for at, slot in rows(found["updates"], 2)),
        elsewhere=tuple((_string(place), _number(nbytes)) for place, nbytes in rows(found["elsewhere"], 2)),
        retained=None if found["retained"] is None else tuple(_numbers(found["retained"])),
        buffers=_buffers(fields(found["buffers"])),
        slots=_slots(fields(found["slots"]), [_aval(text) for text in rows(found["avals"])]),
        instructions=_read_instructions(found, ops, allow, deep),
    )


def _buffers(found: Mapping[str, Any]) -> tuple[Buffer, ...]:
    columns = [_numbers(found[key], -1) for key in ("nbytes", "lower", "upper", "offset", "source")]
    made = [BufferFields(*row) for row in _beside(_strings(found["kind"]), *columns)]
    for n, place in _pairs(found["place"], made):
        made[n].place = _string(place)
    return sealed(Buffer, made)


def _slots(found: Mapping[str, Any], avals: list[Aval]) -> tuple[Slot, ...]:
    buffers, kinds = _numbers(found["buffer"]), _indices(found["aval"], avals)
    slots = [SlotFields(buffer, avals[kind]) for buffer, kind in _beside(buffers, kinds)]
    for n in _indices(found["view"], slots):
        slots[n].is_view = True
    for n, offset in _pairs(found["offset"], slots):
        slots[n].offset = _number(offset)
    pairs = _pairs(found["strides"], slots)
    _numbers([*chain.from_iterable([rows(strides) for _, strides in pairs])], None)
    for n, strides in pairs:
        slots[n].strides = tuple(strides)
    return sealed(Slot, slots)


def _read_instructions(
    found: Mapping[str, Any], ops: Mapping[str, Op], allow: Collection[str], deep: int
) -> tuple[Instruction, ...]:
    calls = [_call(row, ops, allow) for row in rows(found["calls"], 8)]
    origins = [tuple(part for frame in rows(each, 2) for part in _frame(*frame)) for each in rows(found["origins"])]
    columns = fields(found["instructions"])
    slots = tuple(_numbers(columns["slots"]))
    made: list[InstructionFields] = []
    keep = made.append
    at = 0
    for call, origin in _beside(_indices(columns["call"], calls), _indices(columns["origin"], origins)):
        op, items, kernel, view, choice, operands, results, scratch = calls[call]
        first = at + operands
        last = first + results
        taken = slots[last : last + scratch] if scratch else ()
        row = InstructionFields(op, items, kernel, slots[at:first], slots[first:last], taken, view, origins[origin])
        if choice != DEFAULT:
            row.choice = choice
        keep(row)
        at = last + scratch
    if at != len(slots):
        raise FileFormatError(f"the instructions have {at} operands and results, written are {len(slots)}")
    for t, stream in _pairs(columns["stream"], made):
        made[t].stream = _number(stream)
    for t, waits in _pairs(columns["waits"], made):
        made[t].waits = tuple(_numbers(waits))
    for t, loop in _pairs(found.get("loops", []), made):  # files of before have none
        if deep >= DEEPEST:
            raise FileFormatError(f"more than {DEEPEST} loops inside each other")
        inside = partial(from_tables, ops=ops, classes=(), allow=allow, deep=deep + 1)
        made[t].loops += (loops.from_table(loop, _numbers, inside),)
    return sealed(Instruction, made)


def _call(
    row: Sequence[Any], ops: Mapping[str, Op], allow: Collection[str]
) -> tuple[Op, Items, str, bool, str, int, int, int]:
    name, kernel, view, choice, operands, results, scratch, said = row
    op = _operator(_string(name), ops, allow)
    if type(view) is not bool:
        raise FileFormatError(f"{view!r} does not say whether {name} is a view")
    if type(said) is dict:
        params = {key: _tuples(value) for key, value in said.items()}
    else:
        line = Line(f"({_string(said)})", 1, {})
        _, params = line.arguments(op, lambda: line.end(), lambda line: _operator(line.name(), ops, allow))
        line.end()
    items = op.canonical(params)
    return op, items, _string(kernel), view, _string(choice), *map(_number, (operands, results, scratch))  # type: ignore[return-value]


def _operator(name: str, ops: Mapping[str, Op], allow: Collection[str]) -> Op:
    op = ops.get(name) or INSERTED.get(name)
    if op is None:
        raise FileFormatError(f"no operator {name!r} in this stack; a stack with it: stack.type.with_ops(...)")
    if INSERTED.get(name) is not op:
        check_operator(op, allow)
    return op


def _frame(where: Any, function: Any) -> tuple[str, str]:
    if not _string(where).rpartition(":")[2].isdecimal():
        raise FileFormatError(f"{where!r} is no line of code")
    return where, _string(function)


def _aval(text: Any) -> Aval:
    line = Line(_string(text), 1, {})
    dtype = line.dtype()
    line.expect("[")
    found = placed(line, tuple(line.sequence(line.extent, "]")), dtype)
    line.end()
    return found


def _numbers(column: Any, least: int | None = 0) -> list[int]:
    """A column of integers, none below `least`."""
    if type(column) is not list or not set(map(type, column)) <= {int}:
        raise FileFormatError(f"a column of integers is wanted, found {short(column)}")
    if least is not None and min(column, default=0) < least:
        raise FileFormatError(f"{min(column)} is below {least}")
    return column


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else _numbers([value])[0]


def _indices(column: Any, table: Sequence[Any]) -> list[int]:
    """A column of places in a table."""
    found = _numbers(column)
    if max(found, default=-1) >= len(table):
        raise FileFormatError(f"{max(found)} is no place in a table of {len(table)} rows")
    return found


def _pairs(column: Any, table: Sequence[Any]) -> list[Any]:
    """A column of pairs: a place in a table, and what is said of it."""
    found = rows(column, 2)
    _indices([at for at, _ in found], table)
    return found


def _beside(*columns: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """Rows of columns, which have one length."""
    if len({*map(len, columns)}) > 1:
        raise FileFormatError(f"columns of {', '.join(str(len(c)) for c in columns)} rows, of one table")
    return zip(*columns, strict=True)


def _strings(column: Any) -> list[str]:
    """A column of texts."""
    if type(column) is not list or not set(map(type, column)) <= {str}:
        raise FileFormatError(f"a column of texts is wanted, found {short(column)}")
    return column


def _string(value: Any) -> str:
    if type(value) is not str:
        raise FileFormatError(f"a text is wanted, found {short(value)}")
    return value
