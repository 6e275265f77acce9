"""The nodes of a graph that is being rewritten: copies, which change in place, and know who uses them."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node

MutableValue = Any  # a `MutableNode`, or a result of one
NOWHERE = -1  # the place of a node that is no part of the graph


class MutableNode(Node):
    """A node of one rewriting, see `Workspace`: the copy of a node of the stack, or made by a rule.

    Its operands are such nodes, or results of them. Nobody outside the rewriting holds one.

    Attributes
    ----------
    source
        The node of the stack that it is a copy of; None if it is none.
    users
        The nodes that use it, see `Workspace.users`; None if it is no part of the graph.
    uses
        How often it is used, as an operand or a root.
    place
        Where it is in the order, or before which node it came in.
    heads
        Its operator and those of its operands, see `heads_of`; None until somebody asks.
    """

    __slots__ = ("heads", "place", "source", "users", "uses")
    args: tuple[MutableValue, ...]
    source: Node | None
    users: Any
    uses: int
    place: int
    heads: Any


def leaf_of(node: Node) -> MutableNode:
    """A copy of a node without operands, which is no part of a graph yet.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> leaf_of(nnc.lazy().input("x", (2,)).value)
    input('x'): float32[2]
    """
    leaf = MutableNode(node.table, node.op, (), node.items, node.avals, node.origin, node.data)
    leaf.serial, leaf.source, leaf.users, leaf.heads = node.serial, node, None, None
    if node.op is CONSTANT:
        tell(leaf, node)
    return leaf


def tell(copy: MutableNode, constant: Node) -> None:
    """Let the elements be known of a constant's copy that are known of the constant."""
    literals = constant.table.literals
    known = literals.get(constant)
    if known is not None:
        literals[copy] = known


class Images(dict[Any, Any]):
    """What nodes have become, which are nodes; and so what their results have."""

    def __missing__(self, value: Any) -> Any:
        if value is value.node:
            raise KeyError(value)
        node: Node = self[value.node]
        found = self[value] = value if node is value.node else node.result(value.index)
        return found
