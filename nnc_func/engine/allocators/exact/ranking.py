"""The conflicts of a problem in the order of a rank, with a capacity: tables from which a search reads a row a step.

Buffers are numbered by rank, so that the first of equals is the one to take. Offsets are counted from two units above
the capacity downwards: all are negative, a buffer that ends above -2 has no room, and the greatest integer is no
offset. Subtracted from -2, which is where the next one of an empty section might end, that wraps around to the greatest
again: who compares what sections have left needs not ask which of them are empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.exact.conflicts import Conflicts
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE, MOST_BYTES
from nnc_func.locks import cached_property

TABLES = 1024  # buffers up to which all rows are made at once
TOP = -2  # where the last unit of the capacity ends
MOST_COUNTED = 254  # buffers of a section that are counted in bytes


class Ranking:
    """What is known of buffers by rank, under a capacity in units.

    Attributes
    ----------
    order
        The number of each buffer among the conflicts.
    zero
        The offset of the lowest place.
    never
        No offset: greater than all; whoever has a place has it as the least one that it may yet have.
    sizes, steps, pins
        As of the conflicts, with nobody, of one unit, at the end of sizes.
    conflicting
        A row a buffer, a column each, and one for nobody.
    """

    def __init__(self, conflicts: Conflicts, capacity: int, order: Integers) -> None:
        self.conflicts, self.capacity = conflicts, min(capacity, MOST_BYTES)
        self.order = order
        self.zero = TOP - self.capacity
        greatest = self.capacity + int(conflicts.loads.max(initial=0)) + 2 * int(conflicts.sizes.max(initial=0))
        greatest += int(conflicts.alignments.max(initial=1))
        self.dtype: np.dtype[Any] = np.dtype(np.int32 if greatest < 1 << 28 else np.int64)
        self.never = int(np.iinfo(self.dtype.type).max)
        self.far = -(self.never // 2 + 1)
        self.sizes = np.append(conflicts.sizes[self.order], 1).astype(self.dtype)
        self.roof = (self.never - self.sizes).astype(self.dtype)
        self.steps = conflicts.alignments[self.order]
        self.pinned = conflicts.pins[self.order] != FREE
        self.conflicting = np.zeros((len(conflicts), len(conflicts) + 1), np.bool_)
        self.conflicting[:, :-1] = conflicts.conflicting.take(self.order, axis=0).take(self.order, axis=1)
        self.alive = conflicts.alive[:, self.order]
        first, last = conflicts.spans
        self.first, self.last = first[self.order], last[self.order]
        self._rises = self._risen(self.conflicting) if len(conflicts) <= TABLES else None
        self._loads = self._loaded(slice(None)) if len(conflicts) <= TABLES else None

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def twins(self) -> Integers:
        """The same number for buffers that may be exchanged in any plan; another one for nobody."""
        return np.append(self.conflicts.twins[self.order], -1)

    def starts(self) -> NDArray[Any]:
        """The least offset of each: its pin, or the lowest place."""
        found = np.zeros(len(self) + 1, self.dtype)
        found[:-1] = np.maximum(self.conflicts.pins[self.order], 0)
        found += self.zero
        found[-1] = self.never
        return found

    def rise(self, i: int) -> NDArray[Any]:
        """Zero for whoever conflicts with a buffer, and less than any offset for the others."""
        found: NDArray[Any] = self._risen(self.conflicting[i]) if self._rises is None else self._rises[i]
        return found

    def load(self, i: int) -> NDArray[Any]:
        """Units of a buffer in each section."""
        found: NDArray[Any] = self._loaded(i) if self._loads is None else self._loads[i]
        return found

    def table(self, begin: int, end: int, free: NDArray[np.bool_]) -> tuple[Integers, NDArray[np.intp]]:
        """Sections, and a column for each: those in it that have no place, the first by rank first, and nobody below.

        Of sections that follow each other with the same buffers the first is enough.
        """
        sections, some = np.arange(begin, end), free[:-1].nonzero()[0]
        if self.conflicts.separable:
            changes = np.zeros(len(self.alive) + 1, np.bool_)
            changes[begin] = changes[self.first[some]] = changes[self.last[some] + 1] = True
            sections = changes[begin:end].nonzero()[0] + begin
        column, at = np.nonzero(self.alive[sections].take(some, axis=1))
        counts = np.bincount(column, minlength=len(sections))
        found = np.full((max(1, int(counts.max())), len(sections)), len(self))
        row = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        found[row, column] = some[at]
        return sections, found

    def _risen(self, conflicting: NDArray[np.bool_]) -> NDArray[Any]:
        found: NDArray[Any] = np.where(conflicting, self.dtype.type(0), self.dtype.type(self.far))
        return found

    def _loaded(self, buffers: Any) -> NDArray[Any]:
        sizes = self.sizes[:-1][buffers]
        found: NDArray[Any] = np.where(
            self.conflicts.sections[self.order[buffers]], sizes[..., None], self.dtype.type(0)
        )
        return found


def by_rank(conflicts: Conflicts, order: str) -> Integers:
    """Buffers by a static order: letters of T load of the fullest section, W width in sections, A area, Z size."""
    width = conflicts.widths
    keys = {"T": conflicts.fullest, "W": width, "A": width * conflicts.sizes.astype(np.float64), "Z": conflicts.sizes}
    found: Integers = np.lexsort([-keys[letter] for letter in reversed(order)])  # stable: ties go by number
    return found
