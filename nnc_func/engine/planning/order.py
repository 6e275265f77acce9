"""Orders: which valid sequence of a graph's nodes is run. One function an order; the least simulated peak is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnc_func.errors import PlanError
from nnc_func.graph.node import Node, Value, topological

Order = Callable[[Sequence[Value]], list[Node]]


def depth_first(roots: Sequence[Value]) -> list[Node]:
    """Operands first, from the first root to the last."""
    return topological(roots)


def as_written(roots: Sequence[Value]) -> list[Node]:
    """In the order in which the nodes were made: what an eager program does."""
    return sorted(topological(roots), key=_serial)


def _serial(node: Node) -> int:
    return node.serial


ORDERS: Mapping[str, Order] = {"depth_first": depth_first, "as_written": as_written}


def simulated_peak(order: Sequence[Node], roots: Sequence[Value], is_view: Callable[[Node], bool]) -> int:
    """The most bytes alive at one time in that order, views free, operands released after their last use."""
    base: dict[Node, Node] = {}
    last: dict[Node, int] = {}
    for t, node in enumerate(order):
        for a in node.args:
            last[base.get(a.node, a.node)] = t
        if node.args and is_view(node):
            first = node.args[0].node
            base[node] = base.get(first, first)
    for root in roots:
        last[base.get(root.node, root.node)] = len(order)
    dies: dict[int, int] = {}
    alive = peak = 0
    for t, node in enumerate(order):
        if node.args and node not in base:
            size = _nbytes(node)
            alive += size
            end = last.get(node, t)
            dies[end] = dies.get(end, 0) + size
        peak = max(peak, alive)
        alive -= dies.pop(t, 0)
    return peak


def _nbytes(node: Any) -> int:
    return sum(a.nbytes for a in node.avals)


def is_view(node: Node) -> bool:
    """Whether the operator shows memory of an operand."""
    return node.op.view is not None


def chosen(roots: Sequence[Value], names: Sequence[str]) -> tuple[list[Node], str]:
    """The nodes in the order that has the least simulated peak, of those named; and its name.

    Raises
    ------
    PlanError
        No order, or one that there is not.
    """
    unknown = [name for name in names if name not in ORDERS]
    if unknown or not names:
        raise PlanError(f"no order named {', '.join(map(repr, unknown)) or 'at all'}; there are: {', '.join(ORDERS)}")
    found = {name: ORDERS[name](roots) for name in names}
    best = min(found, key=lambda name: simulated_peak(found[name], roots, is_view) if len(found) > 1 else 0)
    return found[best], best
