"""Values asked for outside of a compiled graph: one program for all that is wanted, cached by structure.

What a user holds and the computation passes anyway is kept too: its node becomes a leaf and forgets its
operands, so that a loop of forced values does not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.engine.eager import refuse_unbound
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, LEAVES, VARIABLE
from nnc_func.graph.node import Node, Value

FORCED_PROGRAMS = 64


def forced(engine: Any, values: Sequence[Value]) -> list[Any]:
    """Device arrays with the values of these.

    Raises
    ------
    UnboundError
        A value depends on an input.
    """
    pending = [v for v in values if v.node.op not in LEAVES or v.node.op is INPUT]
    passing: dict[Node, Any] = {}
    if pending:
        nodes = refuse_unbound(pending)
        asked = {v.node for v in pending}
        changing = _changing(nodes)
        wanted = [
            n for n in nodes
            if n.op not in LEAVES and (n in asked or (_held(n) and _lasting(n) and n not in changing))
        ]  # fmt: skip
        passing = _compute(engine, nodes, wanted, changing)
    return [passing[v.node][v.index] if v.node in passing else _data(v) for v in values]


def _changing(nodes: list[Node]) -> set[Node]:
    """What depends on a variable: its value is of now, so that a node must not keep it."""
    found: set[Node] = set()
    for node in nodes:
        if node.op is VARIABLE or any(a.node in found for a in node.args):
            found.add(node)
    return found


def _held(node: Node) -> bool:
    return any(r.is_held for r in node.results) if node.op.several else node.is_held


def _lasting(node: Node) -> bool:
    return node.op.view is None  # a view is shown again from its base for nothing


def _data(value: Value) -> Any:
    node = value.node
    if node.op is VARIABLE:
        return node.data.array
    return node.data[value.index] if node.op is HELD else node.data


def _compute(engine: Any, nodes: list[Node], wanted: list[Node], changing: set[Node]) -> dict[Node, Any]:
    """Run one program for all that is wanted; nodes keep what cannot change, the rest is returned."""
    leaves = [n for n in nodes if n.op in (CONSTANT, HELD) and not _literal(n)]
    key = _structure(nodes, leaves, wanted)
    program = engine.programs.get(key)
    if program is None:
        program = engine.programs[key] = _program(engine, leaves, wanted)
        if len(engine.programs) > FORCED_PROGRAMS:
            engine.programs.popitem(last=False)
    else:
        engine.programs.move_to_end(key)
    arrays = [a for n in leaves for a in (n.data if n.op is HELD else (n.data,))]
    found = iter(program.run(arrays))
    passing: dict[Node, Any] = {}
    for node in wanted:
        table = node.table
        if node in changing:
            passing[node] = tuple(next(found) for _ in node.avals)
        elif node.op.several:
            table.settle(node, HELD, tuple(next(found) for _ in node.avals))
        else:
            table.settle(node, CONSTANT, next(found))
    return passing


def _literal(node: Node) -> bool:
    return node.op is CONSTANT and node in node.table.literals


def _structure(nodes: list[Node], leaves: list[Node], wanted: list[Node]) -> Any:
    """What a forced program depends on: operators, parameters, wiring, and the avals of what is given."""
    number = {n: i for i, n in enumerate(nodes)}
    given = set(leaves)
    parts: list[Any] = []
    for node in nodes:
        if node in given:
            parts.append(node.avals)
        elif node.op is VARIABLE:
            parts.append(node.data)
        elif node.op in LEAVES:
            parts.append((node.aval, node.table.literals[node].tobytes()))
        else:
            wiring = tuple([(number[a.node], a.index) for a in node.args])
            parts.append((node.op, node.op.key(node.items), wiring))
    return tuple(parts), tuple(number[n] for n in wanted)


def _program(engine: Any, leaves: list[Node], wanted: list[Node]) -> Any:
    symbol = engine.symbol
    inputs: list[Node] = []
    values: dict[Node, Any] = {}
    for node in leaves:
        fresh = [symbol.input(f"held {len(inputs) + i}", aval) for i, aval in enumerate(node.avals)]
        inputs += fresh
        values[node] = fresh if node.op is HELD else fresh[0]
    roots = [r for n in wanted for r in n.results]
    outputs = engine.operator.substitute(roots, values)
    from nnc_func.tree import ONE_LEAF, Structure

    structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
    return engine.compile(engine.graph.close(inputs, outputs, (), "forced", structure))
