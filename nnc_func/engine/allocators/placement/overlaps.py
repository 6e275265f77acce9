"""Which pieces are alive together with one: looked up by time, in few calls of NumPy, as pieces get their places."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import Pieces
from nnc_func.engine.allocators.problems.problem import Problem

CALLS = 6000  # elements that are compared in the time that one more class of lives costs
MOST_CLASSES = 4
SAMPLE = 256  # pieces that are asked how many elements a class costs


class Overlaps(Protocol):
    """Pieces that have places, by the number of the piece."""

    def add(self, piece: int, low: int, high: int) -> None:
        """A piece takes the bytes ``[low, high)``, at least one."""

    def of(self, piece: int) -> tuple[Integers, Integers]:
        """The bytes of pieces with places that may not share with this one: fresh arrays of their starts and ends."""


def overlaps(pieces: Pieces) -> Overlaps:
    """Those alive at one time, by lifetimes alone.

    Examples
    --------
    >>> found = overlaps(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]).pieces)
    >>> found.add(0, 0, 64)
    >>> found.add(1, 64, 192)
    >>> found.of(2)
    (array([64]), array([192]))
    """
    return _ByTime(pieces)


class _ByTime:
    """Pieces in classes of about the same life, each in the order of time: those that may overlap one are a slice."""

    def __init__(self, pieces: Pieces) -> None:
        times, both = np.unique(np.concatenate((pieces.lower, pieces.upper)), return_inverse=True)
        lower, upper = both.astype(np.int32).reshape(2, -1)
        self.lower, self.upper = lower.tolist(), upper.tolist()
        lives = upper - lower
        bounds = _bounds(lower, upper, lives, len(times))
        of_class = np.searchsorted(bounds, lives, side="left")
        self.classes = [_Class(np.flatnonzero(of_class == c), lower, upper) for c in range(len(bounds) + 1)]
        self.of_class = of_class.tolist()
        position = np.zeros(len(lower), np.int64)
        for each in self.classes:
            position[each.members] = np.arange(len(each.members))
        self.position: list[int] = position.tolist()

    def add(self, piece: int, low: int, high: int) -> None:
        each, at = self.classes[self.of_class[piece]], self.position[piece]
        each.until[at] = self.upper[piece]
        each.low[at] = low
        each.high[at] = high

    def of(self, piece: int) -> tuple[Integers, Integers]:
        lower = self.lower[piece]
        if len(self.classes) == 1:
            return self.classes[0].alive(piece, lower)
        found = [each.alive(piece, lower) for each in self.classes]
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


class _Class:
    """Pieces of about the same life.

    Attributes
    ----------
    members
        Their numbers, in the order of time.
    first, stop
        For every piece: those that may overlap it are of ``members[first:stop]``.
    until
        When a piece with a place ends; -1 without.
    low, high
        The bytes that it takes.
    """

    def __init__(self, members: Integers, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> None:
        self.members = members[np.argsort(lower[members], kind="stable")]
        self.first = _first(self.members, lower, upper, lower).tolist()
        self.stop = np.searchsorted(lower[self.members], upper, side="left").tolist()
        self.until = np.full(len(members), -1, np.int32)
        self.low = np.zeros(len(members), np.int64)
        self.high = np.zeros(len(members), np.int64)

    def alive(self, piece: int, lower: int) -> tuple[Integers, Integers]:
        """The places of those that overlap a piece, which starts at `lower`."""
        first, stop = self.first[piece], self.stop[piece]
        there = (self.until[first:stop] > lower).nonzero()[0]
        return self.low[first:stop][there], self.high[first:stop][there]


def _first(
    members: Integers, lower: NDArray[np.int32], upper: NDArray[np.int32], starts: NDArray[np.int32]
) -> Integers:
    """For each start, how many of the members, which are in the order of time, are over by then, and all before."""
    latest = np.maximum.accumulate(upper[members]) if len(members) else upper[:0]
    return np.searchsorted(latest, starts, side="right")


def _bounds(lower: NDArray[np.int32], upper: NDArray[np.int32], lives: NDArray[np.int32], span: int) -> list[int]:
    """Lives up to which classes go, so that the slices are short."""
    some = np.arange(0, len(lower), -(-len(lower) // SAMPLE) if len(lower) else 1)
    order = np.argsort(lower, kind="stable")

    def cost(low: int, high: int) -> float:
        members = order[(lives[order] > low) & (lives[order] <= high)]
        stop = np.searchsorted(lower[members], upper[some], side="left")
        wide = np.maximum(stop - _first(members, lower, upper, lower[some]), 0)
        return float(wide.mean()) + CALLS if len(wide) else 0.0

    edges = [0, span]
    costs = [cost(0, span)]
    while len(edges) <= MOST_CLASSES:
        at = int(np.argmax(costs))
        low, high = edges[at], edges[at + 1]
        tried = [1 << k for k in range(span.bit_length()) if low < 1 << k < high]
        pairs = [(cost(low, t), cost(t, high)) for t in tried]
        best = min(range(len(tried)), key=lambda n: sum(pairs[n]), default=None)
        if best is None or sum(pairs[best]) >= costs[at]:
            break
        edges.insert(at + 1, tried[best])
        costs[at : at + 1] = pairs[best]
    return edges[1:-1]


class Together:
    """Those that may run at one time, in the partial order of a problem's uses; each step looks at all."""

    def __init__(self, problem: Problem) -> None:
        assert problem.uses is not None
        self.uses, self.pieces = problem.uses, problem.pieces
        count = len(self.pieces.buffer)
        self.there = np.zeros(count, np.bool_)
        self.low, self.high = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.buffer = self.pieces.buffer.tolist()

    def add(self, piece: int, low: int, high: int) -> None:
        """As `Overlaps.add`."""
        self.there[piece], self.low[piece], self.high[piece] = True, low, high

    def of(self, piece: int) -> tuple[Integers, Integers]:
        """As `Overlaps.of`."""
        p, buffer = self.pieces, self.buffer[piece]
        together = (p.lower < p.upper[piece]) & (p.upper > p.lower[piece]) | ~self.uses.apart(buffer)[p.buffer]
        found = np.flatnonzero(self.there & together & (p.buffer != buffer))
        return self.low[found], self.high[found]
