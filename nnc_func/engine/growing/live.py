"""A plan for a capacity, run with the extents that there are: arrays are views of its memory, made anew each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from nnc_func.aval import Aval
from nnc_func.config import config
from nnc_func.declaration import Items
from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.growing.capacity import Capacity
from nnc_func.engine.growing.room import Room
from nnc_func.engine.linkers.base import failure
from nnc_func.engine.linkers.kernel_calls import Frame
from nnc_func.engine.plan_rows import ARENA, Instruction
from nnc_func.engine.running import array_views, loops
from nnc_func.engine.running.cancelling import asked
from nnc_func.engine.running.checking_observers import POISON, check
from nnc_func.engine.running.results import memory
from nnc_func.facets.dims import substitute, symbols_of
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.origin import describe

Call = Callable[[Mapping[str, int]], None]


def _is_sized(items: Items) -> bool:
    """Whether an extent that is not known is among parameters."""
    return bool(symbols_of(tuple([value for _, value in items])))


class Live:
    """A plan for a capacity, linked to memory of its own.

    Parameters
    ----------
    capacity
        The plan, and what is unknown in it.
    rooms
        Instruction to the room in which it puts something behind an input.
    checked
        Raise NumericsError where a result has a NaN or an infinity.
    """

    def __init__(self, capacity: Capacity, device: Any, rooms: Mapping[int, Room], checked: bool = False) -> None:
        plan = capacity.plan
        self.capacity, self.device, self.rooms, self.checked = capacity, device, rooms, checked
        with memory(sum(plan.arenas.values()), f"the arena of {plan.name!r}"):
            self.memory = {place: array_views.arena(device, n, place) for place, n in plan.arenas.items()}
        self.arrays: list[Any] = [None] * len(plan.slots)
        for slot, array in zip(plan.constants, capacity.constants, strict=True):
            self.arrays[slot] = array
        self._dims = {n for a in capacity.avals if a is not None for n in a.shape if type(n) is not int}
        self._numbers: dict[Any, int] = {}
        kinds = [plan.buffers[row.buffer].kind for row in plan.slots]
        self._passing = [slot for slot, kind in enumerate(kinds) if kind != ARENA and slot not in plan.constants]
        self._homes = [(plan.buffers[row.buffer], row) for row in plan.slots]
        self._calls = [self._bound(t, i) for t, i in enumerate(plan.instructions)]

    def run(self, inputs: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
        """The outputs, of inputs with these extents.

        Raises
        ------
        NncError
            A kernel failed: names the operator, the shapes and the user's line.
        """
        plan, arrays = self.capacity.plan, self.arrays
        self._numbers = {n: n.substitute(dims) for n in self._dims}
        if config.spec >= 3:
            for place, run in self.memory.items():
                if plan.arenas[place]:
                    self.device.view(run, 0, (plan.arenas[place],), "uint8")[...] = POISON
        for slot, array in zip(plan.inputs, inputs, strict=True):
            arrays[slot] = array
        t, cancellation = 0, asked()
        try:
            for t, call in enumerate(self._calls):
                if cancellation is not None:
                    cancellation.check(plan.instructions[t].op.name)
                call(dims)
                if self.checked:
                    self._check(plan.instructions[t])
        except Exception as error:
            raise failure(self.capacity.at(dims), t, error) from error
        return [arrays[slot] for slot in plan.outputs]

    def forget(self) -> None:
        """Keep neither what was given nor what was made."""
        for slot in self._passing:
            self.arrays[slot] = None

    # --- what an instruction does -------------------------------------------------------------------------

    def _bound(self, t: int, i: Instruction) -> Call:
        """What computes an instruction, of extents."""
        items, plan = self.capacity.items[t], self.capacity.plan
        avals = [self.capacity.avals[s] for s in (*i.operands, *i.results)]
        if t in self.rooms:
            return self._joining(self.rooms[t], i)
        if i.view:
            return self._viewing(i, items)
        grows = _is_sized(items) or any(a.symbols for a in avals)
        scratch = [self._array(s, plan.slots[s].aval.shape) for s in i.scratch]
        if i.loops:
            return self._fixed(i, loops.bound(i, self.device, Frame)(*scratch))
        kernel = kernel_named(i.op, i.kernel)
        if grows and kernel is not None:
            return self._moving(t, i, kernel)
        assert kernel is not None, i
        return self._fixed(i, self.device.writing(i.op, kernel, items, len(i.results), tuple(scratch)))

    def _fixed(self, i: Instruction, call: Any) -> Call:
        """A kernel whose arrays have the same shapes each time."""
        arrays, operands, results = self.arrays, i.operands, i.results
        fresh = []
        for slot in results:
            shape = self.capacity.plan.slots[slot].aval.shape
            if self._homes[slot][0].kind == ARENA:
                arrays[slot] = self._array(slot, shape)  # once
            else:
                fresh.append((slot, shape))

        def run(dims: Mapping[str, int]) -> None:
            for slot, shape in fresh:
                arrays[slot] = self._array(slot, shape)
            call(*[arrays[s] for s in operands], *[arrays[s] for s in results])

        return run

    def _moving(self, t: int, i: Instruction, kernel: Kernel) -> Call:
        """A kernel with other shapes, or parameters, each time; another one, where it does not take these."""
        arrays, device, items, op = self.arrays, self.device, self.capacity.items[t], i.op
        operands, results, count = i.operands, i.results, len(i.results)
        avals = [(a, bool(a.symbols)) for a in (self.capacity.avals[s] for s in operands)]
        places = [(slot, self.capacity.avals[slot]) for slot in results]
        is_sized, asks = _is_sized(items), kernel.scratch is not None or kernel.by_shape
        call = None if is_sized or kernel.scratch is not None else device.writing(op, kernel, items, count, ())

        def run(dims: Mapping[str, int]) -> None:
            given, now, more = [arrays[s] for s in operands], items, ()
            if is_sized:
                now = substitute(items, dims)
            if asks:
                shown = tuple([a.having(shape=self._shape(a)) if sized else a for a, sized in avals])
                if not kernel.accepts(shown, **dict(now)):
                    self._show(results, device.bind(op, *given, **dict(now)), op.multi_result)
                    return
                more = self._scratch(i, kernel, shown, now)
            for slot, aval in places:
                arrays[slot] = self._array(slot, self._shape(aval))
            (call or device.writing(op, kernel, now, count, more))(*given, *[arrays[s] for s in results])

        return run

    def _scratch(self, i: Instruction, kernel: Kernel, avals: tuple[Aval, ...], items: Items) -> tuple[Any, ...]:
        """What a kernel needs besides, where it is planned; in fresh memory where that does not suffice."""
        if kernel.scratch is None:
            return ()
        found, plan = [], self.capacity.plan
        for slot, (shape, dtype) in zip(i.scratch, kernel.scratch(avals, **dict(items)), strict=True):
            aval, buffer = Aval(shape, dtype), plan.buffers[plan.slots[slot].buffer]
            fits = aval.nbytes <= buffer.nbytes
            home = self.memory[buffer.place]
            found.append(
                self.device.view(home, buffer.offset, aval.shape, aval.dtype)
                if fits
                else array_views.empty(self.device, aval.having(place=buffer.place))
            )
        return tuple(found)

    def _viewing(self, i: Instruction, items: Any) -> Call:
        """A view of what is there."""
        arrays, device, op = self.arrays, self.device, i.op
        view = op.view
        assert view is not None, i
        slot, results = i.operands[view.argument], i.results
        fixed = None if _is_sized(items) else device.viewing(op, items)

        def run(dims: Mapping[str, int]) -> None:
            call = fixed or device.viewing(op, substitute(items, dims))
            self._show(results, call(arrays[slot]), op.multi_result)

        return run

    def _show(self, slots: Sequence[int], found: Any, several: bool) -> None:
        for slot, array in zip(slots, found if several else (found,), strict=True):
            self.arrays[slot] = array

    def _joining(self, room: Room, i: Instruction) -> Call:
        """Something is put behind an input."""
        arrays, operands, (result,) = self.arrays, i.operands, i.results

        def run(dims: Mapping[str, int]) -> None:
            shape = self._shape(self.capacity.avals[result])
            arrays[result] = room.joined([arrays[s] for s in operands], shape)

        return run

    def _shape(self, aval: Any) -> tuple[int, ...]:
        numbers = self._numbers
        return tuple([n if type(n) is int else numbers[n] for n in aval.shape])

    def _array(self, slot: int, shape: tuple[int, ...]) -> Any:
        """Where a slot's value lies; fresh memory for what is given, and for what has no room: `25 - n` as n falls."""
        buffer, row = self._homes[slot]
        if buffer.kind == ARENA and (shape == row.aval.shape or prod(shape) <= row.aval.size):
            return self.device.view(
                self.memory[buffer.place], buffer.offset + row.offset, shape, row.aval.dtype, row.strides
            )
        return array_views.empty(self.device, row.aval.having(shape=shape))

    def _check(self, i: Instruction) -> None:
        for slot in i.results:
            check(self.device, self.arrays[slot], i.op.name, describe(i.origin))
