"""Actions side by side: what tests of threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def together(*actions: Callable[[], Any], seconds: float = 60) -> list[Any]:
    """Each in a thread of its own, started at once; what they return. Raises what one of them raises."""
    barrier = threading.Barrier(len(actions))
    found: list[Any] = [None] * len(actions)
    errors: list[BaseException] = []

    def run(at: int) -> None:
        try:
            barrier.wait(20)
            found[at] = actions[at]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(t.is_alive() for t in threads), "a thread waits for ever"
    for error in errors:
        raise error
    return found


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What one gives in another thread, if it does so soon."""
    return together(function, seconds=seconds)[0]
