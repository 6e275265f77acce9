"""What a picture tells of each node, as data: its record, its block of memory, its tooltip. Nothing is drawn here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import GraphError
from nnc_func.graph.formulas.formula import FUSED, formula
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, LEAVES, VARIABLE
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import describe
from nnc_func.graph.text.literals import Names, array_text
from nnc_func.graph.text.writing import numbered


@frozen
class Record:
    """One node, as Owl's figures tell it.

    Attributes
    ----------
    number
        As in the graph's text.
    kind
        ``"input"``, ``"variable"``, ``"constant"``, or ``"operator"``.
    head, params
        The operator and its parameters that are not as by default; the name or value of a leaf.
    uses, shape, block
        Reference count; shapes of the results; the buffer of the first result, None where that is not known.
    ends
        What it becomes: outputs, updates, an effect.
    description
        All of it, with the user's line.
    """

    number: int
    kind: str
    head: str
    params: str
    uses: int
    shape: str
    block: int | None
    ends: str
    description: str


def records(graph: Any, plan: Any, blocks: Mapping[Node, int] | None) -> dict[Node, Record]:
    """A record for each node, operands first."""
    numbers, names = numbered(graph), Names()
    where = blocks if blocks is not None else matched(graph, plan) if plan is not None else {}
    uses = Counter(a.node for n in graph.nodes for a in n.args)
    ends: dict[Node, list[str]] = {}
    for position, value in enumerate(graph.outputs):
        ends.setdefault(value.node, []).append(f"output {position}")
    for variable, value in graph.updates:
        ends.setdefault(value.node, []).append(f"update of {variable.data.name}")
    for value in graph.effects:
        ends.setdefault(value.node, []).append("effect")
    return {
        n: Record(
            numbers[n, 0],
            _kind(n),
            _head(n),
            _params(n, numbers, names),
            uses[n],
            _shape(n, names),
            where.get(n),
            ", ".join(ends.get(n, ())),
            _description(n, numbers, names, where.get(n)),
        )
        for n in graph.nodes
    }


def _kind(node: Node) -> str:
    return {INPUT: "input", VARIABLE: "variable", CONSTANT: "constant", HELD: "constant"}.get(node.op, "operator")


def _head(node: Node) -> str:
    if node.op is INPUT:
        return f"input {node.data}"
    if node.op is VARIABLE:
        return f"variable {node.data.name}"
    return node.op.name


def _params(node: Node, numbers: Any, names: Names) -> str:
    if node.op is CONSTANT:
        return array_text(node.data.reshape(())) if isinstance(node.data, np.ndarray) and node.data.size == 1 else ""
    if node.op.name in FUSED:
        found = formula(node, {a.node: f"%{numbers[a.node, 0]}" for a in node.args})
        computed = found.parts[0] if node.op.multi_result else found
        if not computed.params:
            return ", ".join(map(str, computed.parts))
    given = [(k, v) for k, v in node.items if k not in node.op.params or v != node.op.params[k]]
    return ", ".join(f"{k}={_literal(v, names)}" for k, v in given)


def _literal(value: Any, names: Names) -> str:
    try:
        return names.literal(value)
    except GraphError:  # it has no written form, but a picture is not read back
        return repr(value)


def _shape(node: Node, names: Names) -> str:
    return ", ".join(f"[{', '.join(map(names.extent, a.shape))}]" for a in node.avals)


def _description(node: Node, numbers: Any, names: Names, block: int | None) -> str:
    inside = [f"%{numbers[a.node, a.index]}" for a in node.args]
    inside += [f"{k}={_literal(v, names)}" for k, v in node.items]
    called = f"{_head(node)}({', '.join(inside)})" if node.op not in LEAVES else _head(node)
    results = ", ".join(f"%{numbers[node, i]}" for i in range(len(node.avals)))
    rows = [f"{results} = {called} : {', '.join(map(names.aval, node.avals))}"]
    if block is not None:
        rows.append(f"in memory block {block}")
    where = describe(node.origin)
    return "\n".join([*rows, f"at {where}"] if where else rows)


# --- which buffer is whose --------------------------------------------------------------------------------


def matched(graph: Any, plan: Any) -> dict[Node, int]:
    """The buffer of each node's first result, for the nodes that a plan computes.

    Leaves go by their position; an application is that of the same operator and parameters to the same values. A
    graph other than the one that was planned shares what of it is the same.
    """
    blocks: dict[Node, int] = {}
    at: dict[int, tuple[Node, int]] = {}  # slot -> value
    held = [n for n in graph.nodes if n.op in (CONSTANT, HELD)]
    constants = [(n, i) for n in held for i in range(len(n.avals))]
    leaves = (
        (plan.inputs, [(n, 0) for n in graph.inputs]),
        (plan.variables, [(n, 0) for n in graph.variables]),
        (plan.constants, constants),
    )
    for slots, values in leaves:
        for slot, value in zip(slots, values, strict=False):
            if plan.slots[slot].aval == value[0].avals[value[1]]:
                at[slot] = value
    applied: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.op not in LEAVES:
            applied.setdefault(_key(node.op, node.items, [_value(a) for a in node.args]), []).append(node)
    for i in plan.instructions:
        operands = [at.get(s) for s in i.operands]
        found = applied.get(_key(i.op, i.items, operands))
        if found:
            node = found.pop(0) if len(found) > 1 else found[0]  # what is not pure may be there several times
            at.update((slot, (node, index)) for index, slot in enumerate(i.results))
    for slot, (node, index) in at.items():
        if index == 0:
            blocks[node] = plan.slots[slot].buffer
    return blocks


def _key(op: Any, items: Any, operands: list[Any]) -> Any:
    return op, op.key(items), tuple(operands)


def _value(value: Value) -> tuple[Node, int]:
    return value.node, value.index
