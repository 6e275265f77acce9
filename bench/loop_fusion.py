"""Loops that go equally often as one loop, beside the same loops one after another.

Each program is compiled twice in this process: as it is, and with fusion of loops left out. Microseconds are medians of
calls that take turns; the arena is that of the plan.

python bench/loop_fusion.py [--smallest]: prints a table, writes bench/results/loop_fusion.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import alternating, options, pinned, report

import nnc_func as nnc
from nnc_func.graph.rewriting import bodies

STEPS, BATCH, UNITS = 1000, 4, 32
FUSED, APART = "fused", "apart"


def loss_and_metric(lazy: Any, w: Any, xs: Any) -> list[Any]:
    """A loss and a metric of the same rows, each a loop that adds up."""
    ops = lazy.ops
    loss = lazy.fold(lambda s, x: s + ops.square(ops.tanh(x @ w)).sum(), 0.0, xs)
    metric = lazy.fold(lambda s, x: ops.maximum(s, abs(ops.tanh(x @ w)).max()), 0.0, xs)
    return [loss, metric]


def two_networks(lazy: Any, w: Any, xs: Any) -> list[Any]:
    """Two recurrent networks over one sequence, of which the last states are wanted."""
    start = lazy.asarray(np.zeros((BATCH, UNITS), "float32"))
    return [lazy.fold(lambda h, x, scale=scale: lazy.ops.tanh(h @ w * scale + x), start, xs) for scale in (1.0, 0.5)]


def value_and_slope(lazy: Any, w: Any, xs: Any) -> list[Any]:
    """A recurrent network's loss, and its derivative by the weights, asked for one after the other."""
    start = lazy.asarray(np.zeros((BATCH, UNITS), "float32"))

    def loss(w: Any) -> Any:
        return lazy.fold(lambda h, x: lazy.ops.tanh(h @ w + x), start, xs).sum()

    return [loss(w), lazy.grad(loss)(w)]


def rows_read_at_once(lazy: Any, w: Any, xs: Any) -> list[Any]:
    """Rows that one loop makes and the next one adds up."""
    rows = lazy.map(lambda x: lazy.ops.tanh(lazy.ops.sin(x) @ w), xs)
    return [lazy.fold(lambda s, row: s * 0.5 + row, lazy.asarray(np.zeros((BATCH, UNITS), "float32")), rows)]


PROGRAMS: tuple[Callable[..., list[Any]], ...] = (loss_and_metric, two_networks, value_and_slope, rows_read_at_once)


def compiled(program: Callable[..., list[Any]], steps: int) -> Any:
    """One program."""
    lazy = nnc.lazy()
    w = lazy.input("w", (UNITS, UNITS), "float32")
    xs = lazy.input("xs", (steps, BATCH, UNITS), "float32")
    return lazy.compile([w, xs], program(lazy, w, xs))


def row(program: Callable[..., list[Any]], steps: int, rounds: int) -> dict[str, Any]:
    """One program, fused and not."""
    draw = np.random.default_rng(0)
    w = draw.normal(0, 0.1, (UNITS, UNITS)).astype("float32")
    xs = draw.normal(0, 0.3, (steps, BATCH, UNITS)).astype("float32")
    made = {FUSED: compiled(program, steps)}
    with patch.object(bodies, "fused", lambda roots, *_: (roots, 0)):
        made[APART] = compiled(program, steps)
    for one, other in zip(made[FUSED](w, xs), made[APART](w, xs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    taken = alternating({kind: lambda p=p: p(w, xs) for kind, p in made.items()}, rounds)
    loops = {kind: sum(node.op.name == "loop" for node in p.graph.nodes) for kind, p in made.items()}
    return {
        "program": program.__name__.replace("_", " "),
        "loops": loops[FUSED],
        "apart: loops": loops[APART],
        "µs a step": 1e6 * taken[FUSED] / steps,
        "apart: µs": 1e6 * taken[APART] / steps,
        "ratio": taken[FUSED] / taken[APART],
        "arena": made[FUSED].plan.arena_bytes,
        "apart: arena": made[APART].plan.arena_bytes,
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    with pinned(1):
        rows = [row(each, *((8, 3) if given.smallest else (STEPS, 21))) for each in PROGRAMS]
    report("loop_fusion", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
