"""Programs as files: an unrolled LSTM training step saved, and loaded ready to run, beside compiling it.

Bar: <= 15 µs an instruction to load at 15,000 applications: reading, verifying all of the plan, and binding. What
compiling takes (optimise + plan + bind) is measured in turn with it, and so is each part of loading, and of verifying.
Times are of the processor, since a neighbour takes turns on it: the wall's are told for loading beside.

python bench/files.py [--smallest]: prints a table, writes bench/results/files.json.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lstm import APPLICATIONS_A_STEP, lstm_step
from measure import alternating, fresh, options, pinned, report

import nnc_func as nnc
from nnc_func.archives.archive import Archive
from nnc_func.engine.files.tables import from_tables
from nnc_func.garbage_collection import uncollected

SIZES = (5_000, 15_000)  # operator applications
ROUNDS = 7


def uncollected_call(function: Callable[[], Any]) -> Any:
    """What a function gives, the collector off as in loading."""
    with uncollected():
        return function()


def measured(applications: int, file: Path, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    stack = nnc.lazy()
    graph = lstm_step(stack, -(-applications // APPLICATIONS_A_STEP))
    program = stack.engine.compile(graph)
    program.save(file)
    tables = _read(file)
    n = len(program.plan.instructions)
    fresh()
    calls = {
        "load": lambda: nnc.load_program(file, stack),
        "archive": lambda: _read(file),
        "tables to plan": partial(uncollected_call, lambda: from_tables(tables, stack.type.ops, (), ())),
        "verify": partial(uncollected_call, program.plan.verify),
        "bind": partial(uncollected_call, lambda: program.over(list(program.variables.values())).prepare()),
        "compile": lambda: stack.engine.compile(graph),
        "save": lambda: program.save(file),
    }
    found = {name: 1e6 * seconds / n for name, seconds in alternating(calls, rounds, clock=time.process_time).items()}
    wall = alternating({"load": calls["load"]}, rounds)
    row: dict[str, Any] = {"applications": graph.statistics["applications"], "instructions": n}
    row |= {f"{name} µs": value for name, value in found.items()}
    row |= {"load, wall µs": 1e6 * wall["load"] / n, "compile / load": found["compile"] / found["load"]}
    return row | {"bytes": file.stat().st_size}


def _read(file: Path) -> Any:
    """What the plan's member says."""
    with Archive.open(file, "program") as archive:
        return archive.json("plans/0.json")


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    sizes, rounds = ((APPLICATIONS_A_STEP,), 1) if given.smallest else (SIZES, ROUNDS)
    with pinned(), tempfile.TemporaryDirectory() as folder:
        rows = [measured(size, Path(folder) / "lstm.program", rounds) for size in sizes]
    report("files", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
