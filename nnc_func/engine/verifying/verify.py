"""Verification of a finished plan, from the plan alone: it replays every read and write, and sweeps the arena.

It is no part of the planner and shares no code with it or with any allocator, so that one fault cannot hide in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DONATED, INPUT, VARIABLE, Instruction
from nnc_func.engine.verifying.applications import check_applications
from nnc_func.engine.verifying.arena_overlap import check_arena
from nnc_func.engine.verifying.bodies import check_bodies, overwritten
from nnc_func.engine.verifying.bounds import check_bounds
from nnc_func.engine.verifying.columns import Columns, check_numbers
from nnc_func.engine.verifying.endings import check_commit, commits, donations, ends, loans, outlives
from nnc_func.engine.verifying.fast_path import LEAF, PLANNED, UNMADE, replayed
from nnc_func.engine.verifying.loops import may_write_over_rows
from nnc_func.engine.verifying.nearby import FEW, Nearby
from nnc_func.engine.verifying.references import check_references, named
from nnc_func.engine.verifying.regions import Region
from nnc_func.engine.verifying.work import Work
from nnc_func.errors import PlanError
from nnc_func.facets.kernels import ALL

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

READ_ONLY = (INPUT, CONSTANT)
VALUES = 64  # that are held against a region as quickly as one step is made
MEETING = 32  # steps that it takes at least to hold two regions against each other
NOWHERE = Region.of(0, (0,), None, 1)


def verify(plan: Plan) -> None:
    """Raise unless the plan is consistent with itself, whoever made it.

    In this order, all of it in exact integers, before any memory is made; there is a budget of work, which only a
    plan runs out of that was made to:

    1. *Numbers* are of type `int` and below 2⁶²; the alignment is a power of two.
    2. *References*: each number that names a slot, a buffer, a place, a source or an instruction names one; no two
       buffers are one array.
    3. *Replay*, instruction by instruction. Each slot is made once, before it is read. A slot lies in its buffer,
       without gaps and in the order that its layout says unless its kernel writes into any strides. An arena's buffer
       is alive whenever one of its slots is read or written, through a view too. What was written over, were it one
       byte, is not read again. A kernel allows what is done in place. Scratch is memory of its own, row by row. What is
       put together of parts is that, to the last element. Inputs and constants are not written, and variables only in
       the commit section.
    4. *Endings*: outputs and updates are fresh, or the variable's own memory, and all of a buffer; nothing else is
       written. Lent memory, and that of inputs which were given up, houses one value at a time, which fits.
    5. *Arena*: no two buffers alive together overlap; offsets are aligned, and inside.
    6. *Applications*: the operator takes such operands and parameters, which are in its own form, and gives results of
       these shapes and dtypes; it has the kernel, which takes them, and wants just that scratch.
    7. *Bounds*: each slot, used or not, has 64 axes at most, and wherever its strides lead it lies in its buffer; no
       two elements of it lie in one place; each slot and buffer is used, and a buffer has no more bytes than lie in it.
    8. *Loops*: the plan of a body is verified, computes the body, and finds each time what it reads: see `bodies`.
    9. *Commit section*: nothing in it can fail, and something is committed.

    `races` adds what streams may do at one time, `graphs` that the plan is that of a graph. Kernels cut windows out of
    arrays by `device.shared.bounds.strided`, and arrays are shown in memory by the device's `view`: both count again.

    Raises
    ------
    PlanError
        The first contradiction: the instruction, the operator, the slots and buffers.

    Examples
    --------
    >>> from nnc_func.engine.plan import Plan
    >>> from nnc_func.engine.plan_rows import Buffer
    >>> memory = (Buffer("arena", 64, 0, 2, 0), Buffer("arena", 64, 1, 3, 0))
    >>> verify(Plan((), (), memory, (), (), (), (), (), 0, 64, 64))
    Traceback (most recent call last):
    nnc_func.errors.PlanError: buffers 0 and 1 are both alive at step 1 and overlap: bytes [0, 64) and [0, 64)
    """
    replay = _verified(plan, is_whole=True)
    check_commit(plan)
    commits(replay)


def _verified(plan: Plan, is_whole: bool = False) -> _Replay:
    """As `verify`, of the plan of a loop's body too: that is not undone if a kernel fails in its commit section."""
    columns = check_numbers(plan)
    check_references(plan, columns)
    replay = _Replay(plan, columns)
    replay.leaves()
    replayed(replay)
    (ends if plan.retained is None else outlives)(replay)
    loans(replay)
    donations(replay)
    check_arena(plan, columns, replay.work.spend)
    check_applications(plan, columns, is_whole)
    check_bounds(plan, columns)
    check_bodies(plan, _verified, replay.work)
    return replay


@define
class _Replay:
    """The state of memory between two instructions.

    Attributes
    ----------
    made
        For each slot the instruction that makes it, `LEAF` or `UNMADE`.
    over
        The instruction that wrote over a slot that was made, were it over one byte of it; `UNMADE` if none did.
    region, plain
        Where each slot that was made lies: a view as its base; whether it shows just that, in its order.
    valid
        For each buffer the slots in it that were made, and not written over.
    first, writer
        For each buffer the instructions that wrote it first and last.
    home
        For each slot its buffer.
    begins, ends_at
        For each buffer the lifetime in which it may be touched; of those that are no part of the planning, always.
    room
        For each buffer its bytes; -1 of those that are no part of the planning.
    until
        For each slot an instruction before which it may be read, if it was made and not written over; else `UNMADE`.
    work
        What is left of the steps that this may take.
    assembled
        Where parts lay that were found to be the whole: operator, parameters, places in the buffer.
    """

    plan: Plan
    columns: Columns
    work: Work = field(init=False)
    made: list[int] = field(init=False)
    over: list[int] = field(init=False)
    region: list[Region] = field(init=False)
    plain: list[bool] = field(init=False)
    valid: list[list[int]] = field(init=False)
    first: list[int] = field(init=False)
    writer: list[int] = field(init=False)
    home: list[int] = field(init=False)
    begins: list[int] = field(init=False)
    ends_at: list[int] = field(init=False)
    room: list[int] = field(init=False)
    until: list[int] = field(init=False)
    assembled: set[Any] = field(init=False, factory=set)
    _regions: dict[Any, Region] = field(init=False, factory=dict)
    _allowed: dict[Any, Any] = field(init=False, factory=dict)
    _ordered: dict[Any, bool] = field(init=False, factory=dict)
    _near: dict[int, Nearby] = field(init=False, factory=dict)
    _meetings: dict[tuple[int, int], bool] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.work = Work.of(self.plan)
        columns, slots, buffers = self.columns, len(self.plan.slots), len(self.plan.buffers)
        self.made, self.over, self.plain = [UNMADE] * slots, [UNMADE] * slots, [True] * slots
        self.region, self.until = [NOWHERE] * slots, [UNMADE] * slots
        self.first, self.writer = [LEAF] * buffers, [LEAF] * buffers
        self.valid = [[] for _ in range(buffers)]
        self.home = columns.home.tolist()
        planned = columns.in_arena.copy()
        for number in np.flatnonzero(~planned).tolist():
            planned[number] = columns.kinds[number] in PLANNED
        self.begins = np.where(planned, columns.lower, 0).tolist()
        self.ends_at = np.where(planned, columns.upper, len(self.plan.instructions)).tolist()
        self.room = np.where(planned, columns.nbytes, -1).tolist()

    # --- words ------------------------------------------------------------------------------------------

    def named(self, t: int | str) -> str:
        """An instruction, as messages name it; what has a name already keeps it."""
        return t if isinstance(t, str) else named(self.plan, t)

    def describe(self, buffer: int) -> str:
        """A buffer, as messages name it."""
        found = self.plan.buffers[buffer]
        return f"buffer {buffer}" + ("" if found.kind == ARENA else f" ({found.kind} {found.source})")

    # --- steps ------------------------------------------------------------------------------------------

    def leaves(self) -> None:
        """Inputs, variables and constants are there before the first instruction, each in a buffer of its own."""
        plan = self.plan
        for kind, slots in ((INPUT, plan.inputs), (VARIABLE, plan.variables), (CONSTANT, plan.constants)):
            for position, slot in enumerate(slots):
                number = self.slot(slot, f"{kind} {position}")
                buffer = plan.buffers[number]
                given_up = kind == INPUT and buffer.kind == DONATED
                if buffer.source != position or not (buffer.kind == kind or given_up):
                    raise PlanError(f"{kind} {position} is slot {slot}, but that lives in {self.describe(number)}")
                if self.made[slot] != UNMADE:
                    raise PlanError(f"slot {slot} is {kind} {position} and another leaf as well")
                self.fits(slot, f"{kind} {position}")
                self.whole(slot, f"{kind} {position}")
                self.made[slot] = LEAF
                self.valid[number].append(slot)
                self.until[slot] = self.ends_at[number] if self.begins[number] <= 0 else UNMADE

    def view(self, t: int, i: Instruction) -> None:
        """Nothing is computed: the results show the memory of one operand."""
        self.reads(t, i)
        facet = i.op.view
        if facet is None:
            raise PlanError(f"{self.named(t)} is marked as a view, but {i.op.name} makes none")
        if facet.argument >= len(i.operands):
            raise PlanError(f"{self.named(t)} has no operand {facet.argument} to be a view of")
        base = i.operands[facet.argument]
        laid = self.plan.slots[base].aval
        if facet.needs_contiguous and not (
            (self.plain[base] and self.region[base].is_compact) or self.is_laid(base, i.results)
        ):
            raise PlanError(
                f"{self.named(t)} is a view of slot {base}, which is not contiguous: {i.op.name} has to copy there"
            )
        home = self.home[base]
        for slot in i.results:
            number = self.home[slot]
            if number != home:
                raise PlanError(
                    f"{self.named(t)} is a view of slot {base} in {self.describe(home)}, "
                    f"but its result, slot {slot}, lives in {self.describe(number)}"
                )
            ordered = laid.layout is None or self.plan.slots[slot].aval == laid
            self.region[slot] = self.region[base]
            self.plain[slot] = facet.contiguous and self.plain[base] and ordered
            self.make(t, slot)

    def is_laid(self, base: int, results: tuple[int, ...]) -> bool:
        """Whether an operand lies as its layout says, and its results, which show it, have layouts as well."""
        slots = self.plan.slots
        own = not slots[base].is_view and slots[base].aval.layout is not None and self.in_order(base)
        return own and all(slots[s].aval.layout is not None for s in results)

    def kernel(self, t: int, i: Instruction) -> None:
        """Scratch and results are written; the operands have been read."""
        home = self.home
        held = [home[s] for s in i.operands]
        taken: list[int] = []
        self.work.spend((len(i.results) + len(i.scratch)) * (len(i.operands) + len(i.results) + len(i.scratch)))
        for slot in i.scratch:
            taken.append(self.scratch(t, slot, held + taken))
        for position, slot in enumerate(i.results):
            number = home[slot]
            region = self.fits(slot, t)
            if number in taken or (
                position and any(home[s] == number and self.meet(self.region[s], region) for s in i.results[:position])
            ):
                raise PlanError(
                    f"{self.named(t)} writes {self.describe(number)} twice: results and scratch must differ"
                )
            over = number in held and self.in_place(t, i, position)
            if not self.allowed(i)[1] and not self.in_order(slot):
                raise PlanError(f"{self.named(t)} writes slot {slot} in strides, which kernel {i.kernel!r} cannot")
            self.writes(t, slot, over)
            self.make(t, slot)

    def reads(self, t: int, i: Instruction) -> None:
        """Operands are made, alive, and not written over."""
        home, made, over = self.home, self.made, self.over
        for slot in i.operands:
            number = home[slot]
            if made[slot] == UNMADE or over[slot] != UNMADE:
                self.read(t, slot)
            if not self.begins[number] <= t < self.ends_at[number]:
                self.alive(t, number, f"reads slot {slot}")

    def read(self, who: int | str, slot: int) -> int:
        """One slot is made, and not written over; its buffer."""
        number = self.slot(slot, who)
        if self.made[slot] == UNMADE:
            raise PlanError(f"{self.named(who)} reads slot {slot}, which nothing has made yet")
        if self.over[slot] != UNMADE:
            raise PlanError(
                f"{self.named(who)} reads slot {slot} in {self.describe(number)}, "
                f"which {self.named(self.over[slot])} has written over"
            )
        return number

    def alive(self, t: int, number: int, does: str) -> None:
        """An arena buffer is touched within its lifetime."""
        lower, upper = self.begins[number], self.ends_at[number]
        if not lower <= t < upper:
            raise PlanError(f"{self.named(t)} {does} in buffer {number}, which is alive in [{lower}, {upper}) only")

    def make(self, t: int, slot: int) -> None:
        """The slot has its value from here on."""
        if self.made[slot] != UNMADE:
            first = "a leaf" if self.made[slot] == LEAF else f"made by {self.named(self.made[slot])}"
            raise PlanError(f"{self.named(t)} makes slot {slot}, which is {first} already")
        number = self.home[slot]
        i = self.plan.instructions[t]
        if self.plan.slots[slot].is_view != (i.view and i.op.parts is None):
            raise PlanError(f"{self.named(t)} and its slot {slot} disagree on whether that is a view")
        self.made[slot] = t
        self.valid[number].append(slot)
        if not self.begins[number] <= t < self.ends_at[number]:
            self.alive(t, number, f"makes slot {slot}")
        self.until[slot] = self.ends_at[number]

    def writes(self, t: int, slot: int, in_place: bool) -> None:
        """The slot's bytes are written, and that is allowed now."""
        number = self.home[slot]
        buffer = self.plan.buffers[number]
        if buffer.kind in READ_ONLY:
            raise PlanError(f"{self.named(t)} writes to {self.describe(number)}, which is not the program's to write")
        if buffer.kind == VARIABLE and t < self.plan.commit:
            raise PlanError(
                f"{self.named(t)} writes to {self.describe(number)} before the commit section, which starts at "
                f"{self.plan.commit}: a program that fails must leave its variables as they were"
            )
        once = buffer.kind not in PLANNED and not (in_place and buffer.kind == VARIABLE)
        region = self.region[slot]
        gone = {other for other in self.near(number, region) if self.meet(self.region[other], region)}
        for other in sorted(gone):
            self.over[other], self.until[other] = t, UNMADE
            if once and self.made[other] != LEAF and not self.plan.slots[other].is_view:
                raise PlanError(
                    f"{self.named(t)} writes to {self.describe(number)}, "
                    f"which {self.named(self.made[other])} wrote before"
                )
        if gone:
            self.valid[number] = [other for other in self.valid[number] if other not in gone]
        if self.writer[number] == LEAF:
            self.first[number] = t
        self.writer[number] = t

    def near(self, number: int, region: Region) -> list[int]:
        """The valid slots of a buffer that a region may meet."""
        valid = self.valid[number]
        if len(valid) <= FEW:
            return valid
        found = self._near.get(number)
        if found is None or found.slots is not valid:
            found = self._near[number] = Nearby(valid)
        self.work.spend(len(valid) // VALUES)
        return found.candidates(self.region, region)

    def meet(self, one: Region, other: Region) -> bool:
        """Whether two regions have a byte in common; those of slots are kept, and few are different."""
        if one is other:
            return one.low < one.high
        key = id(one), id(other)
        if key not in self._meetings:
            self.work.spend(MEETING)
            self._meetings[key] = one.meets(other, self.work.spend)
        return self._meetings[key]

    def scratch(self, t: int, slot: int, others: Iterable[int]) -> int:
        """Scratch is arena memory of the kernel's own; its buffer."""
        number = self.home[slot]
        if self.plan.buffers[number].kind != ARENA:  # bound once: memory that is lent changes from call to call
            raise PlanError(f"{self.named(t)} has slot {slot} as scratch, in {self.describe(number)}, not in the arena")
        if number in others:
            raise PlanError(f"{self.named(t)} has buffer {number} as scratch and uses it for something else as well")
        self.fits(slot, t)
        if self.plan.slots[slot].strides is not None:  # kernels cut it up, and of other orders that would be a copy
            raise PlanError(f"{self.named(t)}: slot {slot} is scratch, which lies row by row, but it has strides")
        self.writes(t, slot, in_place=False)
        self.make(t, slot)
        return number

    def allowed(self, i: Instruction) -> tuple[Any, bool]:
        """Which operands the kernel may write over, and whether it writes into any strides."""
        if i.loops:
            return self._of_loop(i), False
        found = self._allowed.get((i.op, i.kernel))
        if found is None:
            kernel = kernel_named(i.op, i.kernel)
            found = ((), False) if kernel is None else (kernel.overwrites, kernel.writes_strided)
            self._allowed[i.op, i.kernel] = found
        return found

    def _of_loop(self, i: Instruction) -> Any:
        """As `Kernel.overwrites`, of a loop or a branch that is planned."""
        found = self._allowed.get(id(i))
        if found is None:
            allowed = overwritten(self.plan, i, self.work)
            found = self._allowed[id(i)] = lambda *_, **__: allowed
        return found

    def in_place(self, t: int, i: Instruction, position: int) -> bool:
        """Whether a result, by position, is written over an operand, each of which its kernel may then overwrite.

        An operand that is a part of it, or all of it in another order, would be read after other elements of it were
        written; but not where a loop writes rows over those that it has read.
        """
        result = i.results[position]
        number, aval, region = self.home[result], self.plan.slots[result].aval, self.region[result]
        allowed, over = self.allowed(i)[0], False
        if callable(allowed):
            allowed = allowed(len(i.operands), **dict(i.items))[position]
        for argument, slot in enumerate(i.operands):
            if self.home[slot] != number or not self.meet(self.region[slot], region):
                continue
            found, wrong, over = self.plan.slots[slot].aval, "", True
            if i.loops and self._over_rows(i, position, argument):
                continue
            if allowed != ALL and argument not in allowed:
                wrong = f", which the kernel {i.kernel!r} does not allow"
            elif found is not aval and found != aval:
                wrong = f": {found!r}, but the result is {aval!r}"
            elif not self.plain[slot] or not self.region[slot].same(region):
                wrong = ", which is a view of other elements, or in another order"
            if wrong:
                raise PlanError(
                    f"{self.named(t)} writes over its operand {argument}, slot {slot} in buffer {number}{wrong}"
                )
        return over

    def _over_rows(self, i: Instruction, position: int, argument: int) -> bool:
        """Whether a loop stacks a result where it has read rows of an operand, both by position."""
        slots = i.operands[argument], i.results[position]
        regions = [self.region[slot] for slot in slots]
        in_rows = all(self.plain[slot] for slot in slots) and all(region.is_compact for region in regions)
        starts = regions[0].low, regions[1].low
        return in_rows and may_write_over_rows(self.plan, i, position, argument, starts, self.work)

    # --- slots ------------------------------------------------------------------------------------------

    def slot(self, slot: int, what: int | str) -> int:
        """The buffer of a slot; raises where there is no such slot."""
        if not 0 <= slot < len(self.plan.slots):
            raise PlanError(f"{self.named(what)} names slot {slot}, which is none of the {len(self.plan.slots)}")
        return self.plan.slots[slot].buffer

    def fits(self, slot: int, what: int | str) -> Region:
        """The slot's value lies in its buffer: where."""
        found = self.plan.slots[slot]
        given = self.plan.buffers[found.buffer].nbytes
        key = (found.aval, found.offset, found.strides) if found.offset or found.strides else found.aval
        region = self._regions.get(key)
        if region is None:
            if not isinstance(found.aval.nbytes, int):
                raise PlanError(f"{self.named(what)}: slot {slot} is {found.aval!r}, whose size is not known")
            if found.strides is not None and len(found.strides) != len(found.aval.shape):
                raise PlanError(f"{self.named(what)}: slot {slot} is {found.aval!r}, with strides {found.strides}")
            region = Region.of(found.offset, found.aval.shape, found.strides, found.aval.dtype.itemsize)
            self._regions[key] = region
        if region.low < 0 or region.high > given:
            raise PlanError(
                f"{self.named(what)}: slot {slot} is {found.aval!r}, {found.aval.nbytes} bytes"
                + (f" in [{region.low}, {region.high})" if region.low or not region.is_compact else "")
                + f", but {self.describe(found.buffer)} has {given}"
            )
        self.region[slot] = region
        return region

    def whole(self, slot: int, what: str) -> None:
        """A value from outside, or for it, is no part of another."""
        if self.region[slot].low or not self.in_order(slot):
            raise PlanError(
                f"{what} is slot {slot}, which is a part of {self.describe(self.home[slot])}, or in another order"
            )

    def in_order(self, slot: int) -> bool:
        """Whether a slot lies without gaps, in the order that its aval says: as an array that is made for it does."""
        found = self.plan.slots[slot]
        aval = found.aval
        if found.strides is None:
            return aval.layout is None
        key = aval, found.strides
        if key not in self._ordered:
            said, is_so = (Region.of(0, aval.shape, s, aval.dtype.itemsize) for s in (aval.strides, found.strides))
            self._ordered[key] = said.axes == is_so.axes
        return self._ordered[key]
