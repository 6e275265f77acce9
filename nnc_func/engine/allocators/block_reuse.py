"""Block reuse: whole blocks are handed from the dead to the living, and grow where they are too small.

Source: owlbarn/owl, `owl_computation_cpu_init.ml`, after the article on the memory of Owl's computation graph. It took
Mask R-CNN from 7 GB to 1. A block is never divided, so that much of a large one may lie idle.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import accumulate

from attrs import frozen

from nnc_func.engine.allocators.problems.problem import Problem


@frozen
class BlockReuse:
    """Each buffer in the order of time takes the smallest free block that holds it, else the largest, which grows.

    Where no block is free it opens one. Buffers that start together go by size, the largest first, then by number; of
    free blocks of one size the oldest is taken. Blocks lie one after another. O(n log n), and insertions.

    Examples
    --------
    >>> BlockReuse()(Problem([64, 64, 128], [0, 1, 2], [2, 3, 4]))
    [0, 128, 0]
    """

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        sizes, lower, upper = problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist()
        alive = [i for i in range(len(sizes)) if sizes[i]]
        ends = sorted(alive, key=lambda i: (upper[i], i))
        block_of = [0] * len(sizes)
        blocks: list[int] = []  # bytes
        free: list[tuple[int, int]] = []  # (bytes, block), sorted
        freed = 0
        for i in sorted(alive, key=lambda i: (lower[i], -sizes[i], i)):
            while upper[ends[freed]] <= lower[i]:
                block = block_of[ends[freed]]
                insort(free, (blocks[block], block))
                freed += 1
            block_of[i] = _taken(sizes[i], blocks, free)
        starts = [0, *accumulate(blocks)]
        return [starts[block] if size else 0 for block, size in zip(block_of, sizes, strict=True)]


def _taken(size: int, blocks: list[int], free: list[tuple[int, int]]) -> int:
    """A block for so many bytes."""
    if not free:
        blocks.append(size)
        return len(blocks) - 1
    at = min(bisect_left(free, (size, -1)), len(free) - 1)
    _, block = free.pop(at)
    blocks[block] = max(blocks[block], size)
    return block
