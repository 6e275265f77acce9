"""The fewest bytes moved, as a linear program over decisions: each gap, each value's being written, each overwriting.

SciPy's HiGHS solves it, or OR-Tools' CP-SAT; the first proves most graphs of some hundred gaps in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import ceil, gcd

from attrs import define, field, frozen

from nnc_func.engine.spilling.cover import Cover
from nnc_func.engine.spilling.problem import SpillProblem, simulated
from nnc_func.errors import PlanError

SECONDS = 30.0
SOLVERS = {"highs": "scipy", "cp_sat": "ortools"}  # and the package that each is in


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
    solver
        ``"highs"`` or ``"cp_sat"``; None: the first of which the package is installed.

    Examples
    --------
    >>> Exact(5.0).solver is None
    True
    """

    seconds: float = SECONDS
    solver: str | None = None

    def __call__(self, problem: SpillProblem, capacity: int) -> Collection[int]:
        """The best answer that was found; where none fits, everything is moved.

        Raises
        ------
        PlanError
            No solver is installed, or not the one that was asked for.
        """
        return self.solved(problem, capacity).dropped

    def solved(self, problem: SpillProblem, capacity: int) -> Optimum:
        """The best answer that was found, and what is proven of it.

        Raises
        ------
        PlanError
            As calling it.
        """
        begun = frozenset(Cover()(problem, capacity))
        known = simulated(problem, begun).moved
        if problem.base.peak <= capacity or problem.least.peak > capacity:
            return Optimum(begun, True, known)
        solve = _solver(self.solver)
        model = _Model.of(problem, capacity)
        chosen, bound = solve(model, begun, self.seconds)
        found = [begun] if chosen is None else [begun, frozenset(n for n in chosen if n < len(problem.gaps))]
        fitting = [each for each in found if simulated(problem, each).peak <= capacity]  # solvers round
        best = min(fitting, key=lambda each: simulated(problem, each).moved)
        bound *= model.unit
        return Optimum(best, simulated(problem, best).moved <= bound, bound)


@define
class _Model:
    """Decisions by number, yes or no: what each costs, and rows of (decision, weight) that sum up to some or more.

    The gaps come first. Bytes are counted in units, of which all sizes are multiples.
    """

    unit: int
    costs: list[int] = field(factory=list)
    rows: list[tuple[list[tuple[int, int]], int]] = field(factory=list)

    @classmethod
    def of(cls, problem: SpillProblem, capacity: int) -> _Model:
        """A gap in slow memory wants its value written there, and a step has room."""
        gaps, sizes = problem.gaps, problem.sizes
        model = cls(gcd(*sizes) or 1)
        for nbytes in problem.costs:
            model._decision(nbytes)
        written = {value: model._decision(sizes[value]) for value in sorted({g.value for g in gaps} - problem.clean)}
        for number, gap in enumerate(gaps):
            if gap.value in written:
                model.rows.append(([(written[gap.value], 1), (number, -1)], 0))
        spared: list[list[tuple[int, int]]] = [[] for _ in range(len(problem))]
        for number, gap in enumerate(gaps):
            for step in range(gap.start + 1, gap.end):
                spared[step].append((number, sizes[gap.value] // model.unit))
        for step in problem.overwrites:
            spared[step] += model._overwriting(problem, step)
        for step, load in enumerate(problem.loads):
            if load > capacity:
                model.rows.append((spared[step], -((capacity - load) // model.unit)))
        return model

    def _decision(self, nbytes: int) -> int:
        self.costs.append(nbytes // self.unit)
        return len(self.costs) - 1

    def _overwriting(self, problem: SpillProblem, step: int) -> list[tuple[int, int]]:
        """What is spared at a step by values made over others: one over each, and each over one."""
        found, over = list[tuple[int, int]](), dict[int, list[int]]()  # by home, and by what is made
        for made, homes in problem.overwrites[step]:
            chosen = []
            for home in dict.fromkeys(homes):
                gap, ends = problem.at.get((home, step)), problem.touches[home][-1] == step
                if problem.sizes[home] != problem.sizes[made] or home in problem.lasting or (gap is None and not ends):
                    continue
                chosen.append(self._decision(0))
                over.setdefault(home, []).append(chosen[-1])
                if gap is not None:
                    self.rows.append(([(gap, 1), (chosen[-1], -1)], 0))
            over[-1 - made] = chosen
            found += [(each, problem.sizes[made] // self.unit) for each in chosen]
        self.rows += [([(each, -1) for each in several], -1) for several in over.values() if len(several) > 1]
        return found


Solve = Callable[[_Model, Collection[int], float], tuple[Sequence[int] | None, int]]


def _highs(model: _Model, begun: Collection[int], seconds: float) -> tuple[Sequence[int] | None, int]:
    """The decisions that HiGHS says yes to, and a bound of their costs."""
    optimize, sparse = import_module("scipy.optimize"), import_module("scipy.sparse")
    entries = [(row, at, weight) for row, (terms, _) in enumerate(model.rows) for at, weight in terms]
    rows, columns, weights = zip(*entries, strict=True)
    shape = len(model.rows), len(model.costs)
    table = sparse.coo_array((weights, (rows, columns)), shape).tocsr()
    found = optimize.milp(
        model.costs,
        constraints=optimize.LinearConstraint(table, [least for _, least in model.rows]),
        integrality=[1] * len(model.costs),
        bounds=optimize.Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = 0 if found.mip_dual_bound is None else max(0, ceil(found.mip_dual_bound - 1e-3))
    return (None if found.x is None else [n for n, yes in enumerate(found.x) if yes > 0.5]), bound


def _cp_sat(model: _Model, begun: Collection[int], seconds: float) -> tuple[Sequence[int] | None, int]:
    """The same of CP-SAT, which begins at an answer."""
    cp = import_module("ortools.sat.python.cp_model")
    made = cp.CpModel()
    decisions = [made.new_bool_var("") for _ in model.costs]
    for terms, least in model.rows:
        made.add(sum(weight * decisions[at] for at, weight in terms) >= least)
    made.minimize(sum(cost * each for cost, each in zip(model.costs, decisions, strict=True)))
    for number in begun:
        made.add_hint(decisions[number], True)
    solver = cp.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave interrupts fatal to the process
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    state = solver.solve(made)
    if state not in (cp.OPTIMAL, cp.FEASIBLE):
        return None, 0
    return [n for n, each in enumerate(decisions) if solver.value(each)], round(solver.best_objective_bound)


def _solver(name: str | None) -> Solve:
    known: dict[str, Solve] = {"highs": _highs, "cp_sat": _cp_sat}
    for each, package in SOLVERS.items():
        if name in (None, each) and find_spec(package) is not None:
            return known[each]
    if name is not None and name not in SOLVERS:
        raise PlanError(f"no solver named {name!r}; there are: {', '.join(SOLVERS)}")
    raise PlanError(
        "the policy exact wants SciPy or OR-Tools: pip install nnc_func[scipy], or nnc_func[exact]"
        if name is None
        else f"the solver {name!r} is not installed: pip install {SOLVERS[name]}"
    )
