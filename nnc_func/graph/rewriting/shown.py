"""What the nodes of a workspace are in the stack: where that is asked on the way, and in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.graph.node import Node, Result, Value
from nnc_func.graph.rewriting.mutable import Images, MutableNode

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.building import Builder


class Shown(Images):
    """What nodes of a workspace are in the stack, of those of which it has been asked."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self._builder = builder

    def of(self, value: Value) -> Value:
        """A value as it is, as one of the stack."""
        stack: list[Any] = [value.node]
        while stack:
            node = stack[-1]
            missing = [a.node for a in node.args if a.node not in self]
            if missing:
                stack += missing
                continue
            stack.pop()
            if node not in self:
                self._show(node)
        return self._value(value)

    def _value(self, value: Value) -> Value:  # without its results: they change with the node
        found: Node = self[value.node]
        return found.result(value.index) if type(value) is Result else found

    def _show(self, node: MutableNode) -> None:
        args, source = tuple(map(self._value, node.args)), node.source
        if source is not None and source.args == args:
            self[node] = source
        else:
            self[node] = self._builder.interned(node.op, args, node.items, node.avals, node.origin)

    def forget(self, node: MutableNode) -> None:
        """Forget what a node, and all that depends on it, was in the stack."""
        todo = [node]
        while todo:
            node = todo.pop()
            if self.pop(node, None) is not None:
                todo += node.users or ()

    def settle(self, order: list[MutableNode]) -> list[Node]:
        """Nodes, operands first, as the stack's, which are made anew where it has none that are equal."""
        image, settled = self.__getitem__, self._builder.settled
        for node in order:
            if node not in self:
                args, source = tuple(map(image, node.args)), node.source
                self[node] = source if source is not None and source.args == args else settled(node, args)
        return list(map(image, order))
