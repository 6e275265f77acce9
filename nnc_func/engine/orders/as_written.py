"""The program's own order: what an eager engine does, and so what a user expects who reads a trace."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.walks import by_rank


def as_written(problem: OrderProblem) -> list[int]:
    """By rank in the program, as far as needs allow; ties by number. n log n.

    Examples
    --------
    >>> as_written(OrderProblem([(), (), (0,)], [()] * 3, [], written=[5, 4, 3]))
    [1, 0, 2]
    """
    written = range(len(problem)) if problem.written is None else problem.written
    return by_rank(problem, written.__getitem__)
