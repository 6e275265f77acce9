"""Failures on purpose: kernels that raise, memory that ends, interrupts; and what must hold when a run has failed.

An `Unreliable` device does what its `Trouble` says; `check_failures` lets a program fail wherever it can, and looks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.declaration import Items
from nnc_func.device import NumPy
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import NEXT, OUTPUT
from nnc_func.engine.planning.planner import planned
from nnc_func.errors import AllocationError, CommitError, NncError
from nnc_func.facets.kernels import Kernel
from nnc_func.layer import layer
from nnc_func.op import Op

__all__ = ["Failures", "Snapshot", "Trouble", "Unreliable", "check_failures", "peak_bytes"]


class InjectedError(Exception):
    """What a kernel raises on purpose."""


class Trouble:
    """What goes wrong, and when: nothing until that is asked for.

    Attributes
    ----------
    kernels, allocations
        How many there have been since it was last told.
    operators
        The operators of those kernels, in order.
    """

    def __init__(self) -> None:
        self.nothing()

    def nothing(self) -> None:
        """From now on nothing goes wrong; counting starts again."""
        self.kernels = self.allocations = 0
        self.operators: list[Op] = []
        self._kernel: int | None = None
        self._allocation: int | None = None
        self._how: Callable[[], Any] = _raise

    def at_kernel(self, number: int, how: Callable[[], Any] | None = None) -> None:
        """Let the kernel of that number, from now on, leave garbage and raise; or do what `how` does, and go on."""
        self.nothing()
        self._kernel, self._how = number, how or _raise

    def at_allocation(self, number: int) -> None:
        """Let the allocation of that number, from now on, and all later ones, find no memory."""
        self.nothing()
        self._allocation = number

    def kernel(self, op: Op, outs: Sequence[Any] = ()) -> None:
        """A kernel is about to run."""
        number, self.kernels = self.kernels, self.kernels + 1
        self.operators.append(op)
        if number == self._kernel:
            for out in outs if self._how is _raise else ():
                out[...] = 77
            self._how()

    def allocation(self, nbytes: int) -> None:
        """Memory is asked for."""
        number, self.allocations = self.allocations, self.allocations + 1
        if self._allocation is not None and number >= self._allocation:
            raise MemoryError(f"{nbytes} bytes, refused on purpose")


def _raise() -> None:
    raise InjectedError("on purpose")


@layer()
class Unreliable(NumPy):
    """NumPy, on which things go wrong as its `Trouble` says.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> device = Unreliable()
    >>> stack = nnc.eager(device)
    >>> device.trouble.at_kernel(1)
    >>> stack.ops.exp(stack.ops.add([0.0], 0.0))
    Traceback (most recent call last):
    ...
    nnc_func.errors.RunError: exp(float64[1]) failed: InjectedError: on purpose (at ...)
    """

    trouble: Trouble = field(factory=Trouble, repr=False)

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """As NumPy's, unless it is the one that fails."""
        arrays = tuple(a if isinstance(a, np.ndarray) else np.asarray(a) for a in args)
        try:
            self.trouble.kernel(op)
        except InjectedError as error:
            from nnc_func.device.shared.namespace import explained

            raise explained(op, tuple(map(self.aval, arrays)), op.canonical(params), error) from error
        return NumPy.bind(self, op, *args, **params)

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """As NumPy's, unless it is the one that fails."""
        call, trouble = NumPy.writing(self, op, kernel, items, outs, scratch), self.trouble

        def troubled(*arrays: Any) -> None:
            trouble.kernel(op, arrays[-outs:])
            call(*arrays)

        return troubled

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Any:
        """As NumPy's, if there is memory."""
        self.trouble.allocation(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return NumPy.empty(self, shape, dtype, strides)

    def arena(self, nbytes: int) -> Any:
        """As NumPy's, if there is memory."""
        self.trouble.allocation(nbytes)
        return NumPy.arena(self, nbytes)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """As NumPy's, if there is memory for what is no array yet."""
        if not isinstance(value, np.ndarray):
            self.trouble.allocation(np.asarray(value).nbytes)
        return NumPy.asarray(self, value, dtype)


# --- what must hold --------------------------------------------------------------------------------------


class Snapshot:
    """Variables and arrays that somebody holds, bit for bit: to be compared with themselves later."""

    def __init__(self, variables: Sequence[Any], held: Sequence[Any] = ()) -> None:
        self._variables = [(v, v.array, v.array.tobytes(), v.version) for v in variables]
        self._held = [(a, a.tobytes()) for a in held]

    def check(self) -> None:
        """Raise AssertionError where something is not as it was."""
        for variable, array, bits, version in self._variables:
            assert variable.array is array, f"variable {variable.name!r} has another array"
            assert array.tobytes() == bits, f"variable {variable.name!r} has another value"
            assert variable.version == version, f"variable {variable.name!r} counts another version"
        self.check_held()

    def check_held(self) -> None:
        """Raise AssertionError where something that is held is not as it was."""
        for array, bits in self._held:
            assert array.tobytes() == bits, f"an array of shape {array.shape} that is held has changed"


@frozen
class Failures:
    """How often a program was made to fail, in each way.

    Attributes
    ----------
    kernels
        Kernels that raised before the commit section.
    committing
        Kernels that raised in it, though they were declared infallible.
    allocations
        Allocations that found no memory.
    interrupts
        Kernels in which Control-C was pressed.
    """

    kernels: int = 0
    committing: int = 0
    allocations: int = 0
    interrupts: int = 0


def check_failures(
    trouble: Trouble, program: Any, feeds: Sequence[Any], twin: Callable[[], Sequence[Any]], state: Any
) -> Failures:
    """Let a program fail wherever it can: variables and held values stay as they were, and the next run is right.

    Parameters
    ----------
    trouble
        Of the device that the program runs on.
    program
        A compiled program.
    feeds
        What it is called with.
    twin
        Does the same run where nothing goes wrong, and returns what is right: outputs, then the variables' values.
    state
        ``state()``: the program's own variables.

    Raises
    ------
    AssertionError
        Something was not as it was, an error said too little, or the run after a failure was wrong.
    """
    check = _Check(trouble, program, feeds, twin, state())
    kernels = check.count()
    section = program.plan.instructions[program.plan.commit :]
    assert not any(i.loops for i in section), "a loop, which can fail, is in the commit section"
    commit = kernels - sum(not i.view for i in section)  # a loop before it is more kernels than one
    for number in range(commit):
        check.kernel(number)
    allocations = 0
    while check.allocation(allocations):
        allocations += 1
    for number in range(kernels):
        check.interrupt(number, early=number < commit)
    for number in range(commit, kernels):
        check.committing(number)
    return Failures(commit, kernels - commit, allocations, kernels)


class _Check:
    """One program under trouble."""

    def __init__(self, trouble: Trouble, program: Any, feeds: Any, twin: Any, variables: Any) -> None:
        self.trouble, self.program, self.feeds, self.twin = trouble, program, list(feeds), twin
        self.variables = variables
        self.kept: list[Any] = []  # earlier results: the next call finds none of its buffers free

    def count(self) -> int:
        """Kernels of a run that goes well."""
        for _ in range(4):
            self.goes_well()
        self.trouble.nothing()
        self.goes_well()
        return self.trouble.kernels

    def snapshot(self) -> Snapshot:
        return Snapshot(self.variables, [*self.kept, *(f for f in self.feeds if isinstance(f, np.ndarray))])

    def goes_well(self) -> None:
        """The next run is right."""
        before = self.snapshot()
        found = self.program.run(self.feeds)
        before.check_held()
        wanted = list(self.twin())
        self.compare(found, wanted)
        self.kept = [*found, *self.kept][: 4 * len(found)]

    def compare(self, found: Sequence[Any], wanted: Sequence[Any]) -> None:
        have = [*found, *(v.array for v in self.variables)]
        for one, other in zip(have, wanted, strict=True):
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), "the run is not what it should be"

    def fails(self, wanted: type[BaseException]) -> Any:
        """Run it; the error."""
        try:
            self.program.run(self.feeds)
        except wanted as error:
            return error
        finally:
            self.trouble.nothing()
        raise AssertionError(f"{wanted.__name__} was not raised")

    def kernel(self, number: int) -> None:
        before = self.snapshot()
        self.trouble.at_kernel(number)
        error = self.fails(NncError)
        before.check()
        i = self.program.plan.instructions[error.instruction]
        for word in (i.op.name, *(repr(self.program.plan.slots[s].aval) for s in i.operands), "on purpose"):
            assert word in str(error), f"{error} does not name {word}"
        assert not i.origin or "built at" in str(error), f"{error} does not name the user's line"
        self.goes_well()

    def allocation(self, number: int) -> bool:
        """Whether there is an allocation of that number, which can fail."""
        before = self.snapshot()
        self.trouble.at_allocation(number)
        try:
            found = self.program.run(self.feeds)
        except AllocationError as error:
            said = str(error)
        else:
            before.check_held()
            self.compare(found, list(self.twin()))
            return False
        finally:
            self.trouble.nothing()
        assert "bytes for" in said, f"{said} does not say what for"
        before.check()
        self.goes_well()
        return True

    def interrupt(self, number: int, early: bool) -> None:
        """In the commit section it comes after all of it, before that it ends the run."""
        before = self.snapshot()
        self.trouble.at_kernel(number, lambda: signal.raise_signal(signal.SIGINT))
        self.fails(KeyboardInterrupt)
        if early or not self.variables:
            before.check()
        else:
            before.check_held()
            count = len(self.program.plan.outputs)
            self.compare([], list(self.twin())[count:])
        self.goes_well()

    def committing(self, number: int) -> None:
        """A kernel that was declared infallible fails: the error says which variables are as before."""
        before = [(v, v.array, v.array.copy(), v.version) for v in self.variables]
        self.trouble.at_kernel(number)
        error = self.fails(NncError)
        written = error.written if isinstance(error, CommitError) else ()
        for variable, array, copy, version in before:
            touched = variable.name in written
            assert variable.version == version + touched, f"variable {variable.name!r} counts another version"
            if not touched:
                assert variable.array is array, f"variable {variable.name!r} has another array"
                assert array.tobytes() == copy.tobytes(), f"variable {variable.name!r} has another value"
            array[...] = copy
            variable.array = array
        self.goes_well()


def peak_bytes(stack: Any, graph: Any, careless: bool = False) -> tuple[int, Plan]:
    """Bytes that a graph's plan needs of the arena, for results and for next values of variables; and the plan.

    With `careless` it writes variables as soon as it can, whatever may fail after that.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> w = lazy.variable("w", np.zeros(1000))
    >>> peak_bytes(lazy, lazy.compile([], [], [(w, w + 1)]).graph)[0]
    0
    """
    plan = planned(stack.engine.request(graph, careless=careless)).plan
    return plan.arena_bytes + sum(b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT)), plan
