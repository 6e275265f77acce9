"""Programs on two streams against one: branches of elementwise work, a random graph, the MNIST step; medians, A B A B.

`ratio` is one stream's seconds over two streams', `ceiling` what two bare threads with no plan at all reach at the
same time for NumPy's exp over as many bytes: other load on the machine lowers both. `least` compares the fastest runs.

python bench/streams.py [--rounds 15] [--smallest]: prints a table, writes bench/results/streams.json.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import fresh, options, report
from mnist_step import batch, network

import nnc_func as nnc
from nnc_func import nn

BRANCHES = 8
SIZES = (1 << 6, 1 << 12, 1 << 15, 1 << 18, 1 << 20)  # elements
ONE = nnc.lazy()
TWO = ONE.swap(engine=ONE.engine.with_streams(2))


def taken(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, in turn."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - start)
    return found


def bare(size: int) -> dict[str, Callable[[], Any]]:
    """NumPy's exp by one thread, and by two with half the work each."""
    x = np.linspace(-1, 1, size, dtype="float32")
    outs = [np.empty_like(x) for _ in range(2)]

    def work(out: Any, times: int) -> None:
        for _ in range(times):
            np.exp(x, out)

    def two() -> None:
        other = threading.Thread(target=work, args=(outs[1], BRANCHES))
        other.start()
        work(outs[0], BRANCHES)
        other.join()

    return {"bare one": lambda: work(outs[0], 2 * BRANCHES), "bare two": two}


def branches(stack: Any, size: int) -> Any:
    """Eight chains of elementwise work, that meet in nothing."""
    o, x = stack.ops, stack.input("x", (size,), "float32")
    return stack.compile([x], [o.exp(o.sin(x * float(i + 1))) * o.tanh(x + float(i)) for i in range(BRANCHES)])


def layers(stack: Any, size: int, seed: int = 0) -> Any:
    """A random graph: each value is of two earlier ones."""
    draw = np.random.default_rng(seed)
    o, x = stack.ops, stack.input("x", (size,), "float32")
    values = [x * 0.5, x * 0.25, o.tanh(x)]
    kinds = [o.tanh, o.sin, lambda v: o.cumulative_sum(v * 1e-3, axis=0), o.sigmoid]
    for _ in range(60):
        a, b = draw.integers(max(0, len(values) - 8), len(values), 2)
        values.append(kinds[draw.integers(len(kinds))](values[a] + values[b]))
    return stack.compile([x], values[-3:])


def step(stack: Any, smallest: bool) -> tuple[Callable[[], Any], Any]:
    """The main job's training step, and its plan."""
    made = nn.Step(stack, network(smallest), nn.softmax_cross_entropy, nn.Adagrad(epsilon=1e-7))
    x, y = batch(smallest)
    return lambda: made(x, y, 0.001), made.program(x, y).plan


def row(what: str, one: Any, two: Any, rounds: int, number: int = 1, size: int = 1 << 18, bar: str = "") -> Any:
    """One graph: seconds and bytes on one stream and on two."""
    fresh()

    def several(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [call() for _ in range(number)]

    found = taken({"one": several(one[0]), "two": several(two[0]), **bare(size)}, rounds)
    middle = {k: statistics.median(v) for k, v in found.items()}
    least = {k: min(v) for k, v in found.items()}
    return {
        "what": what,
        "kernels": two[1].kernels,
        "streams": two[1].streams,
        "waits": sum(len(i.waits) for i in two[1].instructions),
        "one, ms": 1e3 * middle["one"] / number,
        "two, ms": 1e3 * middle["two"] / number,
        "ratio": middle["one"] / middle["two"],
        "least": least["one"] / least["two"],
        "ceiling": middle["bare one"] / middle["bare two"],
        "arena, one": one[1].arena_bytes,
        "arena, two": two[1].arena_bytes,
        "bar": bar,
    }


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    sizes, rounds = ((1 << 18,), 1) if given.smallest else (SIZES, given.rounds)
    rows = []
    for make, name, largest in ((branches, "8 branches", 1 << 20), (layers, "random graph", 1 << 18)):
        for size in (n for n in sizes if n <= largest):
            programs = make(ONE, size), make(TWO, size)
            x = np.linspace(-1, 1, size, dtype="float32")
            same = zip(programs[0](x), programs[1](x), strict=True)
            assert all(a.tobytes() == b.tobytes() for a, b in same), (name, size)
            pairs = [((lambda p=p, x=x: p(x)), p.plan) for p in programs]
            bar = ">= 1.6" if name == "8 branches" and size >= 1 << 18 else ">= 1"
            number = max(1, (1 << 15) // size)
            rows.append(row(f"{name} of {size} floats", *pairs, rounds, number, max(size, 1 << 14), bar))
    steps = [step(stack, given.smallest) for stack in (ONE, TWO)]
    rows.append(row("MNIST step", *steps, rounds, bar=">= 1"))
    report("streams", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
