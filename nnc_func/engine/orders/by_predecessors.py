"""Whose operands were computed longest ago runs first: the breadth-first order of PyTorch's Inductor (memory.py)."""

from __future__ import annotations

import heapq

from nnc_func.engine.orders.base import OrderProblem


def by_predecessors(problem: OrderProblem) -> list[int]:
    """By the sorted positions of what a ready task needs, compared one by one; ties by number. n log n.

    Examples
    --------
    >>> by_predecessors(OrderProblem([(), (), (1,), (0,)], [()] * 4, []))
    [0, 1, 3, 2]
    """
    at: dict[int, int] = {}
    ready: list[tuple[list[int], int]] = [([], task) for task, needed in enumerate(problem.needs) if not needed]
    missing = [len(needed) for needed in problem.needs]
    order: list[int] = []
    while ready:
        task = heapq.heappop(ready)[1]
        at[task] = len(order)
        order.append(task)
        for follower in problem.followers[task]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (sorted(at[one] for one in problem.needs[follower]), follower))
    return order
