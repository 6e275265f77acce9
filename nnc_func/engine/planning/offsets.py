"""Offsets for what lives in the arena, and the plan as data."""

from __future__ import annotations

from attrs import evolve

from nnc_func.engine.allocators.base import Allocator, Problem, answered, arena_size
from nnc_func.engine.naming import name_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import (
    ARENA,
    CONSTANT,
    DEFAULT,
    DONATED,
    INPUT,
    LENT,
    MEMORY,
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
from nnc_func.engine.planning.draft import Draft
from nnc_func.facets.places import Place
from nnc_func.graph.node import Node


def allocate(draft: Draft, allocator: Allocator) -> None:
    """Find offsets for the arena's storages, place by place."""
    arenas: dict[Place, list[int]] = {None: []}
    for number, storage in enumerate(draft.storages):
        if storage.merged == number and storage.kind == ARENA:
            arenas.setdefault(storage.place, []).append(number)
    draft.offsets, draft.arenas = {}, {}
    for place, numbers in arenas.items():
        arena = [draft.storages[number] for number in numbers]
        problem = Problem(
            [s.nbytes for s in arena],
            [s.first for s in arena],
            [s.last + 1 for s in arena],
            draft.alignment,
            None if draft.streams is None else draft.streams.uses([s.users for s in arena]),
        )
        found = answered(allocator, problem)
        draft.offsets.update(zip(numbers, found, strict=True))
        draft.arenas[place] = arena_size(problem, found)


def plan_of(draft: Draft) -> tuple[Plan, dict[Node, int]]:
    """A draft with offsets as a plan, and the buffer of each node's first result."""
    roots = [s if storage.merged == s else draft.root(s) for s, storage in enumerate(draft.storages)]
    number: dict[int, int] = {}
    buffers: list[BufferFields] = []
    for i, s in enumerate(draft.storages):
        if roots[i] == i:
            number[i] = len(buffers)
            lower, upper = (s.first, s.last + 1) if s.kind in (ARENA, LENT, DONATED) else (0, 0)
            buffers.append(
                BufferFields(s.kind, s.nbytes, lower, upper, draft.offsets.get(i, s.offset), s.source, s.place)
            )
    slots = [
        SlotFields(number[roots[storage]], aval, is_view, offset, strides)
        for aval, storage, _, _, is_view, offset, strides in draft.slots
    ]
    if any(storage.start for storage in draft.storages):
        for made_slot, row in zip(slots, draft.slots, strict=True):
            made_slot.offset += 0 if row.is_view else draft.start(row.storage)  # a view lies where its base does
    recorded, loop_of = draft.recorded, draft.loops.get
    made: list[InstructionFields] = []
    for node, kernel, operands, results, scratch, view in draft.instructions:
        used: tuple[int, ...] = ()
        if scratch:
            used = tuple(range(len(slots), len(slots) + len(scratch)))
            slots += [SlotFields(number[storage], aval) for aval, storage in scratch]
        name = kernel.name if kernel else "view"
        choice = TABLE if node in recorded else MEMORY if node in draft.negotiated else DEFAULT
        made.append(
            InstructionFields(
                node.op, node.items, name, operands, results, used, view, node.origin, 0, (), choice, loop_of(node, ())
            )
        )
    instructions = sealed(Instruction, made)
    graph = draft.graph
    with_library = any(k.library for k in draft.kernels.values()) or any(
        each.plan.machine for i in instructions for each in i.loops
    )
    if draft.streams is not None:
        dealt = zip(instructions, draft.streams.stream, draft.streams.waits, strict=True)
        instructions = tuple([evolve(i, stream=stream, waits=waits) for i, stream, waits in dealt])
    plan = Plan(
        instructions=instructions,
        slots=sealed(Slot, slots),
        buffers=sealed(Buffer, buffers),
        inputs=tuple(draft.leaf_slots[INPUT]),
        variables=tuple(draft.leaf_slots[VARIABLE]),
        constants=tuple(draft.leaf_slots[CONSTANT]),
        outputs=tuple(draft.outputs),
        updates=tuple(draft.updates),
        commit=draft.commit,
        arena_bytes=draft.arenas[None],
        elsewhere=tuple((str(place), nbytes) for place, nbytes in draft.arenas.items() if place is not None),
        alignment=draft.alignment,
        order=draft.order,
        allocator=name_of(draft.request.allocator),
        name=graph.name,
        input_names=tuple([n.data for n in graph.inputs if n not in draft.variable_at]),
        variable_names=tuple([n.data.name for n in graph.variables]),
        structure=graph.structure if graph.structure.size == len(graph.outputs) else None,
        machine=getattr(draft.request.device, "library_setting", "") if with_library else "",
        retained=None if draft.pinned is None else tuple([number[s] for s in sorted(draft.pinned)]),
    )
    blocks = {v.node: slots[i].buffer for v, i in draft.slot_of.items() if v.index == 0}
    return plan, blocks
