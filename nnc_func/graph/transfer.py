"""Graphs built anew: on another stack, or with unknown dimensions bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc_func.aval import Aval
from nnc_func.errors import NncError
from nnc_func.facets.dims import Extent, substitute
from nnc_func.graph.leaves import CONSTANT, INPUT, LEAVES, VARIABLE, Variable, brought
from nnc_func.graph.node import Node, Value
from nnc_func.graph.refinement import as_assumed, elsewhere
from nnc_func.op import Op


def moved(graph: Any, layer: Any) -> Any:
    """The graph built by another Graph layer.

    Raises
    ------
    OperatorError
        The other stack's catalogue lacks one of the operators.
    """
    symbol, device = layer.symbol, layer.device
    same_device = device == graph.layer.device
    copies: dict[Node, Value] = {}

    def leaf(node: Node) -> Value:
        if node.op is INPUT:
            return symbol.input(node.data, node.aval, node.origin)  # type: ignore[no-any-return]
        host = graph.layer.symbol.host_of(node)
        if host is not None:  # of a small constant, known even where the device has no elements
            return symbol.constant(host, place=node.aval.place)  # type: ignore[no-any-return]
        array = node.data.array if node.op is VARIABLE else node.data
        if not same_device:
            array = brought(device, graph.layer.device.to_numpy(array), place=node.aval.place)
        if node.op is CONSTANT:
            return symbol.constant(array)  # type: ignore[no-any-return]
        variable = node.data if same_device else Variable(node.data.name, array, node.aval, device)
        return symbol.variable(variable)  # type: ignore[no-any-return]

    for node in graph.nodes:
        if not node.args and node.op in LEAVES:
            copies[node] = leaf(node)
    return _rebuilt(graph, layer, copies, None)


def specialised(graph: Any, dims: Mapping[str, Extent]) -> Any:
    """The graph with those dimensions bound: inputs of known shape, everything above inferred again."""
    symbol = graph.layer.symbol
    copies: dict[Node, Value] = {
        n: symbol.input(n.data, n.aval.having(shape=substitute(n.aval.shape, dims)), n.origin) for n in graph.inputs
    }
    found = _rebuilt(graph, graph.layer, copies, dict(dims))
    for each in graph.assumptions:
        each.check(dims)
    return found


def check(graph: Any, dims: Mapping[str, int]) -> None:
    """Raise what `specialised` would raise: shapes are inferred again, and nothing is built."""
    shape = graph.layer.symbol.shape
    found: dict[Node, tuple[Aval, ...]] = {}
    for node in graph.nodes:
        if node.op in LEAVES:
            found[node] = tuple([a.having(shape=substitute(a.shape, dims)) if a.symbols else a for a in node.avals])
            continue
        items = tuple([(k, substitute(v, dims)) for k, v in node.items])
        try:
            avals = shape.infer(node.op, tuple([found[a.node][a.index] for a in node.args]), items)
        except NncError as error:
            raise elsewhere(node, error) from None
        found[node] = avals if node.op.multi_result else (avals,)
        as_assumed(node, found[node], dims)
    for each in graph.assumptions:
        each.check(dims)


def _rebuilt(graph: Any, layer: Any, copies: dict[Node, Value], dims: dict[str, Extent] | None) -> Any:
    roots = [*graph.outputs, *(v for pair in graph.updates for v in pair), *graph.effects]
    check: Any = getattr(layer.operator.type, "check", None)
    if check is not None:
        for op in _operators(graph):
            check(op)
    found = layer.operator.substitute(roots, copies, dims)
    rest = iter(found)
    outputs = [next(rest) for _ in graph.outputs]
    pairs = [(next(rest), next(rest)) for _ in graph.updates]
    inputs = [copies[n] for n in graph.inputs]
    return layer.close(inputs, outputs, pairs, graph.name, graph.structure, **effects_of(rest))


def effects_of(tokens: Any) -> dict[str, Any]:
    """Tokens as an argument of `close`; none where there are none: a layer of a user's own may know of no effects."""
    found = list(tokens)
    return {"effects": found} if found else {}


def _operators(graph: Any) -> set[Op]:
    return {n.op for n in graph.nodes} - LEAVES
