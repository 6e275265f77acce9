"""All registered allocators beside each other: on the zoo's plans, on hard instances, on traces of real programs.

python bench/allocators.py [zoo] [PLACE ...] [--repeat 1] [--rows FILE] [--smallest]: prints a table each, and writes
its part of bench/results/allocators.json by the name of the directory: a row an allocator, and what each made of each
problem as [arena / bound, milliseconds]. Those whose time grows faster than the buffers are not asked about the largest
problems: null. Each trial has ten minutes, in a process of its own: what fails is null, too, and its error is printed.
Rows are written to FILE as they come, and a rerun goes on from there. The same as ``python -m nnc_func bench
allocators``, whose places these are. The smallest size is one plan, in a file.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import earlier, options, write

from nnc_func import models
from nnc_func.cli import plans
from nnc_func.cli.answers import table
from nnc_func.cli.bench import limits, problems
from nnc_func.engine.comparing import Comparison, Conditions, Record, compare
from nnc_func.engine.comparing.trials import FAILURES, KEYS

LIMIT = 600.0  # seconds of a trial


def summary(found: Comparison) -> dict[str, Any]:
    """What is kept of a comparison."""
    trials: dict[str, dict[str, Any]] = {name: {} for name in found.asked}
    for t in found.trials:
        trials[t.by][t.problem] = None if t.ratio is None else [round(t.ratio, 4), round(1e3 * t.seconds, 2)]
    sizes = {t.problem: t.count for t in found.trials}
    return {"buffers": sizes, "summary": found.summary(), "profile": found.profile(), "trials": trials}


def one_plan(folder: str) -> str:
    """The folder, in which the problem of one small plan is written."""
    stack = plans.planning()
    plan = stack.engine.compile(models.get("lenet-5").reduced().make(stack, seed=None)).plan
    (Path(folder) / "lenet-5.csv").write_text(plan.to_csv())
    return folder


def main() -> None:
    """Print the tables and write the results."""
    parser = options(__doc__)
    parser.add_argument("where", nargs="*", metavar="zoo|PLACE")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rows", metavar="FILE", help="write each row as it comes, or go on from there")
    given = parser.parse_args()
    if not given.where and not given.smallest:
        parser.error("say of what: the zoo, or a directory of problems, a generator, a suite")
    with tempfile.TemporaryDirectory() as folder:
        measured([one_plan(folder)] if given.smallest else given.where, given)


def measured(places: list[str], given: Any) -> None:
    """Compare on the problems of each place, and write the results after each."""
    results = earlier("allocators", {})
    asked = plans.allocators([plans.ALL])
    with ExitStack() as files:
        record = files.enter_context(Record(given.rows, KEYS)) if given.rows else None
        for where in places:
            conditions = Conditions(limit=LIMIT, record=record)
            found = compare(problems(where), asked, repeat=given.repeat, most=limits([]), conditions=conditions)
            results[Path(where).name] = summary(found)
            rows = [tuple(row.values()) for row in found.summary()]
            print(f"{where}: {len(found.problems)} problems\n{table(rows, tuple(found.summary()[0]))}\n", flush=True)
            failed = [t for t in found.trials if t.kind in FAILURES]
            print(*(f"{t.by} on {t.problem} ({t.kind}): {t.error}\n" for t in failed), sep="", end="", flush=True)
            write("allocators", json.dumps(results), smallest=given.smallest)


if __name__ == "__main__":
    main()
