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
from nnc_func.engine.rematerialising.pruning import pruned
from nnc_func.engine.rematerialising.replay import Replay
from nnc_func.engine.rematerialising.shaving import shaved

POWERS = (1.0, 0.5, 0.0)  # of the steps until the next use, that are tried
TIGHTER = (1.0, 0.97, 0.93, 0.87)  # parts of the budget within which results are evicted
HALVINGS = 8  # of the range between a budget that cannot be kept and the peak without recomputation
LONGEST = 5  # times as many tasks as there are may be run; more is no answer
WORK = 1 << 19  # tasks that one replay may look at, for what it evicts
LEAST = 3 << 18  # the same of all replays for the least peak, none of which may look at more than a quarter
RUN = 12  # tasks that can be looked at in the time that running one takes
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


def _evicted(problem: RematerialisationProblem, budget: int) -> Iterator[Sequence[int]]:
    """Sequences that keep the budget, at most one for each power; where there is none, of the least peak that is kept.

    That is searched for by halving, from the peak without recomputation down: what keeps much is soon found, what is
    far too little takes longest. Replays that look at too many tasks are given up; where these are hardly more than run
    without eviction, there is no search.
    """
    kept = False
    if budget >= problem.floor:
        for power in POWERS:
            found, _ = _keeping(problem, budget, power, WORK)
            if found:
                kept = True
                yield found
    if kept or 2 * RUN * len(problem) > LEAST // 4:
        return
    low, high, left = max(budget, problem.floor), problem.base.peak, LEAST
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        for power in POWERS if len(problem) <= FEW else POWERS[:1]:
            found, spent = _keeping(problem, middle, power, min(left, LEAST // 4))
            left -= spent
            if found:
                break
        if found:
            high = min(middle, simulated(problem, found).peak)
            yield found
        else:
            low = middle
        if left <= 0 or low + 1 >= high:
            return


def _keeping(problem: RematerialisationProblem, budget: int, power: float, work: int) -> tuple[Sequence[int], int]:
    """What keeps a budget, or nothing; and how many tasks were looked at."""
    left = work
    for part in TIGHTER:
        run = _Evicting(problem, int(budget * part), power, left)
        found, left = run.replayed(), run.work
        if found and simulated(problem, found).peak <= budget:
            return found, work - left
        if left <= 0:
            break
    return (), work - left


class _Evicting(Replay):
    """A replay in which at most so many bytes are alive, if that can be."""

    def __init__(self, problem: RematerialisationProblem, budget: int, power: float, work: int) -> None:
        super().__init__(problem)
        self.budget, self.power, self.work = budget, power, work
        self.bytes = 0
        self.now = 0  # the task of the base sequence that is wanted
        self.dear: dict[int, float] = {}  # what it costs to have results again, while that is known
        self.told: list[set[int]] = [
            set() for _ in problem.needs
        ]  # by what is there or not: whose cost that is part of

    def replayed(self) -> list[int]:
        """The base sequence, with what is run again; nothing where that is too much."""
        for task in range(len(self.problem)):
            self.now = task
            self.bring(task)
            if len(self.sequence) > LONGEST * len(self.problem) or self.work <= 0:
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
        self.work -= RUN
        self._changed(task)

    def _forget(self, task: int) -> None:
        if task in self.alive and task not in self.problem.once:
            self.alive.discard(task)
            self.bytes -= self.problem.sizes[task]
            self._changed(task)

    def _changed(self, task: int) -> None:
        """Costs that hang on whether a result is there are known no more."""
        for each in self.told[task]:
            self.dear.pop(each, None)
        self.told[task].clear()

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
        self.work -= len(self.alive)
        for task in self.alive:
            if problem.sizes[task] and not wanted.get(task) and task not in problem.once:
                stale = self._next_use(task) - self.now
                yield self._cost(task) / (problem.sizes[task] * float(stale) ** self.power), task

    def _cost(self, task: int) -> float:
        """What it costs to have a result again, with what has been evicted before it."""
        found = self.dear.get(task)
        if found is None:
            needs, told = self.problem.needs, self.told
            self.alive.discard(task)
            again = self.missing(task)
            self.alive.add(task)
            self.work -= len(again)
            for each in again:
                told[each].add(task)
                for needed in needs[each]:
                    told[needed].add(task)
            found = self.dear[task] = sum(map(self.problem.costs.__getitem__, again))
        return found

    def _next_use(self, task: int) -> int:
        """The task of the base sequence that reads a result next; the end, if it is wanted there."""
        users = self.problem.users[task]
        at = bisect_right(users, self.now)
        return users[at] if at < len(users) else len(self.problem) if task in self.problem.lasting else NEVER
