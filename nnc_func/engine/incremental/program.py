"""Incremental programs: after some inputs or variables changed, only what depends on them runs again."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any

import numpy as np

from nnc_func.engine.incremental.assigning import assigned
from nnc_func.engine.incremental.dependencies import Evaluation
from nnc_func.engine.incremental.steps import Steps
from nnc_func.engine.linkers.base import Section
from nnc_func.engine.running.binding import accepted
from nnc_func.engine.running.interrupts import held
from nnc_func.engine.running.lasting import Lasting, lasting_slots
from nnc_func.engine.running.observers import Application, Observer
from nnc_func.engine.running.outs import delivered, given
from nnc_func.engine.running.session import Session
from nnc_func.errors import RunError, UnboundError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import owned
from nnc_func.graph.reader_writer_lock import ordered

KEPT = 256  # sets of changed leaves whose section is remembered
WORDS = (1, 2, 4, 8)  # bytes of elements that are compared by their bits


class IncrementalProgram(Session):
    """A compiled graph that keeps values from run to run, as its `retain` policy says.

    Inputs are assigned, and copied; `evaluate` runs what depends on those that were assigned since, and on variables
    that have another value since. What is assigned counts as changed, whatever it is. A call assigns the inputs whose
    bits differ from what they are, and evaluates. Outputs are the caller's own: they are copied out of what is kept.

    A run that fails leaves variables as they were, and values that are not known to be whole count as gone.
    Threads take turns: there is one memory.

    Attributes
    ----------
    graph, source
        The graph that runs, and the one that was compiled.
    plan
        Instructions, buffers, offsets; None on a device without memory.
    stats
        What the compilation did.
    evaluation
        What the last evaluation that succeeded did: kernels run, the dirty cone, bytes retained.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = lazy.input("x", (2,), "float64"), lazy.input("y", (2,), "float64")
    >>> slow = lazy.ops.cumulative_sum(x, axis=0)
    >>> program = lazy.compile([x, y], lazy.ops.cumulative_sum(slow * y, axis=0), retain="frontier")
    >>> program.assign(x=np.ones(2), y=np.ones(2))
    >>> program.evaluate()
    array([1., 3.])
    >>> program.assign(y=np.zeros(2))
    >>> program.evaluate()
    array([0., 0.])
    >>> print(program.evaluation)
    2 of 3 kernels ran, 2 in the dirty cone and 0 whose value was gone; 64 bytes retained, arena of 192 bytes
    """

    def __init__(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        steps: Steps,
        device: Any,
        stats: Any = None,
        check_numerics: bool = False,
    ) -> None:
        self.graph = graph
        self.source = source
        self.plan = steps.plan
        self.stats = stats
        self._steps = steps
        self._device = device
        self._check = check_numerics
        self._leaves = steps.leaves
        self._delivered = source.structure.size  # further outputs are kept, not returned
        self._inputs = {n.data: at for at, n in enumerate(graph.inputs)}
        self._assigned: list[Any] = [None] * len(graph.inputs)  # copies
        self._variables = [n.data for n in graph.variables]
        slots = set() if steps.plan is None else lasting_slots(steps.plan)
        self._lasting = [
            Lasting(device, v) for s, v in zip(steps.variables, self._variables, strict=True) if s in slots
        ]
        self._seen: list[Any] = [None] * len(self._variables)  # (version, array) that was read last
        self._written: list[Any] = [None] * len(steps.updates)  # the version that this program wrote last
        self._changed = 0  # leaves with another value since values were last found missing
        self._dirty = 0  # leaves with another value since the last evaluation that succeeded
        self._missing: set[int] = set(steps.kept)  # kept values that are not known to be whole and of now
        self._pending: set[int] = set(range(len(steps.updates)))  # updates to be written
        self._cause: int | None = None  # the leaves for which alone values are missing, where that is so
        self._first = True  # nothing was evaluated yet
        self._sections: dict[int, tuple[Section, set[int], int, int]] = {}
        self._turns = ordered(self._variables, [self._variables[position] for position, _ in steps.updates])
        self._lock = Lock()
        self._runner: int | None = None  # the thread that has taken it
        kept = [v for v in steps.kept if self._leaves.base(v) == v]
        self._kept_bytes = sum(map(steps.nbytes, kept))
        self.evaluation = Evaluation(0, 0, self._leaves.kernels, self.retained_bytes, steps.arena_bytes)

    @property
    def retained_bytes(self) -> int:
        """Bytes of the values that are kept from run to run, and of the copies of inputs."""
        given = [v for v, array in zip(self._steps.inputs, self._assigned, strict=True) if array is not None]
        return int(self._kept_bytes + sum(map(self._steps.nbytes, given)))

    # --- assigning ------------------------------------------------------------------------------------

    def assign(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give inputs another value, by name. Values are copied; all of them are assigned or none.

        Raises
        ------
        OperatorError
            There is no such input.
        ShapeError, DTypeError
            A value of another shape or dtype than the input's.
        """
        arrays = assigned(self._device, self.graph, values, named)
        with self._alone(turns=()):
            self._hold({name: owned(self._device, array) for name, array in arrays.items()})

    def hold(self, arrays: Mapping[str, Any]) -> None:
        """As `assign`, of device arrays that fit and that nobody will write to: they are not copied."""
        with self._alone(turns=()):
            self._hold(arrays)

    def _hold(self, arrays: Mapping[str, Any]) -> None:
        for name, array in arrays.items():
            at = self._inputs[name]
            self._changed |= 1 << at
            self._assigned[at] = array

    # --- running --------------------------------------------------------------------------------------

    def evaluate(self, out: Any = None) -> Any:
        """The outputs for what is assigned, nested as they were given: only what has changed is computed.

        Raises
        ------
        UnboundError
            An input was never assigned.
        NncError
            A kernel failed. Variables are as before.
        """
        return self.nested(self.run(None, out))

    def _run(self, inputs: Any, out: Any) -> list[Any]:
        """The outputs, of the inputs as a sequence: those that differ are assigned. None: none do."""
        with self._alone(self._turns):
            targets = self._begun(inputs, out)
            section, _, ran, cone = self._section()
            try:
                section.run()
            except BaseException:
                self._broken(section)
                raise
            return self._ended(targets, ran, cone)

    def walk(
        self,
        inputs: Any = None,
        out: Any = None,
        watching: Sequence[Observer] = (),
        keep: bool = True,
        wait: Any = None,
    ) -> Generator[Application, None, list[Any]]:
        """A run whose applications are computed one at a time; see `Session.walk`. No inputs: what is assigned."""
        with self._alone(self._turns):
            targets = self._begun(inputs, out)
            section, missing, ran, cone = self._section()
            try:
                seeing = [*self._observers(watching), *self._steps.without(missing)]
                yield from section.walk(seeing, wait)
            except BaseException:
                self._broken(section)
                raise
            return self._ended(targets, ran, cone, keep)

    @contextmanager
    def _alone(self, turns: Sequence[Any]) -> Iterator[None]:
        """Take this program's turn, and those of variables."""
        if self._runner == get_ident():
            raise RunError(f"{self.graph.name!r} is running in this thread: let that run end first, or close its steps")
        with self._lock:
            self._runner = get_ident()
            try:
                with self._in_turn(turns):
                    yield
            finally:
                self._runner = None

    def _begun(self, inputs: Any, out: Any) -> Any:
        """Take what is given; where the outputs are to be written."""
        wanted = [v.aval for v in self.graph.outputs[: self._delivered]]
        targets = None if out is None else given(out, wanted, self._device)
        if inputs is not None:
            self._take(inputs)
        self._notice()
        return targets

    def _take(self, inputs: Any) -> None:
        device, was = self._device, self._assigned
        arrays = zip(self._inputs, accepted(device, self.graph.name, self.graph.inputs, inputs)[0], strict=True)
        moved = [(name, a) for at, (name, a) in enumerate(arrays) if not same_bits(device, was[at], a)]
        self._hold({name: owned(device, a) for name, a in moved})

    def _notice(self) -> None:
        """Take what has changed to the kernels, and know what is no longer of now."""
        steps, leaves, first = self._steps, self._leaves, len(self._inputs)
        for at, variable in enumerate(self._variables):
            seen = self._seen[at]
            if seen is None or seen[0] != variable.version or seen[1] is not variable.array:
                self._changed |= 1 << (first + at)
        changed = self._changed
        for name, at in self._inputs.items():
            if self._assigned[at] is None:
                raise UnboundError(
                    f"the input {name!r} of {self.graph.name!r} has no value: assign it before evaluate()"
                )
        if not changed:
            return
        self._dirty |= changed
        self._pending |= {at for at, (_, value) in enumerate(steps.updates) if leaves.mask(value) & changed}
        self._cause = None if self._missing else changed
        self._missing |= {v for v in steps.kept if leaves.mask(v) & changed}
        for at, array in enumerate(self._assigned):
            if changed >> at & 1:
                steps.executable.keep(steps.inputs[at], array)
        for at, variable in enumerate(self._variables):
            if changed >> (first + at) & 1:
                self._seen[at] = (variable.version, variable.array)
                steps.executable.keep(steps.variables[at], variable.array)
        for each in self._lasting:
            each.tell()
        self._changed = 0

    def _section(self) -> tuple[Section, set[int], int, int]:
        """What to run, the kept values that it writes, how many kernels it has, and the size of the dirty cone.

        From here on whatever it may begin to write counts as gone, until it has ended.
        """
        cause, self._cause = self._cause, None
        found = None if cause is None else self._sections.get(cause)
        if found is None:
            leaves, kept = self._leaves, self._steps.kept
            positions = leaves.section(kept, self._missing)
            written = {v for t in positions for v in leaves.steps[t].results if v in kept}
            ran = sum(leaves.steps[t].base is None for t in positions)
            cone = leaves.kernels if self._first else leaves.cone(self._dirty if cause is None else cause)
            found = (self._steps.executable.section(positions), written, ran, cone)
            if cause is not None:
                if len(self._sections) >= KEPT:
                    self._sections.clear()
                self._sections[cause] = found
        self._missing |= found[1]
        found[0].started = 0
        return found

    def _broken(self, section: Section) -> None:
        """What had run is whole; the last one that was started may have been left half way."""
        whole = section.instructions[: max(section.started - 1, 0)]
        self._missing -= {v for t in whole for v in self._leaves.steps[t].results}

    # --- delivering -----------------------------------------------------------------------------------

    def _ended(self, targets: list[Any] | None, ran: int, cone: int, keep: bool = True) -> list[Any]:
        """The outputs, once all that was missing is there; the variables are written."""
        self._missing.clear()
        values = self._steps.outputs[: self._delivered]
        if targets is None:
            found = [self._steps.copied(v) for v in values]
        else:
            found = delivered(targets, [self._steps.executable.array(v) for v in values])
        if keep:
            self._commit()
        total, arena = self._leaves.kernels, self._steps.arena_bytes
        self.evaluation = Evaluation(ran, cone, total, self.retained_bytes, arena)
        self._dirty, self._first = 0, False
        return found

    def _commit(self) -> None:
        """Write the variables whose new value is another than what they are."""
        following = []
        for at, (position, value) in enumerate(self._steps.updates):
            variable = self._variables[position]
            if at in self._pending or variable.version != self._written[at]:
                following.append((at, variable, self._steps.copied(value)))
        if following:
            held(self._write, following)

    def _write(self, following: list[Any]) -> None:
        for at, variable, array in following:
            variable.become(array)
            self._written[at] = variable.version
        self._pending.clear()

    def __repr__(self) -> str:
        return (
            f"<incremental program {self.graph.name!r}: {self._leaves.kernels} kernels, "
            f"{self.retained_bytes} bytes retained>"
        )


def same_bits(device: Any, one: Any, other: Any) -> bool:
    """Whether two arrays of a device hold the same bits; where that cannot be known, they do not.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> same_bits(nnc.NumPy(), np.array([0.0]), np.array([-0.0]))
    False
    """
    namespace = getattr(device, "xp", None)
    if one is None or namespace is None or not hasattr(one, "view"):
        return False
    if one.dtype != other.dtype or one.shape != other.shape or one.dtype.itemsize not in WORDS:
        return False
    words = np.dtype(f"u{one.dtype.itemsize}")
    return bool((one.view(words) == other.view(words)).all())
