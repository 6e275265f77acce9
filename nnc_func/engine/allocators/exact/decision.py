"""Exact answers about a problem: whether a capacity does, the least arena, and which buffers are to blame if none does.

What was not found within a budget is kept apart from what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from nnc_func.engine.allocators.base import arena_size, lower_bound
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.completion import REST, Completion
from nnc_func.engine.allocators.exact.conflicts import conflicts
from nnc_func.engine.allocators.exact.dives import DivedPlans
from nnc_func.engine.allocators.exact.ranking import Ranking, by_rank
from nnc_func.engine.allocators.exact.search import Search, fewest_candidates, least_slack, lowest_floor
from nnc_func.engine.allocators.local_search import RankSearch
from nnc_func.engine.allocators.placement.costs import of_node, of_order
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.allocators.problems.reductions import by_space, merged
from nnc_func.errors import PlanError

FIRST = 1  # of the turns of exact searches: before it local search has none
DIVE = 16  # nodes for each buffer that the first question may take, of whether the lower bound does
DIVES = 8  # nodes for each buffer that are left, or were spent in vain, from which on dives are tried
LOCALLY = 4  # times the microseconds of a turn that local search may take in it
START = 10  # the part of a budget that local search has before all else
STEPS = 100_000  # of a search, if nothing is said: half a minute or so for a few hundred buffers
HURRIED = (lowest_floor, "TWA")  # where time is over before all have a place: what is in the way of others comes last
PORTFOLIO = (
    (least_slack, "TWA"),
    (lowest_floor, "WAT"),
    (fewest_candidates, "TWA"),
    (least_slack, "WAT"),
)


@frozen
class Feasible:
    """There is a plan within the capacity: one offset a buffer, in bytes; and how many nodes it took to find it."""

    offsets: tuple[int, ...]
    nodes: int


@frozen
class Infeasible:
    """There is no plan within the capacity: a proof, of so many nodes."""

    nodes: int


@frozen
class OutOfBudget:
    """Neither a plan nor a proof was found with so many nodes.

    Attributes
    ----------
    offsets
        The smallest plan above the capacity that came of it, one offset a buffer, in bytes; None: none did.
    """

    nodes: int
    offsets: tuple[int, ...] | None = field(default=None, repr=False, eq=False)


Decision = Feasible | Infeasible | OutOfBudget
Decide = Callable[..., Decision]


@frozen
class Result:
    """The smallest plan that was found.

    Attributes
    ----------
    offsets
        One a buffer, in bytes.
    size
        Bytes of the arena.
    lower_bound
        No plan is smaller.
    proven
        Whether there is no gap between the two.
    nodes
        Of all searches together.
    """

    offsets: tuple[int, ...]
    size: int
    lower_bound: int
    proven: bool
    nodes: int


@frozen
class InfeasibleSubset:
    """Buffers that have no room in the capacity, while all but any one of them have.

    Attributes
    ----------
    buffers
        Their numbers, ascending.
    lower, upper
        The steps in which they are alive, half open, from the first to the last.
    irreducible
        False: the budget did not do to find out of each buffer whether it is needed.
    words
        The same in one sentence.
    """

    buffers: tuple[int, ...]
    lower: int
    upper: int
    irreducible: bool
    words: str


def decide(problem: Problem, capacity: int, *, steps: int = STEPS, seconds: float | None = None) -> Decision:
    """Whether there is a plan of at most `capacity` bytes, in each space.

    Five searches take turns, with twice as many steps each time, as the first of them that ends answers the question:
    four exact ones, and local search, which finds plans that these would take long to come to, and proves nothing.
    The answer depends on nothing but the arguments, unless `seconds` are given. Pins, gaps, alignments, groups and
    streams are handled; bytes of a buffer that stay alive in a gap are not.

    Parameters
    ----------
    steps
        How many buffers may be placed in all, and orders be tried by local search; the best of a problem need as many
        as there are buffers.
    seconds
        Of processor time.

    Raises
    ------
    PlanError
        A gap with a window; a capacity below zero; or more than 4,096 buffers in one space.

    Examples
    --------
    >>> problem = Problem([2, 1, 2, 1], [0, 1, 2, 0], [2, 3, 3, 1], alignment=1)
    >>> decide(problem, 3)
    Feasible(offsets=(0, 2, 0, 2), nodes=4)
    >>> decide(problem, 2)
    Infeasible(nodes=0)
    """
    if capacity < 0:
        raise PlanError(f"wanted a capacity of zero bytes or more, given {capacity}")
    offsets, nodes = np.zeros(len(problem), np.int64), 0
    deadline, known, complete = Deadline(seconds), True, True
    for buffers, part in by_space(problem):
        reduced = merged(part)
        rest = Completion(conflicts(reduced.problem))
        found, used = _searched(rest, reduced.problem, capacity, steps - nodes, deadline)
        nodes += used
        if found is False:
            return Infeasible(nodes)
        if found is None:
            known = False
            if rest.offsets is not None:
                found = rest.conflicts.in_bytes(reduced.problem, rest.offsets)
        if found is None:
            complete = False
        else:
            offsets[buffers] = np.asarray(found)[reduced.stands_for]
    plan = tuple(offsets.tolist())
    return Feasible(plan, nodes) if known else OutOfBudget(nodes, plan if complete else None)


def _searched(
    rest: Completion, problem: Problem, capacity: int, steps: int, deadline: Deadline
) -> tuple[Integers | bool | None, int]:
    """Offsets in bytes, or as of a search; and the nodes."""
    known = rest.conflicts
    if lower_bound(problem) > capacity:
        return False, 0
    if not len(known):
        return known.in_bytes(problem, known.sizes), 0
    limit, nodes = 2 * len(known) + 64, 0  # the first one is often right at once, or goes wrong early
    node = of_node(int(known.alive.sum()))
    hurries = deadline.left < 1e-6 * len(known) * node
    orders = min(1.0, LOCALLY * node / of_order(len(known)))  # that local search may try for each node of a turn
    rankings: dict[str, Ranking] = {}
    local: RankSearch | None = None
    turn = 0
    while True:
        choose, order = HURRIED if hurries else PORTFOLIO[turn % len(PORTFOLIO)]
        if order not in rankings:
            rankings[order] = Ranking(known, capacity // known.unit, by_rank(known, order))
        search = Search(rankings[order], choose, REST)
        most = min(limit, steps - nodes)
        found = search.run(most, rest.before(deadline))
        nodes += search.nodes
        if found is False:
            return False, nodes
        if not isinstance(found, bool) and found is not None:
            return known.in_bytes(problem, found), nodes
        rest.place(search)
        if search.nodes < most:  # time is over, but for the descents
            return None, nodes
        if turn == FIRST:
            local = _local_search(problem)
        if local is not None and turn % len(PORTFOLIO) == FIRST:
            nodes += local.run(min(int(orders * limit), steps - nodes), capacity, deadline)
            if local.best <= capacity:
                return np.asarray(local.plan(), np.int64), nodes
        if nodes >= steps or deadline.is_over:
            return None, nodes
        turn += 1
        limit = 3 * limit if turn == 1 else limit * (1 + (turn % len(PORTFOLIO) == 0))


def _local_search(problem: Problem) -> RankSearch | None:
    """That of a problem; None where it has what local search does not know."""
    pinned = problem.pins is not None and bool((problem.pins != FREE).any())
    if pinned or problem.gaps or not isinstance(problem.alignment, int):
        return None
    return RankSearch.of(problem, 0)


def minimise(
    problem: Problem,
    *,
    steps: int = STEPS,
    seconds: float | None = None,
    decide: Decide = decide,
    start: Sequence[int] | Integers | None = None,
) -> Result:
    """The smallest plan that is found, and whether none is smaller.

    It asks `decide` for the lower bound first, where the search is narrowest, with a part of the budget. Then it starts
    from what local search finds with a tenth, and, where the bound was asked for in vain, dives with half of the rest.
    It asks for the bound again and for what lies between: half way after a proof or a plan, and with twice the budget
    from the bound on when all capacities have been asked for. What is asked in vain is spent on dives once more.

    Parameters
    ----------
    steps, seconds
        As of `decide`, for all capacities together.
    decide
        Who answers: a function like `decide`, such as that of `cp_sat`.
    start
        A plan to start from, offsets in bytes: then the first two are left out, as if in vain.

    Examples
    --------
    >>> minimise(Problem([2, 1, 2, 1], [0, 1, 2, 0], [2, 3, 3, 1], alignment=1)).size
    3
    """
    spaces = [
        _Ladder(part, decide, None if start is None else tuple([int(start[i]) for i in buffers])).climb(steps, seconds)
        for buffers, part in by_space(problem)
    ]
    offsets = np.zeros(len(problem), np.int64)
    for (buffers, _), found in zip(by_space(problem), spaces, strict=True):
        offsets[buffers] = found.offsets
    return Result(
        tuple(offsets.tolist()),
        sum(found.size for found in spaces),
        sum(found.lower_bound for found in spaces),
        all(found.proven for found in spaces),
        sum(found.nodes for found in spaces),
    )


class _Ladder:
    """Capacities of one space between what is proven and what was found."""

    def __init__(self, problem: Problem, decide: Decide, start: tuple[int, ...] | None) -> None:
        self.problem, self.decide, self.is_new = problem, decide, start is None
        self.lower = lower_bound(problem)
        self.offsets = _first(problem) if start is None else start
        self.size = arena_size(problem, list(self.offsets))
        self.nodes = 0
        self.plans: DivedPlans | None = None

    def climb(self, steps: int, seconds: float | None) -> Result:
        deadline, is_hard = Deadline(seconds), not self.is_new  # whoever has a plan has asked for the bound
        if self.is_new and self.lower < self.size and not deadline.is_over:
            most = min(max(steps // 2, 1), DIVE * len(self.problem) + 64)
            found = self._ask(self.lower, most, None if seconds is None else max(deadline.left, 0.0) / 2)
            is_hard = isinstance(found, OutOfBudget)
        if self.is_new and self.lower < self.size and not deadline.is_over:
            self._search_locally(steps // START, Deadline(None if seconds is None else deadline.left / START))
        if is_hard and steps - self.nodes >= DIVES * len(self.problem):
            self._dive((steps - self.nodes) // 2, Deadline(None if seconds is None else deadline.left / 2))
        share, below, asked = max(steps // 2, 1), self.lower, False
        while self.lower < self.size and self.nodes < steps and not deadline.is_over:
            left = None if seconds is None else max(deadline.left, 0.0) / 2
            at = below if below == self.lower and not asked else (below + self.size - 1) // 2
            asked, before = True, self.nodes
            found = self._ask(at, min(share, steps - self.nodes), left)
            if isinstance(found, OutOfBudget) and self.nodes - before >= DIVES * len(self.problem):
                rest = Deadline(None if seconds is None else max(deadline.left, 0.0) / 2)
                self._dive(min(self.nodes - before, steps - self.nodes), rest)
            if not isinstance(found, Feasible):
                below = at + 1
                if self.lower < below and self.size - below <= self.size // 1000:
                    share, below = 2 * share, self.lower
        return Result(self.offsets, self.size, self.lower, self.lower >= self.size, self.nodes)

    def _ask(self, capacity: int, steps: int, seconds: float | None) -> Decision:
        """Whether a capacity does; what that says of the least one."""
        found = self.decide(self.problem, capacity, steps=steps, seconds=seconds)
        self.nodes += max(found.nodes, 1)
        if isinstance(found, Feasible):
            self.offsets, self.size = found.offsets, arena_size(self.problem, list(found.offsets))
        elif isinstance(found, Infeasible):
            self.lower = capacity + 1
        elif found.offsets is not None and (size := arena_size(self.problem, list(found.offsets))) < self.size:
            self.offsets, self.size = found.offsets, size
        return found

    def _dive(self, steps: int, deadline: Deadline) -> None:
        """Look for smaller plans by dives, of which ranks are kept from one time to the next."""
        if self.decide is not decide or self.lower >= self.size:
            return
        self.plans = self.plans or DivedPlans(self.problem)
        plan, nodes = self.plans.lowered(self.size, self.lower, steps, deadline)
        self.nodes += nodes
        if plan is not None and (needed := arena_size(self.problem, plan)) < self.size:
            self.offsets, self.size = tuple(plan), needed

    def _search_locally(self, steps: int, deadline: Deadline) -> None:
        """Start from what local search finds, where it takes less."""
        reduced = merged(self.problem)
        search = _local_search(reduced.problem)
        if search is not None:
            self.nodes += search.run(steps, self.lower, deadline)
            if search.best < self.size:
                plan = search.plan()
                self.offsets = tuple([plan[i] for i in reduced.stands_for.tolist()])
                self.size = arena_size(self.problem, list(self.offsets))


def _first(problem: Problem) -> tuple[int, ...]:
    """The smallest of the plans by first fit in a few orders."""
    reduced = merged(problem)
    part = reduced.problem
    sizes, lives, n = part.sizes.astype(float), part.upper - part.lower, np.arange(len(part))
    orders = [(-sizes,), (-lives, -sizes), (-sizes * lives,), (part.lower, -sizes)]
    plans = [first_fit(part, np.lexsort((n, *reversed(keys))).tolist()) for keys in orders]
    best = min(plans, key=lambda plan: arena_size(part, plan))
    return tuple(best[i] for i in reduced.stands_for.tolist())


def infeasible_subset(
    problem: Problem, capacity: int, *, steps: int = STEPS, seconds: float | None = None, decide: Decide = decide
) -> InfeasibleSubset:
    """An irreducible infeasible subset: buffers that have no room together, though they have without any one of them.

    By deletion: each buffer in turn is left out for good if the others have no room either. Whole spans of time go
    first.

    Parameters
    ----------
    steps, seconds
        As of `decide`, for each time that it is asked.
    decide
        Who answers.

    Raises
    ------
    PlanError
        All buffers have room, or it is not known whether they have.

    Examples
    --------
    >>> problem = Problem([2, 2, 1], [0, 1, 5], [2, 3, 6], alignment=1, names=["a", "b", "c"])
    >>> infeasible_subset(problem, 3).words
    "'a', 'b' have no room in 3 bytes: they are alive in steps [0, 3), and without any one of them there is room"
    """

    def decided(buffers: Integers) -> Decision:
        return decide(problem.of(buffers), capacity, steps=steps, seconds=seconds)

    kept = np.arange(len(problem))
    found = decided(kept)
    if not isinstance(found, Infeasible):
        can = "there is a plan" if isinstance(found, Feasible) else f"not known after {found.nodes} nodes"
        raise PlanError(f"wanted a capacity that is proven too small, given {capacity} bytes: {can}")
    certain = True
    for chunk in _chunks(problem):
        without = kept[~np.isin(kept, chunk)]
        if len(without) == len(kept):
            continue
        found = decided(without)
        if isinstance(found, Infeasible):
            kept = without
        elif len(chunk) == 1:
            certain &= isinstance(found, Feasible)
    lower, upper = int(problem.lower[kept].min()), int(problem.upper[kept].max())
    why = "without any one of them there is room" if certain else "not all of them may be needed"
    words = (
        f"{', '.join(map(problem.name, kept.tolist()))} have no room in {capacity} bytes: "
        f"they are alive in steps [{lower}, {upper}), and {why}"
    )
    return InfeasibleSubset(tuple(kept.tolist()), lower, upper, certain, words)


def _chunks(problem: Problem) -> Iterator[Integers]:
    """What to leave out: halves by time, quarters, and so on, then buffers, those that take least first."""
    by_time = np.lexsort((problem.upper, problem.lower))
    count = 2
    while count < len(problem):
        yield from np.array_split(by_time, count)
        count *= 2
    areas: list[Any] = list(problem.areas)
    for i in sorted(range(len(problem)), key=lambda i: (areas[i], i)):
        yield np.array([i])


def without_windows(problem: Problem) -> Problem:
    """The problem in which buffers of which some bytes are alive in a gap are alive as a whole there."""
    return evolve(problem, gaps=[gap for gap in problem.gaps if gap.window is None])
