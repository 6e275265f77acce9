"""Runs that a budget does not ask for are taken out of a sequence again: what was dropped is kept after all."""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.engine.rematerialising.problem import RematerialisationProblem, Simulation, simulated

STEPS = 1 << 20  # tasks of the sequences that are looked at


def pruned(problem: RematerialisationProblem, sequence: Sequence[int], budget: int) -> Sequence[int]:
    """The sequence without runs that its budget does not ask for, and what is run for them alone; the dearest first.

    Each run is tried once. One that cannot go is mostly told by the loads between the last use of the run before it and
    this one: no more can go there than what is removed, and what that reads. Else the sequence is simulated.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> pruned(layers(3), [0, 1, 2, 0, 1, 3, 4, 5], 4)
    [0, 1, 2, 3, 4, 5]
    """
    found = simulated(problem, sequence)
    if found.peak > budget:
        return sequence
    names = [*range(len(sequence))]  # of runs, by which those that were tried are known
    runs = _Runs(problem, found)
    if unread := runs.unread():
        found, names = _without(problem, found, names, unread)
        runs = _Runs(problem, found)
    tried: set[int] = set()
    todo = runs.again(names, tried)
    for _ in range(STEPS // max(1, len(sequence))):
        if not todo:
            break
        at = todo.pop()
        tried.add(names[at])
        gone = runs.with_what_it_needs(at)
        if runs.is_too_much(at, gone, budget):
            continue
        shorter, fewer = _without(problem, found, names, gone)
        if shorter.peak <= budget:
            found, names, runs = shorter, fewer, _Runs(problem, shorter)
            todo = runs.again(names, tried)
    return found.sequence


def _without(
    problem: RematerialisationProblem, found: Simulation, names: Sequence[int], gone: set[int]
) -> tuple[Simulation, list[int]]:
    """What is left without the runs at these positions, and its names."""
    left = [at for at in range(len(names)) if at not in gone]
    return simulated(problem, [found.sequence[at] for at in left]), [names[at] for at in left]


class _Runs:
    """The runs of a sequence, by position.

    Attributes
    ----------
    reads, readers
        For each the runs whose results it reads, and those that read its own; the end, if it is wanted there.
    before
        The run of the same task before it; -1: it is the first.
    """

    def __init__(self, problem: RematerialisationProblem, found: Simulation) -> None:
        self.problem, self.tasks, self.loads = problem, found.sequence, found.loads
        made = [-1] * len(problem)
        self.reads: list[list[int]] = []
        self.readers: list[list[int]] = [[] for _ in self.tasks]
        self.before: list[int] = []
        for step, task in enumerate(self.tasks):
            read = [made[needed] for needed in dict.fromkeys(problem.needs[task])]
            for each in read:
                self.readers[each].append(step)
            self.reads.append(read)
            self.before.append(made[task])
            made[task] = step
        for task in problem.lasting:
            self.readers[made[task]].append(len(self.tasks))

    def again(self, names: Sequence[int], tried: set[int]) -> list[int]:
        """The runs that are not the first of their task, and were not tried, the dearest last, of equals the first."""
        costs = self.problem.costs
        found = [at for at, before in enumerate(self.before) if before >= 0 and names[at] not in tried]
        return sorted(found, key=lambda at: (costs[self.tasks[at]], -at))

    def unread(self) -> set[int]:
        """The runs again whose results nobody reads, but for others of these."""
        found: set[int] = set()
        for at in range(len(self.tasks) - 1, -1, -1):
            if self.before[at] >= 0 and found.issuperset(self.readers[at]):
                found.add(at)
        return found

    def with_what_it_needs(self, at: int) -> set[int]:
        """A run again, and those that are run again for it alone."""
        gone, stack = {at}, [at]
        left: dict[int, int] = {}
        while stack:
            for read in self.reads[stack.pop()]:
                left[read] = left.get(read, len(self.readers[read])) - 1
                if not left[read] and self.before[read] >= 0 and read != self.before[at]:
                    gone.add(read)
                    stack.append(read)
        return gone

    def is_too_much(self, at: int, gone: set[int], budget: int) -> bool:
        """Whether the run before it cannot be kept alive until then, whatever its going spares."""
        kept, tasks, sizes = self.before[at], self.tasks, self.problem.sizes
        spared = gone.union(*(self.reads[each] for each in gone)) - {kept}
        most = budget - sizes[tasks[at]] + sum(sizes[tasks[each]] for each in spared)
        first = max(self.readers[kept], default=kept) + 1
        if max(self.loads[first:at], default=0) <= most:
            return False
        return any(self.loads[each] > most and each not in gone for each in range(first, at))
