"""What a dynamic stack costs: an operator that is recorded, one under `no_grad`, and a training step.

An operator is one of a chain of new nodes of four float32, beside the bare call of NumPy's function, in processor time.
The least of many turns is told beside the median, which a busy neighbour doubles. Bars, of the least above the bare
call: 6 µs recorded, 2 under `no_grad`. Steps of training (forward, backward, update) are define by run beside the step
that the lazy stack compiles, of equal parameters, in turn: plain, and replayed (`replay_after=3`), which has the bars.
They are those of an MLP 784-128-10 at batch 32 (2 times), of the MNIST network at batch 100 (1.15), and of long
short-term memories over 100 characters at batch 32 (1.5): the zoo's, whose operator is a loop, and one that is unrolled
in Python, of 40 inputs and 128 units, cell by cell or operator by operator.

Memoised, an operator of the chain is found, or computed and kept; and so is a sort of a million numbers after a sum, a
jitted function, and gradients that are asked again: what is found is told as a part of what it takes to compute.

python bench/dynamic.py [--smallest]: prints a table, writes bench/results/dynamic.json.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, report

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.tree import flatten

STEP_BARS = {"MLP": 2.0, "MNIST": 1.15, "LSTM": 1.5, "LSTM of cells": 1.5, "LSTM unrolled": 1.5}
BARS = {"recorded, x + constant": 6.0, "recorded, x + x": 6.0, "recorded, x * 1.0": 6.0, "no_grad, x + x": 2.0}


def chains(length: int) -> dict[str, Callable[[], Any]]:
    """So many operators one after another, of each kind."""
    stack, eager, a = nnc.dynamic(), nnc.eager(), np.ones(4, "float32")
    x, constant, y = +stack.variable("x", a), stack.asarray(a), eager.asarray(a)

    def chain(first: Any, following: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> None:
            z = first
            for _ in range(length):
                z = following(z)

        return run

    def paused() -> None:
        with stack.no_grad():
            for _ in range(length):
                x + x

    return {
        "bare": chain(a, lambda z: np.add(z, a)),
        "eager, x + x": chain(y, lambda z: z + y),
        "recorded, x + constant": chain(x, lambda z: z + constant),
        "recorded, x + x": chain(x, lambda z: z + x),
        "recorded, x * 1.0": chain(x, lambda z: z * 1.0),
        "no_grad, x + x": paused,
    }


def memoised(length: int) -> dict[str, Callable[[], Any]]:
    """So many operators in a chain that are computed and kept, and so many that are found; recorded."""
    stack = nnc.dynamic(memoise=True)
    x, memo = +stack.variable("x", np.ones(4, "float32")), stack.engine.memo

    def missed() -> None:
        memo.clear()
        z = x
        for _ in range(length):
            z = z + x

    def found() -> None:
        for _ in range(length):
            x + x

    def paused() -> None:
        with stack.no_grad():
            for _ in range(length):
                x + x

    return {"memoised, computed": missed, "memoised, found": found, "memoised, found under no_grad": paused}


def found_again(size: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is computed on a stack without a memo, and found on one with: sorts, gradients, a jitted function."""
    numbers, pairs = np.random.default_rng(0).normal(size=size), []
    for stack in (nnc.dynamic(), nnc.dynamic(memoise=True)):
        constant, x = stack.asarray(numbers), +stack.variable("x", numbers)
        y = (stack.ops.sin(x) * x).sum()
        jitted = stack.jit(lambda a, ops=stack.ops: ops.exp(a) * 2.0 + ops.tanh(a))

        def sort(ops: Any = stack.ops, constant: Any = constant) -> Any:
            return ops.sort(constant + 1.0)

        def gradients(stack: Any = stack, x: Any = x, y: Any = y) -> Any:
            return stack.gradients([y], [x])

        pairs.append((sort, gradients, lambda f=jitted, constant=constant: f(constant)))
    names = ("sort of a sum", "gradients of a value", "jitted function")
    return {name: (one, other) for name, one, other in zip(names, *pairs, strict=True)}


# --- steps of training ----------------------------------------------------------------------------------------

Loss = Callable[..., Any]
"""``loss(stack, parameters, x, y)``."""


def mlp(_: bool) -> tuple[Loss, list[Any], Any, Any]:
    """784-128-10 at batch 32: loss, parameters, examples, labels."""
    rng = np.random.default_rng(0)
    shapes = ((784, 128), (128,), (128, 10), (10,))
    initial = [rng.normal(size=shape).astype("float32") * 0.05 for shape in shapes]

    def loss(stack: Any, parameters: Any, x: Any, t: Any) -> Any:
        w, b, v, c = parameters
        logits = stack.ops.relu(x @ w + b) @ v + c
        return -(t * stack.ops.log_softmax(logits)).sum() / 32.0

    images = rng.normal(size=(32, 784)).astype("float32")
    return loss, initial, images, np.eye(10, dtype="float32")[rng.integers(10, size=32)]


def of_zoo(name: str, batch: int, smallest: bool) -> tuple[Loss, list[Any], Any, Any]:
    """A classifier of the zoo."""
    rng, model = np.random.default_rng(0), models.get(name)
    model = model.reduced() if smallest else model
    leaves, structure = flatten(model.network(seed=1))

    def loss(stack: Any, parameters: Any, x: Any, y: Any) -> Any:
        return nn.softmax_cross_entropy(structure.build(list(parameters))(x), y)

    shape = (batch, *model.shape)
    floating = rng.random(shape, "float32") * (rng.random(shape) < 0.2)
    x = rng.integers(0, model.classes, shape) if model.dtype == "int64" else floating.astype("float32")
    return loss, [np.asarray(leaf) for leaf in leaves], x, rng.integers(0, model.classes, batch)


def unrolled(cells: bool, smallest: bool) -> tuple[Loss, list[Any], Any, Any]:
    """A long short-term memory, step by step in Python."""
    rng = np.random.default_rng(0)
    steps, batch, inputs, units = (3, 2, 4, 5) if smallest else (100, 32, 40, 128)
    shapes = ((inputs, 4 * units), (units, 4 * units), (4 * units,), (units, inputs), (inputs,))
    initial = [(0.1 * rng.standard_normal(shape)).astype("float32") for shape in shapes]

    def loss(stack: Any, parameters: Any, x: Any, t: Any) -> Any:
        ops, (w, u, b, v, bias) = stack.ops, parameters
        h = c = ops.full(shape=(batch, units), value=0, dtype="float32")
        for row in [x[n] for n in range(steps)]:
            if cells:
                h, c = ops.lstm_cell(row, h, c, w, u, b)
                continue
            i, f, g, o = ops.split(row @ w + h @ u + b, sections=4, axis=1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * ops.tanh(c)
        error = h @ v + bias - t
        return (error * error).mean()

    x = rng.standard_normal((steps, batch, inputs)).astype("float32")
    return loss, initial, x, rng.standard_normal((batch, inputs)).astype("float32")


NETS: dict[str, Callable[[bool], Any]] = {
    "MLP": mlp,
    "MNIST": lambda smallest: of_zoo("mnist", 2 if smallest else 100, smallest),
    "LSTM": lambda smallest: of_zoo("char-lstm", 2 if smallest else 32, smallest),
    "LSTM of cells": lambda smallest: unrolled(True, smallest),
    "LSTM unrolled": lambda smallest: unrolled(False, smallest),
}


def steps(loss: Loss, initial: list[Any], x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """A training step each way, of equal parameters."""

    def by_run(stack: Any) -> Callable[[], Any]:
        parameters = [+stack.variable(f"p{n}", value) for n, value in enumerate(initial)]
        examples, labels = stack.asarray(x), stack.asarray(y)

        def step() -> None:
            before = [*parameters]
            gradients = stack.gradients([loss(stack, before, examples, labels)], before)
            parameters[:] = [p - 0.01 * g for p, g in zip(before, gradients, strict=True)]

        return step

    lazy = nnc.lazy()
    kept = [np.array(value) for value in initial]

    @lazy.jit
    def step(parameters: Any, x: Any, y: Any) -> Any:
        gradients = lazy.grad(lambda parameters: loss(lazy, parameters, x, y))(parameters)
        return [p - 0.01 * g for p, g in zip(parameters, gradients, strict=True)]

    def compiled() -> None:
        kept[:] = step(kept, x, y)

    return {"lazy": compiled, "plain": by_run(nnc.dynamic()), "replayed": by_run(nnc.dynamic(replay_after=3))}


def of_steps(name: str, rounds: int, smallest: bool) -> list[dict[str, Any]]:
    """Rows of a net: ratios are medians of rounds, in each of which all had their turn."""
    calls = steps(*NETS[name](smallest))
    found: dict[str, list[float]] = {way: [] for way in calls}
    for turn in range(rounds + 8):  # the first ones compile, and fill caches
        for way, call in calls.items():
            start = time.process_time()
            call()
            if turn >= 8:
                found[way].append(1e6 * (time.process_time() - start))
    return [
        {
            "what": f"{name} step, {way}", "µs": statistics.median(times), "least µs": min(times),
            "times lazy": statistics.median([a / b for a, b in zip(times, found["lazy"], strict=True)]),
            "bar": STEP_BARS[name] if way == "replayed" else "",
        }
        for way, times in found.items()
    ]  # fmt: skip


def taken(calls: dict[str, Callable[[], Any]], rounds: int, number: int) -> dict[str, tuple[float, float]]:
    """Median and least µs of one of so many in a call of each, in turn."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            found[name].append(1e6 * (time.process_time() - start) / number)
    return {name: (statistics.median(times), min(times)) for name, times in found.items()}


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    length, rounds = (20, 3) if given.smallest else (1500, 61)
    gc.disable()
    found = taken(chains(length) | memoised(length), rounds, length)
    bare = found["bare"][1]
    rows: list[dict[str, Any]] = [
        {"what": name, "µs": median, "least µs": least, "least above bare": least - bare, "bar": BARS.get(name, "")}
        for name, (median, least) in found.items()
    ]
    for name in NETS:
        rows += of_steps(name, 1 if given.smallest else 100 if name == "MLP" else 15, given.smallest)
    size = 1000 if given.smallest else 1_000_000
    for name, (computed, kept) in found_again(size).items():
        times = taken({"computed": computed, "found": kept}, 3 if given.smallest else 15, 1)
        (_, computed_in), (_, found_in) = times["computed"], times["found"]
        rows.append({"what": f"{name}, found", "µs": times["found"][0], "least µs": found_in,
                     "of computed": found_in / computed_in})  # fmt: skip
    report("dynamic", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
