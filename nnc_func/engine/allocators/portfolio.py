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

SMALL, LARGE = 1024, 30_000  # buffers up to which orders are searched; and more than one pass is made
ENOUGH = 1.01  # of the bound: of more than `SMALL` buffers, what is left is not worth what looking costs
TOLERATED = 1.15  # of the bound, of more than `LARGE` buffers


@frozen
class Portfolio:
    """Best fit, lowest first, greedy by size, local search: whichever needs least, the first of equals.

    It stops at the lower bound. Lowest first is tried up to 30,000 buffers, the search up to 1,024. Deterministic:
    it counts steps, and looks at the clock only where `seconds` says so.

    Attributes
    ----------
    steps
        Orders that the local search tries, where all else leaves something to gain.
    seed
        Of that search.
    seconds
        The search stops after so long, whatever the steps; None: never.

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
        best: Sequence[int] = BestFit()(problem)
        least = arena_size(problem, best)
        for attempt in self._attempts(len(problem)):
            if least <= bound or (len(problem) > LARGE and least <= TOLERATED * bound):
                break
            found = attempt(problem)
            needed = arena_size(problem, found)
            if needed < least:
                best, least = found, needed
            if len(problem) > SMALL and least <= ENOUGH * bound:
                break
        return best

    def _attempts(self, count: int) -> Iterator[Callable[[Problem], Sequence[int]]]:
        from nnc_func.engine.allocators.local_search import LocalSearch
        from nnc_func.engine.allocators.lowest_first import LowestFirst

        if count <= SMALL:
            yield LowestFirst()
        elif count <= LARGE:
            yield LowestFirst(orders=("TWA",))
        yield lambda problem: first_fit(problem, by_size(problem).tolist())
        if count <= LARGE:
            yield lambda problem: tightest_fit(problem, by_size(problem).tolist())
        if count <= SMALL and self.steps:
            yield LocalSearch(steps=self.steps, seed=self.seed, seconds=self.seconds)


def by_size(problem: Problem) -> Integers:
    """The largest first; buffers of one size by the start of their lives, then by index."""
    return np.lexsort((problem.lower, -problem.rounded))
