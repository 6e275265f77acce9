"""Level by level: what is ready first runs first (Kahn, "Topological sorting of large networks", 1962).

It keeps whole levels alive, so that it is what others are measured against; it wins where levels shrink.
"""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem


def breadth_first(problem: OrderProblem) -> list[int]:
    """First in, first out; what becomes ready together goes by number. Linear.

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
