"""Interpreted programs: a graph's nodes computed one after the other, as they are. The oracle of all engines.

Also how programs run on devices that offer no memory to plan in: values live in slots, freed after their last use.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nnc_func.engine.linkers.base import Executable
from nnc_func.engine.running.binding import accepted
from nnc_func.engine.running.interpretation import Applications, Interpretation, InterpretedSection
from nnc_func.engine.running.interrupts import held
from nnc_func.engine.running.observers import Application, Observer
from nnc_func.engine.running.outs import delivered, given
from nnc_func.engine.running.session import Session
from nnc_func.engine.symbolic import Bindings
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import owned
from nnc_func.graph.reader_writer_lock import ordered


class Interpreted(Session):
    """A graph as a callable, on any device.

    Raises
    ------
    OperatorError
        The wrong number of inputs.
    ShapeError
        An input of another shape or dtype than the graph's.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> eager = nnc.eager()
    >>> x = eager.input("x", (3,), "float32")
    >>> eager.compile(inputs=[x], outputs=x + 1)(np.float32([1, 2, 3]))
    array([2., 3., 4.], dtype=float32)
    """

    plan = None
    written_as = "interpreted"

    def __init__(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        device: Any,
        stats: Any = None,
        check_numerics: bool = False,
    ) -> None:
        self.graph = graph
        self.source = source
        self.stats = stats
        self._device = device
        self._check = check_numerics
        self._applications = found = Applications(graph)
        rows = [(op, results) for _, op, _, _, results in found.rows]
        wanted = {*found.outputs, *(value for _, value in found.updates)}
        self._kept = wanted.intersection(value for _, results in rows for value in results)
        views = {value for op, results in rows if op.view is not None for value in results}
        self._shown = (wanted - self._kept) | views  # whose memory is another's, too
        self._variables = [n.data for n in graph.variables]
        self._turns = ordered(self._variables, [self._variables[at] for at, _ in found.updates])
        self._free: list[tuple[Interpretation, InterpretedSection]] = []  # in which nothing runs

    def _run(self, inputs: Any, out: Any) -> list[Any]:
        arrays, targets = self._begun(inputs, out)
        with self._in_turn(self._turns), self._taken(arrays) as (executable, section):
            section.run()
            return self._ended(executable, targets)

    def walk(
        self, inputs: Any, out: Any = None, watching: Sequence[Observer] = (), keep: bool = True, wait: Any = None
    ) -> Generator[Application, None, list[Any]]:
        """A run whose applications are computed one at a time; see `Session.walk`."""
        arrays, targets = self._begun(inputs, out)
        seeing = self._observers(watching)
        with self._in_turn(self._turns), self._taken(arrays) as (executable, section):
            yield from section.walk(seeing, wait)
            return self._ended(executable, targets, keep)

    def _begun(self, inputs: Any, out: Any) -> tuple[list[Any], list[Any] | None]:
        """The inputs as arrays, and the caller's; what does not fit is refused before anything runs."""
        arrays, _ = accepted(self._device, self.graph.name, self.graph.inputs, inputs)
        return arrays, None if out is None else given(out, [v.aval for v in self.graph.outputs], self._device)

    @contextmanager
    def _taken(self, arrays: Sequence[Any]) -> Iterator[tuple[Interpretation, InterpretedSection]]:
        """What one run has to itself; of a run that failed, values are left there, and it is let go."""
        found = self._applications
        try:
            executable, section = self._free.pop()
        except IndexError:
            executable = Interpretation(found, self._device, self._kept)
            section = executable.section(range(len(found.rows)))
        for slot, array in zip(found.inputs, arrays, strict=True):
            executable.put(slot, array)
        for slot, variable in zip(found.variables, self._variables, strict=True):
            executable.put(slot, variable.array)
        yield executable, section
        executable.forget()
        for slot in self._kept:
            executable.keep(slot, None)
        self._free.append((executable, section))

    def _ended(self, executable: Executable, targets: list[Any] | None, keep: bool = True) -> list[Any]:
        """The outputs, each in memory of its own; the variables are written."""
        taken: set[int] = set()
        results = [self._fresh(executable, value, taken) for value in self._applications.outputs]
        updates = self._applications.updates
        following = [(self._variables[at], self._fresh(executable, value, taken)) for at, value in updates]
        if keep:
            held(_exchange, following)
        return results if targets is None else delivered(targets, results)

    def _fresh(self, executable: Executable, value: int, taken: set[int]) -> Any:
        """An output or update in memory of its own: leaves, views and what is wanted twice are copied."""
        array = executable.array(value)
        shared = value in self._shown or value in taken
        taken.add(value)
        return owned(self._device, array) if shared else array

    def __repr__(self) -> str:
        return f"<program {self.graph.name!r}: {len(self._applications.rows)} applications, interpreted>"


def _exchange(following: list[Any]) -> None:
    for variable, array in following:
        variable.become(array)


class InterpretedBindings(Bindings):
    """An interpreted program with unknown extents: what was assumed of them is checked for each binding."""

    written_as = "interpreted"

    def __repr__(self) -> str:
        return f"<program {self.graph.name!r} of {', '.join(sorted(self.graph.symbols))}, interpreted>"


def interpreted(
    graph: ComputationGraph, source: ComputationGraph, device: Any, check_numerics: bool = False
) -> Interpreted | InterpretedBindings:
    """The graph as a program that computes its nodes as they are."""

    def make(graph: ComputationGraph) -> Interpreted:
        return Interpreted(graph, graph, device, None, check_numerics)

    if graph.symbols:
        return InterpretedBindings(graph, source, device, make, lambda gone: None)
    return Interpreted(graph, source, device, None, check_numerics)
