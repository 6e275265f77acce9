"""Copies of the nodes of a graph that is to be rewritten, and what is known of them from the start."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.heads import TWICE, ByHeads, Heads, heads_of

_written = attrgetter("op", "items", "args")


class Images(dict[Any, Any]):
    """What nodes have become, which are nodes; and so what their results have."""

    def __missing__(self, value: Value) -> Value:
        if value is value.node:
            raise KeyError(value)
        node: Node = self[value.node]
        found = self[value] = value if node is value.node else node.result(value.index)
        return found


class Copies:
    """A copy of each of some nodes, which come operands first; leaves are their own copies.

    For what copies hold besides what all nodes have, see `Workspace`.

    Attributes
    ----------
    own
        Nodes to their copies.
    by_heads, leaves
        The copies by their heads; those that are leaves.
    equal
        Operator, parameters and operands to the copy that is their application.
    unused, repeated
        Copies that no other one uses; those that some node uses twice, perhaps.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.own, self.by_heads = Images(), ByHeads()
        self.leaves: list[Node] = []
        self.unused: list[Node] = []
        self.repeated: set[Node] = set()
        self.equal: dict[Any, Node] = {}
        self._copy(nodes)
        for heads, copies in self.by_heads.items():
            self._list(heads, copies)

    def _copy(self, nodes: Iterable[Node]) -> None:
        by_heads, own, new = self.by_heads, self.own, Node.__new__
        image = own.__getitem__
        for place, node in enumerate(nodes):
            if node.args:
                copy = new(Node)
                copy.args = args = tuple(map(image, node.args))
                copy.op, copy.items, copy.table, copy.avals = node.op, node.items, node.table, node.avals
                copy.aval, copy.origin, copy.serial, copy.source = node.aval, node.origin, node.serial, node
                copy.data = copy.handle = None
                for a in args:
                    a.users.append(copy)
            else:
                copy = node
                self.leaves.append(node)
            own[node] = copy
            alike = by_heads[heads_of(copy)]
            alike.append(copy)
            copy.heads, copy.users, copy.place = alike.heads, [], place

    def _list(self, heads: Heads, copies: list[Node]) -> None:
        """Note what follows from heads, of these nodes."""
        op = heads[0]
        for node in copies:
            node.uses = uses = len(node.users)
            if not uses:
                self.unused.append(node)
        if op.compares_bits:
            self.equal.update(((op, op.key(node.items), node.args), node) for node in copies)
        else:
            self.equal.update(zip(map(_written, copies), copies, strict=True))
        if op.several:
            self.repeated.update(copies)
        if len(heads) > 3 or heads[-1] is TWICE:
            self.repeated.update([a.node for node in copies for a in node.args])
