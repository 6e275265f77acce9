"""What depends on variables outside of programs: it is computed of the values that they had when it was built.

A node of a variable is one of two: a *reading* is the variable's value at a time (`Symbol.reading`), the *place* is
whatever it is when a program starts (`Symbol.variable`). In a program each stands for the variable. A reading whose
variable has another value by now is in `InternTable.pasts`, with the array that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnc_func.errors import UnboundError
from nnc_func.facets.dims import symbols_of
from nnc_func.graph.leaves import INPUT, VARIABLE
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.origin import describe
from nnc_func.graph.refinement import undefined


def is_reading(node: Node) -> bool:
    """Whether it is the value that its variable has now."""
    return any(each() is node for each in node.data.readers)


def is_volatile(node: Node) -> bool:
    """Whether it is another value once its variable is: it is a place."""
    return node not in node.table.pasts and not is_reading(node)


def readings(nodes: Iterable[Node]) -> list[Node]:
    """Those that are values that variables have now."""
    return [n for n in nodes if n.op is VARIABLE and is_reading(n)]


def have_passed(found: Iterable[Node]) -> bool:
    """Whether a variable has got another value since these were its values of now."""
    return any(n in n.table.pasts for n in found)


def array_of(node: Node) -> Any:
    """The array that shows a variable's node; nobody writes over it."""
    found = node.table.pasts.get(node)
    return node.data.snapshot() if found is None else found


def substituted(engine: Any, values: Sequence[Value], constant: bool) -> list[Value]:
    """Values that depend on places alone, and on arrays: those of readings, of all if `constant`, else of past ones."""
    symbol, replaced = engine.symbol, dict[Node, Any]()
    for node in topological(values):
        if node.op is VARIABLE:
            place = symbol.variable(node.data)
            if node is not place:
                fixed = node in node.table.pasts or (constant and is_reading(node))
                replaced[node] = symbol.held(array_of(node)) if fixed else place
    if not replaced:
        return [*values]
    return engine.operator.substitute(values, replaced)  # type: ignore[no-any-return]


def refuse_unbound(values: Sequence[Value]) -> list[Node]:
    """The nodes that the values depend on.

    Raises
    ------
    UnboundError
        One is an input: it has no value outside of a program's call.
    """
    nodes = topological(values)
    inputs = [n for n in nodes if n.op is INPUT]
    if inputs:
        named = ", ".join(f"{n.data!r}" + (f" (made at {w})" if (w := describe(n.origin)) else "") for n in inputs)
        raise UnboundError(
            f"the value is not known: it depends on the input {named}, which has none outside of a program's call; "
            "compile a program with stack.compile(inputs=[...], outputs=[...]) and call it with an array"
        )
    return nodes


def refuse_sizes(nodes: Sequence[Node]) -> None:
    """Raise UnboundError where a node's parameters have an extent that is not known: there is no input that has it."""
    stray = undefined(nodes, frozenset())
    if stray is not None:
        where = f" (made at {at})" if (at := describe(stray.origin)) else ""
        names = ", ".join(sorted(symbols_of(tuple([value for _, value in stray.items]))))
        raise UnboundError(
            f"the value is not known: it depends on the extent {names}{where}, which has no number while a function is "
            "traced, nor outside of a program's call. Where a Python if, and, or, max or min decides by it, use "
            "stack.cond, &, |, or ops.where, maximum, minimum of stack.asarray(x.shape[0])"
        )
