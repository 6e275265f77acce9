"""Budgets of processor time: until when a search may go on, and whether what it would do next has room until then."""

from __future__ import annotations

import math
import time
from heapq import heappop, heappush

SMALL_STEPS, TOOK = 250, 90e-6  # entries of a heap, and the seconds that they took where costs were measured


class Deadline:
    """When so many seconds of processor time are over; None: never.

    Time that the process waits, for others or for the disk, does not count.

    Examples
    --------
    >>> Deadline(None).is_over, Deadline(0.0).is_over
    (False, True)
    """

    def __init__(self, seconds: float | None) -> None:
        self._start = self._last = 0.0
        self._longest = 0.0
        self._seconds = seconds
        if seconds is not None:
            self._start = self._last = time.process_time()

    @property
    def left(self) -> float:
        """Seconds; infinity without a limit."""
        return math.inf if self._seconds is None else self._start + self._seconds - time.process_time()

    @property
    def seconds(self) -> float | None:
        """What is left, zero or more, as the budget of somebody else."""
        return None if self._seconds is None else max(self.left, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    def has_room(self) -> bool:
        """Asked before each step of a search: whether one that takes as long as the longest so far has room."""
        if self._seconds is None:
            return True
        now = time.process_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        return self._start + self._seconds - now > self._longest


def pace() -> float:
    """How many times as long small steps of Python take, here and now, as where costs were measured; 1 or more.

    Examples
    --------
    >>> 1.0 <= pace() < 1000.0
    True
    """
    start, heap = time.process_time(), list[int]()
    for number in range(SMALL_STEPS):
        heappush(heap, number * 7919 % 1009)
    while heap:
        heappop(heap)
    return max(1.0, (time.process_time() - start) / TOOK)
