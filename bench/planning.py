"""Allocation and all of planning, µs a buffer, over the zoo: inference, and training steps at batch 8.

python bench/planning.py [NAME ...]: prints a table, writes bench/results/planning.json. First what allocators take for
the plan's problem, a buffer of the arena: the default, bar <= 50, and the cheapest that reuses memory, bar <= 10. Then
all of planning behind rewriting and its parts, a buffer of the program: orders that are tried, layouts, an allocation
for each. Times are the processor's, medians of runs; beside them that of a fixed loop of plain Python, which tells how
busy the machine was. Verification is no part of it: programs are verified with NNC_SPEC=1, or a user's own allocator.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

from attrs import evolve
from measure import fresh, report
from optimise import plain, seconds

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.allocators import ALLOCATORS, answered
from nnc_func.engine.collecting import uncollected
from nnc_func.engine.planning import layouts, placing, planner

ROUNDS = 3
FEW = 500  # buffers
CHEAPEST = "block_reuse"  # of those that reuse memory of any value
PARTS = {
    "kernels": [(planner, "kernels_of")],
    "ordering": [(planner, "arrange")],
    "sharing": [
        *((planner, name) for name in ("lifetimes", "share", "lend", "reuse", "footprint", "least")),
        (layouts, "overwritable"),
    ],
    "allocation": [(placing, "answered")],
    "as data": [(planner, "placed")],  # without allocation
}


class Timed:
    """Seconds of the processor that functions take, by part, while it is entered."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._before = [(module, name, getattr(module, name)) for each in PARTS.values() for module, name in each]

    def __enter__(self) -> Timed:
        for part, each in PARTS.items():
            for module, name in each:
                setattr(module, name, self._timed(part, getattr(module, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, function in self._before:
            setattr(module, name, function)

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            start = time.process_time()
            found = function(*args, **more)
            self.seconds[part] += time.process_time() - start
            return found

        return call


def graphs(names: list[str]) -> Iterator[tuple[str, Any, Any]]:
    """Names, engines, and rewritten graphs."""
    for name in names or models.names():
        model = models.get(name)
        for training in (False, True) if model.trains else (False,):
            stack = nnc.lazy(nnc.Null())
            graph = model.training(stack, 8, seed=None) if training else model.make(stack, seed=None)
            yield f"{name}, training" if training else name, stack.engine, stack.graph.optimised(graph)[0]


def allocating(allocator: Any, problem: Any) -> float:
    """Seconds of one allocation; of a small problem the mean of several."""
    alike = [evolve(problem) for _ in range(1 + FEW // len(problem))]  # each finds its own bounds
    return seconds(lambda: [answered(allocator, each) for each in alike]) / len(alike)


def row_of(name: str, engine: Any, graph: Any) -> dict[str, Any]:
    """One graph: planned, verified, and plain Python in turn."""
    taken: dict[str, list[float]] = {}
    plan: Any = None
    for _ in range(ROUNDS):
        fresh()
        with uncollected(), Timed() as timed:
            start = time.process_time()
            arranged = partial(engine._arranged, (), graph, None)
            plan, *_ = planner.smallest(arranged, engine.orders, engine.allocator)
            whole = time.process_time() - start
        found = timed.seconds
        found["as data"] -= found["allocation"]
        each = {"planning": whole, "instructions": whole - sum(found.values()), **found}
        for allocator in ("default", CHEAPEST):
            called = ALLOCATORS[CHEAPEST] if allocator == CHEAPEST else engine.allocator
            each[allocator] = allocating(called, plan.problem)
        each |= {"verification": seconds(plan.verify), "plain": seconds(plain)}
        for part, s in each.items():
            taken.setdefault(part, []).append(s)
    median = {part: statistics.median(times) for part, times in taken.items()}
    loop = median.pop("plain")
    count, arena = len(plan.buffers), len(plan.problem)
    return {
        "graph": name,
        "arena buffers": arena,
        **{allocator: 1e6 * median.pop(allocator) / arena for allocator in ("default", CHEAPEST)},
        "buffers": count,
        **{("all of planning" if part == "planning" else part): 1e6 * s / count for part, s in median.items()},
        "arena/max load": plan.ratio,
        "plain loop ms": 1e3 * loop,
    }


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description="Time planning behind rewriting.")
    parser.add_argument("names", nargs="*", help="networks of the zoo; all unless given")
    rows = [row_of(*each) for each in graphs(parser.parse_args().names)]
    report("planning", rows)


if __name__ == "__main__":
    main()
