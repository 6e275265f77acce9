"""When values are brought back: early enough that nobody waits for them, where there is room, and no earlier.

Bytes moved are the same. Fetches use one link, in the order in which they are wanted; so from the last one on, each
begins when it must so as to end when the next one begins, or when its step does, whichever is first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from nnc_func.engine.spilling.problem import Movement, SpillProblem


def prefetched(
    problem: SpillProblem, movement: Movement, capacity: int, seconds: Sequence[float], fetching: Mapping[int, float]
) -> dict[int, int]:
    """For each gap in slow memory the step before which its value is brought back.

    Parameters
    ----------
    problem, movement
        What is moved.
    capacity
        Bytes of fast memory.
    seconds
        That each step takes.
    fetching
        For each of the gaps, the seconds that bringing its value back takes.

    Examples
    --------
    The value is there again when step 5 starts; it takes as long as two steps:

    >>> problem = SpillProblem([8, 8, 16], [(0, 5), (1, 4), (2, 3)], [0] * 6)
    >>> from nnc_func.engine.spilling.problem import simulated
    >>> prefetched(problem, simulated(problem, [0]), 24, [1.0] * 6, {0: 1.0}), problem.gaps[0]
    ({0: 4}, Gap(value=0, start=0, end=5))
    """
    gaps, loads = problem.gaps, [*movement.loads]
    starts = [0.0, *accumulate(seconds)]  # of each step, where nobody waits
    link, found = starts[-1], dict[int, int]()
    for number in sorted(movement.dropped, key=lambda n: (gaps[n].end, gaps[n].start, n), reverse=True):
        value, start, end = gaps[number]
        link = min(link, starts[end]) - fetching[number]
        wanted = max(start + 1, bisect_right(starts, link) - 1)
        step = end
        while step > wanted and loads[step - 1] + problem.sizes[value] <= capacity:
            step -= 1
            loads[step] += problem.sizes[value]
        found[number] = step
    return found
