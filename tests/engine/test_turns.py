"""Work that one thread does at a time leaves its lock free, whatever ends it (`engine/dynamic/turns`)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.turns import alone


class Interrupted:
    """A lock of which an interrupt comes just as it was taken, so many times."""

    def __init__(self, times: int) -> None:
        self.lock: Any = threading.RLock()
        self.times = times

    def _is_owned(self) -> bool:
        return bool(self.lock._is_owned())

    def acquire(self, blocking: bool = True) -> bool:
        taken = self.lock.acquire(blocking=blocking)
        if self.times:
            self.times -= 1
            raise KeyboardInterrupt
        return bool(taken)

    def release(self) -> None:
        self.lock.release()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def others(lock: Any) -> list[bool]:
    """Whether another thread can have it."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(alone(lock, int)))
    thread.start()
    thread.join(20)
    return found


def test_an_interrupt_that_comes_just_then_leaves_the_lock_free() -> None:
    lock, done = Interrupted(1), list[int]()
    with pytest.raises(KeyboardInterrupt):
        alone(lock, lambda: done.append(1))
    assert (done, others(lock)) == ([], [True])
    assert alone(lock, lambda: done.append(2))
    assert (done, others(lock)) == ([2], [True])


def test_who_has_it_does_all_and_what_fails_leaves_it_free() -> None:
    lock = threading.RLock()
    within: list[Any] = []
    assert alone(lock, lambda: within.extend([alone(lock, int), *others(lock)]))
    assert within == [False, False]
    with pytest.raises(ZeroDivisionError):
        alone(lock, lambda: [1 / 0])
    assert others(lock) == [True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_gradients_in_another_thread_after_an_interrupt_amid_what_is_dropped() -> None:
    """A value's finaliser was interrupted as it had taken the lock of what is recorded: who came next waited."""
    stack = nnc.dynamic()
    w = stack.variable("w", np.ones(3))
    recording = stack.engine.recording
    y = +stack.variable("y", np.ones(3))
    recording._lock = lock = Interrupted(1)
    del y
    assert lock.times == 0
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(stack.gradients([(w * w).sum()], [w])), daemon=True)
    thread.start()
    thread.join(20)
    assert [g.numpy().tolist() for g in found] == [[2.0] * 3]
