"""What a dynamic stack costs: an operator that is recorded, one under `no_grad`, and a training step.

An operator is one of a chain of new nodes of four float32, beside the bare call of NumPy's function, in processor time.
The least of many turns is told beside the median, which a busy neighbour doubles. Bars, of the least above the bare
call: 6 µs recorded, 2 under `no_grad`. The step is that of an MLP 784-128-10 at batch 32 (forward, backward, update),
define by run beside the step that the lazy stack compiles; nothing is replayed. Its bar with replay is 2 times.

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


def steps() -> dict[str, Callable[[], Any]]:
    """A training step each way, of equal parameters."""
    rng = np.random.default_rng(0)
    shapes = ((784, 128), (128,), (128, 10), (10,))
    initial = [rng.normal(size=shape).astype("float32") * 0.05 for shape in shapes]
    images, labels = (
        rng.normal(size=(32, 784)).astype("float32"),
        np.eye(10, dtype="float32")[rng.integers(10, size=32)],
    )

    def loss(ops: Any, parameters: Any, x: Any, t: Any) -> Any:
        w, b, v, c = parameters
        logits = ops.relu(x @ w + b) @ v + c
        return -(t * ops.log_softmax(logits)).sum() / 32.0

    stack, lazy = nnc.dynamic(), nnc.lazy()
    parameters = [+stack.variable(f"p{n}", value) for n, value in enumerate(initial)]
    x, t = stack.asarray(images), stack.asarray(labels)

    def dynamic() -> None:
        with_gradients = [*parameters]
        gradients = stack.gradients([loss(stack.ops, with_gradients, x, t)], with_gradients)
        parameters[:] = [p - 0.01 * g for p, g in zip(with_gradients, gradients, strict=True)]

    def once() -> None:
        """As `dynamic`, of gradients that are constants."""
        with stack.no_grad():
            gradients = stack.gradients([_loss], parameters)
        del gradients

    _loss = loss(stack.ops, parameters, x, t)
    kept = [np.array(value) for value in initial]

    @lazy.jit
    def step(parameters: Any, x: Any, t: Any) -> Any:
        gradients = lazy.grad(lambda parameters: loss(lazy.ops, parameters, x, t))(parameters)
        return [p - 0.01 * g for p, g in zip(parameters, gradients, strict=True)]

    def compiled() -> None:
        kept[:] = step(kept, images, labels)

    return {"lazy step": compiled, "dynamic step": dynamic, "dynamic gradients alone": once}


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
    found = taken(steps(), rounds, 1)
    lazy = found["lazy step"][1]
    rows += [
        {"what": name, "µs": median, "least µs": least, "times lazy": least / lazy}
        for name, (median, least) in found.items()
    ]
    size = 1000 if given.smallest else 1_000_000
    for name, (computed, kept) in found_again(size).items():
        times = taken({"computed": computed, "found": kept}, 3 if given.smallest else 15, 1)
        (_, computed_in), (_, found_in) = times["computed"], times["found"]
        rows.append({"what": f"{name}, found", "µs": times["found"][0], "least µs": found_in,
                     "of computed": found_in / computed_in})  # fmt: skip
    report("dynamic", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
