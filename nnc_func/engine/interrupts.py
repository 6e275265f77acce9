"""Control-C held back while something is done that must be done wholly or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


def held(action: Callable[..., Any], *args: Any) -> None:
    """Call it; an interrupt that comes meanwhile is raised when it is done.

    Python raises interrupts in the main thread only, so that elsewhere there is nothing to hold.

    Examples
    --------
    >>> held(print, "done")
    done
    """
    previous = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(previous):  # ignored, or left to the system
        action(*args)
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *given: waiting.append(given))
    try:
        action(*args)
    finally:
        signal.signal(signal.SIGINT, previous)
        if waiting:
            previous(*waiting[0])
