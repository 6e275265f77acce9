"""A planned graph as a problem of spilling, and the graph that an answer to it makes.

That graph says what is moved by the operator `transfer`, so that whatever reads, runs or verifies plans knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from attrs import evolve, frozen

from nnc_func.engine.plan_rows import ARENA, LENT, NEXT, OUTPUT
from nnc_func.engine.planning.alternatives import Alternatives
from nnc_func.engine.planning.committing import arrangement
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.in_place_reuse import overwritable
from nnc_func.engine.planning.output_borrowing import lenders
from nnc_func.engine.planning.passes import through
from nnc_func.engine.planning.reapplication import Reapplication
from nnc_func.engine.spilling import Movement, SpillProblem
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.places import Place, given
from nnc_func.graph.node import Node, Value

FRESH = (ARENA, OUTPUT, NEXT, LENT)  # what a run takes memory for


@frozen(eq=False)
class Spillable:
    """A planned graph as a problem.

    Attributes
    ----------
    draft
        What was planned.
    problem
        Its steps are the instructions that compute or copy something, in the plan's order; its values are what they
        make in the device's own place. What is put together of parts is one value, and not moved before it is whole.
    rows
        For each step the position of its instruction.
    values
        For each value of the problem that of the graph; None where the engine has inserted what makes it.
    """

    draft: Draft
    problem: SpillProblem
    rows: list[int]
    values: list[Value | None]


def spillable(draft: Draft) -> Spillable:
    """What a planning's instructions are, as steps, and what of their results may leave the device's own place.

    Results of the program, and what the engine has inserted to make them, are not moved. What was brought from another
    place is there still.
    """
    storages, slots = draft.storages, draft.slots
    base: dict[int, Value] = {}
    for value, slot in draft.slot_of.items():
        if slots[slot].is_whole and not slots[slot].is_view:
            base.setdefault(slots[slot].storage, value)
    fresh = [s.place is None and s.nbytes > 0 and storages[draft.root(n)].kind in FRESH for n, s in enumerate(storages)]
    rows, touches, scratch, clean = list[int](), dict[int, list[int]](), list[int](), set[int]()
    complete: dict[int, int] = {}
    finished: dict[int, list[int]] = {}
    for storage, at in draft.finished.items():
        finished.setdefault(at, []).append(storage)
    for t, row in enumerate(draft.instructions):
        if row.is_view:
            complete.update(dict.fromkeys(finished.get(t, ()), len(rows) - 1))
            continue
        own = {storage for _, storage in row.scratch}
        for storage in draft.touched[t]:
            if fresh[storage] and storage not in own:
                touches.setdefault(storage, []).append(len(rows))
        scratch.append(sum([draft.aligned(aval.nbytes) for aval, _ in row.scratch if aval.place is None]))
        if type(row.node) is Node and row.node.op.place is given and slots[row.operands[0]].aval.place is not None:
            clean.update(slots[slot].storage for slot in row.results)
        rows.append(t)
    alone = {n for n, s in enumerate(storages) if storages[draft.root(n)].kind in (NEXT, OUTPUT)}
    for storage in alone.difference(lenders(draft)).intersection(touches):
        touches[storage] = sorted({0, *touches[storage]})  # nothing else lives there before it is made
    number = {storage: at for at, storage in enumerate(touches)}
    overwrites, single = {}, copy(draft)
    single.alike = {}  # negotiation may have given alike applications several kernels
    over = overwritable(single)
    for step, t in enumerate(rows):
        pairs = [
            (number[made], [number[home] for home in homes if home in number])
            for made, homes, _ in over[t]
            if made in number and made not in alone
        ]
        if pairs:
            overwrites[step] = pairs
    wanted = [*draft.outputs, *(slot for _, slot in draft.updates)]
    parted = _read_in_parts(draft)
    problem = SpillProblem(
        [draft.aligned(storages[storage].nbytes) for storage in touches],
        [*touches.values()],
        scratch,
        overwrites,
        {number[storage]: step for storage, step in complete.items() if storage in number},
        clean=[number[storage] for storage in clean if storage in number],
        kept=[number[storage] for storage in touches if storage not in base or storage in parted],
        lasting={number[s] for slot in wanted if (s := slots[slot].storage) in number},
    )
    return Spillable(draft, problem, rows, [base.get(storage) for storage in touches])


def _read_in_parts(draft: Draft) -> set[int]:
    """Storages of wholes of which a part is read, when they are whole, that is no view of them."""
    slots, found = draft.slots, set[int]()
    own = {at for at, row in enumerate(slots) if row.is_whole and not row.is_view}
    for t, row in enumerate(draft.instructions):
        if row.is_view and row.node.op.parts is None:
            if own.issuperset(row.operands[:1]):
                own.update(row.results)
            continue
        for slot in row.operands:
            storage = slots[slot].storage
            if slot not in own and draft.finished.get(storage, len(draft.instructions)) < t:
                found.add(storage)
    return found


def rebuilt(found: Spillable, movement: Movement, fetched: Mapping[int, int], slow: Place) -> Draft:
    """The draft of the graph in which values are moved as an answer says, with offsets.

    Instructions are in the order of the draft that the problem is of, and run by its kernels.

    Parameters
    ----------
    found, movement
        The problem, and the answer.
    fetched
        For each gap in slow memory the step before which its value is brought back.
    slow
        The place to which values are moved.
    """
    draft, problem = found.draft, found.problem
    instructions = draft.instructions
    nodes = [instructions[t].node for t in found.rows]
    making = Reapplication(draft.graph, {node for node in nodes if type(node) is Node})
    fetches: dict[int, list[int]] = {}
    for number in sorted(movement.dropped, key=lambda n: (problem.gaps[n].end, n)):
        fetches.setdefault(fetched[number], []).append(problem.gaps[number].value)
    spills: dict[int, list[int]] = {}
    for number in sorted({problem.gaps[n].value for n in movement.dropped} - problem.clean):
        at = problem.complete.get(number, problem.touches[number][0])
        spills.setdefault(at, []).append(number)
    values: list[Any] = found.values  # those that are moved are the graph's
    held: dict[int, Value] = {}  # by value: its copy in slow memory
    early, view = None, 0
    for step, (t, node) in enumerate(zip(found.rows, nodes, strict=True)):
        for row in instructions[view:t]:
            if row.is_view and row.node.op.parts is not None:
                making.at(row.node)
        view = t
        for number in fetches.get(step, ()):
            value = values[number]
            source = held[number] if number in held else making.at(value.node.args[0])
            making.instead[value] = making.moved(source, None, node.origin)
        if early is None and t >= draft.commit:
            early = len(making.made)
        if type(node) is Node:
            making.run(node)
        for number in spills.get(step, ()):
            held[number] = making.moved(making.at(values[number]), slow, values[number].node.origin)
    graph, sequence = making.outcome, [*making.made]
    passes = evolve(draft.request.passes, negotiate=lambda each: each)  # that has been done
    alternatives = Alternatives(evolve(draft.request, graph=graph, sequence=sequence, passes=passes))
    had = {making.latest[row.node]: row.kernel for row in instructions if row.node in making.latest}
    _run_by(alternatives.root, {node: kernel for node, kernel in had.items() if kernel is not None})
    planned = alternatives.root.kernels
    count = len(alternatives.sequence) if early is None else sum(node in planned for node in sequence[:early])
    arranged = evolve(arrangement(alternatives.sequence, count, planned), loose=draft.arrangement.loose)
    made = through(passes.commit, alternatives.draft(arranged))
    made.order = draft.order
    made.negotiated = {making.latest[node] for node in draft.negotiated}
    return through(passes.allocate, made)


def _run_by(draft: Draft, kernels: Mapping[Any, Kernel]) -> None:
    """Run each application by the kernel that it had before anything was moved: so it rounds alike."""
    other = {node: kernel for node, kernel in kernels.items() if draft.kernels.get(node, kernel) is not kernel}
    draft.kernels = {**draft.kernels, **other}
    draft.alike = {a: b for a, b in draft.alike.items() if a not in other and b not in other}
