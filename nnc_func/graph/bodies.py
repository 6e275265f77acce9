"""Bodies made of nodes: what some of them compute from others, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from nnc_func.body import Application, Body
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import symbols_of
from nnc_func.graph.leaves import CONSTANT, LEAVES
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.effects import token


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
        applications.append(Application.of_node(node.op, operands, node.items, len(node.avals)))
        for value in node.results:
            number[value] = len(number)
    return Body(len(parameters), applications, [number_of(value) for value in results])


def abstract(
    parameters: Sequence[Value], results: Sequence[Value], whole: bool = False, symbols: Set[str] = frozenset()
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
    symbols
        Of extents that are known inside alone: what has one stands inside.

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
        within = not inside.isdisjoint([a.node for a in node.args])
        if within or (node.op not in LEAVES and (whole or (symbols and mentions(node, symbols)))):
            inside.add(node)
            members.append(node)
    made = {p.node for p in parameters}.union(members)
    read = dict.fromkeys([*(a for m in members for a in m.args), *results])
    outside = [value for value in read if value.node not in made]
    numbers = {value: number for value in outside if (number := literal(value)) is not None}
    captured = tuple(value for value in outside if value not in numbers)
    return _enclosed((*parameters, *captured), numbers, members, results), captured


def mentions(node: Node, symbols: Set[str]) -> bool:
    """Whether one of these is in the shape of a result, or in a parameter."""
    return any(not symbols.isdisjoint(a.symbols) for a in node.avals) or not symbols.isdisjoint(
        symbols_of(tuple([value for _, value in node.items]))
    )


def literal(value: Value) -> Application | None:
    """A number, or the first token, inside a body; None of what is neither, or whose bits a number does not keep."""
    node = value.node
    if node.op is full or node.op is token:
        return Application.of_node(node.op, (), node.items, 1)
    array = node.table.literals.get(node) if node.op is CONSTANT else None
    if array is None or array.shape or value.aval.layout is not None or value.aval.place is not None:
        return None
    if array != array:  # a NaN has more bits than a number tells
        return None
    return Application(full, (), {"shape": (), "value": array.item(), "dtype": array.dtype})
