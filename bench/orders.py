"""What orders are worth: the most bytes alive in each, beside depth-first's, of the zoo and of irregular cells.

python bench/orders.py [GRAPH ...] [--zoo] [--states N] [--smallest]: cells of irregular networks alone, as SERENITY
measures them, or the whole zoo, inference and training, too. Planned on the device Null. Prints a table, writes
bench/results/orders.json. Peaks are ratios to depth-first, the default without a choice; `as_written` is the program's
own order, which SERENITY compares with. `bound` is what is proven that no order goes below. The smallest size is a
narrow cell, and a small network.

python bench/orders.py --plans [NETWORK ...]: what default settings take of the zoo, inference of one example and
training steps of eight; writes bench/results/order_plans.json. `ratio` is the arena / the greatest of `lower`
(`lower_bound`), `cut` (`cut_bound` of all tasks whose load is above that) and `exact` (what the portfolio proves;
`--states 0` leaves that out); 0: not asked, since no more is to be proven. Each is less what results may house before
they are written, or of what they cannot house, whichever is more; and a loop may write over what it has read. Bars are
a mean of 1.03, and 1.10 of each; a ratio below 1 fails. `time` is that of a compilation beside one with the orders that
take microseconds, in turn: bars are 1.5, and 2.0 of irregular networks.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from attrs import evolve
from measure import earlier, options, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.orders import (
    DEFAULT,
    ORDERS,
    SEARCHES,
    Order,
    OrderProblem,
    Portfolio,
    cut_bound,
    loads,
    lower_bound,
    simulated_peak,
)
from nnc_func.engine.plan_rows import ARENA, LENT
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.engine.planning.planner import smallest_draft
from nnc_func.engine.planning.row_reuse import stacks
from nnc_func.graph.ops.loop import loop
from nnc_func.models.darts import cell
from nnc_func.models.randomly_wired import stage
from nnc_func.nn import inference_graph
from nnc_func.nn.modules import Module, module

IRREGULAR = ("darts", "randomly-wired")
BAR = 0.75
CHEAP = ("depth_first", "list_scheduling")
PLAN_BARS = {"mean": 1.03, "worst": 1.10, "regular": 1.5, "irregular": 2.0}
MEANS = ("list_scheduling", "minimum_cut", "portfolio", "bound", "portfolio/as written")


@module
class Alone(Module):
    """A cell of two inputs, given one twice."""

    cell: Module

    def forward(self, x: Any, context: Any = None) -> Any:
        """Its nodes, side by side."""
        return self.cell.forward((x, x), context)  # type: ignore[attr-defined]


def cells() -> Iterator[tuple[str, Module, tuple[int, ...]]]:
    """Two cells of DARTS, and nine randomly wired stages: three wirings at three sizes."""
    yield "darts, normal cell", Alone(cell(36, False, False)), (32, 32, 144)
    yield "darts, reduction cell", Alone(cell(72, True, False)), (32, 32, 144)
    for wiring in range(3):
        for i, side in enumerate((56, 28, 14)):
            channels = 78 * 2**i
            wired = stage(channels, 32, 3 * wiring + i)
            yield f"randomly wired {wiring}, stage {i}", wired, (side, side, channels // 2)


def narrow() -> Iterator[tuple[str, Module, tuple[int, ...]]]:
    """A cell of DARTS with few channels."""
    yield "darts, normal cell", Alone(cell(4, False, False)), (8, 8, 16)


def problems(alone: Any, names: Iterable[str]) -> Iterator[tuple[str, bool, OrderProblem]]:
    """Names, whether they are irregular, and problems, of cells and of networks of the zoo."""
    stack = nnc.lazy(nnc.Null())
    for name, network, shape in alone:
        made = inference_graph(stack, network.init(None, (None, *shape), "float32"), (1, *shape), "float32", name)
        yield name, True, stack.engine.order_problem(made)
    for name in names:
        model = models.get(name)
        for training in (False, True)[: 1 + model.trains]:
            title = f"{name}, training" if training else name
            yield title, name in IRREGULAR, stack.engine.order_problem(model.make(stack, 1, training, seed=None))


def measured(name: str, is_irregular: bool, problem: OrderProblem, search: Portfolio) -> dict[str, Any]:
    """One row."""
    usual = simulated_peak(problem, range(len(problem)))
    row: dict[str, Any] = {"graph": name, "irregular": is_irregular, "tasks": len(problem), "MB": usual / 1e6}
    for each, order in ORDERS.items():
        if each not in SEARCHES:
            row[each] = simulated_peak(problem, order(problem)) / usual
    row["minimum_cut"] = simulated_peak(problem, ORDERS["minimum_cut"](problem)) / usual
    start = time.process_time()
    found = search.solved(problem)
    return row | {
        "portfolio": found.peak / usual,
        "bound": found.bound / usual,
        "is_optimal": found.is_optimal,
        "portfolio/as written": found.peak / usual / row["as_written"],
        "s": time.process_time() - start,
    }


def proven(problem: OrderProblem, states: int) -> Bounds:
    """What is proven that any order takes."""
    lower = lower_bound(problem)
    order = ORDERS["minimum_cut"](problem)
    high = [*loads(problem, order)]
    cut = cut_bound(problem, *(task for task, load in zip(order, high, strict=True) if load > lower))
    most = max(high, default=0)
    exact = Portfolio(states, steps=100).solved(problem).bound if states and max(lower, cut) < most else 0
    return Bounds(lower, cut, exact)


class Bounds(NamedTuple):
    """Bytes that are proven in three ways; 0 where a way proves nothing more."""

    lower: int
    cut: int
    exact: int

    def less(self, nbytes: int) -> Bounds:
        """The same of what lies elsewhere, as far as it may, of so many bytes."""
        return Bounds(*(max(0, each - nbytes) for each in self))


def as_planned(draft: Draft) -> OrderProblem:
    """What orders are asked of a graph, with the scratch memory of the kernels that were taken after all.

    What lies in a variable takes no bytes.
    """
    problem = draft.ordering
    assert problem is not None
    sizes = [*problem.sizes]
    for s, size in enumerate(sizes):
        if size and s not in problem.lasting:
            sizes[s] = draft.sizes[s] if draft.storages[draft.root(s)].kind in (ARENA, LENT) else 0
    overwrites = {
        task: [(m, [o for o in others if sizes[o] == sizes[m]]) for m, others in pairs if sizes[m]]
        for task, pairs in problem.overwrites.items()
    }
    return by_rows(evolve(problem, sizes=sizes, overwrites=overwrites), draft)


def by_rows(problem: OrderProblem, draft: Draft) -> OrderProblem:
    """The same where a loop may write what it stacks over any of the arrays that it reads row by row.

    No order knows of that: what is stacked is as large as it likes. So both are cut where any of them ends, and parts
    are written over parts. That is more than a plan may do, which puts two of them together, for as long as either is
    alive: so what is proven of it holds for plans.
    """
    stacked: dict[int, list[tuple[int, list[int]]]] = {}
    for row in draft.instructions:
        if row.node.op is loop and row.node in draft.loops and not draft.loops[row.node][0].is_open:
            reads, writes = (
                [s for s in each if s < len(problem.sizes) and problem.sizes[s]] for each in stacks(draft, row)
            )
            for s in writes:
                stacked.setdefault(problem.users[s][0], []).append((s, reads))
    cut = {s for pairs in stacked.values() for written, reads in pairs for s in (written, *reads)}
    for _ in problem.overwrites:  # what is written over one of them is cut as it is
        also = {
            s
            for pairs in problem.overwrites.values()
            for made, others in pairs
            if not cut.isdisjoint((made, *others))
            for s in (made, *others)
        }
        if also <= cut:
            break
        cut |= also
    ends = sorted({problem.sizes[s] for s in cut})
    sizes = [0 if s in cut else size for s, size in enumerate(problem.sizes)]
    parts: dict[int, list[int]] = {}
    for s in sorted(cut):
        own = [end for end in ends if end <= problem.sizes[s]]
        parts[s] = [*range(len(sizes), len(sizes) + len(own))]
        sizes += [end - begin for begin, end in pairwise((0, *own))]
    overwrites: dict[int, list[tuple[int, list[int]]]] = {}
    for task in {*problem.overwrites, *stacked}:
        for made, others in (*problem.overwrites.get(task, ()), *stacked.get(task, ())):
            for n, part in enumerate(parts.get(made, [made])):
                over = [has[n] for s in others if n < len(has := parts.get(s, [s]))]
                overwrites.setdefault(task, []).append((part, over))
    return evolve(
        problem,
        sizes=sizes,
        uses=[[part for s in used for part in parts.get(s, [s])] for used in problem.uses],
        overwrites=overwrites,
    )


def not_housed(problem: OrderProblem, draft: Draft) -> OrderProblem:
    """Of all that is alive what no result can house, whatever the order: what stays in the arena.

    That is scratch memory, and what is used while the result is there, or after it was written.
    """
    stays = {*range(len(problem.sizes))}
    for lender in problem.lasting:
        behind = {*problem.users[lender]}
        for task, needed in enumerate(problem.needs):
            if not behind.isdisjoint(needed):
                behind.add(task)
        stays &= {s for s, users in enumerate(problem.users) if not behind.isdisjoint(users)}
    stays |= {s for row in draft.instructions for _, s in row.scratch}
    stays -= {*problem.lasting}
    sizes = [size if s in stays else 0 for s, size in enumerate(problem.sizes)]
    overwrites = {
        task: [(m, [o for o in others if sizes[o]]) for m, others in pairs if sizes[m]]
        for task, pairs in problem.overwrites.items()
    }
    return evolve(problem, sizes=sizes, lasting=(), overwrites=overwrites)


def bounds(draft: Draft, states: int) -> Bounds:
    """What is proven of the arena: less all that results may house, or of what they cannot."""
    problem = as_planned(draft)
    found = proven(problem, states)
    if not problem.lasting:
        return found
    found = found.less(sum(problem.sizes[s] for s in problem.lasting))
    return Bounds(*map(max, found, proven(not_housed(problem, draft), states)))


def plan(name: str, training: bool, states: int, rounds: int) -> dict[str, Any]:
    """What a network's plan takes, beside what is proven, and how long it takes to compile."""
    model = models.get(name)

    def compiled(orders: Sequence[Order | str]) -> Any:
        stack = nnc.lazy(nnc.Null())
        stack = stack.swap(engine=stack.engine.with_orders(*orders))
        graph = model.make(stack, 8 if training else 1, training, seed=None)
        start = time.process_time()
        made = stack.engine.compile(graph).plan
        return made, time.process_time() - start, stack, graph

    made, _, stack, graph = compiled(DEFAULT)
    taken = [(compiled(DEFAULT)[1], compiled(CHEAP)[1]) for _ in range(rounds)]
    engine = stack.engine
    with engine.symbol.table.walking:
        draft = smallest_draft(engine.request(relaid(engine.graph.optimised(graph)[0], engine.kernels)))
    found = bounds(draft, states)
    return {
        "network": f"{name}, training" if training else name,
        "irregular": name in IRREGULAR,
        "tasks": len(draft.instructions),
        "order": made.order,
        "arena MB": made.arena_bytes / 1e6,
        "before MB": compiled(CHEAP)[0].arena_bytes / 1e6,
        **{f"{key} MB": value / 1e6 for key, value in found._asdict().items()},
        "bound MB": max(found) / 1e6,
        "ratio": made.arena_bytes / max(found),
        "time": statistics.median(one / other for one, other in taken),
        "seconds": statistics.median(one for one, _ in taken),
    }


def plans(names: Sequence[str], states: int, smallest: bool) -> None:
    """All rows of plans, and what they are in sum."""
    if smallest:
        names, states = ["lenet-5", "char-lstm"], 10  # the second one has loops
    rows = earlier("order_plans", {"rows": []})["rows"] if names and not smallest else []
    for name in names or models.names():
        for training in (False, True)[: 1 + models.get(name).trains]:
            found = plan(name, training, states, 1 if smallest else 3)
            rows = [row for row in rows if row["network"] != found["network"]] + [found]
            ratios = [row["ratio"] for row in rows]
            regular, irregular = ([r["time"] for r in rows if r["irregular"] == is_so] for is_so in (False, True))
            totals = {
                "mean": math.exp(sum(map(math.log, ratios)) / len(ratios)),
                "worst": max(ratios),
                "below 1": sum(ratio < 1 for ratio in ratios),  # a bound that does not hold
                "regular": max(regular, default=0.0),
                "irregular": max(irregular, default=0.0),
            }
            report("order_plans", rows, smallest=smallest, all=totals, bars=PLAN_BARS)
    print("plans:", {k: round(v, 3) for k, v in totals.items()}, "bars:", PLAN_BARS)
    if totals["below 1"]:
        raise SystemExit("a plan takes less than what is proven: a bound is wrong")


def mean(rows: list[dict[str, Any]], column: str) -> float:
    """The geometric mean."""
    return math.exp(sum(math.log(row[column]) for row in rows) / len(rows))


def main() -> None:
    """All rows."""
    parser = options(__doc__)
    parser.add_argument("--zoo", action="store_true", help="all networks, not only the irregular ones")
    parser.add_argument("--states", type=int, default=40_000, help="of one exact search of the portfolio")
    parser.add_argument("names", nargs="*", help="graphs; those measured before stay in the results")
    parser.add_argument("--plans", action="store_true", help="what plans take beside what is proven, of the zoo")
    given = parser.parse_args()
    if given.plans or given.smallest:
        plans(given.names, given.states, given.smallest)
    if given.plans:
        return
    if given.smallest:
        search, found = Portfolio(10, steps=1), problems(narrow(), ["lenet-5"])
    else:
        search = Portfolio(given.states, steps=300)
        found = problems(cells(), models.names() if given.zoo else IRREGULAR)
    rows = earlier("orders", {"rows": []})["rows"] if given.names else []
    means: dict[str, float] = {}
    for name, is_irregular, problem in found:
        if given.names and name not in given.names:
            continue
        rows = [row for row in rows if row["graph"] != name] + [measured(name, is_irregular, problem, search)]
        irregular = [row for row in rows if row["irregular"]]
        means = {column: mean(irregular, column) for column in MEANS}
        report("orders", rows, smallest=given.smallest, irregular=means, bar=BAR)  # written after each: it takes long
    print(f"irregular graphs, geometric means (bar {BAR}):", {k: round(v, 3) for k, v in means.items()})


if __name__ == "__main__":
    main()
