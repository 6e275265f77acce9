"""Best fit in execution order, coalescing: the allocator of ggml and of ONNX Runtime's memory patterns.

Run in both directions of time, and the smaller arena kept: a plan read backwards is a plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.allocators.greedy_by_size import GreedyBySize


@frozen
class BestFit:
    """Each buffer takes the smallest hole that holds it, in the order of time; ties go to the lowest offset.

    Buffers that start together go by size, the largest first, then by index. Deterministic; O(n log n) but for
    the insertion into the list of holes.

    Examples
    --------
    >>> BestFit()(Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]))
    [0, 64, 0]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        if problem.uses is not None:
            return GreedyBySize()(problem)
        sizes, lower, upper = problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist()
        forward = in_order(sizes, lower, upper)
        if arena_size(problem, forward) == problem.max_load:
            return forward
        backward = in_order(sizes, [-u for u in upper], [-v for v in lower])
        return min(forward, backward, key=lambda offsets: arena_size(problem, offsets))


def in_order(sizes: Sequence[int], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Offsets by best fit in the order of `lower`."""
    offsets = [0] * len(sizes)
    order = sorted((i for i in range(len(sizes)) if sizes[i]), key=lambda i: (lower[i], -sizes[i], i))
    ends = sorted(order, key=lambda i: (upper[i], i))
    holes = _Holes()
    freed = 0
    for i in order:
        while upper[ends[freed]] <= lower[i]:
            gone = ends[freed]
            holes.free(offsets[gone], sizes[gone])
            freed += 1
        offsets[i] = holes.take(sizes[i])
    return offsets


class _Holes:
    """Free ranges below the top, by size and by both ends."""

    __slots__ = ("_ends", "_sizes", "_starts", "top")

    def __init__(self) -> None:
        self.top = 0
        self._sizes: list[tuple[int, int]] = []  # (size, start), sorted
        self._starts: dict[int, int] = {}  # start -> size
        self._ends: dict[int, int] = {}  # end -> start

    def take(self, size: int) -> int:
        """The start of a range of that size: the smallest hole that holds it, else the top."""
        at = bisect_left(self._sizes, (size, 0))
        if at < len(self._sizes):
            found, start = self._sizes[at]
            self._remove(start, found)
            if found > size:
                self._add(start + size, found - size)
            return start
        last = self._ends.get(self.top)
        if last is not None:  # the hole under the top grows, rather than the arena by a whole buffer
            self._remove(last, self.top - last)
            self.top = last + size
            return last
        start = self.top
        self.top += size
        return start

    def free(self, start: int, size: int) -> None:
        """Give a range back, joined with the holes beside it."""
        after = self._starts.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        before = self._ends.get(start)
        if before is not None:
            self._remove(before, start - before)
            size += start - before
            start = before
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self._sizes, (size, start))
        self._starts[start] = size
        self._ends[start + size] = start

    def _remove(self, start: int, size: int) -> None:
        del self._sizes[bisect_left(self._sizes, (size, start))]
        del self._starts[start]
        del self._ends[start + size]
