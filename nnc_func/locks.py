"""Locks that are free in a process that is forked, forks that wait for imports, a cached property without a lock."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

LONGEST = 1.0  # seconds that a fork waits for imports of other threads
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


def _forked() -> None:
    for each in list(_locks):
        if not each._is_owned():
            each._at_fork_reinit()


def _before_fork() -> None:
    """Wait until no other thread is amid an import, a second at most: modules of the library are imported late.

    In the process that is forked an import of the same module would wait for that thread, which is not there.
    """
    until = time.monotonic() + LONGEST
    while _are_importing() and time.monotonic() < until:
        time.sleep(1e-3)


def _are_importing() -> bool:
    """Whether another thread has the lock of a module, of those that Python keeps (`importlib._bootstrap`)."""
    mine, known = get_ident(), getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    owners = [getattr(each(), "owner", None) for each in list(known.values())]
    return any(owner not in (None, mine) for owner in owners)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_forked)

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


__all__ = ["cached_property", "forkable_lock"]
