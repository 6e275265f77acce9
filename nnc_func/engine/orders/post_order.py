"""Operands first, from the tasks that no other needs: XLA's PostOrderScheduler (hlo_memory_scheduler.cc)."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.walks import operands_first


def post_order(problem: OrderProblem) -> list[int]:
    """By number the last tasks, and their operands in the order of `needs`. Linear.

    Examples
    --------
    >>> post_order(OrderProblem([(), (), (0,), (1,)], [()] * 4, []))
    [0, 2, 1, 3]
    """
    return operands_first(problem.needs, problem.sinks)
