"""Garbage collection, put off while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
