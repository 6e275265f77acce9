"""From a graph to a plan: kernels, order, views, in-place, lifetimes, offsets. It computes nothing.

Variables are written in a commit section at the end, made of what cannot fail, so that a program that fails
leaves every variable as it was; an update that cannot be written in place gets a fresh array and is swapped in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.aval import Aval
from nnc_func.engine.allocators.base import Allocator, Problem, answered, arena_size
from nnc_func.engine.copying import COPY
from nnc_func.engine.lending import borrowers
from nnc_func.engine.order import arranged
from nnc_func.engine.plan import ARENA, CONSTANT, INPUT, LENT, NEXT, OUTPUT, VARIABLE, Buffer, Instruction, Plan, Slot
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.graph import leaves
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value

FOREVER = 1 << 60


def planned(
    graph: ComputationGraph,
    device: Any,
    allocator: Allocator,
    orders: Sequence[str],
    alignment: int = 64,
    checked: bool = False,
) -> tuple[Plan, dict[Node, int], list[Any]]:
    """The plan of a graph whose shapes are known, the buffer of each node's first result, and the constants' arrays.

    With `checked` every kernel may be found to have failed, so that none writes over a variable.

    Raises
    ------
    DeviceError
        An operator has no kernel on the device.
    """
    kernels = {
        n: device.choose(n.op, tuple([a.aval for a in n.args]), n.items)
        for n in graph.nodes
        if n.args or n.op not in leaves.LEAVES
    }
    work = _Work(graph, kernels)
    sequence, work.commit, order = arranged(graph, kernels, orders, checked)
    work.define_leaves()
    for node in sequence:
        work.define(node)
    work.finish_outputs()
    work.lifetimes()
    work.share()
    work.lend()
    plan, blocks = work.plan(allocator, alignment, order)
    return plan, blocks, work.constant_values


class _Work:
    """One planning: slots and the storages they live in, as parallel lists."""

    def __init__(self, graph: ComputationGraph, kernels: dict[Node, Kernel]) -> None:
        self.graph = graph
        self.kernels = kernels
        self.commit = 0
        self.memo: dict[Any, Kernel] = {}
        self.slot_of: dict[Value, int] = {}
        self.avals: list[Aval] = []
        self.storage: list[int] = []  # slot -> storage
        self.whole: list[bool] = []  # slot covers its storage, in C order
        self.views: list[bool] = []
        self.kind: list[str] = []  # storage -> kind, source, bytes, first and last use
        self.source: list[int] = []
        self.nbytes: list[int] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.merged: list[int] = []  # storage -> the storage whose memory it took over, or itself
        self.instructions: list[tuple[Any, ...]] = []
        self.keep: list[Any] = []  # results of nodes with several are weakly interned: held while we plan
        self.outputs: list[int] = []
        self.updates: list[tuple[int, int]] = []
        self.variable_at: dict[Node, int] = {}
        self.wanted: dict[int, tuple[str, int]] = {}  # slot -> the output or update that it becomes

    # --- slots ----------------------------------------------------------------------------------------

    def _storage(self, kind: str, nbytes: int, source: int = -1) -> int:
        self.kind.append(kind)
        self.source.append(source)
        self.nbytes.append(nbytes)
        self.first.append(FOREVER)
        self.last.append(-1)
        self.merged.append(len(self.merged))
        return len(self.kind) - 1

    def _slot(self, aval: Aval, storage: int, whole: bool, view: bool = False) -> int:
        self.avals.append(aval)
        self.storage.append(storage)
        self.whole.append(whole)
        self.views.append(view)
        return len(self.avals) - 1

    def define_leaves(self) -> None:
        """Slots of inputs, variables and constants."""
        counts = {INPUT: 0, VARIABLE: 0, CONSTANT: 0}
        self.leaf_slots: dict[str, list[int]] = {INPUT: [], VARIABLE: [], CONSTANT: []}
        self.constant_values: list[Any] = []
        for node in (*self.graph.inputs, *self.graph.nodes):
            if (
                node.op not in leaves.LEAVES
                or node in self.slot_of
                or (node.results[:1] and node.results[0] in self.slot_of)
            ):
                continue
            kind = {leaves.INPUT: INPUT, leaves.VARIABLE: VARIABLE}.get(node.op, CONSTANT)
            results = node.results
            self.keep.append(results)
            for i, value in enumerate(results):
                slot = self._slot(value.aval, self._storage(kind, value.aval.nbytes, counts[kind]), True)
                self.slot_of[value] = slot
                self.leaf_slots[kind].append(slot)
                counts[kind] += 1
                if kind == CONSTANT:
                    self.constant_values.append(node.data[i] if node.op.several else node.data)
            if kind == VARIABLE:
                self.variable_at[node] = counts[VARIABLE] - 1

    def define(self, node: Node) -> None:
        """Slots and the instruction of one application."""
        operands = tuple([self.slot_of[a] for a in node.args])
        results = node.results
        if node.op.several:
            self.keep.append(results)
        view = node.op.view
        if view is not None:
            base = operands[view.argument]
            whole = self.whole[base]
            if whole or not view.needs_contiguous:
                slot = self._slot(node.aval, self.storage[base], whole and view.contiguous, True)
                self.slot_of[node] = slot
                self.instructions.append((node, None, operands, (slot,), (), True))
                return
        kernel = self.kernels[node]
        slots = tuple([self._slot(v.aval, self._storage(ARENA, v.aval.nbytes), True) for v in results])
        for value, slot in zip(results, slots, strict=True):
            self.slot_of[value] = slot
        scratch: tuple[Any, ...] = ()
        if kernel.scratch is not None:
            wanted = kernel.scratch(tuple([a.aval for a in node.args]), **dict(node.items))
            scratch = tuple((Aval(s, d), self._storage(ARENA, Aval(s, d).nbytes)) for s, d in wanted)
        self.instructions.append((node, kernel, operands, slots, scratch, False))

    def finish_outputs(self) -> None:
        """Outputs and updates get buffers of their own; what is a leaf, a view or wanted twice is copied."""
        taken: set[int] = set()
        wanted: list[tuple[Value, str, int, int]] = [(v, OUTPUT, i, -1) for i, v in enumerate(self.graph.outputs)]
        for i, (variable, value) in enumerate(self.graph.updates):
            wanted.append((value, NEXT, i, self.variable_at[variable]))
        self.updated = {self.variable_at[v] for v, _ in self.graph.updates}
        copies: list[tuple[Any, ...]] = []
        for value, kind, source, at in wanted:
            slot = self.slot_of[value]
            storage = self.storage[slot]
            own = self.kind[storage] == ARENA and not self.views[slot] and storage not in taken
            if not own:
                copied = self._slot(value.aval, self._storage(ARENA, value.aval.nbytes), True)
                copies.append((value.node, COPY, (slot,), (copied,), (), False))
                slot, storage = copied, self.storage[copied]
            taken.add(storage)
            if kind == OUTPUT:
                self.kind[storage], self.source[storage] = OUTPUT, source
                self.outputs.append(slot)
            else:
                self.kind[storage], self.source[storage] = NEXT, at
                self.updates.append((at, slot))
        # copies read what is there before the commit section writes, or what an instruction has just made
        made = {s for ins in self.instructions[self.commit :] for s in ins[3]}
        early = [c for c in copies if c[2][0] not in made]
        late = [c for c in copies if c[2][0] in made]
        self.instructions[self.commit : self.commit] = early
        self.commit += len(early)
        self.instructions.extend(late)

    # --- lifetimes and sharing ------------------------------------------------------------------------

    def lifetimes(self) -> None:
        """First and last use of every storage, views counted for their base."""
        first, last, storage = self.first, self.last, self.storage
        for t, (_, _, operands, results, scratch, _) in enumerate(self.instructions):
            for slot in operands:
                last[storage[slot]] = t
            for slot in results:
                s = storage[slot]
                if first[s] == FOREVER:
                    first[s] = t
                if last[s] < t:
                    last[s] = t
            for _, s in scratch:
                first[s] = last[s] = t
        end = len(self.instructions)
        for s, kind in enumerate(self.kind):
            if kind in (OUTPUT, NEXT):
                last[s] = end

    def share(self) -> None:
        """In place: a result takes over the memory of an operand that dies there, where the kernel allows it.

        A chain that starts over a variable must end in its update; one that does not is not begun the next time.
        """
        merged, last = list(self.merged), list(self.last)
        while True:
            self._share()
            updates = {at for at, slot in self.updates if self._root(self.storage[slot]) == self._variable(at)}
            broken = {
                self.source[root]
                for s in range(len(self.kind))
                if (root := self._root(s)) != s and self.kind[root] == VARIABLE and self.source[root] not in updates
            }
            if not broken:
                return
            self.updated -= broken
            self.merged, self.last = list(merged), list(last)

    def _variable(self, at: int) -> int:
        return self.storage[self.leaf_slots[VARIABLE][at]]

    def _share(self) -> None:
        for t, (_, kernel, operands, results, _, view) in enumerate(self.instructions):
            if view or kernel is COPY or len(results) != 1 or not kernel.overwrites:
                continue
            result = results[0]
            mine = self.storage[result]
            kind = self.kind[mine]
            if kind == OUTPUT:
                continue
            allowed = range(len(operands)) if kernel.overwrites == ALL else kernel.overwrites
            for position in allowed:
                slot = operands[position]
                if (
                    self.whole[slot]
                    and self.avals[slot] == self.avals[result]
                    and self._dies(t, slot, operands, kind, mine, kernel)
                ):
                    self._take_over(mine, self._root(self.storage[slot]))
                    break

    def _dies(self, t: int, slot: int, operands: tuple[int, ...], kind: str, mine: int, kernel: Kernel) -> bool:
        storage = self._root(self.storage[slot])
        if self.last[storage] != t or self.nbytes[storage] != self.nbytes[mine]:
            return False
        if self.kind[storage] == VARIABLE:  # only one that gets a new value, where nothing can fail any more
            if t < self.commit or self.source[storage] not in self.updated:
                return False
            if self.avals[slot] != self.avals[self.leaf_slots[VARIABLE][self.source[storage]]]:
                return False  # the variable in another shape
            if kind == NEXT and self.source[storage] != self.source[mine]:
                return False
        elif self.kind[storage] != ARENA or kind == NEXT:
            return False
        # the same memory at another position must be the same elements, and overwriting it there allowed too
        allowed = range(len(operands)) if kernel.overwrites == ALL else kernel.overwrites
        return all(
            self._root(self.storage[o]) != storage
            or (i in allowed and self.whole[o] and self.avals[o].shape == self.avals[slot].shape)
            for i, o in enumerate(operands)
        )

    def _root(self, storage: int) -> int:
        while self.merged[storage] != storage:
            storage = self.merged[storage]
        return storage

    def _take_over(self, mine: int, other: int) -> None:
        self.merged[mine] = other
        self.last[other] = self.last[mine]

    def lend(self) -> None:
        """What is dead before an output is written may live in its memory, where that lowers the peak."""
        bound = {s for *_, scratch, _ in self.instructions for _, s in scratch}  # once, to the arena: outputs are fresh
        for slot in sorted(self.outputs, key=lambda s: -self.avals[s].nbytes):
            output = self.storage[slot]
            arena = [
                s for s in range(len(self.kind)) if self.merged[s] == s and self.kind[s] == ARENA and s not in bound
            ]
            chosen = borrowers(
                [self.nbytes[s] for s in arena],
                [self.first[s] for s in arena],
                [self.last[s] + 1 for s in arena],
                self.nbytes[output],
                self.first[output],
            )
            for at in chosen:
                self.kind[arena[at]], self.source[arena[at]] = LENT, self.source[output]

    # --- the plan -------------------------------------------------------------------------------------

    def plan(self, allocator: Allocator, alignment: int, order: str) -> tuple[Plan, dict[Node, int]]:
        """Offsets for the arena's storages, and everything as data."""
        roots = [self._root(s) for s in range(len(self.kind))]
        arena = [s for s in range(len(self.kind)) if roots[s] == s and self.kind[s] == ARENA]
        problem = Problem(
            [self.nbytes[s] for s in arena],
            [self.first[s] for s in arena],
            [self.last[s] + 1 for s in arena],
            alignment,
        )
        offsets = dict(zip(arena, answered(allocator, problem), strict=True))
        number: dict[int, int] = {}
        buffers: list[Buffer] = []
        for s in range(len(self.kind)):
            if roots[s] == s:
                number[s] = len(buffers)
                planned = self.kind[s] in (ARENA, LENT)
                buffers.append(
                    Buffer(
                        self.kind[s],
                        self.nbytes[s],
                        self.first[s] if planned else 0,
                        self.last[s] + 1 if planned else 0,
                        offsets.get(s, 0),
                        self.source[s],
                    )
                )
        slots = [
            Slot(number[roots[s]], aval, view)
            for s, aval, view in zip(self.storage, self.avals, self.views, strict=True)
        ]
        instructions = [self._instruction(raw, slots, number) for raw in self.instructions]
        plan = Plan(
            instructions=tuple(instructions),
            slots=tuple(slots),
            buffers=tuple(buffers),
            inputs=tuple(self.leaf_slots[INPUT]),
            variables=tuple(self.leaf_slots[VARIABLE]),
            constants=tuple(self.leaf_slots[CONSTANT]),
            outputs=tuple(self.outputs),
            updates=tuple(self.updates),
            commit=self.commit,
            arena_bytes=arena_size(problem, [offsets[s] for s in arena]),
            alignment=alignment,
            order=order,
            allocator=type(allocator).__name__,
        )
        blocks = {v.node: slots[i].buffer for v, i in self.slot_of.items() if v.index == 0}
        return plan, blocks

    def _instruction(self, raw: tuple[Any, ...], slots: list[Slot], number: dict[int, int]) -> Instruction:
        node, kernel, operands, results, scratch, view = raw
        used = []
        for aval, storage in scratch:
            slots.append(Slot(number[storage], aval))
            used.append(len(slots) - 1)
        if kernel is COPY:
            return Instruction(COPY, (), "copy", operands, results, (), False, node.origin)
        return Instruction(
            node.op, node.items, kernel.name if kernel else "view", operands, results, tuple(used), view, node.origin
        )
