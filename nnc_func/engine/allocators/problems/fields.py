"""What an allocation problem is made of: uses, gaps, pieces, and what its numbers mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.errors import PlanError

ALIGNMENT = 64  # bytes
FREE = -1  # the pin of a buffer that may lie anywhere
ALONE = -1  # the group of a buffer that shares its offset with no other
MOST_BYTES = (1 << 62) - 1  # of all buffers together, so that sums of offsets and sizes are 64-bit integers


def _columns(given: Any) -> NDArray[np.int64]:
    """As an array in column-major order: a column is a stream."""
    return np.asfortranarray(given)


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

    before: NDArray[np.int64] = field(converter=_columns)
    until: NDArray[np.int64] = field(converter=_columns)

    def apart(self, i: int) -> NDArray[np.bool_]:
        """For each buffer, whether all its uses are surely before all of buffer i's, or after them."""
        earlier = later = np.ones(len(self.before), np.bool_)
        for before, until in zip(self.before.T, self.until.T, strict=True):  # a column at a time: they are few
            earlier = earlier & (until <= before[i])
            later = later & (before >= until[i])
        return earlier | later

    def of(self, buffers: Any) -> Uses:
        """The uses of some of the buffers."""
        return Uses(self.before[buffers], self.until[buffers])


@frozen
class Gap:
    """A part of a buffer's life in which it is not alive, or in which only some of its bytes are.

    Attributes
    ----------
    buffer
        Its number.
    lower, upper
        Steps, half open, within the buffer's life.
    window
        The bytes ``(low, high)`` of the buffer that are alive in the gap, half open; None: none is.
    """

    buffer: int
    lower: int
    upper: int
    window: tuple[int, int] | None = None


def rows_of_gaps(given: Iterable[Gap]) -> tuple[Gap, ...]:
    """As a tuple.

    Raises
    ------
    PlanError
        Something else was given.
    """
    found = tuple(given)
    for gap in found:
        if not isinstance(gap, Gap):
            raise PlanError(f"wanted gaps as Gap(buffer, lower, upper), given {gap!r:.60}")
    return found


@frozen(eq=False)
class Pieces:
    """Rectangles of time and of bytes that buffers take, each with the offset of its buffer as its origin.

    Attributes
    ----------
    buffer
        The buffer of each piece; those of one buffer stand side by side, in the order of time.
    lower, upper
        Steps, half open.
    low, high
        Bytes from the buffer's offset on, half open.
    """

    buffer: Integers
    lower: Integers
    upper: Integers
    low: Integers
    high: Integers


def max_load(sizes: Any, lower: Any, upper: Any) -> int:
    """The most bytes alive at one time.

    Examples
    --------
    >>> max_load([10, 20], [0, 1], [1, 2])
    20
    """
    if not len(sizes):
        return 0
    size, low, up = (np.asarray(v, np.int64) for v in (sizes, lower, upper))
    first = int(low.min())
    if int(up.max()) - first <= 8 * len(size) + 1024:  # by counting
        change = np.zeros(int(up.max()) - first + 1, np.int64)
        np.add.at(change, low - first, size)
        np.subtract.at(change, up - first, size)
        return int(np.cumsum(change).max())
    times = np.concatenate((up, low))  # ends before starts where they meet
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(np.concatenate((-size, size))[order]).max())
