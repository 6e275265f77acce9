"""A graph with unknown extents, planned for capacities: twice as much as the last one, when that does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from nnc_func.engine.growing.capacity import Capacity, appended, planned
from nnc_func.engine.growing.live import Live
from nnc_func.engine.growing.room import Room, doubled
from nnc_func.errors import NncError
from nnc_func.facets.dims import symbols_of
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node
from nnc_func.locks import forkable_lock

SPARE = 8  # a capacity is doubled with another one if it is all but an eighth used by then
Run: TypeAlias = Callable[[Sequence[Any], Mapping[str, int]], list[Any]]


def symbols_in(nodes: Iterable[Node]) -> frozenset[str]:
    """Names of all unknown extents in the shapes and the parameters of nodes."""
    found = set[str]()
    for node in nodes:
        found.update(*(a.symbols for a in node.avals), symbols_of(tuple([value for _, value in node.items])))
    return frozenset(found)


class GrowingGraph:
    """A graph planned for capacities.

    Parameters
    ----------
    appends
        Outputs that may be inputs with something behind them: position to the input's, and the axis.

    Attributes
    ----------
    graph
        As it is planned, with symbols.
    capacity
        The last plan: it serves all extents up to its own.
    plans
        How many were made.
    """

    def __init__(self, engine: Any, graph: ComputationGraph, appends: Mapping[int, tuple[int, int]]) -> None:
        self.engine, self._appends = engine, appends
        self.graph, _ = engine.graph.optimised(graph)
        self.capacity: Capacity | None = None
        self.plans = 0
        self._symbols = self.graph.symbols
        self._planning = forkable_lock()

    def times(self) -> Run:
        """What computes the graph, of arrays and extents, time after time, in memory of its own."""
        rooms = {output: Room(self.engine.device, axis) for output, (_, axis) in self._appends.items()}
        live: Live | None = None

        def run(given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
            nonlocal live
            if live is None or not live.capacity.suffices(dims):
                live = self._live(dims, rooms)
            try:
                return live.run(given, dims)
            finally:
                live.forget()

        return run

    def _planned(self, extents: Mapping[str, int], wanted: Mapping[str, int]) -> Capacity:
        """The plan for these extents; where something cannot be so large, as n in `full((25 - n,))`, for smaller ones.

        Raises
        ------
        NncError
            There is none for those that are wanted either.
        """
        while True:
            try:
                return planned(self.engine, self.graph, extents)
            except NncError:
                if extents == wanted:
                    raise
                extents = {s: (n + wanted[s]) // 2 for s, n in extents.items()}

    def _live(self, dims: Mapping[str, int], rooms: Mapping[int, Room]) -> Live:
        """The last plan, or a larger one, linked to memory."""
        wanted = {s: n for s, n in dims.items() if s in self._symbols}
        with uncollected(self._planning), self._planning, self.engine.symbol.table.walking:
            if self.capacity is None or not self.capacity.suffices(dims):
                known = {} if self.capacity is None else self.capacity.extents
                extents = {s: max(known.get(s, 0), doubled(n + n // SPARE)) for s, n in wanted.items()}
                self.capacity = self._planned(extents, wanted)
                self.plans += 1
            capacity = self.capacity
        at = dict(appended(capacity, {output: given for output, (given, _) in self._appends.items()}))
        return Live(
            capacity, self.engine.device, {t: rooms[output] for t, output in at.items()}, self.engine.check_numerics
        )
