"""The plan of a graph with unknown extents for a capacity: it serves all extents up to that.

The graph is planned by the engine's passes as if its extents were the capacity; what lies in a slot is told by the
graph with symbols. So the plan says where values lie, and how much room there is; which shape they have is an argument
of views, taken anew each time. What the passes find by numbers must hold for every number: nothing is computed within
another tensor's memory, and a result is written over an operand only where their shapes are
the same expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from nnc_func.aval import Aval
from nnc_func.config import config
from nnc_func.declaration import Items
from nnc_func.engine.copying import COPY
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.alternatives import Alternatives, smallest
from nnc_func.engine.planning.bodies import with_bodies
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.loops import form
from nnc_func.engine.planning.offsets import plan_of
from nnc_func.engine.planning.planner import Planned, planned_smallest
from nnc_func.facets.dims import substitute, symbols_of
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value

Symbolic = dict[Value, Value]
"""A value of the graph with numbers, and the one with symbols that it stands for."""


class Coincidence(Exception):  # noqa: N818 - no error: another capacity is taken
    """For these numbers two things are one that differ for others."""


@frozen(eq=False)
class Capacity:
    """A plan for extents up to a capacity.

    Attributes
    ----------
    plan
        With the numbers of the capacity.
    constants
        Arrays.
    avals
        Slot to its aval with symbols; of scratch, None.
    items
        The parameters of each instruction, with symbols.
    extents
        The capacity: symbol to number.
    """

    plan: Plan
    constants: list[Any]
    avals: list[Any]
    items: list[Items]
    extents: Mapping[str, int]

    def suffices(self, dims: Mapping[str, int]) -> bool:
        """Whether these extents are no larger."""
        return all(dims[symbol] <= number for symbol, number in self.extents.items())

    def at(self, dims: Mapping[str, int]) -> Plan:
        """The plan with shapes for these extents, in the same memory: for messages, and to look at."""
        pairs = zip(self.plan.slots, self.avals, strict=True)
        slots = tuple([s if a is None else evolve(s, aval=_with(a, dims)) for s, a in pairs])
        rows = zip(self.plan.instructions, self.items, strict=True)
        return evolve(
            self.plan, slots=slots, instructions=tuple([evolve(i, items=substitute(n, dims)) for i, n in rows])
        )


def planned(engine: Any, graph: ComputationGraph, extents: Mapping[str, int]) -> Capacity:
    """The plan of a graph for extents up to these; for a little more, where something coincides for just these."""
    while True:
        try:
            return _planned(engine, graph, extents)
        except Coincidence:
            extents = {symbol: number + 1 for symbol, number in extents.items()}


def _planned(engine: Any, graph: ComputationGraph, extents: Mapping[str, int]) -> Capacity:
    concrete = graph.specialised(extents)
    symbolic = _paired(graph, concrete)
    own = engine.passes

    def alias(draft: Draft) -> Draft:
        draft.apart = frozenset([n for n in draft.graph.nodes if n.op.parts is not None])
        return own.alias(draft)  # type: ignore[no-any-return]

    def in_place(draft: Draft) -> Draft:
        avals = _avals(draft, symbolic)
        same = {(row.storage, aval) for row, aval in zip(draft.slots, avals, strict=True)}
        draft.overwritable = [
            tuple([_fitting(draft, avals, same, pair) for pair in pairs]) for pairs in draft.overwritable
        ]
        return own.in_place(draft)  # type: ignore[no-any-return]

    passes = evolve(own, alias=alias, in_place=in_place)
    request = evolve(engine.request(concrete), passes=passes, lends=False, streams=1)
    request = with_bodies(request, lambda each: planned_smallest(evolve(each, passes=own)).plan)
    growing = {form(n) for n in concrete.nodes if n.op.holds_body and _grows(symbolic, n)}
    request = evolve(request, loops={k: v for k, v in request.loops.items() if k not in growing})
    draft = smallest(Alternatives(request))
    plan, blocks = plan_of(draft)
    if config.spec >= 1 or not engine.is_ours:
        engine.verify(Planned(plan, blocks, draft.constant_values), concrete)
    avals: list[Any] = [*_avals(draft, symbolic)]
    avals += [None] * (len(plan.slots) - len(avals))  # scratch
    items = [
        _symbolic(symbolic, row.node).items if row.node in draft.kernels else row.node.items
        for row in draft.instructions
    ]
    return Capacity(plan, draft.constant_values, avals, items, dict(extents))


def _paired(graph: ComputationGraph, concrete: ComputationGraph) -> Symbolic:
    """What stands for what.

    Raises
    ------
    Coincidence
        Two values with different shapes, or parameters, are one.
    """
    found: Symbolic = {}
    waiting = [*zip(concrete.outputs, graph.outputs, strict=True), *zip(concrete.inputs, graph.inputs, strict=True)]
    while waiting:
        number, symbol = waiting.pop()
        known = found.get(number)
        if known is None:
            found[number] = symbol
            waiting += zip(number.node.args, symbol.node.args, strict=True)
            others = zip(number.node.results, symbol.node.results, strict=True)
            waiting += [pair for pair in others if pair[0] not in found]
        elif known is not symbol and (known.aval != symbol.aval or known.node.items != symbol.node.items):
            raise Coincidence
    return found


def _symbolic(symbolic: Symbolic, node: Node) -> Node:
    return next(symbolic[value] for value in node.results if value in symbolic).node


def _grows(symbolic: Symbolic, node: Node) -> bool:
    """Whether the shape of an operand, a result or a parameter depends on an unknown extent."""
    found = _symbolic(symbolic, node)
    avals = [*found.avals, *(a.aval for a in found.args)]
    return any(a.symbols for a in avals) or bool(symbols_of(tuple([value for _, value in found.items])))


def _avals(draft: Draft, symbolic: Symbolic) -> list[Aval]:
    """Of each slot, with symbols; a copy has that of what it shows."""
    found: list[Any] = [row.aval for row in draft.slots]
    for value, slot in draft.slot_of.items():
        if value in symbolic:
            found[slot] = symbolic[value].aval
    for row in draft.instructions:
        if row.node not in draft.kernels and row.node.op is COPY and len(row.operands) == 1:
            found[row.results[0]] = found[row.operands[0]]
    return found


def _fitting(draft: Draft, avals: list[Aval], same: set[tuple[int, Aval]], pair: Any) -> Any:
    """What a storage may be written over, without what is only as large as it for these numbers."""
    made, homes, slots = pair
    kept = [n for n, slot in enumerate(slots) if (made, avals[slot]) in same]
    return made, [homes[n] for n in kept], [slots[n] for n in kept]


def _with(aval: Aval, dims: Mapping[str, int]) -> Aval:
    return aval.having(shape=substitute(aval.shape, dims)) if aval.symbols else aval


def appended(capacity: Capacity, inputs: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Instructions that put an input before something, and give an output of that: instruction, and output.

    Parameters
    ----------
    inputs
        Output to the input that it may begin with, by position.
    """
    plan = capacity.plan
    outputs = {plan.outputs[output]: plan.inputs[given] for output, given in inputs.items()}
    for t, i in enumerate(plan.instructions):
        if i.op.parts is not None and not i.view and i.op.name == "concat" and len(i.operands) > 1:
            (result,) = i.results
            if outputs.get(result) == i.operands[0] and i.operands.count(i.operands[0]) == 1:
                yield t, plan.outputs.index(result)
