"""A base sequence walked along while results are dropped: what is wanted again is computed again, when it is wanted."""

from __future__ import annotations

from collections.abc import Iterable

from nnc_func.engine.rematerialising.problem import RematerialisationProblem


class Replay:
    """A sequence that is being made.

    Attributes
    ----------
    sequence
        The tasks that were run.
    alive
        Those whose results are there.

    Examples
    --------
    >>> run = Replay(RematerialisationProblem([(), (0,), (1,), (2,), (1,), (0,)], [8, 8, 8, 0, 0, 0], [1] * 6))
    >>> for task in range(6):
    ...     run.bring(task)
    ...     if task == 2:
    ...         run.drop([1])
    >>> run.sequence
    [0, 1, 2, 3, 1, 4, 5]
    """

    def __init__(self, problem: RematerialisationProblem) -> None:
        self.problem = problem
        self.sequence: list[int] = []
        self.alive: set[int] = set()

    def bring(self, task: int) -> None:
        """Have a task's result: run what is missing for it, by number, and it."""
        alive = self.alive
        if task in alive:
            return
        if not alive.issuperset(self.problem.needs[task]):
            needed = self.missing(task)
            self.sequence += needed
            alive.update(needed)
            return
        self.sequence.append(task)
        alive.add(task)

    def run(self, task: int) -> None:
        """Run a task; what it needs is there."""
        self.sequence.append(task)
        self.alive.add(task)

    def missing(self, task: int) -> list[int]:
        """What is to be run for a task's result, by number."""
        alive = self.alive
        if task in alive:
            return []
        if alive.issuperset(self.problem.needs[task]):
            return [task]
        found, stack = {task}, [task]
        while stack:
            for needed in self.problem.needs[stack.pop()]:
                if needed not in alive and needed not in found:
                    found.add(needed)
                    stack.append(needed)
        return sorted(found)

    def drop(self, tasks: Iterable[int]) -> None:
        """Let results go, of tasks that may be run again."""
        self.alive.difference_update(t for t in tasks if t not in self.problem.once)
