"""Turns: who may use variables' values at a time. Many runs that read, or one that writes.

A run announces itself by a token of its own, which is held weakly: a run that ends in whatever way gives its turn up.
Those that need not wait take no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from threading import get_ident
from typing import Any
from weakref import ref

from nnc_func.errors import RunError

POLL = 0.05  # seconds after which one who waits looks again: a run that was killed tells nobody

_changed = threading.Condition(threading.Lock())


class Run:
    """One run, as its turns know it: the thread that started it."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()


class Turns:
    """Who uses one variable now: weak references to runs.

    Attributes
    ----------
    readers
        Runs that read it.
    writer
        The run that writes it, or waits until nobody reads it any more.
    """

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.readers: list[Any] = []
        self.writer: Any = None

    def _written(self) -> Run | None:
        """The run that writes; None if there is none, or no more."""
        found = None if self.writer is None else self.writer()
        if found is None:
            self.writer = None
        return found

    def _read(self) -> list[Run]:
        """The runs that read and have not ended."""
        alive = [run for each in tuple(self.readers) if (run := each()) is not None]
        if len(alive) < len(self.readers):
            self.readers[:] = [each for each in self.readers if each() is not None]
        return alive

    @property
    def is_written_here(self) -> bool:
        """Whether a run of this thread writes it."""
        writer = self._written()
        return writer is not None and writer.thread == get_ident()

    def wait_to_read(self, me: Any) -> None:
        """Wait until nobody else writes; `me` is among the readers already."""
        thread = me().thread
        with _changed:
            writer = self._written()
            if writer is None or writer.thread == thread:  # a kernel of that run asks: it sees what was there before
                return
            self.readers.remove(me)
            _changed.notify_all()
            while self._written() is not None:
                _changed.wait(POLL)
            self.readers.append(me)

    def wait_to_write(self, me: Any, name: str) -> None:
        """Wait until nobody else writes or reads.

        Raises
        ------
        RunError
            A run of this very thread uses the variable: it would wait for itself.
        """
        thread = me().thread
        with _changed:
            if any(run is not None and run.thread == thread for run in (self._written(), *self._read())):
                raise RunError(
                    f"variable {name!r} is to be written while another run of this thread uses it; "
                    "let that run end first, or close its steps"
                )
            while self._written() is not None:
                _changed.wait(POLL)
            self.writer = me
            try:
                while self._read():
                    _changed.wait(POLL)
            except BaseException:
                self.writer = None
                raise


def enter(run: Run, variables: Sequence[tuple[Any, bool]]) -> None:
    """Take the turn of each variable, in the order of all programs; true: to write it.

    Raises
    ------
    RunError
        A run of this very thread writes one of them, or reads one that is to be written.
    """
    me = ref(run)
    for variable, writes in variables:
        turns = variable.turns
        if writes:
            turns.wait_to_write(me, variable.name)
        else:
            turns.readers.append(me)
            if turns.writer is not None:
                turns.wait_to_read(me)


def leave(run: Run, variables: Sequence[tuple[Any, bool]]) -> None:
    """Give the turns up that were taken: all of them, or some where that was interrupted."""
    me = ref(run)
    waited = False
    for variable, _ in variables:
        turns = variable.turns
        if turns.writer is me:
            turns.writer = None
            waited = True
        elif me in turns.readers:
            turns.readers.remove(me)
            waited = waited or turns.writer is not None
    if waited:
        with _changed:
            _changed.notify_all()


def ordered(reads: Sequence[Any], writes: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Variables and whether they are written, each once, in the one order in which all programs take their turns."""
    written = {id(v) for v in writes}
    every = {id(v): v for v in (*reads, *writes)}
    return [(v, id(v) in written) for v in sorted(every.values(), key=lambda v: v.serial)]
