"""What computing values again saves, and what it costs: planned on the device Null, by the default strategy.

python bench/rematerialisation.py [--networks] [--exact SECONDS] [--refusals] [--smallest]: attention and a chain of
layers, or three networks over five budgets; or the same five beside the best answer that constraint programming
(OR-tools) finds in so many seconds each; or what a refusal takes on every network that trains, batch 2. Prints a table,
writes bench/results/rematerialisation.json, or rematerialisation_networks.json, _exact.json or _refusals.json. FLOPs
are those of the operators' facet `cost`; bytes are a program's arena and fresh results. The smallest size is the first
three, of one network within one budget.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from measure import options, peer, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.planning.answers import footprint
from nnc_func.engine.rematerialising import STRATEGIES, RematerialisationProblem, simulated
from nnc_func.engine.rematerialising.optimal import Optimal
from nnc_func.errors import PlanError

PARTS = (0.9, 0.8, 0.7, 0.6, 0.5)  # of the bytes without a budget
Networks = tuple[tuple[str, int, tuple[float, ...]], ...]
NETWORKS: Networks = (
    ("mobilenet-v2", 16, PARTS),
    ("resnet-50", 16, PARTS),
    ("u-net", 2, (0.9, 0.85, 0.8, 0.75, 0.7)),  # one kernel, with its scratch, takes 0.56
)
SMALLEST: Networks = (("mnist", 16, (0.95,)),)


def attention(stack: Any, steps: int = 2048, width: int = 512, heads: int = 8, blocks: int = 4) -> Any:
    """A loss and the gradients of blocks of self-attention, with projections, of one sequence."""
    ops = stack.ops
    shapes = [(width, width)] * (4 * blocks)
    weights = [stack.input(f"w{i}", s, "float32") for i, s in enumerate(shapes)]

    def loss(x: Any, *weights: Any) -> Any:
        for b in range(blocks):
            q, k, v = (
                ops.permute_dims(ops.reshape(x @ w, shape=(steps, heads, -1)), axes=(1, 0, 2))
                for w in weights[4 * b : 4 * b + 3]
            )
            scores = ops.softmax(q @ ops.permute_dims(k, axes=(0, 2, 1)) * (width // heads) ** -0.5, axis=-1)
            x = x + ops.reshape(ops.permute_dims(scores @ v, axes=(1, 0, 2)), shape=(steps, width)) @ weights[4 * b + 3]
        return ops.sum(x * x)

    x = stack.input("x", (steps, width), "float32")
    value, grads = stack.value_and_grad(loss, tuple(range(1, 1 + len(weights))))(x, *weights)
    return stack.graph.close([x.value, *(w.value for w in weights)], [value.value, *(g.value for g in grads)])


def layers(stack: Any, count: int = 64, rows: int = 256, width: int = 64) -> Any:
    """A loss of a chain of layers, and the gradients of its weights."""
    ops = stack.ops
    weights = [stack.input(f"w{i}", (width, width), "float32") for i in range(count)]

    def loss(x: Any, *weights: Any) -> Any:
        for w in weights:
            x = ops.tanh(x @ w)
        return ops.sum(x * x)

    x = stack.input("x", (rows, width), "float32")
    value, grads = stack.value_and_grad(loss, tuple(range(1, 1 + count)))(x, *weights)
    return stack.graph.close([x.value, *(w.value for w in weights)], [value.value, *(g.value for g in grads)])


def step(stack: Any, name: str, batch: int) -> Any:
    """A training step of a network of the zoo."""
    return models.get(name).training(stack, batch, seed=None)


def row(name: str, make: Any, part: float, strategy: str = "greedy") -> dict[str, Any]:
    """One graph within a part of the bytes that it takes as it is."""
    stack = nnc.lazy(nnc.Null())
    graph = make(stack)
    takes = footprint(stack.engine.compile(graph).plan)
    engine = stack.engine.with_memory_budget(int(part * takes), strategy)
    start = time.process_time()
    try:
        plan = engine.compile(graph)
    except PlanError as error:
        return {"graph": name, "strategy": strategy, "budget": part, "refused": str(error)}
    cost = plan.stats.recomputation
    return {
        "graph": name,
        "strategy": strategy,
        "budget": part,
        "MB without": takes / 1e6,
        "MB": cost.nbytes / 1e6,
        "bytes": cost.nbytes / takes,
        "FLOPs": 1 + cost.extra_flops / cost.flops,
        "seconds, estimated": 1 + cost.extra_seconds / cost.seconds,
        "again": cost.again,
        "nodes": cost.nodes,
        "planning, s": time.process_time() - start,
    }


def beside_exact(name: str, make: Any, parts: Any, seconds: float) -> Iterator[dict[str, Any]]:
    """The default's answers beside those of the extra `exact`, of one graph: costs, of that without recomputation."""
    stack = nnc.lazy(nnc.Null())
    graph = make(stack)
    takes = footprint(stack.engine.compile(graph).plan)
    problems: list[RematerialisationProblem] = []

    def looking(problem: RematerialisationProblem, budget: int) -> Any:
        problems.append(problem)
        return problem.base.sequence

    with suppress(PlanError):
        stack.engine.with_memory_budget(0, looking).compile(graph)
    problem = problems[0]
    for part in parts:
        budget = int(part * takes)
        ours = simulated(problem, STRATEGIES["greedy"](problem, budget))
        found = Optimal(seconds).solved(problem, budget)
        best = simulated(problem, found.sequence)
        yield {
            "graph": name,
            "budget": part,
            "tasks": len(problem),
            "kept": ours.peak <= budget,
            "cost": ours.cost / problem.base.cost,
            "exact's": best.cost / problem.base.cost,
            "ratio": ours.cost / best.cost,
            "bound": found.bound / problem.base.cost,
            "proven": found.optimal,
        }


def pieces(smallest: bool) -> list[dict[str, Any]]:
    """Attention, and a chain of layers by two strategies."""
    if smallest:
        rows = [row("attention, T = 16", partial(attention, steps=16, width=8, heads=2, blocks=2), 0.8)]
        chain, name, parts = partial(layers, count=16, rows=64, width=8), "16 layers", (0.8,)
    else:
        rows = [row("attention, T = 2,048", attention, part) for part in (0.6, 0.45)]
        chain, name, parts = layers, "64 layers", (0.5, 0.35)
    return rows + [row(name, chain, part, strategy) for part in parts for strategy in ("square_root", "greedy")]


def networks(chosen: Networks) -> list[dict[str, Any]]:
    """Training steps of networks over budgets."""
    return [
        row(f"{name}, {batch}", partial(step, name=name, batch=batch), part)
        for name, batch, parts in chosen
        for part in parts
    ]


def exact(chosen: Networks, seconds: float) -> list[dict[str, Any]]:
    """The same beside the best that is found in so many seconds each."""
    return [
        found
        for n, b, parts in chosen
        for found in beside_exact(
            f"{n}, {b}", lambda s, n=n, b=b: models.get(n).training(s, b, seed=None), parts, seconds
        )
    ]


def refusals(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What it takes to refuse a budget one byte below the least, and to plan without a budget: processor time."""
    for name in names:
        stack = nnc.lazy(nnc.Null())
        graph = step(stack, name, 2)
        start = time.process_time()
        takes = footprint(stack.engine.compile(graph).plan)
        middle = time.process_time()
        said = refused(stack.engine, graph, 0)
        least = int(re.findall(r"the least (?:found )?is (\d+)", said)[0])
        again = time.process_time()
        refused(stack.engine, graph, least - 1)
        end = time.process_time()
        yield {
            "network": name,
            "MB without": takes / 1e6,
            "least, MB": least / 1e6,
            "by": "".join(re.findall(r"as (\w+) chooses", said)),
            "planning without, s": middle - start,
            "refusal, s": end - again,
        }


def refused(engine: Any, graph: Any, nbytes: int) -> str:
    """What is said where a budget is refused."""
    try:
        engine.with_memory_budget(nbytes).compile(graph)
    except PlanError as error:
        return str(error)
    raise SystemExit(f"{graph.name} is planned within {nbytes} bytes")


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--networks", action="store_true", help="three networks over five budgets")
    parser.add_argument("--exact", type=float, metavar="SECONDS", help="beside the best found in so many seconds each")
    parser.add_argument("--refusals", action="store_true", help="what a refusal takes on every network that trains")
    given = parser.parse_args()
    if given.refusals:
        chosen = ["mnist"] if given.smallest else [name for name in models.names() if models.get(name).trains]
        report("rematerialisation_refusals", list(refusals(chosen)), smallest=given.smallest)
    elif given.smallest:
        report("rematerialisation", pieces(True), smallest=True)
        report("rematerialisation_networks", networks(SMALLEST), smallest=True)
    elif given.exact is None and given.networks:
        report("rematerialisation_networks", networks(NETWORKS), smallest=False)
    elif given.exact is None:
        report("rematerialisation", pieces(False), smallest=False)
    wanted = not given.refusals and (given.smallest or given.exact is not None)
    if wanted and peer("ortools", "nothing is beside constraint programming"):
        found = exact(SMALLEST, 0.5) if given.smallest else exact(NETWORKS, given.exact)
        report("rematerialisation_exact", found, smallest=given.smallest)


if __name__ == "__main__":
    main()
