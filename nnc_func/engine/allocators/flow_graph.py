"""Flow graph: bytes flow from buffers that are dead to buffers that are not alive yet, the largest buffer first.

Source: liuliu/ccv, `lib/nnc/ccv_nnc_symbolic_graph_compile.c`, `_ccv_nnc_tensor_alloc_prep_new_and_free_exec_dep`. Its
article describes another choice of what comes next: see `flow_graph_article`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.base import Integers, Problem

SOURCE, SINK = -1, -2
NEVER = 1 << 62


@frozen
class FlowGraph:
    """Each buffer, the largest first, takes a part of what one dead buffer leaves to one that is not alive yet.

    Of buffers of one size the one with the most conflicts comes first, then the one with the lowest number. Of the
    edges that hold it, it takes the one that idles for the fewest steps; edges from the source or to the sink come
    last. Where there is none, it opens a region of its own. A buffer never lies over two that are beside each other.
    O(n²), in whole arrays.

    Examples
    --------
    Where it misses the optimum, which is 256, with the fewest buffers:

    >>> FlowGraph()(Problem([128, 192, 128], [0, 2, 0], [1, 3, 2]))
    [0, 0, 192]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        flow, sizes = Flow(problem), problem.rounded
        conflicts = np.array([np.count_nonzero(problem.conflicting(i)) for i in range(len(problem))], np.int64)
        stuck = np.zeros(len(problem), np.bool_)
        for size in np.unique(sizes[sizes > 0])[::-1].tolist():
            left = np.flatnonzero(sizes == size)
            while len(left):
                order = left[np.lexsort((left, -conflicts[left]))]
                found = ((i, edge) for i in order[~stuck[order]].tolist() if (edge := self._edge(flow, i, stuck)) >= 0)
                i, edge = next(found, (int(order[0]), -1))
                flow.insert(edge, [i])
                if edge < 0:
                    apart = (problem.upper <= problem.lower[i]) | (problem.lower >= problem.upper[i])
                    stuck[apart & (sizes <= size)] = False
                conflicts[problem.conflicting(i)] -= 1
                left = left[left != i]
        return flow.placed()

    @staticmethod
    def _edge(flow: Flow, i: int, stuck: NDArray[np.bool_]) -> int:
        edge = flow.tightest(i)
        stuck[i] = edge < 0
        return edge


class Flow:
    """Which bytes go from which buffer to which: one row an edge."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.steps = int(problem.upper.max(initial=1) - problem.lower.min(initial=0))
        self.sizes = problem.rounded.tolist()
        self.lower, self.upper = problem.lower.tolist(), problem.upper.tolist()
        self.count = 0
        self.rows: Integers = np.zeros((7, 64), np.int64)  # from, to, bytes, offset, region, end of from, start of to
        self.regions: list[int] = []  # bytes
        self.place: dict[int, tuple[int, int]] = {}  # buffer -> region, offset in it

    def between(self, first: int, last: int) -> NDArray[np.bool_]:
        """Of each edge whether it goes from what is dead before the first to what starts after the last has died."""
        begin, end, *_, ended, starts = self.rows[:, : self.count]
        found: NDArray[np.bool_] = (ended <= self.lower[first]) & (starts >= self.upper[last])
        if self.problem.uses is not None:
            for hurt in (self.problem.conflicting(first), self.problem.conflicting(last)):
                hurt = np.concatenate((hurt, np.zeros(2, np.bool_)))  # the sink is at -2, the source at -1
                found &= ~hurt[begin] & ~hurt[end]
        return found

    def tightest(self, i: int) -> int:
        """The edge with room for a buffer that idles for the fewest steps, or -1."""
        begin, end, nbytes, _, _, ended, starts = self.rows[:, : self.count]
        fits = np.flatnonzero(self.between(i, i) & (nbytes >= self.sizes[i]))
        if not len(fits):
            return -1
        before = np.where(begin[fits] == SOURCE, self.steps, self.lower[i] - ended[fits] + 1)
        after = np.where(end[fits] == SINK, self.steps, starts[fits] - self.upper[i] + 1)
        return int(fits[np.lexsort((fits, before, before + after))[0]])

    def insert(self, edge: int, chain: Sequence[int]) -> None:
        """Put buffers, in the order of time, at the start of an edge; -1: in a region of their own."""
        most = max(self.sizes[i] for i in chain)
        if edge < 0:
            begin, end, offset, region = SOURCE, SINK, 0, len(self.regions)
            self.regions.append(most)
        else:
            begin, end, _, offset, region = (int(v) for v in self.rows[:5, edge])
            self.rows[2, edge] -= most
            self.rows[3, edge] += most
        holders = [(begin, 0, most)]  # who has which bytes of the place so far
        for i in chain:
            self.place[i] = region, offset
            holders = [*self._hand_over(holders, i, self.sizes[i], offset, region), (i, 0, self.sizes[i])]
        self._hand_over(holders, end, most, offset, region)

    def _hand_over(
        self, holders: list[tuple[int, int, int]], to: int, size: int, offset: int, region: int
    ) -> list[tuple[int, int, int]]:
        """The first bytes go to another; what the holders keep."""
        kept = []
        for holder, low, high in holders:
            if low < min(high, size):
                self._add(holder, to, min(high, size) - low, offset + low, region)
            if high > max(low, size):
                kept.append((holder, max(low, size), high))
        return kept

    def _add(self, begin: int, end: int, nbytes: int, offset: int, region: int) -> None:
        if self.count == self.rows.shape[1]:
            self.rows = np.concatenate((self.rows, np.zeros_like(self.rows)), axis=1)
        ended = -NEVER if begin == SOURCE else self.upper[begin]
        starts = NEVER if end == SINK else self.lower[end]
        self.rows[:, self.count] = begin, end, nbytes, offset, region, ended, starts
        self.count += 1

    def placed(self) -> list[int]:
        """The offset of each buffer, regions one after another."""
        bases = np.concatenate(([0], np.cumsum(self.regions, dtype=np.int64))).tolist()
        found = [0] * len(self.sizes)
        for i, (region, offset) in self.place.items():
            found[i] = bases[region] + offset
        return found
