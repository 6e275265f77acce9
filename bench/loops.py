"""A counted loop beside the same steps written out: an RNN's cell of 64, so many times.

A loop is built and planned once, whatever the count, and its arena does not grow; a step takes what a step takes that
is written out. Seconds to build and compile are of one time each, in this process; microseconds a step are medians of
calls that take turns.

python bench/loops.py [--smallest]: prints a table, writes bench/results/loops.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report

import nnc_func as nnc

UNITS = 64
OURS, OUT = "loop", "written out"


def programs(count: int) -> dict[str, tuple[Any, float]]:
    """Of each kind the program of so many steps, and the seconds that it took to build and compile."""
    found = {}
    for kind in (OURS, OUT):
        lazy = nnc.lazy()
        w, h = lazy.input("w", (UNITS, UNITS), "float32"), lazy.input("h", (1, UNITS), "float32")
        xs = lazy.input("xs", (count, 1, UNITS), "float32")

        def cell(w: Any, h: Any, x: Any, lazy: Any = lazy) -> list[Any]:
            after = lazy.ops.tanh(h @ w + x)
            return [after, after]

        start = time.perf_counter()
        if kind == OURS:
            like = [nnc.Aval(shape, "float32") for shape in ((UNITS, UNITS), (1, UNITS), (1, UNITS))]
            results = list(lazy.ops.loop(w, h, xs, body=lazy.body(cell, *like)[0], constants=1, carries=1))
        else:
            results = list(lazy.scan(lambda h, x, w=w, cell=cell: tuple(cell(w, h, x)), h, xs, unroll=True))
        found[kind] = lazy.compile([w, h, xs], results), time.perf_counter() - start
    return found


def row(count: int, rounds: int) -> dict[str, Any]:
    """One count."""
    draw = np.random.default_rng(0)
    shapes = (UNITS, UNITS), (1, UNITS), (count, 1, UNITS)
    arrays = [draw.normal(0, 0.1, shape).astype("float32") for shape in shapes]
    made = programs(count)
    ours, out = (made[kind][0] for kind in (OURS, OUT))
    np.testing.assert_allclose(ours(*arrays)[1], out(*arrays)[1], rtol=1e-5, atol=1e-6)
    taken = alternating({kind: lambda p=p: p(*arrays) for kind, (p, _) in made.items()}, rounds)
    return {
        "steps": count,
        "seconds to build": made[OURS][1],
        "written out: seconds": made[OUT][1],
        "µs a step": 1e6 * taken[OURS] / count,
        "written out: µs": 1e6 * taken[OUT] / count,
        "ratio": taken[OURS] / taken[OUT],
        "arena": ours.plan.arena_bytes,
        "written out: arena": out.plan.arena_bytes,
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    with pinned(1):
        rows = [row(count, 3 if given.smallest else 41) for count in ((8,) if given.smallest else (10, 100, 1000))]
    report("loops", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
