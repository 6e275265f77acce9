"""What the benchmarks share: paired medians in one process, pinned threads, tables, and JSON results."""

from __future__ import annotations

import gc
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


def fresh() -> None:
    """Collect garbage, so that the next measurement pays for its own only."""
    gc.collect()


def report(
    name: str | None, rows: list[dict[str, Any]], details: list[dict[str, Any]] | None = None, **beside: Any
) -> None:
    """Print the rows as a table and write them to ``bench/results/<name>.json`` with what they were measured on.

    Of `details` no table is printed, but they are written too. What is given `beside` is told with the machine:
    versions of what it is compared with. Without a name nothing is written.
    """
    columns = list(dict.fromkeys(k for row in rows for k in row))
    cells = [[_shown(row.get(c, "")) for c in columns] for row in rows]
    widths = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    for line in ([*columns], *cells):
        print(
            "  ".join(
                text.rjust(w) if i else text.ljust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))
            )
        )
    if name is None:
        return
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **beside,
    }
    found = {"machine": machine, "rows": rows} | ({"details": details} if details else {})
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
