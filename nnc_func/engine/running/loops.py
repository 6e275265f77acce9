"""Loops and branches that are planned, as functions of arrays: the kernels of bodies are called, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, cycle
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.engine.copying import COPY
from nnc_func.engine.linkers.base import failure
from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.engine.plan_rows import VARIABLE, Instruction
from nnc_func.engine.running.cancelling import asked
from nnc_func.engine.running.observers import Application, Observer
from nnc_func.errors import NncError
from nnc_func.graph.leaves import brought
from nnc_func.graph.ops.branch import branch, chosen
from nnc_func.graph.ops.create import full

Places = list[tuple[tuple[int, ...], Address]]
"""Slots of a body's plan, and where these are."""


def places_of(loop: Loop) -> Places:
    """Slots that are not the body's own: its parameters, what is written over these, and what it gives."""
    plan = loop.plan
    found: Places = [((slot,), address) for slot, address in zip(loop.slots, loop.reads, strict=True)]
    leaves = {*plan.inputs, *plan.variables, *plan.constants}
    beside: dict[int, list[int]] = {}
    for n, s in enumerate(plan.slots):
        if n not in leaves and not s.is_view:
            beside.setdefault(s.buffer, []).append(n)
    for slot, address in zip(loop.targets, loop.writes, strict=True):
        home = plan.slots[slot].buffer
        over = plan.buffers[home].kind == VARIABLE  # what is in its memory before it is there, too
        found.append((tuple(beside.get(home, ())) if over else (slot,), address))
    return found


def constants_of(loop: Loop, device: Any) -> list[Any]:
    """The numbers in the body, as arrays of the device."""
    found = []
    for slot, items in zip(loop.plan.constants, loop.literals, strict=True):
        values, aval = dict(items), loop.plan.slots[slot].aval
        found.append(brought(device, np.asarray(values["value"], aval.dtype), place=aval.place))
    return found


def bound(instruction: Instruction, device: Any, link: Callable[..., Any]) -> Callable[..., Any]:
    """What makes of an instruction's scratch a function of its operands and results.

    Parameters
    ----------
    link
        ``link(plan, device, constants, arenas)`` gives the frame of a body's plan.
    """
    loops, count = instruction.loops, len(instruction.operands)
    constants = [constants_of(each, device) for each in loops]

    def of(*scratch: Any) -> Callable[..., None]:
        made: list[Times] = []
        for loop, its in zip(loops, constants, strict=True):
            own = [place for place, nbytes in loop.plan.arenas.items() if nbytes]
            empty = device.arena(0) if None not in own else None
            arenas = dict.fromkeys(loop.plan.arenas, empty) | dict(zip(own, scratch, strict=False))
            frame = link(loop.plan, device, its, arenas)
            made.append(Times(loop, device, frame, scratch, count))
        if instruction.op is not branch:
            return made[0].run
        return OneOf(made, dict(instruction.items)["default"], device.decision).run

    return of


class Times:
    """A loop whose body is bound: each time what lies elsewhere is put in its place, and the kernels are called.

    Parameters
    ----------
    frame
        The body's kernels.
    scratch
        The arrays of the loop's instruction.
    results
        Where results begin among its arrays.
    """

    def __init__(self, loop: Loop, device: Any, frame: Any, scratch: tuple[Any, ...], results: int) -> None:
        self.loop, self.frame, self.scratch = loop, frame, scratch
        self.row, self.decision = device.row, device.decision
        self.copy = device.writing(COPY, COPY.kernels[0], (), 1, ())
        places = places_of(loop)
        self.fixed = [(slot, address.at(0)[0]) for slots, address in places if address.is_fixed for slot in slots]
        moving = [(slots, address) for slots, address in places if not address.is_fixed]
        self.addresses = [address for _, address in moving]
        self.condition = None if loop.condition is None else loop.reads[loop.condition]
        self.results = results
        stacked = _stacked(loop) if loop.is_open else ()
        self.fills = [(address.cycle[0], _fill(device, aval)) for address, aval in stacked]
        # arguments of kernels, and slots of which there are views
        self.targets = [
            ([each for s in slots for each in frame.patches.get(s, ())], [s for s in slots if s in frame.views])
            for slots, _ in moving
        ]

    def run(self, *given: Any) -> None:
        """All times, of the arrays of operands and results.

        Raises
        ------
        NncError
            A kernel failed: names the operator in the body, the shapes and the user's line.
        """
        arrays, frame, loop = (*given, *self.scratch), self.frame, self.loop
        calls, times, decision = frame.calls, 0, self.decision
        most, condition, place = self._begin(arrays)
        called, cancellation = iter(calls), asked()
        try:
            while times < most and (condition is None or decision(condition())):
                place()
                called = iter(calls)
                if cancellation is not None:
                    cancellation.check(f"time {times} of a loop")
                for call, args in called:
                    call(*args)
                times += 1
            called = iter(calls)
            self.end(arrays, times, loop.count - most)
        except Exception as error:
            if called.__length_hint__() == len(calls):
                raise
            at = frame.order[len(calls) - called.__length_hint__() - 1]
            raise in_time(failure(loop.plan, at, error), times, loop.count) from error
        finally:
            frame.forget()

    def _begin(self, arrays: tuple[Any, ...]) -> tuple[int, Callable[[], Any] | None, Callable[[], None]]:
        """How many times it goes at most, the condition, and what puts all that moves in its place for the next one."""
        put, loop = self.frame.put, self.loop
        most = loop.count if loop.limit is None else max(0, min(loop.count, self.decision(arrays[loop.limit])))
        late = loop.count - most
        following = [self.arrays(address, arrays, late).__next__ for address in self.addresses]
        rows = [*zip(self.targets, following, strict=True)]
        for slot, number in self.fixed:
            put(slot, arrays[number])

        def place() -> None:
            for (patches, viewed), array_of in rows:
                array = array_of()
                for args, position in patches:
                    args[position] = array
                for slot in viewed:
                    put(slot, array)

        return most, None if self.condition is None else self.arrays(self.condition, arrays, late).__next__, place

    def walk(
        self, *given: Any, first: int, watching: Sequence[Observer], wait: Any, loop: Application
    ) -> Iterator[Application]:
        """As `run`, before the observers' eyes; `loop` is the loop's application, `first` the first number within."""
        arrays, frame, times = (*given, *self.scratch), self.frame, 0
        most, condition, place = self._begin(arrays)
        section = frame.section(range(len(self.loop.plan.instructions)))
        number, cancellation = first, asked()
        try:
            while times < most and (condition is None or self.decision(condition())):
                place()
                if cancellation is not None:
                    cancellation.check(f"time {times} of a loop")
                inside = [each.within(self.loop.plan, frame.memory) for each in watching]
                within = (*loop.times, times) if self.loop.count != 1 else loop.times
                for each in section.walk(inside, wait, number, within, loop.depth + 1):
                    number += 1
                    each.bytes_alive += loop.bytes_alive
                    yield each
                times += 1
            self.end(arrays, times, self.loop.count - most)
        finally:
            frame.forget()

    def end(self, arrays: tuple[Any, ...], times: int, late: int) -> None:
        """After the last time: each carry is put in its result, and rows of times that did not happen are zeros."""
        loop, results, row = self.loop, self.results, self.row
        copies: Iterable[tuple[int, int, int | None]] = loop.copies
        if loop.ends:
            copies = [(n, *loop.reads[parameter].at(times, late)) for n, parameter in enumerate(loop.ends)]
        for n, number, at in copies:
            source = arrays[number] if at is None else row(arrays[number], at)
            if source is not arrays[results + n]:  # it may lie over an operand
                self.copy(source, arrays[results + n])
        for number, fill in self.fills:
            for at in range(times, loop.count):
                fill(row(arrays[number], at))

    def arrays(self, address: Address, arrays: tuple[Any, ...], late: int) -> Iterator[Any]:
        """Where a value is, time after time; rows that go backwards begin `late` rows before their start."""
        for number in address.first:
            yield arrays[number]
        if address.step:
            (whole,), row = (arrays[n] for n in address.cycle), self.row
            for n in count(address.start - late * (address.step < 0), address.step):
                yield row(whole, n)
        else:
            yield from cycle([arrays[n] for n in address.cycle])


class OneOf:
    """A branch whose bodies are bound: the first operand says which of them is computed, once."""

    def __init__(self, bodies: Sequence[Times], default: bool, decision: Callable[[Any], int]) -> None:
        self.bodies, self.default, self.decision = bodies, default, decision
        self._runs = [each.run for each in bodies]

    def run(self, index: Any, *given: Any) -> None:
        """The chosen body, of the arrays of operands and results.

        Raises
        ------
        RunError
            The index is that of no body, and there is no default.
        """
        self._runs[chosen(self.decision(index), len(self._runs), self.default)](index, *given)

    def walk(self, index: Any, *given: Any, **how: Any) -> Iterator[Application]:
        """As `run`, before the observers' eyes; see `Times.walk`."""
        body = self.bodies[chosen(self.decision(index), len(self.bodies), self.default)]
        return body.walk(index, *given, **how)


def in_time(error: NncError, times: int, most: int) -> NncError:
    """The error, which tells in which time of a loop it happened; a loop that goes once is a branch."""
    if most != 1 and error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} in time {times} of the loop", *error.args[1:])
    return error


def _stacked(loop: Loop) -> Iterator[tuple[Address, Aval]]:
    """The addresses of what is written row by row, and the aval of a row."""
    for address, slot in zip(loop.writes, loop.targets, strict=True):
        if address.step:
            yield address, loop.plan.slots[slot].aval


def _fill(device: Any, aval: Aval) -> Any:
    """A function that writes zeros to an array of that aval."""
    items = full.canonical({"shape": aval.shape, "value": np.zeros((), aval.dtype).item(), "dtype": aval.dtype})
    return device.writing(full, device.choose(full, (), items), items, 1, ())
