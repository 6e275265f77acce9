"""Copies of the nodes of a graph that is to be rewritten, and what is known of them from the start."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.heads import TWICE, ByHeads, heads_of

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
    """A copy of each of some nodes, which come operands first; leaves are their own copies. For what they hold besides
    what all nodes have, see `Workspace`.

    Attributes
    ----------
    own
        Nodes to their copies.
    by_heads, leaves
        The copies by their heads; those that are leaves.
    equal
        Operator, parameters and operands to the copy that is their application.
    repeated
        Copies that some node uses twice, perhaps.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.own, self.by_heads = Images(), ByHeads()
        self.leaves: list[Node] = []
        self.repeated: set[Node] = set()
        self.equal: dict[Any, Node] = {}
        self._copy(nodes)
        copies = [node for listed in self.by_heads.values() for node in listed]
        self.equal.update(zip(map(_written, copies), copies, strict=True))
        for heads, listed in self.by_heads.items():
            if heads[0].compares_bits:
                self.equal.update(((n.op, n.op.key(n.items), n.args), n) for n in listed)

    def _copy(self, nodes: Iterable[Node]) -> None:
        by_heads, own, repeated, new = self.by_heads, self.own, self.repeated, Node.__new__
        image = own.__getitem__
        for place, node in enumerate(nodes):
            heads = heads_of(node)
            if node.args:
                copy = new(Node)
                copy.args = args = tuple(map(image, node.args))
                copy.op, copy.items, copy.table, copy.avals = node.op, node.items, node.table, node.avals
                copy.aval, copy.origin, copy.serial, copy.source = node.aval, node.origin, node.serial, node
                copy.data = copy.handle = None
                for a in args:
                    if type(a) is not Node:
                        a = a.node
                        repeated.add(a)
                    a.users.append(copy)
                    a.uses += 1
                if len(args) > 2 or heads[-1] is TWICE:
                    repeated.update([a.node for a in args])
            else:
                copy = node
                self.leaves.append(node)
            own[node] = copy
            by_heads[heads].append(copy)
            copy.heads, copy.users, copy.uses, copy.place = heads, [], 0, place
