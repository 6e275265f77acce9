"""Work that one thread does at a time, and that nobody waits for: who comes meanwhile leaves it to who is at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def alone(lock: Any, work: Callable[[], None]) -> bool:
    """Do the work while nobody else has the lock; whether it was done.

    Parameters
    ----------
    lock
        A `threading.RLock`. Whoever has it looks whether there is more to do before he leaves. This thread has it where
        a finaliser comes in amid the work: then nothing is done, either.
    work
        What is done. An interrupt may end it anywhere; one that comes just as the lock was taken lets go of that, too.

    Examples
    --------
    >>> import threading
    >>> lock, done = threading.RLock(), []
    >>> alone(lock, lambda: done.append(alone(lock, done.clear))), done
    (True, [False])
    """
    if lock._is_owned():
        return False
    try:
        if not lock.acquire(blocking=False):
            return False
        try:
            work()
        finally:
            lock.release()
    except BaseException:
        if lock._is_owned():
            lock.release()
        raise
    return True
