"""Gradients through loops under a bound on memory: what they take, and how often a body is computed.

Of an LSTM's gradient (T steps, N = 8, H = 32, float32) by each way to keep what the derivative reads: bytes of the
arena, what is kept between the two loops, evaluations of a cell beside the fewest that so many carries allow, and
milliseconds of calls that take turns. Of a `while_loop` that nothing bounds: evaluations, beside the fewest of one
whose number of times is known when it begins.

python bench/checkpoints.py [--smallest]: prints tables, writes bench/results/checkpoints.json.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report, table

import nnc_func as nnc

N, H, INPUTS = 8, 32, 16
WAYS = ("full", "carries", "sqrt", 100, 44, 20, "budget:2MB", "budget:500kB", "budget:100kB")


def fewest(times: int, places: int) -> int:
    """Evaluations of a gradient at the least, if so many carries are held: Griewank and Walther's formula."""
    r = next(r for r in range(times + 1) if comb(places + r, places) >= times)
    return times + 1 + r * times - comb(places + r, places + 1)


class Counted:
    """Lets NumPy's tanh be counted while programs are compiled."""

    def __init__(self) -> None:
        self.count, self.real = 0, np.tanh

    def __call__(self, *args: Any, **how: Any) -> Any:
        self.count += 1
        return self.real(*args, **how)

    def __enter__(self) -> Counted:
        np.tanh = self  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        np.tanh = self.real


def lstm(times: int, checkpoint: Any) -> Any:
    """The gradient by the weights, as a program."""
    lazy = nnc.lazy()
    ops = lazy.ops
    shapes = {"x": (times, N, INPUTS), "w": (INPUTS, 4 * H), "u": (H, 4 * H), "h": (N, H), "c": (N, H)}
    x, w, u, h, c = (lazy.input(name, shape, "float32") for name, shape in shapes.items())

    def loss(w: Any, u: Any) -> Any:
        def cell(x: Any, state: Any) -> Any:
            gates = x @ w + state[0] @ u
            i, f, g, o = (gates[:, H * k : H * k + H] for k in range(4))
            c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
            return None, (ops.sigmoid(o) * ops.tanh(c), c)

        return lazy.foreach(cell, x, (h, c), checkpoint=checkpoint)[1][0].sum()

    return lazy.compile([x, w, u, h, c], list(lazy.grad(loss, argnums=(0, 1))(w, u)))


def kept(program: Any) -> int:
    """Bytes of results of the first loop that something reads."""
    loops = [node for node in program.graph.nodes if node.op.name == "loop"]
    read = {a for node in program.graph.nodes for a in node.args}
    return sum(value.aval.nbytes for value in loops[0].results if value in read)


def ways(times: int, rounds: int) -> list[dict[str, Any]]:
    """The LSTM's gradient, in each way."""
    draw = np.random.default_rng(0)
    shapes = (times, N, INPUTS), (INPUTS, 4 * H), (H, 4 * H), (N, H), (N, H)
    arrays = [draw.normal(0, 0.1, shape).astype("float32") for shape in shapes]
    programs, counts = {}, {}
    for way in WAYS:
        with Counted() as counted:
            program = lstm(times, way)
            found = program(*arrays)
        counts[way] = counted.count / 2 / times  # two a cell
        programs[way] = lstm(times, way)
        for one, other in zip(found, programs["full"](*arrays), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    taken = alternating({way: lambda p=p: p(*arrays) for way, p in programs.items()}, rounds)
    return [
        {
            "times": times, "checkpoint": str(way), "arena kB": p.plan.arena_bytes / 1000, "kept kB": kept(p) / 1000,
            "cells a time": counts[way], "fewest": fewest(times, way) / times if isinstance(way, int) else "",
            "ms": 1e3 * taken[way], "of full": taken[way] / taken["full"],
        }
        for way, p in programs.items()
    ]  # fmt: skip


def unbounded(times: int, places: int) -> dict[str, Any]:
    """A loop that a condition ends."""
    lazy = nnc.lazy()
    x, n = lazy.input("x", (), "float64"), lazy.input("n", (), "int64")

    def f(x: Any, n: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return None, (i + 1, lazy.ops.tanh(c + x))

        return lazy.while_loop(lambda i, _: i < n, body, (0, x), checkpoint=places)[1][1]

    with Counted() as counted:
        lazy.compile([x, n], lazy.grad(f)(x, n))(np.array(0.1), np.array(times))
    best = fewest(times, places)
    return {
        "times": times, "carries": places, "bodies a time": counted.count / times, "fewest": best / times,
        "ratio": counted.count / best,
    }  # fmt: skip


def main() -> None:
    """Print tables, and write the figures."""
    asked = options(__doc__).parse_args()
    smallest = asked.smallest
    with pinned(1):
        rows = [row for times in ((30,) if smallest else (100, 1000)) for row in ways(times, 1 if smallest else 7)]
        sizes = [(30, 5)] if smallest else [(n, c) for n in (100, 1000, 10_000) for c in (10, 20, 44, 100)]
        more = [unbounded(*size) for size in sizes]
    table(more)
    report("checkpoints", rows, more, smallest=smallest)


if __name__ == "__main__":
    main()
