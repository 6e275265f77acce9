"""Execution order: the allocator of a running program, replayed. Best fit with coalescing, forwards in time only.

Sources: ggml's graph allocator (ggml-org/ggml, `ggml-alloc.c`) and ONNX Runtime's memory patterns
(microsoft/onnxruntime, `mem_pattern_planner.h`), which trace the allocations of one run and keep their offsets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from attrs import frozen

from nnc_func.engine.allocators.problems.problem import Problem


@frozen
class ExecutionOrder:
    """Each buffer takes the smallest hole below the top that holds it, else it is put on top; ties go to the lowest.

    Freed bytes are joined with free ones beside them, and below the top they lower it. Buffers that start together go
    by size, the largest first, then by number. O(n) times the number of holes.

    Examples
    --------
    >>> ExecutionOrder()(Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]))
    [0, 64, 0]
    """

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        sizes, lower, upper = problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist()
        order = sorted((i for i in range(len(sizes)) if sizes[i]), key=lambda i: (lower[i], -sizes[i], i))
        ends = sorted(order, key=lambda i: (upper[i], i))
        offsets, freed, top = [0] * len(sizes), 0, 0
        holes: list[tuple[int, int]] = []  # (start, end), below the top, sorted
        for i in order:
            while upper[ends[freed]] <= lower[i]:
                gone = ends[freed]
                top = _free(holes, offsets[gone], offsets[gone] + sizes[gone], top)
                freed += 1
            fitting = [(end - start, start, end) for start, end in holes if end - start >= sizes[i]]
            if not fitting:
                offsets[i] = top
                top += sizes[i]
                continue
            _, start, end = min(fitting)
            at = bisect_left(holes, (start, end))
            offsets[i] = start
            holes[at : at + 1] = [(start + sizes[i], end)] if end - start > sizes[i] else []
        return offsets


def _free(holes: list[tuple[int, int]], start: int, end: int, top: int) -> int:
    """Give bytes back, joined with the holes beside them; the top, lower where they were under it."""
    at = bisect_left(holes, (start, end))
    if at < len(holes) and holes[at][0] == end:
        end = holes.pop(at)[1]
    if at and holes[at - 1][1] == start:
        start = holes.pop(at - 1)[0]
    if end == top:
        return start
    insort(holes, (start, end))
    return top
