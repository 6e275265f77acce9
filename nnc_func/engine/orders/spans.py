"""Stretches of an order, and the search for their best arrangement: dynamic programming over the sets that have run.

How many bytes are alive depends on which tasks have run, not on their order; so of all orders of a set only the least
peak counts (SERENITY: Ahn and others, "Ordering chaos: memory-aware scheduling of irregularly wired neural networks for
edge devices", MLSys 2020). Sets are visited by that peak, the least first, as by Dijkstra's algorithm: the first time
that all have run, no order has a lower peak.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem

Others = list[tuple[int, int]]  # the other users of a buffer as a set of bits, and its bytes


@frozen
class Arranged:
    """What a search found.

    Attributes
    ----------
    tasks
        The best arrangement; None where there is none below the bound, or none was found.
    states
        Sets of tasks that were looked at.
    is_complete
        Whether the search ended by itself: what it found is optimal, or there is nothing below the bound.
    """

    tasks: list[int] | None
    states: int
    is_complete: bool


class Span:
    """Tasks that follow each other in a valid order.

    Parameters
    ----------
    before, after
        The tasks that run before and after them.
    """

    def __init__(
        self, problem: OrderProblem, before: Iterable[int], tasks: Sequence[int], after: Iterable[int]
    ) -> None:
        self.tasks = tasks
        bit = {task: 1 << i for i, task in enumerate(tasks)}
        begun = {b for task in before for b in problem.uses[task]}
        wanted = {*problem.lasting, *(b for task in after for b in problem.uses[task])}
        passing = {b for b in begun if b in wanted}
        self.passing = sum(problem.sizes[b] for b in passing)
        self._used = [sum(problem.sizes[b] for b in problem.uses[task] if b not in passing) for task in tasks]
        self.alive = sum(problem.sizes[b] for b in begun if b in wanted or not bit.keys().isdisjoint(problem.users[b]))
        at = {task: i for i, task in enumerate(tasks)}
        self.followers = [[at[f] for f in problem.followers[task] if f in at] for task in tasks]
        self.needs = [sum(bit[one] for one in set(problem.needs[task]) if one in bit) for task in tasks]
        others = {
            (task, b): sum(bit[one] for one in problem.users[b] if one in bit and one != task)
            for task in tasks
            for b in problem.uses[task]
        }

        def masks(task: int, apart: set[int]) -> Others:
            found = [(others[task, b], problem.sizes[b]) for b in problem.uses[task] if b not in apart]
            return [each for each in found if each[1]]

        self.first = [masks(task, begun) for task in tasks]
        self.last = [masks(task, wanted) for task in tasks]
        self.over: list[list[list[tuple[int, int, int]]]] = [
            [
                [(b, others[task, b], problem.sizes[b]) for b in candidates if b not in wanted]
                for _, candidates in problem.overwrites.get(task, ())
            ]
            for task in tasks
        ]
        # where a task makes two buffers over the same others, running another one early may take one from it
        self._settles = all(len({c for each in over for c in each}) == sum(map(len, over)) for over in self.over)

    def cost(self, i: int, done: int) -> tuple[int, int]:
        """How many bytes more are alive while task `i` runs after the set `done`, and behind it."""
        defined = 0
        for others, size in self.first[i]:
            if not done & others:
                defined += size
        freed = 0
        for others, size in self.last[i]:
            if done & others == others:
                freed += size
        over = self.over[i]
        return (defined - _taken(over, done) if over else defined), defined - freed

    @property
    def floor(self) -> int:
        """Bytes that are alive at one time in any arrangement: while the task that uses most runs."""
        most = self.alive
        for i, over in enumerate(self.over):
            taken = sum(max((size for _, _, size in candidates), default=0) for candidates in over)
            most = max(most, self.passing + self._used[i] - taken)
        return most

    def arranged(self, bound: int, most: int, floor: int = 0) -> Arranged:
        """The arrangement with the least peak below a bound, of at most so many sets of tasks.

        Peaks below the `floor` are all the same.
        """
        full = (1 << len(self.tasks)) - 1
        ready = tuple(i for i, needed in enumerate(self.needs) if not needed)
        floor = max(floor, self.floor)
        if floor >= bound:
            return Arranged(None, 0, True)
        start = self._settled(floor, 0, self.alive, ready, [])
        heap = [(floor, 0, start[1], start[0])]
        states: dict[int, tuple[int, tuple[int, ...]]] = {start[0]: (start[1], start[2])}
        came: dict[int, tuple[int, list[int]]] = {start[0]: (-1, start[3])}
        least = {start[0]: floor}
        looked = 0
        while heap:
            peak, _, alive, done = heapq.heappop(heap)
            if peak > least[done]:
                continue
            if done == full:
                return Arranged(self._traced(came, done), looked, True)
            looked += 1
            if looked > most:
                return Arranged(None, looked, False)
            alive, ready = states.pop(done)
            for i in ready:
                needed, grows = self.cost(i, done)
                high = max(peak, alive + needed)
                if high >= bound:
                    continue
                opened = [f for f in self.followers[i] if not self.needs[f] & ~(done | 1 << i)]
                rest = (*(r for r in ready if r != i), *opened)
                after, lives, open_, ran = self._settled(high, done | 1 << i, alive + grows, rest, [i])
                if after not in least or high < least[after]:
                    least[after], states[after], came[after] = high, (lives, open_), (done, ran)
                    heapq.heappush(heap, (high, -after.bit_count(), lives, after))
        return Arranged(None, looked, True)

    def _settled(
        self, peak: int, done: int, alive: int, ready: tuple[int, ...], ran: list[int]
    ) -> tuple[int, int, tuple[int, ...], list[int]]:
        """Run what raises neither the peak nor the bytes alive: nothing is gained by waiting with it."""
        at = 0 if self._settles else len(ready)
        while at < len(ready):
            i = ready[at]
            needed, grows = self.cost(i, done)
            if grows > 0 or alive + needed > peak:
                at += 1
                continue
            done |= 1 << i
            alive += grows
            ran.append(i)
            opened = [f for f in self.followers[i] if not self.needs[f] & ~done]
            ready = (*(r for r in ready if r != i), *opened)
            at = 0
        return done, alive, ready, ran

    def _traced(self, came: dict[int, tuple[int, list[int]]], done: int) -> list[int]:
        steps: list[list[int]] = []
        while done >= 0:
            done, ran = came[done]
            steps.append(ran)
        return [self.tasks[i] for ran in reversed(steps) for i in ran]


def _taken(over: list[list[tuple[int, int, int]]], done: int) -> int:
    found, taken = 0, set()
    for candidates in over:
        for buffer, others, size in candidates:
            if done & others == others and buffer not in taken:
                taken.add(buffer)
                found += size
                break
    return found
