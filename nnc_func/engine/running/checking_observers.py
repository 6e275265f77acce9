"""Observers check a run: they name NaN and infinity, poison memory that was freed, tell each kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nnc_func.config import config
from nnc_func.engine.plan_rows import ARENA, LENT, NEXT, OUTPUT
from nnc_func.engine.running.cancelling import Cancellation
from nnc_func.engine.running.observers import Application, Observer
from nnc_func.errors import NumericsError, PlanError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.origin import describe

NOTHING: Mapping[Any, Any] = MappingProxyType({})
POISON = 0xFF  # all bits set: NaN in every floating dtype, -1 in signed integers


def check(device: Any, array: Any, name: str, where: str) -> None:
    """Raise NumericsError if a floating array has a NaN or an infinity."""
    host = device.to_numpy(array)
    if kind_of(host.dtype) not in "fc":
        return
    bad = ~np.isfinite(host)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        told_at = f" (built at {where})" if where else ""
        raise NumericsError(
            f"{name}{told_at} gave {host[at]} at {list(at)}, {int(bad.sum())} of {host.size} elements are not finite"
        )


class Finite(Observer):
    """Raises NumericsError where a result has a NaN or an infinity: names the operator and the user's line."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def after(self, application: Application) -> None:
        """Look at its results."""
        for array in application.outs:
            check(self._device, array, f"{application.op.name}{application.in_time}", describe(application.origin))


class Telling(Observer):
    """Writes a line for each kernel to standard error."""

    def after(self, application: Application) -> None:
        """Its number and its operator."""
        print(f"{application.number:5} {application.op.name}{application.in_time}", file=sys.stderr)


class Cancelling(Observer):
    """Raises `CancelledError` before an instruction, once another thread has asked for that.

    A loop looks itself, before each time.
    """

    looks_within = False

    def __init__(self, cancellation: Cancellation) -> None:
        self._cancellation = cancellation

    def before(self, application: Application) -> None:
        """Look whether it is to go on."""
        self._cancellation.check(f"{application.op.name}{application.in_time}")


class Poison(Observer):
    """Before each instruction, whatever memory no buffer is alive in is filled; so is a buffer that begins.

    Fresh memory of results is filled before the first one: what was used before has right numbers from the last run.
    An instruction that reads what was filled is named, and so is one that leaves it in its result. What is looked for
    are floating numbers and truth values that nothing computes, each of their bits being set. Where inputs have such
    numbers, or integers that become some bit by bit, nobody is named: poison is seen in the results, as NaN.

    Parameters
    ----------
    plan, device
        What runs.
    arenas
        Runs of bytes, by place.
    fresh
        The arrays of outputs and of next values, and of inputs that were given up, by kind and number.
    """

    def __init__(
        self,
        plan: Any,
        device: Any,
        arenas: Mapping[Any, Any],
        fresh: Mapping[tuple[str, int], Any] = NOTHING,
        doubts: set[str] | None = None,
    ) -> None:
        self._plan = plan
        self._doubts: set[str] = set() if doubts is None else doubts  # why nobody can be named
        self.starts: dict[int, list[Any]] = {}
        self.ends: dict[int, list[Any]] = {}
        retained = set(plan.retained or ())
        given_up = {plan.slots[s].buffer for s in plan.inputs}
        for number, b in enumerate(plan.buffers):
            if not b.nbytes or number in retained:
                continue
            if b.kind == ARENA:
                memory = arenas[b.place]
            else:
                memory = fresh.get((OUTPUT if b.kind == LENT else b.kind, b.source))
            if memory is None:
                continue
            array = device.view(memory, b.offset, (b.nbytes,), "uint8")
            if number not in given_up:
                self.starts.setdefault(b.lower, []).append(array)
            if b.kind not in (OUTPUT, NEXT):
                self.ends.setdefault(b.upper, []).append(array)
        self.at = 0
        self._device = device

    def within(self, plan: Any, arenas: Mapping[Any, Any]) -> Poison:
        """What fills the memory of a loop's body, each time."""
        return Poison(plan, self._device, arenas, doubts=self._doubts)

    def before(self, application: Application) -> None:
        """Poison what ended since the last call and what starts until this instruction; look at what it reads.

        Raises
        ------
        PlanError
            It reads memory that nobody has written since that was given away, or was fresh: names it.
        """
        while self.at <= application.instruction:
            for arrays in (self.ends.get(self.at, ()), self.starts.get(self.at, ())):
                for array in arrays:
                    array[...] = POISON
            self.at += 1
        operands = self._plan.instructions[application.instruction].operands
        for number, (slot, array) in enumerate(zip(operands, application.arguments, strict=False)):
            buffer = self._plan.buffers[self._plan.slots[slot].buffer]
            at = _filled(self._device, array, "fcb")
            if at is not None and buffer.kind not in (ARENA, LENT, OUTPUT, NEXT):
                self._doubts.add("an input")
            elif at is not None and not self._doubts:
                what = f"reads memory that nobody has written: element {list(at)} of operand {number}"
                raise PlanError(f"{self._name(application)} {what}, {_told(buffer)}")

    def after(self, application: Application) -> None:
        """Look at what it wrote.

        Raises
        ------
        PlanError
            It left memory as it was in its result: names it.
        """
        if any(_filled(self._device, array, "iu") is not None for array in application.arguments):
            self._doubts.add("an integer")
        for number, array in enumerate(application.outs):
            at = _filled(self._device, array, "fcb")
            if at is not None and not self._doubts:
                what = (
                    f"leaves element {list(at)} of result {number} unwritten, or reads scratch that nobody has written"
                )
                raise PlanError(f"{self._name(application)} {what}")

    def _name(self, application: Application) -> str:
        where = describe(application.origin)
        kernel = f" [{application.kernel}]" if application.kernel else ""
        told_at = f" (built at {where})" if where else ""
        return f"instruction {application.instruction}, {application.op.name}{kernel}{application.in_time}{told_at},"


def _told(buffer: Any) -> str:
    if buffer.kind not in (ARENA, LENT):
        return f"in the memory of {buffer.kind} {buffer.source}"
    return f"at offset {buffer.offset}, alive in [{buffer.lower}, {buffer.upper})"


def _filled(device: Any, array: Any, kinds: str) -> tuple[int, ...] | None:
    """Where an array of one of these kinds first has an element with all bits set."""
    if array is None or kind_of(array.dtype) not in kinds:
        return None
    host = np.ascontiguousarray(device.to_numpy(array))
    whole = (host.reshape(-1, 1).view(np.uint8) == POISON).all(axis=1)
    if not whole.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(whole.argmax()), host.shape))


def observers(device: Any, check_numerics: bool, cancellation: Cancellation | None) -> list[Observer]:
    """Those that the settings ask for; what looks at memory comes with the program that has some."""
    found: list[Observer] = []
    if cancellation is not None:
        found.append(Cancelling(cancellation))
    if check_numerics:
        found.append(Finite(device))
    if config.debug >= 2:
        found.append(Telling())
    return found
