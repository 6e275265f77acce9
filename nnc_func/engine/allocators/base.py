"""The allocation problem and its answer as data, and what an allocator is. Nothing here knows of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Protocol

import numpy as np
from attrs import field, frozen

from nnc_func.errors import PlanError

ALIGNMENT = 64  # bytes


@frozen(eq=False)
class Problem:
    """Buffers that want a place in one arena.

    Attributes
    ----------
    sizes
        Bytes, one for each buffer.
    lower, upper
        Lifetimes in steps, half open: a buffer is alive at ``lower <= t < upper``.
    alignment
        Every offset is a multiple of it, in bytes.

    Raises
    ------
    PlanError
        A negative size, or a lifetime that ends before it starts.

    Examples
    --------
    >>> Problem([64, 64, 64], [0, 1, 2], [2, 3, 4]).max_load
    128
    """

    sizes: Sequence[int]
    lower: Sequence[int]
    upper: Sequence[int]
    alignment: int = field(default=ALIGNMENT)

    def __attrs_post_init__(self) -> None:
        if not len(self.sizes) == len(self.lower) == len(self.upper):
            raise PlanError(
                f"{len(self.sizes)} sizes, {len(self.lower)} starts, {len(self.upper)} ends: wanted as many"
            )
        if self.alignment < 1:
            raise PlanError(f"alignment is at least 1 byte, given {self.alignment}")
        for i, (size, low, up) in enumerate(zip(self.sizes, self.lower, self.upper, strict=True)):
            if size < 0 or low >= up:
                raise PlanError(
                    f"buffer {i}: {size} bytes alive in [{low}, {up}); wanted size >= 0 and a lifetime of 1 step"
                )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def rounded(self) -> list[int]:
        """Sizes rounded up to the alignment: what they take in any plan whose offsets are aligned."""
        a = self.alignment
        return [-(-s // a) * a for s in self.sizes]

    @property
    def max_load(self) -> int:
        """The most bytes alive at one time, sizes rounded up: no plan is smaller."""
        return max_load(self.rounded, self.lower, self.upper)


def max_load(sizes: Sequence[int], lower: Sequence[int], upper: Sequence[int]) -> int:
    """The most bytes alive at one time.

    Examples
    --------
    >>> max_load([10, 20], [0, 1], [1, 2])
    20
    """
    if not len(sizes):
        return 0
    end = max(upper) + 1
    change = np.zeros(end, np.int64)
    np.add.at(change, np.asarray(lower), np.asarray(sizes, np.int64))
    np.subtract.at(change, np.asarray(upper), np.asarray(sizes, np.int64))
    return int(np.cumsum(change).max())


class Allocator(Protocol):
    """Maps a problem to one offset a buffer, in bytes. It knows nothing else, and is deterministic."""

    def __call__(self, problem: Problem) -> Sequence[int]: ...


def answered(allocator: Allocator, problem: Problem) -> list[int]:
    """The allocator's offsets.

    Raises
    ------
    PlanError
        They are not one integer, zero or more, a buffer; names the allocator. Overlaps are for a plan's `verify`.
    """
    name = getattr(allocator, "__name__", None) or type(allocator).__name__
    given = allocator(problem)
    try:
        offsets = [index(o) for o in given]
    except TypeError as error:
        raise PlanError(f"the allocator {name} gave no integers, one a buffer, but {given!r:.80}: {error}") from None
    if len(offsets) != len(problem):
        raise PlanError(f"the allocator {name} gave {len(offsets)} offsets for {len(problem)} buffers")
    if any(o < 0 for o in offsets):
        raise PlanError(f"the allocator {name} gave a negative offset, {min(offsets)}")
    return offsets


def arena_size(problem: Problem, offsets: Sequence[int]) -> int:
    """Bytes of the arena that a plan needs."""
    return max((o + s for o, s in zip(offsets, problem.rounded, strict=True)), default=0)
