"""Where every order of a problem must pass: tasks that are before or after each other one. What is between is apart."""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.depth_first import operands_first


def cuts(problem: OrderProblem) -> list[int]:
    """The tasks that come after all lower numbers and before all higher ones, in any order. Linear.

    All lower ones come before a task if each has a follower that is not beyond it; so with higher ones.

    Examples
    --------
    >>> cuts(OrderProblem([(), (0,), (0,), (1, 2), (3,)], [()] * 5, []))
    [0, 3, 4]
    """
    count = len(problem)
    beyond = [0] * (count + 1)  # the highest of the lowest followers of lower tasks
    for task in range(count):
        beyond[task + 1] = max(beyond[task], min(problem.followers[task], default=count))
    found = []
    behind = count  # the lowest of the highest needs of higher tasks
    for task in reversed(range(count)):
        if beyond[task] <= task <= behind:
            found.append(task)
        behind = min(behind, max(problem.needs[task], default=-1))
    return found[::-1]


def segments(problem: OrderProblem) -> list[range]:
    """Numbers of tasks, stretch by stretch: each ends with a cut, and all of it runs before the next one.

    Examples
    --------
    >>> segments(OrderProblem([(), (0,), (0,), (1, 2)], [()] * 4, []))
    [range(0, 1), range(1, 4)]
    """
    ends = [task + 1 for task in cuts(problem)]
    if not ends or ends[-1] < len(problem):
        ends.append(len(problem))
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]


def condensed(problem: OrderProblem) -> tuple[OrderProblem, list[int]]:
    """The problem of the tasks that use buffers, and their numbers: the others cost nothing, whenever they run.

    Examples
    --------
    >>> problem, tasks = condensed(OrderProblem([(), (0,), (1,)], [(0,), (), (0,)], [8]))
    >>> problem.needs, tasks
    ([[], [0]], [0, 2])
    """
    number: dict[int, int] = {}
    through: list[list[int]] = []  # for each task the tasks with buffers that it needs, looking through others
    tasks: list[int] = []
    for task, needed in enumerate(problem.needs):
        found = dict.fromkeys(n for one in needed for n in ([number[one]] if one in number else through[one]))
        through.append(list(found))
        if problem.uses[task]:
            number[task] = len(tasks)
            tasks.append(task)
    overwrites = {number[task]: pairs for task, pairs in problem.overwrites.items()}
    written = None if problem.written is None else [problem.written[task] for task in tasks]
    uses = [problem.uses[task] for task in tasks]
    small = OrderProblem([through[t] for t in tasks], uses, problem.sizes, problem.lasting, overwrites, written)
    return small, tasks


def coarsened(problem: OrderProblem, least: int) -> OrderProblem:
    """The problem of the buffers of `least` bytes or more. No order of it takes more than of the whole problem.

    So what is the least peak here is a lower bound there; and where small buffers are many, far fewer sets of tasks
    differ.

    Examples
    --------
    >>> coarsened(OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 64]), 10).uses
    [[], [1]]
    """
    sizes = [size if size >= least else 0 for size in problem.sizes]
    uses = [[b for b in used if sizes[b]] for used in problem.uses]
    over = {task: [pair for pair in pairs if sizes[pair[0]]] for task, pairs in problem.overwrites.items()}
    kept = {task: pairs for task, pairs in over.items() if pairs}
    return OrderProblem(problem.needs, uses, sizes, problem.lasting, kept, problem.written)


def expanded(problem: OrderProblem, tasks: Sequence[int]) -> list[int]:
    """An order of the tasks that use buffers with all the others: each as late as it may be.

    Examples
    --------
    >>> expanded(OrderProblem([(), (), (1,)], [(0,), (), (0,)], [8]), [0, 2])
    [0, 1, 2]
    """
    return operands_first(problem.needs, [*tasks, *problem.sinks])
