"""Orders: which valid sequence of a graph's nodes is run, and the commit section at its end.

One function an order; the planner keeps the one with the least simulated peak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnc_func.errors import PlanError
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.graph import ComputationGraph
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


def arranged(
    graph: ComputationGraph, kernels: Mapping[Node, Kernel], orders: Sequence[str], checked: bool
) -> tuple[list[Node], int, str]:
    """The sequence to run, the position at which its commit section starts, and the name of the order.

    With `checked` every kernel may be found to have failed, and there is no commit section.
    """
    updates = [u for _, u in graph.updates]
    roots = graph.roots
    unknown = [name for name in orders if name not in ORDERS]
    if unknown or not orders:
        raise PlanError(f"no order named {', '.join(map(repr, unknown)) or 'at all'}; there are: {', '.join(ORDERS)}")
    found = {name: ORDERS[name](roots) for name in orders}
    best = min(found, key=lambda name: simulated_peak(found[name], roots, is_view) if len(found) > 1 else 0)
    sequence = [n for n in found[best] if n in kernels]
    late = set() if checked else commit_section(graph, kernels, sequence)
    early = [n for n in sequence if n not in late]
    inside = [n for n in depth_first(updates) if n in late] if late else []
    return early + inside, len(early), best


def _shrinks(node: Node) -> bool:
    size = _nbytes(node)
    return any(a.node.args and a.aval.nbytes > size for a in node.args)


def _cannot_fail(kernel: Kernel) -> bool:
    """It neither raises nor needs memory: what only computes makes an array first, for which there may be none."""
    return kernel.infallible and (kernel.ufunc is not None or kernel.into is not None)


def commit_section(graph: ComputationGraph, kernels: Mapping[Node, Kernel], sequence: Sequence[Node]) -> set[Node]:
    """What only updates need, back from them, as far as nothing in it can fail and nothing in it shrinks.

    What is larger than its result (a sum over a batch) is better done with early than kept alive until here.
    """
    users: dict[Node, int] = {}
    for node in sequence:
        for a in node.args:
            users[a.node] = users.get(a.node, 0) + 1
    for value in graph.outputs:  # what a caller is given comes before
        users[value.node] = len(sequence) ** 2 + 1
    late: set[Node] = set()
    ready = [u.node for _, u in graph.updates if u.node in kernels and not users.get(u.node)]
    while ready:
        node = ready.pop()
        if node in late or _shrinks(node) or not (is_view(node) or _cannot_fail(kernels[node])):
            continue
        late.add(node)
        for a in node.args:
            users[a.node] -= 1
            if not users[a.node] and a.node in kernels:
                ready.append(a.node)
    return late
