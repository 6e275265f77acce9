"""Allocators beside each other: what each makes of each problem, and what that says of them.

Every answer is checked. Ratios to the lower bound are averaged geometrically; a performance profile (Dolan and Moré,
2002) says on which share of the problems an allocator is within so much of the best.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import asdict, field, frozen

from nnc_func.engine.allocators.base import Allocator, answered, arena_size
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.plan import Plan
from nnc_func.errors import PlanError

WITHIN = (1.0, 1.001, 1.01, 1.05, 1.1, 1.2, 1.5, 2.0)  # ratios of which a profile tells the shares


@frozen
class Trial:
    """One allocator's answer to one problem.

    Attributes
    ----------
    problem, allocator
        Their names.
    buffers
        How many there are.
    bound
        The lower bound, in bytes.
    arena
        Bytes; None where it gave no answer.
    seconds
        Of this process, on processors: the median of the repetitions.
    offsets
        One a buffer, in bytes.
    error
        Why there is no answer.
    """

    problem: str
    allocator: str
    buffers: int
    bound: int
    arena: int | None
    seconds: float
    offsets: Sequence[int] = field(default=(), repr=False)
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """Arena / lower bound: 1 is the best there can be."""
        if self.arena is None:
            return None
        return self.arena / self.bound if self.bound else 1.0

    @property
    def is_optimal(self) -> bool:
        """Whether the lower bound proves that no plan is smaller."""
        return self.arena == self.bound


@frozen
class Comparison:
    """All trials, problem by problem, in the order in which they were made.

    Attributes
    ----------
    trials
        One a problem and allocator.

    Examples
    --------
    >>> from nnc_func.engine.allocators import BestFit, NoReuse
    >>> found = compare({"three": Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])}, {"fit": BestFit(), "none": NoReuse()})
    >>> [(t.allocator, t.ratio, t.is_optimal) for t in found.trials]
    [('fit', 1.0, True), ('none', 1.5, False)]
    >>> found.means, found.profile()["none"][1.5]
    ({'fit': 1.0, 'none': 1.5}, 1.0)
    """

    trials: tuple[Trial, ...]

    @property
    def problems(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(t.problem for t in self.trials))

    @property
    def allocators(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(t.allocator for t in self.trials))

    def of(self, allocator: str) -> list[Trial]:
        """The trials of one allocator."""
        return [t for t in self.trials if t.allocator == allocator]

    def best(self, problem: str) -> Trial:
        """The smallest arena of one problem; of equal ones that of the fastest.

        Raises
        ------
        PlanError
            No allocator had an answer.
        """
        found = [t for t in self.trials if t.problem == problem and t.arena is not None]
        if not found:
            raise PlanError(f"no allocator has an answer for {problem!r}")
        return min(found, key=lambda t: (t.arena, t.seconds))

    @property
    def means(self) -> dict[str, float]:
        """The geometric mean of each allocator's ratios, of the problems that it has an answer for."""
        found = {name: [t.ratio for t in self.of(name) if t.ratio is not None] for name in self.allocators}
        return {name: math.exp(sum(map(math.log, r)) / len(r)) if r else math.nan for name, r in found.items()}

    def profile(self, within: Iterable[float] = WITHIN) -> dict[str, dict[float, float]]:
        """For each allocator the share of the problems on which it is within these ratios of the best one's arena."""
        best = {name: self.best(name).arena or 1 for name in self.problems if self._has_answer(name)}
        shares = {}
        for name in self.allocators:
            found = [t.arena / best[t.problem] for t in self.of(name) if t.arena is not None]
            shares[name] = {w: sum(r <= w for r in found) / max(len(best), 1) for w in within}
        return shares

    def _has_answer(self, problem: str) -> bool:
        return any(t.problem == problem and t.arena is not None for t in self.trials)

    def summary(self) -> list[dict[str, Any]]:
        """A row an allocator, the best first: mean ratio, shares proven optimal and within 1 % of the best, speed."""
        shares, rows = self.profile((1.01,)), []
        for name, mean in self.means.items():
            trials = self.of(name)
            answers = [t for t in trials if t.arena is not None]
            buffers = sum(t.buffers for t in answers)
            rows.append(
                {
                    "allocator": name,
                    "mean_ratio": mean,
                    "worst_ratio": max((t.ratio for t in answers if t.ratio is not None), default=math.nan),
                    "proven_optimal": sum(t.is_optimal for t in answers),
                    "answers": len(answers),
                    "problems": len(trials),
                    "within_1_percent": shares[name][1.01],
                    "microseconds_a_buffer": 1e6 * sum(t.seconds for t in answers) / max(buffers, 1),
                }
            )
        return sorted(rows, key=lambda row: (row["answers"] < row["problems"], row["mean_ratio"], row["allocator"]))

    def to_json(self) -> str:
        """All of it but the offsets."""
        trials = [asdict(t, filter=lambda a, _: a.name != "offsets") | {"ratio": t.ratio} for t in self.trials]
        return json.dumps({"summary": self.summary(), "profile": self.profile(), "trials": trials})


def bytes_without_reuse(plan: Plan) -> int:
    """What the results of a plan's instructions take, views left out, and the scratch of each.

    It is the memory of who computes each value into some of its own, and in place nowhere.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy(nnc.Null())
    >>> x = stack.input("x", (1000,), "float32")
    >>> plan = stack.compile([x], [stack.ops.exp(stack.ops.sort(stack.ops.sort(x)[:500]))]).plan
    >>> bytes_without_reuse(plan), plan.arena_bytes
    (8000, 6080)
    """
    own = [slot for i in plan.instructions for slot in (*(() if i.view else i.results), *i.scratch)]
    return sum(int(plan.slots[slot].aval.nbytes) for slot in own)


def compare(
    problems: Mapping[str, Problem],
    allocators: Mapping[str, Allocator],
    *,
    repeat: int = 1,
    most: Mapping[str, int] | None = None,
    check: Callable[[Problem, Sequence[int]], Any] | None = None,
    tell: Callable[[int, str], Any] | None = None,
) -> Comparison:
    """What each allocator makes of each problem.

    Parameters
    ----------
    problems, allocators
        By name.
    repeat
        How often each is asked: the median of the seconds is told.
    most
        Buffers, by allocator: of larger problems it is not asked, and its trial says so.
    check
        Raises `PlanError` where offsets are wrong; by default the verifier of plans, which shares no code with any.
    tell
        Called before each trial with how many were made, and what comes next.

    Raises
    ------
    PlanError
        An answer is wrong: an allocator that gives none is told of in its trial, one that gives a wrong one is a fault;
        names both.
    """
    if check is None:
        from nnc_func.engine.verifying.offsets import verify_offsets

        check = verify_offsets
    trials: list[Trial] = []
    most = most or {}
    for name, problem in problems.items():
        bound = problem.max_load
        for of, allocator in allocators.items():
            if tell is not None:
                tell(len(trials), f"{of} on {name}")
            if len(problem) > most.get(of, len(problem)):
                why = f"more than {most[of]:,} buffers"
                trials.append(Trial(name, of, len(problem), bound, None, math.nan, error=why))
                continue
            try:
                taken, offsets = _timed(allocator, problem, repeat)
            except PlanError as error:
                trials.append(Trial(name, of, len(problem), bound, None, math.nan, error=str(error)))
                continue
            try:
                check(problem, offsets)
            except PlanError as error:
                raise PlanError(f"the allocator {of} is wrong about {name!r}: {error}") from error
            trials.append(Trial(name, of, len(problem), bound, arena_size(problem, offsets), taken, offsets))
    return Comparison(tuple(trials))


def _timed(allocator: Allocator, problem: Problem, repeat: int) -> tuple[float, list[int]]:
    taken = []
    for _ in range(max(repeat, 1)):
        start = time.process_time()
        offsets = answered(allocator, problem)
        taken.append(time.process_time() - start)
    return sorted(taken)[len(taken) // 2], offsets
