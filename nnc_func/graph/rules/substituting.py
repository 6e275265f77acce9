"""What passes share: who uses what, and a graph in which some values are replaced by others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc_func.graph.node import Node, Value


def users_of(roots: tuple[Value, ...], order: list[Node]) -> dict[Value, list[Node | None]]:
    """The nodes that use each value, once for each operand; None for each root that it is."""
    found: dict[Value, list[Node | None]] = {}
    for node in order:
        for a in node.args:
            found.setdefault(a, []).append(node)
    for root in roots:
        found.setdefault(root, []).append(None)
    return found


def substituted(roots: tuple[Value, ...], replaced: Mapping[Node, Value], builder: Any) -> tuple[Value, ...]:
    """The roots, with nodes replaced wherever they are used: by what is made of old values, which become new ones.

    A replacement must not depend on what it replaces.
    """

    def target(value: Value) -> Value:
        while value.node in replaced:
            value = replaced[value.node]
        return value

    done: dict[Node, Node] = {}

    def now(value: Value) -> Value:
        value = target(value)
        found = done[value.node]
        return found.result(value.index) if found.op.several else found

    stack = [target(r).node for r in roots]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        pending = [t for a in node.args if (t := target(a).node) not in done]
        if pending:
            stack += pending
            continue
        args = tuple(map(now, node.args))
        builder.where = node.origin
        done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return tuple(map(now, roots))
