"""Slots and the storages that they live in: what a graph's values need, before it is known where that is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nnc_func.aval import Aval
from nnc_func.engine.copying import COPY
from nnc_func.engine.plan import ARENA, CONSTANT, INPUT, NEXT, OUTPUT, VARIABLE
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.places import Place
from nnc_func.graph import leaves
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value

FOREVER = 1 << 60


class Storages:
    """One planning: slots and the storages they live in, as parallel lists."""

    def __init__(self, graph: ComputationGraph, kernels: dict[Node, Kernel], recorded: Collection[Node] = ()) -> None:
        self.graph = graph
        self.kernels = kernels
        self.recorded = recorded  # whose kernel a table names
        self.commit = 0
        self.memo: dict[Any, Kernel] = {}
        self.slot_of: dict[Value, int] = {}
        self.avals: list[Aval] = []
        self.storage: list[int] = []  # slot -> storage
        self.whole: list[bool] = []  # slot covers its storage, in the order that its aval says
        self.views: list[bool] = []
        self.kind: list[str] = []  # storage -> kind, source, bytes, first and last use
        self.source: list[int] = []
        self.nbytes: list[int] = []
        self.place: list[Place] = []
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

    def _storage(self, kind: str, aval: Aval, source: int = -1) -> int:
        self.kind.append(kind)
        self.source.append(source)
        self.nbytes.append(aval.nbytes)
        self.place.append(aval.place)
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
                slot = self._slot(value.aval, self._storage(kind, value.aval, counts[kind]), True)
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
            row_major = self.avals[base].layout is None
            whole = self.whole[base] and (row_major or node.aval == self.avals[base])
            if (whole and row_major) or not view.needs_contiguous:
                slot = self._slot(node.aval, self.storage[base], whole and view.contiguous, True)
                self.slot_of[node] = slot
                self.instructions.append((node, None, operands, (slot,), (), True))
                return
        kernel = self.kernels[node]
        slots = tuple([self._slot(v.aval, self._storage(ARENA, v.aval), True) for v in results])
        for value, slot in zip(results, slots, strict=True):
            self.slot_of[value] = slot
        scratch: tuple[Any, ...] = ()
        if kernel.scratch is not None:
            wanted = kernel.scratch(tuple([a.aval for a in node.args]), **dict(node.items))
            needed = [Aval(s, d, None, results[0].aval.place) for s, d in wanted]
            scratch = tuple([(aval, self._storage(ARENA, aval)) for aval in needed])
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
                copied = self._slot(value.aval, self._storage(ARENA, value.aval), True)
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

    def root(self, storage: int) -> int:
        """The storage whose memory it took over, at the end."""
        while self.merged[storage] != storage:
            storage = self.merged[storage]
        return storage

    def take_over(self, mine: int, other: int) -> None:
        """Let the first live in the memory of the other from now on."""
        self.merged[mine] = other
        self.last[other] = self.last[mine]
