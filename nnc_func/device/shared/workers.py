"""Threads of the host that run jobs side by side, kept for the next time; and BLAS held to its share of the cores.

Nothing is started when this is imported, and a process that was forked starts threads of its own.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any
from weakref import ref

from nnc_func.forks import in_child

Job = Callable[[], None]


class _Errand:
    """A job for another thread, and how it went."""

    __slots__ = ("_context", "_job", "_over", "_stop", "done", "error")

    def __init__(self, job: Job, context: Context, stop: Job) -> None:
        self._job, self._context, self._stop = job, context, stop
        self._over = threading.Lock()
        self._over.acquire()
        self.done = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do it, unless it is done already."""
        if self.done:
            return
        try:
            self._context.run(self._job)
        except BaseException as error:  # it belongs to who waits for the errand
            self.error = error
            self._stop()
        self.done = True
        self._over.release()

    def wait(self) -> None:
        """Return once it is done. One thread may wait."""
        if not self.done:
            self._over.acquire()


class _Worker:
    """A thread that runs errands, one after the other."""

    __slots__ = ("give",)

    def __init__(self) -> None:
        errands: SimpleQueue[_Errand] = SimpleQueue()
        self.give = errands.put
        threading.Thread(target=_work, args=(errands,), name="nnc_func stream", daemon=True).start()


def _work(errands: SimpleQueue[_Errand]) -> None:
    while True:
        errands.get().run()


class _Crew:
    """The workers of this process that are idle."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._watched = False

    def take(self, count: int) -> list[_Worker]:
        """So many workers; they are started where there are none."""
        if not self._watched:
            self._watched = True
            in_child(self._idle.clear)  # threads are not forked
        found = []
        for _ in range(count):
            try:
                found.append(self._idle.pop())
            except IndexError:
                found.append(_Worker())
        return found

    def back(self, workers: Sequence[_Worker]) -> None:
        """They are idle again."""
        self._idle.extend(workers)


_CREW = _Crew()


def together(jobs: Sequence[Job], stop: Job) -> None:
    """Run the first job in this thread and the others in threads of their own; return when all have ended.

    An error of any job, or an interrupt of this thread, is raised when all have ended: `stop` is called at once, from
    the thread that has it, and is to make the other jobs end soon. Jobs see the caller's context variables.

    Examples
    --------
    >>> found = []
    >>> together([lambda: found.append(1), lambda: found.append(2)], stop=lambda: None)
    >>> sorted(found)
    [1, 2]
    """
    errands = [_Errand(job, copy_context(), stop) for job in jobs[1:]]
    workers = _CREW.take(len(errands))
    given = 0
    failed: BaseException | None = None
    try:
        for worker, errand in zip(workers, errands, strict=True):
            worker.give(errand)
            given += 1
        jobs[0]()
    except BaseException as error:  # an interrupt may come at any line
        failed = error
        stop()
        for worker, errand in zip(workers[given:], errands[given:], strict=True):
            worker.give(errand)  # perhaps it was given already: it is done once
    failed = _ended(errands, stop) or failed
    _CREW.back(workers)
    failed = failed or next((e.error for e in errands if e.error is not None), None)
    if failed is not None:
        raise failed


def _ended(errands: Sequence[_Errand], stop: Job) -> BaseException | None:
    """Wait for all of them, whatever comes; what came."""
    failed = None
    while True:
        try:
            for errand in errands:
                errand.wait()
            return failed
        except BaseException as error:
            failed = error
            stop()


class _Asker:
    """Somebody who asks for BLAS to be held down, as long as he is there: an interrupt may come at any line of his.

    Attributes
    ----------
    in_turns
        Whether kernels may have the cores meanwhile, one after the other.
    """

    __slots__ = ("__weakref__", "in_turns")

    def __init__(self, in_turns: bool = False) -> None:
        self.in_turns = in_turns


class _Share:
    """BLAS's threads, held down as long as anybody asks for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finaliser may compute while it is held
        self._askers: dict[int, ref[_Asker]] = {}
        self._libraries: list[Any] = []
        self._modules = 0  # that were imported when the libraries were looked for
        self._before: list[tuple[Any, int]] | None = None  # None while nobody asks

    def hold(self, asker: _Asker, threads: int) -> None:
        """No more than so many, unless somebody asks already, until the asker is gone, or says that it is enough."""
        with self._lock:
            self._forget()
            key = id(asker)
            self._askers[key] = ref(asker, lambda _: self._left(key))
            if self._before is None:
                self._before = [(each, each.get_num_threads()) for each in self._known()]
                for each in [each for each, had in self._before if had > threads]:
                    _set(each, threads)

    def free(self, asker: _Asker) -> None:
        """As it was, if nobody else asks for less."""
        self._left(id(asker))

    def _left(self, key: int) -> None:
        with self._lock:
            if self._before is not None and [*self._askers] == [key]:
                for each, had in self._before:
                    _set(each, had)
                self._before = None
            self._askers.pop(key, None)  # last: who was interrupted before is still there, and goes

    def _forget(self) -> None:
        """Askers that are gone have left: an interrupt may have ended what was to note it."""
        for key, asker in [*self._askers.items()]:
            if asker() is None:
                self._left(key)

    def spare(self) -> int:
        """Threads of BLAS, or those that it had before it was held for kernels that take turns."""
        with self._lock:
            self._forget()
            before = self._before
            if before is None:
                return max((each.get_num_threads() for each in self._known()), default=1)
            askers = [asker() for asker in [*self._askers.values()]]
            return max((had for _, had in before), default=1) if all(a is None or a.in_turns for a in askers) else 1

    def _known(self) -> list[Any]:
        modules = len(sys.modules)
        if modules != self._modules:  # one may have brought a BLAS of its own, as SciPy does
            self._libraries, self._modules = _blas(), modules
        return self._libraries


def _set(library: Any, threads: int) -> None:
    """Let a library of BLAS have so many, whichever thread says so.

    threadpoolctl obeys the first thread that sets a number, as long as that lives, and does nothing for others. Here a
    lock sees to who may, and there are threads among them that live as long as the process.
    """
    release = getattr(library, "clear_controlling_thread", None)  # since 3.7
    if release is None:
        library.set_num_threads(threads)
        return
    release(force=True)
    try:
        library.set_num_threads(threads)
    finally:
        release(force=True)


def _blas() -> list[Any]:
    """What threadpoolctl finds of it; nothing where that is not installed."""
    try:
        found = importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return []
    return [each for each in found.lib_controllers if each.user_api == "blas"]


_SHARE = _Share()


@contextmanager
def shared(jobs: int) -> Iterator[None]:
    """BLAS held to its share of the cores, while so many jobs run side by side.

    NumPy has no function for it: it is done where threadpoolctl is installed, the extra `parallel`.

    Examples
    --------
    >>> with shared(2):
    ...     pass
    """
    asker = _Asker()
    try:
        _SHARE.hold(asker, max(1, cores() // jobs))
        yield
    finally:
        _SHARE.free(asker)


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS held to one thread, while kernels of a library that has threads of its own run between its calls.

    OpenBLAS's threads go on looking for work for 20 ms after a call, on the cores that the others are given. Kernels
    that are run in threads of this library have the cores in their turn, as before (`spare`).
    """
    asker = _Asker(in_turns=True)
    try:
        _SHARE.hold(asker, 1)
        yield
    finally:
        _SHARE.free(asker)


def spare() -> int:
    """How many threads BLAS may use: so many may a kernel that calls it use in its place; 1 where that is not known."""
    return _SHARE.spare()


def side_by_side(work: Callable[[int], None], threads: int) -> None:
    """Run ``work(0)``, ``work(1)``, … in so many threads, this one among them, while BLAS has one for each.

    Examples
    --------
    >>> found = []
    >>> side_by_side(found.append, 2)
    >>> sorted(found)
    [0, 1]
    """
    if threads == 1:
        work(0)
        return
    asker = _Asker()
    try:
        _SHARE.hold(asker, 1)
        together([partial(work, thread) for thread in range(threads)], stop=_nothing)
    finally:
        _SHARE.free(asker)


def _nothing() -> None:
    """Jobs of one kernel end by themselves."""


def cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
