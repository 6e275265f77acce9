"""The best of all: the orders that take no time, then exact search, then local search where that proves nothing."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem, simulated_peak
from nnc_func.engine.orders.exact import Exact, Solution
from nnc_func.engine.orders.local_search import LocalSearch


@frozen
class Portfolio:
    """The least simulated peak that is found with so many `states` of exact search and `steps` of local search.

    Never more than that of any order without a search. Deterministic.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> Portfolio().solved(problem).is_optimal
    True
    """

    states: int = 20_000
    steps: int = 1_000
    seed: int = 0

    def __call__(self, problem: OrderProblem) -> list[int]:
        """The order."""
        return self.solved(problem).order

    def solved(self, problem: OrderProblem) -> Solution:
        """The order with what is known of it."""
        from nnc_func.engine.orders import ORDERS, SEARCHES

        first: list[Sequence[int]] = [order(problem) for name, order in ORDERS.items() if name not in SEARCHES]
        start = min(first, key=lambda order: simulated_peak(problem, order))
        found = Exact(self.states).solved(problem, start)
        if found.is_optimal:
            return found
        better = LocalSearch(self.steps, self.seed).improved(problem, found.order)
        return Exact(self.states).solved(problem, better)
