"""Slots and the storages that they live in: what a graph's values need, before it is known where that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from nnc_func.aval import Aval
from nnc_func.engine.copying import copying, filling
from nnc_func.engine.loop_instruction import Loop
from nnc_func.engine.orders.base import Answer, OrderProblem
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DONATED, INPUT, NEXT, OUTPUT, VARIABLE
from nnc_func.engine.planning.committing import Arrangement
from nnc_func.engine.planning.request import Request
from nnc_func.engine.planning.streams import Streams
from nnc_func.engine.planning.sub_buffers import NO_SUB_BUFFERS, SubBuffer
from nnc_func.engine.planning.variants import Variant
from nnc_func.errors import PlanError
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.places import Place
from nnc_func.graph import leaves
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.memory import after

FOREVER = 1 << 60
KIND_OF = {leaves.INPUT: INPUT, leaves.VARIABLE: VARIABLE}  # of a leaf's memory
Overwriting = tuple[int, list[int], list[int]]  # a storage that is made, and those it may take over, by whose slots


class Row(NamedTuple):
    """An instruction in the making.

    Attributes
    ----------
    node, kernel
        What it applies, and by which kernel; a view has none.
    operands, results
        Slots.
    scratch
        The aval and the storage of each array that the kernel needs besides.
    is_view
        It computes nothing.
    """

    node: Any  # or what the engine inserts
    kernel: Kernel | None
    operands: tuple[int, ...]
    results: tuple[int, ...]
    scratch: tuple[tuple[Aval, int], ...] = ()
    is_view: bool = False


class SlotRow(NamedTuple):
    """A value in the making.

    Attributes
    ----------
    aval, storage
        What it is, and the number of the storage that it lives in.
    is_whole
        It covers its storage, in the order that its aval says.
    is_plain
        It lies row-major, without gaps.
    is_view
        It is computed by nothing: it shows what is there.
    offset, strides
        Where it lies in its storage, in bytes; no strides: row-major.
    """

    aval: Aval
    storage: int
    is_whole: bool
    is_plain: bool
    is_view: bool = False
    offset: int = 0
    strides: tuple[int, ...] | None = None


_row: Any = partial(tuple.__new__, Row)  # of a tuple, in half the time
_slot_row: Any = partial(tuple.__new__, SlotRow)


class Storage:
    """Memory in the making, in which one value lives, and what shows it.

    Attributes
    ----------
    kind, source
        As of a `plan_rows.Buffer`.
    nbytes, place
        Its size in bytes, and where it is.
    first, last
        The first and the last instruction that use it, once `liveness.lifetimes` has found them.
    merged
        The number of the storage whose memory it took over, or its own.
    start
        Where it begins in that one's memory, in bytes.
    offset
        Where it begins in the memory of the result or the input that houses it, in bytes.
    users
        The instructions that use it, and what took over its memory; with streams only.
    """

    __slots__ = ("first", "kind", "last", "merged", "nbytes", "offset", "place", "source", "start", "users")

    def __init__(self, kind: str, nbytes: int, place: Place, source: int) -> None:
        self.kind, self.nbytes, self.place, self.source = kind, nbytes, place, source
        self.first, self.last, self.merged, self.start, self.offset = FOREVER, -1, -1, 0, 0
        self.users: Sequence[int] = ()


class Known:
    """What is known of the order of instructions, of all drafts that begin with the same.

    Attributes
    ----------
    problem
        What orders are asked, once one was.
    answers
        What those have said that are known by name.
    """

    def __init__(self) -> None:
        self.problem: OrderProblem | None = None
        self.answers: dict[str, Answer] = {}


class Draft:
    """A plan in the making: rows of instructions, of slots and of storages. Whoever has it may change it.

    Parameters
    ----------
    request
        What is planned.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.graph = request.graph
        self.arrangement = Arrangement([], 0)  # of the nodes, around the start of the commit section
        self.apart: Collection[Node] = ()  # what is put together of copies
        self.kernels: dict[Node, Kernel] = {}
        self.recorded: Set[Node] = frozenset()  # whose kernel a table names
        self.negotiated: Set[Node] = frozenset()  # whose kernel was taken for the scratch that it does without
        self.spared: Mapping[int, int] = {}  # storages of that scratch, and others that stand for them
        self.loops: dict[Node, tuple[Loop, ...]] = {}  # how the bodies are planned of loops and branches
        self.sub_buffers = NO_SUB_BUFFERS
        self.assembled: dict[Node, int] = {}  # root of windows -> its storage
        self.finished: dict[int, int] = {}  # storage of such a root -> the instruction after which it is whole
        self.commit = 0
        self.alike: Mapping[Node, Node] = {}  # applications, and earlier ones of the same form
        self.scratch: dict[Node, list[Aval]] = {}  # what a kernel needs besides, of the first of each form
        self.variants: dict[Node, tuple[Variant, ...]] = {}  # of the first of each form, where they were asked for
        self.seconds: dict[Node, float] = {}  # that its kernel takes, as estimated
        self.slot_of: dict[Value, int] = {}
        self.slots: list[SlotRow] = []
        self.storages: list[Storage] = []
        self.instructions: list[Row] = []
        self.sequence: Sequence[Node] = ()  # the nodes as they were defined
        self.ends: list[int] = []  # how many instructions there are up to each of them
        self.touched: list[Sequence[int]] = []  # for each instruction the storages that it uses
        self.uses: list[Sequence[int]] = []  # those of them that lie in the arena, and have bytes there
        self.sizes: list[int] = []  # storage -> its bytes in the arena, as they are aligned
        self.overwritable: list[tuple[Overwriting, ...]] = []  # for each instruction
        self.streams: Streams | None = None  # who runs before whom, where not all is one after another
        self.keep: list[Any] = []  # results of nodes with several are weakly interned: held while we plan
        self.outputs: list[int] = []
        self.updates: list[tuple[int, int]] = []
        self.variable_at: dict[Node, int] = {}
        self.wanted: dict[int, tuple[str, int]] = {}  # slot -> the output or update that it becomes
        self.order = ""  # the name of the one that instructions are in
        self.ordering: OrderProblem | None = None  # what orders were asked
        self.chosen: Answer | None = None  # of the order that instructions are in
        self.answers: list[Answer] = []  # of all orders that were asked
        self.known = Known()
        self.alignment = request.alignment  # of offsets in the arena
        self.peak: int | None = None  # the most bytes of the arena alive at one time, once that is known
        self.loads: list[int] = []  # those alive at each instruction, once the most is known
        self.pinned: set[int] | None = None  # storages that outlive a run; None where nothing does
        self.joint: Any = None  # the joint choice that it follows: a `joint_passes.Followed`
        self.offsets: dict[int, int] = {}  # storage -> where it lies in the arena
        self.arenas: dict[Place, int] = {}  # bytes of the arena in each place

    def of(self, arrangement: Arrangement, apart: Collection[Node]) -> Draft:
        """A draft of an arrangement, with the kernels of this one."""
        made = Draft(self.request)
        made.kernels, made.recorded, made.alike, made.loops = self.kernels, self.recorded, self.alike, self.loops
        made.variants, made.seconds = self.variants, self.seconds
        made.arrangement, made.apart = arrangement, apart
        return made

    # --- slots ----------------------------------------------------------------------------------------

    def _storage(self, kind: str, aval: Aval, source: int = -1) -> int:
        self.storages.append(Storage(kind, aval.nbytes, aval.place, source))
        return len(self.storages) - 1

    def _slot(self, row: SlotRow) -> int:
        self.slots.append(row)
        return len(self.slots) - 1

    def _all_of(self, aval: Aval, storage: int) -> int:
        """A slot that is all of a storage."""
        plain = aval.layout is None
        self.slots.append(SlotRow(aval, storage, True, plain, False, 0, None if plain else aval.strides))
        return len(self.slots) - 1

    def _made(self, aval: Aval) -> int:
        """A slot that is all of a storage of its own in the arena."""
        storages, slots, plain = self.storages, self.slots, aval.layout is None
        strides = None if plain else aval.strides
        slots.append(_slot_row((aval, len(storages), True, plain, False, 0, strides)))
        storages.append(Storage(ARENA, aval.nbytes, aval.place, -1))
        return len(slots) - 1

    def _sub_buffer(self, aval: Aval, sub_buffer: SubBuffer) -> int:
        """A slot in the memory of a tensor that is put together."""
        plain = sub_buffer.contiguous and aval.layout is None
        strides = None if plain else sub_buffer.strides
        return self._slot(SlotRow(aval, self._whole(sub_buffer.root), False, plain, False, sub_buffer.offset, strides))

    def _whole(self, root: Node) -> int:
        """The storage of a tensor that is put together, which is there once a part of it is wanted."""
        if root not in self.assembled:
            self.assembled[root] = self._storage(ARENA, root.aval)
        return self.assembled[root]

    def _result(self, value: Value) -> int:
        sub_buffer = self.sub_buffers.of.get(value)
        if sub_buffer is None:
            return self._made(value.aval)
        return self._sub_buffer(value.aval, sub_buffer)

    def define_leaves(self) -> None:
        """Slots of inputs, variables and constants."""
        counts = {INPUT: 0, VARIABLE: 0, CONSTANT: 0}
        self.leaf_slots: dict[str, list[int]] = {INPUT: [], VARIABLE: [], CONSTANT: []}
        self.constant_values: list[Any] = []
        carried = {node for node, _ in self.graph.updates}  # of the body of a loop these are inputs
        for node in (*self.graph.inputs, *self.graph.nodes):
            if (
                node.args
                or node.op not in leaves.LEAVES
                or node in self.slot_of
                or (node.results[:1] and node.results[0] in self.slot_of)
            ):
                continue
            kind = VARIABLE if node in carried else KIND_OF.get(node.op, CONSTANT)
            results = node.results
            self.keep.append(results)
            for i, value in enumerate(results):
                given_up = kind == INPUT and counts[kind] in self.request.donated and value.aval.layout is None
                storage = self._storage(DONATED if given_up else kind, value.aval, counts[kind])
                slot = self._all_of(value.aval, storage)
                self.slot_of[value] = slot
                self.leaf_slots[kind].append(slot)
                counts[kind] += 1
                if kind == CONSTANT:
                    self.constant_values.append(node.data[i] if node.op.multi_result else node.data)
            if kind == VARIABLE:
                self.variable_at[node] = counts[VARIABLE] - 1

    def define(self, node: Node) -> None:
        """Slots and the instruction of one application; a barrier has told its place in the sequence, and is none."""
        op = node.op
        if op is after:
            self.slot_of[node] = self.slot_of[node.args[0]]
            return
        operands = tuple(map(self.slot_of.__getitem__, node.args))
        if op.multi_result:
            results = node.results
            self.keep.append(results)
        kernel = self.kernels[node]
        if op.view is not None and not kernel.is_call and self._shows(node, operands):
            return
        if node in self.sub_buffers.parts:
            self._assemble(node, operands)
            return
        if op.multi_result:
            slots = tuple(map(self._result, results))
            self.slot_of.update(zip(results, slots, strict=True))
        else:
            self.slot_of[node] = slot = self._result(node) if node in self.sub_buffers.of else self._made(node.aval)
            slots = (slot,)
        scratch: tuple[Any, ...] = ()
        if kernel.scratch is not None:
            scratch = tuple([(aval, self._storage(ARENA, aval)) for aval in self._scratch_of(node, kernel)])
        self.instructions.append(_row((node, kernel, operands, slots, scratch, False)))

    def _scratch_of(self, node: Node, kernel: Kernel) -> list[Aval]:
        """What its kernel needs besides operands and results."""
        first = self.alike.get(node, node)
        found = self.scratch.get(first)
        if found is None:
            assert kernel.scratch is not None
            wanted = kernel.scratch(tuple([a.aval for a in node.args]), **dict(node.items))
            found = self.scratch[first] = [Aval(s, d, None, node.avals[0].place) for s, d in wanted]
        return found

    def _shows(self, node: Node, operands: tuple[int, ...]) -> bool:
        """Make its results views of an operand, unless they are to be copied: at once if so one by one later."""
        view, results = node.op.view, node.results
        assert view is not None
        base = self.slots[operands[view.argument]]
        plain = base.is_plain
        if not plain and view.needs_contiguous:
            laid = base.is_whole and not base.is_view and base.aval.layout is not None
            if not laid or any(value.aval.layout is None for value in results):
                return False
        if len(results) > 1 and not self.sub_buffers.gapless.isdisjoint(results):
            return False
        slots = []
        for value in results:
            ordered = base.aval.layout is None or value.aval == base.aval
            whole = base.is_whole and view.contiguous and ordered
            slots.append(self._slot(SlotRow(value.aval, base.storage, whole, plain and view.contiguous, True)))
            self.slot_of[value] = slots[-1]
        self.instructions.append(Row(node, None, operands, tuple(slots), (), True))
        return True

    def _assemble(self, node: Node, operands: tuple[int, ...]) -> None:
        """What is computed in place stays there, the rest is copied and filled in; then the whole is there."""
        places, free = self.sub_buffers.parts[node]
        assert node.op.parts is not None
        parts: list[int] = []
        for value, slot, place in zip(node.args, operands, places, strict=True):
            lives = self.sub_buffers.of.get(value) == place and slot not in parts
            parts.append(slot if lives or not value.aval.size else self._copied(node, slot, value.aval, place))
        fill = node.op.parts.fill(**dict(node.items)) if free else 0
        for box, place in free:
            slot = self._sub_buffer(Aval(box.extents, node.aval.dtype, node.aval.layout, node.aval.place), place)
            parts.append(slot)
            filled, kernel = filling(box, fill, node.aval.dtype, node.origin)
            self.instructions.append(Row(filled, kernel, (), (slot,)))
        own = self.sub_buffers.of.get(node)
        slot = self._all_of(node.aval, self._whole(node)) if own is None else self._sub_buffer(node.aval, own)
        self.slot_of[node] = slot
        self.finished[self.slots[slot].storage] = len(self.instructions)
        self.instructions.append(Row(node, None, tuple(parts), (slot,), (), True))

    def _copied(self, node: Node, slot: int, aval: Aval, place: SubBuffer) -> int:
        made = self._sub_buffer(aval, place)
        self.instructions.append(Row(*copying(node.origin), (slot,), (made,)))
        return made

    def finish_outputs(self) -> None:
        """Outputs and updates get buffers of their own; what is a leaf, a view or wanted twice is copied at the end."""
        taken: set[int] = set()
        wanted: list[tuple[Value, str, int, int]] = [(v, OUTPUT, i, -1) for i, v in enumerate(self.graph.outputs)]
        for i, (variable, value) in enumerate(self.graph.updates):
            wanted.append((value, NEXT, i, self.variable_at[variable]))
        self.updated = {self.variable_at[v] for v, _ in self.graph.updates}
        copies: list[Row] = []
        for value, kind, source, at in wanted:
            slot = self.slot_of[value]
            row = self.slots[slot]
            home = row.storage
            own = self.storages[home].kind == ARENA and row.is_whole and not row.is_view and home not in taken
            if not own:
                copied = self._made(value.aval)
                copies.append(Row(*copying(value.node.origin), (slot,), (copied,)))
                slot, home = copied, self.slots[copied].storage
            taken.add(home)
            storage = self.storages[home]
            storage.kind = kind
            if kind == OUTPUT:
                storage.source = source
                self.outputs.append(slot)
            else:
                storage.source = at
                self.updates.append((at, slot))
        self.instructions += copies

    def show_outputs(self) -> None:
        """Outputs and updates are where they are made: what runs the plan copies them."""
        self.outputs = [self.slot_of[v] for v in self.graph.outputs]
        self.updates = [(self.variable_at[v], self.slot_of[u]) for v, u in self.graph.updates]
        self.updated = set()  # nothing is written over a variable

    def define_all(self, sequence: Sequence[Node]) -> None:
        """Slots and instructions of these nodes, operands first, and of the leaves."""
        self.sequence = sequence
        self.define_leaves()
        for node in sequence:
            self.define(node)
            self.ends.append(len(self.instructions))

    def look_up(self) -> None:
        """Find which storages each instruction uses, once that there are all of them."""
        home, alignment = [row.storage for row in self.slots].__getitem__, self.alignment
        for _, _, operands, results, scratch, _ in self.instructions:
            used = dict.fromkeys(map(home, operands + results))
            for _, s in scratch:
                used[s] = None
            self.touched.append([*used])
        self.sizes = sizes = [-(-s.nbytes // alignment) * alignment if s.kind == ARENA else 0 for s in self.storages]
        self.uses = [[*filter(sizes.__getitem__, used)] for used in self.touched]

    def arranged(self, arrangement: Arrangement) -> Draft:
        """One of its own, with the instructions in the order of the nodes and the commit section where it says.

        Copies for outputs come behind the instructions that are before the section, or behind it where they are of what
        is made there: they read what is there before variables are written.
        """
        made, sequence, early = copy(self), arrangement.sequence, arrangement.early
        made.arrangement = arrangement
        made.storages = [Storage(s.kind, s.nbytes, s.place, s.source) for s in self.storages]
        made.updated = {*self.updated}
        count = self.ends[-1] if self.ends else 0
        if sequence is self.sequence:
            made.commit = self.ends[early - 1] if early else 0
            order = [*range(count)]
        else:
            starts = dict(zip(self.sequence, [0, *self.ends], strict=False))
            stops = dict(zip(self.sequence, self.ends, strict=True))
            order = [t for node in sequence[:early] for t in range(starts[node], stops[node])]
            made.commit = len(order)
            order += [t for node in sequence[early:] for t in range(starts[node], stops[node])]
        copies = range(count, len(self.instructions))
        late: set[int] = set()
        if copies:
            in_section = {slot for t in order[made.commit :] for slot in self.instructions[t].results}
            late = {t for t in copies if self.instructions[t].operands[0] in in_section}
        order[made.commit : made.commit] = soon = [t for t in copies if t not in late]
        made.commit += len(soon)
        order += sorted(late)
        if order != [*range(len(order))]:
            made.reorder(order)
        return made

    def reorder(self, order: Sequence[int]) -> None:
        """Put the instructions in that order of their positions; the commit section still starts at as many."""
        self.instructions = [self.instructions[t] for t in order]
        self.touched = [self.touched[t] for t in order]
        self.uses = [self.uses[t] for t in order]
        self.overwritable = [self.overwritable[t] for t in order]
        if self.finished:
            at = {before: after for after, before in enumerate(order)}
            self.finished = {s: at[t] for s, t in self.finished.items()}

    def root(self, storage: int) -> int:
        """The storage whose memory it took over, at the end."""
        storages = self.storages
        above = storages[storage].merged
        for _ in storages:
            if above == storage:
                return storage
            storage, above = above, storages[above].merged
        raise PlanError(f"storages take over each other's memory in a circle, from {storage} on")

    def start(self, storage: int) -> int:
        """Where it begins, in bytes, in the memory of `root`."""
        found, home = 0, self.root(storage)
        while storage != home:
            found += self.storages[storage].start
            storage = self.storages[storage].merged
        return found

    def aligned(self, nbytes: int) -> int:
        """So many bytes, up to the next multiple of the alignment."""
        return -(-nbytes // self.alignment) * self.alignment

    def add_storage(self, nbytes: int, place: Place) -> int:
        """The number of one more in the arena, in which others are going to live."""
        made = Storage(ARENA, nbytes, place, -1)
        self.storages.append(made)
        self.sizes = [*self.sizes, self.aligned(nbytes)]  # the old ones are other drafts', too
        made.merged = len(self.storages) - 1
        return made.merged

    def run_by(self, changes: Mapping[int, tuple[Kernel, Sequence[Aval]]]) -> None:
        """Let instructions be run by other kernels from now on, with such scratch; they need have no order yet."""
        spared = {**self.spared}
        self.instructions, self.touched = [*self.instructions], [*self.touched]  # the old ones are other drafts', too
        self.uses, self.sizes = [*self.uses], [*self.sizes]
        for t, (kernel, wanted) in changes.items():
            row = self.instructions[t]
            had = [s for _, s in row.scratch]
            has = [*had[: len(wanted)], *(self.add_storage(0, a.place) for a in wanted[len(had) :])]
            for aval, s in zip(wanted, has, strict=True):
                storage = self.storages[s]
                storage.nbytes, storage.place, storage.first, storage.last = aval.nbytes, aval.place, t, t
                storage.users, self.sizes[s] = (t,), self.aligned(aval.nbytes)
            for s in had[len(wanted) :]:  # which is no memory of its own any more
                spared[s] = self.storages[s].merged = self.slots[row.results[0]].storage
                self.sizes[s] = 0
            self.instructions[t] = row._replace(kernel=kernel, scratch=tuple(zip(wanted, has, strict=True)))
            self.touched[t] = [*(s for s in self.touched[t] if s not in had), *has]
            self.uses[t] = [*filter(self.sizes.__getitem__, self.touched[t])]
        self.negotiated = {*self.negotiated, *(self.instructions[t].node for t in changes)}
        self.spared, self.peak = spared, None

    def take_over(self, mine: int, other: int) -> None:
        """Let the first live in the memory of the other from now on."""
        first, second = self.storages[other], self.storages[mine]
        second.merged = other
        first.last = second.last
        first.users = [*first.users, *second.users]
