"""Divide at the highest load, where as few bytes as possible are alive: a minimum cut says which tasks come before it.

What is alive while one task runs depends on the set of tasks that came before it. Of all those sets the one with the
fewest bytes is a minimum cut: a buffer is cut where one of its users is on this side and one on that. So what is proven
for a task holds for all orders, and sets that are found one after another, each inside its own stretch, make an order.

What must come before the task, or behind it, is no choice. The network is of the rest alone: at first of what is near
the task in the order that there is, since that is mostly enough to lower its load, and of the whole stretch only where
it is not. So most cuts are small, and the last one proves what is reached.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem, simulated_peak, taken_over
from nnc_func.engine.orders.maximum_flow import SINK, SOURCE, Cut, maximum_flow
from nnc_func.engine.orders.solution import FIRST, Solution

STEPS = 175  # arcs that are looked at, for each task of a problem: some 50 µs
NEAR, WIDER = 128, 4  # tasks on each side of a task that are looked at first, and how many times more after that


@frozen
class MinimumCut:
    """Lowers the highest load of an order by minimum cuts, again and again, as long as that lowers the peak.

    Never more than the order that it starts from. Deterministic: of equal cuts the one with the fewest tasks before.

    Attributes
    ----------
    steps
        Arcs of the problem and of networks that may be looked at, for each of its tasks. When so many were, the best
        order is given that was found by then. The same on each machine; some 0.4 µs each.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> MinimumCut()(problem)
    [0, 2, 1, 3, 4]
    """

    steps: float = STEPS

    def __call__(self, problem: OrderProblem) -> list[int]:
        """The order, from the best of some that take no time."""
        return self.improved(problem, min((each(problem) for each in FIRST), key=lambda o: simulated_peak(problem, o)))

    def improved(self, problem: OrderProblem, order: Sequence[int]) -> list[int]:
        """An order with a peak no higher than that of the one given."""
        return self.solved(problem, order).order

    def solved(self, problem: OrderProblem, order: Sequence[int]) -> Solution:
        """The same with what is known of it; its states are the cuts."""
        division = Division(problem, order, self.steps * len(problem))
        division.improve()
        return Solution(division.best, division.peak, division.bound, division.cuts)


def cut_bound(problem: OrderProblem, *tasks: int) -> int:
    """The least bytes that are alive while one of these tasks runs, whatever comes before them: the most of all.

    Never less than `bound_at`. The least to the byte where no task may choose what it writes over.

    Examples
    --------
    While one of two chains runs, the other one's beginning is alive, or its end:

    >>> needs, uses = [(), (0,), (0,), (1,), (2,), (3, 4)], [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    >>> problem = OrderProblem(needs, uses, [4, 4, 9, 9, 4, 4])
    >>> from nnc_func.engine.orders import bound_at
    >>> cut_bound(problem, 1), bound_at(problem, 1)
    (17, 13)
    """
    if not tasks:
        return 0
    whole = Division(problem, range(len(problem)))
    return max(whole.least(task) for task in tasks)


class Division:
    """An order in stretches: what is in one stays there, so that each may be arranged as if it were alone.

    Parameters
    ----------
    steps
        Arcs that may be looked at; a cut that is begun then is not used.

    Attributes
    ----------
    order
        As it is now.
    best, peak
        The one with the least peak so far, and that peak.
    bound
        Bytes; it is proven that no order has a lower peak.
    cuts
        How many there were that were used.
    looked
        Arcs that were looked at.
    """

    def __init__(self, problem: OrderProblem, order: Sequence[int], steps: float = math.inf) -> None:
        self.problem, self.steps = problem, steps
        self.order = [*order]
        self.cuts = self.looked = self.bound = 0
        count, buffers = len(self.order), len(problem.sizes)
        self.lasting = {*problem.lasting}
        self.at = [0] * count  # by task, its position
        self.first, self.last = [count] * buffers, [-1] * buffers  # by buffer, positions of its users
        for b in self.lasting:
            self.last[b] = count
        self.alive = [0] * count  # by position, the bytes alive there, with what is written over others
        self.loads = [0] * count  # the same without it
        self._before = [0] * (count + 1)  # by position, the bytes that are alive between it and the one before
        self._stretches: list[tuple[int, int, int, int]] = []  # a heap: peaks with a minus, where, starts, ends
        self._set(0, self.order)
        self._push(0, count)
        self.best, self.peak = [*self.order], max(self.loads, default=0)

    def improve(self) -> None:
        """Go on until the highest load is that of a task that is alone, or no cut lowers the peak."""
        while self._stretches and self.peak > self.bound and self.looked < self.steps:
            _, at, start, end = self._stretches[0]
            if end - start == 1 or not (self._nearby(at, start, end) or self._divided(at, start, end)):
                return
            self.cuts += 1
            if -self._stretches[0][0] < self.peak:
                self.peak, self.best = -self._stretches[0][0], [*self.order]

    def _nearby(self, at: int, start: int, end: int) -> bool:
        """Lower the highest load of a stretch by moving what is near it; False where that is not enough."""
        reach, high = NEAR, self.loads[at]
        while (at - reach > start or at + reach + 1 < end) and self.looked < self.steps:
            first, last = max(start, at - reach), min(end, at + reach + 1)
            was = self.order[first:last]
            network, found = self._cut(self.order[at], first, last, high)
            if found.is_least and network.least + found.flow < high:
                self._move(first, network.parted(was, found.before)[0])
                if max(self.loads[first:last]) < high:
                    heapq.heappop(self._stretches)
                    self._push(start, end)
                    return True
                self._move(first, was)
            reach *= WIDER
        return False

    def _divided(self, at: int, start: int, end: int) -> bool:
        """Divide a stretch at its highest load; False where that cannot lower the peak."""
        network, found = self._cut(self.order[at], start, end, self.peak)
        if end - start == len(self.order):  # so it is in any order
            self.bound = min(self.peak, network.least + found.flow)
        if not found.is_least or network.least + found.flow >= self.peak:
            return False
        tasks, middle = network.parted(self.order[start:end], found.before)
        heapq.heappop(self._stretches)
        self._move(start, tasks)
        middle += start
        for begin, stop in ((start, middle), (middle, middle + 1), (middle + 1, end)):
            self._push(begin, stop)
        return True

    def least(self, task: int) -> int:
        """The least bytes that are alive while a task runs, whatever comes before it."""
        network, found = self._cut(task, 0, len(self.order), math.inf)
        return network.least + found.flow

    def _cut(self, task: int, start: int, end: int, enough: float) -> tuple[_Network, Cut]:
        """What may run before a task and what behind it, of a stretch, until it is known that so much is alive."""
        network = _Network(self, task, start, end)
        self.looked += network.looked
        left = self.steps - self.looked
        found = maximum_flow(network.count, network.arcs, SOURCE, SINK, enough - network.least, left)
        self.looked += found.steps
        return network, found

    def _push(self, start: int, end: int) -> None:
        if start < end:
            most = max(self.loads[start:end])
            heapq.heappush(self._stretches, (-most, self.loads.index(most, start), start, end))

    def _move(self, start: int, tasks: list[int]) -> None:
        """As `_set`, without those at the beginning and at the end that stay where they are."""
        order, stop = self.order, len(tasks)
        same = next((i for i, task in enumerate(tasks) if order[start + i] != task), stop)
        while stop > same and order[start + stop - 1] == tasks[stop - 1]:
            stop -= 1
        if same < stop:
            self._set(start + same, tasks[same:stop])

    def _set(self, start: int, tasks: list[int]) -> None:
        """Run these tasks from a position on, which were there in another order: who is where, and what is alive."""
        problem, first, last, before = self.problem, self.first, self.last, self._before
        at, uses, sizes, overwrites = self.at, problem.uses, problem.sizes, problem.overwrites
        end = start + len(tasks)
        self.order[start:end] = tasks
        begins: dict[int, int] = {}  # by buffer, the first of its users here, and the last
        ends: dict[int, int] = {}
        for i, task in enumerate(tasks, start):
            at[task] = i
            for b in uses[task]:
                ends[b] = i
                if b not in begins:
                    begins[b] = i
            self.looked += len(uses[task])
        born, died = [0] * len(tasks), [0] * len(tasks)
        for b, i in begins.items():
            if first[b] >= start:
                first[b] = i
                born[i - start] += sizes[b]
            if last[b] < end:
                last[b] = i = ends[b]
                died[i - start] += sizes[b]
        alive = before[start]
        for i, task in enumerate(tasks, start):
            self.alive[i] = self.loads[i] = alive = alive + born[i - start]
            if died[i - start]:
                if task in overwrites:
                    self.loads[i] -= taken_over(problem, task, {b for b in uses[task] if last[b] == i})
                alive -= died[i - start]
            before[i + 1] = alive


class _Network:
    """What a task of a stretch may come before or behind, and what that costs: the rest is no choice.

    An arc without end keeps its head on the source's side if its tail is there. Of a buffer there is a node for whether
    it is begun and one for whether it is done with, with an arc between that is cut while it is alive; but where one
    of its users comes before all the others, or where it is begun before all or wanted behind all, that says as much.

    Attributes
    ----------
    count, arcs
        Of the network.
    least
        The bytes that are alive at any rate; the flow comes to them.
    looked
        Arcs of the problem that were looked at to make it.
    """

    def __init__(self, division: Division, task: int, start: int, end: int) -> None:
        self.division, self.task, self.start = division, task, start
        at = division.at
        problem, order = division.problem, division.order
        self.side = bytearray(len(order))  # by task: 1 if it comes before for sure, 2 if behind
        self.looked = end - start
        self._mark(task, 1, problem.needs, start, end)
        self._mark(task, 2, problem.followers, start, end)
        self.side[task] = 2
        free = [one for one in order[start:end] if not self.side[one]]
        self.number = number = {one: i for i, one in enumerate(free, 2)}
        self.count = len(free) + 2
        self.arcs: list[tuple[int, int, int]] = []
        self.endless = sum(problem.sizes) + 1
        self.least = division.alive[at[task]]
        self._supply, self._demand = [0] * self.count, [0] * self.count  # arcs from the source, and to the sink
        for one in free:
            self.looked += len(problem.needs[one])
            self.arcs += [(number[one], number[n], self.endless) for n in problem.needs[one] if n in number]
        self._overwriting(task)
        seen = {*problem.uses[task]}
        for one in free:
            for b in problem.uses[one]:
                if b not in seen:
                    seen.add(b)
                    if problem.sizes[b]:
                        self._passing(b, at[task])
        for node, (supply, demand) in enumerate(zip(self._supply, self._demand, strict=True)):
            through = min(supply, demand)  # flows at once
            self.least += through
            if supply > through:
                self.arcs.append((SOURCE, node, supply - through))
            elif demand > through:
                self.arcs.append((node, SINK, demand - through))

    def parted(self, stretch: Sequence[int], reached: Sequence[int]) -> tuple[list[int], int]:
        """The stretch with what comes before the task before it, else in the order given; and its place there."""
        side, number, task = self.side, self.number, self.task
        first = {one for one in stretch if side[one] == 1 or (not side[one] and reached[number[one]])}
        behind = [one for one in stretch if one not in first and one != task]
        return [*(one for one in stretch if one in first), task, *behind], len(first)

    def _mark(self, task: int, side: int, beside: Sequence[Sequence[int]], start: int, end: int) -> None:
        """Let all that a task needs in the stretch come before it, or all that needs it behind."""
        at, marks = self.division.at, self.side
        waiting = [task]
        while waiting:
            others = beside[waiting.pop()]
            self.looked += len(others)
            for one in others:
                if not marks[one] and start <= at[one] < end:
                    marks[one] = side
                    waiting.append(one)

    def _users(self, buffer: int, but: int) -> tuple[bool, bool, list[int]]:
        """Whether a buffer is used before the task, and behind it; and by whom where that is a choice."""
        division, side, number = self.division, self.side, self.number
        at, start = division.at, self.start
        before, behind = False, buffer in division.lasting
        inside = []
        users = division.problem.users[buffer]
        self.looked += len(users)
        for user in users:
            if user in number:
                inside.append(user)
            elif user == but:
                continue
            elif side[user] == 1 or (not side[user] and at[user] < start):
                before = True
            else:
                behind = True
        return before, behind, inside

    def _passing(self, buffer: int, here: int) -> None:
        """An arc for a buffer that the task does not use."""
        division, number = self.division, self.number
        size, needs = division.problem.sizes[buffer], division.problem.needs
        before, behind, inside = self._users(buffer, -1)
        if before and behind:
            return
        if division.first[buffer] < here < division.last[buffer]:
            self.least -= size
        inside.sort(key=division.at.__getitem__)
        if before:
            self._supply[self._done(inside)] += size
            return
        first, *others = inside
        if all(first in needs[one] for one in others):
            begun = number[first]
        else:
            begun, others = self._node(), inside
            self.arcs += [(number[one], begun, self.endless) for one in inside]
        if behind:
            self._demand[begun] += size
        elif others:
            self.arcs.append((begun, self._done(others), size))

    def _overwriting(self, task: int) -> None:
        """What the task may write over others, if these have no users behind it: those bytes are not alive then."""
        problem = self.division.problem
        for made, others in problem.overwrites.get(task, ()):
            found = [self._users(b, task) for b in others]
            choices = [inside for _, behind, inside in found if not behind]
            if choices:
                self.least -= problem.sizes[made]
            if len(choices) == 1 and choices[0]:  # of several it is taken for granted
                self._supply[self._done(choices[0])] += problem.sizes[made]

    def _node(self) -> int:
        self._supply.append(0)
        self._demand.append(0)
        self.count += 1
        return self.count - 1

    def _done(self, users: Sequence[int]) -> int:
        """The node that is on the source's side only if all these tasks are."""
        if len(users) == 1:
            return self.number[users[0]]
        node = self._node()
        self.arcs += [(node, self.number[one], self.endless) for one in users]
        return node
