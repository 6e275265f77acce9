"""The joint choice: exact for few tasks, and a search that starts from the best that is known for many.

Exact is: the least load of all choices (`states`), which is placed exactly; where that takes more, because buffers
cannot lie without gaps, capacities in between are decided one by one (`placed_states`). What is proven is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.allocators.portfolio import TRIED, Portfolio
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.joint_choice.choice import Choice, Run, arena, cost
from nnc_func.engine.joint_choice.completion import completed
from nnc_func.engine.joint_choice.local_search import Walk
from nnc_func.engine.joint_choice.placed_states import OutOfStepsError, PlacedStates, unit_of
from nnc_func.engine.joint_choice.placement import exactly, placed
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.solution import Solution
from nnc_func.engine.joint_choice.states import LeastLoad
from nnc_func.engine.orders import DEFAULT, ORDERS
from nnc_func.engine.orders.base import OrderProblem, simulated_peak
from nnc_func.engine.orders.bounds import lower_bound
from nnc_func.engine.orders.quick import QUICK
from nnc_func.errors import PlanError

LARGEST = 80  # tasks, up to which all choices are searched: 60, and what is run again
PLACED = 600  # steps of exact search for the offsets of one sequence
PLACEMENTS = 8  # that are a step
FEWEST = 500  # steps in which a capacity is decided, if there are as many
SHARES = 4  # of the steps: states, local search, and capacities that are decided


@frozen
class JointSearch:
    """The smallest arena that so many `steps` find. Deterministic.

    A step is a state that is looked at, a placement, or a sequence that is tried: some 30 to 200 microseconds for 60
    tasks, and more for a sequence of more tasks.

    Raises
    ------
    PlanError
        There is no choice within the limit of costs.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> print(JointSearch().solved(JointProblem(tasks)))
    11 bytes, proven, 7 steps
    """

    steps: int = 20_000
    seed: int = 0

    def solved(self, problem: JointProblem, *starts: Sequence[int]) -> Solution:
        """The best choice, and what is proven.

        It is none worse than what is made of any of the sequences of tasks to start from, with the best kernels for it.
        """
        return _Search(problem, self.steps, self.seed, starts).solution()


def within_a_second(problem: Problem) -> Sequence[int]:
    """Places many buffers, by the default allocator."""
    return [*map(int, Portfolio(steps=TRIED)(problem))]


class _Search:
    """The best so far, and what is proven so far."""

    def __init__(self, problem: JointProblem, steps: int, seed: int, starts: Sequence[Sequence[int]]) -> None:
        self.problem, self.most, self.seed = problem, steps, seed
        self.small = len(problem) <= LARGEST
        self.place = exactly(PLACED) if self.small else within_a_second
        self.bound = floor(problem)
        self.steps = 0
        if problem.limit is not None and problem.least_cost > problem.limit:
            raise PlanError(
                f"no choice costs {problem.limit} or less: all tasks cost {problem.least_cost} at the least"
            )
        self.choice, self.nbytes = self._first(starts)
        self.loads = LeastLoad(problem, self.bound) if self.small else None

    def solution(self) -> Solution:
        """Loads first; then other sequences; then what is left to prove: loads again, or capacities."""
        share = self.most // SHARES
        known = self._find_least_load(share)
        if self.nbytes > self.bound:
            self._walk(share if self.small else self.most)
        if not known:
            known = self._find_least_load(self.most - self.steps)
        if self.small and known:
            self._decide()
        self._cheapen()
        return Solution(self.choice, self.nbytes, min(self.bound, self.nbytes), self.steps)

    def _find_least_load(self, steps: int) -> bool:
        """Whether the least load is known, by a search of so many steps."""
        if self.loads is None or self.nbytes <= self.bound:
            return True
        found = self.loads.run(steps, self.nbytes)
        self.steps += found.states
        self.bound = max(self.bound, found.bound)
        if found.runs is not None:
            self._place(found.runs)
        return found.runs is not None or found.bound >= self.nbytes

    def _first(self, starts: Sequence[Sequence[int]]) -> tuple[Choice, int]:
        """The best of what is given and the orders that take no time, with kernels that are the best for each."""
        problem = self.problem
        orders = [*starts, range(len(problem)), *(order(problem.tasks) for order in QUICK.values())]
        found = [each for order in orders if (each := completed(problem, order)) is not None]
        best = min(found, key=lambda each: each.peak)
        nbytes, choice = placed(problem, best.runs, self.place)
        return choice, nbytes

    def _take(self, nbytes: int, choice: Choice) -> None:
        if nbytes < self.nbytes:
            self.nbytes, self.choice = nbytes, choice

    def _place(self, runs: Sequence[Run]) -> None:
        self._take(*placed(self.problem, runs, self.place))

    def _walk(self, steps: int) -> None:
        walk = Walk(self.problem, [run.task for run in self.choice.runs], self.place, self.seed)
        found = walk.walk(steps, self.bound)
        self.steps += found.steps
        self._take(found.nbytes, found.choice)

    def _decide(self) -> None:
        """Ask for the bound, and for capacities half way between what is proven or out of reach and what is found."""
        unit, below = unit_of(self.problem), self.bound
        while self.bound < self.nbytes and self.steps < self.most:
            top = self.nbytes - unit
            at = below if below == self.bound else (below + top) // 2
            at = min(top, -(-at // unit) * unit)
            share = max((self.most - self.steps) // 2, min(FEWEST, self.most - self.steps))
            search = PlacedStates(self.problem, at, share * PLACEMENTS)
            try:
                choice = search.choice()
            except OutOfStepsError:
                choice, proven = None, False
            else:
                proven = choice is None
            self.steps += 1 + search.steps // PLACEMENTS
            if choice is not None:
                self._take(arena(self.problem, choice), choice)
            else:
                below = at + unit
                if proven and at >= self.bound:
                    self.bound = below
                if below >= self.nbytes:  # all have been asked for: once more, with what is left
                    below = self.bound

    def _cheapen(self) -> None:
        """Take the cheapest kernels that the bytes allow, where there are cheaper ones."""
        runs = self.choice.runs
        found = completed(self.problem, [run.task for run in runs], self.nbytes)
        if found is not None and found.cost < cost(self.problem, runs):
            nbytes, choice = placed(self.problem, found.runs, self.place)
            if nbytes <= self.nbytes:
                self.nbytes, self.choice = nbytes, choice


def separate(problem: JointProblem) -> Solution:
    """The chain of separate choices: an order for the usual kernels, then kernels for that order, then offsets.

    Nothing is run again. Orders are those that engines try by default.

    Examples
    --------
    >>> from nnc_func.engine.joint_choice.generators import network
    >>> problem = network(7, 20)
    >>> print(separate(problem), "-", JointSearch().solved(problem))
    2112 bytes, found, at least 1984, gap 6.5%, 0 steps - 1984 bytes, proven, 228 steps
    """
    tasks, scratch = problem.tasks, [offers[0].nbytes for offers in problem.offers]
    buffers = len(tasks.sizes)
    usual = OrderProblem(
        tasks.needs,
        [(*used, buffers + task) if scratch[task] else used for task, used in enumerate(tasks.uses)],
        [*tasks.sizes, *scratch],
        tasks.lasting,
        tasks.overwrites,
        tasks.written,
    )
    best: Sequence[int] = range(len(problem))
    for name in DEFAULT:
        improved = getattr(ORDERS[name], "improved", None)
        order = ORDERS[name](usual) if improved is None else improved(usual, best)
        if simulated_peak(usual, order) < simulated_peak(usual, best):
            best = order
    found = completed(problem, best)
    if found is None:
        raise PlanError(f"no choice costs {problem.limit} or less: all tasks cost {problem.least_cost} at the least")
    nbytes, choice = placed(problem, found.runs, within_a_second)
    return Solution(choice, nbytes, floor(problem), 0)


def floor(problem: JointProblem) -> int:
    """Bytes of the arena that no choice goes below: what one task needs, and of orders if nothing is run again.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> floor(JointProblem(tasks))
    10
    """
    tasks = problem.tasks
    alone = 0
    for task, used in enumerate(tasks.uses):
        over = sum(tasks.sizes[made] for made, _ in tasks.overwrites.get(task, ()))
        scratch = min(each.nbytes for each in problem.offers[task])
        alone = max(alone, sum(tasks.sizes[b] for b in used) - over + scratch)
    if not problem.again:
        alone = max(alone, lower_bound(tasks))
    return max(0, alone - problem.outside)
