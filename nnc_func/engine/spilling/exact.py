"""The fewest bytes moved, by constraint programming, for small problems; OR-Tools solves it."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from math import gcd
from typing import Any

from attrs import frozen

from nnc_func.engine.spilling.cover import Cover
from nnc_func.engine.spilling.problem import SpillProblem, simulated
from nnc_func.errors import PlanError

SECONDS = 30.0


@frozen(eq=False)
class Optimum:
    """What a search found.

    Attributes
    ----------
    dropped
        The gaps that the best answer spends in slow memory.
    optimal
        Whether it is proven that none moves less.
    bound
        No answer moves fewer bytes than this.
    """

    dropped: Collection[int]
    optimal: bool
    bound: int


@frozen
class Exact:
    """A policy that searches for the fewest bytes moved, from what `Cover` finds on.

    Attributes
    ----------
    seconds
        Of the search, by the clock: what is found depends on the machine unless it is proven optimal.
    workers
        Threads of the solver.

    Examples
    --------
    >>> Exact(5.0).workers
    1
    """

    seconds: float = SECONDS
    workers: int = 1

    def __call__(self, problem: SpillProblem, capacity: int) -> Collection[int]:
        """The best answer that was found."""
        return self.solved(problem, capacity).dropped

    def solved(self, problem: SpillProblem, capacity: int) -> Optimum:
        """The best answer that was found, and what is proven of it; where none fits, everything is moved.

        Each gap is a decision, and so is each value's being written to slow memory. A step reads: what lies there and
        what is kept beside it, less what is written over, has room.

        Raises
        ------
        PlanError
            OR-Tools is not installed.
        """
        begun = Cover()(problem, capacity)
        if problem.base.peak <= capacity or problem.least.peak > capacity:
            return Optimum(begun, True, simulated(problem, begun).moved)
        cp = _solver()
        model = cp.CpModel()
        gaps, sizes = problem.gaps, problem.sizes
        away = [model.new_bool_var("") for _ in gaps]
        written = {v: model.new_bool_var("") for v in {gap.value for gap in gaps} - problem.clean}
        for gap, out in zip(gaps, away, strict=True):
            if gap.value in written:
                model.add_implication(out, written[gap.value])
        saved = _overwriting(model, problem, away)
        unit = gcd(*sizes, *problem.scratch) or 1
        around: list[list[int]] = [[] for _ in range(len(problem))]
        for number, gap in enumerate(gaps):
            for step in range(gap.start + 1, gap.end):
                around[step].append(number)
        for step, load in enumerate(problem.loads):
            if load > capacity:
                spared = [sizes[gaps[n].value] // unit * away[n] for n in around[step]]
                spared += [sizes[made] // unit * over for made, over in saved.get(step, ())]
                model.add(sum(spared) >= -((capacity - load) // unit))
        fetched = [sizes[gap.value] // unit * out for gap, out in zip(gaps, away, strict=True)]
        model.minimize(sum(fetched) + sum(sizes[v] // unit * out for v, out in written.items()))
        first = frozenset(begun)
        for number, out in enumerate(away):
            model.add_hint(out, number in first)
        solver = cp.CpSolver()
        solver.parameters.catch_sigint_signal = False  # it would leave interrupts fatal to the process
        solver.parameters.max_time_in_seconds = self.seconds
        solver.parameters.num_workers = self.workers
        state = solver.solve(model)
        if state not in (cp.OPTIMAL, cp.FEASIBLE):
            return Optimum(begun, False, 0)
        dropped = frozenset(number for number, out in enumerate(away) if solver.value(out))
        if simulated(problem, begun).moved <= simulated(problem, dropped).moved:
            dropped = first
        return Optimum(dropped, state == cp.OPTIMAL, round(solver.best_objective_bound) * unit)


def exact(problem: SpillProblem, capacity: int) -> Collection[int]:
    """The fewest bytes moved that are found in half a minute.

    Raises
    ------
    PlanError
        OR-Tools is not installed.

    Examples
    --------
    What fits as it is needs no search:

    >>> [*exact(SpillProblem([8], [(0, 2)], [0] * 3), 8)]
    []
    """
    return Exact()(problem, capacity)


def _overwriting(model: Any, problem: SpillProblem, away: list[Any]) -> dict[int, list[tuple[int, Any]]]:
    """For each step the values that may be made over others, and whether they are: one over each, and each over one."""
    found: dict[int, list[tuple[int, Any]]] = {}
    for step, pairs in problem.overwrites.items():
        over: dict[int, list[Any]] = {}
        for made, homes in pairs:
            chosen = []
            for home in homes:
                gap, ends = problem.at.get((home, step)), problem.touches[home][-1] == step
                if problem.sizes[home] != problem.sizes[made] or home in problem.lasting or (gap is None and not ends):
                    continue
                chosen.append(model.new_bool_var(""))
                over.setdefault(home, []).append(chosen[-1])
                if gap is not None:
                    model.add_implication(chosen[-1], away[gap])
            if chosen:
                model.add_at_most_one(chosen)
                found.setdefault(step, []).extend((made, each) for each in chosen)
        for each in over.values():
            model.add_at_most_one(each)
    return found


def _solver() -> Any:
    try:
        return import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise PlanError("the policy exact wants OR-Tools: pip install nnc_func[exact]") from error
