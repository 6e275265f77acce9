"""Which values of a buffer a write may meet, where there are many: parts of one tensor, side by side. For the verifier.

Rows of columns take bytes far apart, so that the first and the last byte say little: what tells columns apart is where
they lie within a step of the longest stride.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field

from nnc_func.engine.verifying.regions import Region

FEW = 16  # values that are held against each other one by one


def _row(region: Region) -> tuple[int, int, int, int, int]:
    """First byte and end; the longest stride, and the same within a step of it."""
    stride = max((abs(s) for _, s in region.axes), default=0)
    inner = region.high - region.low - sum((n - 1) * abs(s) for n, s in region.axes if abs(s) == stride)
    first = region.low % stride if stride else 0
    if not stride or first + inner > stride:
        first, inner = 0, max(stride, 1)
    return region.low, region.high, stride, first, first + inner


@define
class Nearby:
    """The valid slots of one buffer, as far as they have been looked at.

    Attributes
    ----------
    slots
        The list of them, to whose end others are added; another list where one is not valid any more.
    """

    slots: list[int]
    low: int = 0
    high: int = 0
    _count: int = 0
    _rows: np.ndarray[tuple[int, int], np.dtype[np.int64]] = field(factory=lambda: np.zeros((5, 4 * FEW), np.int64))

    def candidates(self, regions: Sequence[Region], region: Region) -> list[int]:
        """Those that may have a byte in common with a region.

        Examples
        --------
        >>> columns = [Region.of(4 * at, (3,), (16,), 4) for at in range(4)]
        >>> Nearby([0, 1, 2, 3]).candidates(columns, Region.of(8, (2, 2), (16, 4), 4))
        [2, 3]
        """
        if self._count < len(self.slots):
            self._take_in(regions)
        if region.low >= self.high or region.high <= self.low:
            return []
        low, high, stride, first, last = _row(region)
        lows, highs, strides, firsts, lasts = self._rows[:, : self._count]
        apart = (strides == stride) & ((firsts >= last) | (lasts <= first))
        return [self.slots[at] for at in np.flatnonzero((lows < high) & (highs > low) & ~apart).tolist()]

    def _take_in(self, regions: Sequence[Region]) -> None:
        """The slots that were added since."""
        found = [regions[slot] for slot in self.slots[self._count :]]
        lows, highs = [r.low for r in found], [r.high for r in found]
        if self._count:
            lows, highs = [*lows, self.low], [*highs, self.high]
        self.low, self.high = min(lows), max(highs)
        if len(self.slots) > self._rows.shape[1]:
            rows = np.zeros((5, 2 * len(self.slots)), np.int64)
            rows[:, : self._count] = self._rows[:, : self._count]
            self._rows = rows
        self._rows[:, self._count : len(self.slots)] = np.transpose([_row(r) for r in found])
        self._count = len(self.slots)
