"""The best of the orders that take no time, divided by minimum cuts, bettered by exact search, and by local search.

Without the small buffers first: there are far fewer sets of tasks to tell apart, and moves reach further.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from nnc_func.engine.orders.base import OrderProblem, loads, simulated_peak
from nnc_func.engine.orders.bounds import lower_bound
from nnc_func.engine.orders.exact import Exact
from nnc_func.engine.orders.local_search import LocalSearch
from nnc_func.engine.orders.minimum_cut import MinimumCut, cut_bound
from nnc_func.engine.orders.quick import QUICK
from nnc_func.engine.orders.solution import Solution
from nnc_func.engine.orders.stretches.segments import coarsened

CUTS = 200  # tasks of which it is asked what they need at least
SHARE = 256  # of the peak: buffers that are smaller are left out at first


@frozen
class Portfolio:
    """The least simulated peak that is found with so many `states` of exact search and `steps` of local search.

    Never more than that of any order without a search. Deterministic. States are those of one search, of which there
    are up to four.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,)], [(0,), (1,), (0, 2), (1, 3)], [9, 9, 1, 1])
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
        first: list[Sequence[int]] = [order(problem) for order in QUICK.values()]
        start = min(first, key=lambda order: simulated_peak(problem, order))
        bound = lower_bound(problem)
        if simulated_peak(problem, start) > bound:
            divided = MinimumCut().solved(problem, start)
            start, bound = divided.order, max(bound, divided.bound)
        high = [*loads(problem, start)]
        peak = max(high, default=0)
        if peak > bound:  # no task needs more than it has here, so the highest prove most
            highest = sorted((i for i in range(len(high)) if high[i] > bound), key=lambda i: -high[i])[:CUTS]
            bound = max(bound, cut_bound(problem, *(start[i] for i in highest)))
        if peak == bound:
            return Solution([*start], peak, bound, 0)
        roughly = self._bettered(coarsened(problem, peak // SHARE), start)
        start = min(start, roughly.order, key=lambda order: simulated_peak(problem, order))
        if roughly.is_optimal:
            found = self._bettered(problem, start)
        else:  # with small buffers it is harder still
            order = LocalSearch(self.steps, self.seed).improved(problem, start)
            found = Solution(order, simulated_peak(problem, order), bound, 0)
        return evolve(found, bound=max(bound, found.bound, roughly.bound), states=found.states + roughly.states)

    def _bettered(self, problem: OrderProblem, start: Sequence[int]) -> Solution:
        """By exact search, by local search if that proves nothing, and once more by exact search from there."""
        exact = Exact(self.states)
        found = exact.solved(problem, start)
        if found.is_optimal:
            return found
        order = LocalSearch(self.steps, self.seed).improved(problem, found.order)
        if simulated_peak(problem, order) == found.peak:
            return found
        again = exact.solved(problem, order)
        return evolve(again, bound=max(found.bound, again.bound), states=found.states + again.states)
