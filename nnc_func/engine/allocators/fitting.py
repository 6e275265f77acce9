"""First fit in a given order, whatever a problem says: pins, gaps, alignments, streams."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.problem import FREE, Integers, Problem
from nnc_func.errors import PlanError


def first_fit(problem: Problem, order: Iterable[int]) -> list[int]:
    """Each buffer, in this order, at the lowest offset that it may have beside those placed before it.

    Pinned buffers are placed first. Buffers without bytes are at 0, unless they are pinned. O(n²), in whole arrays.

    Raises
    ------
    PlanError
        Two pinned buffers are alive together, and overlap.

    Examples
    --------
    >>> first_fit(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]), [1, 0, 2])
    [128, 0, 128]
    >>> first_fit(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4], pins=[0, FREE, FREE]), [1, 0, 2])
    [0, 64, 0]
    """
    return _Places(problem).fill(order)


class _Places:
    """Buffers that have a place so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.offsets: Integers = np.zeros(len(problem), np.int64)
        self.placed: NDArray[np.bool_] = np.zeros(len(problem), np.bool_)
        pieces = problem.pieces
        self.pieces = pieces
        self.starts = np.searchsorted(pieces.buffer, np.arange(len(problem) + 1)).tolist()
        self.alignments = problem.alignments.tolist()

    def fill(self, order: Iterable[int]) -> list[int]:
        """The offsets of all."""
        problem = self.problem
        if problem.pins is not None:
            self._pin(problem.pins)
        sizes = problem.sizes.tolist()
        for i in order:
            if sizes[i] and not self.placed[i]:
                self.offsets[i] = self._lowest(i)
                self.placed[i] = True
        found: list[int] = self.offsets.tolist()
        return found

    def _pin(self, pins: Integers) -> None:
        for i in np.flatnonzero(pins != FREE).tolist():
            if self.problem.sizes[i]:
                low, high, others = self._forbidden(i)
                hurt = (low < pins[i]) & (pins[i] < high)
                if hurt.any():
                    other = int(others[int(hurt.argmax())])
                    name = self.problem.name
                    raise PlanError(
                        f"buffers {name(other)} and {name(i)} are alive together, and overlap where they are pinned: "
                        f"bytes [{pins[other]}, {pins[other] + self.problem.sizes[other]}) and "
                        f"[{pins[i]}, {pins[i] + self.problem.sizes[i]})"
                    )
            self.offsets[i] = pins[i]
            self.placed[i] = True

    def _lowest(self, i: int) -> int:
        low, high, _ = self._forbidden(i)
        order = np.argsort(low, kind="stable")
        at, step = 0, self.alignments[i]
        for begin, end in zip(low[order].tolist(), high[order].tolist(), strict=True):
            if begin >= at:  # open at both ends: here there is room
                break
            if end > at:
                at = -(-end // step) * step
        return at

    def _forbidden(self, i: int) -> tuple[Integers, Integers, Integers]:
        """Open intervals of offsets that buffer i may not have, and whose they are."""
        p = self.pieces
        found: list[tuple[Integers, Integers, Integers]] = []
        for k in range(self.starts[i], self.starts[i + 1]):
            there = self.placed[p.buffer]
            together = (p.lower < p.upper[k]) & (p.upper > p.lower[k])
            if self.problem.uses is not None:
                together |= ~self.problem.uses.apart(i)[p.buffer]
            others = np.flatnonzero(there & together & (p.high > p.low) & (p.buffer != i))
            base = self.offsets[p.buffer[others]]
            found.append((base + p.low[others] - p.high[k], base + p.high[others] - p.low[k], p.buffer[others]))
        return tuple(np.concatenate(columns) for columns in zip(*found, strict=True))  # type: ignore[return-value]
