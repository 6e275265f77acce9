"""Just in time: list scheduling, in which what takes more than it frees is put off until another task needs it."""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.engine.needs import spans
from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.depth_first import operands_first
from nnc_func.engine.orders.ready_list import list_scheduling


def just_in_time(problem: OrderProblem) -> list[int]:
    """List scheduling, in which what takes more than it frees is put off until another task needs it.

    For programs in which values are computed again of what lasts anyway: they are ready from the beginning, and a ready
    list runs them whenever nothing else frees as much. n log n.

    Examples
    --------
    Two values, each made of nothing and read once, by links of a chain that frees nothing:

    >>> needs, uses = [(), (), (), (0, 2), (1, 3)], [(0,), (1,), (2,), (0, 2, 3), (1, 3, 4)]
    >>> problem = OrderProblem(needs, uses, [8, 8, 8, 9, 8])
    >>> list_scheduling(problem), just_in_time(problem)
    ([0, 1, 2, 3, 4], [0, 2, 3, 1, 4])
    """
    return put_off(problem, list_scheduling(problem))


def put_off(problem: OrderProblem, order: Sequence[int]) -> list[int]:
    """An order in which each task that takes more than it frees there is run when the first task needs it.

    Examples
    --------
    >>> needs, uses = [(), (), (0,), (1, 2)], [(0,), (1,), (0, 2), (1, 2, 3)]
    >>> put_off(OrderProblem(needs, uses, [8, 8, 8, 8]), [0, 1, 2, 3])
    [0, 2, 1, 3]
    """
    uses, sizes = problem.uses, problem.sizes
    first, last = spans([uses[task] for task in order])
    for buffer in problem.lasting:
        last.pop(buffer, None)
    at = [0] * len(order)
    roots: list[int] = []
    for position, task in enumerate(order):
        at[task] = position
        grown = sum([sizes[b] * ((first[b] == position) - (last.get(b) == position)) for b in uses[task]])
        if grown <= 0 or not problem.followers[task]:
            roots.append(task)
    return operands_first([sorted(needed, key=at.__getitem__) for needed in problem.needs], roots)
