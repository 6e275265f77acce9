"""Instances of minimalloc's suite, decided exactly: by branch and bound, by CP-SAT, and by both in turns.

python bench/exact.py DIRECTORY [--seconds 60] [--ablation-steps 5000] [--rounds 3] [--smallest]
prints a row for each and writes bench/results/exact.json. The capacity is the number in each file's name. The ablations
leave out one part of the search at a time. The smallest size is one small instance. Without OR-tools, which come with
``pip install nnc_func[exact]``, branch and bound alone decides.
"""

from __future__ import annotations

import csv
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measure import options, peer, write

from nnc_func.engine.allocators import Problem, cp_sat
from nnc_func.engine.allocators.exact import decision as deciding
from nnc_func.engine.allocators.exact import search

ANSWERS = {"branch and bound": deciding.decide, "CP-SAT": cp_sat.decide, "race": cp_sat.race}


def read(path: Path) -> Problem:
    """An instance, as minimalloc writes it."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return Problem(*([int(row[name]) for row in rows] for name in ("size", "lower", "upper")), alignment=1)


def valid(problem: Problem, offsets: Any, capacity: int) -> bool:
    """By all pairs."""
    low = np.asarray(offsets)
    high = low + problem.sizes
    together = (problem.lower < problem.upper[:, None]) & (problem.lower[:, None] < problem.upper)
    meet = (low < high[:, None]) & (low[:, None] < high) & together
    return int(meet.sum()) == len(problem) and bool((high <= capacity).all())


def timed(answer: Callable[..., Any], problem: Problem, capacity: int, seconds: float, rounds: int) -> dict[str, Any]:
    """The answer, its nodes, the median of seconds; once where it takes long."""
    took: list[float] = []
    while len(took) < rounds and sum(took) < seconds / 2:
        start = time.perf_counter()
        found = answer(problem, capacity, steps=10**9, seconds=seconds)
        took.append(time.perf_counter() - start)
    kind = type(found).__name__
    if kind == "Feasible" and not valid(problem, found.offsets, capacity):
        raise AssertionError("a plan that is none")
    return {"answer": kind, "seconds": round(statistics.median(took), 3), "nodes": found.nodes}


def variants() -> dict[str, Any]:
    """What each ablation replaces."""

    def together(self: search.Search, node: search.Node) -> tuple[search.Scope, ...]:
        return (node.scope,) if node.left else ()

    def where_they_are(self: search.Search, node: search.Node, marked: Any) -> Any:
        if node.chosen >= 0 and marked[node.chosen]:
            node.least[node.chosen] = node.offset  # where it has just been
        return node.least + marked

    def only(*members: Any) -> Any:
        return mock.patch.object(deciding, "PORTFOLIO", members)

    members = deciding.PORTFOLIO
    return {
        "all": only(*members),
        **{f"{choose.__name__} {order} alone": only((choose, order)) for choose, order in members},
        "without decomposition": mock.patch.object(search.Search, "_parts", together),
        "what is not there is one unit higher only": mock.patch.object(search.Search, "_least_offsets", where_they_are),
    }


def without(problem: Problem, steps: int) -> dict[str, Any]:
    """The answer at the max load, and its nodes: no times, so that it is the same everywhere."""
    found = deciding.decide(problem, problem.max_load, steps=steps)
    return {"answer": type(found).__name__, "nodes": found.nodes}


def one_instance(folder: str) -> Path:
    """The folder, in which one small instance is written, which has a plan of its max load."""
    problem = Problem([4, 3, 3, 2, 5], [0, 0, 2, 3, 5], [2, 3, 5, 5, 7], alignment=1)
    rows = zip(range(len(problem)), problem.lower, problem.upper, problem.sizes, strict=True)
    lines = ["id,lower,upper,size", *(",".join(map(str, row)) for row in rows)]
    (Path(folder) / f"small.{problem.max_load}.csv").write_text("\n".join(lines) + "\n")
    return Path(folder)


def main() -> None:
    """Print the tables and write the results."""
    parser = options(__doc__)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ablation-steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.directory is None and not given.smallest:
        parser.error("say where the instances are")
    with tempfile.TemporaryDirectory() as folder:
        if given.smallest:
            given.directory, given.seconds, given.rounds, given.ablation_steps = one_instance(folder), 1.0, 1, 100
        measured(given)


def measured(given: Any) -> None:
    """Decide the instances of a directory."""
    ortools = peer("ortools")
    answers = {name: answer for name, answer in ANSWERS.items() if ortools or name == "branch and bound"}
    results: dict[str, Any] = {"machine": _machine(), "seconds": given.seconds, "instances": {}, "ablations": {}}
    for path in sorted(given.directory.glob("*.csv")):
        problem, capacity = read(path), int(path.stem.rpartition(".")[2])
        row: dict[str, Any] = {"buffers": len(problem), "capacity": capacity, "max_load": problem.max_load}
        for name, answer in answers.items():
            row[name] = timed(answer, problem, capacity, given.seconds, given.rounds)
        start = time.perf_counter()
        least = deciding.minimise(problem, seconds=given.seconds)
        row["least"] = {"size": least.size, "proven": least.proven, "seconds": round(time.perf_counter() - start, 3)}
        results["instances"][path.name] = row
        print(path.name, json.dumps(row), flush=True)
    for name, patch in variants().items():
        with patch:
            row = results["ablations"][name] = {
                path.name: without(read(path), given.ablation_steps) for path in sorted(given.directory.glob("*.csv"))
            }
        print(name, json.dumps(row), flush=True)
    write("exact", json.dumps(results, indent=1), smallest=given.smallest)


def _machine() -> dict[str, str]:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


if __name__ == "__main__":
    main()
