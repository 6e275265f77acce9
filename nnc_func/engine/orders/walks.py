"""Walks that several orders share: operands first, and whatever is ready by a rank that does not change."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.engine.orders.base import OrderProblem


def operands_first(needs: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    """The roots one after another, each behind what it needs, in the order given there; each task once.

    Examples
    --------
    >>> operands_first([(), (), (1, 0)], [2])
    [1, 0, 2]
    """
    order: list[int] = []
    seen = bytearray(len(needs))
    for root in roots:
        if seen[root]:
            continue
        seen[root] = 1
        stack = [(root, iter(needs[root]))]
        while stack:
            task, rest = stack[-1]
            for one in rest:
                if not seen[one]:
                    seen[one] = 1
                    if needs[one]:
                        stack.append((one, iter(needs[one])))
                        break
                    order.append(one)
            else:
                order.append(task)
                stack.pop()
    return order


def by_rank(problem: OrderProblem, rank: Callable[[int], Any]) -> list[int]:
    """Of the tasks that are ready the one of the least rank, again and again; a rank is asked for when a task is ready.

    Examples
    --------
    >>> by_rank(OrderProblem([(), (), (0,)], [(), (), ()], []), lambda task: -task)
    [1, 0, 2]
    """
    missing = [len(needed) for needed in problem.needs]
    followers = problem.followers
    ready = [(rank(task), task) for task, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        task = heapq.heappop(ready)[1]
        order.append(task)
        for follower in followers[task]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (rank(follower), follower))
    return order
