"""Locks that are free in a process that is forked; a cached property without a lock."""

from __future__ import annotations

import functools
import sys
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def forkable_lock() -> Any:
    """A reentrant lock, which is free in a process that is forked while another thread has it.

    What that thread was at is half done there. So what the lock guards is such that whoever comes next finds it in
    order, or goes on with it. And a finaliser may come in: it is taken behind `uncollected` where much is made.

    Examples
    --------
    >>> with forkable_lock() as found:
    ...     found
    True
    """
    found = RLock()
    _locks.add(found)
    return found


def free_locks() -> None:
    """Free the locks of threads that are not in this process, which was forked.

    Examples
    --------
    >>> free_locks()
    """
    for each in list(_locks):
        if not each._is_owned():
            each._at_fork_reinit()


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - as the one that it stands for
        """`functools.cached_property` as Python 3.12 has it: without a lock that all instances of a class share.

        A finaliser that came in amid one waited for a thread that waited for the lock.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            values, name = instance.__dict__, self.attrname
            return values[name] if name in values else values.setdefault(name, self.func(instance))


__all__ = ["cached_property", "forkable_lock", "free_locks"]
