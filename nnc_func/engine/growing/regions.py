"""Graphs with extents that depend on elements, cut into regions: what is known of extents before each of them runs.

An operator such as ``x[mask]`` has as many elements as are true. In a graph that is an unknown extent, told by a number
that the graph computes. All that can be computed before such a number is known is one region, a program of its own;
what mentions it stands in a later one. So there are as few as there can be. A region whose extents are all known is
planned once; another one for a capacity, which is doubled when it does not suffice, so that its memory is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.engine.growing.graphs import GrowingGraph, symbols_in
from nnc_func.errors import GraphError
from nnc_func.facets.dims import Dim
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import INPUT, VARIABLE, owned
from nnc_func.graph.node import Node, Value, topological
from nnc_func.locks import forkable_lock
from nnc_func.tree import ONE_LEAF, Structure

OUTSIDE = (INPUT, VARIABLE)  # leaves whose arrays are another in each call


class Region:
    """A part of a graph that is computed at a time.

    Attributes
    ----------
    graph
        Of it alone.
    given, made
        The values that it reads, and those that it gives.
    symbols
        Unknown extents in it.
    """

    def __init__(self, engine: Any, name: str, given: Sequence[Node], made: Sequence[Value], late: Set[str]) -> None:
        values: dict[Node, Any] = {}
        nodes = topological([*made], {*given})
        self.symbols = sorted(late & symbols_in([*nodes, *given]))
        # nothing reads these: they tell extents
        inputs = [engine.symbol.input(f"extent {s}", Aval((Dim.named(s),), "bool")) for s in self.symbols]
        for node in given:
            fresh = [engine.symbol.input(f"value {len(inputs) + n}", aval) for n, aval in enumerate(node.avals)]
            inputs += fresh
            values[node] = fresh if node.op.multi_result else fresh[0]
        outputs = engine.operator.substitute([*made], values)
        structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
        self.graph: ComputationGraph = engine.graph.close(inputs, outputs, (), name, structure)
        self.given = [value for node in given for value in node.results]
        self.made = [*made]
        self.program: Any = GrowingGraph(engine, self.graph, {}) if self.symbols else engine.compile(self.graph)

    @property
    def plan(self) -> Any:
        """The last plan that was made; None before the first call of one whose extents are unknown."""
        if isinstance(self.program, GrowingGraph):
            return None if self.program.capacity is None else self.program.capacity.plan
        return self.program.plan


@frozen(eq=False)
class Between:
    """A loop that is computed at once, between regions.

    Attributes
    ----------
    loop
        What computes it: ``computed(arrays)`` gives its results, and what it has found out.
    given, made
        Its operands, and the leaves that its results are.
    extents
        Symbols that its results tell, and the result and the axis of each.
    """

    loop: Any
    given: list[Value]
    made: list[Node]
    extents: Mapping[str, tuple[int, int]]


def _array(values: Mapping[Value, Any], value: Value) -> Any:
    """Of a value that was given or computed; else of a variable."""
    found = values.get(value)
    return value.node.data.array if found is None else found


class Regions:
    """A program with extents that it finds out itself.

    Parameters
    ----------
    inputs, outputs
        As of a graph.
    told
        Symbols of extents, and the values that tell them.
    loops
        What is computed between regions.

    Attributes
    ----------
    regions
        In the order in which they are computed.
    """

    plan = None

    def __init__(
        self, engine: Any, name: str, inputs: Sequence[Node], outputs: Sequence[Value], told: Mapping[str, Value],
        loops: Sequence[Between] = (),
    ) -> None:  # fmt: skip
        self.engine, self.name = engine, name
        self._inputs, self._outputs, self._loops = [*inputs], [*outputs], [*loops]
        self._told = {value: symbol for symbol, value in told.items()}
        self._late = {*told, *(symbol for each in loops for symbol in each.extents)}
        self._after: dict[Region | None, list[Between]] = {}  # of each region, and before the first one
        with uncollected(engine.symbol.table.walking), engine.symbol.table.walking:
            given = [value for each in loops for value in each.given]
            self.regions = self._cut(topological([*outputs, *told.values(), *given]))
        self._free: list[list[Any]] = []  # what runs regions, where no call does
        self._lock = forkable_lock()

    @property
    def plans(self) -> list[Any]:
        """The plan of each region, as it was last made."""
        return [region.plan for region in self.regions]

    def save(self, path: Any) -> None:
        """There is no file of it.

        Raises
        ------
        GraphError
            Always: its plans are made for the extents that it meets.
        """
        raise GraphError(
            f"{self.name} is a program of {len(self.regions)} regions, with extents that are told while it runs "
            "(dynamic=True), and no such program is saved: save what it reads and make it anew, or bound its extents "
            "(max_iterations=, size=), so that it has one plan"
        )

    def run(self, inputs: Sequence[Any], out: Any = None) -> list[Any]:
        """The outputs, of the inputs as a sequence.

        Raises
        ------
        ShapeError
            Extents that meet are not equal.
        """
        with uncollected(self._lock), self._lock:
            runs = self._free.pop() if self._free else [
                r.program.times() if isinstance(r.program, GrowingGraph) else None for r in self.regions
            ]  # fmt: skip
        try:
            return self._run(runs, inputs)
        finally:
            with uncollected(self._lock), self._lock:
                self._free.append(runs)

    def _run(self, runs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        dims: dict[str, int] = {}
        values: dict[Value, Any] = dict(zip(self._inputs, inputs, strict=True))
        host = self.engine.device.to_numpy
        self._compute(None, values, dims)
        for region, run in zip(self.regions, runs, strict=True):
            given = [_array(values, v) for v in region.given]
            if run is None:
                found = region.program.run(given)
            else:
                now = {s: dims[s] for s in region.symbols}
                region.graph.check(now)
                found = run([*(self.engine.device.empty((n,), "bool") for n in now.values()), *given], now)
            for value, array in zip(region.made, found, strict=True):
                values[value] = array
                if value in self._told:
                    dims[self._told[value]] = int(host(array))
            self._compute(region, values, dims)
        device = self.engine.device
        return [owned(device, _array(values, v)) if v.node.op in OUTSIDE else values[v] for v in self._outputs]

    def _compute(self, region: Region | None, values: dict[Value, Any], dims: dict[str, int]) -> None:
        """Compute the loops for which nothing is missing after a region."""
        for each in self._after.get(region, ()):
            found = each.loop.within(dims).computed([_array(values, v) for v in each.given])[0]
            values.update(zip(each.made, found, strict=True))
            dims.update({symbol: found[n].shape[axis] for symbol, (n, axis) in each.extents.items()})

    def autotune(self, *_: Any, **__: Any) -> Any:
        """Raise GraphError: kernels are timed for extents that are known."""
        raise GraphError(f"{self.name} has extents that depend on elements, so that no kernels are timed for it")

    def __repr__(self) -> str:
        return f"<program {self.name!r} of {len(self.regions)} regions>"

    # --- the cut -------------------------------------------------------------------------------------------

    def _cut(self, nodes: Sequence[Node]) -> list[Region]:
        level, late = self._levels(nodes)
        operands = [value for each in self._loops for value in each.given]
        outputs = dict.fromkeys([*self._outputs, *self._told, *operands])
        leaves = {*self._inputs, *(leaf for each in self._loops for leaf in each.made)}
        computed = {
            n: at for n, at in level.items() if n.op not in OUTSIDE and (n.args or n in {v.node for v in outputs})
        }
        wanted: dict[Value, int] = {}  # the last region that reads a value
        for node in computed:
            for a in node.args:
                wanted[a] = max(wanted.get(a, -1), level[node])
        regions: list[Region] = []
        for number in range(1 + max([*computed.values(), *late], default=0)):
            members = [n for n in computed if level[n] == number]
            given = dict.fromkeys(
                a.node
                for n in members
                for a in n.args
                if a.node.op in OUTSIDE or a.node in leaves or computed.get(a.node, number) < number
            )
            later = {n for n in members if any(wanted.get(v, -1) > number for v in n.results)}
            made = [v for n in members for v in n.results if n in later or v in outputs]  # a node is read as a whole
            if made:
                regions.append(Region(self.engine, f"region {number} of {self.name}", [*given], made, self._late))
            after = [each for each, at in zip(self._loops, late, strict=True) if at == number]
            self._after.setdefault(regions[-1] if regions else None, []).extend(after)
        return regions

    def _levels(self, nodes: Sequence[Node]) -> tuple[dict[Node, int], list[int]]:
        """Of each node the region that it is in, and of each loop that after which it is computed.

        Nodes without operands are made anew by each region that reads them.
        """
        late = dict.fromkeys(self._late, 0)
        made = {leaf: n for n, each in enumerate(self._loops) for leaf in each.made}
        after = [0] * len(self._loops)
        while True:
            level: dict[Node, int] = {}
            for node in nodes:
                before = [level[a.node] for a in node.args]
                if node in made:
                    before.append(after[made[node]] + 1)
                level[node] = max([0, *before, *(late[s] for s in symbols_in([node]) if s in late)])
            found = {symbol: level[value.node] + 1 for value, symbol in self._told.items()}
            then = [max([0, *(level[v.node] for v in each.given)]) for each in self._loops]
            found.update(
                (symbol, at + 1) for each, at in zip(self._loops, then, strict=True) for symbol in each.extents
            )
            if found == late and then == after:
                return level, after
            late, after = found, then
