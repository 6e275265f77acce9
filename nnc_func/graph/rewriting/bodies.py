"""Loops and branches rewritten: each as a whole, and its bodies as graphs of their own, for what it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nnc_func.aval import Aval
from nnc_func.body import Body, bodies_of
from nnc_func.body_builder import BodyBuilder
from nnc_func.declaration import Items
from nnc_func.device.shared.queries import machine_of
from nnc_func.graph.bodies import abstract
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.custom import custom
from nnc_func.graph.ops.loop import avals_of, loop
from nnc_func.graph.origin import attributed, origin
from nnc_func.graph.rewriting.branches import simplified_branch
from nnc_func.graph.rewriting.loop_fusion import fused, has_siblings
from nnc_func.graph.rewriting.loops import Apply, simplified
from nnc_func.graph.rewriting.recurrent import as_layer, makes_layers
from nnc_func.graph.rules.rule import ROUNDING
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.graph import ComputationGraph

KNOWN = 4096  # bodies, of each Optimiser
HOLDERS = frozenset({loop, branch, custom})  # operators whose bodies are rewritten as graphs are


def optimised(body: Body, avals: Sequence[Aval], optimiser: Any, whole: bool = False) -> tuple[Body, tuple[Value, ...]]:
    """A body, rewritten by the rules of an Optimiser for parameters of these avals; and what it captures then.

    It is built of inputs of its own, which nothing else reads, rewritten, and taken apart again. With `whole` it
    captures nothing that is computed: what is made of numbers alone stays inside.

    Raises
    ------
    OperatorError
        The body has more parameters, or fewer.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> body = Body.of(1, (OPS["negative"], 0), (OPS["negative"], 1), (OPS["exp"], 2))
    >>> optimised(body, [nnc.Aval((3,), "float32")], nnc.lazy().optimiser)[0]
    (%0) { %1 = exp(%0); return %1 }
    """
    symbol, key = optimiser.operator.symbol, (body, tuple(avals), whole)
    known = optimiser.known_bodies.get(key)
    if known is not None:
        return known, ()
    with attributed(origin()):  # which is far below, and the same for all of it
        inputs = [symbol.input(f"%{i}", aval) for i, aval in enumerate(avals)]
        values = body.values(lambda op, args, items: symbol.apply(op, tuple(args), items), inputs)
    roots, _ = _with_bodies_optimised([values[i] for i in body.results], optimiser)
    found, captured = abstract(inputs, optimiser.optimise(roots).roots, whole)
    if not captured:
        if len(optimiser.known_bodies) >= KNOWN:
            optimiser.known_bodies.clear()
        optimiser.known_bodies[key] = found
        if body.holds_functions:
            optimiser.few_bodies.note(key)
    return found, captured


def with_bodies_optimised(graph: ComputationGraph, optimiser: Any) -> tuple[ComputationGraph, int]:
    """The graph with its loops and branches rewritten, and their bodies, each for what it is given; and how many were.

    It is the same graph where none is.
    """
    if not any(op.holds_body for op in {node.op for node in graph.nodes}):
        return graph, 0
    roots, count = _with_bodies_optimised(graph.roots, optimiser)
    return (graph.with_roots(tuple(roots), source=graph), count) if count else (graph, 0)


def _with_bodies_optimised(roots: Sequence[Value], optimiser: Any) -> tuple[Sequence[Value], int]:
    """As `with_bodies_optimised`, of roots; what loops give that no simpler one reads any more goes too, and so on."""
    machine, apply_at, count = machine_of(optimiser.operator.device), partial(_plainly, optimiser), 0
    if has_siblings(roots, machine):  # as they were written their bodies have more in common
        roots, count = _each(roots, optimiser, _simplified)
        roots, fewer = fused(roots, machine, apply_at)
        count += fewer
    if makes_layers(optimiser):  # as they were written their bodies are cells
        roots, more = _each(roots, optimiser, _layered)
        count += more
    while True:
        roots, more = _each(roots, optimiser, _rewritten)
        count += more
        while more:
            roots, more = _each(roots, optimiser, _trimmed)
        roots, fewer = fused(roots, machine, apply_at)
        if not fewer:
            return roots, count
        count += fewer


def _plainly(optimiser: Any, node: Node) -> Apply:
    """What makes nodes in place of one, with bodies as they are."""
    symbol = optimiser.operator.symbol
    return lambda op, operands, items: symbol.apply(op, operands, items, node.origin)


def _simplified(node: Node, args: tuple[Value, ...], used: set[int], optimiser: Any) -> Sequence[Value | None] | None:
    """The results of a loop from a simpler one, whose body is as it is."""
    if node.op is not loop:
        return None
    return simplified(args, node.items, used, _plainly(optimiser, node), optimiser.numerics >= ROUNDING)


def _layered(node: Node, args: tuple[Value, ...], used: set[int], optimiser: Any) -> Sequence[Value | None] | None:
    """The results of a loop from a recurrent layer, if it is one, or becomes one when it is simplified."""
    if node.op is not loop:
        return None
    plainly, layers = _plainly(optimiser, node), list[Sequence[Value]]()

    def apply(op: Op, operands: tuple[Value, ...], items: Items) -> Any:
        layers.extend(filter(None, [as_layer(operands, items, node.origin, optimiser)] if op is loop else []))
        return layers[-1] if layers and op is loop else plainly(op, operands, items)

    whole = simplified(args, node.items, used, apply, at_once=True)
    return as_layer(args, node.items, node.origin, optimiser) if whole is None else whole if layers else None


def _each(roots: Sequence[Value], optimiser: Any, rewrite: Callable[..., Any]) -> tuple[Sequence[Value], int]:
    """The roots with each loop or branch as it is rewritten, operands first; and how many were."""
    nodes = topological(roots)
    if not any(node.op in HOLDERS for node in nodes):
        return roots, 0
    symbol = optimiser.operator.symbol
    made: dict[Node, Sequence[Value | None]] = {}
    count = 0
    used: dict[Node, set[int]] = {}
    for value in (*roots, *(a for node in nodes for a in node.args)):
        used.setdefault(value.node, set()).add(value.index)

    def at(value: Value) -> Value:
        found = made.get(value.node)
        return value if found is None else found[value.index]  # type: ignore[return-value]

    for node in nodes:
        if not node.args:
            continue
        args = tuple(map(at, node.args))
        found = rewrite(node, args, used[node], optimiser) if node.op in HOLDERS else None
        if found is not None:
            made[node] = found
            count += 1
        elif args != node.args:
            applied = symbol.apply(node.op, args, node.items, node.origin)
            made[node] = applied if node.op.multi_result else (applied,)
    return tuple(map(at, roots)), count


def _apply(node: Node, optimiser: Any) -> Apply:
    """What makes nodes in place of one, with optimised bodies: a simpler body may leave less to do, and so on."""
    symbol = optimiser.operator.symbol

    def apply(op: Op, operands: tuple[Value, ...], items: Items) -> Any:
        if op is loop or op is branch:
            operands, items = _bodies_optimised(op, operands, items, optimiser)
            found = _simpler(op, operands, items, range(len(next(iter(bodies_of(items))).results)), apply)
            if found is not None:
                return tuple(found)
        return symbol.apply(op, operands, items, node.origin)

    return apply


def _simpler(
    op: Op, args: tuple[Value, ...], items: Items, used: Collection[int], apply: Apply
) -> Sequence[Value | None] | None:
    """The results of a loop or a branch that does less; None where there is nothing to leave out."""
    if op is loop:
        return simplified(args, items, used, apply, at_once=False)
    return simplified_branch(args, items, used, apply)


def _trimmed(node: Node, args: tuple[Value, ...], used: set[int], optimiser: Any) -> Sequence[Value | None] | None:
    """The results of a loop or a branch without those that are not used; None where there are none."""
    if node.op is custom or len(used) == len(node.avals):
        return None
    return _simpler(node.op, args, node.items, used, _apply(node, optimiser))


def _rewritten(node: Node, args: tuple[Value, ...], used: set[int], optimiser: Any) -> Sequence[Value | None] | None:
    """The results of a loop or a branch from simpler ones, those that are used; None where it is as simple."""
    apply = _apply(node, optimiser)
    if node.op is custom:  # a rule that nothing asked for
        body = node.params["body"]
        values = body.values(lambda op, xs, items: apply(op, tuple(xs), items), args)
        return _with_bodies_optimised([values[i] for i in body.results], optimiser)[0]
    if node.op is loop:
        whole = simplified(args, node.items, used, apply, optimiser.numerics >= ROUNDING)
        if whole is not None:
            return whole
    operands, items = _bodies_optimised(node.op, args, node.items, optimiser)
    if node.op is branch or items is not node.items:
        found = _simpler(node.op, operands, items, used, apply)
        if found is not None:
            return found
    return None if items is node.items else optimiser.operator.symbol.apply(node.op, operands, items, node.origin)


def _bodies_optimised(op: Op, args: tuple[Value, ...], items: Items, optimiser: Any) -> tuple[tuple[Value, ...], Items]:
    """Operands and parameters of a loop or a branch, with bodies rewritten; what these capture are operands."""
    params = dict(items)
    if op is branch:
        avals = [a.aval.having(layout=None) for a in args[1:]]
        found = [optimised(body, avals, optimiser, whole=True) for body in params["bodies"]]
        if all(body == before for (body, _), before in zip(found, params["bodies"], strict=True)):
            return args, items
        captured = [*dict.fromkeys(value for _, more in found for value in more)]
        params["bodies"] = tuple([_over(body, len(avals), its, captured) for body, its in found])
        return (*args, *captured), op.canonical(params)
    before, constants = params["body"], params["constants"]
    given = avals_of(tuple([a.aval for a in args]), before, constants, params["carries"], params["counted"])
    body, more = optimised(before, given, optimiser)
    if body == before:
        return args, items
    builder = BodyBuilder()
    first = builder.parameters(constants)
    captures = builder.parameters(len(more))
    rest = builder.parameters(before.parameters - constants)
    values = builder.include(body, [*first, *rest, *captures])
    params["body"] = builder.built([values[i] for i in body.results])
    params["constants"] = constants + len(more)
    return (*args[:constants], *more, *args[constants:]), op.canonical(params)


def _over(body: Body, own: int, its: Sequence[Value], captured: Sequence[Value]) -> Body:
    """A body of operands of its own, then of all that it and others capture."""
    builder = BodyBuilder()
    given = builder.parameters(own)
    outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
    values = builder.include(body, [*given, *(outer[value] for value in its)])
    return builder.built([values[i] for i in body.results])
