"""Flow graph as in the article on NNC's tensor allocation: the buffer with the most conflicts first, with companions.

Source: "Towards Optimal Tensor Allocation", the article of 2018 on libnnc.org that liuliu/ccv's code grew out of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.flow_graph import SINK, SOURCE, Flow
from nnc_func.engine.allocators.problems.problem import Problem

COMPANIONS = 2  # larger buffers that are placed together with one


@frozen
class FlowGraphArticle:
    """Of buffers with the most conflicts each is a candidate, also with one or two larger ones of other times.

    Candidates go by the size of their largest, then by their conflicts. The first for which an edge between two buffers
    has room is placed there, in the order of time; where none has, the first gets a region of its own. Ties go to the
    lower numbers. O(n²) to O(n³), in whole arrays.

    Examples
    --------
    >>> FlowGraphArticle()(Problem([128, 192, 128], [0, 2, 0], [1, 3, 2]))
    [0, 0, 192]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        flow, sizes = Flow(problem), problem.rounded
        conflicts = np.array([np.count_nonzero(problem.conflicting(i)) for i in range(len(problem))], np.int64)
        left: NDArray[np.bool_] = sizes > 0
        while left.any():
            candidates = sorted(
                _candidates(problem, conflicts, left),
                key=lambda c: (-max(int(sizes[i]) for i in c), -sum(int(conflicts[i]) for i in c), c),
            )
            edges = ((_edge(flow, c), c) for c in candidates)
            edge, chosen = next(((e, c) for e, c in edges if e >= 0), (-1, candidates[0]))
            flow.insert(edge, chosen)
            left[list(chosen)] = False
        return flow.placed()


def _candidates(problem: Problem, conflicts: NDArray[np.int64], left: NDArray[np.bool_]) -> Iterator[tuple[int, ...]]:
    """Buffers that are left with the most conflicts, alone and with companions, in the order of time."""
    most = conflicts[left].max()
    for i in np.flatnonzero(left & (conflicts == most)).tolist():
        chain: tuple[int, ...] = (i,)
        free = left & ~problem.conflicting(i)
        yield chain
        for _ in range(COMPANIONS):
            larger = np.flatnonzero(free & (problem.sizes > problem.sizes[i]))
            if not len(larger):
                break
            other = int(larger[np.lexsort((larger, -problem.sizes[larger]))[0]])
            free &= ~problem.conflicting(other)
            chain = tuple(sorted((*chain, other), key=lambda j: (int(problem.lower[j]), j)))
            yield chain


def _edge(flow: Flow, chain: tuple[int, ...]) -> int:
    """The first edge between two buffers with room for a chain, or -1."""
    begin, end, nbytes, *_ = flow.rows[:, : flow.count]
    inner = (begin != SOURCE) & (end != SINK) & (nbytes >= max(flow.sizes[i] for i in chain))
    fits = np.flatnonzero(flow.between(chain[0], chain[-1]) & inner)
    return int(fits[0]) if len(fits) else -1
