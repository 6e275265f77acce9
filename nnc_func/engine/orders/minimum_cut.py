"""Divide at the highest load, where as few bytes as possible are alive: a minimum cut says which tasks come before it.

What is alive while one task runs depends on the set of tasks that came before it. Of all those sets the one with the
fewest bytes is a minimum cut: a buffer is cut where one of its users is on this side and one on that. So what is proven
for a task holds for all orders, and sets that are found one after another, each inside its own stretch, make an order.

The cut is SciPy's; without SciPy nothing is divided.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem, loads, simulated_peak
from nnc_func.engine.orders.exact import FIRST

ENDLESS = 1 << 30  # more than all buffers together, in the unit in which they are counted


@frozen
class MinimumCut:
    """Divides an order at its highest load, again and again, at most so many times.

    Never more than the order that it starts from. A cut takes some 20 µs a task.

    Examples
    --------
    >>> problem = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> MinimumCut()(problem)
    [0, 2, 1, 3, 4]
    """

    cuts: int = 200

    def __call__(self, problem: OrderProblem) -> list[int]:
        """The order, from the best of some that take no time."""
        return self.improved(problem, min((each(problem) for each in FIRST), key=lambda o: simulated_peak(problem, o)))

    def improved(self, problem: OrderProblem, order: Sequence[int]) -> list[int]:
        """An order with a peak no higher than that of the one given."""
        best = order = list(order)
        least = -1
        network = _network(problem)
        starts = [0, len(order)]  # of the stretches: what is in one stays there
        divided: set[int] = set()
        while order and network is not None:
            high = [*loads(problem, order)]
            peak = max(high)
            if least < 0 or peak < least:
                least, best = peak, order
            at = high.index(peak)
            if order[at] in divided or len(divided) >= self.cuts:
                break
            start, end = starts[bisect_right(starts, at) - 1], starts[bisect_right(starts, at)]
            first, behind = network.parted(order, at, start, end)
            divided.add(order[at])
            order = [*order[:start], *first, order[at], *behind, *order[end:]]
            for one in {start + len(first), start + len(first) + 1}.difference(starts):
                insort(starts, one)
        return best


def cut_bound(problem: OrderProblem, *tasks: int) -> int:
    """The least bytes that are alive while one of these tasks runs, whatever comes before them; 0 without SciPy.

    Never less than `bound_at`, but by what the task writes over others. A cut takes some 20 µs a task of the problem.

    Examples
    --------
    While one of two chains runs, the other one's beginning is alive, or its end:

    >>> needs, uses = [(), (0,), (0,), (1,), (2,), (3, 4)], [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    >>> problem = OrderProblem(needs, uses, [4, 4, 9, 9, 4, 4])
    >>> from nnc_func.engine.orders import bound_at
    >>> cut_bound(problem, 1), bound_at(problem, 1)
    (17, 13)
    """
    network = _network(problem)
    if network is None:
        return 0
    return max((network.least(task, (), ())[0] - _spared(problem, task) for task in tasks), default=0)


def _spared(problem: OrderProblem, task: int) -> int:
    """Bytes that it may write over others, which the network counts twice."""
    return sum(problem.sizes[made] for made, others in problem.overwrites.get(task, ()) if others)


def _network(problem: OrderProblem) -> _Network | None:
    try:
        return _Network(problem)
    except ImportError:
        return None


class _Network:
    """Tasks, and for each buffer whether it is begun and whether it is done with: what is on the source's side has run.

    An arc without end keeps its head on the source's side if its tail is there; that from begun to done with is cut
    while the buffer is alive.
    """

    def __init__(self, problem: OrderProblem) -> None:
        self.problem = problem
        self._sparse: Any = importlib.import_module("scipy.sparse")
        self._search: Any = importlib.import_module("scipy.sparse.csgraph")
        count = len(problem)
        users = problem.users
        alive = [b for b, size in enumerate(problem.sizes) if size and users[b]]
        self.begun = {b: count + 2 * i for i, b in enumerate(alive)}  # that it is done with has the next number
        self.source, self.sink = count + 2 * len(alive), count + 2 * len(alive) + 1
        # sizes are rounded down, so that a cut is never too large
        self.unit = max(1, -(-sum(problem.sizes[b] for b in alive) // (ENDLESS - 1)))
        arcs = [(task, one) for task, needed in enumerate(problem.needs) for one in needed]
        for b, at in self.begun.items():
            arcs += [(user, at) for user in users[b]] + [(at + 1, user) for user in users[b]]
        arcs += [(self.begun[b] + 1, self.sink) for b in problem.lasting if b in self.begun]
        self._arcs = np.array(arcs, np.int32).reshape(-1, 2)
        first = np.array([*self.begun.values()], np.int32)
        self._cut = np.stack([first, first + 1], 1)
        self._capacities = np.array([problem.sizes[b] // self.unit for b in alive], np.int32)

    def parted(self, order: list[int], at: int, start: int, end: int) -> tuple[list[int], list[int]]:
        """What is between two places of an order, without the task at another: before it, and behind."""
        before = self.least(order[at], order[:start], order[end:])[1]
        stretch = [one for one in order[start:end] if one != order[at]]
        return [one for one in stretch if before[one]], [one for one in stretch if not before[one]]

    def least(self, task: int, inside: Iterable[int], outside: Iterable[int]) -> tuple[int, Any]:
        """The least bytes alive while a task runs, and for each one whether it comes before; some are told where."""
        problem = self.problem
        used = [self.begun[b] for b in problem.uses[task] if b in self.begun]
        before = [*problem.needs[task], *inside, *used]
        behind = [task, *problem.followers[task], *outside, *(at + 1 for at in used)]
        more = [(self.source, one) for one in before] + [(one, self.sink) for one in behind]
        arcs = np.concatenate([self._arcs, np.array(more, np.int32).reshape(-1, 2)])
        arcs = np.concatenate([np.unique(arcs, axis=0), self._cut])
        capacities = np.full(len(arcs), ENDLESS, np.int32)
        capacities[len(arcs) - len(self._cut) :] = self._capacities
        network = self._sparse.csr_array((capacities, (arcs[:, 0], arcs[:, 1])), shape=(self.sink + 1, self.sink + 1))
        found = self._search.maximum_flow(network, self.source, self.sink)
        rest = network - found.flow
        rest.data[rest.data < 0] = 0
        rest.eliminate_zeros()
        reached = np.zeros(self.sink + 1, bool)
        reached[self._search.breadth_first_order(rest, self.source, return_predecessors=False)] = True
        return int(found.flow_value) * self.unit, reached[: len(problem)].tolist()
