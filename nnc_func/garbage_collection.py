"""Garbage collection, put off while many objects are made that all stay; an interrupt leaves it as it was."""

from __future__ import annotations

import gc
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from operator import call
from threading import get_ident
from typing import Any, ClassVar
from weakref import ref

NEVER = (1 << 31) - 19  # collections of the middle generation before a full one
_numbers = itertools.count()


class _PutOff(ABC):
    """What is put off while it is open. What an interrupt ends is done again, by `__del__` or by whoever is next.

    No lock is taken: once the last is left the collector may come at any time, and with it a finaliser of the user's
    that waits for another thread, which must not wait for us.

    Attributes
    ----------
    within
        What is open, by number: in which thread, and itself while it is there. Nothing is restored meanwhile.
    notes
        By the same numbers, how it was when that put it off: nothing where another one had, or a user has.
    """

    __slots__ = ("__weakref__", "_lock", "_number")
    within: ClassVar[dict[int, tuple[int, ref[Any]]]]
    notes: ClassVar[dict[int, Any]]

    @staticmethod
    @abstractmethod
    def usual() -> Any:
        """How it is, to be restored; None where it is put off already."""

    @staticmethod
    @abstractmethod
    def put_off(usual: Any) -> None:
        """Begin with it."""

    @staticmethod
    @abstractmethod
    def restoring(usual: Any) -> Callable[[], Any] | None:
        """What restores it, a function that is not of Python and gives nothing; None where others have set it."""

    def __init__(self, lock: Any = None) -> None:
        self._number, self._lock = next(_numbers), lock

    def __enter__(self) -> None:
        try:
            self._begin()
            while self._lock is not None and not _is_free(self._lock):
                self._leave()
                all(map(call, (self._lock.acquire, self._lock.release)))  # wait until it is free
                self._begin()
        except BaseException:  # an interrupt
            self._leave()
            raise

    def _begin(self) -> None:
        self.within[self._number] = get_ident(), ref(self)
        usual = self.usual()
        if usual is not None:
            self.notes[self._number] = usual
            self.put_off(usual)

    def __exit__(self, *error: object) -> None:
        self._leave()

    def __del__(self) -> None:
        if hasattr(self, "_number") and (self.notes or self._number in self.within):
            self._leave()

    def _leave(self) -> None:
        self.within.pop(self._number, None)
        self._settle()

    @classmethod
    def _settle(cls) -> None:
        """Restore what is noted if nothing is open, which is one step: `any` ends where something is."""
        for number, (_, its) in cls.within.copy().items():  # the oldest first
            if its() is not None:
                return
            cls.within.pop(number, None)  # an interrupt came amid its `__del__`
        noted = cls.notes.copy()
        if noted:
            restore = cls.restoring(next(iter(noted.values())))
            if restore is not None:
                any(map(call, (cls.within.__len__, restore, cls.notes.clear)))
            else:
                for number in noted:
                    cls.notes.pop(number, None)

    @classmethod
    def forked(cls) -> None:
        """Give up what threads had open that are not in this process."""
        mine = get_ident()
        for number, (thread, _) in cls.within.copy().items():
            if thread != mine:
                cls.within.pop(number, None)
        cls._settle()


def _is_free(lock: Any) -> bool:
    """Whether a lock could be had; it was, and was given back in the same step."""
    return bool([*takewhile(bool, map(call, (partial(lock.acquire, False), lock.release)))])


class uncollected(_PutOff):  # noqa: N801 - it reads as what it says of a block
    """No search for cycles meanwhile: it would walk over all that was made again and again, and find nothing.

    What it finds switched off stays so; what several threads switch off, the last one switches on. It goes before a
    lock, in one statement with it: finalisers of the user's, which may wait for another thread, do not come in then.

    Parameters
    ----------
    lock
        The lock behind it, if that may be taken for long: while another thread has it the collector stays on here.
        Otherwise threads that take turns at it would leave it off for as long as they do.

    Examples
    --------
    >>> import gc
    >>> with uncollected():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """

    __slots__ = ()
    within: ClassVar[dict[int, tuple[int, ref[Any]]]] = {}
    notes: ClassVar[dict[int, Any]] = {}

    @staticmethod
    def usual() -> Any:
        """That it is on."""
        return gc.isenabled() or None

    @staticmethod
    def put_off(usual: Any) -> None:
        """Switch it off."""
        gc.disable()

    @staticmethod
    def restoring(usual: Any) -> Callable[[], Any] | None:
        """What switches it on."""
        return gc.enable


class no_full_collections(_PutOff):  # noqa: N801 - it reads as what it says of a block
    """Young objects are searched for cycles meanwhile, as ever, and old ones are not: of a trace, nearly all stay.

    Once the last that puts them off has ended, in any thread, the threshold of full ones is as it was, unless others
    have set it meanwhile.

    Examples
    --------
    >>> import gc
    >>> usual = gc.get_threshold()
    >>> with no_full_collections():
    ...     gc.get_threshold() == (*usual[:2], NEVER)
    True
    >>> gc.get_threshold() == usual
    True
    """

    __slots__ = ()
    within: ClassVar[dict[int, tuple[int, ref[Any]]]] = {}
    notes: ClassVar[dict[int, Any]] = {}
    full: ClassVar[int] = gc.get_threshold()[2]  # the last threshold of theirs that was met

    @staticmethod
    def usual() -> Any:
        """Thresholds. Who read them meanwhile may have set them again since: then the last one that was met counts."""
        found = gc.get_threshold()
        if found[2] != NEVER:
            no_full_collections.full = found[2]
            return found
        return None if no_full_collections.notes else (found[0], found[1], no_full_collections.full)

    @staticmethod
    def put_off(usual: Any) -> None:
        """Set the threshold of full ones beyond reach."""
        gc.set_threshold(usual[0], usual[1], NEVER)

    @staticmethod
    def restoring(usual: Any) -> Callable[[], Any] | None:
        """What sets the threshold of full ones, beside what the others are by now."""
        now = gc.get_threshold()
        return partial(gc.set_threshold, now[0], now[1], usual[2]) if now[2] == NEVER else None


@contextmanager
def long_lived() -> Iterator[None]:
    """As `uncollected`, and all that was made is with what is old afterwards: no search for young cycles walks over it.

    Examples
    --------
    >>> import gc
    >>> with long_lived():
    ...     made = [[] for _ in range(10_000)]
    >>> gc.get_count()[0] < 10_000
    True
    """
    with uncollected():
        yield
        if not gc.get_freeze_count():  # what a user has frozen stays so
            try:
                gc.freeze()
            finally:
                gc.unfreeze()  # which puts what is frozen with the old


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=uncollected.forked)
    os.register_at_fork(after_in_child=no_full_collections.forked)
