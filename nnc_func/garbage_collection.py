"""Garbage collection, put off while many objects are made that all stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = (1 << 31) - 1  # collections of the middle generation before a full one
_counting = threading.RLock()
_tracing: list[tuple[int, int, int]] = []  # what is to be restored, once for each that is under way


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: it would walk over all that was made again and again, and find nothing.

    What it finds switched off stays so.

    Examples
    --------
    >>> import gc
    >>> with uncollected():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def no_full_collections() -> Iterator[None]:
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
    with _counting:
        _tracing.append(_tracing[0] if _tracing else gc.get_threshold())
        if len(_tracing) == 1:
            gc.set_threshold(*_tracing[0][:2], NEVER)
    try:
        yield
    finally:
        with _counting:
            usual = _tracing.pop()
            if not _tracing and gc.get_threshold() == (*usual[:2], NEVER):
                gc.set_threshold(*usual)


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
            gc.freeze()
            gc.unfreeze()  # which puts what is frozen with the old
