"""Episodes: from what is formed first, while nothing is ahead, until somebody waits. Some are of no use.

Where a program looks at values as soon as it has formed them, there is nothing beside which they could be computed.
Such an episode is *vain*, and the next ones that would begin at that line are left out: two, four, up to 64, then one
is tried. An episode in which somebody else had the processor meanwhile says nothing, unless the thread computed enough.
"""

from __future__ import annotations

from threading import get_ident
from time import perf_counter, thread_time
from typing import Any

try:
    from resource import RUSAGE_THREAD, getrusage  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # not on this system: no thread is known to have lost the processor

    def _lost() -> int:
        return 0

else:

    def _lost() -> int:
        """How often this thread lost the processor to others."""
        return getrusage(RUSAGE_THREAD).ru_nivcsw


FORMING = 4e-5  # seconds of the user's thread that an operator takes which is formed
USE = 0.3  # of the work that is to be beside something else
MOST, LINES = 6, 10_000  # how often the number left out is doubled; lines that are remembered


class Episode:
    """What a thread has formed since nothing was ahead.

    Attributes
    ----------
    is_judged
        Whether somebody has waited for it.
    """

    __slots__ = ("_begun", "_count", "_lines", "_lost", "_spent", "_thread", "_where", "_work", "is_judged")

    def __init__(self, lines: Lines, where: Any) -> None:
        self._lines, self._where = lines, where
        self._begun, self._spent, self._lost, self._thread = perf_counter(), thread_time(), _lost(), get_ident()
        self._count, self._work = 0, 0.0
        self.is_judged = False

    def add(self, seconds: float) -> None:
        """Note that an operator which takes so long was formed."""
        self._count += 1
        self._work += seconds

    def waits(self) -> None:
        """Note that somebody waits for it now, for the first time."""
        if not self.is_judged:
            self.is_judged = True
            enough = USE * self._work + FORMING * self._count
            if perf_counter() - self._begun < enough:
                self._lines.judge(self._where, is_vain=True)
            elif self._thread == get_ident() and (thread_time() - self._spent >= enough or _lost() == self._lost):
                self._lines.judge(self._where, is_vain=False)

    def ends(self) -> None:
        """Note that it is over; if nobody has waited it was of use."""
        if not self.is_judged:
            self.is_judged = True
            self._lines.judge(self._where, is_vain=False)


class Lines:
    """Lines at which episodes were vain.

    Examples
    --------
    >>> lines = Lines()
    >>> lines.judge("a.py:1", is_vain=True)
    >>> [lines.is_left_out("a.py:1") for _ in range(3)]
    [True, True, False]
    >>> lines.judge("a.py:1", is_vain=False)
    >>> lines.is_left_out("a.py:1")
    False
    """

    __slots__ = ("_vain",)

    def __init__(self) -> None:
        self._vain: dict[Any, list[int]] = {}  # how often in a row; how many are to be left out

    def judge(self, where: Any, *, is_vain: bool) -> None:
        """Note how an episode went that began at a line."""
        if not is_vain:
            its = self._vain.get(where)
            if its is not None:  # one of use may be by chance: somebody else had the processor meanwhile
                its[:] = [its[0] - 2, 0]
                if its[0] <= 0:
                    self._vain.pop(where, None)
            return
        if len(self._vain) >= LINES:
            self._vain.clear()
        found = self._vain.setdefault(where, [0, 0])
        found[0] = min(MOST, found[0] + 1)
        found[1] = 1 << found[0]

    def is_left_out(self, where: Any) -> bool:
        """Whether what is applied at a line begins no episode this time."""
        found = self._vain.get(where)
        if found is None or found[1] <= 0:
            return False
        found[1] -= 1
        return True
