"""The cheapest sequence within a budget, by constraint programming, for small problems; OR-Tools solves it.

Retention intervals: B. Bartan and others, MOCCASIN: Efficient Tensor Rematerialization for Neural Networks, ICML 2023.
Tasks keep the order of the base sequence, and each is run again only before a task that reads its result, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from attrs import frozen

from nnc_func.engine.rematerialising.greedy import greedy
from nnc_func.engine.rematerialising.problem import RematerialisationProblem, simulated
from nnc_func.errors import PlanError

SECONDS = 30.0
UNITS = 1 << 20  # into which the costs of the base sequence are divided: the solver counts in integers


@frozen(eq=False)
class Solution:
    """What a search found.

    Attributes
    ----------
    sequence
        The best answer.
    optimal
        Whether it is proven that none costs less, of those with so few runs of a task.
    bound
        No such answer costs less than this.
    """

    sequence: Sequence[int]
    optimal: bool
    bound: float


@frozen
class Optimal:
    """A strategy that searches for the cheapest sequence, from the greedy one on.

    Attributes
    ----------
    seconds
        Of the search, by the clock: what is found depends on the machine unless it is proven optimal.
    runs
        How often a task is run, at the most.
    workers
        Threads of the solver.

    Examples
    --------
    >>> Optimal(5.0).runs
    3
    """

    seconds: float = SECONDS
    runs: int = 3
    workers: int = 2

    def __call__(self, problem: RematerialisationProblem, budget: int) -> Sequence[int]:
        """The cheapest sequence that was found."""
        return self.solved(problem, budget).sequence

    def solved(self, problem: RematerialisationProblem, budget: int) -> Solution:
        """The cheapest sequence that was found, and what is proven of it.

        Raises
        ------
        PlanError
            OR-Tools is not installed.
        """
        if problem.base.peak <= budget:
            return Solution(problem.base.sequence, True, problem.base.cost)
        start = greedy(problem, budget)
        return _Model(_solver(), problem, budget, self.runs).solved(start, self.seconds, self.workers)


def optimal(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    """The cheapest sequence that is found in half a minute.

    Raises
    ------
    PlanError
        OR-Tools is not installed.

    Examples
    --------
    What fits as it is needs no search:

    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> [*optimal(layers(3), 100)]
    [0, 1, 2, 3, 4, 5]
    """
    return Optimal()(problem, budget)


def _solver() -> Any:
    try:
        return import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise PlanError("the strategy optimal wants OR-Tools: pip install nnc_func[exact]") from error


class _Model:
    """Intervals in which results are kept: their starts are runs of tasks, and their ends at or behind their readers.

    Time is counted in events: before each task of the base sequence, every earlier one may be run again, by number.
    """

    def __init__(self, cp: Any, problem: RematerialisationProblem, budget: int, runs: int) -> None:
        self.cp, self.problem, self.budget, self.runs = cp, problem, budget, runs
        self.model = cp.CpModel()
        self.end = _event(len(problem), 0)
        self.start: list[list[Any]] = []
        self.last: list[list[Any]] = []
        self.active: list[list[Any]] = []
        intervals, demands = [], []
        for task in range(len(problem)):
            self._define(task)
            for start, last, active in zip(self.start[task], self.last[task], self.active[task], strict=True):
                length = self.model.new_int_var(1, self.end + 1, "")
                intervals.append(self.model.new_optional_interval_var(start, length, last + 1, active, ""))
                demands.append(problem.sizes[task])
                if problem.scratch and problem.scratch[task]:
                    intervals.append(self.model.new_optional_interval_var(start, 1, start + 1, active, ""))
                    demands.append(problem.scratch[task])
        for task in range(len(problem)):
            for needed in dict.fromkeys(problem.needs[task]):
                for start, active in zip(self.start[task], self.active[task], strict=True):
                    self._covered(needed, start, active)
            if task in problem.lasting:
                self._covered(task, self.end, self.model.new_constant(1))
        self.model.add_cumulative(intervals, demands, budget)
        whole = problem.base.cost or 1
        self.cost = [max(1, round(UNITS * c / whole)) for c in problem.costs]
        self.model.minimize(sum(self.cost[t] * a for t, row in enumerate(self.active) for a in row[1:]))

    def _define(self, task: int) -> None:
        """The runs of a task, one after the other; the first one is where the base sequence has it."""
        model, users, stages = self.model, self.problem.users[task], range(task + 1, len(self.problem))
        first = _event(task, task)
        again = bool(users) and task not in self.problem.once
        events = self.cp.Domain.from_values([_event(stage, task) for stage in stages] or [first])
        starts, lasts, active = [first], [model.new_int_var(first, self.end, "")], [model.new_constant(1)]
        for _ in range(1, self.runs if again and stages else 1):
            start = model.new_int_var_from_domain(events, "")
            last, runs = model.new_int_var(first, self.end, ""), model.new_bool_var("")
            model.add(start > lasts[-1]).only_enforce_if(runs)
            model.add(last >= start)
            model.add_implication(runs, active[-1])
            starts.append(start)
            lasts.append(last)
            active.append(runs)
        self.start.append(starts)
        self.last.append(lasts)
        self.active.append(active)

    def _covered(self, needed: int, when: Any, active: Any) -> None:
        """A run that reads a result comes while that is kept."""
        model, choices = self.model, []
        for start, last, runs in zip(self.start[needed], self.last[needed], self.active[needed], strict=True):
            chosen = model.new_bool_var("")
            model.add_implication(chosen, runs)
            model.add(start < when).only_enforce_if(chosen)
            model.add(last >= when).only_enforce_if(chosen)
            choices.append(chosen)
        constraint = model.add_bool_or(choices)
        constraint.only_enforce_if(active)

    def solved(self, start: Sequence[int], seconds: float, workers: int) -> Solution:
        """The best of what is found and of what there was."""
        solver, problem = self.cp.CpSolver(), self.problem
        solver.parameters.catch_sigint_signal = False  # it would leave interrupts fatal to the process
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = workers
        state = solver.solve(self.model)
        had = simulated(problem, start)
        bound = problem.base.cost * (1 + solver.best_objective_bound / UNITS)
        if state not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            return Solution(start, False, problem.base.cost)
        events = sorted(
            (solver.value(s), task)
            for task, row in enumerate(self.start)
            for s, a in zip(row, self.active[task], strict=True)
            if solver.value(a)
        )
        sequence = [task for _, task in events]
        found = simulated(problem, sequence)
        if had.peak <= self.budget and had.cost <= found.cost:
            sequence = [*start]
        return Solution(sequence, state == self.cp.OPTIMAL, bound)


def _event(stage: int, task: int) -> int:
    return stage * (stage + 1) // 2 + task
