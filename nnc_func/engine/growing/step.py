"""A body that is computed time after time, of values whose extents differ from time to time.

Its graph is made, and optimised, once, with symbols for extents. An engine that plans has one plan for each capacity:
twice as much as the last one, each time that it does not suffice. Any other computes operator by operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice, repeat
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.engine.compile_stats import plans
from nnc_func.engine.growing.graphs import GrowingGraph, Run
from nnc_func.errors import NncError
from nnc_func.facets.dims import Dim, substitute, symbols_of
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node
from nnc_func.graph.refinement import Assumption, as_assumed, assumed, elsewhere
from nnc_func.tree import ONE_LEAF, Structure

REMEMBERED = 64  # bodies, for each engine
ALIKE = (0, 1, 2, 3, 5, 64, 1 << 20)  # extents for which operators are asked whether they ever refuse any
SEVERAL = 5  # of them, at least
Appended = tuple[int, int, int]
"""A result that begins with a parameter: their numbers, and the axis along which it goes on."""


def steps_of(
    engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended] = (), recorded: bool = False
) -> Any:
    """The body as an engine computes it; the same one for the same body, so that its plans are there.

    Parameters
    ----------
    avals
        Of its parameters, with symbols for extents that differ.
    appends
        Results that may be parameters with something behind them.
    recorded
        Whether the engine records the operators one by one, so that gradients of values flow through them.

    Returns
    -------
    Of which `times()` gives what computes the body time after time, for one loop.
    """
    key = ("growing", body, tuple(avals), recorded)
    known = engine.growing
    found = known.get(key)
    if found is None:
        made = Recorded if recorded else Planned if plans(engine) else Interpreted
        with uncollected(engine.symbol.table.walking), engine.symbol.table.walking:
            found = known[key] = made(engine, body, avals, appends)
        if len(known) > REMEMBERED:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    return found


class Step:
    """A body with unknown extents, and the graph of it.

    Attributes
    ----------
    graph
        As it was traced.
    untold
        Extents that no parameter has. For each the graph has one more input, of that extent, which nothing reads.
    """

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval]) -> None:
        self.engine, self.body = engine, body
        inputs = [engine.symbol.input(f"%{n}", aval) for n, aval in enumerate(avals)]
        self.untold = _untold(body, avals)
        telling = [engine.symbol.input(f"of {name}", Aval((Dim.named(name),), "bool")) for name in self.untold]
        values = body.values(lambda op, args, items: engine.symbol.apply(op, tuple(args), items), inputs)
        # what is given as it came is not computed
        self.made = [n for n in dict.fromkeys(body.results) if n >= body.parameters]
        outputs = [values[n] for n in self.made]
        structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
        self.graph: ComputationGraph = engine.graph.close(
            [*inputs, *telling], outputs, (), "a time of a loop", structure
        )
        self.assumptions = [*assumed(self.graph.nodes, engine.symbol.shape)]
        self._strict = [*self._refusing()]

    def check(self, dims: Mapping[str, int]) -> None:
        """Raise ShapeError where an operator does not take these extents: they differ, or a part is beyond the end."""
        for each in self.assumptions:
            each.check(dims)
        for node in self._strict:
            self._infer(node, dims)

    def _infer(self, node: Node, dims: Mapping[str, int]) -> None:
        avals = tuple([a.aval.having(shape=substitute(a.shape, dims)) for a in node.args])
        try:
            found = self.engine.symbol.shape.infer(node.op, avals, substitute(node.items, dims))
        except NncError as error:
            raise elsewhere(node, error) from None
        as_assumed(node, found if node.op.multi_result else (found,), dims)

    def _refusing(self) -> Iterator[Node]:
        """The nodes that do not take all extents for which the assumptions hold, such as a slice of the first three.

        A few extents are tried: a part that is beyond the end is so for the least or the largest, two that are to fit
        in one another do not if they change places, and few numbers are multiples of another.
        """
        growing = [node for node in self.graph.nodes if _grows(node)]
        symbols = sorted(set[str]().union(*(_symbols(node) for node in growing)))
        tried = [dict.fromkeys(symbols, extent) for extent in ALIKE]
        for primes in ((7, 11, 13, 17, 19, 23), (23, 19, 17, 13, 11, 7), (0, 1, 0, 97, 1, 3)):
            tried += [dict(zip(symbols, islice(cycle(primes), first, None), strict=False)) for first in range(3)]
        held = [dims for dims in tried if all(map(_holds, self.assumptions, repeat(dims)))]
        for node in growing:
            if len(held) < SEVERAL or not all(self._takes(node, dims) for dims in held):
                yield node

    def _takes(self, node: Node, dims: Mapping[str, int]) -> bool:
        try:
            self._infer(node, dims)
        except NncError:
            return False
        return True


class Interpreted(Step):
    """A body computed operator by operator, as it is."""

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended]) -> None:
        super().__init__(engine, body, avals)
        self._bind = self._bound()
        self._sized = {id(each.items) for each in body.applications if symbols_of(tuple(v for _, v in each.items))}

    def _bound(self) -> Any:
        """What applies an operator."""
        return self.engine.device.bind if hasattr(self.engine, "passes") else self.engine.bind

    def times(self) -> Run:
        """What computes the body, of arrays and extents."""
        body, bind, sized = self.body, self._bind, self._sized

        def run(given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
            self.check(dims)

            def apply(op: Any, args: list[Any], items: Any) -> Any:
                return bind(op, *args, **dict(substitute(items, dims) if id(items) in sized else items))

            values = body.values(apply, given)
            return [values[n] for n in body.results]

        return run


class Recorded(Interpreted):
    """A body computed operator by operator, each of which a dynamic engine records."""

    def _bound(self) -> Any:
        return self.engine.bind


class Planned(Step):
    """A body planned for capacities.

    Attributes
    ----------
    planned
        The graph, and its plans.
    """

    def __init__(self, engine: Any, body: Body, avals: Sequence[Aval], appends: Sequence[Appended]) -> None:
        super().__init__(engine, body, avals)
        at = {n: position for position, n in enumerate(self.made)}
        self.planned = GrowingGraph(engine, self.graph, {at[n]: (p, axis) for n, p, axis in appends if n in at})

    @property
    def plans(self) -> int:
        """How many were made."""
        return self.planned.plans

    def times(self) -> Run:
        """What computes the body, of arrays and extents, in memory of its own."""
        body, made, inner = self.body, self.made, self.planned.times()
        xp, untold = self.engine.device.xp, self.untold

        def run(given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
            self.check(dims)
            telling = [xp.broadcast_to(xp.zeros((), dtype=xp.bool), (dims[name],)) for name in untold]
            found = dict(zip(made, inner([*given, *telling], dims), strict=True))
            return [given[n] if n < body.parameters else found[n] for n in body.results]

        return run


def _symbols(node: Node) -> frozenset[str]:
    """The extents that are not known among operands and parameters."""
    return symbols_of(tuple([value for _, value in node.items])).union(*(a.aval.symbols for a in node.args))


def _grows(node: Node) -> bool:
    return bool(_symbols(node))


def _holds(assumption: Assumption, dims: Mapping[str, int]) -> bool:
    try:
        assumption.check(dims)
    except NncError:
        return False
    return True


def _untold(body: Body, avals: Sequence[Aval]) -> list[str]:
    """Extents among parameters of operators that no parameter has, as of a cotangent of which the extent alone is read.

    Extents of values come from parameters, or from those of operators.
    """
    found = set[str]()
    for each in body.applications:
        found |= symbols_of(tuple([value for _, value in each.items]))
    return sorted(found.difference(*(a.symbols for a in avals)))
