"""Allocation and all of planning, µs a buffer, over the zoo: inference, and training steps at batch 8.

python bench/planning.py [NAME ...] [--smallest]: prints a table, writes bench/results/planning.json. Bars: <= 50 µs a
buffer by default, <= 10 for the cheapest allocator. See "How planning is timed" in bench/README.md for what the columns
say.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import Any

from attrs import evolve
from measure import fresh, options, report
from optimise import plain, seconds

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.allocators import ALLOCATORS, answered
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.passes import PASSES, Pass, Passes
from nnc_func.engine.planning.planner import planned_smallest
from nnc_func.garbage_collection import uncollected

ROUNDS = 5
LONG = 0.02  # seconds that a measurement takes at the least: what is shorter is repeated
CHEAPEST = "block_reuse"  # of the allocators that reuse memory of any value
PARTS = {
    "kernels": ("choose",),
    "instructions": ("alias",),
    "ordering": ("order", "streams"),
    "sharing": ("lifetimes", "in_place", "lend", "commit"),
    "allocation": ("allocate",),
}


class Timed:
    """Seconds of the processor that passes take, by part."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        own = {name: self._timed(part, getattr(PASSES, name)) for part, each in PARTS.items() for name in each}
        self.passes = Passes(**own)

    def _timed(self, part: str, own: Pass) -> Pass:
        @wraps(own)
        def run(draft: Draft) -> Draft:
            start = time.process_time()
            found = own(draft)
            self.seconds[part] += time.process_time() - start
            return found

        return run


def graphs(names: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Names, engines, and rewritten graphs."""
    for name in names:
        model = models.get(name)
        for training in (False, True) if model.trains else (False,):
            stack = nnc.lazy(nnc.Null())
            graph = model.training(stack, 8, seed=None) if training else model.make(stack, seed=None)
            yield f"{name}, training" if training else name, stack.engine, stack.graph.optimised(graph)[0]


def planned(engine: Any, graph: Any) -> Any:
    """The plan of a rewritten graph."""
    return planned_smallest(engine.request(graph)).plan


def allocated(plan: Any, allocator: Any) -> Callable[[], float]:
    """A measurement of what allocating the arena of a plan takes, from a problem to offsets."""
    given = plan.problem

    def measure(number: int) -> float:
        problems = iter([evolve(given) for _ in range(number)])  # a problem keeps what is found out about it
        return spent(lambda: answered(allocator, next(problems)), number)

    return partial(measure, enough(measure(1)))


def parts_of(engine: Any, graph: Any) -> dict[str, float]:
    """Seconds of each part of a planning; a clock runs in each, so that together they take a little more than all."""
    timed = Timed()
    with uncollected():
        start = time.process_time()
        planned(evolve(engine, passes=timed.passes), graph)
        whole = time.process_time() - start
    return {**timed.seconds, "drafts and data": whole - sum(timed.seconds.values())}


def repeated(call: Callable[[], Any]) -> Callable[[], float]:
    """A measurement of a call: its seconds of the processor, of as many calls as take long enough."""
    return partial(spent, call, enough(spent(call, 1)))


def enough(taken: float) -> int:
    """How many calls take long enough, where one took so many seconds."""
    return max(1, round(LONG / max(taken, 1e-6)))


def spent(call: Callable[[], Any], number: int) -> float:
    """Seconds of the processor of one of so many calls: what they make is kept until then, so that none frees it."""
    kept: list[Any] = []
    fresh()
    with uncollected():
        start = time.process_time()
        for _ in range(number):
            kept.append(call())
        return (time.process_time() - start) / number


def row_of(name: str, engine: Any, graph: Any, rounds: int) -> dict[str, Any]:
    """One graph: planned in several ways, and plain Python, in turn."""
    plan = planned(engine, graph).verify()  # which imports what verifies
    count, arena = len(plan.buffers), max(1, len(plan.planned))
    cheap = evolve(engine, allocator=ALLOCATORS[CHEAPEST], orders=("depth_first",))
    measures = {
        "default": (arena, allocated(plan, engine.allocator)),
        "best_fit": (arena, allocated(plan, ALLOCATORS["best_fit"])),
        CHEAPEST: (arena, allocated(plan, cheap.allocator)),
        "all of planning": (count, repeated(partial(planned, engine, graph))),
        "cheapest of all": (count, repeated(partial(planned, cheap, graph))),
    }
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for column, (_, measure) in measures.items():
            taken.setdefault(column, []).append(measure())
            taken.setdefault("plain loop", []).append(seconds(plain))
    parts: dict[str, list[float]] = {}
    for _ in range(rounds):
        for part, s in parts_of(engine, graph).items():
            parts.setdefault(part, []).append(1e6 * s / count)
    median = {column: statistics.median(times) for column, times in taken.items()}
    loop = median.pop("plain loop")
    return {
        "graph": name,
        "buffers": count,
        "arena buffers": len(plan.planned),
        **{column: 1e6 * s / measures[column][0] for column, s in median.items()},
        **{part: statistics.median(times) for part, times in parts.items()},
        "verification": 1e6 * seconds(plan.verify) / count,
        "arena/max load": plan.ratio,
        "plain loop ms": 1e3 * loop,
    }


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("names", nargs="*", help="networks of the zoo; all unless given")
    given = parser.parse_args()
    names, rounds = (["mnist"], 1) if given.smallest else (given.names or models.names(), ROUNDS)
    report("planning", [row_of(*each, rounds) for each in graphs(names)], smallest=given.smallest)


if __name__ == "__main__":
    main()
