"""Eviction: what costs least for each byte and step that it frees is dropped when memory is full, and run again later.

Where there are few tasks, peaks are taken down one by one as well (`shaving`), and the better answer is given.

M. Kirisame and others, Dynamic Tensor Rematerialization, ICLR 2021: there it happens while a program runs, and how
stale a result is is told by its last use. Here the program is known, and its next use tells (L. Belady, 1966).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf

from nnc_func.engine.rematerialising.problem import RematerialisationProblem, best, simulated
from nnc_func.engine.rematerialising.replay import Replay
from nnc_func.engine.rematerialising.shaving import shaved

POWERS = (1.0, 0.5, 0.0)  # of the steps until the next use, that are tried
TIGHTER = (1.0, 0.97, 0.93, 0.87)  # parts of the budget within which results are evicted
LOOSER = 1.15  # steps in which a budget that cannot be kept is raised
LONGEST = 5  # times as many tasks as there are may be run; more is no answer
STEPS = 1 << 20  # that finding what need not be run again may take: tasks that are simulated
FEW = 500  # tasks, up to which peaks are taken down one by one as well
GOOD = 1.02  # times the cost without recomputation, within which eviction's answer is good enough
NEVER = 1 << 60


def greedy(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    """The cheapest that fits, of evicting by cost / (size × steps until the next use), by two like it, and of shaving.

    What need not have been run again is then kept after all, the dearest first. About n log n for each result that is
    evicted. Of equals the lowest number is evicted.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> problem = layers(16)
    >>> problem.base
    <schedule: peak 17, 32 tasks run, 0 of them again, cost 48>
    >>> from nnc_func.engine.rematerialising.problem import simulated
    >>> simulated(problem, greedy(problem, 8)).peak
    8
    """
    return pruned(problem, best(problem, budget, _answers(problem, budget)), budget)


def _answers(problem: RematerialisationProblem, budget: int) -> Iterator[Sequence[int]]:
    """Of eviction, and of shaving where there are few tasks and that may be cheaper."""
    found = simulated(problem, best(problem, budget, _evicted(problem, budget)))
    yield found.sequence
    most = found.cost if found.peak <= budget else inf
    if len(problem) <= FEW and most > GOOD * problem.base.cost:
        yield shaved(problem, max(budget, problem.floor), most)


def _evicted(problem: RematerialisationProblem, budget: int) -> Iterator[list[int]]:
    """Sequences for the budget; where none keeps it, for larger and larger ones until they do."""
    for power in POWERS:
        within = float(max(budget, problem.floor))
        while within < problem.base.peak:
            for part in TIGHTER:
                found = _Evicting(problem, int(within * part), power).replayed()
                if found and simulated(problem, found).peak <= within:
                    yield found
                    break
            else:
                within *= LOOSER
                continue
            break


class _Evicting(Replay):
    """A replay in which at most so many bytes are alive, if that can be."""

    def __init__(self, problem: RematerialisationProblem, budget: int, power: float) -> None:
        super().__init__(problem)
        self.budget, self.power = budget, power
        self.bytes = 0
        self.now = 0  # the task of the base sequence that is wanted
        self.ran = [False] * len(problem)
        self.dear: dict[int, float] = {}  # what it costs to have results again, while that is known

    def replayed(self) -> list[int]:
        """The base sequence, with what is run again; nothing where that is too much."""
        for task in range(len(self.problem)):
            self.now = task
            self.bring(task)
            if len(self.sequence) > LONGEST * len(self.problem):
                return []
        return self.sequence

    def bring(self, task: int) -> None:
        """As there; makes room for each result, and lets go of what nobody reads any more."""
        needs = self.problem.needs
        todo = self.missing(task)
        wanted: dict[int, int] = {}
        for each in todo:
            for needed in needs[each]:
                wanted[needed] = wanted.get(needed, 0) + 1
        wanted[task] = 1
        for each in todo:
            self._make_room(each, wanted)
            self.run(each)
            for needed in dict.fromkeys(needs[each]):
                wanted[needed] -= needs[each].count(needed)
                if not wanted[needed] and self._next_use(needed) == NEVER:
                    self._forget(needed)
            if not wanted.get(each) and self._next_use(each) == NEVER:
                self._forget(each)
        if self._next_use(task) == NEVER:
            self._forget(task)

    def run(self, task: int) -> None:
        """As there; counts its bytes."""
        super().run(task)
        self.bytes += self.problem.sizes[task]
        self.ran[task] = True
        self._changed(task)

    def _forget(self, task: int) -> None:
        if task in self.alive and task not in self.problem.once:
            self.alive.discard(task)
            self.bytes -= self.problem.sizes[task]
            self._changed(task)

    def _changed(self, task: int) -> None:
        """What it costs to have again what is made of a result is known no more, through what has been evicted."""
        stack, met = [task], {task}
        while stack:
            for user in self.problem.users[stack.pop()]:
                if self.ran[user] and user not in met:
                    met.add(user)
                    self.dear.pop(user, None)
                    if user not in self.alive:
                        stack.append(user)

    def _make_room(self, task: int, wanted: dict[int, int]) -> None:
        problem = self.problem
        size = problem.sizes[task]
        for over in problem.overwrites.get(task, ()):
            if problem.sizes[over] == size and wanted[over] == 1 and self._next_use(over) == NEVER:
                size = 0  # it lies where that was
        size += problem.scratch[task] if problem.scratch else 0
        while self.bytes + size > self.budget:
            victim = min(self._candidates(wanted), default=None)
            if victim is None:
                return
            self._forget(victim[1])

    def _candidates(self, wanted: dict[int, int]) -> Iterator[tuple[float, int]]:
        """What may be evicted: how dear that is, and which."""
        problem = self.problem
        for task in self.alive:
            if problem.sizes[task] and not wanted.get(task) and task not in problem.once:
                stale = self._next_use(task) - self.now
                yield self._cost(task) / (problem.sizes[task] * float(stale) ** self.power), task

    def _cost(self, task: int) -> float:
        """What it costs to have a result again, with what has been evicted before it."""
        found = self.dear.get(task)
        if found is None:
            self.alive.discard(task)
            found = self.dear[task] = sum(map(self.problem.costs.__getitem__, self.missing(task)))
            self.alive.add(task)
        return found

    def _next_use(self, task: int) -> int:
        """The task of the base sequence that reads a result next; the end, if it is wanted there."""
        users = self.problem.users[task]
        at = bisect_right(users, self.now)
        return users[at] if at < len(users) else len(self.problem) if task in self.problem.lasting else NEVER


def pruned(problem: RematerialisationProblem, sequence: Sequence[int], budget: int) -> Sequence[int]:
    """The sequence without runs that its budget does not ask for, and what is run for them alone; the dearest first.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> pruned(layers(3), [0, 1, 2, 0, 1, 3, 4, 5], 4)
    [0, 1, 2, 3, 4, 5]
    """
    found = simulated(problem, sequence)
    if found.peak > budget:
        return sequence
    tried: set[int] = set()
    kept = [*found.sequence]
    names = [*range(len(kept))]  # of runs, by which those that were tried are known
    for _ in range(STEPS // max(1, len(kept))):
        ran: set[int] = set()
        again = []
        for at, task in enumerate(kept):
            if task in ran and names[at] not in tried:
                again.append((-problem.costs[task], at))
            ran.add(task)
        if not again:
            break
        _, at = min(again)
        tried.add(names[at])
        fewer = _without(problem, kept, at)
        shorter = [kept[i] for i in fewer]
        if simulated(problem, shorter).peak <= budget:
            kept, names = shorter, [names[i] for i in fewer]
    return kept


def _without(problem: RematerialisationProblem, sequence: Sequence[int], gone: int) -> list[int]:
    """The positions of a sequence that are left if one run is left out, and what only it has read if run again."""
    left = [i for i in range(len(sequence)) if i != gone]
    while True:
        made: dict[int, int] = {}
        read: set[int] = set()
        for i in left:
            read.update(made[n] for n in problem.needs[sequence[i]])
            made[sequence[i]] = i
        read.update(made[t] for t in problem.lasting)
        ran: set[int] = set()
        needless = set()
        for i in left:
            if sequence[i] in ran and i not in read:
                needless.add(i)
            ran.add(sequence[i])
        if not needless:
            return left
        left = [i for i in left if i not in needless]
