"""Forks: what is seen to before one, and in the process that is forked, in one order.

Before it no other thread is amid an import of this library's, and the collector is put off. In the other process locks
of threads that are not there come free first; then whatever is theirs is given up; the collector comes on last, and
with it finalisers of the user's, which may ask the library for anything.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from threading import get_ident

from nnc_func.garbage_collection import no_full_collections, uncollected
from nnc_func.locks import free_locks

LONGEST = 1.0  # seconds that a fork waits for imports of other threads
_in_child: list[Callable[[], None]] = []
_pauses: dict[int, uncollected] = {}  # of the threads that are amid a fork


def in_child(function: Callable[[], None]) -> None:
    """Have a function called in each process that is forked, once locks are free, before any finaliser comes in.

    Examples
    --------
    >>> idle = [1, 2]
    >>> in_child(idle.clear)
    """
    _in_child.append(function)


def _before() -> None:
    _wait_for_imports()
    pause = _pauses[get_ident()] = uncollected()
    pause.__enter__()


def _in_parent() -> None:
    pause = _pauses.pop(get_ident(), None)
    if pause is not None:
        pause.__exit__()


def _forked() -> None:
    pause = _pauses.get(get_ident())
    try:
        free_locks()
        for function in _in_child:
            function()
    finally:
        _pauses.clear()
        no_full_collections.forked()
        uncollected.forked()
        if pause is not None:
            pause.__exit__()


def _wait_for_imports() -> None:
    """Wait until no other thread is amid an import of a module of the library's, a second at most: some come late.

    In the process that is forked an import of the same module would wait for that thread, which is not there.
    """
    until = time.monotonic() + LONGEST
    while _are_importing() and time.monotonic() < until:
        time.sleep(1e-3)


def _are_importing() -> bool:
    """Whether another thread has the lock of such a module, of those that Python keeps (`importlib._bootstrap`)."""
    mine, known = get_ident(), getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    ours = __name__.partition(".")[0]
    locks = [each() for name, each in list(known.items()) if name.partition(".")[0] == ours]
    return any(getattr(each, "owner", None) not in (None, mine) for each in locks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_forked)
