"""A body that is computed time after time, of values whose extents differ from time to time.

Its graph is made, and optimised, once, with symbols for extents. An engine that plans has one plan for each capacity:
twice as much as the last one, each time that it does not suffice. Any other computes operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.engine.compile_stats import plannable
from nnc_func.engine.growing.capacity import Capacity, appended, planned
from nnc_func.engine.growing.live import Live
from nnc_func.engine.growing.room import Room, doubled
from nnc_func.facets.dims import substitute, symbols_of
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.tree import ONE_LEAF, Structure

REMEMBERED = 64  # bodies, for each engine
SPARE = 8  # a capacity is doubled with another one if it is all but an eighth used by then
Appended = tuple[int, int, int]
"""A result that begins with a parameter: their numbers, and the axis along which it goes on."""


def steps_of(engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended] = ()) -> Any:
    """The body as an engine computes it; the same one for the same body, so that its plans are there.

    Parameters
    ----------
    avals
        Of its parameters, with symbols for extents that differ.
    appends
        Results that may be parameters with something behind them.

    Returns
    -------
    Of which `times()` gives what computes the body time after time, for one loop.
    """
    key = ("growing", body, tuple(avals))
    known = engine.growing
    found = known.get(key)
    if found is None:
        made = Planned if _plans(engine) and plannable(engine.device) else Interpreted
        with engine.symbol.table.walking, uncollected():
            found = known[key] = made(engine, body, avals, appends)
        if len(known) > REMEMBERED:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    return found


def _plans(engine: Any) -> bool:
    """Whether an engine plans; another one computes at once."""
    return hasattr(engine, "passes")


class Step:
    """A body with unknown extents, and the graph of it.

    Attributes
    ----------
    graph
        As it was traced.
    """

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval]) -> None:
        self.engine, self.body = engine, body
        inputs = [engine.symbol.input(f"%{n}", aval) for n, aval in enumerate(avals)]

        values = body.values(lambda op, args, items: engine.symbol.apply(op, tuple(args), items), inputs)
        # what is given as it came is not computed
        self.made = [n for n in dict.fromkeys(body.results) if n >= body.parameters]
        outputs = [values[n] for n in self.made]
        structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
        self.graph: ComputationGraph = engine.graph.close(inputs, outputs, (), "a time of a loop", structure)

    def check(self, dims: Mapping[str, int]) -> None:
        """Raise ShapeError where extents that meet in it are not equal."""
        for each in self.graph.assumptions:
            each.check(dims)

    def results(self, given: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """All results of the body, of those that are computed."""
        made = dict(zip(self.made, found, strict=True))
        return [given[n] if n < self.body.parameters else made[n] for n in self.body.results]


class Interpreted(Step):
    """A body computed operator by operator, as it is."""

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended]) -> None:
        super().__init__(engine, body, avals)
        self._bind = engine.device.bind if _plans(engine) else engine.bind
        self._sized = {id(each.items) for each in body.applications if symbols_of(tuple(v for _, v in each.items))}

    def times(self) -> Callable[[Sequence[Any], Mapping[str, int]], list[Any]]:
        """What computes the body, of arrays and extents."""
        body, bind, sized = self.body, self._bind, self._sized

        def run(given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
            self.check(dims)

            def apply(op: Any, args: list[Any], items: Any) -> Any:
                return bind(op, *args, **dict(substitute(items, dims) if id(items) in sized else items))

            values = body.values(apply, given)
            return [values[n] for n in body.results]

        return run


class Planned(Step):
    """A body planned for capacities.

    Attributes
    ----------
    optimised
        The graph that is planned.
    capacity
        The last plan: it serves all extents up to its own.
    plans
        How many were made.
    """

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended]) -> None:
        super().__init__(engine, body, avals)
        self.optimised, _ = engine.graph.optimised(self.graph)
        self.capacity: Capacity | None = None
        self._symbols = self.optimised.symbols
        self.plans = 0
        at = {n: position for position, n in enumerate(self.made)}
        self._appends = {at[n]: (given, axis) for n, given, axis in appends if n in at}
        self._planning = RLock()

    def times(self) -> Callable[[Sequence[Any], Mapping[str, int]], list[Any]]:
        """What computes the body, of arrays and extents, in memory of its own."""
        rooms = {output: Room(self.engine.device, axis) for output, (_, axis) in self._appends.items()}
        live: Live | None = None

        def run(given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
            nonlocal live
            self.check(dims)
            if live is None or not live.capacity.suffices(dims):
                live = self._live(dims, rooms)
            try:
                return self.results(given, live.run(given, dims))
            finally:
                live.forget()

        return run

    def _live(self, dims: Mapping[str, int], rooms: Mapping[int, Room]) -> Live:
        """The last plan, or a larger one, linked to memory."""
        wanted = {s: n for s, n in dims.items() if s in self._symbols}
        with self._planning, self.engine.symbol.table.walking, uncollected():
            if self.capacity is None or not self.capacity.suffices(dims):
                known = {} if self.capacity is None else self.capacity.extents
                extents = {s: max(known.get(s, 0), doubled(n + n // SPARE)) for s, n in wanted.items()}
                self.capacity = planned(self.engine, self.optimised, extents)
                self.plans += 1
            capacity = self.capacity
        at = dict(appended(capacity, {output: given for output, (given, _) in self._appends.items()}))
        return Live(
            capacity, self.engine.device, {t: rooms[output] for t, output in at.items()}, self.engine.check_numerics
        )
