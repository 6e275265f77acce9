"""Signals held back while something is done that must be done wholly or not at all."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable
from typing import Any

_c = importlib.import_module("_signal")  # amid a function in C no handler runs, as one could amid those of `signal`

# those whose handlers are customarily written in Python, and may raise
HELD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name))


def held(action: Callable[..., Any], *args: Any) -> None:
    """Call it; a signal that comes meanwhile is handled when it is done.

    Python handles signals in the main thread only, so that elsewhere there is nothing to hold. What another thread
    raises here by ``PyThreadState_SetAsyncExc`` cannot be held.

    Examples
    --------
    >>> held(print, "done")
    done
    """
    if threading.current_thread() is not threading.main_thread():
        action(*args)
        return
    previous = [(n, h) for n in HELD if callable(h := _c.getsignal(n))]  # neither ignored nor left to the system
    waiting: list[Any] = []
    try:
        _later(previous, waiting, lambda: action(*args))
    finally:
        handlers = dict(previous)
        for given in waiting:
            handlers[given[0]](*given)


def _later(previous: list[Any], waiting: list[Any], action: Callable[[], Any]) -> None:
    """The action, with those signals noted only; whatever one of their handlers raises, each is given back."""
    if not previous:
        action()
        return
    number, handler = previous[0]
    try:
        _c.signal(number, lambda *given: waiting.append(given))
        _later(previous[1:], waiting, action)
    finally:
        try:
            _c.signal(number, handler)
        except BaseException:  # before it does anything it handles what waits, and that may raise
            _c.signal(number, handler)
            raise
