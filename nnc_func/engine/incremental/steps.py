"""What an incremental program runs parts of: an executable, what depends on what in it, and what outlives a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from nnc_func.aval import Aval
from nnc_func.config import config
from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.linkers.base import Executable, Linker, executable_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.running import array_views
from nnc_func.engine.running.checking_observers import POISON, Poison
from nnc_func.engine.running.interpretation import Applications, Interpretation
from nnc_func.engine.running.observers import Observer
from nnc_func.engine.running.results import Recycled, memory, recycled
from nnc_func.facets.places import Place
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import owned


@define(eq=False)
class Steps:
    """An executable any part of which can be run, in order; values and steps by number, as the executable has them.

    Attributes
    ----------
    device, executable
        What runs them.
    leaves
        What depends on which input and variable.
    inputs, variables, outputs
        Values.
    updates
        Pairs (position among the variables, new value).
    kept
        The values that outlive a run.
    avals
        Of each value.
    plan, memory
        What was linked, and the arenas by place; None and nothing on a device without memory.
    """

    device: Any
    executable: Executable
    leaves: Dependencies
    inputs: tuple[int, ...]
    variables: tuple[int, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...]
    kept: frozenset[int]
    avals: Sequence[Aval]
    plan: Plan | None = None
    memory: Mapping[Place, Any] = field(factory=dict)
    _fresh: Mapping[int, Recycled] = field(factory=dict)

    @property
    def arena_bytes(self) -> int:
        """Bytes of the memory that is planned."""
        return 0 if self.plan is None else sum(self.plan.arenas.values())

    def nbytes(self, value: int) -> int:
        """Size of a value."""
        return int(self.avals[value].nbytes)

    def copied(self, value: int) -> Any:
        """A value in memory of its own."""
        found = self.executable.array(value)
        if value not in self._fresh:
            return owned(self.device, found)
        target = self._fresh[value].take()
        target[...] = found
        return target

    def without(self, missing: Iterable[int]) -> list[Observer]:
        """Let it be seen where a value is read that is missing; who has to look on for that."""
        if self.plan is None:
            for value in missing:
                self.executable.keep(value, None)
            return []
        if config.spec < 3:
            return []
        for value in missing:
            buffer = self.plan.buffers[self.plan.slots[value].buffer]
            self.device.view(self.memory[buffer.place], buffer.offset, (buffer.nbytes,), "uint8")[...] = POISON
        return [Poison(self.plan, self.device, self.memory)]


def planned_steps(plan: Plan, device: Any, constants: Sequence[Any], linker: Linker) -> Steps:
    """Those of a plan that retains values, linked to memory part of which outlives a run."""
    rows = [
        Step(i.operands, i.results, i.operands[i.op.view.argument] if i.view and i.op.view else None)
        for i in plan.instructions
    ]
    retained = set(plan.retained or ())
    made = (slot for row in rows if row.base is None for slot in row.results)
    with memory(sum(plan.arenas.values()), f"the arena of {plan.name!r}"):
        arenas = {place: array_views.arena(device, nbytes, place) for place, nbytes in plan.arenas.items()}
    shown = sorted({*plan.outputs, *(slot for _, slot in plan.updates)})
    return Steps(
        device,
        executable_of(linker, plan, device, constants, arenas),
        Dependencies(rows, [*plan.inputs, *plan.variables]),
        plan.inputs,
        plan.variables,
        plan.outputs,
        plan.updates,
        frozenset(slot for slot in made if plan.slots[slot].buffer in retained),
        [slot.aval for slot in plan.slots],
        plan,
        arenas,
        {slot: recycled(device, plan.slots[slot].aval, "a result") for slot in shown},
    )


def interpreted_steps(graph: ComputationGraph, device: Any, policy: str) -> Steps:
    """Those of a graph whose nodes are interpreted: for devices without memory."""
    found = Applications(graph)
    rows = [
        Step(operands, results, operands[op.view.argument] if op.view else None)
        for _, op, operands, _, results in found.rows
    ]
    leaves = Dependencies(rows, [*found.inputs, *found.variables])
    pairs = [(len(found.inputs) + i, leaves.mask(value)) for i, value in found.updates]
    roots = [*found.outputs, *(v for _, v in found.updates)]
    kept = leaves.kept(policy, roots, pairs) | {v for v in roots if v in leaves.maker}  # views cost nothing
    return Steps(
        device,
        Interpretation(found, device, kept),
        leaves,
        found.inputs,
        found.variables,
        found.outputs,
        found.updates,
        kept,
        found.avals,
    )
