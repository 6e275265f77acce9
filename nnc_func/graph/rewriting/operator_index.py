"""An index finds the rules that may match a node, by the operators of it and of its operands."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from nnc_func.graph.node import Node
from nnc_func.graph.rewriting.mutable import MutableNode
from nnc_func.op import Op

Heads = tuple[Any, ...]  # operators, and perhaps `TWICE`
TWICE = "twice"
_op, _place = attrgetter("op"), attrgetter("place")


def heads_of(node: Node) -> Heads:
    """The operators of a node and of its operands, and whether it has two operands that are one value.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (), "float32")
    >>> heads_of((x + 1).value), heads_of((x * x).value)
    ((add, input, constant), (multiply, input, input, 'twice'))
    """
    args = node.args
    if len(args) == 1:
        return (node.op, args[0].op)
    if len(args) == 2:
        a, b = args
        return (node.op, a.op, b.op) if a is not b else (node.op, a.op, a.op, TWICE)
    return (node.op, *map(_op, args))


class Alike(list[MutableNode]):
    """Nodes of the same heads, which are one tuple for all of them."""

    __slots__ = ("heads",)
    heads: Heads


class ByHeads(dict[Heads, Alike]):
    """The nodes of a graph by their heads, in no order; also some that are gone, or had these heads once.

    Those that are in the graph are there under the heads that they have, if `add` was told of all that changed.
    """

    def __missing__(self, heads: Heads) -> Alike:
        found = self[heads] = Alike()
        found.heads = heads
        return found

    def add(self, nodes: Iterable[MutableNode]) -> None:
        """Put nodes under their heads."""
        for node in nodes:
            if node.users is not None:
                alike = self[node.heads or heads_of(node)]
                node.heads = alike.heads
                alike.append(node)

    def operators(self) -> set[Op]:
        """Those that are applied in the graph; heads that no node has any more are forgotten."""
        found, gone = set[Op](), []
        for heads, nodes in self.items():
            for node in nodes:
                if node.users is not None:
                    found.add(heads[0])
                    break
            else:
                gone.append(heads)
        for heads in gone:
            del self[heads]
        return found

    def of(self, op: Op) -> list[MutableNode]:
        """The applications of an operator, in the order of the graph."""
        found = {n for heads, nodes in self.items() if heads[0] is op for n in nodes if n.users is not None}
        return sorted(found, key=_place)
