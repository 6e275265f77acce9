"""Measurements that one can repeat: allocators beside each other, on files of problems or on the zoo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nnc_func import models
from nnc_func.cli import plans, subjects
from nnc_func.cli.answers import Answer, table
from nnc_func.engine.allocators import ALLOCATORS, OPTIONAL
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.comparing import compare
from nnc_func.errors import PlanError
from nnc_func.progress import Silent, progress

SUBJECTS = ("allocators",)
SLOW = ("boxing", "branch_and_bound", "flow_graph_article", "hill_climb", "pool_tree")  # their time grows faster than n
SHOWN = 5  # trials without an answer that are told of
MOST = 1000  # buffers of the problems that these are asked about, unless they are named


def arguments(parser: argparse.ArgumentParser) -> None:
    """What is measured, and on what."""
    parser.add_argument("subject", choices=SUBJECTS, metavar="SUBJECT", help=f"one of: {', '.join(SUBJECTS)}")
    parser.add_argument("where", metavar="DIR|FILE|zoo", help="problems as .csv or .json, or `zoo`: all of its plans")
    parser.add_argument(
        "--allocator", action="append", default=[], metavar="NAME",
        help=f"all unless given: {', '.join(ALLOCATORS)}; with the extra `exact` also {' and '.join(OPTIONAL)}",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=plans.budget, default={}, metavar="3s|N", help="of each search: time, or steps"
    )
    parser.add_argument("--repeat", type=subjects.positive, default=1, metavar="N", help="times each; medians are told")
    parser.add_argument("--alignment", type=subjects.positive, default=1, metavar="BYTES", help="of problems in files")
    parser.add_argument("--reduced", action="store_true", help="the zoo's models in small")
    parser.add_argument(
        "--progress", action="store_true",
        help="tell on standard error how far it has come, as it does without being asked where that is a terminal",
    )  # fmt: skip


def answer(given: argparse.Namespace) -> Answer:
    """A row an allocator, the best first."""
    most = limits(given.allocator)
    asked = plans.allocators(given.allocator or [plans.ALL], given.budget)
    begun = progress if given.progress or sys.stderr.isatty() else _silent
    about = problems(given.where, given.alignment, given.reduced, begun)
    line = begun(len(asked) * len(about), "trial", 1.0)
    try:
        found = compare(about, asked, repeat=given.repeat, most=most, tell=line.tell)
    finally:
        line.close()
    rows = [
        (
            row["allocator"], row["mean_ratio"], row["worst_ratio"],
            f"{row['proven_optimal']} of {row['problems']}", f"{row['within_1_percent']:.0%}",
            row["microseconds_a_buffer"],
        )
        for row in found.summary()
    ]  # fmt: skip
    titles = ("allocator", "mean of arena / bound", "worst", "proven optimal", "within 1 % of the best", "µs a buffer")
    slow = [name for name in most if any(t.buffers > MOST for t in found.of(name))]
    said = [f"{t.allocator} on {t.problem}: {t.error}" for t in found.trials if t.error and t.allocator not in slow]
    if len(said) > SHOWN:
        said[SHOWN:] = [f"and {len(said) - SHOWN} more: --json tells all"]
    if slow:
        said.append(f"not asked about more than {MOST:,} buffers unless named by --allocator: {', '.join(slow)}")
    counts = f"{len(found.problems)} problems, {sum(t.buffers for t in found.of(found.allocators[0])):,} buffers"
    return Answer(_data(found), "\n".join([counts, "", table(rows, titles), *([""] if said else []), *said]))


def _data(found: Any) -> Any:
    import json

    return json.loads(found.to_json())


def limits(named: Sequence[str]) -> dict[str, int]:
    """Buffers, by allocator, of the largest problem that it is asked about: those that are named are asked about all.

    Examples
    --------
    >>> limits(["boxing"])["pool_tree"]
    1000
    """
    return {name: MOST for name in SLOW if name not in named}


def _silent(count: int, unit: str, delay: float) -> Silent:
    return Silent()


def problems(
    where: str, alignment: int = 1, reduced: bool = False, begun: Callable[[int, str, float], Silent] = _silent
) -> dict[str, Problem]:
    """The problems of a directory, of a file, or of the zoo's plans, by name.

    Parameters
    ----------
    begun
        Makes what tells how many of the zoo's models are planned, as `nnc_func.progress.progress`.

    Raises
    ------
    PlanError
        There is none, or a file says none.
    """
    if where == "zoo":
        return _zoo(reduced, begun)
    path = Path(where)
    files = sorted(p for p in path.iterdir() if plans.is_problem(str(p))) if path.is_dir() else [path]
    if not files:
        raise PlanError(f"no problem in {where}: wanted .csv or .json files")
    return {p.stem: plans.read(p, alignment).problem for p in files}


def _zoo(reduced: bool, begun: Callable[[int, str, float], Silent]) -> dict[str, Problem]:
    """Every model's plans: inference of one example, and a training step of eight where it trains."""
    stack, found, names = plans.planning(), {}, models.names()
    line = begun(len(names), "model", 1.0)
    for at, name in enumerate(names):
        line.tell(at, name)
        model = models.get(name).reduced() if reduced else models.get(name)
        for training in (False, True)[: 1 + model.trains]:
            graph = model.make(stack, 8 if training else 1, training, seed=None)
            found[f"{name}{' training' if training else ''}"] = stack.engine.compile(graph).plan.problem
    line.close()
    return found
