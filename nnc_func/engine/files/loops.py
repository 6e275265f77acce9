"""Loops in files: what a plan's instruction says of one besides the plan of its body, as text and as plain data.

As text they stand in braces after their instruction, the body's plan first::

    0: %2 = loop(%0, %1, body=(%0, %1) { … }, constants=1, carries=1, length=5) [planned] : float32[4] in @2
    {
      plan "body of program" arena 0 align 64
      …
      return []
      times 5 carried 1
      read 0
      read 1 then 2
      write 2
    }

Arrays have their numbers among operands, results and scratch, in that order; `then` comes what is taken by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nnc_func.archives.plain import fields, rows
from nnc_func.engine.copying import Inserted
from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.errors import FileFormatError
from nnc_func.graph.ops.create import full
from nnc_func.graph.text.literals import Line, Names
from nnc_func.graph.text.writing import parameters

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


# --- text ------------------------------------------------------------------------------------------------


def block(loop: Loop, names: Names, printed: Callable[[Plan], str]) -> list[str]:
    """The lines after the instruction of a loop."""
    inside = printed(loop.plan).splitlines()
    counts = f"times {loop.count}{_listed(' carried', loop.carried)}{_listed(' gives', loop.gives)}"
    counts += "" if loop.limit is None else f" limit {loop.limit}"
    counts += "" if loop.condition is None else f" while {loop.condition}"
    counts += _listed(" ends", loop.ends)
    inside.append(counts)
    inside += [f"number ({', '.join(parameters(Inserted(full, items, ()), names))})" for items in loop.literals]
    inside += [f"read {_address(each)}" for each in loop.reads]
    inside += [f"write {_address(each)}" for each in loop.writes]
    inside += [f"copy {array}{'' if row is None else f' row {row}'} to {n}" for n, array, row in loop.copies]
    return ["{", *(f"  {line}" for line in inside), "}"]


def _listed(word: str, numbers: Iterable[int]) -> str:
    found = ", ".join(map(str, numbers))
    return f"{word} {found}" if found else ""


def _address(each: Address) -> str:
    """``0, 1 then 4, 5``, or ``rows of 4 from 0``."""
    first = f"{', '.join(map(str, each.first))} then " if each.first else ""
    if each.step:
        step = {1: "", -1: " backwards"}.get(each.step, f" step {each.step}")
        return f"{first}rows of {', '.join(map(str, each.cycle))} from {each.start}{step}"
    return first + ", ".join(map(str, each.cycle))


def read_block(plan: Plan, lines: Sequence[Any]) -> Loop:
    """The loop that lines after the plan of its body describe.

    Raises
    ------
    GraphError
        One does not: names it.
    """
    lists: dict[str, list[Any]] = {"read": [], "write": [], "copy": [], "number": []}
    first = lines[0]
    first.expect("times")
    count = first.natural()
    carried = _naturals(first) if first.take("carried") else ()
    gives = _naturals(first) if first.take("gives") else ()
    limit = first.natural() if first.take("limit") else None
    condition = first.natural() if first.take("while") else None
    ends = _naturals(first) if first.take("ends") else ()
    first.end()
    for line in lines[1:]:
        mark, word = line.mark(), line.name()
        if word in ("read", "write"):
            lists[word].append(_read_address(line))
        elif word == "copy":
            array, row = line.natural(), line.natural() if line.take("row") else None
            line.expect("to")
            lists[word].append((line.natural(), array, row))
        elif word == "number":
            lists[word].append(_read_number(line))
        else:
            raise line.refuse(mark, f"wanted read, write, copy or number, found {word!r}")
        line.end()
    reads, writes, copies, numbers = (tuple(lists[word]) for word in ("read", "write", "copy", "number"))
    return Loop(plan, count, carried, gives, reads, writes, copies, numbers, limit, condition, ends)


def _naturals(line: Any) -> tuple[int, ...]:
    found = [line.natural()]
    while line.take(","):
        found.append(line.natural())
    return tuple(found)


def _read_address(line: Any) -> Address:
    found: list[tuple[int, ...]] = []
    if not line.peek("rows"):
        found.append(_naturals(line))
        if not line.take("then"):
            return Address(found[0])
    first = found[0] if found else ()
    if not line.take("rows"):
        return Address(_naturals(line), first)
    line.expect("of")
    cycle = _naturals(line)
    line.expect("from")
    start = line.natural()
    return Address(cycle, first, -1 if line.take("backwards") else line.natural() if line.take("step") else 1, start)


def _read_number(line: Line) -> Any:
    _, params = line.arguments(full, line.end, lambda other: full)
    return full.canonical(params)


# --- plain data ------------------------------------------------------------------------------------------


def table(loop: Loop, tables: Callable[[Plan], Any]) -> dict[str, Any]:
    """A loop as what JSON can write; `tables` makes that of a plan."""
    names = Names()
    return {
        "plan": tables(loop.plan),
        "count": loop.count,
        "carried": loop.carried,
        "gives": loop.gives,
        "reads": [(a.cycle, a.first, a.step, a.start) for a in loop.reads],
        "writes": [(a.cycle, a.first, a.step, a.start) for a in loop.writes],
        "copies": [(n, array, -1 if row is None else row) for n, array, row in loop.copies],
        "limit": -1 if loop.limit is None else loop.limit,
        "condition": -1 if loop.condition is None else loop.condition,
        "ends": loop.ends,
        "numbers": [f"({', '.join(parameters(Inserted(full, items, ()), names))})" for items in loop.literals],
    }


def from_table(written: Any, numbers: Callable[..., list[int]], plan: Callable[[Any], Plan]) -> Loop:
    """The loop that a table tells; `numbers` checks a column of integers, `plan` reads that of its body.

    Raises
    ------
    FileFormatError, GraphError
        Something is missing, or not of its type.
    """
    found = fields(written)
    (count,) = numbers([found["count"]])
    limit, condition = (None if n < 0 else n for n in numbers([found["limit"], found["condition"]], -1))

    def address(cycle: Any, first: Any, step: Any, start: Any) -> Address:
        (step,), (start,) = numbers([step], -1), numbers([start])
        return Address(tuple(numbers(cycle)), tuple(numbers(first)), step, start)

    def copied(*row: Any) -> tuple[int, int, int | None]:
        n, array, at = numbers([*row], -1)
        return n, array, None if at < 0 else at

    def number(text: Any) -> Any:
        if type(text) is not str:
            raise FileFormatError(f"{text!r} is no number in a body")
        line = Line(text, 1, {})
        items = _read_number(line)
        line.end()
        return items

    return Loop(
        plan=plan(found["plan"]),
        count=count,
        carried=tuple(numbers(found["carried"])),
        gives=tuple(numbers(found["gives"])),
        reads=tuple([address(*row) for row in rows(found["reads"], 4)]),
        writes=tuple([address(*row) for row in rows(found["writes"], 4)]),
        copies=tuple([copied(*row) for row in rows(found["copies"], 3)]),
        literals=tuple([number(text) for text in rows(found["numbers"])]),
        limit=limit,
        condition=condition,
        ends=tuple(numbers(found["ends"])),
    )
