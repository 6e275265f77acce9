"""Orders beside each other: what peak each has on each problem, and what that says of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from nnc_func.engine.orders.base import Order, OrderProblem, checked, simulated_peak
from nnc_func.engine.orders.bounds import lower_bound


@frozen
class OrderTrial:
    """One order's answer to one problem.

    Attributes
    ----------
    problem, order
        Their names.
    tasks
        How many there are.
    bound
        What no order goes below, in bytes.
    usual
        The peak of the depth-first order, in bytes.
    peak
        That of this one.
    seconds
        How long it took, of this process.
    """

    problem: str
    order: str
    tasks: int
    bound: int
    usual: int
    peak: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Its peak / that of the depth-first order."""
        return self.peak / self.usual if self.usual else 1.0

    @property
    def is_optimal(self) -> bool:
        """Whether the lower bound proves that no order is better."""
        return self.peak == self.bound


@frozen
class OrderComparison:
    """All trials, problem by problem."""

    trials: tuple[OrderTrial, ...]

    def summary(self) -> list[dict[str, Any]]:
        """A row an order, the best first: geometric mean and extremes of ratios to depth-first, optima, speed."""
        rows = []
        for name in dict.fromkeys(t.order for t in self.trials):
            trials = [t for t in self.trials if t.order == name]
            ratios = [t.ratio for t in trials]
            rows.append(
                {
                    "order": name,
                    "mean_ratio": math.exp(sum(math.log(r) for r in ratios if r) / len(ratios)),
                    "best_ratio": min(ratios),
                    "worst_ratio": max(ratios),
                    "proven_optimal": sum(t.is_optimal for t in trials),
                    "problems": len(trials),
                    "microseconds_a_task": 1e6 * sum(t.seconds for t in trials) / max(sum(t.tasks for t in trials), 1),
                }
            )
        return sorted(rows, key=lambda row: (row["mean_ratio"], row["order"]))


def compare_orders(problems: Mapping[str, OrderProblem], orders: Mapping[str, Order]) -> OrderComparison:
    """What each order makes of each problem; every answer is checked.

    Raises
    ------
    PlanError
        An answer is no valid sequence; names the order.

    Examples
    --------
    >>> from nnc_func.engine.orders import ORDERS
    >>> needs, uses = [(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)]
    >>> chosen = {name: ORDERS[name] for name in ("breadth_first", "exact")}
    >>> found = compare_orders({"two": OrderProblem(needs, uses, [9, 9, 1, 1])}, chosen)
    >>> [(t.order, t.peak, t.usual, t.bound, t.is_optimal) for t in found.trials]
    [('breadth_first', 19, 19, 10, False), ('exact', 11, 19, 10, False)]
    """
    trials = []
    for name, problem in problems.items():
        bound, usual = lower_bound(problem), simulated_peak(problem, range(len(problem)))
        for of, order in orders.items():
            start = time.perf_counter()
            found = order(problem)
            taken = time.perf_counter() - start
            peak = simulated_peak(problem, checked(found, problem, of))
            trials.append(OrderTrial(name, of, len(problem), bound, usual, peak, taken))
    return OrderComparison(tuple(trials))
