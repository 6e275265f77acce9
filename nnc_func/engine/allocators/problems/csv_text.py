"""Allocation problems and their answers as minimalloc writes them: comma-separated, a row a buffer."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE, Gap
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.allocators.problems.problem import Problem

ALIASES = {
    "buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper",
}  # fmt: skip
REQUIRED = ("id", "lower", "upper", "size")
COLUMNS = (*REQUIRED, "alignment", "hint", "gaps", "offset")
INTEGER = re.compile("-?[0-9]{1,40}")
PLAIN = frozenset("-0123456789")
GAP = re.compile(r"(-?[0-9]{1,19})-(-?[0-9]{1,19})(?:@([0-9]{1,19}):([0-9]{1,19}))?")


def text_of(source: str | PathLike[str]) -> str:
    """A text as it is, or what is in a file.

    Raises
    ------
    PlanError
        A text of one line that names a file: its `Path` is wanted; or what is in the file is no text.
    """
    if not isinstance(source, str):
        try:
            return Path(source).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise PlanError(f"this is no text: {error}") from None
    if "\n" not in source and Path(source).suffix in (".csv", ".json"):
        raise PlanError(f"wanted a text, or the path of a file as Path({source!r}); given {source!r}")
    return source


def parsed(make: Callable[..., Problem], source: str | PathLike[str], alignment: int, capacity: int | None) -> Problem:
    """The problem that `make` makes of the fields, as `Problem.from_csv` says."""
    lines = text_of(source).splitlines()
    first = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    if first < len(lines) and lines[first].lstrip().startswith("#"):
        raise PlanError(
            f"line {first + 1}: {lines[first]!r:.60} is of another format; wanted a row that names the columns"
        )
    rows: list[list[str]] = []
    numbers: list[int] = []  # the line of each row, from 1 on: where it begins
    reader = csv.reader(lines[first:])
    try:
        at = reader.line_num
        for row in reader:
            if row:
                rows.append([cell.strip() for cell in row])
                numbers.append(first + at + 1)
            at = reader.line_num
    except csv.Error as error:
        raise PlanError(f"this is no CSV: {error}, in line {first + reader.line_num}") from None
    if not rows:
        raise PlanError(f"no row names the columns; wanted {','.join(REQUIRED)}")
    cells = _cells(rows, numbers)
    of_buffers = numbers[1:]
    ids = list(cells["id"])
    columns = {name: _whole(cells[name], name, of_buffers) for name in ("lower", "upper", "size")}
    if "end" in map(str.lower, rows[0]):
        columns["upper"] = [t + 1 for t in columns["upper"]]
    if "alignment" in cells:
        each = _whole(cells["alignment"], "alignment", of_buffers, empty=alignment)
        alignment = each if len(set(each)) > 1 else each[0] if each else alignment  # type: ignore[assignment]
    if "hint" in cells and any(cells["hint"]):
        warnings.warn("the column hint is ignored: allocators choose offsets by themselves", stacklevel=3)
    return make(
        columns["size"],
        columns["lower"],
        columns["upper"],
        alignment,
        pins=_pins(cells["offset"], of_buffers) if any(cells.get("offset", ())) else None,
        gaps=[gap for i, text in enumerate(cells.get("gaps", ())) if text for gap in _gaps(i, text, of_buffers[i])],
        capacity=capacity,
        names=() if ids == [*map(str, range(len(ids)))] else ids,
    )


def _cells(rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> dict[str, Sequence[str]]:
    """The columns of a table, by our names of them."""
    head = f"line {numbers[0]}"
    names: list[str] = []
    for given in rows[0]:
        name = ALIASES.get(given.lower(), given.lower())
        if name not in COLUMNS:
            raise PlanError(f"{head}: there is no column {given!r}; there are {', '.join((*COLUMNS, *ALIASES))}")
        if name in names:
            raise PlanError(f"{head}: two columns say {name}")
        names.append(name)
    for name in REQUIRED:
        if name not in names:
            raise PlanError(f"{head}: no column says {name}; wanted {', '.join(REQUIRED)}")
    body = rows[1:]
    for number, row in zip(numbers[1:], body, strict=True):
        if len(row) != len(names):
            raise PlanError(f"line {number}: {len(row)} cells; wanted {len(names)}, one a column")
    return dict(zip(names, zip(*body, strict=True) if body else repeat((), len(names)), strict=True))


def _whole(cells: Sequence[str], column: str, lines: Sequence[int], empty: int | None = None) -> list[int]:
    """The integers of a column: digits 0 to 9 and a minus, which `int` alone is not content with."""
    together = "".join(cells)
    if together.isascii() and PLAIN.issuperset(together):
        with suppress(ValueError):  # one of them is told of below
            return [*map(int, cells)]
    return [_integer(cell, column, line, empty) for cell, line in zip(cells, lines, strict=True)]


def _integer(cell: str, column: str, line: int, empty: int | None) -> int:
    if not cell and empty is not None:
        return empty
    if not INTEGER.fullmatch(cell):
        raise PlanError(f"line {line}, column {column}: wanted an integer in digits 0 to 9, given {cell!r:.40}")
    return int(cell)


def _pins(cells: Sequence[str], lines: Sequence[int]) -> list[int]:
    found = _whole(cells, "offset", lines, FREE)
    for line, pin, cell in zip(lines, found, cells, strict=True):
        if cell and pin < 0:
            raise PlanError(f"line {line}, column offset: wanted 0 or more, or nothing, given {pin}")
    return found


def _gaps(buffer: int, text: str, line: int) -> list[Gap]:
    found = []
    for part in text.split():
        match = GAP.fullmatch(part)
        if match is None:
            raise PlanError(f"line {line}, column gaps: wanted lower-upper or lower-upper@low:high, given {part!r:.40}")
        lower, upper, low, high = match.groups()
        found.append(Gap(buffer, int(lower), int(upper), None if low is None else (int(low), int(high))))
    return found


def printed(problem: Problem, offsets: Sequence[int] | Integers | None) -> str:
    """As `Problem.to_csv` says."""
    for name in ("groups", "spaces", "uses"):
        if getattr(problem, name) is not None:
            raise PlanError(f"minimalloc's format has no column for {name}; to_json has")
    if offsets is not None and len(offsets) != len(problem):
        raise PlanError(f"{len(offsets)} offsets for {len(problem)} buffers: wanted as many")
    names = problem.names or range(len(problem))
    columns: dict[str, Sequence[object]] = {
        "id": names,
        "lower": problem.lower.tolist(),
        "upper": problem.upper.tolist(),
        "size": problem.sizes.tolist(),
    }
    if not isinstance(problem.alignment, int) or problem.alignment != 1:
        columns["alignment"] = problem.alignments.tolist()
    if problem.gaps:
        gaps: list[list[str]] = [[] for _ in range(len(problem))]
        for gap in problem.gaps:
            window = "" if gap.window is None else f"@{gap.window[0]}:{gap.window[1]}"
            gaps[gap.buffer].append(f"{gap.lower}-{gap.upper}{window}")
        columns["gaps"] = [" ".join(each) for each in gaps]
    if offsets is not None:
        columns["offset"] = [*map(int, offsets)]
    elif problem.pins is not None:
        columns["offset"] = ["" if pin == FREE else pin for pin in problem.pins.tolist()]
    return "".join(
        [",".join(columns) + "\n", *(",".join(map(_cell, row)) + "\n" for row in zip(*columns.values(), strict=True))]
    )


def _cell(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n\r#') else text
