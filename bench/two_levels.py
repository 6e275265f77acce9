"""Bytes moved between two levels of memory, beside the fewest: planned on two places that compute nothing.

python bench/two_levels.py [--part PART] [--seconds SECONDS] [--smallest]: graphs in fast memory of a part of what each
takes there as it is, 0.5 unless said. Prints a table, writes bench/results/two_levels.json. Fast memory is the arena in
the first place, and fresh results there. The fewest bytes are those of the same order of instructions, with no gaps in
memory: HiGHS (SciPy) or CP-SAT (OR-tools) searches for so many seconds each, and proves them or gives a bound. Slow
memory has a tenth of the bandwidth; seconds are estimated, of copies in turn and beside kernels, as parts of a run
without copies. The smallest size is a drawn graph.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from measure import options, peer, report
from rematerialisation import attention, layers

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.engine.planning.levels import fast_bytes
from nnc_func.engine.planning.planner import smallest_draft
from nnc_func.engine.planning.spills import spillable
from nnc_func.engine.spilling import POLICIES, answered
from nnc_func.engine.spilling.exact import Exact
from nnc_func.errors import PlanError

BAR = 1.2  # of the fewest bytes, at the most
SLOW = nnc.Machine(bandwidth=1e9)
PLACES = nnc.Places(fast=nnc.Null(), slow=nnc.Null(machine=SLOW))
Make = Callable[[Any], Any]


def step(stack: Any, name: str, batch: int, reduced: bool = False) -> Any:
    """A training step of a network of the zoo, or of a reduced one."""
    model = models.get(name).reduced() if reduced else models.get(name)
    return model.training(stack, batch, seed=None)


def drawn(stack: Any, seed: int, count: int = 60) -> Any:
    """A graph of values of several sizes, each of one or two drawn before, most of them of the latest."""
    random, ops = Random(seed), stack.ops
    x = stack.input("x", (4096,), "float32")
    values = [ops.sort(x * (i + 1.0)) for i in range(3)]
    for _ in range(count):
        one = values[-1 - min(int(random.expovariate(0.25)), len(values) - 1)]
        other = values[-1 - min(int(random.expovariate(0.05)), len(values) - 1)]
        least = min(one.shape[0], other.shape[0])
        made = ops.sort(one[:least] * other[:least])
        if random.random() < 0.3:
            made = ops.concat(made, made + 1.0, axis=0)
        values.append(made[: random.choice((2048, 4096, 8192))])
    total = sum(ops.sum(value) for value in random.sample(values, 8))
    return stack.graph.close([x.value], [total.value])


GRAPHS: dict[str, Make] = {
    "vgg-16, batch 8": partial(step, name="vgg-16", batch=8),
    "vgg-19, batch 8": partial(step, name="vgg-19", batch=8),
    "u-net, batch 2": partial(step, name="u-net", batch=2),
    "resnet-18, batch 8": partial(step, name="resnet-18", batch=8),
    "mobilenet-v2, reduced, batch 16": partial(step, name="mobilenet-v2", batch=16, reduced=True),
    "transformer-encoder, reduced, batch 16": partial(step, name="transformer-encoder", batch=16, reduced=True),
    "gpt-2, reduced, batch 16": partial(step, name="gpt-2", batch=16, reduced=True),
    "darts, reduced, batch 16": partial(step, name="darts", batch=16, reduced=True),
    "attention": attention,
    "64 layers": layers,
    **{f"drawn, seed {seed}": partial(drawn, seed=seed) for seed in (1, 2, 3)},
}
SMALLEST = {"drawn, seed 1": GRAPHS["drawn, seed 1"]}


def aligned(plan: Any) -> int:
    """The bytes that transfers move, of which the graphs have none themselves; as the optimum counts, aligned."""
    moved = [plan.slots[i.results[0]].aval.nbytes for i in plan.instructions if i.op.name == "transfer"]
    return sum(-(-nbytes // plan.alignment) * plan.alignment for nbytes in moved)


def row(name: str, make: Make, part: float, seconds: float, is_exact: bool) -> dict[str, Any]:
    """One graph within a part of the fast memory that it takes as it is."""
    stack = nnc.lazy(PLACES)
    engine, graph = stack.engine, make(stack)
    takes = fast_bytes(engine.compile(graph).plan)
    capacity = int(part * takes)
    start = time.process_time()
    try:
        program = engine.with_fast_memory(capacity).compile(graph)
    except PlanError as error:
        return {"graph": name, "refused": str(error)}
    taken = time.process_time() - start
    program.plan.verify()
    traffic = program.stats.traffic
    optimised, _ = stack.graph.optimised(graph)
    problem = spillable(smallest_draft(engine.request(relaid(optimised, engine.kernels)))).problem
    found: dict[str, Any] = {
        "graph": name,
        "gaps": len(problem.gaps),
        "MB": takes / 1e6,
        "fast": traffic.fast_bytes / capacity,
        "spills": traffic.spills,
        "fetches": traffic.fetches,
        "MB moved": traffic.moved / 1e6,
        "planning, s": taken,
    }
    run = traffic.estimate_without.together
    found["in turn"] = (traffic.estimate.computing + traffic.estimate.moving) / run
    found["beside"] = traffic.estimate.together / run
    if is_exact and problem.base.peak > capacity:
        best = Exact(seconds).solved(problem, capacity)
        found["fewest, MB"] = best.bound / 1e6
        found["proven"] = best.optimal
        found["moved / fewest"] = aligned(program.plan) / best.bound if best.bound else None
        found["furthest / fewest"] = answered(POLICIES["furthest"], problem, capacity).moved / best.bound
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--part", type=float, default=0.5, help="of the fast memory that a graph takes as it is")
    parser.add_argument("--seconds", type=float, default=60.0, help="that a solver may take for each graph")
    given = parser.parse_args()
    is_exact = peer("scipy", "the fewest bytes are asked of OR-tools") or peer("ortools")
    graphs = SMALLEST if given.smallest else GRAPHS
    rows = [row(name, make, given.part, given.seconds, bool(is_exact)) for name, make in graphs.items()]
    report("two_levels", rows, smallest=given.smallest)
    ratios = [each["moved / fewest"] for each in rows if each.get("moved / fewest")]
    if ratios:
        proven = sum(bool(each.get("proven")) for each in rows)
        ratio = f"mean {statistics.mean(ratios):.4f}, worst {max(ratios):.4f}"
        print(f"moved / fewest, of {len(ratios)} graphs, {proven} of them proven: {ratio}; the bar is {BAR}")


if __name__ == "__main__":
    main()
