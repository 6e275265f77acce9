"""Allocation problems and their answers as minimalloc writes them: comma-separated, a row a buffer."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Sequence
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
    while lines and not lines[0].strip():
        del lines[0]
    if lines and lines[0].lstrip().startswith("#"):
        raise PlanError(f"line 1: {lines[0]!r:.60} is of another format; wanted a row that names the columns")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise PlanError(f"this is no CSV: {error}") from None
    if not rows:
        raise PlanError(f"no row names the columns; wanted {','.join(REQUIRED)}")
    cells = _cells(rows)
    ids = list(cells["id"])
    columns = {name: _whole(cells[name], name) for name in ("lower", "upper", "size")}
    if "end" in map(str.lower, rows[0]):
        columns["upper"] = [t + 1 for t in columns["upper"]]
    if "alignment" in cells:
        each = _whole(cells["alignment"], "alignment", empty=alignment)
        alignment = each if len(set(each)) > 1 else each[0] if each else alignment  # type: ignore[assignment]
    if "hint" in cells and any(cells["hint"]):
        warnings.warn("the column hint is ignored: allocators choose offsets by themselves", stacklevel=3)
    return make(
        columns["size"],
        columns["lower"],
        columns["upper"],
        alignment,
        pins=_pins(cells["offset"]) if any(cells.get("offset", ())) else None,
        gaps=[gap for i, text in enumerate(cells.get("gaps", ())) if text for gap in _gaps(i, text)],
        capacity=capacity,
        names=() if ids == [*map(str, range(len(ids)))] else ids,
    )


def _cells(rows: Sequence[Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns of a table, by our names of them."""
    names: list[str] = []
    for given in rows[0]:
        name = ALIASES.get(given.lower(), given.lower())
        if name not in COLUMNS:
            raise PlanError(f"line 1: there is no column {given!r}; there are {', '.join((*COLUMNS, *ALIASES))}")
        if name in names:
            raise PlanError(f"line 1: two columns say {name}")
        names.append(name)
    for name in REQUIRED:
        if name not in names:
            raise PlanError(f"line 1: no column says {name}; wanted {', '.join(REQUIRED)}")
    body = []
    for number, row in enumerate(rows[1:], 2):
        if row:
            if len(row) != len(names):
                raise PlanError(f"line {number}: {len(row)} cells; wanted {len(names)}, one a column")
            body.append(row)
    return dict(zip(names, zip(*body, strict=True) if body else repeat((), len(names)), strict=True))


def _whole(cells: Sequence[str], column: str, empty: int | None = None) -> list[int]:
    try:
        return [*map(int, cells)]
    except ValueError:
        return [_integer(cell, column, n, empty) for n, cell in enumerate(cells)]


def _integer(cell: str, column: str, row: int, empty: int | None) -> int:
    if not cell and empty is not None:
        return empty
    try:
        return int(cell)
    except ValueError:
        raise PlanError(f"row {row} of the buffers, column {column}: wanted an integer, given {cell!r:.40}") from None


def _pins(cells: Sequence[str]) -> list[int]:
    found = _whole(cells, "offset", FREE)
    for row, (pin, cell) in enumerate(zip(found, cells, strict=True)):
        if cell and pin < 0:
            raise PlanError(f"row {row} of the buffers, column offset: wanted 0 or more, or nothing, given {pin}")
    return found


def _gaps(buffer: int, text: str) -> list[Gap]:
    found = []
    for part in text.split():
        match = GAP.fullmatch(part)
        if match is None:
            raise PlanError(
                f"row {buffer} of the buffers, column gaps: wanted lower-upper or lower-upper@low:high, "
                f"given {part!r:.40}"
            )
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
