"""What a caching allocator would do: PyTorch's, which plans nothing and serves one request after another.

Source: pytorch/pytorch, `c10/cuda/CUDACachingAllocator.cpp`, with its constants and without what is set by
``PYTORCH_CUDA_ALLOC_CONF``. It is the baseline of frameworks that compute at once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence

from attrs import define, frozen

from nnc_func.engine.allocators.problems.problem import Problem

MIB = 1 << 20
ROUNDED = 512  # bytes: sizes are rounded up to multiples
SMALL = MIB  # requests up to here are served by segments of
SMALL_SEGMENT = 2 * MIB
LARGE = 10 * MIB  # larger ones below here, by segments of
LARGE_SEGMENT = 20 * MIB
LARGE_ROUNDED = 2 * MIB  # and all others by segments of multiples of this


@define(eq=False)
class _Block:
    """Bytes of a segment, in use or free, between two neighbours."""

    start: int
    size: int
    is_small: bool
    before: _Block | None = None
    after: _Block | None = None
    is_free: bool = False


class _Cache:
    """The segments, and the free blocks in them: of small requests and of large ones, by size and by address."""

    def __init__(self, step: int) -> None:
        self.reserved, self._step = 0, step
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, _Block] = {}

    def take(self, size: int) -> _Block:
        """The smallest free block that is large enough, its rest split off; or one of a new segment."""
        is_small = size <= SMALL
        free = self._free[is_small]
        at = bisect_left(free, (size, -1))
        block = self._leave(free[at][1]) if at < len(free) else self._segment(size, is_small)
        rest = block.size - size
        if rest >= ROUNDED if is_small else rest > SMALL:
            other = _Block(block.start + size, rest, is_small, block, block.after)
            if block.after is not None:
                block.after.before = other
            block.after, block.size = other, size
            self._enter(other)
        return block

    def give(self, block: _Block) -> None:
        """It is free, and one with its free neighbours."""
        before, after = block.before, block.after
        if before is not None and before.is_free:
            self._leave(before.start)
            before.size += block.size
            before.after, block = after, before
        if after is not None and after.is_free:
            self._leave(after.start)
            block.size += after.size
            block.after = after.after
        if block.after is not None:
            block.after.before = block
        self._enter(block)

    def _segment(self, size: int, is_small: bool) -> _Block:
        if is_small:
            nbytes = SMALL_SEGMENT
        else:
            nbytes = LARGE_SEGMENT if size < LARGE else -(-size // LARGE_ROUNDED) * LARGE_ROUNDED
        nbytes = -(-nbytes // self._step) * self._step
        made = _Block(self.reserved, nbytes, is_small)
        self.reserved += nbytes
        return made

    def _enter(self, block: _Block) -> None:
        block.is_free = True
        self._at[block.start] = block
        insort(self._free[block.is_small], (block.size, block.start))

    def _leave(self, start: int) -> _Block:
        block = self._at.pop(start)
        block.is_free = False
        free = self._free[block.is_small]
        del free[bisect_left(free, (block.size, start))]
        return block


@frozen
class Caching:
    """Each buffer in the order of time takes the smallest free block that holds it, of those of about its size.

    A block that is larger is split; what is freed is one with its free neighbours. Where no block is free, a segment is
    asked for: 2 MiB for requests up to 1 MiB, 20 MiB for those below 10 MiB, else a multiple of 2 MiB. Segments are
    never given back, and lie one after another in the arena, which ends with the last byte that was ever used:
    `reserved` counts whole segments. What ends at a step is free before what begins there; of what begins together the
    lower number comes first. O(n log n), and insertions.

    Examples
    --------
    >>> problem = Problem([700, 300, 900], [0, 1, 2], [2, 3, 4], 512)
    >>> Caching()(problem), Caching().reserved(problem)
    ([0, 1024, 0], 2097152)
    """

    def __call__(self, problem: Problem) -> Sequence[int]:
        """As the class says."""
        return self._placed(problem)[0]

    def reserved(self, problem: Problem) -> int:
        """Bytes of all segments: what ``torch.cuda.memory_reserved`` tells."""
        return self._placed(problem)[1]

    def _placed(self, problem: Problem) -> tuple[list[int], int]:
        alignment = problem.alignment if isinstance(problem.alignment, int) else math.lcm(*problem.alignment.tolist())
        step = math.lcm(ROUNDED, alignment)
        cache, offsets = _Cache(step), [0] * len(problem)
        taken: dict[int, _Block] = {}
        sizes = problem.sizes.tolist()
        ends = [(t, 0, i) for i, t in enumerate(problem.upper.tolist())]
        starts = [(t, 1, i) for i, t in enumerate(problem.lower.tolist())]
        for _, begins, i in sorted(ends + starts):
            if begins:
                taken[i] = block = cache.take(max(1, -(-sizes[i] // step)) * step)
                offsets[i] = block.start
            else:
                cache.give(taken.pop(i))
        return offsets, cache.reserved
