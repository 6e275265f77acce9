"""What functions that rewrite are made to return instead: the same, but for the operator at its root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.rules.rule import Pass, Rewriter
from nnc_func.op import Catalogue

Alter = Callable[[Any, Any], Any]  # (value, builder) -> another value, or the same where it does not apply


def alterations_of(ops: Catalogue, neighbours: Callable[..., Any]) -> Iterator[tuple[str, str, Alter]]:
    """Kinds, what is done, and functions that alter a value."""

    def operator(value: Any, builder: Any) -> Any:
        node = value.node
        for other in neighbours(node.op, ops):
            params = {k: v for k, v in node.items if k in other.params}
            try:
                found = builder.apply(other, node.args, params)
            except NncError:
                continue
            if not isinstance(found, tuple) and found.aval == value.aval:
                return found
        return value

    yield "operator", "a neighbour for the operator of the result", operator
    yield "operands", "operands of the result exchanged", _exchanged
    yield "constant", "another constant", _another


def _exchanged(value: Any, builder: Any) -> Any:
    node = value.node
    if len(node.args) < 2 or node.op.has("commutative") or node.op.multi_result or node.args[0] is node.args[1]:
        return value
    try:
        found = builder.apply(node.op, (node.args[1], node.args[0], *node.args[2:]), dict(node.items))
    except NncError:
        return value
    return found if found.aval == value.aval else value


def _another(value: Any, builder: Any) -> Any:
    node = value.node
    if node.op is CONSTANT and node.data.size:
        changed = ~node.data if node.data.dtype.kind == "b" else node.data + node.data.dtype.type(1)
        return builder.symbol.constant(np.asarray(changed))
    if node.op.name == "full" and not node.args:
        number = node.params["value"]
        params = dict(node.items) | {"value": not number if isinstance(number, bool) else number + 1}
        return builder.apply(node.op, (), params)
    return value


def altered_function(rule: Rewriter | Pass, alter: Alter) -> Callable[..., Any]:
    """The rule's function, but what it returns is altered; its attribute `altered` has the number of times."""
    inner = rule.function
    altered = [0]

    def other(value: Any, builder: Any) -> Any:
        found = value if value.node.op is INPUT else alter(value, builder)
        altered[0] += found is not value
        return found

    def function(*given: Any) -> Any:
        found = inner(*given)
        if isinstance(rule, Rewriter):
            return None if found is None else other(found, given[-1])
        made, times = found
        if isinstance(made, dict):  # nodes, and what replaces them
            return {old: other(new, given[-1]) for old, new in made.items()}, times
        first, *rest = made
        return (other(first, given[-1]) if times else first, *rest), times

    function.altered = altered  # type: ignore[attr-defined]
    return function
