"""A frame: a plan's kernels bound to views of one arena, which it runs. One a running call; arenas keep it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.base import PlannedDevice
from nnc_func.device.namespace import explained
from nnc_func.device.narrow import kernel_named
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, CONSTANT, DONATED, LENT, NEXT, OUTPUT, Slot
from nnc_func.engine.running import located
from nnc_func.engine.running.observed import Application, Observer, lines_of, observed
from nnc_func.errors import NncError
from nnc_func.graph.origin import told


def _writes_plainly(device: Any) -> bool:
    """Whether it calls kernels on arrays of NumPy with nothing around it: one that does more is asked for each call."""
    return device.array_type is np.ndarray and getattr(type(device), "writing", None) is PlannedDevice.writing


def _maker(device: Any, instruction: Any, avals: tuple[Aval, ...]) -> tuple[Any, bool]:
    """What makes, of its scratch, the kernel a function of operands and results; whether it is for these avals only."""
    op, items, count = instruction.op, instruction.items, len(instruction.results)
    kernel = kernel_named(op, instruction.kernel)
    if kernel is not None and kernel.bound is not None:
        of = kernel.bound(avals, **dict(items)) if _writes_plainly(device) else None
        return of or (lambda *scratch: device.writing(op, kernel, items, count, scratch)), True
    return lambda *scratch: device.writing(op, kernel, items, count, scratch), False


def part(device: Any, slot: Slot, memory: Any, offset: int = 0) -> Any:
    """The array of a slot, whose buffer lies `offset` bytes into some memory."""
    return located.view(device, memory, offset + slot.offset, slot.aval, slot.strides)


def failure(plan: Plan, t: int, error: Exception) -> NncError:
    """What went wrong in an instruction, in words that name the user's line."""
    i = plan.instructions[t]
    avals = tuple(plan.slots[s].aval for s in i.operands)
    found = explained(i.op, avals, i.items, error, told(i.origin, lines_of(i.op)))
    found.instruction = t
    return found


class Frame:
    """Bound kernels, and where to put what changes from call to call.

    Slots that depend on nothing but the arena and constants are bound once. Inputs, variables and fresh results
    are patched into the argument lists before each run; views of them are taken then.
    """

    __slots__ = (
        "_device",
        "_kernels",
        "_makers",
        "_passing",
        "_plan",
        "_shown",
        "arenas",
        "arrays",
        "bound",
        "call",
        "calls",
        "donated",
        "early",
        "given_up",
        "has_run",
        "home",
        "late",
        "lent",
        "located",
        "order",
        "patches",
        "sections",
        "views",
    )

    def __init__(self, plan: Plan, device: Any, constants: Sequence[Any], arenas: Mapping[Any, Any]) -> None:
        self._plan, self._device = plan, device
        self.arenas = arenas
        self.home: Any = None  # whoever lent them
        self.call: Any = None  # all of a run as one function, see `straight_call.written`
        self.has_run = False
        self.arrays: list[Any] = [None] * len(plan.slots)
        self.calls: list[tuple[Any, list[Any]]] = []
        self.order: list[int] = []  # position in calls -> instruction
        self.patches: dict[int, list[tuple[list[Any], int]]] = {}
        self.located: dict[int, tuple[int, list[located.View]]] = {}  # the same, of row-major arrays of so many bytes
        self.views: dict[int, list[located.Shown]] = {}  # slot -> views of it
        self.bound: dict[int, Any] = {}  # slot -> the variable's array that is patched in now
        self.lent: dict[int, list[int]] = {}  # output -> slots that live in its memory before it is written
        self.donated: dict[int, list[int]] = {}  # input that was given up -> it, and slots that live in its memory
        self.given_up: dict[int, Any] = {}  # such an input -> its array in this call
        self._lend(plan)
        self._kernels: dict[Any, Any] = {}  # application -> its function, where any arrays will do
        self._makers: dict[Any, Any] = {}  # application and avals -> what makes its function
        self.sections: dict[int, Any] = {}  # position in calls -> the calls from there dealt out to threads
        self._passing: list[tuple[list[Any], int]] = []
        self._shown: list[int] = []
        for slot, value in zip(plan.constants, constants, strict=True):
            self.arrays[slot] = value
        moving = self._moving(plan)
        self._bind_windows(plan, device, moving)
        self._bind_arenas(plan, device, moving)
        self._bind(plan, device, moving)
        if device.array_type is np.ndarray:
            self._locate(plan)
        commit = bisect_left(self.order, plan.commit)
        self.early, self.late = self.calls[:commit], self.calls[commit:]

    def _lend(self, plan: Plan) -> None:
        """Note what lives in memory that is lent or was given up."""
        found = {LENT: self.lent, DONATED: self.donated}
        borrowed = {n: found[b.kind] for n, b in enumerate(plan.buffers) if b.kind in found}
        for i, s in enumerate(plan.slots if borrowed else ()):
            if s.buffer in borrowed and not s.is_view:
                borrowed[s.buffer].setdefault(plan.buffers[s.buffer].source, []).append(i)

    @staticmethod
    def _moving(plan: Plan) -> dict[int, int]:
        """Slots whose array changes from call to call, and the slot that each one is a view of, at the root."""
        moves = [b.kind not in (ARENA, CONSTANT) for b in plan.buffers]
        return {i: i for i, s in enumerate(plan.slots) if moves[s.buffer]}

    def _bind_arenas(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        """The arrays of all that lies in an arena; of what lies in the same place, one after the other, one array."""
        arrays, arenas = self.arrays, self.arenas
        offsets, places = [b.offset for b in plan.buffers], [b.place for b in plan.buffers]
        found: dict[Any, Any] = {}
        known = found.get
        for i, s in enumerate(plan.slots):
            if arrays[i] is None and not s.is_view and i not in moving:
                aval, buffer, strides = s.aval, s.buffer, s.strides
                key = (offsets[buffer] + s.offset, id(aval), strides, places[buffer])
                array = known(key)
                if array is None:
                    array = found[key] = located.view(device, arenas[places[buffer]], key[0], aval, strides)
                arrays[i] = array

    def _bind_windows(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        """What is computed as a part of an output or of an update shows that, which is another array each time."""
        roots = {plan.slots[s].buffer: s for s in (*plan.outputs, *(s for _, s in plan.updates))}
        for i, s in enumerate(plan.slots):
            root = roots.get(s.buffer)
            if root is not None and i != root and not s.is_view and plan.buffers[s.buffer].kind in (OUTPUT, NEXT):
                moving[i] = root
                self.views.setdefault(root, []).append((partial(part, device, s), root, i))

    def _bind_view(self, plan: Plan, device: Any, instruction: Any, moving: dict[int, int]) -> None:
        if instruction.op.view is None:  # put together of parts that are there
            return
        op, results = instruction.op, instruction.results
        operand, result = instruction.operands[op.view.argument], results if op.several else results[0]
        call = device.viewing(op, instruction.items)
        if operand in moving:
            root = moving[operand]
            moving.update(dict.fromkeys(results, root))
            self.views.setdefault(root, []).append((call, operand, result))
        else:
            for slot, array in located.paired(result, call(self.arrays[operand])):
                self.arrays[slot] = array

    def _bind(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        arrays, patches, kernels = self.arrays, self.patches, self._kernels
        called, ordered, fixed = self.calls.append, self.order.append, moving.keys().isdisjoint
        for t, instruction in enumerate(plan.instructions):
            if instruction.view:
                self._bind_view(plan, device, instruction, moving)
                continue
            operands, results = instruction.operands, instruction.results
            slots = operands + results
            key = (instruction.op, instruction.kernel, id(instruction.items), len(results))
            call = kernels.get(key)  # the same function for all that is applied alike
            if call is None:
                avals = tuple([plan.slots[s].aval for s in slots])
                call = self._writing(device, instruction, key, avals)
            args = [arrays[s] for s in slots]
            if not fixed(slots):
                for position, slot in enumerate(slots):
                    if slot in moving:
                        patches.setdefault(slot, []).append((args, position))
            called((call, args))
            ordered(t)

    def _locate(self, plan: Plan) -> None:
        """Where views lie in what they show: those that kernels are given, or all where values outlive a run."""
        for root, views in self.views.items():
            aval = plan.slots[root].aval
            if aval.layout is None and aval.size:
                slots = (slot for *_, result in views for slot in located.slots(result))
                wanted = (slot for slot in slots if plan.retained is not None or slot in self.patches)
                found = located.places(aval, root, views, [*wanted])
                if found is not None:
                    self.located[root] = aval.nbytes, found

    def _writing(self, device: Any, instruction: Any, key: Any, avals: tuple[Aval, ...]) -> Any:
        """The kernel as a function of operands and results; it is kept where it serves for any of them."""
        found = self._makers.get((key, avals))
        if found is None:
            found = self._makers[key, avals] = _maker(device, instruction, avals)
        of, is_bound = found
        call = of(*[self.arrays[s] for s in instruction.scratch])
        if not is_bound and not instruction.scratch:
            self._kernels[key] = call
        return call

    def put(self, slot: int, array: Any) -> None:
        """Let a slot be that array."""
        for args, position in self.patches.get(slot, ()):
            args[position] = array
        if slot in self.views:
            arrays = self.arrays
            arrays[slot] = array
            places = self.located.get(slot)
            if places is not None and array.flags.c_contiguous and array.nbytes == places[0]:
                for result, shape, dtype, offset, strides in places[1]:
                    self._show(result, np.ndarray(shape, dtype, array, offset, strides))
            else:
                for call, operand, made in self.views[slot]:
                    for shown, found in located.paired(made, call(arrays[operand])):
                        self._show(shown, found)

    def _show(self, slot: int, array: Any) -> None:
        self.arrays[slot] = array
        for args, position in self.patches.get(slot, ()):
            args[position] = array

    def keep(self, slot: int, array: Any) -> None:
        """As `put`, for what seldom changes: nothing is done if the slot is that array already."""
        if self.bound.get(slot) is not array:
            self.bound.pop(slot, None)  # whatever happens meanwhile, half of it is put again
            self.put(slot, array)
            self.bound[slot] = array

    def drop(self) -> None:
        """Forget what was put, so that neither callers' arrays nor results are kept."""
        for args, position in self._passing:
            args[position] = None
        for slot in self._shown:
            self.arrays[slot] = None
        self.given_up.clear()

    def passing(self, slots: list[int]) -> None:
        """Name the slots that `drop` forgets: inputs and fresh results."""
        views = (result for s in slots for *_, result in self.views.get(s, ()))
        shown = [*slots, *(slot for result in views for slot in located.slots(result))]
        self._passing = [pair for s in shown for pair in self.patches.get(s, ())]
        self._shown = [s for s in shown if s in self.views or s not in slots]

    def run(self, calls: Any, order: Sequence[int], stop: int) -> None:
        """Make calls one after the other.

        Parameters
        ----------
        calls
            An iterator of a list, which knows how far it has come.
        order, stop
            Instructions, those of the calls up to there.

        Raises
        ------
        NncError
            A kernel failed: names the operator, the shapes and the user's line.
        """
        try:
            for call, args in calls:
                call(*args)
        except Exception as error:
            raise self.failure(order[stop - calls.__length_hint__() - 1], error) from error

    def walk(
        self, positions: Iterable[int], watching: Sequence[Observer], wait: Any, first: int = 0
    ) -> Iterator[Application]:
        """Make the calls at these positions, each before the observers' eyes and when it is asked for.

        The first one has the number `first`. `wait` is called after each kernel, if it is not None.
        """
        alive = self._plan.bytes_alive
        for number, position in enumerate(positions, first):
            t = self.order[position]
            i = self._plan.instructions[t]
            call, args = self.calls[position]
            count = len(i.operands)
            found = Application(self._device, number, t, i.op, i.items, i.origin, i.kernel)
            found.arguments, found.outs = args[:count], args[count:]
            found.bytes_alive, found.stream = alive[t], i.stream
            observed(found, partial(call, *args), watching, wait, partial(self.failure, t))
            yield found

    def failure(self, t: int, error: Exception) -> NncError:
        """What went wrong in an instruction, in words that name the user's line."""
        return failure(self._plan, t, error)
