"""The same questions answered by OR-tools' CP-SAT: rectangles of time and bytes that do not overlap.

It needs ``pip install nnc_func[exact]``. One worker and a fixed seed, so that answers within a deterministic budget are
the same everywhere.
"""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact import decision
from nnc_func.engine.allocators.exact.decision import Decision, Feasible, Infeasible, OutOfBudget, minimise
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.allocators.problems.reductions import by_space, merged
from nnc_func.errors import PlanError

STEP = 1e-3  # of CP-SAT's deterministic time, which is near a second on the machines it was fitted to


def solver_module() -> Any:
    """OR-tools' module of CP-SAT.

    Raises
    ------
    PlanError
        It is not installed.
    """
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise PlanError(f"cp_sat needs OR-tools: pip install 'nnc_func[exact]' ({error})") from error


def decide(problem: Problem, capacity: int, *, steps: int = 60_000, seconds: float | None = None) -> Decision:
    """Whether there is a plan of at most `capacity` bytes, in each space, as `decision.decide`; windows are handled.

    Parameters
    ----------
    steps
        Thousandths of a unit of CP-SAT's deterministic time, near a millisecond each.
    seconds
        Of wall-clock time.

    Raises
    ------
    PlanError
        OR-tools is not installed; streams that run side by side, which it does not handle; a capacity below zero.
    """
    if problem.uses is not None:
        raise PlanError(
            "cp_sat takes lifetimes of one order, given uses by streams: widen the problem, or use `decide`"
        )
    if capacity < 0:
        raise PlanError(f"wanted a capacity of zero bytes or more, given {capacity}")
    offsets, nodes, known = np.zeros(len(problem), np.int64), 0, True
    for buffers, part in by_space(problem):
        reduced = merged(part)
        found = _solved(reduced.problem, capacity, steps, seconds)
        nodes += found.nodes
        if isinstance(found, Infeasible):
            return Infeasible(nodes)
        if isinstance(found, Feasible):
            offsets[buffers] = np.array(found.offsets, np.int64)[reduced.stands_for]
        known &= isinstance(found, Feasible)
    return Feasible(tuple(offsets.tolist()), nodes) if known else OutOfBudget(nodes)


def _solved(problem: Problem, capacity: int, steps: int, seconds: float | None) -> Decision:
    cp = solver_module()
    pins = np.full(len(problem), FREE) if problem.pins is None else problem.pins
    ends = problem.rounded + np.maximum(pins, 0)
    if (ends > capacity).any():
        return Infeasible(0)
    model, (unit, grid) = cp.CpModel(), _grid(problem)
    offsets = []
    for i, (end, step, pin) in enumerate(zip(ends.tolist(), grid.tolist(), pins.tolist(), strict=True)):
        most = (capacity - end) // step
        offset = model.new_int_var(0, most, f"o{i}") * (step // unit) if pin == FREE else pin // unit
        offsets.append(offset)
    _apart(model, problem, offsets, unit)
    solver = cp.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave interrupts fatal to the process
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_deterministic_time = steps * STEP
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status == cp.INFEASIBLE:
        return Infeasible(solver.num_branches)
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        return OutOfBudget(solver.num_branches)
    return Feasible(tuple(solver.value(o) * unit for o in offsets), solver.num_branches)


def _grid(problem: Problem) -> tuple[int, Integers]:
    """The unit of all, in bytes, and of what the offset of each buffer is a multiple."""
    pieces, steps = problem.pieces, problem.alignments
    given = [problem.rounded, pieces.low, pieces.high, *([] if problem.pins is None else [problem.pins])]
    unit = int(np.gcd.reduce(np.maximum(np.concatenate(given), 0))) or 1
    if not (unit % steps).any():
        return unit, np.full(len(problem), unit)
    return int(np.gcd.reduce(np.append(steps, unit))), steps


def _apart(model: Any, problem: Problem, offsets: list[Any], unit: int) -> None:
    """Pieces that are alive together do not overlap."""
    pieces = problem.pieces
    times = np.unique(np.concatenate((pieces.lower, pieces.upper)))
    begins, ends = np.searchsorted(times, pieces.lower), np.searchsorted(times, pieces.upper)
    lows, highs = pieces.low // unit, pieces.high // unit
    columns = (pieces.buffer, begins, ends, lows, highs)
    across, along = [], []
    for k, (b, begin, end, low, high) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if low < high:
            across.append(model.new_fixed_size_interval_var(begin, end - begin, f"x{k}"))
            along.append(model.new_fixed_size_interval_var(offsets[b] + low, high - low, f"y{k}"))
    model.add_no_overlap_2d(across, along)


def race(problem: Problem, capacity: int, *, steps: int = 60_000, seconds: float | None = None) -> Decision:
    """The first answer of `decision.decide` and of `decide`, which take turns with twice the budget each time.

    Parameters
    ----------
    steps
        For each of the two, in its own steps.
    seconds
        Of processor time, for both together; of the clock on the wall within CP-SAT.
    """
    deadline, nodes, budget = Deadline(seconds), 0, 1000
    while True:
        for answer in (decision.decide, decide):
            found = answer(problem, capacity, steps=min(budget, steps), seconds=deadline.seconds)
            nodes += found.nodes
            if isinstance(found, Feasible):
                return Feasible(found.offsets, nodes)
            if isinstance(found, Infeasible):
                return Infeasible(nodes)
        if budget >= steps or deadline.is_over:
            return OutOfBudget(nodes)
        budget *= 4


@frozen
class CpSat:
    """Search by CP-SAT for the smallest plan from the lower bound on.

    Attributes
    ----------
    steps
        Of its deterministic time in all, near a millisecond each.
    seconds
        Of wall-clock time at most; None: as long as the steps take.
    """

    steps: int = 10_000
    seconds: float | None = None
    handles: ClassVar[frozenset[str]] = frozenset({"pins", "gaps", "alignments"})

    def __call__(self, problem: Problem) -> tuple[int, ...]:
        """The offsets, in bytes."""
        return minimise(problem, steps=self.steps, seconds=self.seconds, decide=decide).offsets
