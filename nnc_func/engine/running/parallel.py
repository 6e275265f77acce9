"""Calls on several threads: each stream its own, with a gate where one waits for another.

Between two gates a stream runs as a program of one stream does: a list of calls, and nothing looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from nnc_func.engine.plan import Plan


@define(eq=False)
class Stretch:
    """Calls of one stream between two gates.

    Attributes
    ----------
    gates
        Locks that are taken before it: each is opened once a run by what it waits for, and so is shut again.
    calls, positions
        Kernels and arguments, and where they are among all calls.
    opens
        Gates of other streams that are opened after it.
    """

    gates: list[Any]
    calls: list[tuple[Any, list[Any]]] = field(factory=list)
    positions: list[int] = field(factory=list)
    opens: list[Any] = field(factory=list)


class Streams:
    """Calls dealt out to their streams.

    They run once at a time. After a failure they are of no use any more: others are made.

    Parameters
    ----------
    plan
        Which stream each instruction is of, and what it waits for.
    instructions, calls
        Those that run, in order, and their kernels and arguments.

    Attributes
    ----------
    failure
        The first call that failed, by its position, and how; None if none did.
    """

    def __init__(self, plan: Plan, instructions: Sequence[int], calls: Sequence[tuple[Any, list[Any]]]) -> None:
        self.failure: tuple[int, Exception] | None = None
        self.stopped = False
        self._mutex = threading.Lock()
        self._gates: list[Any] = []
        self._streams = self._dealt(plan, instructions, calls)

    @property
    def jobs(self) -> list[Any]:
        """One function a stream; the first one is stream 0's, or that of the lowest number."""
        return [self._job(stretches) for _, stretches in sorted(self._streams.items())]

    def _dealt(
        self, plan: Plan, instructions: Sequence[int], calls: Sequence[tuple[Any, list[Any]]]
    ) -> dict[int, list[Stretch]]:
        waits = _positions(plan, instructions)
        opens: dict[int, list[Any]] = {}
        gates: dict[int, list[Any]] = {}
        for position, awaited in enumerate(waits):
            for each in awaited:
                gate = threading.Lock()
                gate.acquire()
                self._gates.append(gate)
                opens.setdefault(each, []).append(gate)
                gates.setdefault(position, []).append(gate)
        streams: dict[int, list[Stretch]] = {}
        for position, (t, call) in enumerate(zip(instructions, calls, strict=True)):
            stretches = streams.setdefault(plan.instructions[t].stream, [])
            if not stretches or stretches[-1].opens or position in gates:
                stretches.append(Stretch(gates.get(position, [])))
            stretches[-1].calls.append(call)
            stretches[-1].positions.append(position)
            stretches[-1].opens += opens.get(position, [])
        return streams

    def _job(self, stretches: Sequence[Stretch]) -> Any:
        def job() -> None:
            for stretch in stretches:
                for gate in stretch.gates:
                    gate.acquire()
                calls: Any = iter(stretch.calls)  # a list's iterator knows how far it has come
                try:
                    for call, args in calls:
                        call(*args)
                    if self.stopped:
                        return
                    for gate in stretch.opens:
                        gate.release()
                except Exception as error:
                    self._fail(stretch, calls, error)
                    return

        return job

    def _fail(self, stretch: Stretch, calls: Any, error: Exception) -> None:
        with self._mutex:
            if not self.stopped:  # else another was first, and nothing is known of how far this one has come
                self.failure = stretch.positions[-1 - calls.__length_hint__()], error
                self._stop()

    def stop(self) -> None:
        """Let every stream end after the call that it is in."""
        with self._mutex:
            self._stop()

    def _stop(self) -> None:
        self.stopped = True
        for stretches in self._streams.values():
            for stretch in stretches:
                stretch.calls.clear()  # whoever walks through the list is at its end
        for gate in self._gates:
            try:
                gate.release()
            except RuntimeError:  # open already
                continue


def _positions(plan: Plan, instructions: Sequence[int]) -> list[list[int]]:
    """For each of these instructions those of other streams that it waits for, by position; views are none of them.

    What is waited for and is not among them has run before.
    """
    position = {t: at for at, t in enumerate(instructions)}
    last: dict[int, int] = {}
    reached: list[int | None] = []  # for each instruction the last one of its stream so far that is among them
    found: list[list[int]] = []
    for t, i in enumerate(plan.instructions):
        if t in position:
            found.append(
                [p for w in i.waits if plan.instructions[w].stream != i.stream and (p := reached[w]) is not None]
            )
            last[i.stream] = position[t]
        reached.append(last.get(i.stream))
    return found
