"""Several allocators, one after the other, until one needs no more than the lower bound: the best is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import FEATURES, Allocator, Problem, arena_size, eased, lower_bound
from nnc_func.engine.allocators.best_fit import in_order
from nnc_func.engine.allocators.deadlines import Deadline, pace
from nnc_func.engine.allocators.greedy import BUSIEST_FIRST, GREEDY_BY_BREADTH, GREEDY_BY_SIZE, Greedy
from nnc_func.engine.allocators.outward_fit import OutwardFit
from nnc_func.engine.allocators.placement.costs import of_node, of_order
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.locks import cached_property

if TYPE_CHECKING:
    from nnc_func.engine.allocators.exact.dives import DivedPlans
    from nnc_func.engine.allocators.local_search import RankSearch
    from nnc_func.engine.allocators.placement.costs import Costs
    from nnc_func.engine.allocators.placement.descents import Descents

SMALL = 1024  # buffers up to which orders are searched
CLIMBED = 128  # up to which orders of first fit are searched
ENOUGH = 1.005  # of the bound: what is left is not worth the slower ones
WORTH = 3  # steps a buffer from which on searches may spend them all
DIVE, DEEPER, DEEP = 1.75, 4.0, 16.0  # nodes a buffer of whether the bound does: at least, at most, and of a search
TRIED = 32  # orders of local search, where nobody says how many
SEARCHED = 1000.0  # microseconds a buffer that a small problem is worth, where nobody says how much
NEAR = 0.02  # above the bound: the bound itself is asked for again, not what lies half way
SHARE = 4  # a part of what is left of that: what a search has where others come after it
FEWEST = 4  # orders of first fit that hill climbing tries of many buffers
DIVES = 3  # nodes a buffer of some dives, at least
ALLOWANCE = ((20_000, 100_000, 1_000_000), (1.0, 5.0, 10.0))  # of so many buffers so many seconds, where nobody says
AFTER = 4  # a part of the seconds that are left: local search has no more where branch and bound comes after it
MOST = 0.98  # of the time that is left
HARDER = 8  # times as many steps where there are gaps, pins or several alignments
IN_ORDER = 3.0  # microseconds a buffer of best fit in the order of time, or outwards, in one direction
PARTLY = 14.0  # microseconds a buffer of branch and bound that has no time to place most, and of the others' descents
CHEAP = 5  # a part of the seconds: what takes more comes after branch and bound, which has plans in any case
BESIDE = 0.2  # of a descent: another one beside it, of few buffers
STARTED = 12.0  # microseconds a buffer until local search tries the first order of its own
ON_SKYLINE = 3.0  # microseconds a buffer of a dive on a skyline, at least: with a clock it ends
AROUND, PEAKS = 1000, 8  # of shaving the best plan


Plan = Sequence[int] | Integers


@frozen
class Attempt:
    """One member, asked of a problem with the best plan so far.

    Attributes
    ----------
    cost
        Microseconds, foretold.
    find
        Offsets; None: it has none.
    above
        It is asked where the arena is more than so many times the bound.
    """

    cost: float
    find: Callable[[Plan], Plan | None]
    above: float = 1.0


@frozen
class Portfolio:
    """Outward fit, best fit, lowest first, greedy ones, searches: whichever needs least, the first of equals.

    It stops at the lower bound. Each member's time is foretold from counts of buffers. One is asked if it has room in
    what is left of one second up to 20,000 buffers, of five for 100,000, and of ten for a million and more; where
    outward fit would leave none for lowest first, that comes first.
    With fewer than three steps a buffer, the slower ones are asked where the others waste more than 0.5 %. Up to 1,024
    buffers a short branch and bound asks whether the bound does. Then dives and local search have what is left of a
    millisecond a buffer; of more buffers hill climbing has what is left. Where `steps` says so, local search spends
    them instead, and where there are three a buffer or more, longer branches and bounds have a part of them, and all
    members are asked. With seconds dives on a skyline come first, or, where these do not know all that is said, all
    descents side by side; then outward fit and branch and bound, this one first where the others would take more than a
    fifth. Deterministic: it counts, and looks at the clock, and at how fast the machine is, only where `seconds` says
    so.

    Attributes
    ----------
    steps
        That searches may take, where all else leaves something to gain: orders that are tried, or buffers placed.
        None: as many as there is time for.
    seed
        Of the local search.
    seconds
        Of processor time: nobody is asked who would take longer than what is left, but for the first; None: no limit.
    worth
        Microseconds for each buffer that a hundredth of the bound is worth: nobody is asked who would take more, with
        what was spent before, than what there is to gain. An engine plans with 25, where the rest of a compilation
        takes some 100 a buffer; None: all that has room is worth it.

    Examples
    --------
    >>> Portfolio()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    steps: int | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)
    worth: float | None = field(default=None, kw_only=True)

    def __call__(self, problem: Problem) -> Plan:
        """The offsets, in bytes."""
        members, bound = _Members(problem, self), lower_bound(problem)
        best: Plan | None = None
        least = 0
        for attempt in members:
            if best is not None:
                if least <= attempt.above * bound or not members.have_room(attempt.cost):
                    continue
                if not members.are_worth(attempt.cost):
                    continue
            found = attempt.find([] if best is None else best)
            members.spent += attempt.cost
            if found is None:
                continue
            needed = arena_size(problem, found)
            if best is None or needed < least:
                best, least = found, needed
                members.excess = least / max(bound, 1) - 1
            if least <= bound:
                break
        assert best is not None
        return best


class _Members:
    """Whom a portfolio asks about one problem, one after the other, and what that has taken."""

    def __init__(self, problem: Problem, portfolio: Portfolio) -> None:
        self.problem, self.seed = problem, portfolio.seed
        self.steps = TRIED if portfolio.steps is None else portfolio.steps
        self.deadline, self.spent = Deadline(portfolio.seconds), 0.0
        self.pace = 1.0 if portfolio.seconds is None else pace()  # without a clock all machines are alike
        self.count, self.excess = len(problem), math.inf  # of the best plan above the bound, as a part of it
        self.chooses = portfolio.steps is None and portfolio.seconds is None
        self.worth = math.inf if portfolio.worth is None else portfolio.worth
        self.searches = self.steps >= WORTH * self.count
        self.hurries = self.searches and portfolio.seconds is not None
        self.seconds = math.inf if portfolio.seconds is None else portfolio.seconds
        self.allowance = math.inf if self.searches else 1e6 * float(np.interp(self.count, *ALLOWANCE))
        self.above = 1.0 if self.searches else ENOUGH
        self.is_plain = problem.pins is None and not problem.gaps and isinstance(problem.alignment, int)

    @cached_property
    def descents(self) -> Descents:
        """Descents in all orders; none is made where best fit is enough."""
        from nnc_func.engine.allocators.lowest_first import of_bytes

        return of_bytes(self.problem)

    @property
    def costs(self) -> Costs:
        """What members take."""
        return self.descents.costs

    @cached_property
    def node(self) -> float:
        """Microseconds of a buffer that branch and bound places: it looks at all that are alive at each time."""
        times = np.unique(np.concatenate((self.problem.lower, self.problem.upper)))
        return of_node(self.costs.alive * len(times))

    @property
    def is_on_skyline(self) -> bool:
        """Whether lives and sizes say all, and bytes have room in a descent."""
        return self.is_plain and self.problem.uses is None and self.descents.is_possible

    def have_room(self, cost: float) -> bool:
        """Whether a member of a cost may be asked yet."""
        return self.spent + cost <= self.allowance and cost * self.pace <= 1e6 * self.deadline.left

    def are_worth(self, cost: float) -> bool:
        """Whether one of a cost may be asked for what the best so far is above the bound."""
        return self.spent + cost <= 100 * self.excess * self.worth * self.count

    @property
    def room(self) -> float:
        """Microseconds that searches of few buffers may still take, where nobody says how many steps."""
        worth = min(SEARCHED, 100 * self.excess * self.worth) * self.count
        return min(self.allowance, worth) - self.spent

    def __iter__(self) -> Iterator[Attempt]:
        """What to try."""
        if self.count > SMALL and self._is_alone():
            yield self._lowest("TAW")
            yield from self._in_order()
        elif self.count <= SMALL and self.hurries:
            from nnc_func.engine.allocators.placement.descents import ORDERS

            first, *others = self._in_order()
            if self.is_on_skyline:
                yield self._on_skyline(*ORDERS)
                simple = [first]
            else:
                simple = [self._lowest(*ORDERS), first]
            late = [each for each in simple if self.is_plain and CHEAP * each.cost > 1e6 * self.seconds]
            yield from (each for each in simple if each not in late)
            yield self._dive(DEEP)
            yield from (*late, *others)
        else:
            yield from self._in_order()
            yield self._lowest("TAW")
        if self.count <= SMALL:
            yield from self._few()
        else:
            yield from self._many()
        if not self.is_plain:
            yield self._of(Greedy("spatio_temporal", "lowest"), self.costs.fit)
            yield Attempt(self.costs.fit, self._refitted)
        if self.count > SMALL:
            yield from self._of_many()
        elif self.searches:
            yield from self._exact()

    def _is_alone(self) -> bool:
        """Whether lowest first has room, but would have none after best fit."""
        return self.costs.descent <= self.allowance < self.costs.descent + sum(each.cost for each in self._in_order())

    def _of(self, allocator: Allocator, cost: float, above: float = 1.0) -> Attempt:
        """An allocator, asked of what it knows of the problem."""
        if self.is_plain:  # as it is
            return Attempt(cost, lambda best: allocator(self.problem), above)
        return Attempt(cost + self.costs.fit, lambda best: eased(allocator, self.problem), above)

    def _in_order(self) -> Iterator[Attempt]:
        """Best fit in the order of time, or away from a step."""
        if self.problem.uses is not None:
            yield self._of(GREEDY_BY_SIZE, self.costs.fit)
            return
        yield self._of(OutwardFit(), 2 * IN_ORDER * self.count)  # of training steps this most often meets the bound
        yield self._of(_forwards, IN_ORDER * self.count)

    def _lowest(self, *orders: str, above: float = 1.0) -> Attempt:
        """Lowest first in some orders, which of few buffers are tried side by side."""
        from nnc_func.engine.allocators.lowest_first import LowestFirst, lowest

        cost = self.costs.descent * (1 + BESIDE * (len(orders) - 1))
        if self.problem.pins is not None:
            return self._of(LowestFirst(orders=orders), cost, above)
        return Attempt(cost, lambda best: lowest(self.problem, self.descents, orders), above)

    def _on_skyline(self, *orders: str) -> Attempt:
        """Lowest first on a skyline, in some orders, one after the other while there is time."""
        from nnc_func.engine.allocators.lowest_first import dived

        def found(best: Plan) -> Plan:
            left = self.deadline.seconds
            return dived(self.problem, self.descents, orders, Deadline(None if left is None else left * MOST))

        return Attempt(ON_SKYLINE * self.count, found)

    def _few(self) -> Iterator[Attempt]:
        """Of so few buffers orders are searched."""
        from nnc_func.engine.allocators.hill_climb import HillClimb
        from nnc_func.engine.allocators.local_search import LocalSearch

        if self.searches and not self.hurries:
            yield self._dive(DEEP)
            yield self._lowest("WAT")
        if not self.hurries:
            yield self._lowest("TWA", above=self.above)
        if not self.searches:
            nodes = self.room / SHARE / (self.node * self.count) if self.chooses else DIVE
            yield self._dive(min(max(nodes, DIVE), DEEPER))
        if self.problem.uses is None:
            yield self._of(_backwards, IN_ORDER * self.count, self.above)
        if not self.is_plain:
            for greedy in (GREEDY_BY_SIZE, Greedy("size", "lowest"), Greedy("temporal", "lowest"), GREEDY_BY_BREADTH):
                yield self._of(greedy, self.costs.fit, self.above)
            yield self._of(BUSIEST_FIRST, self.costs.busiest, self.above)
            yield Attempt(self.costs.fit, self._refitted)
            if self.searches or self.count <= CLIMBED:
                steps, seconds = self._part()
                climbing = HillClimb(steps=steps * HARDER // 2, seed=self.seed, seconds=seconds)
                yield self._of(climbing, steps * HARDER // 2 * self.costs.fit, self.above)
        steps, seconds = self._part()
        if not self.is_plain and not self.searches:
            steps *= HARDER
        cost = STARTED * self.count if seconds is not None else steps * of_order(self.count)  # with a clock it ends
        if self.chooses and self.problem.pins is None:
            yield from self._race()
        else:
            yield self._of(LocalSearch(steps=steps, seed=self.seed, seconds=seconds), cost, self.above)

    def _race(self) -> Iterator[Attempt]:
        """Dives have a half of what is left, local search a quarter, and then whoever made the plan smaller last."""
        half = self.room / 2
        yield self._dive(half / (self.node * self.count)) if self.excess <= NEAR else self._dives(half)
        excess = self.excess
        yield self._local(self.room / 2)
        yield self._local(self.room) if self.excess < excess else self._dives(self.room)

    def _local(self, room: float) -> Attempt:
        """Local search for so many microseconds, from where it was."""

        def found(best: Plan) -> Plan | None:
            if self.ranks is None:
                return None
            self.ranks.run(steps, 0, Deadline(None))
            return self.ranks.plan()

        each = of_order(self.count)
        steps = max(int(room / each), TRIED)
        return Attempt(steps * each, found, self.above)

    @cached_property
    def ranks(self) -> RankSearch | None:
        """Local search; None where there is none of so many bytes."""
        from nnc_func.engine.allocators.local_search import RankSearch

        return RankSearch.of(self.problem, self.seed)

    def _dives(self, room: float) -> Attempt:
        """Dives for so many microseconds, from where they were."""

        def found(best: Plan) -> Plan | None:
            size, bound = arena_size(self.problem, best), lower_bound(self.problem)
            return self.dived.lowered(size, bound, steps, Deadline(None))[0]

        steps = max(int(room / self.node), DIVES * self.count)
        return Attempt(steps * self.node, found, self.above)

    @cached_property
    def dived(self) -> DivedPlans:
        """Dives, and their ranks so far."""
        from nnc_func.engine.allocators.exact.decision import without_windows
        from nnc_func.engine.allocators.exact.dives import DivedPlans

        return DivedPlans(without_windows(self.problem))

    def _part(self) -> tuple[int, float | None]:
        """Of the steps and seconds that are left, what a search may have that others may come after."""
        if not self.searches:
            return self.steps, self.deadline.seconds
        seconds = self.deadline.seconds
        if seconds is not None and self.have_room(self.node * self.count):  # for those that come after
            seconds /= AFTER
        return self.steps // 2, seconds

    def _dive(self, nodes: float) -> Attempt:
        """Whether the lower bound does, asked with so many nodes a buffer."""

        def found(best: Plan) -> Plan | None:
            from nnc_func.engine.allocators.exact.decision import Infeasible, decide, without_windows

            steps, left = int(nodes * self.count) + 1, self.deadline.seconds
            if self.searches:
                steps = min(steps, max(self.steps // 2, 1))
            seconds = left
            if left is not None:  # where that is more than it is likely to take, others may find more in it
                seconds = left * MOST if 1e6 * left < DEEP * self.node * self.count else left / SHARE
            problem = without_windows(self.problem)
            answer = decide(problem, lower_bound(problem), steps=steps, seconds=seconds)
            return None if isinstance(answer, Infeasible) else answer.offsets

        if self.is_on_skyline or not self.hurries:  # what comes first has a plan
            cost = self.node * (1 if self.searches else nodes)
        else:
            cost = PARTLY
        return Attempt(cost * self.count, found, self.above)

    def _exact(self) -> Iterator[Attempt]:
        """Branch and bound with what is left, from the best plan on."""

        def found(best: Plan) -> Plan:
            from nnc_func.engine.allocators.exact.decision import minimise, without_windows

            problem = without_windows(self.problem)
            steps = max(self.steps // 2, 1)
            return minimise(problem, steps=steps, seconds=self.deadline.seconds, start=best).offsets

        yield Attempt(self.node * self.count, found)

    def _many(self) -> Iterator[Attempt]:
        """Of many buffers orders are tried as long as they have room."""
        fit = self.costs.fit
        yield self._of(Greedy("size", "lowest"), fit, self.above)
        yield self._lowest("TWA", above=self.above)
        yield self._of(GREEDY_BY_BREADTH, fit, self.above)
        if self.problem.uses is None:
            yield self._of(_backwards, IN_ORDER * self.count, self.above)
        yield self._lowest("AWT", above=self.above)
        yield self._lowest("WAT", above=self.above)
        yield self._of(GREEDY_BY_SIZE, fit, self.above)
        yield self._of(BUSIEST_FIRST, self.costs.busiest, self.above)

    def _of_many(self) -> Iterator[Attempt]:
        """The best plan made better where it is worst."""
        if not self.is_plain or self.problem.uses is not None:
            return
        from nnc_func.engine.allocators.hill_climb import HillClimb
        from nnc_func.engine.allocators.peak_shaving import PeakShaving

        fit = self.costs.fit
        steps = int(min(self.room * (1 - 1 / SHARE) / fit, self.count)) if self.chooses else 0
        if steps >= FEWEST:
            yield self._of(HillClimb(steps=steps, seed=self.seed), steps * fit, self.above)
        cost = 2 * AROUND * fit / self.count  # of one peak
        peaks = self.steps if self.searches else min(PEAKS, max(1, int(self.room / cost)))
        yield Attempt(
            cost * min(peaks, PEAKS),
            lambda best: PeakShaving(enough=1.0, around=AROUND, steps=peaks, seconds=self.deadline.seconds).shaved(
                self.problem, best
            ),
            self.above,
        )

    def _refitted(self, best: Plan) -> Plan:
        """The best plan pushed down: first fit in the order of its offsets."""
        sizes = self.problem.sizes.tolist()
        return first_fit(self.problem, sorted(range(self.count), key=lambda i: (best[i], -sizes[i], i)))


def _forwards(problem: Problem) -> Sequence[int]:
    return in_order(problem.rounded, problem.lower, problem.upper)


def _backwards(problem: Problem) -> Sequence[int]:
    return in_order(problem.rounded, -problem.upper, -problem.lower)


PLANNING = Portfolio(worth=25.0)  # what engines plan with: the rest of a compilation takes some 100 µs a buffer
