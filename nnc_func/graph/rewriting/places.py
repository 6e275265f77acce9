"""Places: the order of a graph that is being rewritten, of which nodes go, and into which others come."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.graph.rewriting.mutable import MutableNode


def inserted(listed: list[MutableNode | None], moved: Mapping[int, list[MutableNode]]) -> list[MutableNode]:
    """The nodes that are left at their places, and before some places what was put there, counted anew.

    Each node's `place` is where it is then.
    """
    found, start = list[MutableNode](), 0
    for place, nodes in sorted(moved.items()):
        found += filter(None, listed[start:place])
        found += _sorted([*nodes, *filter(None, listed[place : place + 1])], place)
        start = place + 1
    found += filter(None, listed[start:])
    for i, node in enumerate(found):
        node.place = i
    return found


def _sorted(nodes: list[MutableNode], here: int) -> list[MutableNode]:
    """Nodes of one place that are part of the graph, operands first."""
    nodes = [node for node in nodes if node.place == here]
    if len(nodes) < 2:
        return nodes
    done: dict[MutableNode, None] = {}
    stack = nodes[::-1]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        missing = [b for a in node.args if (b := a.node).place == here and b not in done]
        if missing:
            stack += missing
        else:
            done[stack.pop()] = None
    return list(done)
