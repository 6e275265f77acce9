"""Several allocators, one after the other, until one needs no more than the lower bound: the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from attrs import field, frozen

from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.allocators.best_fit import in_order
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE, Greedy
from nnc_func.engine.allocators.outward_fit import OutwardFit

SMALL, LARGE = 1024, 30_000  # buffers up to which orders are searched; and lowest first is tried
ENOUGH = 1.01  # of the bound: what is left is not worth the slower ones
WORTH = 3  # steps a buffer from which on searches may spend them all

Attempt = Callable[[Problem], Sequence[int]]


@frozen
class Portfolio:
    """Outward fit, best fit, lowest first, greedy by size, searches: whichever needs least, the first of equals.

    It stops at the lower bound; with fewer than three steps a buffer, when outward fit, best fit and one lowest first
    waste no more than 1 %. Up to 1,024 buffers a local search spends the steps; where there are three a buffer or
    more, a branch and bound has the first half of them. Up to 30,000 greedy by size comes last; of more buffers, it is
    peak shaving alone. Deterministic: it counts steps, and looks at the clock only where `seconds` says so.

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
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    steps: int = field(default=32, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        bound = problem.max_load
        best: Sequence[int] | None = None
        least = 0
        for above, attempt in self._attempts(problem):
            if best is not None and least <= above * bound:
                continue
            found = attempt(problem)
            needed = arena_size(problem, found)
            if best is None or needed < least:
                best, least = found, needed
            if least <= bound:
                break
        assert best is not None
        return best

    def _attempts(self, problem: Problem) -> Iterator[tuple[float, Attempt]]:
        """What to try, each where the arena is more than so many times the bound."""
        count = len(problem)
        if count > LARGE:
            from nnc_func.engine.allocators.peak_shaving import PeakShaving

            yield 1.0, PeakShaving()
            return
        from nnc_func.engine.allocators.lowest_first import LowestFirst

        if problem.uses is None:
            yield 1.0, OutwardFit()  # of training steps this most often answers with the bound
            yield 1.0, lambda problem: in_order(problem.rounded, problem.lower, problem.upper)
        else:
            yield 1.0, GREEDY_BY_SIZE
        yield 1.0, LowestFirst(orders=("TAW",))
        above = 1.0 if self.steps >= WORTH * count else ENOUGH
        yield above, LowestFirst(orders=("TWA",))
        if problem.uses is None:
            yield above, lambda problem: in_order(problem.rounded, -problem.upper, -problem.lower)
        if count <= SMALL:
            for search in self._searches(count):
                yield above, search
        else:
            yield ENOUGH, Greedy("size", "lowest")
            yield ENOUGH, GREEDY_BY_SIZE

    def _searches(self, count: int) -> Iterator[Attempt]:
        from nnc_func.engine.allocators.branch_and_bound import BranchAndBound
        from nnc_func.engine.allocators.local_search import LocalSearch
        from nnc_func.engine.allocators.lowest_first import LowestFirst

        steps, seconds = self.steps, self.seconds
        if steps >= WORTH * count:
            steps, seconds = steps // 2, seconds and seconds / 2
            yield LowestFirst(orders=("WAT",))
            yield BranchAndBound(steps, seconds)
        yield LocalSearch(steps=steps, seed=self.seed, seconds=seconds)
