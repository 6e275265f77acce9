"""Work that one thread does at a time, and that nobody waits for: who comes meanwhile leaves it to who is at it."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def turn() -> Any:
    """A lock for `alone`; free in a process that is forked while another thread has it.

    What that thread was at is half done there: it is to be such that whoever comes next goes on with it.

    Examples
    --------
    >>> alone(turn(), lambda: print("mine"))
    mine
    True
    """
    found = RLock()
    _locks.add(found)
    return found


def _forked() -> None:
    for each in list(_locks):
        if not each._is_owned():
            each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def alone(lock: Any, work: Callable[[], None]) -> bool:
    """Do the work while nobody else has the lock; whether it was done.

    Parameters
    ----------
    lock
        A `turn`, or any `threading.RLock`. Whoever has it looks whether there is more to do before he leaves. This
        thread has it where a finaliser comes in amid the work: then nothing is done, either.
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
