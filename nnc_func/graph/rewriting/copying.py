"""Copies of the nodes of a graph that is to be rewritten, and what is known of them from the start."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node
from nnc_func.graph.rewriting.mutable import Images, MutableNode, tell
from nnc_func.graph.rewriting.operator_index import TWICE, ByHeads, Heads, heads_of

_written = attrgetter("op", "items", "args")


class Copies:
    """A copy of each of some nodes, which come operands first.

    Attributes
    ----------
    own
        Nodes to their copies.
    leaves
        Nodes without operands to their copies.
    by_heads
        The copies by their heads.
    equal
        Operator, parameters and operands to the copy that is their application.
    unused, repeated
        Copies that no other one uses; those that some node uses twice, perhaps.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.own, self.by_heads = Images(), ByHeads()
        self.leaves: dict[Node, MutableNode] = {}
        self.unused: list[MutableNode] = []
        self.repeated: set[MutableNode] = set()
        self.equal: dict[Any, MutableNode] = {}
        self._copy(nodes)
        for heads, copies in self.by_heads.items():
            self._list(heads, copies)

    def _copy(self, nodes: Iterable[Node]) -> None:
        by_heads, own, leaves, new = self.by_heads, self.own, self.leaves, MutableNode.__new__
        image = own.__getitem__
        for place, node in enumerate(nodes):
            own[node] = copy = new(MutableNode)
            copy.args = args = tuple(map(image, node.args))
            copy.op, copy.items, copy.table = node.op, node.items, node.table
            copy.avals, copy.aval, copy.origin = node.avals, node.aval, node.origin
            copy.serial, copy.data, copy.source = node.serial, node.data, node
            copy.handle = copy.references = None
            for a in args:
                if type(a) is not MutableNode:
                    a = a.node
                a.users.append(copy)
            if not args:
                leaves[node] = copy
                if node.op is CONSTANT:
                    tell(copy, node)
            alike = by_heads[heads_of(copy)]
            alike.append(copy)
            copy.heads, copy.users, copy.place = alike.heads, [], place

    def _list(self, heads: Heads, copies: list[MutableNode]) -> None:
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
        if op.multi_result:
            self.repeated.update(copies)
        if len(heads) > 3 or heads[-1] is TWICE:
            self.repeated.update([a.node for node in copies for a in node.args])
