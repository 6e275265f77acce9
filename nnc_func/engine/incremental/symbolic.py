"""Incremental programs with unknown extents: a program with a memory of its own for each distinct binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnc_func.engine.incremental.assigning import assigned
from nnc_func.engine.incremental.program import same_bits
from nnc_func.engine.running.binding import accepted
from nnc_func.engine.symbolic import Bindings
from nnc_func.errors import UnboundError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import owned


class IncrementalSymbolicProgram(Bindings):
    """An incremental program whose inputs have unknown extents: assigning another shape is another binding.

    Each binding has a program that keeps its own values; when it is used again, only what was assigned since then
    is dirty in it. The least recently used ones are forgotten, and their memory with them.

    Attributes
    ----------
    graph, source
        The graph after optimisation, and the one that was compiled; both with symbols.
    programs
        Binding to program.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = lazy.input("x", ("n",), "float64"), lazy.input("y", (), "float64")
    >>> program = lazy.compile([x, y], lazy.ops.sum(lazy.ops.exp(x)) * y, retain="all")
    >>> program(np.zeros(2), np.float64(1)), program(np.zeros(3), np.float64(1)), program(np.zeros(3), np.float64(2))
    (array(2.), array(3.), array(6.))
    >>> program.evaluation.kernels
    1
    """

    def __init__(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        device: Any,
        make: Callable[[ComputationGraph, ComputationGraph], Any],
    ) -> None:
        self._taken: dict[Any, dict[str, int]] = {}  # program -> what it was assigned, as stamps
        taken = self._taken
        super().__init__(graph, source, device, lambda graph: make(graph, source), lambda gone: taken.pop(gone, None))
        self._inputs = {n.data: n for n in graph.inputs}
        self._assigned: dict[str, Any] = {}  # copies
        self._stamps: dict[str, int] = dict.fromkeys(self._inputs, 0)  # when each was assigned

    def assign(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give inputs another value, by name, of whatever extents; see `IncrementalProgram.assign`.

        Raises
        ------
        OperatorError
            There is no such input.
        ShapeError, DTypeError
            A value of another rank, another known extent or another dtype than the input's.
        """
        arrays = assigned(self._device, self.graph, values, named)
        with self._planning:
            self._take(arrays)

    def _take(self, given: dict[str, Any]) -> None:
        copies = {name: owned(self._device, array) for name, array in given.items()}
        for name, array in copies.items():
            self._assigned[name] = array
            self._stamps[name] += 1

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence: those that differ are assigned. None: none do."""
        with self._planning:
            return super().run(inputs, out)

    def evaluate(self, out: Any = None) -> Any:
        """The outputs for what is assigned; see `IncrementalProgram.evaluate`.

        Raises
        ------
        UnboundError
            An input was never assigned.
        ShapeError
            Extents that contradict each other, or an equality that was assumed and does not hold.
        """
        return self.nested(self.run(None, out))

    def _chosen(self, inputs: Any) -> tuple[Any, None]:
        """The program for what is given, or assigned, which holds that."""
        with self._planning:
            return self._holding(inputs), None

    def _holding(self, inputs: Any) -> Any:
        device, name = self._device, self.graph.name
        if inputs is not None:
            found, _ = accepted(device, name, self.graph.inputs, inputs)
            was = self._assigned.get
            arrays = zip(self._inputs, found, strict=True)
            self._take({n: a for n, a in arrays if not same_bits(device, was(n), a)})
        missing = [n for n in self._inputs if n not in self._assigned]
        if missing:
            raise UnboundError(f"the input {missing[0]!r} of {name!r} has no value: assign it before evaluate()")
        _, dims = accepted(device, name, self.graph.inputs, [self._assigned[n] for n in self._inputs])
        program = self.program(dims)
        taken = self._taken.setdefault(program, {})
        changed = [n for n, stamp in self._stamps.items() if taken.get(n) != stamp]
        program.hold({n: self._assigned[n] for n in changed})
        taken.update((n, self._stamps[n]) for n in changed)
        return program

    @property
    def evaluation(self) -> Any:
        """What the last evaluation did; None before the first."""
        return next(reversed(self.programs.values())).evaluation if self.programs else None

    @property
    def retained_bytes(self) -> int:
        """Bytes kept from run to run by the programs of all bindings."""
        return sum(p.retained_bytes for p in self.programs.values())

    def __repr__(self) -> str:
        unknown = ", ".join(sorted(self.graph.symbols))
        return f"<incremental program {self.graph.name!r} of {unknown}: {len(self.programs)} planned>"
