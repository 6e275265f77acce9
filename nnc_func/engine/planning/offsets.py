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
from nnc_func.engine.planning.draft import Draft, Row
from nnc_func.facets.places import Place
from nnc_func.graph.node import Node


def allocate(draft: Draft, allocator: Allocator) -> None:
    """Find offsets for the arena's storages, place by place."""
    arenas: dict[Place, list[int]] = {None: []}
    for s, kind in enumerate(draft.kind):
        if draft.merged[s] == s and kind == ARENA:
            arenas.setdefault(draft.place[s], []).append(s)
    draft.offsets, draft.arenas = {}, {}
    for place, arena in arenas.items():
        problem = Problem(
            [draft.nbytes[s] for s in arena],
            [draft.first[s] for s in arena],
            [draft.last[s] + 1 for s in arena],
            draft.alignment,
            None if draft.streams is None else draft.streams.uses([draft.users[s] for s in arena]),
        )
        found = answered(allocator, problem)
        draft.offsets.update(zip(arena, found, strict=True))
        draft.arenas[place] = arena_size(problem, found)


def plan_of(draft: Draft) -> tuple[Plan, dict[Node, int]]:
    """A draft with offsets as a plan, and the buffer of each node's first result."""
    roots = [draft.root(s) for s in range(len(draft.merged))]
    number: dict[int, int] = {}
    buffers: list[BufferFields] = []
    rows = zip(draft.kind, draft.nbytes, draft.first, draft.last, draft.source, draft.place, strict=True)
    for s, (kind, nbytes, first, last, source, place) in enumerate(rows):
        if roots[s] == s:
            number[s] = len(buffers)
            lower, upper = (first, last + 1) if kind in (ARENA, LENT, DONATED) else (0, 0)
            buffers.append(BufferFields(kind, nbytes, lower, upper, draft.offsets.get(s, 0), source, place))
    slots = [
        SlotFields(number[roots[s]], aval, view, offset, strides)
        for s, aval, view, (offset, strides) in zip(draft.storage, draft.avals, draft.views, draft.lies, strict=True)
    ]
    instructions = sealed(Instruction, [_instruction(draft, row, slots, number) for row in draft.instructions])
    graph = draft.graph
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
        allocator=type(draft.request.allocator).__name__,
        name=graph.name,
        input_names=tuple([n.data for n in graph.inputs]),
        variable_names=tuple([n.data.name for n in graph.variables]),
        structure=graph.structure if graph.structure.size == len(graph.outputs) else None,
        retained=None if draft.pinned is None else tuple([number[s] for s in sorted(draft.pinned)]),
    )
    blocks = {v.node: slots[i].buffer for v, i in draft.slot_of.items() if v.index == 0}
    return plan, blocks


def _instruction(draft: Draft, row: Row, slots: list[SlotFields], number: dict[int, int]) -> Any:
    node, kernel, operands, results, scratch, view = row
    used: tuple[int, ...] = ()
    if scratch:
        used = tuple(range(len(slots), len(slots) + len(scratch)))
        slots += [SlotFields(number[storage], aval) for aval, storage in scratch]
    choice = TABLE if node in draft.recorded else DEFAULT
    name = kernel.name if kernel else "view"
    return InstructionFields(node.op, node.items, name, operands, results, used, view, node.origin, 0, (), choice)
