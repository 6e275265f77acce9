"""List scheduling: XLA's ListScheduler (hlo_memory_scheduler.cc).

A greedy choice cannot be right always. XLA's own comment gives A→{B⇒C, D, E}→F⇒G, C→G, where this puts B off because
its result is large, and F comes before it.
"""

from __future__ import annotations

import heapq

from nnc_func.engine.orders.base import OrderProblem


def list_scheduling(problem: OrderProblem) -> list[int]:
    """Of the ready tasks the one that frees most bytes beyond those that it defines; ties: most followers, number.

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
