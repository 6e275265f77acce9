"""An unrolled LSTM training step as a graph: forward, backward and an Adagrad update, for any number of steps.

Used by the benchmarks of building, optimising, planning and packing. Sizes are small: what is measured is the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HIDDEN, INPUTS, BATCH = 16, 8, 4  # units, features, sequences
APPLICATIONS_A_STEP = 46  # of the training graph, for each step of the sequence


def lstm_step(stack: Any, steps: int) -> Any:
    """The closed, unoptimised graph of one training step over a sequence of `steps`, and its operator applications."""
    ops = stack.ops
    rng = np.random.default_rng(0)

    def parameter(name: str, *shape: int) -> Any:
        return stack.variable(name, (0.1 * rng.standard_normal(shape)).astype("float32"))

    variables = [
        parameter("w", INPUTS, 4 * HIDDEN),
        parameter("u", HIDDEN, 4 * HIDDEN),
        parameter("b", 4 * HIDDEN),
        parameter("out", HIDDEN, INPUTS),
        parameter("bias", INPUTS),
    ]
    caches = [stack.variable(f"cache {i}", np.zeros(v.shape, "float32")) for i, v in enumerate(variables)]
    x = stack.input("x", (steps, BATCH, INPUTS), "float32")
    target = stack.input("target", (BATCH, INPUTS), "float32")
    rate = stack.input("rate", (), "float32")

    def loss(w: Any, u: Any, b: Any, out: Any, bias: Any) -> Any:
        h = ops.full(shape=(BATCH, HIDDEN), value=0, dtype="float32")
        c = h
        for t in range(steps):
            gates = x[t] @ w + h @ u + b
            i, f, g, o = ops.split(gates, sections=4, axis=1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * ops.tanh(c)
        error = h @ out + bias - target
        return (error * error).mean()

    value, gradients = stack.value_and_grad(loss, argnums=tuple(range(5)))(*variables)
    updates = []
    for v, cache, g in zip(variables, caches, gradients, strict=True):
        new = cache + g * g
        updates += [(cache, new), (v, v - rate * g / (ops.sqrt(new) + 1e-7))]
    return stack.graph.close(
        [x.value, target.value, rate.value],
        [value.value],
        [(stack.carrier(v), stack.carrier(n)) for v, n in updates],
        "lstm step",
    )
