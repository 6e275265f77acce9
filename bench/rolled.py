"""An LSTM over a hundred steps as one loop: forward and backward, beside it written out, by hand in NumPy, and eager.

`rolled` is `stack.foreach` as it stands; `written out` is the same with ``unroll=True``; `by hand` is a loop of NumPy's
calls that multiplies all inputs at once and sums weights' gradients in one product, as a programmer would write it.
Milliseconds are medians of calls that take turns in one process, one thread; building is of one time each.

A second table says what it takes to build the gradient, in seconds of the processor: the first one in a process, and
the least of later ones on stacks of their own, of 10, 100 and 10,000 steps, each in a process of its own.

python bench/rolled.py [--smallest]: prints a table, writes bench/results/rolled.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report, table

import nnc_func as nnc

SIZES = ((100, 32, 128, 128), (1000, 32, 128, 128))  # steps, samples, inputs, units
SMALLEST = ((4, 2, 3, 5),)
NAMES = ("w", "u", "b", "x", "h", "c")


def arrays_of(steps: int, samples: int, inputs: int, units: int) -> list[Any]:
    """Weights, inputs and states, drawn."""
    draw = np.random.default_rng(0)
    shapes = (inputs, 4 * units), (units, 4 * units), (4 * units,), (steps, samples, inputs), (samples, units)
    return [draw.normal(0, 0.1, shape).astype("float32") for shape in (*shapes, shapes[-1])]


def loss(stack: Any, w: Any, u: Any, b: Any, x: Any, h: Any, c: Any, unroll: int | bool) -> Any:
    """The sum of all outputs."""
    ops, units = stack.ops, h.shape[1]

    def body(x: Any, states: Any) -> Any:
        h, c = states
        z = x @ w + h @ u + b
        i, f, g, o = (z[:, k * units : (k + 1) * units] for k in range(4))
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h, [h, c]

    return stack.foreach(body, x, [h, c], unroll=unroll)[0].sum()


def by_hand(w: Any, u: Any, b: Any, x: Any, h: Any, c: Any) -> list[Any]:
    """The gradients by the weights, the bias and the inputs."""
    steps, samples, inputs = x.shape
    units = h.shape[1]
    gates = (x.reshape(-1, inputs) @ w + b).reshape(steps, samples, 4 * units)
    hs, cs = (np.empty((steps + 1, samples, units), x.dtype) for _ in range(2))
    shown = np.empty((steps, samples, units), x.dtype)
    hs[0], cs[0] = h, c
    for t in range(steps):
        z = gates[t]
        z += hs[t] @ u
        for k in (0, 1, 3):
            part = z[:, k * units : (k + 1) * units]
            np.divide(1, 1 + np.exp(-part), out=part)
        np.tanh(z[:, 2 * units : 3 * units], out=z[:, 2 * units : 3 * units])
        i, f, g, o = (z[:, k * units : (k + 1) * units] for k in range(4))
        cs[t + 1] = f * cs[t] + i * g
        np.tanh(cs[t + 1], out=shown[t])
        hs[t + 1] = o * shown[t]
    slopes, dh, dc = np.empty_like(gates), np.zeros_like(h), np.zeros_like(c)
    for t in reversed(range(steps)):
        dh = dh + 1
        i, f, g, o = (gates[t, :, k * units : (k + 1) * units] for k in range(4))
        dc = dc + dh * o * (1 - shown[t] ** 2)
        found = dc * g * i * (1 - i), dc * cs[t] * f * (1 - f), dc * i * (1 - g * g), dh * shown[t] * o * (1 - o)
        for k, each in enumerate(found):
            slopes[t, :, k * units : (k + 1) * units] = each
        dh, dc = slopes[t] @ u.T, dc * f
    flat = slopes.reshape(-1, 4 * units)
    inner = hs[:-1].reshape(-1, units)
    return [x.reshape(-1, inputs).T @ flat, inner.T @ flat, flat.sum(0), (flat @ w.T).reshape(x.shape)]


def row(size: tuple[int, ...], rounds: int, out: bool) -> dict[str, Any]:
    """One size; written out, and eager, where `out`."""
    arrays, lazy, eager = arrays_of(*size), nnc.lazy(), nnc.eager()
    found: dict[str, Any] = {"steps": size[0]}
    calls: dict[str, Any] = {"by hand": lambda: by_hand(*arrays)}
    for kind, unroll in (("rolled", 1), ("written out", True))[: 1 + out]:
        start = time.perf_counter()
        inputs = [lazy.input(name, a.shape, "float32") for name, a in zip(NAMES, arrays, strict=True)]
        gradient = lazy.grad(lambda *given, unroll=unroll: loss(lazy, *given, unroll), argnums=(0, 1, 2, 3))
        program = lazy.compile(inputs, list(gradient(*inputs)))
        found[f"{kind}: seconds to build"] = time.perf_counter() - start
        found[f"{kind}: arena"] = program.plan.arena_bytes
        for ours, theirs in zip(program(*arrays), by_hand(*arrays), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
        calls[kind] = lambda program=program: program(*arrays)
    if out:
        taped = eager.grad(lambda *given: loss(eager, *given, True), argnums=(0, 1, 2, 3))
        calls["eager, written out"] = lambda: taped(*arrays)
    taken = alternating(calls, rounds)
    found |= {f"{kind}: ms": 1e3 * seconds for kind, seconds in taken.items()}
    found |= {f"rolled / {kind}": taken["rolled"] / seconds for kind, seconds in taken.items() if kind != "rolled"}
    return found


def program_of(steps: int, samples: int, inputs: int, units: int) -> Any:
    """The program of the gradient, on a stack of its own."""
    lazy = nnc.lazy()
    shapes = (inputs, 4 * units), (units, 4 * units), (4 * units,), (steps, samples, inputs), (samples, units)
    given = [lazy.input(name, shape, "float32") for name, shape in zip(NAMES, (*shapes, shapes[-1]), strict=True)]
    gradient = lazy.grad(lambda *given: loss(lazy, *given, 1), argnums=(0, 1, 2, 3))
    return lazy.compile(given, list(gradient(*given)))


def building(size: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """What it takes to build one size in this process, and how large it is."""
    nnc.lazy()  # which imports
    taken = []
    for _ in range(1 + rounds):
        start = time.process_time()
        program = program_of(*size)
        taken.append(time.process_time() - start)
    plan = program.plan
    inside = [len(loop.plan.instructions) for i in plan.instructions for loop in i.loops]
    return {
        "steps": size[0],
        "first: ms (bar 120)": 1e3 * taken[0],
        "warm: ms (bar 15)": 1e3 * min(taken[1:]),
        "nodes": len(program.graph.nodes),
        "instructions": len(plan.instructions),
        "of bodies": sum(inside),
        "rows stacked": sum(loop.writes[n].step != 0 for i in plan.instructions for loop in i.loops
                            for n in range(len(loop.writes))),
    }  # fmt: skip


def built(size: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """The same, in a process of its own."""
    command = [sys.executable, __file__, "--build", json.dumps([size, rounds])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print and write the tables; in a process that builds, what that took."""
    parser = options(__doc__)
    parser.add_argument("--build", help="used by the program itself")
    given = parser.parse_args()
    if given.build:
        size, rounds = json.loads(given.build)
        print(json.dumps(building(tuple(size), rounds)))
        return
    with pinned(1):
        sizes = SMALLEST if given.smallest else SIZES
        rows = [row(size, 3 if given.smallest else 11, size[0] <= 100) for size in sizes]
    of = [SMALLEST[0]] if given.smallest else [(steps, *SIZES[0][1:]) for steps in (10, 100, 10_000)]
    builds = [built(size, 2 if given.smallest else 31) for size in of]
    report("rolled", rows, builds, smallest=given.smallest)
    table(builds)


if __name__ == "__main__":
    main()
