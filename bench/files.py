"""Programs as files: an unrolled LSTM training step saved, and loaded ready to run, beside compiling it.

Bar: <= 10 µs an instruction to load at 15,000 applications, reading, checking and binding; and compile / load >= 4,
since what compiling takes (optimise + plan + bind) is measured in turn with it. So is each part of loading.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from lstm import APPLICATIONS_A_STEP, lstm_step
from measure import alternating, fresh, pinned, report

import nnc_func as nnc
from nnc_func.engine.collecting import uncollected
from nnc_func.engine.files.tables import from_tables

SIZES = (5_000, 15_000)  # operator applications
ROUNDS = 7


def measured(applications: int, file: Path) -> dict[str, Any]:
    """One row of the table."""
    stack = nnc.lazy()
    graph = lstm_step(stack, -(-applications // APPLICATIONS_A_STEP))
    program = stack.engine.compile(graph)
    program.save(file)
    with zipfile.ZipFile(file) as archive:
        tables = json.loads(archive.read("plans/0.json"))
    n = len(program.plan.instructions)
    fresh()
    calls = {
        "load": lambda: nnc.load_program(file, stack),
        "tables to plan": uncollected()(lambda: from_tables(tables, stack.type.ops)),  # as it is done in loading
        "verify": uncollected()(program.plan.verify),
        "bind": uncollected()(lambda: program.over(list(program.variables.values())).prepare()),
        "compile": lambda: stack.engine.compile(graph),
        "save": lambda: program.save(file),
    }
    found = {name: 1e6 * seconds / n for name, seconds in alternating(calls, ROUNDS).items()}
    row: dict[str, Any] = {"applications": graph.statistics["applications"], "instructions": n}
    row |= {f"{name} µs": value for name, value in found.items()}
    return row | {"compile / load": found["compile"] / found["load"], "bytes": file.stat().st_size}


def main() -> None:
    """Print and write the table."""
    with pinned(), tempfile.TemporaryDirectory() as folder:
        report("files", [measured(size, Path(folder) / "lstm.program") for size in SIZES])


if __name__ == "__main__":
    main()
