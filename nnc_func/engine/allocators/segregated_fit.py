"""Two-level segregated fit: free blocks in bins by size, of which the first that surely holds a request is taken.

Sources: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for real-time systems", 2004; tinygrad
(`tinygrad/runtime/support/memory.py`) plans its arenas by it, in execution order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from attrs import field, frozen

from nnc_func.engine.allocators.problems.problem import Problem

DIVISIONS = 5  # bits: each power of two is divided into 32 bins


@frozen
class SegregatedFit:
    """Good fit in the order of time: a request takes a block of the first bin all of whose blocks hold it.

    A bin holds the blocks between one multiple of a 32nd of a power of two and the next. A request is rounded up to
    such a multiple, and takes the block that was freed first of the first bin from there on; the rest is free. Blocks
    are joined with their free neighbours. At one step blocks are freed first; those that start together go by number.

    Attributes
    ----------
    divisions
        Bits: the binary logarithm of the bins a power of two.

    Examples
    --------
    >>> SegregatedFit()(Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]))
    [0, 64, 0]
    """

    divisions: int = field(default=DIVISIONS)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        sizes, lower, upper = problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist()
        alive = [i for i in range(len(sizes)) if sizes[i]]
        ends = sorted(alive, key=lambda i: (upper[i], i))
        blocks = _Blocks(4 * sum(sizes) + 1, self.divisions)
        offsets, freed = [0] * len(sizes), 0
        for i in sorted(alive, key=lambda i: (lower[i], i)):
            while upper[ends[freed]] <= lower[i]:
                blocks.free(offsets[ends[freed]], sizes[ends[freed]])
                freed += 1
            offsets[i] = blocks.take(sizes[i])
        return offsets


class _Blocks:
    """Free blocks in bins."""

    def __init__(self, total: int, divisions: int) -> None:
        self.divisions = divisions
        self.bins: dict[int, dict[int, None]] = {}  # bin -> the starts of its blocks, the first freed first
        self.used: list[int] = []  # bins with blocks, sorted
        self.starts: dict[int, int] = {}  # start -> bytes
        self.ends: dict[int, int] = {}  # end -> start
        self._add(0, total)

    def take(self, size: int) -> int:
        shift = max(0, size.bit_length() - 1 - self.divisions)
        wanted = self._bin(-(-size // (1 << shift)) << shift)  # all blocks from this bin on hold it
        found = self.bins[self.used[bisect_left(self.used, wanted)]]
        start = next(iter(found))
        there = self._remove(start)
        if there > size:
            self._add(start + size, there - size)
        return start

    def free(self, start: int, size: int) -> None:
        if start + size in self.starts:
            size += self._remove(start + size)
        if start in self.ends:
            before = self.ends[start]
            size += self._remove(before)
            start = before
        self._add(start, size)

    def _bin(self, size: int) -> int:
        power = size.bit_length() - 1
        part = (size << self.divisions >> power) - (1 << self.divisions)
        return (power << self.divisions) + part

    def _add(self, start: int, size: int) -> None:
        number = self._bin(size)
        if number not in self.bins:
            self.bins[number] = {}
            insort(self.used, number)
        self.bins[number][start] = None
        self.starts[start], self.ends[start + size] = size, start

    def _remove(self, start: int) -> int:
        size = self.starts.pop(start)
        del self.ends[start + size]
        number = self._bin(size)
        del self.bins[number][start]
        if not self.bins[number]:
            del self.bins[number]
            self.used.remove(number)
        return size
