"""Local search over all choices: what is alive at the peak is made later, done with earlier, or made again behind it.

Each sequence of runs gets the kernels that are the best for it, and what is written over what follows from it
(`completion`); so a step changes the sequence only. It is kept if its peak is no higher, and placed if it is lower.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.joint_choice.choice import Choice
from nnc_func.engine.joint_choice.completion import Completed, completed
from nnc_func.engine.joint_choice.placement import Place, placed
from nnc_func.engine.joint_choice.problem import JointProblem

UNIT = 60  # runs of a sequence that are tried in a step
PLACINGS = 8  # sequences with the same peak that are placed, since what lies between buffers differs


@frozen
class Walked:
    """What a walk found: bytes of the arena, the choice, and how many steps there were."""

    nbytes: int
    choice: Choice
    steps: int


class Walk:
    """A sequence that changes, and the best choice so far.

    Parameters
    ----------
    problem
        What is asked.
    sequence
        Valid runs of its tasks, that cost no more than the limit with some kernels.
    place
        Finds offsets.
    seed
        Of what is drawn.
    """

    def __init__(self, problem: JointProblem, sequence: Sequence[int], place: Place, seed: int = 0) -> None:
        self.problem, self.place, self.draw = problem, place, random.Random(seed)
        self.sequence = [*sequence]
        start = completed(problem, sequence)
        if start is None:
            raise ValueError(f"a walk begins with what costs no more than {problem.limit}")
        self.now: Completed = start
        self.nbytes, self.choice = placed(problem, start.runs, place)
        self.placings = 0
        self.steps = 0

    def walk(self, steps: int, bound: int) -> Walked:
        """So many steps, or fewer if the bound is reached; of long sequences each takes several.

        Examples
        --------
        >>> from nnc_func.engine.joint_choice.placement import exactly
        >>> from nnc_func.engine.orders.base import OrderProblem
        >>> tasks = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
        >>> Walk(JointProblem(tasks), range(5), exactly(100)).walk(100, 0).nbytes
        11
        """
        while self.steps < steps and self.nbytes > bound and len(self.sequence) > 1:
            self.steps += max(1, len(self.sequence) // UNIT)
            moves = [self._later, self._earlier, self._shift]
            if self.problem.again:
                moves += [self._again, self._once]
            sequence = self.draw.choice(moves)(self._peak())
            if sequence is not None:
                self._keep(sequence)
        return Walked(self.nbytes, self.choice, self.steps)

    def _keep(self, sequence: list[int]) -> None:
        found = completed(self.problem, sequence) if self._is_valid(sequence) else None
        if found is None or found.rank > self.now.rank:
            return
        lower = found.peak < self.now.peak
        self.sequence, self.now = sequence, found
        self.placings = 0 if lower else self.placings + 1
        if (lower or self.placings < PLACINGS) and found.peak < self.nbytes:
            nbytes, choice = placed(self.problem, found.runs, self.place)
            if nbytes < self.nbytes:
                self.nbytes, self.choice = nbytes, choice

    def _is_valid(self, sequence: Sequence[int]) -> bool:
        """Whether tasks come behind what they need, and none is run again behind the barrier."""
        needs, ran, closed = self.problem.tasks.needs, set[int](), False
        for task in sequence:
            if closed and task in ran:
                return False
            if not ran.issuperset(needs[task]):
                return False
            ran.add(task)
            closed = closed or task == self.problem.barrier
        return True

    def _peak(self) -> int:
        """One of the runs with the highest load."""
        most = self.now.peak
        return self.draw.choice([at for at, load in enumerate(self.now.loads) if load == most])

    def _passing(self, at: int) -> list[tuple[int, list[int]]]:
        """Buffers that are alive at a run which does not use them, and the runs that use their lives."""
        tasks, again = self.problem.tasks, self.problem.again
        here = {*tasks.uses[self.sequence[at]]}
        runs: dict[int, list[int]] = {}
        closed: set[int] = set()
        for i, task in enumerate(self.sequence):
            made = again.get(task, ())
            for buffer in tasks.uses[task]:
                if buffer in made:
                    if i <= at:
                        runs[buffer] = []
                    elif buffer in runs:
                        closed.add(buffer)
                if buffer not in closed:
                    runs.setdefault(buffer, []).append(i)
        found = []
        for buffer, users in runs.items():
            if buffer not in here and tasks.sizes[buffer] and users[0] < at < users[-1]:
                found.append((buffer, users))
        return found

    def _later(self, at: int) -> list[int] | None:
        """The first user of a buffer, and all that needs it, behind the peak."""
        passing = self._passing(at)
        if not passing:
            return None
        _, users = self.draw.choice(passing)
        return self._moved_later(users[0], at)

    def _moved_later(self, first: int, at: int) -> list[int] | None:
        order, needs = self.sequence, self.problem.tasks.needs
        moved, staying = {order[first]: None}, []
        for task in order[first + 1 : at + 1]:
            if task in moved or not moved.keys().isdisjoint(needs[task]):
                moved[task] = None
            else:
                staying.append(task)
        if order[at] in moved:
            return None
        return [*order[:first], *staying, *moved, *order[at + 1 :]]

    def _earlier(self, at: int) -> list[int] | None:
        """All users of a buffer behind the peak, and what they need, before it."""
        passing = self._passing(at)
        if not passing:
            return None
        _, users = self.draw.choice(passing)
        order, last = self.sequence, users[-1]
        wanted = {order[i] for i in users if i > at}
        going: list[int] = []
        staying: list[int] = []
        for task in reversed(order[at : last + 1]):
            if task in wanted:
                wanted.update(self.problem.tasks.needs[task])
                going.append(task)
            else:
                staying.append(task)
        if order[at] in wanted:
            return None
        return [*order[:at], *going[::-1], *staying[::-1], *order[last + 1 :]]

    def _shift(self, _: int) -> list[int] | None:
        """One run, to any place between what it needs and what needs it."""
        order, needs = self.sequence, self.problem.tasks.needs
        i = low = high = self.draw.randrange(len(order))
        task = order[i]
        while low > 0 and order[low - 1] not in needs[task]:
            low -= 1
        while high + 1 < len(order) and task not in needs[order[high + 1]]:
            high += 1
        to = self.draw.randint(low, high)
        rest = [*order[:i], *order[i + 1 :]]
        return [*rest[:to], task, *rest[to:]] if to != i else None

    def _again(self, at: int) -> list[int] | None:
        """Make a buffer anew behind the peak, before it is read there for the first time."""
        problem, order = self.problem, self.sequence
        passing = [(b, users) for b, users in self._passing(at) if b in problem.maker]
        if not passing:
            return None
        buffer, users = self.draw.choice(passing)
        to = next(i for i in users if i > at)
        return [*order[:to], problem.maker[buffer], *order[to:]]

    def _once(self, _: int) -> list[int] | None:
        """Do not run a task again."""
        seen: set[int] = set()
        more = [i for i, task in enumerate(self.sequence) if task in seen or seen.add(task)]  # type: ignore[func-returns-value]
        if not more:
            return None
        i = self.draw.choice(more)
        return [*self.sequence[:i], *self.sequence[i + 1 :]]
