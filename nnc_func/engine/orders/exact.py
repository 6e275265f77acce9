"""Exact search for the least peak: stretch by stretch between cuts, each by dynamic programming over what has run.

There is nothing to search where the lower bound is reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem, loads, simulated_peak
from nnc_func.engine.orders.bounds import lower_bound
from nnc_func.engine.orders.solution import FIRST, Solution
from nnc_func.engine.orders.stretches.arrangement import arranged
from nnc_func.engine.orders.stretches.segments import condensed, expanded, segments
from nnc_func.engine.orders.stretches.spans import Span

LARGEST = 2_000  # tasks of a stretch that is searched: what is ready in a larger one is too much to try


@frozen
class Exact:
    """The least peak of all orders, where that is found within so many `states`; else the least that is known.

    Deterministic. Memory and time grow with states: some 0.2 ms and a kilobyte each.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> Exact().solved(problem)
    Solution(order=[0, 2, 1, 3, 4], peak=11, bound=11, states=0)
    """

    states: int = 100_000

    def __call__(self, problem: OrderProblem) -> list[int]:
        """The order."""
        return self.solved(problem).order

    def solved(self, problem: OrderProblem, start: Sequence[int] | None = None) -> Solution:
        """The order with what is known of it; `start` is one to better, else the best of some that take no time."""
        small, tasks = condensed(problem)
        if start is None:
            order = min((each(small) for each in FIRST), key=lambda o: simulated_peak(small, o))
        else:
            number = {task: i for i, task in enumerate(tasks)}
            order = [number[task] for task in start if task in number]
        order, states, bound = list(order), 0, lower_bound(small)
        if simulated_peak(small, order) > bound:
            order, low, states = _improved(small, order, self.states)
            bound = max(bound, low)
        whole = expanded(problem, [tasks[i] for i in order])
        return Solution(whole, simulated_peak(problem, whole), bound, states)


def _improved(problem: OrderProblem, order: list[int], most: int) -> tuple[list[int], int, int]:
    """Stretches in the order of their peaks, until one that is not the highest any more; and what is proven."""
    parts = segments(problem)
    high = [*loads(problem, order)]
    peaks = [max(high[part.start : part.stop]) for part in parts]
    low = 0  # no order has a lower peak
    states = 0
    for at in sorted(range(len(parts)), key=lambda i: -peaks[i]):
        if peaks[at] <= low:
            break
        part = parts[at]
        if len(part) > LARGEST:
            continue
        span = Span(problem, order[: part.start], order[part.start : part.stop], order[part.stop :])
        found = arranged(span, peaks[at], most - states, low)
        states += found.states
        if found.tasks is not None:
            order[part.start : part.stop] = found.tasks
        low = max(low, found.low)
    return order, low, states
