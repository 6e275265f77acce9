"""Local search: what is alive at the peak without being used there is made later, or done with earlier.

Stretches around the peak are rearranged exactly in between (a large neighbourhood: Shaw, "Using constraint programming
and local search methods to solve vehicle routing problems", CP 1998).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem, loads, simulated_peak
from nnc_func.engine.orders.solution import FIRST
from nnc_func.engine.orders.stretches.arrangement import arranged
from nnc_func.engine.orders.stretches.segments import condensed, expanded
from nnc_func.engine.orders.stretches.spans import Span

WIDTH = 24  # tasks of a stretch that is rearranged exactly
STATES = 400  # sets of tasks that are looked at there
EVERY = 8  # steps of which one rearranges a stretch


@frozen
class LocalSearch:
    """Better orders, step by step, as many as `steps`; what is drawn depends on the `seed` only.

    A step takes time linear in the number of tasks. An order is kept if its peak is no higher, and if it is the same,
    has it no more often.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> LocalSearch(steps=50)(problem)
    [0, 2, 1, 3, 4]
    """

    steps: int = 1_000
    seed: int = 0

    def __call__(self, problem: OrderProblem) -> list[int]:
        """The order, from the best of some that take no time."""
        return self.improved(problem, min((each(problem) for each in FIRST), key=lambda o: simulated_peak(problem, o)))

    def improved(self, problem: OrderProblem, order: Sequence[int]) -> list[int]:
        """An order with a peak no higher than that of the one given."""
        small, tasks = condensed(problem)
        number = {task: i for i, task in enumerate(tasks)}
        walk = _Walk(small, [number[task] for task in order if task in number], random.Random(self.seed))
        for step in range(self.steps if len(small) > 1 else 0):
            if step % EVERY:
                walk.move()
            else:
                walk.rearrange()
        return expanded(problem, [tasks[i] for i in walk.best])


class _Walk:
    """An order that changes, and the best so far."""

    def __init__(self, problem: OrderProblem, order: list[int], draw: random.Random) -> None:
        self.problem = problem
        self.draw = draw
        self.order = self.best = list(order)
        self.high = [*loads(problem, order)]
        self.rank = _rank(self.high)

    def _peak(self) -> int:
        """One of the positions with the highest load."""
        most = self.rank[0]
        return self.draw.choice([at for at, load in enumerate(self.high) if load == most])

    def move(self) -> None:
        """Take the bytes of one buffer away from the peak, if that makes nothing worse."""
        at = self._peak()
        position = {task: i for i, task in enumerate(self.order)}
        here = set(self.problem.uses[self.order[at]])
        passing = []
        for buffer, users in enumerate(self.problem.users):
            if buffer in here or not users or not self.problem.sizes[buffer]:
                continue
            places = [position[task] for task in users]
            if min(places) < at < max(places) or (buffer in self.problem.lasting and min(places) < at):
                passing.append((buffer, min(places), max(places)))
        if not passing:
            return
        buffer, first, last = self.draw.choice(passing)
        later = self._later(first, at)
        earlier = self._earlier([position[t] for t in self.problem.users[buffer]], at) if last > at else None
        for order in [later, earlier] if self.draw.random() < 0.5 else [earlier, later]:
            if order is not None and self._keep(order):
                return

    def _later(self, first: int, at: int) -> list[int] | None:
        """The task at `first`, and all that needs it, behind the peak."""
        moved, order = {self.order[first]}, self.order
        for task in order[first + 1 : at + 1]:
            if not moved.isdisjoint(self.problem.needs[task]):
                moved.add(task)
        if order[at] in moved:
            return None
        stretch = order[first : at + 1]
        stay, go = [t for t in stretch if t not in moved], [t for t in stretch if t in moved]
        return [*order[:first], *stay, *go, *order[at + 1 :]]

    def _earlier(self, places: list[int], at: int) -> list[int] | None:
        """All users of a buffer, and what they need, before the peak."""
        order, last = self.order, max(places)
        moved = {order[i] for i in places if i > at}
        for task in reversed(order[at : last + 1]):
            if task in moved:
                moved.update(self.problem.needs[task])
        if order[at] in moved:
            return None
        stretch = order[at : last + 1]
        go, stay = [t for t in stretch if t in moved], [t for t in stretch if t not in moved]
        return [*order[:at], *go, *stay, *order[last + 1 :]]

    def rearrange(self) -> None:
        """Rearrange a stretch around the peak."""
        at = self._peak()
        start = max(0, at - self.draw.randrange(WIDTH))
        end = min(len(self.order), start + WIDTH)
        span = Span(self.problem, self.order[:start], self.order[start:end], self.order[end:])
        found = arranged(span, max(self.high[start:end]), STATES)
        if found.tasks is not None:
            self._keep([*self.order[:start], *found.tasks, *self.order[end:]])

    def _keep(self, order: list[int]) -> bool:
        high = [*loads(self.problem, order)]
        rank = _rank(high)
        if rank > self.rank:
            return False
        if rank[0] < self.rank[0]:
            self.best = order
        self.order, self.high, self.rank = order, high, rank
        return True


def _rank(high: list[int]) -> tuple[int, int]:
    most = max(high, default=0)
    return most, high.count(most)
