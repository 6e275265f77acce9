"""Operands first, those with most users first: XLA's DFSMemoryScheduler (hlo_memory_scheduler.cc)."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.walks import operands_first


def by_users(problem: OrderProblem) -> list[int]:
    """Operands go by the followers beyond one of all that is before them, then by its bytes, both most first.

    Both are sums over operands, in which what is reached twice counts twice, up to the sum of all. Ties by number.
    Linear, but for sorting the operands of a task.

    Examples
    --------
    >>> by_users(OrderProblem([(), (), (0, 1), (1,)], [(0,), (1,), (0, 1), (1,)], [4, 4]))
    [1, 0, 2, 3]
    """
    count = len(problem)
    defined = first_uses(problem)
    extra, total = [0] * count, [0] * count
    all_bytes = sum(defined)
    for task, needed in enumerate(problem.needs):
        followers = len(problem.followers[task])
        extra[task] = min(max(followers - 1, 0) + sum(extra[one] for one in needed), count)
        total[task] = min(defined[task] + sum(total[one] for one in needed), all_bytes)
    needs = [sorted(needed, key=lambda one: (-extra[one], -total[one], one)) for needed in problem.needs]
    return operands_first(needs, problem.sinks)


def first_uses(problem: OrderProblem) -> list[int]:
    """For each task the bytes that it is the first to use, by number."""
    found, seen = [], set()
    for used in problem.uses:
        fresh = [buffer for buffer in used if buffer not in seen]
        seen.update(fresh)
        found.append(sum(problem.sizes[buffer] for buffer in fresh))
    return found
