"""List scheduling: XLA's ListScheduler (hlo_memory_scheduler.cc).

A greedy choice cannot be right always. XLA's own comment gives A→{B⇒C, D, E}→F⇒G, C→G, where this puts B off because
its result is large, and F comes before it.
"""

from __future__ import annotations

import heapq

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.progress import Progress


def list_scheduling(problem: OrderProblem) -> list[int]:
    """Of the ready tasks the one that frees most bytes beyond those that it defines; ties: most followers, number.

    What it overwrites it defines and frees. n log n, but for buffers that many tasks use.

    Examples
    --------
    >>> list_scheduling(OrderProblem([(), (), (0,), (1,)], [(0,), (1,), (0,), (1,)], [8, 4]))
    [1, 3, 0, 2]
    """
    progress = Progress(problem)
    followers = problem.followers

    def entry(task: int) -> tuple[int, int, int]:
        return progress.grows(task), -len(followers[task]), task

    current = {task: entry(task) for task in progress.ready}
    heap = list(current.values())
    heapq.heapify(heap)
    while heap:
        found = heapq.heappop(heap)
        task = found[2]
        if task in progress.ready and current[task] == found:
            for changed in progress.run(task):
                current[changed] = entry(changed)
                heapq.heappush(heap, current[changed])
    return progress.order
