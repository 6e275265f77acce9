"""The rematerialisation problem as data: tasks whose results may be computed again instead of kept; and its answers.

An answer is the sequence of tasks that are run, some of them several times. What is dropped when follows from it: a
result lives until its last use before its task is run again. Nothing here knows of graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import index
from types import MappingProxyType
from typing import Any, Protocol

from attrs import field, frozen

from nnc_func.engine.naming import name_of
from nnc_func.engine.needs import check_needs, inverted
from nnc_func.errors import AnswerError, PlanError
from nnc_func.locks import cached_property

NOTHING: Mapping[int, Any] = MappingProxyType({})


def _numbers(tasks: Iterable[int]) -> frozenset[int]:
    return frozenset(tasks)


@frozen(eq=False, slots=False)
class RematerialisationProblem:
    """Tasks with costs, that make results of some bytes. They have numbers, and need lower ones only.

    Run once each by number they are the program as it is: the base sequence, of which strategies make another.

    Attributes
    ----------
    needs
        For each task, those whose results it reads.
    sizes
        Bytes of each task's result.
    costs
        What running each one costs: picoseconds, or FLOPs, or 1; of whole numbers sums are exact.
    scratch
        Bytes that each task needs while it runs; empty: none.
    overwrites
        For tasks whose result may lie in the memory of what they read: those of their needs for which that is so.
        It does, if that result has as many bytes, and is not read any more.
    lasting
        Tasks whose results are wanted at the end.
    once
        Tasks that may not be run again.

    Raises
    ------
    PlanError
        Lists of different lengths, a negative size or cost, a task that needs one that is not before it, would
        overwrite what it does not need, or that there is not.

    Examples
    --------
    A chain of three, whose results are read again in the reverse order:

    >>> needs = [(), (0,), (1,), (2,), (1,), (0,)]
    >>> problem = RematerialisationProblem(needs, [8, 8, 8, 0, 0, 0], [1] * 6, overwrites={2: (1,)})
    >>> simulated(problem, range(6)).peak
    24
    >>> simulated(problem, [0, 1, 2, 3, 1, 4, 5])
    <schedule: peak 16, 7 tasks run, 1 of them again, cost 7>
    """

    needs: Sequence[Sequence[int]]
    sizes: Sequence[int]
    costs: Sequence[float]
    scratch: Sequence[int] = ()
    overwrites: Mapping[int, Sequence[int]] = NOTHING
    lasting: frozenset[int] = field(default=frozenset(), converter=_numbers)
    once: frozenset[int] = field(default=frozenset(), converter=_numbers)

    def __attrs_post_init__(self) -> None:
        count = len(self.needs)
        if len(self.sizes) != count or len(self.costs) != count or len(self.scratch) not in (0, count):
            raise PlanError(
                f"{count} tasks' needs, {len(self.sizes)} sizes, {len(self.costs)} costs, {len(self.scratch)} scratch "
                "sizes: wanted as many"
            )
        check_needs(self.needs)
        if min((0, *self.sizes, *self.scratch)) < 0 or not all(c >= 0 for c in self.costs):
            raise PlanError("sizes and costs are 0 or more")
        for task, over in self.overwrites.items():
            if not 0 <= task < count or not set(over).issubset(self.needs[task]):
                raise PlanError(f"task {task} would overwrite {list(over)}, which it does not need")
        if strange := [t for t in (*self.lasting, *self.once) if not 0 <= t < count]:
            raise PlanError(f"there is no task {strange[0]}: there are {count}")

    def __len__(self) -> int:
        return len(self.needs)

    @cached_property
    def users(self) -> list[list[int]]:
        """For each task, those that read its result, by number."""
        return inverted(map(dict.fromkeys, self.needs), len(self))

    @cached_property
    def base(self) -> Simulation:
        """The program as it is."""
        return simulated(self, range(len(self)))

    @cached_property
    def floor(self) -> int:
        """Bytes that every sequence takes: those of the one task that reads and makes the most.

        Examples
        --------
        >>> RematerialisationProblem([(), (0,), (1,)], [8, 16, 4], [1] * 3).floor
        24
        """
        return max((self._alone(task) for task in range(len(self))), default=0)

    def _alone(self, task: int) -> int:
        sizes, needs = self.sizes, dict.fromkeys(self.needs[task])
        over = any(sizes[o] == sizes[task] for o in self.overwrites.get(task, ()))
        own = (0 if over else sizes[task]) + (self.scratch[task] if self.scratch else 0)
        return own + sum(sizes[n] for n in needs)

    @cached_property
    def turn(self) -> int:
        """The task at which the most bytes are alive in the base sequence, the first: here a program turns back.

        Tasks up to it are its forward part; what they make and later ones read is the tape.
        """
        loads = self.base.loads
        return loads.index(max(loads)) if loads else -1


class Strategy(Protocol):
    """Maps a problem and a budget, in bytes, to a sequence of tasks. It knows nothing else, and is deterministic.

    The sequence should have a peak within the budget, at the least cost; where there is none, the least peak.
    """

    def __call__(self, problem: RematerialisationProblem, budget: int) -> Sequence[int]: ...


@frozen(eq=False, repr=False, slots=False)
class Simulation:
    """What a sequence of tasks takes.

    Attributes
    ----------
    sequence
        The tasks, as they are run.
    loads
        For each of them, the bytes alive while it runs.
    cost
        Of all of them.
    """

    sequence: Sequence[int]
    loads: Sequence[int]
    cost: float

    @property
    def peak(self) -> int:
        """The most bytes alive at one time."""
        return max(self.loads, default=0)

    def __repr__(self) -> str:
        again = len(self.sequence) - len(set(self.sequence))
        ran = f"{len(self.sequence)} tasks run, {again} of them again"
        return f"<schedule: peak {self.peak}, {ran}, cost {self.cost:g}>"


def simulated(problem: RematerialisationProblem, sequence: Sequence[int]) -> Simulation:
    """The bytes alive at each step of a sequence, and its cost. n + edges.

    Examples
    --------
    >>> simulated(RematerialisationProblem([(), (0,)], [8, 8], [1, 2], overwrites={1: (0,)}), [0, 1]).loads
    [8, 8]
    """
    needs, sizes, overwrites = problem.needs, problem.sizes, problem.overwrites
    made = [-1] * len(problem)  # of each task, when it was last run
    last = list(range(len(sequence)))
    over: list[tuple[int, int]] = []  # runs, and those whose results they may write over
    for step, task in enumerate(sequence):
        for needed in needs[task]:
            last[made[needed]] = step
        if task in overwrites:
            over += [(step, made[o]) for o in overwrites[task] if sizes[o] == sizes[task]]
        made[task] = step
    for task in problem.lasting:
        last[made[task]] = len(sequence)
    change = [sizes[task] for task in sequence]
    change += (0, 0)
    for end, task in zip(last, sequence, strict=True):
        change[end + 1] -= sizes[task]
    # what is taken over is not there twice while the task runs
    for step in {step for step, written in over if last[written] == step}:
        size = sizes[sequence[step]]
        change[step] -= size
        change[step + 1] += size
    loads = list(accumulate(change))[: len(sequence)]
    if problem.scratch:
        loads = [load + problem.scratch[task] for load, task in zip(loads, sequence, strict=True)]
    return Simulation(sequence, loads, sum(map(problem.costs.__getitem__, sequence)))


def answered(strategy: Strategy, problem: RematerialisationProblem, budget: int) -> Simulation:
    """The strategy's answer, simulated.

    Raises
    ------
    PlanError
        It is no sequence of the problem's tasks in which each is run, after what it needs, and again only if it may be;
        names the strategy.
    """
    name, answer = name_of(strategy), strategy(problem, budget)
    try:
        sequence = [index(task) for task in answer]
    except TypeError as error:
        raise AnswerError(f"the strategy {name} gave no sequence of tasks, but {answer!r:.80}: {error}") from None
    ran: set[int] = set()
    for task in sequence:
        if not 0 <= task < len(problem):
            raise AnswerError(f"the strategy {name} runs task {task}, of {len(problem)}")
        if not ran.issuperset(problem.needs[task]):
            raise AnswerError(f"the strategy {name} runs task {task} before what it needs, {list(problem.needs[task])}")
        if task in ran and task in problem.once:
            raise AnswerError(f"the strategy {name} runs task {task} again, which may be run only once")
        ran.add(task)
    if len(ran) != len(problem):
        missing = min(set(range(len(problem))) - ran)
        raise AnswerError(f"the strategy {name} never runs task {missing}")
    return simulated(problem, sequence)


def best(problem: RematerialisationProblem, budget: int, sequences: Iterable[Sequence[int]]) -> Sequence[int]:
    """Of these and the base sequence the cheapest whose peak is within the budget, else the one of the least peak.

    Of equals it is the first. The others are not made where the base sequence fits.

    Examples
    --------
    >>> needs = [(), (0,), (1,), (2,), (1,), (0,)]
    >>> problem = RematerialisationProblem(needs, [8, 8, 8, 0, 0, 0], [1] * 6, overwrites={2: (1,)})
    >>> best(problem, 16, [range(6), [0, 1, 2, 3, 1, 4, 5]])
    [0, 1, 2, 3, 1, 4, 5]
    """
    if problem.base.peak <= budget:
        return problem.base.sequence
    found = [problem.base, *(simulated(problem, s) for s in sequences)]
    within = [s for s in found if s.peak <= budget]
    if within:
        return min(within, key=lambda s: s.cost).sequence
    return min(found, key=lambda s: (s.peak, s.cost)).sequence
