"""A graph made anew, application by application: what is computed again, or moved, has other nodes behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from attrs import evolve

from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.memory import after, transfer

_serial = attrgetter("serial")


class Reapplication:
    """Nodes that are made one after another, of those of a graph.

    Parameters
    ----------
    graph
        Whose nodes are applied again.
    computed
        Nodes that are run; all other ones that have operands are views, which are shown again where they are read.

    Attributes
    ----------
    latest
        What stands for each node that was run, the last time.
    instead
        What stands for a value from now on, whatever its node is.
    made
        All nodes, in order.
    events
        The latest result in each place, after which a barrier there lets pass.
    """

    def __init__(self, graph: ComputationGraph, computed: Collection[Node]) -> None:
        self.graph, self.symbol, self.computed = graph, graph.layer.symbol, computed
        self.latest: dict[Node, Node] = {}
        self.instead: dict[Value, Value] = {}
        self.made: dict[Node, None] = {}
        self.events: dict[Any, Value] = {}
        self._behind: dict[tuple[Value, Any], Value] = {}  # a value as the last barrier lets it pass, by place

    @property
    def outcome(self) -> ComputationGraph:
        """The graph of what stands for outputs, updates and effects now."""
        outputs = tuple(self.at(v) for v in self.graph.outputs)
        updates = tuple((v, self.at(u)) for v, u in self.graph.updates)
        effects = tuple(self.at(t) for t in self.graph.effects)
        return evolve(self.graph, outputs=outputs, updates=updates, effects=effects)

    def run(self, node: Node) -> None:
        """Apply a node's operator to what stands for its operands, behind a barrier if it is not the first time."""
        args = [self.at(a) for a in node.args]
        if node in self.latest:
            args[0] = self.apply(after, (args[0], self.events[args[0].aval.place]), (), node.origin)
        self.latest[node] = self._again(node, args)
        event = self.latest[node].result(0)
        self.events[event.aval.place] = event

    def moved(self, value: Value, place: Any, origin: Any) -> Value:
        """A copy of a value in a place, another one each time: behind a barrier if it is not the first."""
        items, whole = transfer.canonical({"place": place}), value
        value = self._behind.get((whole, place), value)
        found = self._applied(transfer, (value,), items, origin)
        while found in self.made:
            value = self._behind[whole, place] = self.apply(after, (value, value), (), origin)
            found = self._applied(transfer, (value,), items, origin)
        self.made[found] = None
        return found.result(0)

    def at(self, value: Value) -> Value:
        """What stands for a value: views are shown again of what stands for what they show."""
        stack = [value]
        views: list[Node] = []
        shown: dict[Node, Node] = {}
        while stack:  # the views between it and what is computed, or a leaf
            each = stack.pop()
            node = each.node
            if each not in self.instead and node not in self.computed and node.args and node not in shown:
                shown[node] = node
                views.append(node)
                stack += node.args
        for node in sorted(views, key=_serial):
            args = [self._shown(a, shown) for a in node.args]
            shown[node] = self._again(node, args)
        return self._shown(value, shown)

    def apply(self, op: Any, args: tuple[Any, ...], items: Any, origin: Any) -> Node:
        """The node of an application, behind those that there are, unless it is among them."""
        node = self._applied(op, args, items, origin)
        self.made[node] = None
        return node

    def _applied(self, op: Any, args: tuple[Any, ...], items: Any, origin: Any) -> Node:
        found = self.symbol.apply(op, args, items, origin)
        node: Node = (found[0] if op.multi_result else found).node
        return node

    def _shown(self, value: Value, shown: dict[Node, Node]) -> Value:
        if value in self.instead:
            return self.instead[value]
        node = value.node
        return shown.get(node, self.latest.get(node, node)).result(value.index)

    def _again(self, node: Node, args: Sequence[Value]) -> Node:
        """The application of a node's operator to these: the node itself where they are its own operands."""
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            self.made[node] = None
            return node
        return self.apply(node.op, tuple(args), node.items, node.origin)
