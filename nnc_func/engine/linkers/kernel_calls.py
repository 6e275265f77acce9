"""This library's own linker calls kernels one after the other, over views of the arenas: `Frame`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from nnc_func.aval import Aval
from nnc_func.device.shared import views
from nnc_func.device.shared.bind_kernels import binds_kernels
from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.device.shared.workers import one_thread
from nnc_func.engine.linkers.base import Executable, Linker, failure
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA, CONSTANT, NEXT, OUTPUT, Instruction
from nnc_func.engine.running import array_views, loops
from nnc_func.engine.running.observers import Application, Observer, observed
from nnc_func.engine.running.parallel import Streams
from nnc_func.engine.running.results import Recycled
from nnc_func.engine.running.unrolled_call import is_unrolled, written
from nnc_func.errors import NncError
from nnc_func.facets.places import Place
from nnc_func.graph.leaves import Variable
from nnc_func.layer_protocols import ViewsSignature


def _maker(device: Any, instruction: Any, avals: tuple[Aval, ...]) -> tuple[Any, bool]:
    """What makes, of its scratch, the kernel a function of operands and results; whether it is for these avals only."""
    op, items, count = instruction.op, instruction.items, len(instruction.results)
    if instruction.loops:
        return loops.bound(instruction, device, Frame), True
    kernel = kernel_named(op, instruction.kernel)
    if kernel is not None and kernel.bound is not None:
        of = kernel.bound(avals, **dict(items)) if binds_kernels(device) else None
        return of or (lambda *scratch: device.writing(op, kernel, items, count, scratch)), True
    return lambda *scratch: device.writing(op, kernel, items, count, scratch), False


def link(plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Place, Any]) -> Executable:
    """The plan's kernels bound to views of that memory, to be called one after the other; see `Executable`.

    Parameters
    ----------
    plan
        A whole program's, or one inside another. It is not verified.
    device
        Has the kernels that the plan names.
    constants
        Arrays of the device, in the plan's order.
    memory
        For each place of the plan's arenas a run of bytes, as large as it says or larger.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (3,), "float64")
    >>> plan = lazy.compile([x], lazy.ops.cumulative_sum(lazy.ops.sort(x), axis=0)).plan
    >>> found = np.empty(3)
    >>> executable = link(plan, lazy.device, [], {None: lazy.device.arena(plan.arena_bytes)})
    >>> executable.put(plan.inputs[0], np.array([3.0, 1.0, 2.0]))
    >>> executable.put(plan.outputs[0], found)
    >>> executable.section(range(len(plan.instructions))).run()
    >>> found
    array([1., 3., 6.])
    """
    found = Frame(plan, device, constants, memory)
    found.takes_turns = bool(getattr(device, "libraries", ())) and _meets(plan, {}) == {True, False}
    return found


def _meets(plan: Plan, known: dict[Any, bool | None]) -> set[bool]:
    """Which have threads of their own: kernels of a library beside NumPy (True), and those of its BLAS (False)."""
    found: set[bool] = set()
    for i in plan.instructions:
        for each in i.loops:
            found |= _meets(each.plan, known)
        key = i.op, i.kernel, id(i.items)
        if i.view or i.loops:
            continue
        if key not in known:
            kernel = kernel_named(i.op, i.kernel)
            known[key] = True if kernel is not None and kernel.library is not None else None
            if known[key] is None and _is_threaded(plan, i):
                known[key] = False
        is_library = known[key]
        if is_library is not None:
            found.add(is_library)
    return found


def _is_threaded(plan: Plan, i: Instruction) -> bool:
    operands, results = (tuple([plan.slots[n].aval for n in ns]) for ns in (i.operands, i.results))
    return bool(i.op.cost(operands, results, **dict(i.items)).threaded)


def linker_of(engine: Any) -> Linker:
    """The linker of an engine; of one that plans nothing, which has none, this library's own.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> linker_of(nnc.eager().engine) is link
    True
    """
    found: Linker = getattr(engine, "linker", link)
    return found


class Frame:
    """Bound kernels, and where to put what changes from call to call.

    Slots that depend on nothing but the arena and constants are bound once. Inputs, variables and fresh results
    are patched into the argument lists before each run; views of them are taken then.

    Attributes
    ----------
    plan, device, memory
        What is linked, and to what.
    arrays
        Slot to its array, where it has one.
    calls, order
        Kernels and their argument lists; for each of them its instruction.
    patches
        Slot to the argument lists that it is in, and the positions there.
    views, located
        Slot to the views of it; and where these lie in it, if it is row-major and of so many bytes.
    together
        The device's function that runs streams side by side; None where the plan has one, or the device cannot.
    takes_turns
        Whether kernels of a library with threads of its own are called in turn with those of BLAS, which has one thread
        then.
    """

    __slots__ = (
        "_kept",
        "_kernels",
        "_makers",
        "_passing",
        "_roots",
        "arrays",
        "calls",
        "device",
        "located",
        "memory",
        "order",
        "patches",
        "plan",
        "takes_turns",
        "together",
        "views",
    )

    def __init__(self, plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Place, Any]) -> None:
        self.plan, self.device = plan, device
        self.memory = memory
        self.takes_turns = False
        self.together = getattr(device, "together", None) if plan.streams > 1 else None
        self.arrays: list[Any] = [None] * len(plan.slots)
        self.calls: list[tuple[Any, list[Any]]] = []
        self.order: list[int] = []
        self.patches: dict[int, list[tuple[list[Any], int]]] = {}
        self.located: dict[int, tuple[int, list[views.View]]] = {}
        self.views: dict[int, list[views.Shown]] = {}
        self._kept: set[int] = set()  # slots whose array is kept
        self._passing: list[tuple[int, list[tuple[list[Any], int]], list[int]]] = []
        self._kernels: dict[Any, Any] = {}  # application -> its function, where any arrays will do
        self._makers: dict[Any, Any] = {}  # application and avals -> what makes its function
        for slot, value in zip(plan.constants, constants, strict=True):
            self.arrays[slot] = value
        moving = self._moving(plan)
        self._bind_windows(plan, device, moving)
        self._bind_arenas(plan, device, moving)
        self._bind(plan, device, moving)
        self._roots = [slot for slot, root in moving.items() if slot == root]
        if device.views is not None:
            self._locate(plan, device.views)

    @staticmethod
    def _moving(plan: Plan) -> dict[int, int]:
        """Slots whose array changes from call to call, and the slot that each one is a view of, at the root."""
        moves = [b.kind not in (ARENA, CONSTANT) for b in plan.buffers]
        return {i: i for i, s in enumerate(plan.slots) if moves[s.buffer]}

    def _bind_arenas(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        """The arrays of all that lies in an arena; of what lies in the same place, one after the other, one array."""
        arrays, arenas = self.arrays, self.memory
        offsets, places = [b.offset for b in plan.buffers], [b.place for b in plan.buffers]
        found: dict[Any, Any] = {}
        known, view = found.get, array_views.view
        for i, s in enumerate(plan.slots):
            if arrays[i] is None and not s.is_view and i not in moving:
                aval, buffer, strides = s.aval, s.buffer, s.strides
                place = places[buffer]
                key = (offsets[buffer] + s.offset, id(aval), strides, place)
                array = known(key)
                if array is None:
                    array = found[key] = view(device, arenas[place], key[0], aval, strides)
                arrays[i] = array

    def _bind_windows(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        """What is computed as a part of an output or of an update shows that, which is another array each time."""
        roots = {plan.slots[s].buffer: s for s in (*plan.outputs, *(s for _, s in plan.updates))}
        for i, s in enumerate(plan.slots):
            root = roots.get(s.buffer)
            if root is not None and i != root and not s.is_view and plan.buffers[s.buffer].kind in (OUTPUT, NEXT):
                moving[i] = root
                self.views.setdefault(root, []).append((partial(array_views.part, device, s), root, i))

    def _bind_view(self, plan: Plan, device: Any, instruction: Any, moving: dict[int, int]) -> None:
        if instruction.op.view is None:  # put together of parts that are there
            return
        op, results = instruction.op, instruction.results
        operand, result = instruction.operands[op.view.argument], results if op.multi_result else results[0]
        call = device.viewing(op, instruction.items)
        if operand in moving:
            root = moving[operand]
            moving.update(dict.fromkeys(results, root))
            self.views.setdefault(root, []).append((call, operand, result))
        else:
            for slot, array in views.paired(result, call(self.arrays[operand])):
                self.arrays[slot] = array

    def _bind(self, plan: Plan, device: Any, moving: dict[int, int]) -> None:
        array_at, patches, kernels = self.arrays.__getitem__, self.patches, self._kernels
        called, ordered, fixed = self.calls.append, self.order.append, moving.keys().isdisjoint
        shown = [s.aval for s in plan.slots]
        for t, instruction in enumerate(plan.instructions):
            if instruction.view:
                self._bind_view(plan, device, instruction, moving)
                continue
            operands, results = instruction.operands, instruction.results
            slots = operands + results
            key = (instruction.op, instruction.kernel, id(instruction.items), len(results))
            call = kernels.get(key)  # the same function for all that is applied alike
            if call is None:
                avals = tuple([shown[s] for s in slots])
                call = self._writing(device, instruction, key, avals)
            args = [*map(array_at, slots)]
            fix = getattr(call, "fixed", None)
            if fix is not None:
                call = fix(
                    {at: array for at, (slot, array) in enumerate(zip(slots, args, strict=True)) if slot not in moving}
                )
            if not fixed(slots):
                for position, slot in enumerate(slots):
                    if slot in moving:
                        patches.setdefault(slot, []).append((args, position))
            called((call, args))
            ordered(t)

    def _locate(self, plan: Plan, where: ViewsSignature) -> None:
        """Where views lie in what they show: those that kernels are given, or all where values outlive a run."""
        for root, shown in self.views.items():
            aval = plan.slots[root].aval
            if aval.layout is None and aval.size:
                slots = (slot for *_, result in shown for slot in views.slots(result))
                wanted = (slot for slot in slots if plan.retained is not None or slot in self.patches)
                found = where.locate(aval, root, shown, [*wanted])
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
        """Let a slot be that array, until `forget`."""
        self._kept.discard(slot)
        self.arrays[slot] = array
        for args, position in self.patches.get(slot, ()):
            args[position] = array
        if slot in self.views:
            places = self.located.get(slot)
            if places is not None and array.flags.c_contiguous and array.nbytes == places[0]:
                view_at = self.device.views.at
                for result, shape, dtype, offset, strides in places[1]:
                    self._show(result, view_at(shape, dtype, array, offset, strides))
            else:
                for call, operand, made in self.views[slot]:
                    for shown, found in views.paired(made, call(self.arrays[operand])):
                        self._show(shown, found)

    def _show(self, slot: int, array: Any) -> None:
        self.arrays[slot] = array
        for args, position in self.patches.get(slot, ()):
            args[position] = array

    def keep(self, slot: int, array: Any) -> None:
        """As `put`, for what seldom changes: nothing is done if the slot is that array already."""
        if self.arrays[slot] is not array or slot not in self._kept:
            self.put(slot, array)
            self._kept.add(slot)

    def array(self, slot: int) -> Any:
        """Where the value of a slot is."""
        return self.arrays[slot]

    def forget(self) -> None:
        """Keep neither callers' arrays nor results."""
        arrays, kept = self.arrays, self._kept
        for slot, patches, shown in self._passing or self._found_passing():
            if slot not in kept:
                arrays[slot] = None
                for args, position in patches:
                    args[position] = None
                for each in shown:
                    arrays[each] = None

    def _found_passing(self) -> list[tuple[int, list[tuple[list[Any], int]], list[int]]]:
        """What may be put: each slot, where it and its views are in argument lists, and its views."""
        for slot in self._roots:
            shown = [each for *_, result in self.views.get(slot, ()) for each in views.slots(result)]
            patches = [pair for each in (slot, *shown) for pair in self.patches.get(each, ())]
            self._passing.append((slot, patches, shown))
        return self._passing

    def section(self, instructions: Sequence[int]) -> Calls:
        """Those instructions; views were taken when their base was put, or bound."""
        if isinstance(instructions, range):  # of instructions one after the other
            start, stop = bisect_left(self.order, instructions.start), bisect_left(self.order, instructions.stop)
            return Calls(self, range(start, stop))
        position = {t: at for at, t in enumerate(self.order)}
        return Calls(self, [position[t] for t in instructions if t in position])

    def as_function(
        self,
        inputs: Sequence[tuple[int, Any, Any]],
        results: Sequence[tuple[int, Recycled]],
        variables: Sequence[tuple[int, Variable]],
    ) -> Callable[[Any, bool], list[Any]] | None:
        """All of a run written out, beside few kernels; see `unrolled_call`."""
        if self.takes_turns or not is_unrolled(self.plan):
            return None
        return written(self, inputs, results, variables)


class Calls:
    """A section of a frame: some of its calls.

    Attributes
    ----------
    calls, instructions
        Kernels and their argument lists; for each of them its instruction.
    positions
        Where they are among the frame's calls.
    started
        How many of them the last run has started.
    """

    __slots__ = ("_frame", "_streams", "calls", "instructions", "positions", "started")

    def __init__(self, frame: Frame, positions: Sequence[int]) -> None:
        self._frame = frame
        self._streams: Streams | None = None  # the calls dealt out to threads
        self.positions = positions
        self.calls = [frame.calls[at] for at in positions]
        self.instructions = [frame.order[at] for at in positions]
        self.started = 0

    def run(self) -> None:
        """Make the calls one after the other; the streams of a plan that has several, side by side.

        Raises
        ------
        NncError
            A kernel failed: names the operator, the shapes and the user's line.
        """
        if self._frame.takes_turns and self.calls:
            with one_thread():
                self._run()
        else:
            self._run()

    def _run(self) -> None:
        together = self._frame.together
        if together is not None:
            self._run_together(together)
            return
        calls: Any = iter(self.calls)  # a list's iterator knows how far it has come
        try:
            for call, args in calls:
                call(*args)
        except Exception as error:
            t = self.instructions[len(self.calls) - calls.__length_hint__() - 1]
            raise failure(self._frame.plan, t, error) from error
        finally:
            self.started = len(self.calls) - calls.__length_hint__()

    def _run_together(self, together: Callable[..., None]) -> None:
        """Run the calls on the device's threads; when one fails, all streams have ended before it is said."""
        if not self.calls:
            return
        streams = self._streams or Streams(self._frame.plan, self.instructions, self.calls)
        self._streams, self.started = None, len(self.calls)
        together(streams.jobs, streams.stop)
        if streams.failure is not None:
            position, error = streams.failure
            raise failure(self._frame.plan, self.instructions[position], error) from error
        self._streams = streams

    def walk(
        self, watching: Sequence[Observer], wait: Any = None, first: int = 0, times: tuple[int, ...] = (),
        depth: int = 0,
    ) -> Iterator[Application]:  # fmt: skip
        """Make each call before the observers' eyes, when it is asked for; those of a loop's body each time.

        The first one has the number `first`. `wait` is called after each kernel, if it is not None. `times` are those
        of loops around it; `depth` is how many loops and branches are around it.
        """
        if self._frame.takes_turns:
            with one_thread():
                yield from self._walk(watching, wait, first, times, depth)
        else:
            yield from self._walk(watching, wait, first, times, depth)

    def _walk(
        self, watching: Sequence[Observer], wait: Any, first: int, times: tuple[int, ...], depth: int
    ) -> Iterator[Application]:
        plan, alive = self._frame.plan, self._frame.plan.bytes_alive
        looks_within = not watching or any(each.looks_within for each in watching)
        number = first
        for position, (t, (call, args)) in enumerate(zip(self.instructions, self.calls, strict=True), 1):
            i = plan.instructions[t]
            self.started = position
            found = Application(self._frame.device, number, t, i.op, i.items, i.origin, i.kernel)
            found.arguments, found.outs = args[: len(i.operands)], args[len(i.operands) :]
            found.bytes_alive, found.stream, found.times, found.depth = alive[t], i.stream, times, depth
            number += 1
            body: Any = getattr(call, "__self__", None)
            if looks_within and hasattr(body, "walk"):
                for each in self._walk_within(found, partial(body.walk, *args, first=number), watching, wait):
                    number += 1
                    yield each
            else:
                observed(found, partial(call, *args), watching, wait, partial(self._explained, found))
            yield found

    def _explained(self, application: Application, error: Exception) -> NncError:
        found = failure(self._frame.plan, application.instruction, error)
        if application.times and found.args and isinstance(found.args[0], str):
            found.args = (found.args[0] + application.in_time, *found.args[1:])
        return found

    def _walk_within(
        self, loop: Application, walk: Any, watching: Sequence[Observer], wait: Any
    ) -> Iterator[Application]:
        """Make a loop's calls, time after time, each when it is asked for."""
        for each in watching:
            each.before(loop)
        loop.started = perf_counter()
        try:
            yield from walk(watching=watching, wait=wait, loop=loop)
        except Exception as error:
            for each in watching:
                each.failed(loop, error)
            if isinstance(error, NncError):  # which names what failed within
                raise
            raise self._explained(loop, error) from error
        loop.seconds = perf_counter() - loop.started
        for each in watching:
            each.after(loop)
