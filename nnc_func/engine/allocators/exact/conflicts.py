"""A problem as an exact search wants it: sections of time, who is alive in each, and who conflicts with whom."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError
from nnc_func.locks import cached_property

FEW = 1024  # buffers up to which all are compared with all times
MOST_BUFFERS = 4096  # as a table of all by all has room in memory


@frozen(eq=False, slots=False)
class Conflicts:
    """The buffers of one space that have bytes and are alive, in units of the greatest common divisor.

    Attributes
    ----------
    buffers
        Their numbers in the problem.
    unit
        Bytes.
    sizes, alignments
        One a buffer, in units; sizes are rounded up to what every offset is a multiple of.
    pins
        In units, or `FREE`.
    alive
        A row a section, which is a longest span of time in which the same buffers are alive, or, with streams, some
        buffers that all conflict; a column a buffer.
    conflicting
        For each pair of buffers, whether they may not share a place; not so for a buffer with itself.
    separable
        Whether buffers conflict only where they are alive in one section.
    """

    buffers: Integers
    unit: int
    sizes: Integers
    alignments: Integers
    pins: Integers
    alive: NDArray[np.bool_]
    conflicting: NDArray[np.bool_]
    separable: bool

    def __len__(self) -> int:
        return len(self.buffers)

    def in_bytes(self, problem: Problem, offsets: Integers) -> Integers:
        """The offsets of all buffers of the problem, in bytes, given those of these, in units."""
        found = np.zeros(len(problem), np.int64) if problem.pins is None else np.maximum(problem.pins, 0)
        found[self.buffers] = offsets * self.unit
        return found

    @cached_property
    def members(self) -> tuple[Integers, Integers, Integers]:
        """Those alive in each section, one section after another; where each starts, and the end; how many they are."""
        section, buffer = np.nonzero(self.alive)
        starts = np.searchsorted(section, np.arange(len(self.alive) + 1))
        return buffer, starts, np.diff(starts)

    @cached_property
    def sections(self) -> NDArray[np.bool_]:
        """As `alive`, a row a buffer."""
        return np.ascontiguousarray(self.alive.T)

    @cached_property
    def is_plain(self) -> bool:
        """Whether there are no pins, and any unit is aligned."""
        return bool((self.pins == FREE).all() and (self.alignments == 1).all())

    @cached_property
    def spans(self) -> tuple[Integers, Integers]:
        """The first section of each buffer, and its last."""
        last = len(self.alive) - 1 - self.alive[::-1].argmax(axis=0)
        return self.alive.argmax(axis=0), last

    @cached_property
    def loads(self) -> Integers:
        """Units alive in each section."""
        found: Integers = self.alive @ self.sizes
        return found

    @cached_property
    def widths(self) -> Integers:
        """Sections in which each buffer is alive."""
        found: Integers = self.alive.sum(axis=0)
        return found

    @cached_property
    def fullest(self) -> Integers:
        """For each buffer the most units that are alive in a section of its own."""
        found: Integers = np.where(self.alive, self.loads[:, None], 0).max(axis=0, initial=0)
        return found

    @cached_property
    def twins(self) -> Integers:
        """The same number for buffers that may be exchanged in any plan."""
        columns = np.packbits(self.conflicting | self.alive_together, axis=0)
        keys: dict[tuple[int, int, int, bytes], int] = {}
        rows = zip(self.sizes.tolist(), self.alignments.tolist(), self.pins.tolist(), columns.T, strict=True)
        found = [
            keys.setdefault((s, a, i if p != FREE else FREE, c.tobytes()), i) for i, (s, a, p, c) in enumerate(rows)
        ]
        return np.array(found, np.int64)

    @cached_property
    def alive_together(self) -> NDArray[np.bool_]:
        """As `conflicting`, of time alone, and each buffer with itself."""
        if not self.separable:
            return together(self.alive)
        found = self.conflicting.copy()
        np.fill_diagonal(found, True)
        return found


def together(alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each pair of columns, whether some row holds both."""
    counts = alive.astype(np.float32)
    found: NDArray[np.bool_] = (counts.T @ counts) > 0
    return found


def conflicts(problem: Problem) -> Conflicts:
    """The conflicts of a problem without groups and spaces.

    Raises
    ------
    PlanError
        A gap in which some bytes of a buffer are alive, which the search does not handle; or so many buffers that a
        table of all by all has no room.
    """
    if any(gap.window is not None for gap in problem.gaps):
        raise PlanError(
            "a gap has a window, bytes of a buffer that are alive in it, which the search by branch and bound does not "
            "handle: leave the gap out, so that the whole buffer is alive, or decide by cp_sat"
        )
    if len(problem) > MOST_BUFFERS:
        raise PlanError(f"wanted at most {MOST_BUFFERS} buffers for an exact search, given {len(problem)}")
    alive = _alive(problem)
    is_whole = not problem.gaps  # who is alive together is said by the ends of lives
    buffers = np.flatnonzero((problem.rounded > 0) & alive.any(axis=0))
    pins = np.full(len(buffers), FREE) if problem.pins is None else problem.pins[buffers]
    sizes, steps = problem.rounded[buffers], problem.alignments[buffers]
    unit = math.gcd(*sizes.tolist(), *pins[pins != FREE].tolist()) or 1
    if (unit % steps).any():  # else sums of sizes are aligned
        unit = math.gcd(unit, *steps.tolist())
    alive = alive[:, buffers]
    alive = alive[alive.any(axis=1)]
    if is_whole:
        lower, upper = problem.lower[buffers], problem.upper[buffers]
        conflicting = (lower[:, None] < upper) & (upper[:, None] > lower)
    else:
        conflicting = together(alive)
    if problem.uses is not None:
        for row, b in enumerate(buffers.tolist()):
            conflicting[row] |= problem.conflicting(b)[buffers]
        conflicting |= conflicting.T
    np.fill_diagonal(conflicting, False)
    if problem.uses is not None:
        alive = np.vstack((alive, _cliques(conflicting, sizes)))
    return Conflicts(
        buffers,
        unit,
        sizes // unit,
        np.maximum(steps // unit, 1),
        np.where(pins == FREE, FREE, pins // unit),
        alive,
        conflicting,
        problem.uses is None,
    )


def _cliques(conflicting: NDArray[np.bool_], sizes: Integers) -> NDArray[np.bool_]:
    """A row a buffer: itself and those that conflict with all in the row, the largest first. As good as a section."""
    rows = np.eye(len(sizes), dtype=np.bool_)
    for i, row in enumerate(rows):
        others = conflicting[i].copy()
        while others.any():
            j = int(np.where(others, sizes, -1).argmax())
            row[j] = True
            others &= conflicting[j]
    return rows


def _alive(problem: Problem) -> NDArray[np.bool_]:
    pieces = problem.pieces
    times = np.unique(np.concatenate((pieces.lower, pieces.upper)))
    if not problem.gaps and len(problem) <= FEW:
        since = times[:, None]
        return (problem.lower <= since) & (since < problem.upper)
    begins = np.searchsorted(times, pieces.lower)
    ends = np.searchsorted(times, pieces.upper)
    change = np.zeros((len(times) + 1, len(problem)), np.int8)
    np.add.at(change, (begins, pieces.buffer), 1)
    np.subtract.at(change, (ends, pieces.buffer), 1)
    found: NDArray[np.bool_] = np.cumsum(change, axis=0, dtype=np.int8) > 0
    return found
