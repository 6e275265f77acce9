"""The steps of a plan that retains values, bound to memory: any of them can be run, in the plan's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nnc_func.config import config
from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.plan import Plan
from nnc_func.engine.running import located
from nnc_func.engine.running.checked import POISON, Poison
from nnc_func.engine.running.frame import Frame
from nnc_func.engine.running.observed import Application, Observer
from nnc_func.engine.running.results import memory, recycled


class PlannedSteps:
    """Instructions over one arena, part of which outlives a run.

    Attributes
    ----------
    plan
        The plan, with its retained buffers.
    leaves
        What depends on which input and variable: slots, by number.
    inputs, variables, outputs
        Slots.
    updates
        Pairs (position among the variables, slot of the new value).
    kept
        Slots whose value outlives a run.
    done
        How many of the last run's kernels were started.
    """

    def __init__(self, plan: Plan, device: Any, constants: list[Any]) -> None:
        self.plan = plan
        self.inputs, self.variables, self.outputs, self.updates = (
            plan.inputs,
            plan.variables,
            plan.outputs,
            plan.updates,
        )
        steps = [
            Step(i.operands, i.results, i.operands[i.op.view.argument] if i.view and i.op.view else None)
            for i in plan.instructions
        ]
        self.leaves = Dependencies(steps, [*plan.inputs, *plan.variables])
        retained = set(plan.retained or ())
        made = (slot for step in steps if step.base is None for slot in step.results)
        self.kept = frozenset(slot for slot in made if plan.slots[slot].buffer in retained)
        self.arena_bytes = sum(plan.arenas.values())
        self.done = 0
        self._device = device
        with memory(self.arena_bytes, f"the arena of {plan.name!r}"):
            arenas = {place: located.arena(device, nbytes, place) for place, nbytes in plan.arenas.items()}
        self._frame = Frame(plan, device, constants, arenas)
        self._at = {t: position for position, t in enumerate(self._frame.order)}
        self._given: dict[int, Any] = {}
        shown = {*self.outputs, *(slot for _, slot in self.updates)}
        self._fresh = {slot: recycled(device, plan.slots[slot].aval, "a result") for slot in sorted(shown)}

    def nbytes(self, value: int) -> int:
        """Size of a value."""
        return int(self.plan.slots[value].aval.nbytes)

    def put(self, value: int, array: Any) -> None:
        """Let a leaf be that array."""
        self._frame.keep(value, array)
        self._given[value] = array

    def array(self, value: int) -> Any:
        """Where a value is: not the caller's to keep."""
        found = self._given.get(value)
        return self._frame.arrays[value] if found is None else found

    def copied(self, value: int) -> Any:
        """A value in memory of its own."""
        target = self._fresh[value].take()
        target[...] = self.array(value)
        return target

    def prepared(self, positions: Sequence[int]) -> Any:
        """What `run` takes: the kernels at these positions, and their place in the plan."""
        order = [t for t in positions if t in self._at]
        return [self._frame.calls[self._at[t]] for t in order], order  # views were taken when they were bound

    def run(self, section: Any) -> None:
        """Run kernels one after the other.

        Raises
        ------
        NncError
            A kernel failed: names the operator, the shapes and the user's line.
        """
        calls, order = section
        rest: Any = iter(calls)
        try:
            self._frame.run(rest, order, len(order))
        finally:
            self.done = len(order) - rest.__length_hint__()

    def walk(self, section: Any, missing: Any, watching: Sequence[Observer], wait: Any) -> Iterator[Application]:
        """As `run`, before the observers' eyes; where memory is poisoned, so is what is missing."""
        self.done = 0
        seeing = list(watching)
        if config.spec >= 3:
            seeing.append(Poison(self.plan, self._device, self._frame))
            for slot in missing:
                buffer = self.plan.buffers[self.plan.slots[slot].buffer]
                self._device.view(self._frame.arenas[buffer.place], buffer.offset, (buffer.nbytes,), "uint8")[...] = (
                    POISON
                )
        yield from self._frame.walk(self._started(section[1]), seeing, wait)

    def _started(self, order: Sequence[int]) -> Iterator[int]:
        """Where these kernels are in the frame; they are counted as they are asked for."""
        for t in order:
            self.done += 1
            yield self._at[t]
