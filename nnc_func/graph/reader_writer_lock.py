"""A lock lets many runs read variables' values at a time, or one write them.

A run announces itself by a token of its own, which is held weakly: a run that ends in whatever way gives its turn up.
There is no lock that an interrupt could leave locked: appending to a list and removing from it is done at once, and who
is first in the queue has the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from time import sleep
from typing import Any
from weakref import ref

from nnc_func.errors import RunError

PAUSE = 2e-5  # seconds after which one who waits looks again


class Run:
    """One run, as its turns know it: the thread that started it."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()


class Turns:
    """Who uses one variable: weak references to runs.

    Attributes
    ----------
    readers
        Runs that read it.
    queue
        The run that writes it, or waits until nobody reads it any more, and behind it those that wait.

    In both nobody is the first, always: a list that never is empty keeps its room, so that a run of many variables
    takes no memory here.
    """

    __slots__ = ("queue", "readers")

    def __init__(self) -> None:
        self.readers: list[Any] = [_nobody]
        self.queue: list[Any] = [_nobody]

    def _first(self) -> Run | None:
        """The first in the queue that has not ended."""
        return next(iter(_alive(self.queue)), None)

    @property
    def is_written_here(self) -> bool:
        """Whether a run of this thread writes it."""
        first = self._first()
        return first is not None and first.thread == get_ident()

    def wait_to_read(self, me: Any) -> None:
        """Wait for those in the queue; `me` is among the readers already, and is again in the end."""
        first = self._first()
        if first is None or first.thread == me().thread:  # a kernel of that run asks: it sees what was there before
            return
        self.readers.remove(me)
        self.queue.append(me)
        while self._first() is not me():
            sleep(PAUSE)
        self.readers.append(me)
        self.queue.remove(me)

    def wait_to_write(self, me: Any, name: str) -> None:
        """Wait until nobody else writes or reads.

        Raises
        ------
        RunError
            A run of this very thread uses the variable: it would wait for itself.
        """
        thread = me().thread
        if any(run.thread == thread for run in (*_alive(self.queue), *_alive(self.readers))):
            raise RunError(
                f"variable {name!r} is to be written while another run of this thread uses it; "
                "let that run end first, or close its steps"
            )
        self.queue.append(me)
        while self._first() is not me():
            sleep(PAUSE)
        while _alive(self.readers):
            sleep(PAUSE)


def _alive(runs: list[Any]) -> list[Run]:
    """Those that have not ended; the others are taken off the list."""
    found = []
    for each in tuple(runs):
        run = each()
        if run is not None:
            found.append(run)
        elif each is not _nobody and each in runs:
            runs.remove(each)
    return found


def _nobody() -> None:
    """As the reference of a run that has ended."""


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
            if len(turns.queue) > 1:
                turns.wait_to_read(me)


def leave(run: Run, variables: Sequence[tuple[Any, bool]]) -> None:
    """Give the turns up that were taken: all of them, or some where that was interrupted."""
    me = ref(run)
    for variable, _ in variables:
        turns = variable.turns
        for each in (turns.readers, turns.queue):
            if me in each:
                each.remove(me)


def ordered(reads: Sequence[Any], writes: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Variables and whether they are written, each once, in the one order in which all programs take their turns."""
    written = {id(v) for v in writes}
    every = {id(v): v for v in (*reads, *writes)}
    return [(v, id(v) in written) for v in sorted(every.values(), key=lambda v: v.serial)]
