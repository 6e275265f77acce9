"""Best fit in execution order, coalescing: the allocator of ggml and of ONNX Runtime's memory patterns.

Run in both directions of time, and the smaller arena kept: a plan read backwards is a plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.allocators.greedy import GREEDY_BY_SIZE
from nnc_func.engine.allocators.problems.conversion import Integers


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
            return GREEDY_BY_SIZE(problem)
        return either_way(problem, in_order)


def either_way(problem: Problem, fit: Callable[[Integers, Integers, Integers], list[int]]) -> list[int]:
    """The offsets of a fit forwards in time, or backwards where that takes less; only forwards where it is least.

    Examples
    --------
    >>> either_way(Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]), in_order)
    [0, 64, 0]
    """
    forward = fit(problem.rounded, problem.lower, problem.upper)
    needed = arena_size(problem, forward)
    if needed == problem.max_load:
        return forward
    backward = fit(problem.rounded, -problem.upper, -problem.lower)
    return backward if arena_size(problem, backward) < needed else forward


def in_order(sizes: Integers, lower: Integers, upper: Integers) -> list[int]:
    """Offsets by best fit in the order of `lower`.

    Examples
    --------
    >>> in_order(np.array([64, 64, 32]), np.array([0, 0, 1]), np.array([9, 1, 2]))
    [0, 64, 64]
    """
    some, offsets = np.flatnonzero(sizes), [0] * len(sizes)
    fill(offsets, sizes, lower, upper, some, some[:0])
    return offsets


def fill(
    offsets: list[int], sizes: Integers, lower: Integers, upper: Integers, some: Integers, placed: Integers
) -> None:
    """Write the offsets of some buffers by best fit in the order of `lower`, beside those that have a place.

    What is `placed` lies without gaps from 0 on, and is alive when the first of the others comes. Above it these take
    the high ends of holes, which grow downwards; without it the low ends.
    """
    order = some[np.lexsort((-sizes[some], lower[some]))]
    both = np.concatenate((placed, some))
    ends = both[np.argsort(upper[both], kind="stable")]
    gone, until = ends.tolist(), upper[ends].tolist()
    size = sizes.tolist()
    holes = _Holes(int(sizes[both].sum()), int(sizes[placed].sum()))
    take = holes.take_end if len(placed) else holes.take
    freed = 0
    for i, start in zip(order.tolist(), lower[order].tolist(), strict=True):
        while until[freed] <= start:
            holes.free(offsets[gone[freed]], size[gone[freed]])
            freed += 1
        offsets[i] = take(size[i])


class _Holes:
    """Free ranges below the top, by size and by both ends."""

    __slots__ = ("_mask", "_shift", "_sizes", "_starts", "_stops", "top")

    def __init__(self, most: int, top: int = 0) -> None:
        self.top = top
        self._shift = most.bit_length()
        self._mask = (1 << self._shift) - 1
        self._sizes: list[int] = []  # size << shift | start, sorted
        self._starts: dict[int, int] = {}  # start -> stop
        self._stops: dict[int, int] = {}  # stop -> start

    def take(self, size: int) -> int:
        """The start of a range of that size: the low end of the smallest hole that holds it, else the top."""
        sizes, shift = self._sizes, self._shift
        at = bisect_left(sizes, size << shift)
        if at == len(sizes):
            return self._on_top(size)
        start = sizes.pop(at) & self._mask
        stop, rest = self._starts.pop(start), start + size
        if rest == stop:
            del self._stops[stop]
        else:
            self._starts[rest], self._stops[stop] = stop, rest
            insort(sizes, stop - rest << shift | rest)
        return start

    def take_end(self, size: int) -> int:
        """As `take`, the high end of the hole."""
        sizes, shift = self._sizes, self._shift
        at = bisect_left(sizes, size << shift)
        if at == len(sizes):
            return self._on_top(size)
        start = sizes.pop(at) & self._mask
        stop = self._starts.pop(start)
        del self._stops[stop]
        rest = stop - size
        if start < rest:
            self._starts[start], self._stops[rest] = rest, start
            insort(sizes, rest - start << self._shift | start)
        return rest

    def _on_top(self, size: int) -> int:
        """The hole under the top grows, rather than the arena by a whole buffer."""
        start = self._stops.pop(self.top, self.top)
        if start < self.top:
            del self._starts[start]
            del self._sizes[bisect_left(self._sizes, self.top - start << self._shift | start)]
        self.top = start + size
        return start

    def free(self, start: int, size: int) -> None:
        """Give a range back, joined with the holes beside it."""
        starts, stops, sizes, shift, stop = self._starts, self._stops, self._sizes, self._shift, start + size
        after = starts.pop(stop, 0)
        if after:
            del sizes[bisect_left(sizes, after - stop << shift | stop)]
            stop = after
        before = stops.pop(start, start)
        if before < start:
            del sizes[bisect_left(sizes, start - before << shift | before)]
            start = before
        starts[start], stops[stop] = stop, start
        insort(sizes, stop - start << shift | start)
