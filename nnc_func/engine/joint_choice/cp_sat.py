"""The same problem given to OR-tools' CP-SAT: the peer of the search of our own. It needs ``nnc_func[exact]``.

Positions of runs are integers, and memory is rectangles of runs and bytes that do not overlap. OLLA (Steiner and
others, "OLLA: Optimizing the Lifetime and Location of Arrays to Reduce the Memory Usage of Neural Networks", 2022)
joins order and offsets so; retention intervals of what is run again are from MOCCASIN (Bartan and others, ICML 2023).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nnc_func.engine.allocators.cp_sat import STEP, solver_module
from nnc_func.engine.joint_choice.choice import HOUSE, LIFE, SCRATCH, Choice, Run, arena, blocks
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.solution import Solution
from nnc_func.errors import PlanError

AGAIN = 2  # times that a task is run again at most


def solve(
    problem: JointProblem, *, steps: int = 60_000, seconds: float | None = None, below: int | None = None,
    again: int = AGAIN,
) -> Solution:  # fmt: skip
    """The least arena of a problem by CP-SAT, with one worker and a fixed seed.

    Parameters
    ----------
    steps
        Thousandths of its deterministic time, near a millisecond each.
    seconds
        Of the clock on the wall; None: as long as the steps take.
    below
        Bytes: only choices that take less are looked for. Without any, ``nbytes`` is this, and proven if ``bound`` is.
    again
        How often a task is run again at the most.

    Raises
    ------
    PlanError
        OR-tools is not installed; or there is no choice within the limit of costs.
    """
    cp = solver_module()
    model = _Model(cp, problem, again, below)
    solver = cp.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave interrupts fatal to the process
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_deterministic_time = steps * STEP
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model.model)
    if status == cp.INFEASIBLE:
        if below is None:
            raise PlanError(
                f"no choice costs {problem.limit} or less: all tasks cost {problem.least_cost} at the least"
            )
        return Solution(None, below, below, solver.num_branches)
    bound = math.ceil(solver.best_objective_bound - 1e-6) * model.unit
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        most = model.most if below is None else below
        return Solution(None, most, min(bound, most), solver.num_branches)
    choice = model.choice(solver)
    nbytes = arena(problem, choice)
    return Solution(choice, nbytes, min(bound, nbytes), solver.num_branches)


class _Life(NamedTuple):
    """A life of a buffer, as variables."""

    buffer: int
    run: tuple[int, int] | None  # that begins it; None: whichever task is the first to use it
    start: Any
    last: Any  # behind the last run that uses it
    stop: Any  # the same, or one before where another takes it over
    offset: Any
    present: Any


class _Model:
    """Variables and constraints. Bytes are counted in a unit that divides all sizes; houses lie below the arena."""

    def __init__(self, cp: Any, problem: JointProblem, again: int, below: int | None) -> None:
        self.cp, self.problem, self.model = cp, problem, cp.CpModel()
        tasks = problem.tasks
        scratch = [n for offers in problem.offers for each in offers for n in each.scratch]
        self.unit = math.gcd(*tasks.sizes, *scratch) or 1
        self.runs = [(task, k) for task in range(len(problem)) for k in range(1 + self._times(task, again))]
        self.end = len(self.runs)
        self.most = sum(tasks.sizes) * (1 + again) + sum(scratch)
        self.floor = problem.outside // self.unit
        self.arena = self.model.new_int_var(0, self.most // self.unit, "arena")
        if below is not None:
            self.model.add(self.arena * self.unit < below)
        self.across: list[Any] = []
        self.along: list[Any] = []
        self.scratch: dict[tuple[int, int, int, int], Any] = {}  # of run, kernel and position -> its offset
        self.over: dict[tuple[tuple[int, int], int, _Life], Any] = {}
        self._order()
        self._kernels()
        self.lives = [life for buffer in range(len(tasks.sizes)) for life in self._lives(buffer)]
        self._overwrite()
        self._place()
        self.model.minimize(self.arena)

    def _times(self, task: int, again: int) -> int:
        """How often a task may be run again, as costs allow."""
        problem = self.problem
        if task not in problem.again:
            return 0
        least = min(each.cost for each in problem.offers[task])
        if problem.limit is None or not least:
            return again
        return max(0, min(again, (problem.limit - problem.least_cost) // least))

    def _order(self) -> None:
        model, problem = self.model, self.problem
        self.at = {run: model.new_int_var(0, self.end - 1, f"at{run}") for run in self.runs}
        self.active = {run: model.new_bool_var(f"active{run}") for run in self.runs}
        spans = [
            model.new_optional_fixed_size_interval_var(self.at[r], 1, self.active[r], f"run{r}") for r in self.runs
        ]
        model.add_no_overlap(spans)
        for task, k in self.runs:
            if not k:
                model.add(self.active[task, k] == 1)
                for needed in problem.tasks.needs[task]:
                    model.add(self.at[needed, 0] < self.at[task, 0])
                continue
            model.add_implication(self.active[task, k], self.active[task, k - 1])
            model.add(self.at[task, k - 1] < self.at[task, k]).only_enforce_if(self.active[task, k])
            if problem.barrier is not None:
                model.add(self.at[task, k] < self.at[problem.barrier, 0]).only_enforce_if(self.active[task, k])

    def _kernels(self) -> None:
        model, problem = self.model, self.problem
        self.kernel = {}
        prices = []
        for task, k in self.runs:
            chosen = []
            for i, each in enumerate(problem.offers[task]):
                here = self.kernel[task, k, i] = model.new_bool_var(f"kernel{task, k, i}")
                chosen.append(here)
                prices.append(here * each.cost)
                for j, size in enumerate(each.scratch):
                    if size:
                        offset = self.scratch[task, k, i, j] = self._offset(size, False, f"scratch{task, k, i, j}")
                        self._rectangle(self.at[task, k], 1, self.at[task, k] + 1, offset, size, here)
            model.add(sum(chosen) == self.active[task, k])
        if problem.limit is not None:
            model.add(sum(prices) <= problem.limit)

    def _lives(self, buffer: int) -> list[_Life]:
        model, problem = self.model, self.problem
        users = problem.tasks.users[buffer]
        if not users or not problem.tasks.sizes[buffer]:
            return []
        maker = problem.maker.get(buffer)
        begins = [None] if maker is None else [run for run in self.runs if run[0] == maker]
        found = [self._life(buffer, run) for run in begins]
        for task, k in self.runs:
            if task not in users or task == maker:
                continue
            run = task, k
            if maker is None:
                model.add(found[0].last > self.at[run]).only_enforce_if(self.active[run])
                continue
            read = [model.new_bool_var(f"read{run, buffer, i}") for i in range(len(found))]
            model.add(sum(read) == self.active[run])
            for i, (life, is_read) in enumerate(zip(found, read, strict=True)):
                model.add_implication(is_read, life.present)
                model.add(life.start < self.at[run]).only_enforce_if(is_read)
                model.add(life.last > self.at[run]).only_enforce_if(is_read)
                if i + 1 < len(found):  # it is the latest
                    model.add(found[i + 1].start > self.at[run]).only_enforce_if(is_read, found[i + 1].present)
        return found

    def _life(self, buffer: int, run: tuple[int, int] | None) -> _Life:
        model, problem = self.model, self.problem
        name = f"{buffer, run}"
        users = problem.tasks.users[buffer]
        present: Any = 1
        if run is not None:
            start, present = self.at[run], self.active[run]
        elif all(problem.before[user] >> users[0] & 1 for user in users[1:]):
            start = self.at[users[0], 0]
        else:
            start = model.new_int_var(0, self.end - 1, f"start{name}")
            model.add_min_equality(start, [self.at[user, 0] for user in users])
        lasts = buffer in problem.tasks.lasting
        last = model.new_int_var(self.end if lasts else 1, self.end, f"last{name}")
        stop = model.new_int_var(0, self.end, f"stop{name}")
        model.add(last > start)
        if buffer in problem.houses:
            offset: Any = self._below(buffer) // self.unit
        else:
            offset = self._offset(problem.tasks.sizes[buffer], buffer in problem.housed, f"offset{name}")
        return _Life(buffer, run, start, last, stop, offset, present)

    def _overwrite(self) -> None:
        model, problem = self.model, self.problem
        taken: dict[_Life, list[Any]] = {}
        makes: dict[tuple[tuple[int, int], int], list[Any]] = {}
        for run in self.runs:
            for made, others in problem.tasks.overwrites.get(run[0], ()):
                new = next((x for x in self.lives if x.buffer == made and x.run in (None, run)), None)
                if new is None:
                    continue
                for old in [x for x in self.lives if x.buffer in others and x.buffer not in problem.tasks.lasting]:
                    here = self.over[run, made, old] = model.new_bool_var(f"over{run, made, old.buffer, old.run}")
                    model.add_implication(here, self.active[run])
                    model.add(new.start == self.at[run]).only_enforce_if(here)
                    model.add(old.last == self.at[run] + 1).only_enforce_if(here)
                    model.add(old.offset == new.offset).only_enforce_if(here)
                    if old.run is not None:
                        model.add_implication(here, old.present)
                    taken.setdefault(old, []).append(here)
                    makes.setdefault((run, made), []).append(here)
        for each in makes.values():
            model.add_at_most_one(each)
        for life in self.lives:
            over = taken.get(life, [])
            if over:
                model.add_at_most_one(over)
            model.add(life.stop == life.last - sum(over))

    def _place(self) -> None:
        for life in self.lives:
            size = self.model.new_int_var(0, self.end, f"span{life.buffer, life.run}")
            nbytes = self.problem.tasks.sizes[life.buffer]
            self._rectangle(life.start, size, life.stop, life.offset, nbytes, life.present)
        self.model.add_no_overlap_2d(self.across, self.along)

    def _below(self, house: int) -> int:
        """Where a house begins."""
        at = self.problem.houses.index(house)
        return sum(self.problem.tasks.sizes[each] for each in self.problem.houses[:at])

    def _offset(self, nbytes: int, may_be_housed: bool, name: str) -> Any:
        problem, unit = self.problem, self.unit
        ranges = [[self.floor, self.floor + self.most // unit]]
        for house in problem.houses if may_be_housed else ():
            room = problem.tasks.sizes[house] - nbytes
            if room >= 0:
                low = self._below(house) // unit
                ranges.append([low, low + room // unit])
        return self.model.new_int_var_from_domain(self.cp.Domain.from_intervals(ranges), name)

    def _rectangle(self, start: Any, span: Any, stop: Any, offset: Any, nbytes: int, present: Any) -> None:
        model, size = self.model, nbytes // self.unit
        self.across.append(model.new_optional_interval_var(start, span, stop, present, f"x{len(self.across)}"))
        self.along.append(model.new_optional_fixed_size_interval_var(offset, size, present, f"y{len(self.along)}"))
        model.add(self.arena + self.floor >= offset + size).only_enforce_if(present)

    def choice(self, solver: Any) -> Choice:
        """What was found."""
        value, problem = solver.value, self.problem
        order = sorted((run for run in self.runs if value(self.active[run])), key=lambda run: value(self.at[run]))
        kernel = {(t, k): i for t, k, i in self.kernel if value(self.kernel[t, k, i])}
        over: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for (run, made, old), here in self.over.items():
            if value(here):
                over.setdefault(run, []).append((made, old.buffer))
        runs = [Run(run[0], kernel[run], tuple(over.get(run, ()))) for run in order]
        rank = {value(self.at[run]): i for i, run in enumerate(order)}
        lies = {
            (LIFE, life.buffer, rank[value(life.start)]): value(life.offset)
            for life in self.lives
            if isinstance(life.present, int) or value(life.present)
        }
        for (task, k, i, j), offset in self.scratch.items():
            if value(self.active[task, k]) and kernel[task, k] == i:
                lies[SCRATCH, j, rank[value(self.at[task, k])]] = value(offset)
        offsets, homes = [], []
        for block in blocks(problem, runs):
            at = self.unit * lies[LIFE if block.kind == HOUSE else block.kind, block.first, block.lower]
            home = -1
            if at < problem.outside:
                home = next(h for h in reversed(problem.houses) if self._below(h) <= at)
            offsets.append(at - (problem.outside if home == -1 else self._below(home)))
            homes.append(home)
        return Choice(tuple(runs), tuple(offsets), tuple(homes))
