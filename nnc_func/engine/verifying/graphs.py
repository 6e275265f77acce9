"""Whether a plan computes what a graph says. Part of verification, and shares no code with what makes a plan of one.

Values are numbered (Cocke and Schwartz, 1970): equal leaves get one number, and so do applications of one operator with
equal parameters to values of equal numbers. The plan, replayed so, has to give the numbers of the graph's outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from nnc_func.aval import Aval
from nnc_func.body import is_pure
from nnc_func.engine.copying import COPY, FILL
from nnc_func.engine.plan_rows import CONSTANT, INPUT, VARIABLE
from nnc_func.errors import PlanError
from nnc_func.graph import leaves
from nnc_func.graph.ops.memory import after, relayout
from nnc_func.graph.text.writing import digest
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

GAP = -1  # what is filled in where no part is
SAME = (COPY, after, relayout)  # operators whose result is their first operand


def check_graph(plan: Plan, constants: Sequence[Any], graph: Any) -> None:
    """Raise unless outputs, updates and effects of the plan are those of the graph, of the same inputs.

    Parameters
    ----------
    plan
        Verified, so that each slot has what its instruction gives whenever it is read.
    constants
        Their elements on the host, in the plan's order.
    graph
        With known extents: that of which the plan was made.

    Raises
    ------
    PlanError
        Says what differs.
    """
    numbers = Numbers()
    mine, theirs = _of_plan(numbers, plan, constants), _of_graph(numbers, graph)
    for what, one in mine.items():
        if one != theirs[what]:
            raise PlanError(f"the plan {plan.name!r} does not compute what its graph says: its {what} are others")


@define
class Numbers:
    """Numbers of values, by what they are."""

    known: dict[Any, int] = field(factory=dict)

    def of(self, *key: Any) -> int:
        """Of what is equal to nothing but what has that key."""
        return self.known.setdefault(key, len(self.known))

    def applied(self, op: Op, items: Any, operands: Sequence[int], results: int) -> list[int]:
        """Of the results of an application."""
        if op in SAME:
            return [operands[0]]
        made = self.of(op, op.key(items), *operands)
        return [self.of(made, n) for n in range(results)]

    def replayed(self, plan: Plan, found: dict[int, int]) -> list[int]:
        """Add to the numbers of leaves, by slot, those of what instructions make; of effects, the first results'."""
        effects = []
        for i in plan.instructions:
            operands = [found[s] for s in i.operands]
            if i.op is FILL:
                made = [GAP]
            else:
                parts = [n for n in operands if n != GAP] if i.op.parts is not None else operands
                made = self.applied(i.op, i.items, parts, len(i.results))
            effects += made[:1] if not is_pure(i.op, i.items) else []
            found.update(zip(i.results, made, strict=True))
        return effects

    def constant(self, array: Any, aval: Aval) -> int:
        """Of a constant, by its elements."""
        return self.of(CONSTANT, aval.dtype, aval.shape, aval.place, digest(array))


def _of_plan(numbers: Numbers, plan: Plan, constants: Sequence[Any]) -> dict[str, Any]:
    avals = [s.aval for s in plan.slots]
    found: dict[int, int] = {s: numbers.of(INPUT, at, avals[s]) for at, s in enumerate(plan.inputs)}
    names = plan.variable_names or tuple(map(str, range(len(plan.variables))))
    found |= {s: numbers.of(VARIABLE, names[at], avals[s]) for at, s in enumerate(plan.variables)}
    found |= {s: numbers.constant(a, avals[s]) for s, a in zip(plan.constants, constants, strict=True)}
    effects = numbers.replayed(plan, found)
    return {
        "inputs": (plan.input_names, [avals[s] for s in plan.inputs]),
        "outputs": [found[s] for s in plan.outputs],
        "updates": {names[at]: found[s] for at, s in plan.updates},
        "effects": sorted(effects),
        "names of outputs": plan.structure,
    }


def _of_graph(numbers: Numbers, graph: Any) -> dict[str, Any]:
    found: dict[Any, int] = {}  # by node and index
    effects = []
    for at, node in enumerate(graph.inputs):
        found[node, 0] = numbers.of(INPUT, at, node.aval)
    host = graph.layer.device.to_numpy
    for node in graph.nodes:
        if node.op is leaves.INPUT:
            continue
        if node.op is leaves.VARIABLE:
            found[node, 0] = numbers.of(VARIABLE, node.data.name, node.aval)
            continue
        if node.op in leaves.LEAVES:
            data = node.data if node.op.multi_result else (node.data,)
            made = [numbers.constant(host(a), aval) for a, aval in zip(data, node.avals, strict=True)]
        else:
            operands = [found[a.node, a.index] for a in node.args]
            made = numbers.applied(node.op, node.items, operands, len(node.avals))
        effects += made[:1] if not is_pure(node.op, node.items) else []
        found.update({(node, index): n for index, n in enumerate(made)})
    return {
        "inputs": (tuple(n.data for n in graph.inputs), [n.aval for n in graph.inputs]),
        "outputs": [found[v.node, v.index] for v in graph.outputs],
        "updates": {n.data.name: found[v.node, v.index] for n, v in graph.updates},
        "effects": sorted(effects),
        "names of outputs": graph.structure,
    }
