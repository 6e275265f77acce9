"""LPMF, least peak memory first: PyTorch Inductor's (memory.py), where what it frees is that of the task it chose.

(Inductor's own subtracts what the last task that it looked at would have freed.)
"""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.progress import Progress


def least_peak(problem: OrderProblem) -> list[int]:
    """Of the ready tasks that raise no peak so far the one after which least is alive; else what raises it least.

    Ties: what needs less while it runs, or what grows less; then number. Time: tasks times the most that are ready.

    Examples
    --------
    >>> least_peak(OrderProblem([(), (), (0,), (1,)], [(0,), (1,), (0,), (1,)], [8, 4]))
    [1, 3, 0, 2]
    """
    progress = Progress(problem)
    peak = 0
    current = {task: (progress.needed(task), progress.grows(task)) for task in progress.ready}
    while current:
        room = peak - progress.alive
        fits = [(grows, needed, task) for task, (needed, grows) in current.items() if needed <= room]
        if fits:
            task = min(fits)[2]
        else:
            needed, _, task = min((needed, grows, task) for task, (needed, grows) in current.items())
            peak = progress.alive + needed
        changed = progress.run(task)
        del current[task]
        for each in changed:
            current[each] = progress.needed(each), progress.grows(each)
    return progress.order
