"""Several allocators, one after the other, until one needs no more than the lower bound: the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.allocators.best_fit import BestFit
from nnc_func.engine.allocators.converting import Integers
from nnc_func.engine.allocators.fitting import first_fit, tightest_fit

SMALL, LARGE = 1024, 30_000  # buffers up to which orders are searched; and lowest first is tried
ENOUGH = 1.01  # of the bound, of more than `SMALL` buffers: what is left is not worth the slower ones

Attempt = Callable[[Problem], Sequence[int]]


@frozen
class Portfolio:
    """Best fit, lowest first, greedy by size, searches: whichever needs least, the first of equals.

    It stops at the lower bound. Up to 1,024 buffers a local search spends the steps; where there are three a buffer or
    more, a branch and bound has the first half of them. Up to 30,000 lowest first is tried in two orders, then greedy
    by size, if more than 1 % is wasted; of more, it is peak shaving alone. Deterministic: it counts steps, and looks
    at the clock only where `seconds` says so.

    Attributes
    ----------
    steps
        That searches may take, where all else leaves something to gain: orders that are tried, or buffers placed.
    seed
        Of the local search.
    seconds
        The searches stop after so long, whatever the steps; None: never.

    Examples
    --------
    >>> Portfolio()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [0, 64, 0]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    steps: int = field(default=32, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        bound = problem.max_load
        best = self._first(len(problem))(problem)
        least = arena_size(problem, best)
        for above, attempt in self._attempts(len(problem)):
            if least <= bound:
                break
            if least <= above * bound:
                continue
            found = attempt(problem)
            needed = arena_size(problem, found)
            if needed < least:
                best, least = found, needed
        return best

    def _first(self, count: int) -> Attempt:
        if count <= LARGE:
            return BestFit()
        from nnc_func.engine.allocators.peak_shaving import PeakShaving

        return PeakShaving()

    def _attempts(self, count: int) -> Iterator[tuple[float, Attempt]]:
        """What else to try, each where the arena is more than so many times the bound."""
        from nnc_func.engine.allocators.lowest_first import LowestFirst

        if count <= SMALL:
            for search in self._searches(count):
                yield 1.0, search
        elif count <= LARGE:
            for order in ("TAW", "TWA"):
                yield 1.0, LowestFirst(orders=(order,))
            yield ENOUGH, lambda problem: first_fit(problem, by_size(problem).tolist())
            yield ENOUGH, lambda problem: tightest_fit(problem, by_size(problem).tolist())

    def _searches(self, count: int) -> Iterator[Attempt]:
        from nnc_func.engine.allocators.branch_and_bound import BranchAndBound
        from nnc_func.engine.allocators.local_search import LocalSearch
        from nnc_func.engine.allocators.lowest_first import LowestFirst

        steps, seconds = self.steps, self.seconds
        if steps >= 3 * count:
            steps, seconds = steps // 2, seconds and seconds / 2
            yield LowestFirst()
            yield BranchAndBound(steps, seconds)
        yield LocalSearch(steps=steps, seed=self.seed, seconds=seconds)


def by_size(problem: Problem) -> Integers:
    """The largest first; buffers of one size by the start of their lives, then by index."""
    return np.lexsort((problem.lower, -problem.rounded))
