"""A base sequence for computing again: what frees as much as it makes runs early, and what ends it is one task."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from nnc_func.engine.rematerialising.problem import RematerialisationProblem


def hastened(problem: RematerialisationProblem, late: int) -> list[int]:
    """The tasks in an order in which what frees at least the bytes it makes runs at once; ties by number. n log n.

    Gradients of weights are such tasks: behind all gradients of layers they would keep the whole tape alive until then,
    and what is computed again as well. Tasks from `late` on stay at the end, and the others in their order otherwise.

    Examples
    --------
    The second task makes much, the third reads the first one's result for the last time:

    >>> hastened(RematerialisationProblem([(), (0,), (0,), (1,)], [8, 8, 1, 1], [1] * 4), 4)
    [0, 1, 2, 3]
    >>> hastened(RematerialisationProblem([(), (), (0,)], [8, 8, 1], [1] * 3), 3)
    [0, 2, 1]
    """
    needs = [tuple(dict.fromkeys(n)) for n in problem.needs]
    missing = [len(n) for n in needs]
    unread = [len(u) + (t in problem.lasting) for t, u in enumerate(problem.users)]
    ran = [False] * len(problem)
    ready: list[int] = []
    order: list[int] = []

    def frees(task: int) -> bool:
        if ran[task] or missing[task] or task >= late or not needs[task]:
            return False
        return sum(problem.sizes[n] for n in needs[task] if unread[n] == 1) >= problem.sizes[task]

    def run(task: int) -> None:
        ran[task] = True
        order.append(task)
        changed = []
        for user in problem.users[task]:
            missing[user] -= 1
            changed.append(user)
        for needed in needs[task]:
            unread[needed] -= 1
            if unread[needed] == 1:
                changed += [u for u in problem.users[needed] if not ran[u]]
        for each in changed:
            if frees(each):
                heapq.heappush(ready, each)

    for task in range(len(problem)):
        if not ran[task]:
            run(task)
        while ready:
            soon = heapq.heappop(ready)
            if not ran[soon]:
                run(soon)
    return order


def reordered(problem: RematerialisationProblem, order: Sequence[int]) -> RematerialisationProblem:
    """The problem with its tasks numbered in that order.

    Examples
    --------
    >>> reordered(RematerialisationProblem([(), (), (0,)], [8, 9, 1], [1] * 3), [0, 2, 1]).needs
    [(), (0,), ()]
    """
    at = {task: number for number, task in enumerate(order)}
    return RematerialisationProblem(
        [tuple(at[n] for n in problem.needs[t]) for t in order],
        [problem.sizes[t] for t in order],
        [problem.costs[t] for t in order],
        [problem.scratch[t] for t in order] if problem.scratch else (),
        {at[t]: tuple(at[o] for o in over) for t, over in problem.overwrites.items()},
        frozenset(at[t] for t in problem.lasting),
        frozenset(at[t] for t in problem.once),
    )


def with_last(problem: RematerialisationProblem, start: int) -> RematerialisationProblem:
    """The problem in which the tasks from `start` on are one, which takes what they take where nothing runs again.

    All that they read is alive when it starts. What is alive while they run is known from there on: what is above the
    bytes that they read is its scratch memory, so that peaks are the same. Nothing reads its results.

    Examples
    --------
    >>> problem = RematerialisationProblem([(), (), (0,), (1, 2)], [8, 8, 4, 1], [1] * 4)
    >>> last = with_last(problem, 2)
    >>> last.needs, last.sizes, last.scratch, last.once
    ([(), (), (0, 1)], [8, 8, 0], [0, 0, 4], frozenset({2}))
    >>> problem.base.peak, last.base.peak
    (20, 20)
    """
    if start >= len(problem):
        return problem
    scratch = [*(problem.scratch or [0] * len(problem))]
    there = {n for needed in problem.needs[start:] for n in needed if n < start}
    read = sorted(there)
    sizes = [size if task >= start or task in there else 0 for task, size in enumerate(problem.sizes)]
    alone = RematerialisationProblem(
        problem.needs, sizes, problem.costs, scratch, problem.overwrites, problem.lasting, problem.once
    )
    most = max(alone.base.loads[start:])
    return RematerialisationProblem(
        [*problem.needs[:start], tuple(read)],
        [*problem.sizes[:start], 0],
        [*problem.costs[:start], sum(problem.costs[start:])],
        [*scratch[:start], most - sum(problem.sizes[n] for n in read)],
        {task: over for task, over in problem.overwrites.items() if task < start},
        frozenset(t for t in problem.lasting if t < start),
        frozenset({*(t for t in problem.once if t < start), start}),
    )
