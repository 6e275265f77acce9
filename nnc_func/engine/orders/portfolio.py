"""The best of the orders that take no time, bettered by exact search, and by local search where that proves nothing.

What is not proven is searched without the small buffers too: there are far fewer sets of tasks to tell apart, and moves
reach further.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from nnc_func.engine.orders.base import OrderProblem, simulated_peak
from nnc_func.engine.orders.exact import Exact, Solution
from nnc_func.engine.orders.local_search import LocalSearch
from nnc_func.engine.orders.segments import coarsened

SHARE = 256  # of the peak: buffers that are smaller are left out at first


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
        search = LocalSearch(self.steps, self.seed)
        rough = coarsened(problem, found.peak // SHARE)
        roughly = Exact(self.states).solved(rough, search.improved(rough, found.order))
        orders = (found.order, roughly.order, search.improved(problem, found.order))
        best = min(orders, key=lambda order: simulated_peak(problem, order))
        found = Exact(self.states).solved(problem, best)
        return evolve(found, bound=max(found.bound, roughly.bound))
