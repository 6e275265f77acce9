"""An LSTM over a hundred steps as one loop: forward and backward, beside it written out, by hand in NumPy, and eager.

`rolled` is `stack.foreach` as it stands; `written out` is the same with ``unroll=True``; `by hand` is a loop of NumPy's
calls that multiplies all inputs at once and sums weights' gradients in one product, as a programmer would write it.
Milliseconds are medians of calls that take turns in one process, one thread; building is of one time each.

python bench/rolled.py [--smallest]: prints a table, writes bench/results/rolled.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report

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


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    with pinned(1):
        sizes = SMALLEST if given.smallest else SIZES
        rows = [row(size, 3 if given.smallest else 11, size[0] <= 100) for size in sizes]
    report("rolled", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
