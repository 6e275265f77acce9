"""Peaks are taken down one after another: what is alive there and not read is computed later, or again.

Every change is tried on the whole sequence, and the one that takes most bytes off for what it costs is made. So it sees
peaks that come later, which eviction does not; it takes longer, and is for problems of some hundred tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import inf

from attrs import field, frozen

from nnc_func.engine.rematerialising.problem import RematerialisationProblem, Simulation, simulated

TRIED = 16  # changes at one peak; all that there are where none of these lowers it
DEPTHS = (0, 1, 2, 8)  # how far back what is gone is computed again as well
STEPS = 1 << 19  # tasks that are simulated
CHEAP = 1e-4  # a cost, of the whole, below which changes are as good as free


def shaved(problem: RematerialisationProblem, budget: int, most: float = inf) -> Sequence[int]:
    """The base sequence, with peaks above the budget taken down as far as single changes do that; to a cost at `most`.

    About n² for each change in a problem of n tasks. Of equal changes the first is made.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import layers
    >>> problem = layers(16)
    >>> problem.base.peak
    17
    >>> simulated(problem, shaved(problem, 10))
    <schedule: peak 10, 39 tasks run, 7 of them again, cost 55>
    """
    found = _Sequence(problem, budget, [*problem.base.sequence])
    steps = 0
    while found.above and steps < STEPS and found.simulation.cost < most:
        better = None
        changes = found.changes()
        for some in (islice(changes, TRIED), changes):
            for sequence in some:
                steps += len(sequence)
                other = _Sequence(problem, budget, sequence)
                if other.above < found.above and (better is None or other.gain(found) > better.gain(found)):
                    better = other
            if better is not None:
                break
        if better is None:
            break
        found = better
    return found.tasks


@frozen(eq=False)
class _Sequence:
    """A sequence of tasks, and how far it is from the budget.

    Attributes
    ----------
    above
        Bytes above the budget, of all steps.
    """

    problem: RematerialisationProblem
    budget: int
    tasks: list[int]
    simulation: Simulation = field(init=False)
    above: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        found = simulated(self.problem, self.tasks)
        object.__setattr__(self, "simulation", found)
        object.__setattr__(self, "above", sum(load - self.budget for load in found.loads if load > self.budget))

    def gain(self, before: _Sequence) -> float:
        """Bytes taken off for what that costs."""
        cost = self.simulation.cost - before.simulation.cost
        return (before.above - self.above) / max(cost, CHEAP * self.problem.base.cost, 1e-300)

    def changes(self) -> Iterator[list[int]]:
        """Sequences in which a result is not there at the highest peak, the cheapest for its bytes first."""
        problem, tasks, loads = self.problem, self.tasks, self.simulation.loads
        peak = loads.index(max(loads))
        uses, runs = self._uses()
        found: list[tuple[float, int, int, int, tuple[int, ...]]] = []
        for run, task in enumerate(tasks[:peak]):
            size = problem.sizes[task]
            later = next((use for use in uses[run] if use >= peak), peak)
            if not size or later == peak or later == len(tasks):
                continue
            if uses[run][0] == later:
                found.append((0.0, -size, run, later, ()))  # it need not be there yet
            if task not in problem.once:
                for again in dict.fromkeys(self._again(task, later, depth, uses, runs) for depth in DEPTHS):
                    cost = sum(map(problem.costs.__getitem__, again))
                    found.append((cost / size, -size, run, later, again))
        for _, _, run, later, again in sorted(found):
            if again:
                yield [*tasks[:later], *again, *tasks[later:]]
            else:
                yield [*tasks[:run], *tasks[run + 1 : later], tasks[run], *tasks[later:]]

    def _uses(self) -> tuple[list[list[int]], list[list[int]]]:
        """For each run the steps that read it, the end among them if it is wanted there; for each task its runs."""
        uses: list[list[int]] = [[] for _ in self.tasks]
        runs: list[list[int]] = [[] for _ in range(len(self.problem))]
        for step, task in enumerate(self.tasks):
            for needed in dict.fromkeys(self.problem.needs[task]):
                uses[runs[needed][-1]].append(step)
            runs[task].append(step)
        for task in self.problem.lasting:
            uses[runs[task][-1]].append(len(self.tasks))
        return uses, runs

    def _again(self, task: int, when: int, depth: int, uses: list[list[int]], runs: list[list[int]]) -> tuple[int, ...]:
        """The task, and what it needs that is gone by then, back so far: what lies further back is kept for it."""
        found, edge = {task}, {task}
        for _ in range(depth):
            needed = {*chain.from_iterable(map(self.problem.needs.__getitem__, edge))} - found - self.problem.once
            edge = {n for n in needed if not any(s < when <= uses[s][-1] for s in runs[n] if uses[s])}
            found |= edge
        return tuple(sorted(found))
