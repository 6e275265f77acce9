"""Orders beside each other: what peak each has on each problem. Every answer is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from nnc_func.engine.comparing.comparison import Comparison, Trial, seeded
from nnc_func.engine.comparing.trials import ANSWER, Conditions, Task, digest_of, rows, timed, whole_seeds
from nnc_func.engine.orders.base import Order, OrderProblem, checked, simulated_peak
from nnc_func.engine.orders.bounds import lower_bound


def compare_orders(
    problems: Mapping[str, OrderProblem],
    orders: Mapping[str, Order],
    *,
    repeat: int = 1,
    seeds: Iterable[int] = (0,),
    conditions: Conditions = Conditions(),
) -> Comparison:
    """What each order makes of each problem, as `compare` does for allocators.

    Ratios are to the peak of the depth-first order, which is that of the tasks by number; ``bound`` is what no order
    goes below.

    Examples
    --------
    >>> from nnc_func.engine.orders import ORDERS
    >>> needs, uses = [(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)]
    >>> chosen = {name: ORDERS[name] for name in ("breadth_first", "exact")}
    >>> found = compare_orders({"two": OrderProblem(needs, uses, [9, 9, 1, 1])}, chosen)
    >>> [(t.by, t.value, t.unit, t.bound, t.is_optimal) for t in found.trials]
    [('breadth_first', 19, 19, 10, False), ('exact', 11, 19, 10, False)]
    """
    return Comparison(
        "order", tuple(map(Trial.of, rows(_tasks(problems, orders, repeat, whole_seeds(seeds)), conditions)))
    )


def _tasks(
    problems: Mapping[str, OrderProblem], orders: Mapping[str, Order], repeat: int, seeds: tuple[int, ...]
) -> Iterator[Task]:
    for name, problem in problems.items():
        usual = simulated_peak(problem, range(len(problem)))
        known = {"count": len(problem), "bound": lower_bound(problem), "unit": usual}
        content = digest_of(problem)
        for of, order in orders.items():
            judged = partial(_judged, problem, of)
            for seed, asked in seeded(order, seeds):
                call = partial(_asked, asked, problem, repeat)
                yield Task(name, of, content, order, seed, repeat, call, judged, known=known)


def _asked(order: Order, problem: OrderProblem, repeat: int) -> dict[str, Any]:
    seconds, found = timed(lambda: checked(order(problem), problem, "asked"), repeat)
    return {"seconds": seconds, ANSWER: found}


def _judged(problem: OrderProblem, name: str, found: Any) -> dict[str, Any]:
    return {"value": simulated_peak(problem, checked(found[ANSWER], problem, name)), **found}
