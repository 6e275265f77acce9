"""Ready lists: of the tasks whose operands are there one is chosen, again and again, by what is known of it then."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.progress import Progress


def as_written(problem: OrderProblem) -> list[int]:
    """By rank in the program, as far as needs allow; ties by number. n log n.

    So an eager engine runs them, and so whoever reads a trace expects them.

    Examples
    --------
    >>> as_written(OrderProblem([(), (), (0,)], [()] * 3, [], written=[5, 4, 3]))
    [1, 0, 2]
    """
    written = range(len(problem)) if problem.written is None else problem.written
    return by_rank(problem, written.__getitem__)


def breadth_first(problem: OrderProblem) -> list[int]:
    """First in, first out; what becomes ready together goes by number. Linear.

    Level by level: whole levels stay alive, so that others are measured against it; it wins where levels shrink.
    Source: Kahn, "Topological sorting of large networks", 1962.

    Examples
    --------
    >>> breadth_first(OrderProblem([(), (), (0,), (1,)], [()] * 4, []))
    [0, 1, 2, 3]
    """
    missing = [len(needed) for needed in problem.needs]
    order = [task for task, count in enumerate(missing) if not count]
    for task in order:  # which grows
        for follower in problem.followers[task]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    return order


def by_predecessors(problem: OrderProblem) -> list[int]:
    """By the sorted positions of what a ready task needs, compared one by one; ties by number. n log n.

    What was computed longest ago is used first. Source: the breadth-first order of PyTorch's Inductor (memory.py).

    Examples
    --------
    >>> by_predecessors(OrderProblem([(), (), (1,), (0,)], [()] * 4, []))
    [0, 1, 3, 2]
    """
    at: dict[int, int] = {}
    ready: list[tuple[list[int], int]] = [([], task) for task, needed in enumerate(problem.needs) if not needed]
    missing = [len(needed) for needed in problem.needs]
    order: list[int] = []
    while ready:
        task = heapq.heappop(ready)[1]
        at[task] = len(order)
        order.append(task)
        for follower in problem.followers[task]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (sorted(at[one] for one in problem.needs[follower]), follower))
    return order


def list_scheduling(problem: OrderProblem) -> list[int]:
    """Of the ready tasks the one that frees most bytes beyond those that it defines; ties: most followers, number.

    Source: XLA's ListScheduler (hlo_memory_scheduler.cc). A greedy choice cannot be right always: XLA's own comment
    gives A→{B⇒C, D, E}→F⇒G, C→G, where this puts B off because its result is large, and F comes before it.

    What it overwrites it defines and frees. m log m for m uses of buffers: what a task grows by changes when another
    one is the first to use a buffer of its, and when it is left as the last.

    Examples
    --------
    >>> list_scheduling(OrderProblem([(), (), (0,), (1,)], [(0,), (1,), (0,), (1,)], [8, 4]))
    [1, 3, 0, 2]
    """
    uses, users, sizes, followers = problem.uses, problem.users, problem.sizes, problem.followers
    left = problem.counts.copy()
    grows = [sum([sizes[b] for b in used if left[b] > 1]) for used in uses]
    rest = [sum(each) for each in users]  # of the tasks that have still to use a buffer: the last one's own number
    lasting = set(problem.lasting)
    begun = bytearray(len(sizes))
    missing = [len(needed) for needed in problem.needs]
    heap = [(grows[task], -len(followers[task]), task) for task, count in enumerate(missing) if not count]
    heapq.heapify(heap)
    order: list[int] = []
    done = bytearray(len(uses))
    while heap:
        grown, _, task = heapq.heappop(heap)
        if done[task] or grown != grows[task]:
            continue
        done[task] = 1
        order.append(task)
        changed: list[int] = []
        for buffer in uses[task]:
            rest[buffer] -= task
            left[buffer] -= 1
            if not begun[buffer]:
                begun[buffer] = 1
                for user in users[buffer]:
                    grows[user] -= sizes[buffer]
                changed += users[buffer]
            if left[buffer] == 1 and buffer not in lasting:
                grows[rest[buffer]] -= sizes[buffer]
                changed.append(rest[buffer])
        for follower in followers[task]:
            missing[follower] -= 1
            if not missing[follower]:
                changed.append(follower)
        for one in dict.fromkeys(changed):
            if not missing[one] and not done[one]:
                heapq.heappush(heap, (grows[one], -len(followers[one]), one))
    return order


def least_peak(problem: OrderProblem) -> list[int]:
    """Of the ready tasks that raise no peak so far the one after which least is alive; else what raises it least.

    Source: LPMF, least peak memory first, of PyTorch's Inductor (memory.py), where what it frees is that of the task it
    chose. (Inductor's own subtracts what the last task that it looked at would have freed.)

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
