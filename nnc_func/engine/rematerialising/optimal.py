"""The cheapest sequence within a budget, by constraint programming, for small problems; OR-Tools solves it.

Retention intervals: B. Bartan and others, MOCCASIN: Efficient Tensor Rematerialization for Neural Networks, ICML 2023.
Tasks are first run in the order of the greedy answer, at which the search begins, and each is run again only before a
task that reads its result, as there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from attrs import evolve, frozen

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
    """A strategy that searches for the cheapest sequence, from the greedy one on; or for the least peak, if none fits.

    Attributes
    ----------
    seconds
        Of each of the two searches, by the clock: what is found depends on the machine unless it is proven optimal.
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
        """The cheapest sequence that was found, and what is proven of it; where none fits, the one of the least peak.

        Raises
        ------
        PlanError
            OR-Tools is not installed.
        """
        if problem.base.peak <= budget:
            return Solution(problem.base.sequence, True, problem.base.cost)
        solver, start = _solver(), greedy(problem, budget)
        order = [*dict.fromkeys(start)]
        number = {task: at for at, task in enumerate(order)}
        renumbered, begun = _renumbered(problem, order, number), [number[task] for task in start]
        model = _Model(solver, renumbered, budget, self.runs)
        model.begin(begun)
        found = model.solved(begun, self.seconds, self.workers)
        if simulated(renumbered, found.sequence).peak > budget:
            model = _Model(solver, renumbered, None, self.runs)
            model.begin(begun)
            found = model.solved(begun, self.seconds, self.workers)
        return evolve(found, sequence=[order[task] for task in found.sequence])


def _renumbered(
    problem: RematerialisationProblem, order: Sequence[int], number: Mapping[int, int]
) -> RematerialisationProblem:
    """The problem in another order of its tasks, in which each comes behind what it needs."""
    return RematerialisationProblem(
        [[number[needed] for needed in problem.needs[task]] for task in order],
        [problem.sizes[task] for task in order],
        [problem.costs[task] for task in order],
        [problem.scratch[task] for task in order] if problem.scratch else (),
        {number[task]: [number[each] for each in over] for task, over in problem.overwrites.items()},
        frozenset(number[task] for task in problem.lasting),
        frozenset(number[task] for task in problem.once),
    )


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
    Where a run writes over what it reads, that ends where the run starts. Without a budget, the peak is minimised.
    """

    def __init__(self, cp: Any, problem: RematerialisationProblem, budget: int | None, runs: int) -> None:
        self.cp, self.problem, self.budget, self.runs = cp, problem, budget, runs
        self.hinted = problem.base.peak
        self.model = cp.CpModel()
        self.end = _event(len(problem), 0)
        self.start: list[list[Any]] = []
        self.last: list[list[Any]] = []
        self.active: list[list[Any]] = []
        self.over: dict[tuple[int, int], list[tuple[tuple[int, int], Any]]] = {}  # of a run: by which run
        self.read: list[tuple[int, tuple[int, int] | None, list[Any]]] = []  # what, by which run, of which run of it
        self.span: dict[tuple[int, int], tuple[Any, Any]] = {}  # of a run: for how long its result is kept, until when
        for task in range(len(problem)):
            self._define(task)
        for task in problem.overwrites:
            self._overwritten(task)
        intervals, demands = [], []
        for task in range(len(problem)):
            for run, (start, active) in enumerate(zip(self.start[task], self.active[task], strict=True)):
                length, end = self.model.new_int_var(1, self.end + 1, ""), self._ended(task, run)
                self.span[task, run] = length, end
                intervals.append(self.model.new_optional_interval_var(start, length, end, active, ""))
                demands.append(problem.sizes[task])
                if problem.scratch and problem.scratch[task]:
                    intervals.append(self.model.new_optional_interval_var(start, 1, start + 1, active, ""))
                    demands.append(problem.scratch[task])
        for task in range(len(problem)):
            for needed in dict.fromkeys(problem.needs[task]):
                for run, (start, active) in enumerate(zip(self.start[task], self.active[task], strict=True)):
                    self.read.append((needed, (task, run), self._covered(needed, start, active)))
            if task in problem.lasting:
                self.read.append((task, None, self._covered(task, self.end, self.model.new_constant(1))))
        whole = problem.base.cost or 1
        self.cost = [max(1, round(UNITS * c / whole)) for c in problem.costs]
        self.peak = self.model.new_int_var(problem.floor, max(problem.floor, problem.base.peak), "")
        self.model.add_cumulative(intervals, demands, self.peak if budget is None else budget)
        if budget is None:
            self.model.minimize(self.peak)
            return
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

    def _overwritten(self, task: int) -> None:
        """Runs of a task that may write over what they read: one result each, and each result once."""
        model, sizes = self.model, self.problem.sizes
        for by, (start, active) in enumerate(zip(self.start[task], self.active[task], strict=True)):
            chosen = []
            for home in dict.fromkeys(self.problem.overwrites[task]):
                for run in range(len(self.start[home]) if sizes[home] == sizes[task] else 0):
                    over = model.new_bool_var("")
                    model.add_implication(over, active)
                    model.add_implication(over, self.active[home][run])
                    model.add(self.last[home][run] == start).only_enforce_if(over)
                    self.over.setdefault((home, run), []).append(((task, by), over))
                    chosen.append(over)
            model.add_at_most_one(chosen)

    def _ended(self, task: int, run: int) -> Any:
        """The event before which a result lets go of its memory."""
        model, last = self.model, self.last[task][run]
        over = [each for _, each in self.over.get((task, run), ())]
        if not over:
            return last + 1
        model.add_at_most_one(over)
        end = model.new_int_var(0, self.end + 1, "")
        model.add(end + sum(over) == last + 1)
        return end

    def _covered(self, needed: int, when: Any, active: Any) -> list[Any]:
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
        return choices

    def begin(self, sequence: Sequence[int]) -> None:
        """Let the search begin at a sequence whose tasks are first run by number."""
        self.hinted = simulated(self.problem, sequence).peak
        starts = [[_event(task, task)] for task in range(len(self.problem))]
        stage = 0
        for task in sequence:
            event = _event(stage, task)
            if event > starts[task][-1]:
                starts[task].append(event)
            stage += task == stage
        lasts = [[*events] for events in starts]
        for event, task in sorted((event, task) for task, events in enumerate(starts) for event in events):
            for needed in self.problem.needs[task]:
                lasts[needed][bisect_left(starts[needed], event) - 1] = event
        for task in self.problem.lasting:
            lasts[task][-1] = self.end
        self._hint(starts, lasts)

    def _hint(self, starts: list[list[int]], lasts: list[list[int]]) -> None:
        """Values of all variables, of each task's runs and when their results are last read."""
        hint, begins = self.model.add_hint, {(t, r): e for t, events in enumerate(starts) for r, e in enumerate(events)}
        ends = {(t, r): e for t, events in enumerate(lasts) for r, e in enumerate(events)}
        over: dict[tuple[int, int], tuple[int, int]] = {}  # a run -> the one that writes over its result
        for home, each in self.over.items():
            for by, _ in each:
                if home not in over and by not in over.values() and ends.get(home, -1) == begins.get(by):
                    over[home] = by
            for by, chosen in each:
                hint(chosen, over.get(home) == by)
        hint(self.peak, self.hinted)
        for (task, run), (length, end) in self.span.items():
            at = begins.get((task, run), _event(task + 1, task))
            last = ends.get((task, run), at)
            until = last + 1 - ((task, run) in over)
            if run:
                hint(self.active[task][run], (task, run) in begins)
                hint(self.start[task][run], at)
            hint(self.last[task][run], last)
            hint(length, until - at)
            if (task, run) in self.over:
                hint(end, until)
        for needed, reader, choices in self.read:
            when = self.end if reader is None else begins.get(reader, -1)
            latest = bisect_left(starts[needed], when) - 1
            for run, chosen in enumerate(choices):
                hint(chosen, run == latest)

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
        proven = state == self.cp.OPTIMAL
        if self.budget is None:
            return Solution(sequence if found.peak < had.peak else [*start], proven, problem.base.cost)
        if had.peak <= self.budget and had.cost <= found.cost:
            sequence = [*start]
        return Solution(sequence, proven, bound)


def _event(stage: int, task: int) -> int:
    return stage * (stage + 1) // 2 + task
