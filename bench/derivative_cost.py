"""What derivatives cost: FLOPs and kernels of gradients, products with Hessians and tangents, beside the function's.

Counted on `Null`, on optimised programs; the bar is a gradient (with the value) for at most 4 times the FLOPs of the
value alone.

python bench/derivative_cost.py [--smallest]: prints a table, writes bench/results/derivative_cost.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from measure import options, report

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.nn.modules import partition

BATCH, STEPS, HIDDEN, INPUTS = 100, 10, 64, 32


def mnist(stack: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The loss of the MNIST network as a function of its parameters; and arguments."""
    model = models.get("mnist").network(seed=1)
    parameters, rest, merge = partition(model)
    x, y = np.zeros((BATCH, 28, 28, 1), "float32"), np.zeros(BATCH, "int64")

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return nn.softmax_cross_entropy(merge(parameters, rest)(x), y)

    return loss, (parameters, x, y)


def lstm(stack: Any, steps: int = STEPS) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The squared error of an LSTM unrolled over a sequence, as a function of its parameters; and arguments."""
    ops = stack.ops

    def loss(p: Any, x: Any, target: Any) -> Any:
        h = c = ops.full(shape=(BATCH, HIDDEN), value=0, dtype="float32")
        for t in range(steps):
            i, f, g, o = ops.split(x[t] @ p["w"] + h @ p["u"] + p["b"], sections=4, axis=1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * ops.tanh(c)
        error = h @ p["out"] - target
        return (error * error).mean()

    shapes = {"w": (INPUTS, 4 * HIDDEN), "u": (HIDDEN, 4 * HIDDEN), "b": (4 * HIDDEN,), "out": (HIDDEN, INPUTS)}
    parameters = {name: np.zeros(shape, "float32") for name, shape in shapes.items()}
    return loss, (parameters, np.zeros((steps, BATCH, INPUTS), "float32"), np.zeros((BATCH, INPUTS), "float32"))


GRAPHS = {"MNIST": mnist, "LSTM": lstm}
SMALLEST = {"LSTM": partial(lstm, steps=1)}


def counted(stack: Any, f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[int, int]:
    """FLOPs and kernels of the function's program, counted in a run of it on a `Null` device."""
    compiled = stack.jit(f)
    compiled(*args)
    counts = stack.device.counts
    counts.reset()
    compiled(*args)
    return counts.flops, counts.applications


def transformations(stack: Any, loss: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """What is counted, each a function of the loss's arguments."""

    def along(transformation: Callable[..., Any]) -> Callable[..., Any]:
        return lambda p, x, y: transformation(lambda q: loss(q, x, y), (p,), (p,))

    return {
        "value": loss,
        "value and gradient": stack.value_and_grad(loss),
        "jvp": along(stack.jvp),
        "hvp": along(stack.hvp),
    }


def rows(graphs: Mapping[str, Callable[..., Any]]) -> list[dict[str, Any]]:
    """The table."""
    found = []
    for name, make in graphs.items():
        stack = nnc.lazy(nnc.Null())
        loss, args = make(stack)
        base, _ = counted(stack, loss, args)
        for what, f in transformations(stack, loss).items():
            flops, kernels = counted(stack, f, args)
            row = {"graph": name, "of": what, "FLOPs": flops, "kernels": kernels, "times the value's": flops / base}
            found.append(row | {"bar": "<= 4" if what == "value and gradient" else ""})
    return found


def main() -> None:
    """Print and write the table."""
    smallest = options(__doc__).parse_args().smallest
    report("derivative_cost", rows(SMALLEST if smallest else GRAPHS), smallest=smallest)


if __name__ == "__main__":
    main()
