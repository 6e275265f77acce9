"""What is wanted furthest away leaves first, whenever a step has no room.

Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal, 1966; of values of
several sizes that is no longer the best. Of those wanted equally far the largest leaves.
"""

from __future__ import annotations

from collections.abc import Collection

from nnc_func.engine.spilling.problem import SpillProblem


def furthest(problem: SpillProblem, capacity: int) -> Collection[int]:
    """Step by step, the gaps that end last of those around a step, until it has room.

    Examples
    --------
    >>> problem = SpillProblem([8, 8, 16], [(0, 5), (1, 4), (2, 3)], [0] * 6)
    >>> furthest(problem, 24)
    {0}
    """
    gaps, sizes = problem.gaps, problem.sizes
    starting: dict[int, list[int]] = {}
    for number, gap in enumerate(gaps):
        starting.setdefault(gap.start, []).append(number)
    dropped: set[int] = set()
    around: list[int] = []  # gaps that are open at the step, and spent in fast memory
    gone = 0
    leaving: dict[int, int] = {}  # step at which a value is back -> bytes
    for step, load in enumerate(problem.loads):
        gone -= leaving.pop(step, 0)
        around = [number for number in around if gaps[number].end > step]
        high = load - gone - problem.saved(step, dropped)
        while high > capacity and around:
            worst = max(around, key=lambda number: (gaps[number].end, sizes[gaps[number].value], -number))
            around.remove(worst)
            dropped.add(worst)
            size = sizes[gaps[worst].value]
            gone, high = gone + size, high - size
            leaving[gaps[worst].end] = leaving.get(gaps[worst].end, 0) + size
        begun = starting.get(step, ())
        if high > capacity:  # what is read here may be written over, if it is brought back later
            for number in begun:
                before = problem.saved(step, dropped)
                if high > capacity and problem.saved(step, dropped | {number}) > before:
                    dropped.add(number)
                    size = sizes[gaps[number].value]
                    high -= problem.saved(step, dropped) - before
                    if gaps[number].end > step + 1:
                        gone += size
                        leaving[gaps[number].end] = leaving.get(gaps[number].end, 0) + size
        around += [number for number in begun if number not in dropped]
    return dropped
