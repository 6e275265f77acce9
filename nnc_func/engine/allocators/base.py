"""The allocation problem and its answer as data, and what an allocator is. Nothing here knows of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import index
from typing import Protocol

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from nnc_func.errors import PlanError

ALIGNMENT = 64  # bytes


@frozen(eq=False)
class Uses:
    """When buffers are used where streams run side by side: one row a buffer, one column a stream.

    Attributes
    ----------
    before
        How many tasks of each stream have surely run before the first use of the buffer.
    until
        How many tasks of each stream there are up to the last one that uses it; 0 where none does.

    Examples
    --------
    Two buffers of stream 0, one after the other, and one of stream 1, which waits for nothing:

    >>> Uses(np.array([[0, 0], [1, 0], [0, 0]]), np.array([[1, 0], [2, 0], [0, 1]])).apart(0)
    array([False,  True, False])
    """

    before: NDArray[np.int64] = field(converter=np.asfortranarray)
    until: NDArray[np.int64] = field(converter=np.asfortranarray)

    def apart(self, i: int) -> NDArray[np.bool_]:
        """For each buffer, whether all its uses are surely before all of buffer i's, or after them."""
        earlier = later = np.ones(len(self.before), np.bool_)
        for before, until in zip(self.before.T, self.until.T, strict=True):  # a column at a time: they are few
            earlier = earlier & (until <= before[i])
            later = later & (before >= until[i])
        return earlier | later

    def of(self, buffers: Sequence[int]) -> Uses:
        """The uses of some of the buffers."""
        return Uses(self.before[buffers], self.until[buffers])


@frozen(eq=False, slots=False)
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
    uses
        Where streams run side by side, lifetimes are of one order of many, and two buffers may share a place only if
        they do not overlap in that order, and are apart by their uses.

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
    uses: Uses | None = None

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

    def conflicting(self, i: int) -> NDArray[np.bool_]:
        """For each buffer, whether it may not share a place with buffer i; so it is with i itself."""
        lower, upper = self._lifetimes
        found: NDArray[np.bool_] = (lower < upper[i]) & (upper > lower[i])
        return found if self.uses is None else found | ~self.uses.apart(i)

    @cached_property
    def _lifetimes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.asarray(self.lower, np.int64), np.asarray(self.upper, np.int64)

    @property
    def widened(self) -> Problem:
        """The problem by lifetimes alone: those of buffers that conflict overlap, being longer than they need be."""
        if self.uses is None:
            return self
        lower, upper = self._lifetimes[0].copy(), self._lifetimes[1]
        for i in range(len(self)):
            lower[i] = min(lower[i], upper[self.conflicting(i)].min() - 1)
        return evolve(self, lower=[*map(int, lower)], uses=None)


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
    """Maps a problem to one offset a buffer, in bytes. It knows nothing else, and is deterministic.

    One that minds `Problem.conflicting`, or `Problem.uses`, says so by an attribute `partial` that is true; any other
    is given a problem whose lifetimes say all.
    """

    def __call__(self, problem: Problem) -> Sequence[int]: ...


def answered(allocator: Allocator, problem: Problem) -> list[int]:
    """The allocator's offsets.

    Raises
    ------
    PlanError
        They are not one integer, zero or more, a buffer; names the allocator. Overlaps are for a plan's `verify`.
    """
    name = getattr(allocator, "__name__", None) or type(allocator).__name__
    given = allocator(problem if getattr(allocator, "partial", False) else problem.widened)
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
