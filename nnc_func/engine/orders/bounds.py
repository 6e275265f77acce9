"""What no order goes below."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from nnc_func.engine.orders.base import OrderProblem

WIDTH = 4096  # buffers that are looked at together: memory is tasks times so many bits


def bound_at(problem: OrderProblem, task: int) -> int:
    """The least bytes that are alive while a task runs, whatever the order. Linear.

    Those are what it uses, and what a task that comes before it in any order uses as well as one that comes behind it.
    At a task that all others are before or behind, that is all that is alive.

    Examples
    --------
    The first two tasks' buffers are both alive while the third one runs, which uses neither:

    >>> bound_at(OrderProblem([(), (0,), (1,), (2,)], [(0,), (1,), (2,), (0, 1)], [8, 4, 2]), 2)
    14
    """
    uses = problem.uses
    before = bytearray(task + 1)
    before[task] = 1
    begun: set[int] = set()
    for one in range(task, -1, -1):
        if before[one]:
            begun.update(uses[one])
            for needed in problem.needs[one]:
                before[needed] = 1
    behind = {task}
    wanted = set(problem.lasting)
    for one in range(task + 1, len(problem)):
        if not behind.isdisjoint(problem.needs[one]):
            behind.add(one)
            wanted.update(uses[one])
    alive = sum([problem.sizes[b] for b in (begun & wanted).union(uses[task])])
    return alive - _spared(problem, task, wanted)


def _spared(problem: OrderProblem, task: int, wanted: Collection[int]) -> int:
    """The most bytes that a task may write over others that nobody else has `wanted` by then."""
    pairs = problem.overwrites.get(task, ())
    return sum(problem.sizes[made] for made, others in pairs if any(b not in wanted for b in others))


def lower_bound(problem: OrderProblem) -> int:
    """The most of all tasks' `bound_at`: the max load of the partial order. Time: tasks times buffers by machine words.

    Examples
    --------
    >>> lower_bound(OrderProblem([(), (0,), (1,), (2,)], [(0,), (1,), (2,), (0, 1)], [8, 4, 2]))
    14
    """
    passing = [0] * len(problem)
    extra: dict[int, set[int]] = {task: set() for task in problem.overwrites}  # candidates that are wanted further on
    for start in range(0, len(problem.sizes), WIDTH):
        sizes = np.array(problem.sizes[start : start + WIDTH], np.int64 if sum(problem.sizes) < 1 << 63 else object)
        used = [sum(1 << b - start for b in each if start <= b < start + WIDTH) for each in problem.uses]
        behind = _behind(problem, used, start)
        before: list[int] = []
        for task, needed in enumerate(problem.needs):
            alive = 0
            for one in needed:
                alive |= before[one]
            before.append(alive | used[task])
            passing[task] += int(sizes[_chosen(alive & behind[task] | used[task], len(sizes))].sum())
            if task in extra:
                extra[task].update(b + start for b in _bits(used[task] & behind[task]))
    return max((n - _spared(problem, task, extra.get(task, ())) for task, n in enumerate(passing)), default=0)


def _behind(problem: OrderProblem, used: list[int], start: int) -> list[int]:
    """For each task the buffers that are used by tasks behind it in any order, or last."""
    lasting = sum(1 << b - start for b in set(problem.lasting) if start <= b < start + WIDTH)
    found = [lasting] * len(used)
    for task in reversed(range(len(used))):
        for one in problem.needs[task]:
            found[one] |= found[task] | used[task]
    return found


def _chosen(mask: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    packed = np.frombuffer(mask.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
