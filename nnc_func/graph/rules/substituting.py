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


def now(done: Mapping[Node, Value], value: Value) -> Value:
    """What a value has become."""
    found = done[value.node]
    return found.node.result(value.index) if value.node.op.multi_result else found


def substituted(roots: tuple[Value, ...], replaced: Mapping[Node, Value], builder: Any) -> tuple[Value, ...]:
    """The roots, with nodes replaced wherever they are used: by what is made of old values, which become new ones.

    So is what a node is on new operands. A replacement must not depend on what it replaces.
    """

    given = dict(replaced)

    def target(value: Value) -> Value:
        while value.node in given:
            value = given[value.node]
        return value

    done: dict[Node, Value] = {}

    stack = [r.node for r in roots]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        of = target(node) if node in given else None
        pending = [of.node] if of is not None else [a.node for a in node.args]
        pending = [each for each in pending if each not in done]
        if pending:
            stack += pending
            continue
        if of is not None:
            done[node] = now(done, of)
            continue
        args = tuple([now(done, a) for a in node.args])
        builder.where = node.origin
        made = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
        if made is not node and made in given:
            given[node] = made
        else:
            done[node] = made
    return tuple([now(done, r) for r in roots])
