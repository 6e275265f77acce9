"""The worker: a thread that computes what was formed ahead, one for each process.

There is one because kernels that go side by side share the cores and the memory's bandwidth anyhow, and because
handing a value from one thread to another takes longer than a small operator: what is formed is computed in the order
in which it was formed, whoever formed it. Nobody depends on the worker: who wants a value that it has not begun with
computes that himself, or has a thread do it, and the worker meanwhile goes on with what was formed next. So it may be
gone, as in a process that was forked, or when the interpreter ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from sys import is_finalizing
from typing import Any

from nnc_func.engine.dynamic.ahead.storage import STORAGE
from nnc_func.forks import in_child

OFTEN = 1e-4  # seconds after which Python's threads take turns, while work is ahead: the worker wants little of them
LINGERING = 1.0  # seconds without work after which no memory is kept for it
FAREWELL = 1.0  # seconds that the interpreter's end waits for what is being computed, and a fork


class Worker:
    """Computes jobs in the order in which they are given.

    Attributes
    ----------
    thread
        Its identity; None before it was first needed.
    is_busy
        Whether it computes, or is about to.
    at
        The job that it computes.
    done
        Counts the jobs that it has finished: who waits sees by it that there is progress.
    stalled
        What `done` was when somebody last waited in vain: at the job after these it takes long.
    has_ended
        Whether the interpreter ends: no thread is started any more.
    forked
        Is called in a process that was forked.
    """

    def __init__(self) -> None:
        self._watched = self.has_ended = False
        self._is_starting = False
        self.forked: Callable[[], None] | None = None
        self._before: float | None = None  # the interval that was set before ours
        self._begin()

    def _begin(self) -> None:
        self._starting, self._turning = threading.RLock(), threading.RLock()  # a finaliser may come in
        self._computing = threading.RLock()  # its, while it is at a job, and a fork's: a function of the host may fork
        self.jobs: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.thread: int | None = None
        self.is_busy = False
        self.at: Any = None
        self.done = 0
        self.stalled: int | None = None

    def give(self, job: Any) -> None:
        """Let a job be computed; it is started where there is none, and does nothing more once it has ended."""
        if self.has_ended:
            return
        if self._thread is None and not self._start():
            return
        self.jobs.put(job)  # before: an interrupt may come, and nobody else would calm
        if not self.is_busy:
            self.hasten()
            if not self.is_busy and self.jobs.empty():  # it was faster
                self.calm()

    def _start(self) -> bool:
        """Start it; whether it runs. It does not while the interpreter ends: who looks at a value computes that."""
        with self._starting:
            if self._thread is not None or self._is_starting:
                return self._thread is not None
            if not self._watched:
                self._watched = True
                atexit.register(self.end)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(before=self._stand, after_in_parent=self._go_on)
                in_child(self._forked)
            thread = threading.Thread(target=self._work, args=(self.jobs,), name="nnc_func ahead", daemon=True)
            self._is_starting = True  # what comes in meanwhile, in this thread, starts no second one
            try:
                thread.start()
            except RuntimeError:
                return False
            finally:
                self._is_starting = False
            self._thread = thread
            return True

    # --- the interpreter's turns --------------------------------------------------------------------------

    def hasten(self) -> None:
        """While work is ahead threads take turns more often, so that the next kernel begins soon after the last."""
        with self._turning:
            now = sys.getswitchinterval()
            if self._before is None and now > OFTEN:
                self._before = now  # first: there is always something to go back to
                sys.setswitchinterval(OFTEN)
                self._before = now  # a finaliser may have come in, and calmed

    def calm(self) -> None:
        """Nothing is ahead: as it was before, unless somebody else has changed it since."""
        with self._turning:
            before = self._before
            if before is not None and _is_often():
                sys.setswitchinterval(before)
            self._before = None

    # --- in its thread ------------------------------------------------------------------------------------

    def _work(self, jobs: SimpleQueue[Any]) -> None:
        self.thread = threading.get_ident()
        _ours.yes = True
        while True:
            try:
                job = jobs.get_nowait()
            except Empty:
                self.is_busy = False
                self.calm()
                try:
                    job = jobs.get(timeout=LINGERING)
                except Empty:
                    self.calm()  # an interrupt may have come between what was given and whoever hastened
                    STORAGE.close()
                    job = jobs.get()
                self.is_busy = True
                STORAGE.open()
                self.hasten()
            if job is None:
                self.is_busy = False
                self.calm()
                return
            self.at = job
            with self._computing, suppress(BaseException):  # whoever looks meets it again
                job.compute()
            if self.jobs is not jobs:  # a function of the host has forked: this is the other process
                return
            self.at = None
            del job  # what it holds is not for the worker to keep
            self.done += 1

    # --- what ends ----------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let it end after the job that it is at, and wait a moment for that; what is left nobody has looked at."""
        thread, jobs, self.has_ended = self._thread, self.jobs, True
        if thread is None:
            return
        try:
            while True:
                jobs.get_nowait()
        except Empty:
            jobs.put(None)
        thread.join(FAREWELL)
        self.calm()

    def _stand(self) -> None:
        """Before a fork: let it not be amid a job, whose locks would never be free in the other process."""
        self._computing.acquire(timeout=FAREWELL)

    def _go_on(self) -> None:
        if self._computing._is_owned():  # type: ignore[attr-defined]
            self._computing.release()

    def _forked(self) -> None:
        """The thread was not forked: another one is started when it is needed. Who forked is the user's now."""
        _ours.yes = False
        self._begin()
        STORAGE.close()
        self.calm()
        if self.forked is not None:
            self.forked()


def _is_often() -> bool:
    return abs(sys.getswitchinterval() - OFTEN) < 1e-6


_ours = threading.local()


def is_ours() -> bool:
    """Whether this thread is the worker, or one that computes aside: nobody of the user's waits in it."""
    return getattr(_ours, "yes", False)


WORKER = Worker()


class Aside:
    """A call of a function in a thread of its own.

    It is no `threading.Thread`: an interrupt amid the start of one leaves Python's list of threads in disorder.

    Attributes
    ----------
    has_returned
        Whether it has.
    """

    __slots__ = ("_function", "_process", "has_returned")

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._process: Any = WORKER.jobs  # another one in each process
        self.has_returned = False

    @property
    def is_alive(self) -> bool:
        """Whether the function is called, or about to be, in this process."""
        return not self.has_returned and self._process is WORKER.jobs and not is_finalizing()

    def run(self) -> None:
        """Call it; in its thread."""
        _ours.yes = True
        try:
            self._function()
        finally:
            self.has_returned = True


def aside(function: Callable[[], None]) -> Aside | None:
    """A thread that calls a function, started; None where none can be, as when the interpreter ends."""
    if WORKER.has_ended or is_finalizing():
        return None
    found = Aside(function)
    try:
        start_new_thread(found.run, ())
    except RuntimeError:
        return None
    return found
