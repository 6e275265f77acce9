"""Plans as data: instructions, values, buffers, offsets. `planner` makes them, `verify` checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, ClassVar

from attrs import evolve, frozen

from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.allocators.base import Problem
from nnc_func.engine.plan_rows import ARENA, NEXT, OUTPUT, Buffer, Instruction, Slot
from nnc_func.facets.kernels import private_bytes
from nnc_func.facets.places import Place
from nnc_func.graph.unpickled import Unpickled
from nnc_func.locks import cached_property
from nnc_func.tree import Structure


@frozen(repr=False, slots=False)
class Plan(Unpickled):
    """What runs, in which order, and where in memory: all that a program knows besides its arrays. Equal by its data.

    Attributes
    ----------
    instructions, slots, buffers
        Instructions refer to slots by number, slots to buffers.
    inputs, variables, constants
        Slots of the leaves, in the graph's order.
    outputs
        Slots of the outputs, in order.
    updates
        Pairs (position among the variables, slot of the new value).
    commit
        From this instruction on variables are written in place, and nothing can fail.
    arena_bytes
        Size of the arena in the device's own place.
    alignment
        Offsets are multiples of it, in bytes.
    order, allocator
        Names of what made it.
    name
        Of the program, for messages.
    input_names, variable_names
        As messages name them, and variables are found in files; empty where they have none.
    structure
        How the outputs are nested; None: a flat list.
    elsewhere
        Sizes of the arenas in other places: pairs (place, bytes).
    machine
        Of a plan with kernels of a library, what it was made for: version, instruction set and threads, on which their
        scratch memory depends. Empty where it has none.
    retained
        Buffers of the arena, by number, that outlive a run: each holds one value, and shares its place with nothing.
        Outputs and updates are then shown where they are, for the program to copy. None: nothing outlives a run.
    """

    kept_by: ClassVar[str] = "str(plan) is all of it as text, which Plan.parse(text, stack) reads"

    instructions: tuple[Instruction, ...]
    slots: tuple[Slot, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[int, ...]
    variables: tuple[int, ...]
    constants: tuple[int, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...]
    commit: int
    arena_bytes: int
    alignment: int
    order: str = ""
    allocator: str = ""
    name: str = "program"
    input_names: tuple[str, ...] = ()
    variable_names: tuple[str, ...] = ()
    structure: Structure | None = None
    elsewhere: tuple[tuple[str, int], ...] = ()
    machine: str = ""
    retained: tuple[int, ...] | None = None

    @property
    def arenas(self) -> Mapping[Place, int]:
        """The size of the arena in each place, the device's own first."""
        return {None: self.arena_bytes, **dict(self.elsewhere)}

    @property
    def problem(self) -> Problem:
        """The allocation problem that the arena in the device's own place answers."""
        return self.problems[None]

    @cached_property
    def problems(self) -> Mapping[Place, Problem]:
        """The allocation problem of each place: they have nothing to do with each other."""
        return {place: self._problem(place) for place in self.arenas}

    def _problem(self, place: Place) -> Problem:
        from nnc_func.engine.planning.streams import uses_of

        numbers = [n for n, b in enumerate(self.buffers) if b.kind == ARENA and b.place == place]
        found = [self.buffers[n] for n in numbers]
        lifetimes = [b.lower for b in found], [b.upper for b in found]
        uses = uses_of(self, numbers) if self.streams > 1 else None
        return Problem([b.nbytes for b in found], *lifetimes, self.alignment, uses)

    @cached_property
    def streams(self) -> int:
        """How many streams it has."""
        return max((i.stream for i in self.instructions), default=0) + 1

    @property
    def planned(self) -> Sequence[Buffer]:
        """The buffers in the arenas."""
        return [b for b in self.buffers if b.kind == ARENA]

    @cached_property
    def max_load(self) -> int:
        """The most arena bytes alive at one time, sizes rounded up to the alignment, summed over places: no plan is
        smaller."""
        return sum(p.max_load for p in self.problems.values())

    @cached_property
    def bytes_alive(self) -> tuple[int, ...]:
        """For each instruction: bytes of the arena that hold something while it runs, of all fresh results, and those
        that its kernel takes for itself."""
        change = [0] * (len(self.instructions) + 1)
        for b in self.buffers:
            if b.kind == ARENA:
                change[b.lower] += b.nbytes
                change[min(b.upper, len(self.instructions))] -= b.nbytes
        change[0] += sum(b.nbytes for b in self.buffers if b.kind in (OUTPUT, NEXT))
        return tuple(map(add, accumulate(change), self.private_bytes))

    @cached_property
    def private_bytes(self) -> tuple[int, ...]:
        """For each instruction the bytes that its kernel takes for itself while it runs, which lie in no arena.

        They are a library's, or of what is copied into the results; of a loop or a branch those of its bodies, at most.
        """
        return tuple(map(self._private, self.instructions))

    def _private(self, i: Instruction) -> int:
        if i.loops:
            return max(max(each.plan.private_bytes, default=0) for each in i.loops)
        kernel = None if i.view else kernel_named(i.op, i.kernel)
        if kernel is None or (kernel.private is None and (kernel.into is not None or kernel.ufunc is not None)):
            return 0
        operands, results = (tuple([self.slots[n].aval for n in ns]) for ns in (i.operands, i.results))
        return private_bytes(kernel, operands, results, dict(i.items))

    @property
    def peak_bytes(self) -> int:
        """What a run takes at most besides what is there before: arenas, fresh results, and for one kernel's self."""
        fresh = sum(b.nbytes for b in self.buffers if b.kind in (OUTPUT, NEXT))
        return sum(self.arenas.values()) + fresh + max(self.private_bytes, default=0)

    @property
    def ratio(self) -> float:
        """Bytes of all arenas / max load: 1 is perfect."""
        return sum(self.arenas.values()) / self.max_load if self.max_load else 1.0

    @property
    def unshared_bytes(self) -> int:
        """What the arenas would be if no buffer shared its place with another."""
        return sum(int(p.rounded.sum()) for p in self.problems.values())

    @property
    def kernels(self) -> int:
        """Instructions that compute something."""
        return sum(not i.view for i in self.instructions)

    def input_name(self, position: int) -> str:
        """An input, as messages name it."""
        return repr(self.input_names[position]) if self.input_names else str(position)

    def verify(self) -> Plan:
        """Check the plan against itself, by algorithms that share no code with the planner; returns it.

        With several streams, for every order that its waits allow.

        Raises
        ------
        PlanError
            Says which instruction or which two buffers contradict each other.
        """
        from nnc_func.engine.verifying.verify import verify

        verify(self)
        if self.streams > 1:
            from nnc_func.engine.verifying.races import check_streams

            check_streams(self)
        return self

    @classmethod
    def parse(cls, text: str, stack: Any = None, classes: Iterable[type] = ()) -> Plan:
        """The plan that a text describes, as `text` gives it or written by hand; it is not verified.

        ``stack.program(plan)`` verifies and binds it. See `files.parsing.parsed` for the parameters, and for what may
        be left out.

        Raises
        ------
        GraphError
            The text is not that of a plan: names the line and the column.
        """
        from nnc_func.engine.files.parsing import parsed

        return parsed(cls, text, stack, classes)

    def text(self) -> str:
        """All of it as text, which `parse` reads back: buffers, leaves, then one line an instruction."""
        from nnc_func.engine.files.text import printed

        return printed(self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        streams = f", {self.streams} streams" if self.streams > 1 else ""
        return f"<plan: {self.kernels} kernels, arena {self.arena_bytes} bytes, ratio {self.ratio:.4f}{streams}>"

    def to_svg(self) -> str:
        """The memory map: time across, offset up, one rectangle a buffer."""
        from nnc_func.engine.drawing.memory import svg

        return svg(self)

    def to_html(self) -> str:
        """A self-contained page: the memory map, the load curve, and the largest buffers."""
        from nnc_func.engine.drawing.memory import html

        return html(self)

    def _repr_html_(self) -> str:
        return self.to_svg()

    def to_csv(self, place: Place = None) -> str:
        """The allocation problem and its answer in minimalloc's format: id,lower,upper,size,offset. Of one place."""
        offsets = [b.offset for b in self.planned if b.place == place]
        return evolve(self.problems[place], uses=None, alignment=1).to_csv(offsets)
