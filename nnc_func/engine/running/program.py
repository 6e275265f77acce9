"""Programs: a plan linked to memory, ready to be called. Nothing is looked up, inferred or allocated in a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.config import config
from nnc_func.engine.linkers.base import Executable, Linker, executable_of
from nnc_func.engine.linkers.kernel_calls import link
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import DONATED, LENT, NEXT
from nnc_func.engine.running import array_views
from nnc_func.engine.running.arenas import Arenas, Lease
from nnc_func.engine.running.cancelling import asked
from nnc_func.engine.running.checking_observers import POISON, Poison
from nnc_func.engine.running.commit import Saved, first_writes, in_place, torn
from nnc_func.engine.running.inputs import contiguous, converted, refuse_count, wanted_gapless
from nnc_func.engine.running.interrupts import held
from nnc_func.engine.running.lasting import Lasting, lasting_slots
from nnc_func.engine.running.observers import Application, Observer, drained
from nnc_func.engine.running.outs import delivered, expendable, given, usable
from nnc_func.engine.running.results import lodgers, recycled
from nnc_func.engine.running.session import Session
from nnc_func.engine.tuning.tunable import Tunable
from nnc_func.errors import PlanError
from nnc_func.facets.places import Place
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import Variable, owned
from nnc_func.graph.reader_writer_lock import Run, enter, leave, ordered
from nnc_func.tree import ONE_LEAF, builder

BUFFERED = 1024  # elements that NumPy goes through at a time where arrays have gaps, of each operand of a kernel

Following = tuple[int, Any, int]
"""Position of a variable, the array of its next value, and the slot of that."""


class Program(Tunable, Session):
    """A plan, its constants and its variables. Call it with one array an input; it returns arrays, nested as wanted.

    Attributes
    ----------
    plan
        Instructions, buffers, offsets: all that running needs to know.
    variables
        The variables that it reads and writes, by name.
    graph, source
        What runs, after optimisation, and what was compiled. None for a plan made from no graph.
    stats
        What the compilation did: nodes and edges before and after, bytes, the optimiser's report.
    arenas
        The memory that it runs in.
    linker
        What makes of the plan and an arena what runs; see `Executable`.
    is_straight
        Whether later runs may be one function.
    engine
        What planned it, or plans what it is tuned to. None for a plan that was made from no graph.

    Raises
    ------
    OperatorError
        The wrong number of inputs.
    ShapeError, DTypeError
        An input of another shape or dtype than the graph's.
    NncError
        A kernel failed: names the operator, the shapes and the user's line. Variables are as before the call.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (3,), "float32")
    >>> program = lazy.compile(inputs=[x], outputs=[x * x + 1])
    >>> program(np.float32([1, 2, 3]))
    [array([ 2.,  5., 10.], dtype=float32)]
    """

    written_as = "planned"

    def __init__(
        self,
        plan: Plan,
        device: Any,
        constants: Sequence[Any],
        variables: Sequence[Variable],
        *,
        check_numerics: bool = False,
        graph: ComputationGraph | Callable[[], ComputationGraph] | None = None,
        source: ComputationGraph | None = None,
        stats: Any = None,
        blocks: Any = None,
        arenas: Arenas | None = None,
        engine: Any = None,
        linker: Linker = link,
    ) -> None:
        if plan.retained is not None:
            raise PlanError(f"the plan of {plan.name!r} retains values: compile its graph with retain= to run it")
        self.plan = plan
        self.variables = {v.name: v for v in variables}
        self._graph = graph
        self._source = source
        self.stats = stats
        self.blocks = blocks
        self.engine = engine
        self.linker = linker
        self._device = device
        self._constants = constants
        self._check = check_numerics
        self._build = builder(plan.structure or ONE_LEAF)
        self._flat = plan.structure is None or plan.structure.kind is list
        self._inputs = [(s, plan.slots[s].aval.shape, plan.slots[s].aval.dtype) for s in plan.inputs]
        self._array_type = device.array_type
        self._spans = bool(getattr(device, "places", ()))
        over = [(s, variables[plan.buffers[plan.slots[s].buffer].source]) for s in in_place(plan)]
        # where an update is written over its variable, that slot shows the variable's array too
        self._variables = list(zip(plan.variables, variables, strict=True)) + over
        self._results = [(s, recycled(device, plan.slots[s].aval, "a result")) for s in plan.outputs]
        self._next = [
            (at, s, recycled(device, plan.slots[s].aval, f"the next value of variable {variables[at].name!r}"))
            for at, s in plan.updates
            if plan.buffers[plan.slots[s].buffer].kind == NEXT
        ]
        self._lent, self._donated = lodgers(plan, LENT), lodgers(plan, DONATED)
        self._gapless = wanted_gapless(plan)
        self._written = [variables[at] for at, _ in plan.updates]
        following = {at for at, _, _ in self._next}
        self._in_place = [variables[at] for at, _ in plan.updates if at not in following]
        self._overwritten = list({id(v): v for _, v in over}.values())
        self._first_writes = first_writes(plan, over)
        slots = lasting_slots(plan)
        self._lasting = [Lasting(device, v) for s, v in zip(plan.variables, variables, strict=True) if s in slots]
        self._turns = ordered(variables, self._written)
        self.arenas = Arenas(device) if arenas is None else arenas
        self._is_large = any(math.prod(slot.aval.shape) > BUFFERED for slot in plan.slots)
        self.is_unrolled = not (plan.updates or self._donated or self._spans)

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        results = self.run(inputs, out)
        return results if self._flat else self._build(results)

    def run(self, inputs: Any, out: Any = None, known: bool = False) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence; `known` to be arrays of the device as wanted.

        NumPy's buffers are small meanwhile, as they lie in no plan: its own are of 8192 elements an operand.
        """
        if self._check or config.spec >= 3 or asked() is not None:
            return drained(self.walk(inputs, out))  # type: ignore[no-any-return]
        me = None
        before = np.setbufsize(BUFFERED) if self._is_large else 0  # of this thread, and of those that help it
        try:
            if self._turns:
                me = Run()
                enter(me, self._turns)
            lease = self.arenas.take(self, self.plan, self._linked)
            try:
                if out is None and lease.call is not None:
                    return lease.call(inputs, known)
                return self._run_in(lease, inputs, out)
            finally:
                self.arenas.free.append(lease.home)  # as `give`, without its call
        finally:
            if before:
                np.setbufsize(before)
            if me is not None:
                leave(me, self._turns)

    def _run_in(self, lease: Lease, inputs: Any, out: Any) -> list[Any]:
        """A run in that arena; the second one there finds out whether later ones are one function."""
        if out is None and lease.has_run and self.is_unrolled:
            lease.call = lease.executable.as_function(self._inputs, self._results, self._variables)
            if lease.call is not None:
                return lease.call(inputs, False)
            self.is_unrolled = False
        lease.has_run = True
        try:
            results, following, _ = self._put(lease.executable, inputs, out)
            lease.early.run()
            if self._written:
                held(self._commit, lease, following)
            return results if out is None else delivered(out, results)
        finally:
            lease.executable.forget()

    @property
    def name(self) -> str:
        """That of its graph."""
        return self.plan.name

    def leaf_arrays(self, inputs: Any) -> dict[str, Any]:
        """Inputs, variables and constants as NumPy arrays, by what one calls them."""
        host, plan = self._device.to_numpy, self.plan
        names = [f"input {plan.input_name(i)}" for i in range(len(plan.inputs))]
        found = dict(zip(names, map(np.asarray, inputs), strict=False))
        found |= {f"variable {name!r}": host(v.array) for name, v in self.variables.items()}
        return found | {f"constant {i}": host(c) for i, c in enumerate(self._constants)}

    @property
    def graph(self) -> ComputationGraph | None:
        """The graph that runs; of a program from a file, built when it is first asked for."""
        self._graph = self._graph() if callable(self._graph) else self._graph
        return self._graph

    @property
    def source(self) -> ComputationGraph | None:
        """The graph that was compiled; of a program that was not compiled here, the graph that runs."""
        return self.graph if self._source is None else self._source

    def forget_graph(self) -> None:
        """Let the graph go, and its nodes: what runs is the plan."""
        self._graph = self._source = self.blocks = self.stats = None

    def nested(self, results: list[Any]) -> Any:
        """Outputs nested as a call returns them."""
        return self._build(results)

    def walk(
        self, inputs: Any, out: Any = None, watching: Sequence[Observer] = (), keep: bool = True, wait: Any = None
    ) -> Generator[Application, None, list[Any]]:
        """A run whose instructions are executed one at a time; see `Session.walk`."""
        with self._in_turn(self._turns):
            lease = self.arenas.take(self, self.plan, self._linked)
            try:
                results, following, given_up = self._put(lease.executable, inputs, out)
                seeing = self._observers(watching)
                if config.spec >= 3:
                    homes = self._homes(results, following, given_up)
                    seeing.append(Poison(self.plan, self._device, lease.home.memory, homes))
                made = 0
                for made, each in enumerate(lease.early.walk(seeing, wait), 1):  # noqa: B007  those in loops count, too
                    yield each
                saved, done = Saved(self._device, self._written, self._overwritten), False
                try:
                    yield from lease.late.walk(seeing, wait, made)
                    held(self._exchange, following)
                    done = keep
                finally:
                    if not done:
                        saved.restore()
                if config.spec >= 3:
                    self._spoil(inputs, out)
                return results if out is None else delivered(out, results)
            finally:
                lease.executable.forget()
                self.arenas.give(lease)

    def over(self, variables: Sequence[Variable]) -> Program:
        """The same program over other variables, in the order of the plan's."""
        return Program(
            self.plan, self._device, self._constants, variables, check_numerics=self._check, graph=self._graph,
            source=self._source, stats=self.stats, blocks=self.blocks, engine=self.engine, linker=self.linker,
        )  # fmt: skip

    def _linked(self, memory: Mapping[Place, Any]) -> Executable:
        """The plan linked to that memory."""
        return executable_of(self.linker, self.plan, self._device, self._constants, memory)

    def prepare(self) -> None:
        """Link the plan to an arena, so that the first call finds one.

        Raises
        ------
        PlanError
            The device has no such memory, or cannot bind the plan's kernels to it.
        """
        try:
            self.arenas.give(self.arenas.take(self, self.plan, self._linked))
        except Exception as error:  # the device's own words
            found = f"{type(error).__name__}: {error}"
            raise PlanError(f"the plan {self.plan.name!r} cannot be bound to {self._device!r}: {found}") from error

    def _put(self, executable: Executable, inputs: Any, out: Any) -> tuple[list[Any], list[Following], dict[int, Any]]:
        """Put inputs, variables and fresh memory into their slots.

        The results, what becomes variables' arrays, and the arrays of inputs that were given up, by position.
        """
        if len(inputs) != len(self._inputs):
            refuse_count(self.plan, inputs)
        for variable in self._in_place:
            if variable.readers:
                variable.preserve()
        put, own = executable.put, self._array_type
        arrays = []
        for (slot, shape, dtype), array in zip(self._inputs, inputs, strict=True):
            if (
                type(array) is not own
                or array.dtype is not dtype
                or array.shape != shape
                or (self._spans and array.place != self.plan.slots[slot].aval.place)
            ):
                array = converted(self._device, self.plan, slot, array)
            arrays.append(array)
        for (slot, _, _), array, gapless in zip(self._inputs, self._apart(arrays), self._gapless, strict=True):
            put(slot, contiguous(self._device, self.plan, slot, array) if gapless else array)
        for slot, variable in self._variables:
            executable.keep(slot, variable.array)
        for each in self._lasting:
            each.tell()
        given_up = {position: self._given_up(position, inputs, out) for position in self._donated}
        for position, slots in self._donated.items():
            for slot in slots:
                put(slot, array_views.housed(self._device, self.plan, slot, given_up[position]))
        results = self._fresh(put) if out is None else self._into(out, inputs, put)
        for output, slots in self._lent.items():
            for slot in slots:
                put(slot, array_views.housed(self._device, self.plan, slot, results[output]))
        following = [(at, buffers.take(), slot) for at, slot, buffers in self._next]
        for _, array, slot in following:
            put(slot, array)
        return results, following, given_up

    def _apart(self, arrays: list[Any]) -> list[Any]:
        """Inputs, of which those are copies that are arrays of variables which are written over, or show one."""
        if not self._overwritten:
            return arrays
        given = {id(each) for array in arrays for each in (array, getattr(array, "base", None))}
        written = {at for v in self._overwritten if (at := id(v.array)) in given}
        if not written:
            return arrays
        return [
            owned(self._device, array) if id(array) in written or id(getattr(array, "base", None)) in written else array
            for array in arrays
        ]

    def _given_up(self, position: int, inputs: Any, out: Any) -> Any:
        """The array of an input that was given up: a copy where nobody may write to it, or where others are read."""
        slot, shape, dtype = self._inputs[position]
        array = inputs[position]
        if type(array) is not self._array_type or array.dtype != dtype or array.shape != shape:
            return owned(self._device, converted(self._device, self.plan, slot, array))
        others = [*inputs[:position], *inputs[position + 1 :], *(v.array for _, v in self._variables), *self._constants]
        if out is not None:
            others += out if isinstance(out, (list, tuple)) else [out]
        return array if expendable(array, others) else owned(self._device, array)

    def _homes(
        self, results: list[Any], following: list[Following], given_up: dict[int, Any]
    ) -> dict[tuple[str, int], Any]:
        """Memory that is another for each call, of what lies there without gaps: by kind and number."""
        found = [(slot, array) for (slot, _), array in zip(self._results, results, strict=True)]
        found += [(slot, array) for _, array, slot in following]
        found += [(self.plan.inputs[position], array) for position, array in given_up.items()]
        slots = [(self.plan.slots[slot], array) for slot, array in found]
        buffers = [(self.plan.buffers[s.buffer], array) for s, array in slots if s.aval.layout is None]
        return {(buffer.kind, buffer.source): array for buffer, array in buffers}

    def _spoil(self, inputs: Any, out: Any) -> None:
        """Let it be seen where an input that was given up is read after the run."""
        for position in self._donated:
            array = self._given_up(position, inputs, out)
            if array is inputs[position]:
                whole = self._device.view(array, 0, (array.nbytes,), "uint8")
                whole[...] = POISON & (1 if array.dtype.kind == "b" else POISON)

    def _fresh(self, put: Any) -> list[Any]:
        results = []
        for slot, buffers in self._results:
            array = buffers.take()
            put(slot, array)
            results.append(array)
        return results

    def _into(self, out: Any, inputs: Any, put: Any) -> list[Any]:
        """The caller's arrays as results; fresh ones, to be copied, where those show memory that is still read."""
        avals = [self.plan.slots[slot].aval for slot, _ in self._results]
        arrays = given(out, avals, self._device)
        others = [*inputs, *(v.array for _, v in self._variables)]
        if any(a.layout is not None for a in avals) or not usable(arrays, others):
            return self._fresh(put)
        for (slot, _), array in zip(self._results, arrays, strict=True):
            put(slot, array)
        return arrays

    def _commit(self, lease: Lease, following: list[Following]) -> None:
        """Write the variables: nothing in here can fail, unless a kernel is not what it was declared to be."""
        try:
            lease.late.run()
            self._exchange(following)
        except BaseException as error:
            reached = getattr(error, "instruction", None) if self.plan.streams == 1 else None
            taken = [self._variables[at][1] for at, array, _ in following if self._variables[at][1].array is array]
            over = [v for t, v in self._first_writes if reached is None or t <= reached]
            written = [v for v in self._written if v in taken or v in over]
            if not written:  # nothing was written yet
                raise
            raise torn(self.plan.name, written, [v for v in self._written if v not in written], error) from error

    def _exchange(self, following: Any) -> None:
        for at, array, _ in following:
            self._variables[at][1].become(array)
        for variable in self._in_place:
            variable.version += 1
            if variable.readers:  # made while it was written over
                variable.readers = []
            if variable.recorded is not None:
                variable.recorded = None

    def __repr__(self) -> str:
        return f"<program {self.plan.name!r}: {self.plan.kernels} kernels, arena {self.plan.arena_bytes} bytes>"
