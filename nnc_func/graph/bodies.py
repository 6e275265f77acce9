"""Bodies made of nodes: what some of them compute from others, as a value; and bodies that are rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.declaration import Items
from nnc_func.errors import OperatorError
from nnc_func.graph.leaves import CONSTANT, LEAVES
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.loop import avals_of, loop
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.graph import ComputationGraph


def enclosed(parameters: Sequence[Value], members: Iterable[Node], results: Iterable[Value]) -> Body:
    """The body that computes some values from others.

    Parameters
    ----------
    parameters
        Values that become the body's parameters, in their order: all that the members read and do not make.
    members
        The nodes that it computes, each after those whose results it reads.
    results
        Values that it gives.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = (lazy.input(name, (3,), "float32") for name in "xy")
    >>> z = lazy.ops.tanh(x + y)
    >>> enclosed((x.value, y.value), [z.value.node.args[0].node, z.value.node], (z.value,))
    (%0, %1) { %2 = add(%0, %1); %3 = tanh(%2); return %3 }
    """
    return _enclosed(parameters, {}, members, results)


def _enclosed(
    parameters: Sequence[Value], numbers: Mapping[Value, Application], members: Iterable[Node], results: Iterable[Value]
) -> Body:
    number = {value: i for i, value in enumerate(parameters)}
    applications: list[Application] = []

    def number_of(value: Value) -> int:
        if value not in number:  # a literal stands before what reads it first
            number[value] = len(number)
            applications.append(numbers[value])
        return number[value]

    for node in members:
        operands = tuple([number_of(a) for a in node.args])
        applications.append(Application(node.op, operands, node.items, len(node.avals)))
        for value in node.results:
            number[value] = len(number)
    return Body(len(parameters), applications, [number_of(value) for value in results])


def abstract(
    parameters: Sequence[Value], results: Sequence[Value], whole: bool = False
) -> tuple[Body, tuple[Value, ...]]:
    """The body that computes values from leaves, and what it captures: what is not made of these leaves.

    A node is inside where it depends on a parameter: what is made of others alone belongs outside, and is captured, as
    is a variable, and an array that is a constant. A number that is a constant stands inside, and so does a fill.

    Parameters
    ----------
    parameters
        Different leaves: the first parameters of the body. The captured values are the others.
    results
        What it gives.
    whole
        Whether all that is computed stands inside, and leaves alone are captured.

    Raises
    ------
    OperatorError
        A parameter is given twice, or is no leaf.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = (lazy.input(name, (3,), "float32") for name in "xy")
    >>> body, captured = abstract((x.value,), ((x * lazy.ops.exp(y) + 2).value,))
    >>> body
    (%0, %1) { %2 = multiply(%0, %1); %3 = full(shape=(), value=2.0, dtype=float32); %4 = add(%2, %3); return %4 }
    >>> captured
    (exp(input[3]): float32[3],)
    """
    if len(set(parameters)) != len(parameters) or any(p.node is not p or p.node.args for p in parameters):
        raise OperatorError(f"the parameters of a body are different leaves, given {list(parameters)}")
    inside = {p.node for p in parameters}
    members = []
    for node in topological(results, inside):
        if not inside.isdisjoint([a.node for a in node.args]) or (whole and node.op not in LEAVES):
            inside.add(node)
            members.append(node)
    made = {p.node for p in parameters}.union(members)
    read = dict.fromkeys([*(a for m in members for a in m.args), *results])
    outside = [value for value in read if value.node not in made]
    numbers = {value: number for value in outside if (number := literal(value)) is not None}
    captured = tuple(value for value in outside if value not in numbers)
    return _enclosed((*parameters, *captured), numbers, members, results), captured


def literal(value: Value) -> Application | None:
    """A number as an application inside a body; None of what is none, or whose bits a number does not keep."""
    node = value.node
    if node.op is full:
        return Application(full, (), node.items)
    array = node.table.literals.get(node) if node.op is CONSTANT else None
    if array is None or array.shape or value.aval.layout is not None or value.aval.place is not None:
        return None
    if array != array:  # a NaN has more bits than a number tells
        return None
    return Application(full, (), {"shape": (), "value": array.item(), "dtype": array.dtype})


def optimised(body: Body, avals: Sequence[Aval], optimiser: Any) -> tuple[Body, tuple[Value, ...]]:
    """A body, rewritten by the rules of an Optimiser for parameters of these avals; and what it captures then.

    It is built of inputs of its own, which nothing else reads, rewritten, and taken apart again.

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
    symbol = optimiser.operator.symbol
    inputs = [symbol.input(f"%{i}", aval) for i, aval in enumerate(avals)]

    def applied(op: Op, args: Any, items: Items) -> Any:
        given, items = _loop_optimised(op, tuple(args), items, optimiser)
        return symbol.apply(op, given, items)

    values = body.values(applied, inputs)
    return abstract(inputs, optimiser.optimise([values[i] for i in body.results]).roots)


def with_bodies_optimised(graph: ComputationGraph, optimiser: Any) -> tuple[ComputationGraph, dict[Node, Node]]:
    """The graph with the bodies of its loops rewritten, each for what it is given; and what became of those loops.

    It is the same graph where no body is rewritten.
    """
    if not any(node.op is loop for node in graph.nodes):
        return graph, {}
    symbol = optimiser.operator.symbol
    made: dict[Node, tuple[Value, ...]] = {}
    loops: dict[Node, Node] = {}

    def at(value: Value) -> Value:
        found = made.get(value.node)
        return value if found is None else found[value.index]

    for node in graph.nodes:
        if not node.args:
            continue
        args, items = _loop_optimised(node.op, tuple(map(at, node.args)), node.items, optimiser)
        if items is not node.items or args != node.args:
            found = symbol.apply(node.op, args, items, node.origin)
            made[node] = found if node.op.multi_result else (found,)
            if items is not node.items:
                loops[node] = found[0].node
    return graph.with_roots(tuple(map(at, graph.roots)), source=graph), loops


def _loop_optimised(op: Op, args: tuple[Value, ...], items: Items, optimiser: Any) -> tuple[tuple[Value, ...], Items]:
    """Operands and parameters of an application, of a loop with its body rewritten; what that captures is constant."""
    if op is not loop:
        return args, items
    params = dict(items)
    before, constants = params["body"], params["constants"]
    counted = params["counted"]
    avals = avals_of(tuple([a.aval for a in args]), before, constants, params["carries"], counted)
    body, captured = optimised(before, avals, optimiser)
    if body == before:
        return args, items
    count, more = before.parameters, len(captured)
    number = [*range(constants), *range(constants + more, count + more), *range(constants, constants + more)]
    number += range(body.parameters, body.parameters + sum(each.count for each in body.applications))
    applications = [evolve(each, operands=tuple([number[i] for i in each.operands])) for each in body.applications]
    params["body"] = Body(body.parameters, applications, [number[i] for i in body.results])
    params["constants"] = constants + more
    return (*args[:constants], *captured, *args[constants:]), op.canonical(params)
