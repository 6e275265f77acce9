"""Verification of a finished plan, from the plan alone: it replays every read and write, and sweeps the arena.

It is no part of the planner and shares no code with it or with any allocator, so that one fault cannot hide in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from nnc_func.engine.plan import ARENA, CONSTANT, INPUT, LENT, NEXT, OUTPUT, VARIABLE, Instruction, Plan
from nnc_func.engine.sweep import check_arena
from nnc_func.errors import PlanError
from nnc_func.facets.kernels import ALL
from nnc_func.facets.places import named as place_named
from nnc_func.graph.origin import told

KINDS = (ARENA, INPUT, VARIABLE, CONSTANT, OUTPUT, NEXT, LENT)
PLANNED = (ARENA, LENT)  # kinds that have a lifetime, and may be written more than once
READ_ONLY = (INPUT, CONSTANT)
LEAF, UNMADE = -1, -2  # where a slot is made, if not by an instruction


def verify(plan: Plan) -> None:
    """Raise unless the plan is consistent with itself.

    What is replayed: each slot is made once, before it is read; each buffer is as large as what it holds; an arena
    buffer is alive whenever one of its slots is read or written, through a view too; what was written over is not
    read again; the kernel allows what is done in place; inputs and constants are not written, and variables only in
    the commit section, by what ends in their update. Then the arena: no two buffers alive together overlap, and
    offsets are aligned and inside.

    Raises
    ------
    PlanError
        The first contradiction: the instruction, the operator, the slots and buffers.

    Examples
    --------
    >>> from nnc_func.engine.plan import Buffer, Plan
    >>> memory = (Buffer("arena", 64, 0, 2, 0), Buffer("arena", 64, 1, 3, 0))
    >>> verify(Plan((), (), memory, (), (), (), (), (), 0, 64, 64))
    Traceback (most recent call last):
    nnc_func.errors.PlanError: buffers 0 and 1 are both alive at step 1 and overlap: bytes [0, 64) and [0, 64)
    """
    _frame(plan)
    replay = _Replay(plan)
    replay.leaves()
    for t, instruction in enumerate(plan.instructions):
        if instruction.view:
            replay.view(t, instruction)
        else:
            replay.kernel(t, instruction)
    replay.ends()
    replay.loans()
    check_arena(plan)


def _frame(plan: Plan) -> None:
    """What can be said without replaying: numbers are in range."""
    if plan.alignment < 1 or plan.arena_bytes < 0:
        raise PlanError(f"an arena of {plan.arena_bytes} bytes aligned to {plan.alignment}: wanted >= 0 and >= 1")
    if not 0 <= plan.commit <= len(plan.instructions):
        raise PlanError(f"the commit section starts at {plan.commit}, of {len(plan.instructions)} instructions")
    for number, buffer in enumerate(plan.buffers):
        if buffer.kind not in KINDS:
            raise PlanError(f"buffer {number} is of kind {buffer.kind!r}; kinds are {', '.join(KINDS)}")
        if buffer.nbytes < 0:
            raise PlanError(f"buffer {number} has {buffer.nbytes} bytes")
        if buffer.kind == ARENA and buffer.place not in plan.arenas:
            raise PlanError(f"buffer {number} is on {buffer.place}, where there is no arena")
    for number, slot in enumerate(plan.slots):
        if not 0 <= slot.buffer < len(plan.buffers):
            raise PlanError(f"slot {number} lives in buffer {slot.buffer}, which is none of the {len(plan.buffers)}")
        place = plan.buffers[slot.buffer].place
        if slot.aval.place != place:
            raise PlanError(f"slot {number} is {slot.aval!r}, but buffer {slot.buffer} is in {place_named(place)}")
    count = len(plan.slots)
    for t, i in enumerate(plan.instructions):
        for slots in (i.operands, i.results, i.scratch):
            for at in slots:
                if not 0 <= at < count:
                    raise PlanError(f"{named(plan, t)} names slot {at}, which is none of the {count}")


def named(plan: Plan, t: int) -> str:
    """An instruction, as messages name it."""
    where = told(plan.instructions[t].origin)
    return f"instruction {t} ({plan.instructions[t].op.name}{f' at {where}' if where else ''})"


@define
class _Replay:
    """The state of memory between two instructions.

    Attributes
    ----------
    made
        For each slot the instruction that makes it, `LEAF` or `UNMADE`.
    seen, generation
        The generation of its buffer when a slot was made, and what each buffer is at now: it rises by each write, so a
        slot whose number is behind has been written over.
    writer
        For each buffer the instruction that wrote it last.
    whole
        For each slot whether it is all of its buffer, in the order that its aval says.
    home
        For each slot its buffer.
    begins, ends_at
        For each buffer the lifetime in which it may be touched; of those that are no part of the planning, always.
    """

    plan: Plan
    made: list[int] = field(init=False)
    seen: list[int] = field(init=False)
    generation: list[int] = field(init=False)
    writer: list[int] = field(init=False)
    whole: list[bool] = field(init=False)
    home: list[int] = field(init=False)
    begins: list[int] = field(init=False)
    ends_at: list[int] = field(init=False)
    _sizes: dict[Any, Any] = field(init=False, factory=dict)
    _allowed: dict[Any, Any] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        slots, buffers = len(self.plan.slots), len(self.plan.buffers)
        self.made, self.seen, self.whole = [UNMADE] * slots, [0] * slots, [True] * slots
        self.generation, self.writer = [0] * buffers, [LEAF] * buffers
        self.home = [s.buffer for s in self.plan.slots]
        end = len(self.plan.instructions)
        self.begins = [b.lower if b.kind in PLANNED else 0 for b in self.plan.buffers]
        self.ends_at = [b.upper if b.kind in PLANNED else end for b in self.plan.buffers]

    # --- words ------------------------------------------------------------------------------------------

    def named(self, t: int | str) -> str:
        """An instruction, as messages name it; what has a name already keeps it."""
        return t if isinstance(t, str) else named(self.plan, t)

    def told(self, buffer: int) -> str:
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
                if (buffer.kind, buffer.source) != (kind, position):
                    raise PlanError(f"{kind} {position} is slot {slot}, but that lives in {self.told(number)}")
                if self.made[slot] != UNMADE:
                    raise PlanError(f"slot {slot} is {kind} {position} and another leaf as well")
                self.made[slot] = LEAF
                self.fits(slot, f"{kind} {position}")

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
        if facet.needs_contiguous and (laid.layout is not None or not self.whole[base]):
            raise PlanError(
                f"{self.named(t)} is a view of slot {base}, which is not contiguous: {i.op.name} has to copy there"
            )
        home = self.home[base]
        for slot in i.results:
            number = self.home[slot]
            if number != home:
                raise PlanError(
                    f"{self.named(t)} is a view of slot {base} in {self.told(home)}, "
                    f"but its result, slot {slot}, lives in {self.told(number)}"
                )
            self.make(t, slot)
            self.whole[slot] = (
                facet.contiguous and self.whole[base] and (laid.layout is None or self.plan.slots[slot].aval == laid)
            )

    def kernel(self, t: int, i: Instruction) -> None:
        """Operands are read, then scratch and results are written."""
        self.reads(t, i)
        home = self.home
        held = [home[s] for s in i.operands]
        taken: list[int] = []
        for slot in i.scratch:
            taken.append(self.scratch(t, slot, held + taken))
        for position, slot in enumerate(i.results):
            number = home[slot]
            if number in taken:
                raise PlanError(f"{self.named(t)} writes {self.told(number)} twice: results and scratch must differ")
            taken.append(number)
            in_place = number in held
            if in_place:
                self.in_place(t, i, position)
            self.writes(t, number, in_place)
            self.make(t, slot)
            self.fits(slot, t)

    def reads(self, t: int, i: Instruction) -> None:
        """Operands are made, alive, and not written over."""
        home, made, seen, generation = self.home, self.made, self.seen, self.generation
        for slot in i.operands:
            number = home[slot]
            if made[slot] == UNMADE or seen[slot] != generation[number]:
                self.read(t, slot)
            if not self.begins[number] <= t < self.ends_at[number]:
                self.alive(t, number, f"reads slot {slot}")

    def read(self, who: int | str, slot: int) -> int:
        """One slot is made, and not written over; its buffer."""
        number = self.slot(slot, who)
        if self.made[slot] == UNMADE:
            raise PlanError(f"{self.named(who)} reads slot {slot}, which nothing has made yet")
        if self.seen[slot] != self.generation[number]:
            raise PlanError(
                f"{self.named(who)} reads slot {slot} in {self.told(number)}, "
                f"which {self.named(self.writer[number])} has written over"
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
        if self.plan.slots[slot].is_view != self.plan.instructions[t].view:
            raise PlanError(f"{self.named(t)} and its slot {slot} disagree on whether that is a view")
        self.made[slot], self.seen[slot] = t, self.generation[number]
        if not self.begins[number] <= t < self.ends_at[number]:
            self.alive(t, number, f"makes slot {slot}")

    def writes(self, t: int, number: int, in_place: bool) -> None:
        """The buffer is written, and that is allowed now."""
        buffer = self.plan.buffers[number]
        if buffer.kind in PLANNED:
            self.generation[number] += 1
            self.writer[number] = t
            return
        if buffer.kind in READ_ONLY:
            raise PlanError(f"{self.named(t)} writes to {self.told(number)}, which is not the program's to write")
        if buffer.kind == VARIABLE and t < self.plan.commit:
            raise PlanError(
                f"{self.named(t)} writes to {self.told(number)} before the commit section, which starts at "
                f"{self.plan.commit}: a program that fails must leave its variables as they were"
            )
        chained = in_place and buffer.kind == VARIABLE
        if self.writer[number] != LEAF and not chained:
            raise PlanError(
                f"{self.named(t)} writes to {self.told(number)}, which {self.named(self.writer[number])} wrote before"
            )
        self.generation[number] += 1
        self.writer[number] = t

    def scratch(self, t: int, slot: int, others: Iterable[int]) -> int:
        """Scratch is arena memory of the kernel's own; its buffer."""
        number = self.home[slot]
        if self.plan.buffers[number].kind != ARENA:  # bound once: memory that is lent changes from call to call
            raise PlanError(f"{self.named(t)} has slot {slot} as scratch, in {self.told(number)}, not in the arena")
        if number in others:
            raise PlanError(f"{self.named(t)} has buffer {number} as scratch and uses it for something else as well")
        self.writes(t, number, in_place=False)
        self.make(t, slot)
        self.fits(slot, t)
        return number

    def in_place(self, t: int, i: Instruction, position: int) -> None:
        """The kernel may write this result over each operand that lives in the same buffer.

        An operand there that is a part of the buffer, or all of it in another order, would be read after other
        elements of it were written.
        """
        result = i.results[position]
        number, aval = self.home[result], self.plan.slots[result].aval
        allowed = self._allowed.get((i.op, i.kernel))
        if allowed is None:
            kernel = next((k for k in i.op.kernels if k.name == i.kernel), None)
            allowed = self._allowed[i.op, i.kernel] = kernel.overwrites if kernel is not None else ()
        for argument, slot in enumerate(i.operands):
            if self.home[slot] != number:
                continue
            found, wrong = self.plan.slots[slot].aval, ""
            if allowed != ALL and argument not in allowed:
                wrong = f", which the kernel {i.kernel!r} does not allow"
            elif found is not aval and found != aval:
                wrong = f": {found!r}, but the result is {aval!r}"
            elif not self.whole[slot]:
                wrong = ", which is a view of other elements, or in another order"
            if wrong:
                raise PlanError(
                    f"{self.named(t)} writes over its operand {argument}, slot {slot} in buffer {number}{wrong}"
                )

    def ends(self) -> None:
        """Each output is a fresh buffer, each update that or the variable's own, and nothing else is written."""
        plan = self.plan
        taken = {self.final(slot, f"output {at}", at, (OUTPUT,)) for at, slot in enumerate(plan.outputs)}
        targets: set[int] = set()
        for variable, slot in plan.updates:
            if not 0 <= variable < len(plan.variables) or variable in targets:
                raise PlanError(f"an update of variable {variable}: not one of {len(plan.variables)}, or updated twice")
            targets.add(variable)
            taken.add(self.final(slot, f"the update of variable {variable}", variable, (NEXT, VARIABLE)))
            wanted, found = plan.slots[plan.variables[variable]].aval, plan.slots[slot].aval
            if wanted != found:
                raise PlanError(f"variable {variable} is {wanted!r}, its update, slot {slot}, is {found!r}")
        for number, writer in enumerate(self.writer):
            if writer != LEAF and plan.buffers[number].kind not in PLANNED and number not in taken:
                raise PlanError(
                    f"{self.named(writer)} writes to {self.told(number)}, which is not where that output or update is"
                )

    def loans(self) -> None:
        """Memory of an output is lent to one at a time, to what fits, and given back before the output is written."""
        plan = self.plan
        borrowed: dict[int, list[tuple[int, int, int]]] = {}
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == LENT:
                borrowed.setdefault(buffer.source, []).append((buffer.lower, buffer.upper, number))
        for output, lifetimes in borrowed.items():
            if not 0 <= output < len(plan.outputs):
                raise PlanError(f"buffer {lifetimes[0][2]} is lent by output {output}, of {len(plan.outputs)}")
            home = plan.slots[plan.outputs[output]].buffer
            until, last = -1, -1
            for lower, upper, number in sorted(lifetimes):
                if lower < until:
                    raise PlanError(f"output {output} is lent to buffers {last} and {number} at the same time, {lower}")
                if plan.buffers[number].nbytes > plan.buffers[home].nbytes or plan.buffers[number].offset:
                    raise PlanError(f"buffer {number} does not fit in the memory of output {output}, which lends it")
                until, last = upper, number
            if until > self.writer[home]:
                raise PlanError(
                    f"buffer {last} lives in the memory of output {output} until {until}, "
                    f"but {self.named(self.writer[home])} writes that output before"
                )

    def final(self, slot: int, what: str, position: int, kinds: tuple[str, ...]) -> int:
        """The buffer of a slot that outlives the run: written by an instruction, and the place of just that."""
        number = self.read(what, slot)
        buffer = self.plan.buffers[number]
        if buffer.kind not in kinds or buffer.source != position:
            raise PlanError(
                f"{what} is slot {slot}, which lives in {self.told(number)}; it must be copied to a buffer of its own"
            )
        if self.plan.slots[slot].is_view or self.made[slot] == LEAF:
            raise PlanError(f"{what} is slot {slot}, which is a view or a leaf; it must be copied to its own buffer")
        return number

    # --- slots ------------------------------------------------------------------------------------------

    def slot(self, slot: int, what: int | str) -> int:
        """The buffer of a slot; raises where there is no such slot."""
        if not 0 <= slot < len(self.plan.slots):
            raise PlanError(f"{self.named(what)} names slot {slot}, which is none of the {len(self.plan.slots)}")
        return self.plan.slots[slot].buffer

    def fits(self, slot: int, what: int | str) -> None:
        """The buffer is as large as the slot's value."""
        found = self.plan.slots[slot]
        given = self.plan.buffers[found.buffer].nbytes
        wanted = self._sizes.get(found.aval)
        if wanted is None:
            wanted = self._sizes[found.aval] = found.aval.nbytes
        if not isinstance(wanted, int):
            raise PlanError(f"{self.named(what)}: slot {slot} is {found.aval!r}, whose size is not known")
        if wanted > given:
            raise PlanError(
                f"{self.named(what)}: slot {slot} is {found.aval!r}, {wanted} bytes, "
                f"but {self.told(found.buffer)} has {given}"
            )
