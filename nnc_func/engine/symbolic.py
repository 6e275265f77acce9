"""Programs with unknown extents: optimised once, planned once for each distinct binding, cached."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from nnc_func.engine.interpreted import accepted
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.graph import ComputationGraph

KEPT = 16  # bindings whose programs are remembered


class SymbolicProgram:
    """A program whose inputs have unknown extents.

    Attributes
    ----------
    graph, source
        The graph after optimisation, and the one that was compiled; both with symbols.
    programs
        Binding to program: the most recently used ones.

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

    def __init__(
        self, engine: Any, graph: ComputationGraph, source: ComputationGraph, report: Any, seconds: float
    ) -> None:
        self.graph = graph
        self.source = source
        self.programs: OrderedDict[Any, Any] = OrderedDict()
        self._engine = engine
        self._report = report
        self._seconds = seconds

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        return self.source.structure.build(self.run(inputs, out))

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence.

        Raises
        ------
        ShapeError
            The extents contradict each other, or an equality that was assumed does not hold for them.
        """
        graph = self.graph
        if len(inputs) != len(graph.inputs):
            raise OperatorError(f"the program {graph.name!r} takes {len(graph.inputs)} inputs, given {len(inputs)}")
        dims: dict[str, int] = {}
        device = self._engine.device
        arrays = [accepted(device, n.data, n.aval, x, dims) for n, x in zip(graph.inputs, inputs, strict=True)]
        program = self.program(dims)
        return program.run(arrays, out) if out is not None else program.run(arrays)  # type: ignore[no-any-return]

    def program(self, dims: dict[str, int]) -> Any:
        """The program for that binding: planned now, unless it was before."""
        missing = self.graph.symbols - dims.keys()
        if missing:
            raise ShapeError(f"the inputs do not tell the extents {', '.join(sorted(missing))}")
        key = tuple(sorted(dims.items()))
        found = self.programs.get(key)
        if found is None:
            graph, source = self.graph.specialised(dims), self.source.specialised(dims)
            found = self.programs[key] = self._engine.program(graph, source, self._report, self._seconds)
            if len(self.programs) > KEPT:
                self.programs.popitem(last=False)
        self.programs.move_to_end(key)
        return found

    @property
    def plan(self) -> Any:
        """The plan of the most recently used binding; None before the first call."""
        return next(reversed(self.programs.values())).plan if self.programs else None

    @property
    def stats(self) -> Any:
        """The statistics of the most recently used binding; None before the first call."""
        return next(reversed(self.programs.values())).stats if self.programs else None

    def __repr__(self) -> str:
        return f"<program {self.graph.name!r} of {', '.join(sorted(self.graph.symbols))}: {len(self.programs)} planned>"
