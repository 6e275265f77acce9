"""Values asked for outside of a compiled graph: one program for all that is wanted, cached by structure.

What a user holds and the computation passes anyway is kept too: its node becomes a leaf and forgets its operands, so
that a loop of forced values does not grow. So is what depends on no variable and is read by what does: after a variable
changed, only what depends on it is computed. What depends on variables is of the values that these had when it was
built, and is remembered for as long as it is held. What has no
operands, a fill or a range, stays what it is: its elements are known to rules before and after it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import finalize

from nnc_func.body import holds_functions
from nnc_func.engine.reading import array_of, have_passed, is_volatile, readings, refuse_sizes, refuse_unbound
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, LEAVES, VARIABLE
from nnc_func.graph.node import Node, Value

FORCED_PROGRAMS = 64
Versions = tuple[tuple[Any, int], ...]  # variables, and what their versions were


def forced(engine: Any, values: Sequence[Value]) -> list[Any]:
    """Device arrays with the values of these.

    Raises
    ------
    UnboundError
        A value depends on an input.
    """
    pending = [v for v in values if v.node.op not in LEAVES or v.node.op is INPUT]
    if not pending:
        return [_data(v) for v in values]
    while True:
        found, now = _computed(engine, values, pending)
        if not have_passed(now):
            return [found[v.node][v.index] if v.node in found else _data(v) for v in values]
        for node in found:  # a variable was changed meanwhile, in another thread
            engine.known.pop(node, None)


def _computed(engine: Any, values: Sequence[Value], pending: list[Value]) -> tuple[dict[Node, Any], list[Node]]:
    """The arrays of what depends on variables, and the values of variables that were read; the rest is settled."""
    with uncollected(engine.symbol.table.walking), engine.symbol.table.walking:
        nodes = refuse_unbound(pending)
        asked = {v.node for v in pending}
        changing = _changing(nodes)
        passing = {n: found[0] for n in changing if (found := engine.known.get(n)) and _as_then(found[1])}
        nodes = _needed(nodes, asked, passing)
        now = readings(nodes)
        between = _between(nodes, changing, passing)
        wanted = [
            n for n in nodes
            if n.op not in LEAVES and n not in passing and (n in asked or n in between or (_held(n) and _lasting(n)))
        ]  # fmt: skip
        if not wanted:
            return passing, []
        program, arrays = _prepared(engine, nodes, wanted, passing)
    found = iter(program.run(arrays))  # other threads may build, compile and run meanwhile
    with uncollected(engine.symbol.table.walking), engine.symbol.table.walking:
        passing |= _settled(engine, wanted, changing, found)
        return passing, now


def _changing(nodes: list[Node]) -> dict[Node, Versions]:
    """What depends on variables; and the versions of those whose value of now it is, whenever that is asked for."""
    variables = [n for n in nodes if n.op is VARIABLE]
    now = [(n.data, n.data.version) if is_volatile(n) else None for n in variables]
    bit = {n: 1 << i for i, n in enumerate(variables)}
    masks: dict[Node, int] = {}
    for node in nodes:
        mask = bit.get(node, 0)
        for a in node.args:
            mask |= masks.get(a.node, 0)
        if mask:
            masks[node] = mask
    told: dict[int, Versions] = {}
    for mask in masks.values():
        if mask not in told:
            told[mask] = tuple(pair for i, pair in enumerate(now) if pair is not None and mask >> i & 1)
    return {node: told[mask] for node, mask in masks.items() if node.op is not VARIABLE}


def _as_then(versions: Versions) -> bool:
    return all(variable.version == version for variable, version in versions)


def _needed(nodes: list[Node], asked: set[Node], known: Mapping[Node, Any]) -> list[Node]:
    """The nodes on the way from what is known to what is asked for."""
    needed = set(asked)
    for node in reversed(nodes):
        if node in needed and node not in known:
            needed.update([a.node for a in node.args])
    return [n for n in nodes if n in needed]


def _between(nodes: list[Node], changing: Mapping[Node, Any], known: Mapping[Node, Any]) -> set[Node]:
    """What depends on no variable, and is read by what does: of views, what they show."""
    found: set[Node] = set()
    for node in nodes:
        if node in changing and node not in known:
            for a in node.args:
                base = a.node
                while base.op.view is not None:
                    base = base.args[base.op.view.argument].node
                if base not in changing and base.args:
                    found.add(base)
    return found


def _held(node: Node) -> bool:
    return any(r.is_held for r in node.results) if node.op.multi_result else node.is_held


def _lasting(node: Node) -> bool:
    """Whether its value is worth keeping: a view is shown again from its base for nothing."""
    return node.op.view is None and bool(node.args)


def _data(value: Value) -> Any:
    node = value.node
    if node.op is VARIABLE:
        return array_of(node)
    return node.data[value.index] if node.op is HELD else node.data


def _prepared(engine: Any, nodes: list[Node], wanted: list[Node], known: Mapping[Node, Any]) -> tuple[Any, list[Any]]:
    """The one program for all that is wanted, and what it is called with."""
    pasts = engine.symbol.table.pasts
    leaves = [n for n in nodes if (n.op in (CONSTANT, HELD) and not _literal(n)) or n in known or n in pasts]
    key = _structure(nodes, leaves, wanted)
    program = engine.programs.get(key)
    if program is None:
        refuse_sizes(nodes)
        program = engine.programs[key] = _program(engine, nodes, leaves, wanted)
        if any(holds_functions(node.op, node.items) for node in nodes):
            engine.few.note(key)
        if len(engine.programs) > FORCED_PROGRAMS:
            engine.programs.popitem(last=False)
    else:
        engine.programs.move_to_end(key)
    return program, [a for n in leaves for a in (known[n] if n in known else _arrays(n))]


def _arrays(node: Node) -> tuple[Any, ...]:
    """The results of a leaf whose value is there."""
    if node.op is VARIABLE:
        return (node.table.pasts[node],)
    return node.data if node.op is HELD else (node.data,)


def _settled(
    engine: Any, wanted: list[Node], changing: Mapping[Node, Versions], found: Iterator[Any]
) -> dict[Node, Any]:
    """Nodes keep what cannot change, the rest is remembered and returned; what another thread has settled stays so."""
    passing: dict[Node, Any] = {}
    for node in wanted:
        arrays = tuple(next(found) for _ in node.avals)
        if node in changing:
            passing[node] = arrays
            _remember(engine.known, node, (arrays, changing[node]))
        elif node.op in LEAVES:
            continue
        elif not node.args:
            passing[node] = arrays
        else:
            several = node.op.multi_result
            node.table.settle(node, HELD if several else CONSTANT, arrays if several else arrays[0])
    return passing


def _remember(known: dict[Node, Any], node: Node, found: tuple[Any, Versions]) -> None:
    """Know a value for as long as a user holds it."""
    if node not in known:
        handle = next((h for r in node.results if r.handle is not None and (h := r.handle()) is not None), None)
        if handle is None:
            return
        finalize(handle, known.pop, node, None).atexit = False
    known[node] = found


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


def _program(engine: Any, nodes: list[Node], leaves: list[Node], wanted: list[Node]) -> Any:
    symbol = engine.symbol
    inputs: list[Node] = []
    values: dict[Node, Any] = {n: symbol.variable(n.data) for n in nodes if n.op is VARIABLE}
    for node in leaves:
        fresh = [symbol.input(f"held {len(inputs) + i}", aval) for i, aval in enumerate(node.avals)]
        inputs += fresh
        values[node] = fresh if node.op.multi_result else fresh[0]
    roots = [r for n in wanted for r in n.results]
    outputs = engine.operator.substitute(roots, values)
    from nnc_func.tree import ONE_LEAF, Structure

    structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
    program = engine.compile(engine.graph.close(inputs, outputs, (), "forced", structure))
    if program.plan is not None and not {*wanted}.isdisjoint({*program.source.nodes, *program.graph.nodes}):
        # what is cached keeps no node alive that holds a value
        program.forget_graph()
    return program
