"""Garbage collection, put off while many objects are made that all stay; an interrupt leaves it as it was."""

from __future__ import annotations

import gc
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from nnc_func.locks import forkable_lock

NEVER = (1 << 31) - 1  # collections of the middle generation before a full one
_counting = forkable_lock()
_off: dict[int, int] = {}  # what has it switched off, by identity: in which thread
_open: dict[int, tuple[int, tuple[int, int, int]]] = {}  # so for full collections: and what is to be restored


class _PutOff(ABC):
    """What is put off while it is open. What an interrupt ends is done again, by `__del__` if by nobody else."""

    __slots__ = ()

    @abstractmethod
    def _begin(self) -> None:
        """Begin with it; none but this thread counts meanwhile."""

    @abstractmethod
    def _end(self) -> None:
        """End it, if that has not been done."""

    def __enter__(self) -> None:
        try:
            with _counting:
                self._begin()
        except BaseException:  # an interrupt
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        with _counting:
            self._end()


class uncollected(_PutOff):  # noqa: N801 - it reads as what it says of a block
    """No search for cycles meanwhile: it would walk over all that was made again and again, and find nothing.

    What it finds switched off stays so; what several threads switch off, the last one switches on. It goes before a
    lock, in one statement with it: finalisers of the user's, which may wait for another thread, do not come in then.

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

    def _begin(self) -> None:
        if _off or gc.isenabled():
            _off[id(self)] = get_ident()
            gc.disable()

    def _end(self) -> None:
        if id(self) in _off:
            if len(_off) == 1:
                gc.enable()
            del _off[id(self)]


class no_full_collections(_PutOff):  # noqa: N801 - it reads as what it says of a block
    """Young objects are searched for cycles meanwhile, as ever, and old ones are not: of a trace, nearly all stay.

    Once the last that puts them off has ended, in any thread, thresholds are as they were; but for what others have
    set meanwhile, which stays.

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

    def _begin(self) -> None:
        usual = next(iter(_open.values()))[1] if _open else gc.get_threshold()
        _open[id(self)] = get_ident(), usual
        if len(_open) == 1:
            gc.set_threshold(*usual[:2], NEVER)

    def _end(self) -> None:
        if id(self) in _open:
            usual = _open[id(self)][1]
            if len(_open) == 1 and gc.get_threshold() == (*usual[:2], NEVER):
                gc.set_threshold(*usual)
            del _open[id(self)]


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


def _forked() -> None:
    """Give up what threads had put off that are not in this process."""
    mine = get_ident()
    gone, others = [key for key, thread in _off.items() if thread != mine], list(_open)
    for key in gone:
        del _off[key]
    if gone and not _off:
        gc.enable()
    for key in others:
        thread, usual = _open[key]
        if thread != mine:
            del _open[key]
            if not _open and gc.get_threshold() == (*usual[:2], NEVER):
                gc.set_threshold(*usual)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
