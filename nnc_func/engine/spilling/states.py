"""The fewest bytes moved, by dynamic programming over what is in fast memory: exact, for problems of few values.

Behind each step a state says which values are kept until their next use, and which were written to slow memory. Of
equal states the one with the fewest bytes moved is kept; one that moves as much as an answer that is known is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from nnc_func.engine.spilling.cover import Cover
from nnc_func.engine.spilling.problem import SpillProblem, simulated
from nnc_func.errors import PlanError

MOST = 200_000  # states behind one step
State = tuple[frozenset[int], frozenset[int]]  # gaps in slow memory that are not over, values that were written there


def fewest(problem: SpillProblem, capacity: int, most: int = MOST) -> Collection[int]:
    """The gaps of the answer that moves least; all gaps where none fits.

    Raises
    ------
    PlanError
        There are more than so many states behind a step.

    Examples
    --------
    >>> problem = SpillProblem([8, 8, 16], [(0, 5), (1, 4), (2, 3)], [0] * 6)
    >>> simulated(problem, fewest(problem, 24)).moved
    16
    """
    known = Cover(rounds=0)(problem, capacity)
    if problem.base.peak <= capacity or problem.least.peak > capacity:
        return known
    best, gaps, sizes = simulated(problem, known).moved, problem.gaps, problem.sizes
    starting: dict[int, list[int]] = {}
    for number, gap in enumerate(gaps):
        starting.setdefault(gap.start, []).append(number)
    last = {gap.value: number for number, gap in enumerate(gaps)}
    states: dict[State, tuple[int, frozenset[int]]] = {(frozenset(), frozenset()): (0, frozenset())}
    for step, load in enumerate(problem.loads):
        behind: dict[State, tuple[int, frozenset[int]]] = {}
        for (away, written), (moved, dropped) in states.items():
            away = frozenset(number for number in away if gaps[number].end > step)
            rest = load - sum(sizes[gaps[number].value] for number in away)
            for more in _subsets(starting.get(step, ())):
                if rest - problem.saved(step, more) > capacity:
                    continue
                fresh = {gaps[number].value for number in more} - written - problem.clean
                total = moved + sum(map(problem.costs.__getitem__, more)) + sum(map(sizes.__getitem__, fresh))
                if total >= best:
                    continue
                open_values = frozenset(v for v in written | fresh if gaps[last[v]].start > step)
                state = away | more, open_values
                if state not in behind or total < behind[state][0]:
                    behind[state] = total, dropped | more
        if len(behind) > most:
            raise PlanError(f"{len(behind)} states behind step {step}, of {most}: ask the policy exact")
        states = behind
    return min(states.values(), key=lambda found: found[0])[1] if states else known


def _subsets(numbers: Collection[int]) -> Iterator[frozenset[int]]:
    for count in range(len(numbers) + 1):
        yield from map(frozenset, combinations(numbers, count))
