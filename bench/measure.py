"""What the benchmarks share: one option, paired medians in one process, pinned threads, tables, and JSON results."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def options(text: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark's command line, which tells that text and takes `--smallest`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--smallest", action="store_true", help="every column of the smallest size, in seconds; nothing is written"
    )
    return parser


def peer(name: str, missing: str = "its columns are left out") -> Any:
    """The module of what is compared with; None where it is not installed, which is told in a line."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: {missing}", flush=True)
        return None


def pinned(threads: int = 2) -> AbstractContextManager[Any]:
    """BLAS held to so many threads, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(threads)  # type: ignore[no-any-return]


def alternating(
    calls: Mapping[str, Callable[[], Any]], rounds: int, number: int = 1, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of one call of each, taken in turn: A B A B …, so that a drift of the machine meets all alike.

    What the last call returns is let go when the time is taken: making is measured, not freeing.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(number):
                found = call()
            taken[name].append((clock() - start) / number)
            del found
    return {name: statistics.median(times) for name, times in taken.items()}


def beside(ours: Callable[[], Any], theirs: Callable[[], Any] | None, rounds: int) -> dict[str, Any]:
    """Milliseconds of a call of each, taken in turn, and the median ratio of neighbours; without theirs, of ours alone.

    Neither is called before: what the first call prepares is prepared already.
    """
    calls = [ours] if theirs is None else [ours, theirs]
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
    found: dict[str, Any] = {
        "milliseconds": [statistics.median(times) for times in taken],
        "fastest milliseconds": [min(times) for times in taken],
    }
    if theirs is not None:
        found["ratio"] = statistics.median(a / b for a, b in zip(*taken, strict=True))
        found["ratio of the fastest"] = min(taken[0]) / min(taken[1])
    return found


def fresh() -> None:
    """Collect garbage, so that the next measurement pays for its own only."""
    gc.collect()


def report(
    name: str,
    rows: list[dict[str, Any]],
    details: list[dict[str, Any]] | None = None,
    *,
    smallest: bool,
    **beside: Any,
) -> None:
    """Print the rows as a table and write them to ``bench/results/<name>.json`` with what they were measured on.

    Of `details` no table is printed, but they are written too. What is given `beside` is told with the machine:
    versions of what it is compared with. Of the smallest size nothing is written.
    """
    table(rows)
    machine = {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **beside,
    }
    found = {"machine": machine, "rows": rows} | ({"details": details} if details else {})
    write(name, json.dumps(found, indent=1), smallest=smallest)


def table(rows: list[dict[str, Any]]) -> None:
    """Print rows under the names of all their columns."""
    columns = list(dict.fromkeys(k for row in rows for k in row))
    cells = [[_shown(row.get(c, "")) for c in columns] for row in rows]
    widths = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    for line in ([*columns], *cells):
        print(
            "  ".join(
                text.rjust(w) if i else text.ljust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))
            )
        )


def write(name: str, text: str, *, smallest: bool) -> None:
    """Write ``bench/results/<name>.json``, but not of the smallest size, which says nothing of the full one."""
    if smallest:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def earlier(name: str, otherwise: Any = None) -> Any:
    """What ``bench/results/<name>.json`` says, or else what is given."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
