"""The default allocator beside every other one, which has as much time as it took, on 40 generated problems.

python bench/members.py [KIND ...] [--seed N] [--most COUNT] [--smallest]: prints a row a problem, as it comes, and
writes bench/results/members.json. Seeds are drawn from N, which the system draws unless it is given, and which is
printed first. Where the default stops above 1.005 of the bound, each other one is asked in a process of its own with
the default's processor time as its budget; who has no budget and takes longer does not count. `best` is the smallest
arena of theirs, `worse` is by how much the default's is larger: the bar is 0.005. Of larger problems than COUNT none is
made.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve
from measure import options, report

from nnc_func.cli.plans import with_budget
from nnc_func.engine.allocators import ALLOCATORS, Allocator, Problem, answered, arena_size
from nnc_func.engine.allocators.base import lower_bound
from nnc_func.engine.allocators.portfolio import ENOUGH
from nnc_func.engine.allocators.problems.instances import GENERATORS
from nnc_func.engine.comparing.isolation import ANSWERED, called_alone
from nnc_func.engine.verifying.offsets import verify_offsets

DEFAULT = "portfolio"
KINDS = {
    "tiling": (100, 300, 1000, 3000, 10_000, 100_000),
    "pinwheel": (101, 301, 1001, 3001, 10_001),
    "uniform": (100, 300, 1000, 3000, 10_000, 100_000, 1_000_000),
    "skewed": (100, 300, 1000, 3000, 10_000, 100_000, 1_000_000),
    "concurrent": (100, 300, 1000, 3000, 10_000),
    "lasting": (100, 1000, 10_000, 100_000, 1_000_000),
    "waves": (100, 1000, 10_000, 100_000, 1_000_000),
}
LIMIT = 600.0  # seconds by the clock that the default has
PATIENCE, LATER = 4, 5.0  # times its seconds, and more, that others have by the clock: they share a processor
ENDED_LATE = 1.1  # times its seconds of the processor: who took longer does not count
LEAST = 0.02  # seconds that everybody has


def problems(kinds: list[str], draw: random.Random, most: int) -> Iterator[tuple[str, Problem]]:
    """Problems of all kinds, the small ones first, each of a seed of its own."""
    sizes = sorted((count, kind) for kind, counts in KINDS.items() for count in counts)
    for count, kind in sizes:
        seed = draw.randrange(1_000_000)
        if count <= most and kind in (kinds or KINDS):
            yield f"{kind}:{count} seed {seed}", evolve(GENERATORS[kind](count, seed), capacity=None)


def asked(allocator: Allocator, problem: Problem, limit: float) -> tuple[float, float] | None:
    """The arena, as a multiple of the bound, and seconds of the processor; None where there is no answer in time."""

    def call() -> tuple[float, float]:
        start = time.process_time()
        offsets = answered(allocator, problem)
        took = time.process_time() - start
        verify_offsets(problem, offsets)
        return arena_size(problem, offsets) / lower_bound(problem), took

    outcome = called_alone(call, limit)
    return tuple(outcome.found) if outcome.kind == ANSWERED else None


def row_of(name: str, problem: Problem, ask: Callable[..., tuple[float, float] | None] = asked) -> dict[str, Any]:
    """The default's arena and the smallest of the others'."""
    found = ask(ALLOCATORS[DEFAULT], problem, LIMIT)
    if found is None:
        return {"problem": name, "default": None}
    ratio, seconds = found
    row: dict[str, Any] = {"problem": name, "default": ratio, "seconds": seconds, "best": 1.0, "of": "", "worse": 0.0}
    if ratio <= ENOUGH:
        return row
    budget = max(seconds, LEAST)
    others = {}
    for other in ALLOCATORS:
        if other != DEFAULT:
            answer = ask(with_budget(ALLOCATORS[other], {"seconds": budget}), problem, PATIENCE * budget + LATER)
            if answer is not None and answer[1] <= ENDED_LATE * budget + LEAST:
                others[other] = answer[0]
    of = min(others, key=lambda other: others[other])
    return row | {"best": others[of], "of": of, "worse": ratio / others[of] - 1}


def main() -> None:
    """Print the rows and write them."""
    parser = options(__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="KIND")
    parser.add_argument("--seed", type=int, help="of the seeds; drawn unless given")
    parser.add_argument("--most", type=int, default=1_000_000, metavar="COUNT")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    kinds, most = (["tiling"], 100) if given.smallest else (given.kinds, given.most)
    print(f"seeds are drawn from {seed}", flush=True)
    rows: list[dict[str, Any]] = []
    for name, problem in problems(kinds, random.Random(seed), most):
        rows.append(row_of(name, problem))
        print(rows[-1], flush=True)
    worse = [row["problem"] for row in rows if row["default"] is None or row["worse"] > ENOUGH - 1]
    report("members", rows, smallest=given.smallest, seed=seed, worse=worse)
    print(f"{len(rows)} problems, worse than the best member by more than 0.5 %: {len(worse)} (bar: 0)")


if __name__ == "__main__":
    main()
