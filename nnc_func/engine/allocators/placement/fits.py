"""Fitting in a given order, whatever a problem says: pins, gaps, alignments, streams.

A buffer of bytes ``[low, high)`` may not have the offsets that are strictly between ``start - high`` and
``end - low`` of a placed one that is alive with it. With these intervals' ends sorted by themselves, and their starts
too, there is room after the first k of the ends exactly if they are all below the k-th start.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnc_func.engine.allocators.placement.overlaps import Overlaps, Together, overlaps
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError


def first_fit(problem: Problem, order: Iterable[int]) -> list[int]:
    """Each buffer, in this order, at the lowest offset that it may have beside those placed before it.

    Pinned buffers are placed first. Buffers without bytes are at 0, unless they are pinned. Each step takes a few
    calls of NumPy, over as many elements as there are buffers of about that time.

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
    return _Places(problem, False).fill(order)


def tightest_fit(problem: Problem, order: Iterable[int]) -> list[int]:
    """As `first_fit`, but each in the smallest gap that holds it, the lowest of them; where there is none, on top.

    Examples
    --------
    >>> problem = Problem([64, 128, 64, 64, 64, 64], [0, 0, 0, 0, 0, 1], [9, 1, 9, 1, 9, 2])
    >>> first_fit(problem, range(6))[5], tightest_fit(problem, range(6))[5]
    (64, 256)
    """
    return _Places(problem, True).fill(order)


class _Places:
    """Buffers that have a place so far."""

    def __init__(self, problem: Problem, tightest: bool) -> None:
        self.problem = problem
        self.tightest = tightest
        self.offsets = [0] * len(problem)
        self.placed = [False] * len(problem)
        pieces = problem.pieces
        self.starts = np.searchsorted(pieces.buffer, np.arange(len(problem) + 1)).tolist()
        self.low, self.high = pieces.low.tolist(), pieces.high.tolist()
        self.overlaps: Overlaps = Together(problem) if problem.uses is not None else overlaps(pieces)
        self.steps = None if isinstance(problem.alignment, int) else problem.alignment.tolist()
        self.step = problem.alignment if isinstance(problem.alignment, int) else 1

    def fill(self, order: Iterable[int]) -> list[int]:
        """The offsets of all."""
        problem = self.problem
        if problem.pins is not None:
            self._pin(problem.pins)
        sizes, placed = problem.sizes.tolist(), self.placed
        for i in order:
            if sizes[i] and not placed[i]:
                starts, ends = self._forbidden(i)
                starts.sort()
                ends.sort()
                self._put(i, self._room(starts, ends, self.step if self.steps is None else self.steps[i]))
        return self.offsets

    def _put(self, i: int, offset: int) -> None:
        self.offsets[i] = offset
        self.placed[i] = True
        for k in range(self.starts[i], self.starts[i + 1]):
            if self.high[k] > self.low[k]:
                self.overlaps.add(k, offset + self.low[k], offset + self.high[k])

    def _room(self, starts: Integers, ends: Integers, step: int) -> int:
        """The lowest offset outside of open intervals, given by their starts and ends, each of them sorted."""
        if not len(starts) or (starts[0] >= 0 and not self.tightest):
            return 0
        free = np.empty(len(ends) + 1, np.int64)
        free[0] = 0
        np.maximum(ends, 0, out=free[1:])
        if step > 1:
            np.negative(free, out=free)
            free //= step
            free *= -step
        room = starts - free[:-1]
        if self.tightest:
            fits = np.flatnonzero(room >= 0)
            return int(free[fits[room[fits].argmin()]] if len(fits) else free[-1])
        fit = room >= 0
        k = int(fit.argmax())
        return int(free[k] if fit[k] else free[-1])

    def _forbidden(self, i: int) -> tuple[Integers, Integers]:
        """Open intervals of offsets that buffer i may not have: their starts and their ends."""
        begin, end = self.starts[i], self.starts[i + 1]
        if end == begin + 1:
            lows, highs = self.overlaps.of(begin)
            lows -= self.high[begin]
            if self.low[begin]:
                highs -= self.low[begin]
            return lows, highs
        found = []
        for k in range(begin, end):
            if self.high[k] > self.low[k]:
                lows, highs = self.overlaps.of(k)
                found.append((lows - self.high[k], highs - self.low[k]))
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def _pin(self, pins: Integers) -> None:
        for i in np.flatnonzero(pins != FREE).tolist():
            pin = int(pins[i])
            if self.problem.sizes[i]:
                if self._hurts(i, pin):
                    raise _overlap(self.problem, pins, i)
                self._put(i, pin)
            self.offsets[i], self.placed[i] = pin, True

    def _hurts(self, i: int, pin: int) -> bool:
        starts, ends = self._forbidden(i)
        return bool(((starts < pin) & (pin < ends)).any())


def _overlap(problem: Problem, pins: Integers, i: int) -> PlanError:
    """What to say of a pinned buffer that hurts one that was pinned before it."""
    for other in np.flatnonzero((pins[:i] != FREE) & (problem.sizes[:i] > 0)).tolist():
        pair = _Places(problem.of([other, i]), False)
        pair._put(0, int(pins[other]))
        if pair._hurts(1, int(pins[i])):
            break
    a, b = (f"[{pins[n]}, {pins[n] + problem.sizes[n]})" for n in (other, i))
    return PlanError(
        f"buffers {problem.name(other)} and {problem.name(i)} are alive together, and overlap where they are pinned: "
        f"bytes {a} and {b}"
    )
