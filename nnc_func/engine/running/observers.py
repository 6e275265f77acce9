"""Observers look on while a program runs, an instruction at a time. All runs but the plain one are these.

A check of numerics, poisoned memory, a cancellation, a stopwatch are observers; a debugger takes the generator itself.
An observed run copies the variables that it writes over before it does, so that they are put back whatever ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from nnc_func.body import bodies_of
from nnc_func.declaration import Items
from nnc_func.errors import DeviceError
from nnc_func.graph.origin import PARTS, describe, lines
from nnc_func.op import Op


def called(op: Op, items: Items) -> str:
    """The operator's name; of a fused group, with those of its body.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> called(CATALOGUE["add"], ())
    'add'
    """
    inside = [each.op.name for body in bodies_of(items) for each in body.applications]
    return f"{op.name}({', '.join(inside)})" if inside else op.name


def lines_of(op: Op) -> int:
    """How many lines of an origin are told: one, or those of a fused group's body."""
    return PARTS if op.holds_body else 1


class Application:
    """One application of an operator in a run, as those see it who look on.

    Attributes
    ----------
    number
        How many came before it in this run.
    instruction
        Number of the plan's instruction; where there is no plan, of the graph's application.
    op, items, kernel
        The operator, its parameters, the name of the kernel ("" where the device chooses).
    origin
        The user lines that asked for it.
    arguments, outs
        Device arrays. Before it has run, `outs` are not written yet, or not there.
    started
        When its kernel was called, as ``time.perf_counter`` counts.
    seconds
        How long the kernel ran; on a device that computes on its own, how long it took to start it. 0 before.
    bytes_alive
        Bytes of the arena and of fresh results that hold something while it runs.
    times
        Within loops, how many times of each came before this one, the outermost first.
    depth
        How many loops and branches it is within; 0: it is the program's own.
    """

    __slots__ = (
        "_device", "arguments", "bytes_alive", "depth", "instruction", "items", "kernel", "number", "op", "origin",
        "outs", "seconds", "started", "stream", "times",
    )  # fmt: skip

    def __init__(
        self, device: Any, number: int, instruction: int, op: Op, items: Items, origin: Any, kernel: str = ""
    ) -> None:
        self._device = device
        self.number = number
        self.instruction = instruction
        self.op = op
        self.items = items
        self.origin = origin
        self.kernel = kernel
        self.arguments: Sequence[Any] = ()
        self.outs: Sequence[Any] = ()
        self.started = self.seconds = 0.0
        self.bytes_alive = 0
        self.stream = 0
        self.times: tuple[int, ...] = ()
        self.depth = 0

    @property
    def operands(self) -> list[Any]:
        """The operands as NumPy arrays: read-only views where they lie on the host, which later ones may write over."""
        return [_shown(self._device, a) for a in self.arguments]

    @property
    def results(self) -> list[Any]:
        """The results as NumPy arrays, as `operands`."""
        return [_shown(self._device, a) for a in self.outs]

    @property
    def where(self) -> str:
        """The user's line: ``model.py:12 in loss``; of a fused group, those of its body."""
        return describe(self.origin, lines_of(self.op))

    @property
    def in_time(self) -> str:
        """`` in time 3 of the loop``, counted from 0, the innermost first; nothing outside of loops."""
        return "".join(f" in time {n} of the loop" for n in reversed(self.times))

    @property
    def lines(self) -> list[tuple[str, int, str]]:
        """(file, line number, function) of each user line that asked for it, innermost first."""
        return list(lines(self.origin))

    def __repr__(self) -> str:
        said = [self._device.aval(a).__repr__() for a in self.arguments] + [f"{k}={v!r}" for k, v in self.items]
        at = f" at {self.where}" if self.where else ""
        return f"<{self.instruction}: {self.op.name}({', '.join(said)}){at}{self.in_time}>"


def _shown(device: Any, array: Any) -> Any:
    try:
        host = device.to_numpy(array)
    except DeviceError:  # a device without elements
        return None
    view = np.asarray(host).view()
    view.flags.writeable = False
    return view


class Observer:
    """Looks on while a program runs; it overrides what it wants to know of.

    Attributes
    ----------
    looks_within
        Whether it wants to see what loops compute, time after time. They run whole where no observer does.
    """

    looks_within: ClassVar[bool] = True

    def within(self, plan: Any, arenas: Mapping[Any, Any]) -> Observer:
        """What looks on at one time of a loop, whose body has that plan, and arenas by place."""
        return self

    def before(self, application: Application) -> None:
        """It is about to run."""

    def after(self, application: Application) -> None:
        """It has run: its results are there."""

    def failed(self, application: Application, error: BaseException) -> None:
        """Its kernel raised."""


def observed(
    application: Application,
    call: Callable[[], Any],
    observers: Sequence[Observer],
    wait: Callable[[], Any] | None,
    explain: Callable[[Exception], Exception],
) -> Any:
    """Run one application before the observers' eyes; what the call returns, which sets `outs` where they were not.

    `wait` is called before the watch is stopped; `explain` makes of a kernel's error what is raised.
    """
    for each in observers:
        each.before(application)
    application.started = perf_counter()
    try:
        found = call()
        if wait is not None:
            wait()
    except Exception as error:
        for each in observers:
            each.failed(application, error)
        raised = explain(error)
        if raised is error:
            raise
        raise raised from error
    application.seconds = perf_counter() - application.started
    for each in observers:
        each.after(application)
    return found


def drained(run: Iterator[Any]) -> Any:
    """A run to its end; what it returns."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            return end.value
