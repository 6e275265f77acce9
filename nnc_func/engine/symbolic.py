"""Programs with unknown extents: optimised once, and a program for each distinct binding, made when it is first met."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from typing import Any

from attrs import evolve

from nnc_func.engine.running.arenas import Arenas
from nnc_func.engine.running.binding import accepted, every
from nnc_func.engine.running.observers import Application, Observer
from nnc_func.engine.running.session import Session
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.locks import forkable_lock

KEPT = 16  # bindings whose programs are remembered
Binding = tuple[tuple[str, int], ...]


class Bindings(Session):
    """What has a program for each binding of its unknown extents, and runs the one that the inputs tell.

    Parameters
    ----------
    graph, source, device
        What it computes, and where.
    make
        What makes a program of the graph, once its extents are known.
    forget
        What is called of a program that is forgotten.

    Attributes
    ----------
    graph, source
        The graph after optimisation, and the one that was compiled; both with symbols.
    programs
        Binding to program: the most recently used ones. A binding is a tuple of pairs (symbol, number).
    """

    def __init__(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        device: Any,
        make: Callable[[ComputationGraph], Any],
        forget: Callable[[Any], object],
    ) -> None:
        self.graph = graph
        self.source = source
        self.programs: OrderedDict[Binding, Any] = OrderedDict()
        self._device = device
        self._planning = forkable_lock()
        self._make, self._forget = make, forget
        self._met: OrderedDict[Any, Binding] = OrderedDict()  # shapes of the inputs -> binding

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence.

        Raises
        ------
        ShapeError
            The extents contradict each other, or an equality that was assumed does not hold for them.
        """
        program, inputs = self._chosen(inputs)
        found: list[Any] = program.run(inputs, out)
        return found

    def walk(
        self, inputs: Any, out: Any = None, watching: Sequence[Observer] = (), keep: bool = True, wait: Any = None
    ) -> Generator[Application, None, list[Any]]:
        """A run whose applications are computed one at a time; see `Session.walk`."""
        program, inputs = self._chosen(inputs)
        found: list[Any] = yield from program.walk(inputs, out, watching, keep, wait)
        return found

    def _chosen(self, inputs: Any) -> tuple[Any, Any]:
        """The program for these inputs, and the inputs."""
        try:
            binding = self._met[tuple([x.shape for x in inputs])]
            program = self.programs[binding]
            self.programs.move_to_end(binding)
        except (KeyError, AttributeError, TypeError):  # not met, forgotten meanwhile, or no arrays
            inputs, dims = accepted(self._device, self.graph.name, self.graph.inputs, inputs)
            program = self.program(dims)
            self._remember(inputs, dims)
        return program, inputs

    def _remember(self, inputs: Any, dims: dict[str, int]) -> None:
        shapes = tuple([getattr(x, "shape", None) for x in inputs])
        self._met[shapes] = tuple(sorted(dims.items()))
        if len(self._met) > KEPT:
            self._met.popitem(last=False)

    def program(self, dims: dict[str, int]) -> Any:
        """The program for that binding: planned now, unless it was before.

        Raises
        ------
        ShapeError
            Some extent is not told, or an equality that was assumed does not hold.
        """
        binding = every(self.graph, dims)
        with uncollected(self._planning), self._planning:
            found = self.programs.get(binding)
            if found is None:
                graph = self.graph.specialised(dims)
                self.source.check(dims)  # what was rewritten may assume less
                found = self.programs[binding] = self._make(graph)
                if len(self.programs) > KEPT:
                    self._forget(self.programs.popitem(last=False)[1])
            self.programs.move_to_end(binding)
        return found

    @property
    def plan(self) -> Any:
        """The plan of the most recently used binding; None before the first call."""
        return next(reversed(self.programs.values())).plan if self.programs else None

    @property
    def stats(self) -> Any:
        """The statistics of the most recently used binding; None before the first call."""
        return next(reversed(self.programs.values())).stats if self.programs else None


class SymbolicProgram(Bindings):
    """A program whose inputs have unknown extents.

    Attributes
    ----------
    arenas
        The memory that all programs run in: as much as the largest needs, for each call that runs at a time.
    rewrites
        Whether the graph is optimised for each binding; else it is optimised already.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", ("n",), "float32")
    >>> double = lazy.compile(inputs=[x], outputs=x + x)
    >>> double(np.float32([1])), double(np.float32([1, 2]))
    (array([2.], dtype=float32), array([2., 4.], dtype=float32))
    >>> len(double.programs)
    2
    """

    written_as = "symbolic"

    def __init__(
        self,
        engine: Any,
        graph: ComputationGraph,
        source: ComputationGraph,
        report: Any,
        seconds: float,
        donated: Sequence[int] = (),
        rewrites: bool = False,
    ) -> None:
        self.arenas = arenas = Arenas(engine.device)

        def planned(graph: ComputationGraph) -> Any:  # holds no program, whose memory would wait for the collector
            if rewrites:
                graph = rewritten(engine, graph)
            return engine.program(graph, source, report, seconds, arenas, donated)

        super().__init__(graph, source, engine.device, planned, arenas.forget)
        self._engine = engine
        self._report = report
        self._seconds = seconds
        self._donated = donated
        self.rewrites = rewrites

    def rewriting_bindings(self) -> SymbolicProgram:
        """The same program, whose graph is the one that was compiled, optimised for each binding when it is first met.

        Some rules, and most fused kernels, want extents that are known. It takes longer to meet a binding, and less
        time to run it.
        """
        return SymbolicProgram(
            self._engine, self.source, self.source, self._report, self._seconds, self._donated, rewrites=True
        )

    def autotune(self, *inputs: Any, budget: float = 2.0, workspace: int | None = None) -> Any:
        """See `Program.autotune`; kernels are timed for the extents that these inputs have.

        The tuned program is for all extents: its table names kernels for these, and others are planned by default.
        """
        program, arrays = self._chosen(inputs)
        tuning = program.autotune(*arrays, budget=budget, workspace=workspace)
        if tuning.program is program:
            return evolve(tuning, program=self)
        engine = self._engine.with_kernels(tuning.table)
        tuned = SymbolicProgram(
            engine, self.graph, self.source, self._report, self._seconds, self._donated, self.rewrites
        )
        return evolve(tuning, program=tuned)

    def __repr__(self) -> str:
        return f"<program {self.graph.name!r} of {', '.join(sorted(self.graph.symbols))}: {len(self.programs)} planned>"


def rewritten(engine: Any, graph: ComputationGraph) -> ComputationGraph:
    """The graph of a binding, optimised for its extents."""
    with uncollected(engine.symbol.table.walking), engine.symbol.table.walking:
        found, _ = engine.graph.optimised(graph)
    return found  # type: ignore[no-any-return]
