"""Offsets for what lives in the arena, and the plan as data."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from nnc_func.engine.allocators.base import Allocator, Problem, answered, arena_size
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import (
    ARENA,
    CONSTANT,
    DEFAULT,
    DONATED,
    INPUT,
    LENT,
    TABLE,
    VARIABLE,
    Buffer,
    BufferFields,
    Instruction,
    InstructionFields,
    Slot,
    SlotFields,
    sealed,
)
from nnc_func.engine.planning.storages import Storages
from nnc_func.facets.places import Place
from nnc_func.graph.node import Node


def placed(work: Storages, allocator: Allocator, alignment: int) -> tuple[Plan, dict[Node, int]]:
    """Offsets for the arena's storages, and everything as data."""
    roots = [*work.merged]
    for s, other in enumerate(roots):
        while other != work.merged[other]:
            other = work.merged[other]
        roots[s] = other
    arenas: dict[Place, list[int]] = {None: []}
    for s in range(len(work.kind)):
        if roots[s] == s and work.kind[s] == ARENA:
            arenas.setdefault(work.place[s], []).append(s)
    offsets: dict[int, int] = {}
    sizes: dict[Place, int] = {}
    for place, arena in arenas.items():
        problem = Problem(
            [work.nbytes[s] for s in arena],
            [work.first[s] for s in arena],
            [work.last[s] + 1 for s in arena],
            alignment,
            None if work.streams is None else work.streams.uses([work.users[s] for s in arena]),
        )
        found = answered(allocator, problem)
        offsets.update(zip(arena, found, strict=True))
        sizes[place] = arena_size(problem, found)
    number: dict[int, int] = {}
    buffers: list[BufferFields] = []
    rows = zip(work.kind, work.nbytes, work.first, work.last, work.source, work.place, strict=True)
    for s, (kind, nbytes, first, last, source, place) in enumerate(rows):
        if roots[s] == s:
            number[s] = len(buffers)
            lower, upper = (first, last + 1) if kind in (ARENA, LENT, DONATED) else (0, 0)
            buffers.append(BufferFields(kind, nbytes, lower, upper, offsets.get(s, 0), source, place))
    slots = [
        SlotFields(number[roots[s]], aval, view, offset, strides)
        for s, aval, view, (offset, strides) in zip(work.storage, work.avals, work.views, work.lies, strict=True)
    ]
    instructions = sealed(Instruction, [_instruction(work, raw, slots, number) for raw in work.instructions])
    graph = work.graph
    if work.streams is not None:
        dealt = zip(instructions, work.streams.stream, work.streams.waits, strict=True)
        instructions = tuple([evolve(i, stream=stream, waits=waits) for i, stream, waits in dealt])
    plan = Plan(
        instructions=instructions,
        slots=sealed(Slot, slots),
        buffers=sealed(Buffer, buffers),
        inputs=tuple(work.leaf_slots[INPUT]),
        variables=tuple(work.leaf_slots[VARIABLE]),
        constants=tuple(work.leaf_slots[CONSTANT]),
        outputs=tuple(work.outputs),
        updates=tuple(work.updates),
        commit=work.commit,
        arena_bytes=sizes.pop(None),
        elsewhere=tuple((str(place), nbytes) for place, nbytes in sizes.items()),
        alignment=alignment,
        order=work.order,
        allocator=type(allocator).__name__,
        name=graph.name,
        input_names=tuple([n.data for n in graph.inputs]),
        variable_names=tuple([n.data.name for n in graph.variables]),
        structure=graph.structure if graph.structure.size == len(graph.outputs) else None,
        retained=None if work.pinned is None else tuple([number[s] for s in sorted(work.pinned)]),
    )
    blocks = {v.node: slots[i].buffer for v, i in work.slot_of.items() if v.index == 0}
    return plan, blocks


def _instruction(work: Storages, raw: tuple[Any, ...], slots: list[SlotFields], number: dict[int, int]) -> Any:
    node, kernel, operands, results, scratch, view = raw
    used: tuple[int, ...] = ()
    if scratch:
        used = tuple(range(len(slots), len(slots) + len(scratch)))
        slots += [SlotFields(number[storage], aval) for aval, storage in scratch]
    choice = TABLE if node in work.recorded else DEFAULT
    name = kernel.name if kernel else "view"
    return InstructionFields(node.op, node.items, name, operands, results, used, view, node.origin, 0, (), choice)
