"""Garbage collection, put off while many objects are made that all stay; an interrupt leaves it as it was."""

from __future__ import annotations

import gc
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, compress, repeat, starmap, takewhile, tee
from operator import add, call, itemgetter
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
        Numbers of those that have put it off: others had not, nor had a user.
    """

    __slots__ = ("__weakref__", "_lock", "_number")
    within: ClassVar[dict[int, tuple[int, ref[Any]]]]
    notes: ClassVar[dict[int, None]]

    @classmethod
    @abstractmethod
    def is_on(cls) -> bool:
        """Whether it is on, and so to be put off."""

    @classmethod
    @abstractmethod
    def put_off(cls) -> None:
        """Begin with it."""

    @classmethod
    @abstractmethod
    def restoring(cls) -> Callable[[], Any]:
        """What restores it, unless others have set it: a function that is not of Python and gives nothing."""

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
        if self.is_on():
            self.notes[self._number] = None
            self.put_off()

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
        if cls.notes:
            any(map(call, (cls.within.__len__, cls.restoring(), cls.notes.clear)))

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
    notes: ClassVar[dict[int, None]] = {}

    @classmethod
    def is_on(cls) -> bool:
        """Whether it is."""
        return gc.isenabled()

    @classmethod
    def put_off(cls) -> None:
        """Switch it off."""
        gc.disable()

    @classmethod
    def restoring(cls) -> Callable[[], Any]:
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
    notes: ClassVar[dict[int, None]] = {}
    full: ClassVar[deque[int]] = deque(gc.get_threshold()[2:], maxlen=1)  # the last of theirs that was met

    @classmethod
    def is_on(cls) -> bool:
        """Whether full ones come: who read the threshold meanwhile may have set it again since."""
        return gc.get_threshold()[2] != NEVER or not cls.notes

    @classmethod
    def put_off(cls) -> None:
        """Set the threshold of full ones beyond reach, and note what it was: one step of C."""
        read, met = tee(map(call, (gc.get_threshold,)))
        any(chain(_set(read, [NEVER]), map(cls.full.append, filter(NEVER.__ne__, map(_FULL, met)))))

    @classmethod
    def restoring(cls) -> Callable[[], Any]:
        """What sets the threshold of full ones, beside what the others are by now."""
        read, asked = tee(map(call, (gc.get_threshold,)))
        return partial(any, _set(compress(read, map(NEVER.__eq__, map(_FULL, asked))), cls.full))


_YOUNG, _FULL = itemgetter(slice(2)), itemgetter(2)


def _set(thresholds: Iterable[tuple[int, ...]], full: Iterable[int]) -> Iterator[None]:
    """Thresholds that are set when one asks for them, all but that of full collections as they are: one step of C."""
    return starmap(gc.set_threshold, map(add, map(_YOUNG, thresholds), map(tuple, repeat(full))))


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
        # what a user has frozen stays so; what is frozen here is put with the old, in the same step
        any(map(call, (gc.get_freeze_count, gc.freeze, gc.unfreeze)))
