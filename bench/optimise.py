"""Rewriting alone, µs a node, with all rules on: training steps of unrolled LSTMs and of networks; and checked.

python bench/optimise.py [--smallest]: prints a table, writes bench/results/optimise.json. Bars: <= 20 µs a node at
15,000 nodes, at 100,000 what it is at 1,000, and with NNC_SPEC=1 at most twice that. Times are the processor's, the
median of runs; beside them the time of a fixed loop of plain Python, which tells how busy the machine was: it holds
little at a time, for what holds much takes longer beside a large graph, whose memory it must fit in between.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lstm import APPLICATIONS_A_STEP, lstm_step
from measure import fresh, options, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.garbage_collection import uncollected

PARTS = (20_000, 70_000)  # that a tensor is taken apart into, and put together of
SIZES = (1_000, 5_000, 15_000, 50_000, 100_000)  # operator applications
NETWORKS = ("resnet-50", "mobilenet-v2", "darts")  # many variables and large values: groups are made
SMALLEST = ((100,), (100,), ("lenet-5",))
ROUNDS = 5


def plain() -> None:
    """A fixed amount of plain Python, which holds little at a time."""
    for _ in range(60):
        found: dict[Any, Any] = {}
        for i in range(1_000):
            key = (i, i + 1, str(i))
            found[key] = [i]
            found.get(key)


def seconds(call: Callable[[], Any]) -> float:
    """Of the processor."""
    fresh()
    with uncollected():
        start = time.process_time()
        call()
        return time.process_time() - start


def steps(sizes: Iterable[int], counts: Iterable[int], networks: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Names, stacks, and graphs."""
    for size in sizes:
        stack = nnc.lazy()
        yield "lstm", stack, lstm_step(stack, -(-size // APPLICATIONS_A_STEP))
    for size in counts:
        stack = nnc.lazy()
        yield "parts", stack, parts(stack, size)
        yield "joined", stack, joined(stack, size // 4)
    for name in networks:
        stack = nnc.lazy(nnc.Null())
        yield name, stack, models.get(name).training(stack, 8, seed=None)


def parts(stack: Any, size: int) -> Any:
    """A vector taken apart into its elements, which are put together again."""
    x = stack.input("x", (size,), "float32")
    return stack.graph.close([x.value], [stack.ops.stack(*stack.ops.unstack(x)).value])


def joined(stack: Any, size: int) -> Any:
    """Tensors that rules simplify, put together, and windows on that."""
    xs = [stack.input(f"x{i}", (3,), "float32") for i in range(size)]
    whole = stack.ops.concat(*[x * 1.0 for x in xs])
    windows = [stack.ops.exp(whole[3 * i + 1 : 3 * i + 2]) for i in range(size)]
    return stack.graph.close([x.value for x in xs], [w.value for w in windows])


def row_of(name: str, stack: Any, graph: Any, rounds: int) -> dict[str, Any]:
    """One graph: without checks, with them, and plain Python in turn."""
    nodes, taken = len(graph.nodes), {"rewriting": [], "checked": [], "plain": []}
    left = len(stack.graph.optimised(graph)[0].nodes)
    for _ in range(rounds):
        taken["rewriting"].append(seconds(lambda: stack.graph.optimised(graph)))
        config.spec = 1
        taken["checked"].append(seconds(lambda: stack.graph.optimised(graph)))
        config.spec = 0
        taken["plain"].append(seconds(plain))
    rewriting, checked, loop = (statistics.median(taken[k]) for k in ("rewriting", "checked", "plain"))
    return {
        "graph": name,
        "nodes": nodes,
        "left": left,
        "µs/node": 1e6 * rewriting / nodes,
        "NNC_SPEC=1": checked / rewriting,
        "plain loop ms": 1e3 * loop,
    }


def main() -> None:
    """Print and write the table."""
    given, stack = options(__doc__).parse_args(), nnc.lazy()
    rounds = 1 if given.smallest else ROUNDS
    row_of("first", stack, lstm_step(stack, 4), rounds)
    graphs = steps(*SMALLEST) if given.smallest else steps(SIZES, PARTS, NETWORKS)
    report("optimise", [row_of(*each, rounds) for each in graphs], smallest=given.smallest)


if __name__ == "__main__":
    main()
