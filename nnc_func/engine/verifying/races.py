"""Whether a plan's waits are enough, from the plan alone: no two instructions that may run together disturb each other.

It is no part of the planner and shares no code with it. One instruction runs before another if they are in one stream
in that order, or a wait says so, or a chain of these; that is kept as vector clocks (Fidge and Mattern, 1988). Two
accesses to the same bytes, one of which writes, must be so ordered, which is looked up by the last accesses of each
stream, as race detectors do (Pozniansky and Schuster, "MultiRace", 2003). Where that holds, every order that the waits
allow computes what the plan's own order computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from nnc_func.engine.plan_rows import ARENA, LENT, OUTPUT, Instruction
from nnc_func.engine.verifying.regions import Region
from nnc_func.engine.verifying.work import Work
from nnc_func.errors import PlanError
from nnc_func.graph.origin import describe

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

Key = tuple[Any, ...]  # names a memory
PIECES = 64  # numbers of an array that take as long as one step


def check_streams(plan: Plan) -> None:
    """Raise unless every order that the plan's streams and waits allow computes the same.

    Proven are: no wait is for something that comes later, so that none lasts for ever; each operand is made before it
    is read; of two accesses to the same bytes, one of which writes, the earlier one is over before the later one
    starts; and all that comes before the commit section is over when that starts.

    Raises
    ------
    PlanError
        The first contradiction: both instructions, and the slot or the bytes.

    Examples
    --------
    >>> from attrs import evolve
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> lazy = lazy.swap(engine=lazy.engine.with_streams(2))
    >>> x = lazy.input("x", (1000, 1000), "float32")
    >>> plan = lazy.compile([x], lazy.ops.cumulative_sum(x, axis=0) * lazy.ops.cumulative_sum(x, axis=1)).plan
    >>> [(i.op.name, i.stream, i.waits) for i in plan.instructions]
    [('cumulative_sum', 0, ()), ('cumulative_sum', 1, ()), ('multiply', 1, (0,))]
    >>> check_streams(plan)
    >>> hasty = evolve(plan, instructions=[evolve(i, waits=()) for i in plan.instructions])
    >>> check_streams(hasty)
    Traceback (most recent call last):
    nnc_func.errors.PlanError: instruction 2 (multiply ...) in stream 1 may read slot 1 before ... has made it
    """
    checker = _Checker(plan)
    for t, instruction in enumerate(plan.instructions):
        checker.step(t, instruction)


@define
class _Memory:
    """Bytes of one memory in pieces that are always used together, and who used each last.

    Attributes
    ----------
    index
        Where a piece starts, to its number.
    written, read
        For each stream and piece the place in the stream of the last kernel that wrote or read it, from 1; else 0.
    """

    index: dict[int, int]
    written: Any
    read: Any


@define
class _Checker:
    """Clocks, and the last accesses to every byte, while the plan is read from its start.

    Attributes
    ----------
    clocks
        For each instruction and stream, how many kernels of the stream are over once it is.
    kernels
        For each stream its kernels.
    makers
        For each slot the kernels that write it.
    regions
        For each slot the bytes that it shows.
    memories
        Pieces of each memory.
    work
        What is left of the steps that this may take.
    """

    plan: Plan
    work: Work = field(init=False)
    clocks: list[list[int]] = field(init=False, factory=list)
    kernels: list[list[int]] = field(init=False)
    makers: dict[int, tuple[int, ...]] = field(init=False, factory=dict)
    regions: list[tuple[Key, Region]] = field(init=False)
    memories: dict[Any, _Memory] = field(init=False)
    now: list[list[int]] = field(init=False)
    early: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self.work = Work.of(plan)
        self.work.spend(plan.streams * (plan.streams + len(plan.instructions) // PIECES + len(plan.slots) // PIECES))
        for t, i in enumerate(plan.instructions):
            self._numbers(t, i)
        self.kernels = [[] for _ in range(plan.streams)]
        self.now = [[0] * plan.streams for _ in range(plan.streams)]
        self.early = [0] * plan.streams
        for i in plan.instructions[: plan.commit]:
            self.early[i.stream] += not i.view
        self.regions = _regions(plan)
        self.memories = _memories(plan, self.regions)

    def _numbers(self, t: int, i: Instruction) -> None:
        if i.stream < 0:
            raise PlanError(f"{self.named(t)} is in stream {i.stream}; streams count from 0")
        for w in i.waits:
            if not 0 <= w < t:
                raise PlanError(
                    f"{self.named(t)} waits for instruction {w}, which does not come before it: it might never start"
                )

    def named(self, t: int) -> str:
        """An instruction, as messages name it."""
        i = self.plan.instructions[t]
        where = describe(i.origin)
        return f"instruction {t} ({i.op.name}{f' at {where}' if where else ''}) in stream {i.stream}"

    def step(self, t: int, i: Instruction) -> None:
        """One instruction: when it may start, and what it then reads and writes."""
        clock = self.now[i.stream]
        for w in i.waits:
            clock = [*map(max, clock, self.clocks[w])]
        self.now[i.stream] = clock
        if i.view:
            shown = tuple({m for o in i.operands for m in self.makers.get(o, ())})
            self.makers.update(dict.fromkeys(i.results, shown))
            self.clocks.append(clock)
            return
        if t >= self.plan.commit:
            self._commits(t, clock)
        for slot in i.operands:
            self._made(t, slot, clock)
        for slot in i.operands:
            self._free(t, slot, clock, False)
        for slot in (*i.results, *i.scratch):
            self._free(t, slot, clock, True)
        self.makers.update(dict.fromkeys(i.results, (t,)))
        self.kernels[i.stream].append(t)
        self.clocks.append(clock := [*clock])
        clock[i.stream] = len(self.kernels[i.stream])
        self.now[i.stream] = clock
        self._mark(i)

    def _commits(self, t: int, clock: list[int]) -> None:
        for stream, wanted in enumerate(self.early):
            if clock[stream] < wanted and stream != self.plan.instructions[t].stream:
                last = self.named(self.kernels[stream][wanted - 1])
                raise PlanError(f"{self.named(t)}, in the commit section, may start before {last} is over")

    def _made(self, t: int, slot: int, clock: list[int]) -> None:
        for maker in self.makers.get(slot, ()):
            made = self.plan.instructions[maker].stream
            if made != self.plan.instructions[t].stream and self.clocks[maker][made] > clock[made]:
                raise PlanError(f"{self.named(t)} may read slot {slot} before {self.named(maker)} has made it")

    def _free(self, t: int, slot: int, clock: list[int], writes: bool) -> None:
        """No other stream may be writing there, nor reading what is to be written."""
        key, region = self.regions[slot]
        if region.low == region.high:
            return
        memory = self.memories[key]
        pieces = slice(memory.index[region.low], memory.index[region.high])
        self.work.spend(1 + self.plan.streams * (pieces.stop - pieces.start) // PIECES)
        for table, written in ((memory.written, True), (memory.read, False))[: 1 + writes]:
            last = table[:, pieces].max(axis=1).tolist()
            for stream, place in enumerate(last):
                if place > clock[stream] and stream != self.plan.instructions[t].stream:
                    self.work.spend(place - clock[stream])
                    for other in self.kernels[stream][clock[stream] : place]:
                        self._apart(t, slot, other, writes, written)

    def _apart(self, t: int, slot: int, other: int, writes: bool, written: bool) -> None:
        """What may run together with t does not touch what t does there: exactly, if one of them lies in strides."""
        key, region = self.regions[slot]
        i = self.plan.instructions[other]
        for used in (*i.results, *i.scratch) if written else i.operands:
            theirs, where = self.regions[used]
            if theirs == key and where.meets(region, self.work.spend):
                raise PlanError(
                    f"{self.named(t)} {'writes' if writes else 'reads'} slot {slot}, bytes [{region.low}, "
                    f"{region.high}) of the {_memory_name(key)}, some of which {self.named(other)} may "
                    f"{'write' if written else 'read'} at the same time"
                )

    def _mark(self, i: Instruction) -> None:
        place = len(self.kernels[i.stream])
        for slots, written in ((i.operands, False), ((*i.results, *i.scratch), True)):
            for slot in slots:
                key, region = self.regions[slot]
                if region.low < region.high:
                    memory = self.memories[key]
                    table = memory.written if written else memory.read
                    table[i.stream, memory.index[region.low] : memory.index[region.high]] = place


def _memory_name(key: Key) -> str:
    return " ".join(str(part) for part in key if part is not None)


def _regions(plan: Plan) -> list[tuple[Key, Region]]:
    """Where each slot lies: a view is looked at as what it is a view of."""
    found = []
    for slot in plan.slots:
        buffer = plan.buffers[slot.buffer]
        start = buffer.offset + slot.offset
        strides = None if slot.is_view else slot.strides
        found.append((_memory(buffer), Region.of(start, slot.aval.shape, strides, slot.aval.dtype.itemsize)))
    for i in plan.instructions:
        if i.view and i.op.view is not None:
            for result in i.results:
                found[result] = found[i.operands[i.op.view.argument]]
    return found


def _memory(buffer: Any) -> Key:
    if buffer.kind == ARENA:
        return ARENA, buffer.place
    return (OUTPUT if buffer.kind == LENT else buffer.kind), buffer.source


def _memories(plan: Plan, regions: list[tuple[Key, Region]]) -> dict[Any, _Memory]:
    edges: dict[Any, set[int]] = {}
    for key, region in regions:
        edges.setdefault(key, set()).update((region.low, region.high))
    found = {}
    for key, at in edges.items():
        tables = np.zeros((2, plan.streams, len(at)), np.int64)
        found[key] = _Memory({edge: n for n, edge in enumerate(sorted(at))}, *tables)
    return found
