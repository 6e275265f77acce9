"""Work that one thread does at a time, and that nobody waits for: who comes meanwhile leaves it to who is at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def alone(lock: Any, work: Callable[[], None]) -> bool:
    """Do the work while nobody else has the lock; whether it was done.

    Parameters
    ----------
    lock
        A `forkable_lock`, or any `threading.RLock`. Whoever has it looks whether there is more to do before he leaves.
        This thread has it where a finaliser comes in amid the work: then nothing is done, either.
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
    is_taken = True  # as far as is known where an interrupt comes before the next line
    try:
        if not lock.acquire(blocking=False):
            return False
        try:
            work()
        finally:
            is_taken = False
            lock.release()
    except BaseException as error:
        if is_taken:
            try:
                lock.release()  # at once: a second interrupt may come with the first
            except RuntimeError:  # somebody else had it
                raise error from None
        raise
    return True
