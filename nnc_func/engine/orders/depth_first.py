"""Depth-first orders: operands before their users, one wanted task after another.

They differ in which operands and which roots go first. Each is linear, or n log n where it sorts.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.engine.orders.base import OrderProblem


def depth_first(problem: OrderProblem) -> range:
    """By number: the engine numbers tasks depth-first, from the first result that is wanted to the last.

    So a recursive evaluator comes to them, and most compilers.

    Examples
    --------
    >>> depth_first(OrderProblem([(), (0,), ()], [()] * 3, []))
    range(0, 3)
    """
    return range(len(problem))


def post_order(problem: OrderProblem) -> list[int]:
    """By number the last tasks, and their operands in the order of `needs`. Linear.

    Source: XLA's PostOrderScheduler (hlo_memory_scheduler.cc).

    Examples
    --------
    >>> post_order(OrderProblem([(), (), (0,), (1,)], [()] * 4, []))
    [0, 2, 1, 3]
    """
    return operands_first(problem.needs, problem.sinks)


def by_size(problem: OrderProblem) -> list[int]:
    """Every task is a root in its turn: least bytes used first, ties by number; operands by number. n log n.

    Source: the depth-first order of PyTorch's Inductor (memory.py).

    Examples
    --------
    >>> by_size(OrderProblem([(), (), (0,)], [(0,), (1,), (0,)], [8, 4]))
    [1, 0, 2]
    """
    used = [sum(problem.sizes[buffer] for buffer in each) for each in problem.uses]
    return operands_first(problem.needs, sorted(range(len(problem)), key=lambda task: (used[task], task)))


def by_users(problem: OrderProblem) -> list[int]:
    """Operands go by the followers beyond one of all that is before them, then by its bytes, both most first.

    Source: XLA's DFSMemoryScheduler (hlo_memory_scheduler.cc).

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


def sethi_ullman(problem: OrderProblem) -> list[int]:
    """Operands go by the peak of what is before them less the bytes that they leave, most first; ties by number.

    Optimal among the depth-first orders of a tree: Liu, "On the storage requirement in the out-of-core multifrontal
    method", ACM Transactions on Mathematical Software 12, 1986; for equal sizes Sethi and Ullman, "The generation of
    optimal code for arithmetic expressions", JACM 17, 1970. Graphs are taken for trees: what two tasks need counts for
    both.

    So do the tasks that no other needs. Linear, but for sorting the operands of a task.

    Examples
    --------
    A large detour first, and then what leaves more than it needs:

    >>> needs, uses = [(), (), (1,), (0, 2)], [(0,), (1,), (1, 2), (0, 2)]
    >>> sethi_ullman(OrderProblem(needs, uses, [4, 16, 4]))
    [1, 2, 0, 3]
    """
    leaves = first_uses(problem)
    kept = [sum(problem.sizes[b] for b in used if b in problem.lasting) for used in problem.uses]
    peaks = [0] * len(problem)
    needs: list[list[int]] = []

    def gain(task: int) -> tuple[int, int]:
        return leaves[task] - peaks[task], task

    for task, needed in enumerate(problem.needs):
        needs.append(sorted(needed, key=gain))
        held = peak = 0
        for one in needs[-1]:
            peak = max(peak, held + peaks[one])
            held += leaves[one]
        peaks[task] = max(peak, held + leaves[task])
        if not problem.followers[task]:
            leaves[task] = kept[task]
    return operands_first(needs, sorted(problem.sinks, key=gain))


def operands_first(needs: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    """The roots one after another, each behind what it needs, in the order given there; each task once.

    Examples
    --------
    >>> operands_first([(), (), (1, 0)], [2])
    [1, 0, 2]
    """
    order: list[int] = []
    seen = bytearray(len(needs))
    for root in roots:
        if seen[root]:
            continue
        seen[root] = 1
        stack = [(root, iter(needs[root]))]
        while stack:
            task, rest = stack[-1]
            for one in rest:
                if not seen[one]:
                    seen[one] = 1
                    if needs[one]:
                        stack.append((one, iter(needs[one])))
                        break
                    order.append(one)
            else:
                order.append(task)
                stack.pop()
    return order
