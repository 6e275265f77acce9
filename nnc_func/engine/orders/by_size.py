"""Operands first, from tasks that use few bytes to those that use many: PyTorch Inductor's depth-first (memory.py)."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.walks import operands_first


def by_size(problem: OrderProblem) -> list[int]:
    """Every task is a root in its turn: least bytes used first, ties by number; operands by number. n log n.

    Examples
    --------
    >>> by_size(OrderProblem([(), (), (0,)], [(0,), (1,), (0,)], [8, 4]))
    [1, 0, 2]
    """
    used = [sum(problem.sizes[buffer] for buffer in each) for each in problem.uses]
    return operands_first(problem.needs, sorted(range(len(problem)), key=lambda task: (used[task], task)))
