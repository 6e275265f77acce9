"""A section of a frame run on several threads: each stream its calls, with a gate where one waits for another.

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
        Kernels and arguments, and where they are among the frame's calls.
    opens
        Gates of other streams that are opened after it.
    """

    gates: list[Any]
    calls: list[tuple[Any, list[Any]]] = field(factory=list)
    positions: list[int] = field(factory=list)
    opens: list[Any] = field(factory=list)


class Section:
    """Calls of a frame from one position to another, dealt out to their streams.

    It runs once at a time. After a failure it is of no use any more: the frame makes another.
    """

    def __init__(self, plan: Plan, frame: Any, start: int, stop: int) -> None:
        self.failure: tuple[int, Exception] | None = None
        self.stopped = False
        self._mutex = threading.Lock()
        self._gates: list[Any] = []
        self._streams = self._dealt(plan, frame, start, stop)

    @property
    def jobs(self) -> list[Any]:
        """One function a stream; the first one is stream 0's, or that of the lowest number."""
        return [self._job(stretches) for _, stretches in sorted(self._streams.items())]

    def _dealt(self, plan: Plan, frame: Any, start: int, stop: int) -> dict[int, list[Stretch]]:
        waits = _positions(plan, frame.order)
        opens: dict[int, list[Any]] = {}
        gates: dict[int, list[Any]] = {}
        for position in range(start, stop):
            for awaited in waits[position]:
                if awaited >= start:
                    gate = threading.Lock()
                    gate.acquire()
                    self._gates.append(gate)
                    opens.setdefault(awaited, []).append(gate)
                    gates.setdefault(position, []).append(gate)
        streams: dict[int, list[Stretch]] = {}
        for position in range(start, stop):
            stretches = streams.setdefault(plan.instructions[frame.order[position]].stream, [])
            if not stretches or stretches[-1].opens or position in gates:
                stretches.append(Stretch(gates.get(position, [])))
            stretches[-1].calls.append(frame.calls[position])
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


def _positions(plan: Plan, order: Sequence[int]) -> list[list[int]]:
    """For each of a frame's calls the calls of other streams that it waits for; views have none of their own."""
    last: dict[int, int] = {}
    reached: list[int | None] = []  # for each instruction the last call of its stream so far
    found: list[list[int]] = []
    for i in plan.instructions:
        if not i.view:
            found.append(
                [p for w in i.waits if plan.instructions[w].stream != i.stream and (p := reached[w]) is not None]
            )
            last[i.stream] = len(found) - 1
        reached.append(last.get(i.stream))
    assert len(found) == len(order), (len(found), len(order))
    return found


def run_section(program: Any, frame: Any, start: int, stop: int) -> None:
    """Run calls of a frame on the device's threads.

    Raises
    ------
    NncError
        A kernel failed: the first one that did so. All streams have ended by then.
    """
    if start == stop:
        return
    section = frame.sections.pop(start, None) or Section(program.plan, frame, start, stop)
    program.together(section.jobs, section.stop)
    if section.failure is not None:
        position, error = section.failure
        raise frame.failure(frame.order[position], error) from error
    frame.sections[start] = section
