"""Programs: a plan bound to a device, ready to be called. Nothing is looked up, inferred or allocated in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.config import config
from nnc_func.device.namespace import explained
from nnc_func.engine.frame import Frame
from nnc_func.engine.interrupts import held
from nnc_func.engine.plan import NEXT, Plan
from nnc_func.engine.results import Recycled
from nnc_func.errors import DTypeError, NncError, NumericsError, OperatorError, ShapeError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import Variable, owned
from nnc_func.graph.origin import told
from nnc_func.tree import ONE_LEAF


class Program:
    """A plan, its constants and its variables. Call it with one array an input; it returns arrays, nested as wanted.

    Attributes
    ----------
    plan
        Instructions, buffers, offsets: all that running needs to know.
    variables
        The variables that it reads and writes, by name.
    graph
        The graph that runs: after optimisation. None for a plan that was made from no graph.
    source
        The graph that was compiled.
    stats
        What the compilation did: nodes and edges before and after, bytes, the optimiser's report.

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

    def __init__(
        self,
        plan: Plan,
        device: Any,
        constants: Sequence[Any],
        variables: Sequence[Variable],
        *,
        check_numerics: bool = False,
        graph: ComputationGraph | None = None,
        source: ComputationGraph | None = None,
        stats: Any = None,
        blocks: Any = None,
    ) -> None:
        self.plan = plan
        self.variables = {v.name: v for v in variables}
        self.graph = graph
        self.source = source
        self.stats = stats
        self.blocks = blocks
        self._device = device
        self._constants = constants
        self._check = check_numerics
        self._build = (plan.structure or ONE_LEAF).build
        self._flat = plan.structure is None or plan.structure.kind is list
        self._inputs = [(s, plan.slots[s].aval.shape, plan.slots[s].aval.dtype) for s in plan.inputs]
        self._array_type = device.array_type
        # where an update is written over its variable, that slot shows the variable's array too
        self._variables = list(zip(plan.variables, variables, strict=True)) + [
            (s, variables[plan.buffers[plan.slots[s].buffer].source]) for s in _in_place(plan)
        ]
        self._results = [(s, _recycled(device, plan.slots[s].aval)) for s in plan.outputs]
        self._next = [
            (at, s, _recycled(device, plan.slots[s].aval))
            for at, s in plan.updates
            if plan.buffers[plan.slots[s].buffer].kind == NEXT
        ]
        self._written = [self._variables[at][1] for at, _ in plan.updates]
        self._overwritten = [variables[plan.buffers[plan.slots[s].buffer].source] for s in _in_place(plan)]
        self._frames: list[Frame] = []

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        results = self.run(inputs, out)
        return results if self._flat else self._build(results)

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence."""
        if len(inputs) != len(self._inputs):
            names = ", ".join(map(repr, self.plan.input_names))
            raise OperatorError(
                f"the program {self.plan.name!r} takes {len(self._inputs)} inputs ({names}), given {len(inputs)}"
            )
        frame = self._frames.pop() if self._frames else self._frame()
        put, own = frame.put, self._array_type
        written = {id(v.array) for v in self._overwritten}
        try:
            for (slot, shape, dtype), array in zip(self._inputs, inputs, strict=True):
                if type(array) is not own or array.dtype is not dtype or array.shape != shape:
                    array = self._converted(slot, array)
                if written and (id(array) in written or id(getattr(array, "base", None)) in written):
                    array = owned(self._device, array)  # a variable's own array, which is written over
                put(slot, array)
            for slot, variable in self._variables:
                frame.keep(slot, variable.array)
            results = self._fresh(put) if out is None else self._given(out, inputs, put)
            for output, slots in frame.lent.items():
                for slot in slots:
                    aval = self.plan.slots[slot].aval
                    put(slot, self._device.view(results[output], 0, aval.shape, aval.dtype))
            following = [(at, buffers.take(), slot) for at, slot, buffers in self._next]
            for _, array, slot in following:
                put(slot, array)
            run = self._run if not self._check and config.spec < 3 else self._checked(frame)
            run(frame, frame.early, 0)
            if self._written:
                held(self._commit, run, frame, following)
            if out is not None:
                results = _delivered(out, results)
        finally:
            frame.drop()
            self._frames.append(frame)
        return results

    def _frame(self) -> Frame:
        frame = Frame(self.plan, self._device, self._constants)
        lent = [s for slots in frame.lent.values() for s in slots]
        frame.passing([*self.plan.inputs, *self.plan.outputs, *(s for _, s, _ in self._next), *lent])
        return frame

    def _fresh(self, put: Any) -> list[Any]:
        results = []
        for slot, buffers in self._results:
            array = buffers.take()
            put(slot, array)
            results.append(array)
        return results

    def _run(self, frame: Frame, section: list[Any], start: int) -> None:
        calls: Any = iter(section)  # a list's iterator knows how far it has come
        try:
            for call, args in calls:
                call(*args)
        except Exception as error:
            raise self.failure(frame, start + len(section) - calls.__length_hint__() - 1, error) from error

    def _checked(self, frame: Frame) -> Any:
        from nnc_func.engine.checked import execute, poisoned

        poison = poisoned(self, frame)
        return lambda frame, section, start: execute(self, frame, start, start + len(section), poison)

    def _commit(self, run: Any, frame: Frame, following: Any) -> None:
        """Write the variables: nothing in here can fail."""
        run(frame, frame.late, len(frame.early))
        for at, array, _ in following:
            self._variables[at][1].array = array
        for variable in self._written:
            variable.version += 1

    def failure(self, frame: Frame, position: int, error: Exception) -> NncError:
        """What went wrong in the call at that position, in words that name the user's line."""
        i = self.plan.instructions[frame.order[position]]
        avals = tuple(self.plan.slots[s].aval for s in i.operands)
        if isinstance(error, NumericsError):
            return error
        return explained(i.op, avals, i.items, error, told(i.origin))

    def _converted(self, slot: int, array: Any) -> Any:
        aval = self.plan.slots[slot].aval
        name = self.plan.input_name(self.plan.inputs.index(slot))
        found = self._device.asarray(array)
        given = self._device.aval(found)
        numbers = isinstance(array, (bool, int, float, list, tuple))
        if numbers and given.shape == aval.shape and np.can_cast(given.dtype, aval.dtype, "same_kind"):
            return self._device.asarray(array, aval.dtype)  # Python's numbers have no dtype of their own
        if given.shape != aval.shape:
            raise ShapeError(f"input {name} wants shape {aval.shape}, given {given.shape}")
        if given.dtype != aval.dtype:
            raise DTypeError(f"input {name} wants {aval.dtype}, given {given.dtype}; cast it before the call")
        return found

    def _given(self, out: Any, inputs: Any, put: Any) -> list[Any]:
        """The caller's arrays as results; fresh ones, to be copied, where those show memory that is still read."""
        arrays = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(arrays) != len(self._results):
            raise OperatorError(f"out= wants {len(self._results)} arrays, given {len(arrays)}")
        for i, ((slot, _), array) in enumerate(zip(self._results, arrays, strict=True)):
            wanted = self.plan.slots[slot].aval
            if self._device.aval(array) != wanted:
                raise ShapeError(f"out[{i}] wants {wanted!r}, given {self._device.aval(array)!r}")
        if any(not _contiguous(array) for array in arrays):
            return self._fresh(put)
        others = [*inputs, *(v.array for _, v in self._variables)]
        if any(_overlap(a, b) for i, a in enumerate(arrays) for b in (*others, *arrays[:i])):
            return self._fresh(put)
        for (slot, _), array in zip(self._results, arrays, strict=True):
            put(slot, array)
        return arrays

    def __repr__(self) -> str:
        return f"<program {self.plan.name!r}: {self.plan.kernels} kernels, arena {self.plan.arena_bytes} bytes>"


def _contiguous(array: Any) -> bool:
    flags = getattr(array, "flags", None)
    return flags is None or bool(flags.c_contiguous)


def _overlap(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.may_share_memory(one, other))
    return one is other


def _delivered(out: Any, results: list[Any]) -> list[Any]:
    """The caller's arrays, with the results in them."""
    arrays = list(out) if isinstance(out, (list, tuple)) else [out]
    for array, result in zip(arrays, results, strict=True):
        if array is not result:
            array[...] = result
    return arrays


def _in_place(plan: Plan) -> list[int]:
    """Slots that are written over a variable: their array is the variable's."""
    leaves = set(plan.variables)
    return [
        i
        for i, s in enumerate(plan.slots)
        if plan.buffers[s.buffer].kind == "variable" and i not in leaves and not s.is_view
    ]


def _recycled(device: Any, aval: Any) -> Recycled:
    return Recycled(lambda: device.empty(aval.shape, aval.dtype))
