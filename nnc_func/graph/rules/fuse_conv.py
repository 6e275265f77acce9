"""Fusion of convolutions: the elementwise operators that follow one are done block by block, as it is computed."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.conv import conv2d
from nnc_func.graph.ops.conv_fused import accepts, conv2d_blockwise
from nnc_func.graph.ops.steps import is_reduction, told
from nnc_func.graph.origin import merged
from nnc_func.graph.rules.fuse import MOST, is_step, now
from nnc_func.graph.rules.rule import ROUNDING, whole_graph


def _is_step(node: Node, like: Any, taken: set[Node]) -> bool:
    """Whether a node can be computed on a block of a convolution's result, and is not taken by another one."""
    return node not in taken and bool(node.avals) and node.aval == like and is_step(node) and not is_reduction(node.op)


def _followed(
    first: Node, users: dict[Node, list[Node]], place: dict[Node, int], asked: set[Node], taken: set[Node]
) -> list[Node]:
    """A convolution and what is computed with it: of all these only the last is used by others.

    What uses a member is taken in the graph's order, so nothing that a member uses depends on an earlier one unseen.
    """
    members, best, outside = [first], 1, set(users.get(first, ()))
    while outside and len(members) <= MOST and members[-1] not in asked:
        found = min(outside, key=place.__getitem__)
        if not _is_step(found, first.aval, taken):
            break
        outside.remove(found)
        members.append(found)
        if not outside:
            best = len(members)
        outside |= set(users.get(found, ()))
    return members[:best]


def _groups(order: list[Node], roots: tuple[Value, ...]) -> dict[Node, list[Node]]:
    """Last node of each group to its nodes, operands first."""
    users: dict[Node, list[Node]] = {}
    for node in order:
        for a in node.args:
            users.setdefault(a.node, []).append(node)
    place, asked = {node: i for i, node in enumerate(order)}, {r.node for r in roots}
    taken: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in order:
        if node.op is not conv2d:
            continue
        members = _followed(node, users, place, asked, taken)
        if len(members) > 1 and accepts(tuple(a.aval for a in node.args), steps=(("relu", 0),), **node.params):
            taken.update(members)
            found[members[-1]] = members
    return found


@whole_graph(numerics=ROUNDING)  # products of blocks are rounded otherwise than those of the convolution's kernel
def fuse_convolution(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Elementwise operators that follow a convolution, and that alone, are computed with it, in the caches."""
    if builder.operator.type.ops.get(conv2d_blockwise.name) is not conv2d_blockwise:
        return roots, 0
    groups = _groups(order, roots) if any(n.op is conv2d for n in order) else {}
    if not groups:
        return roots, 0
    inside = {node for members in groups.values() for node in members}
    done: dict[Node, Node] = {}
    for node in order:
        builder.where = node.origin
        if node in groups:
            builder.where = merged(step.origin for step in groups[node])
            done[node] = _fused(groups[node], done, builder)
        elif node not in inside:
            args = tuple(now(done, a) for a in node.args)
            done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return tuple(now(done, r) for r in roots), len(groups)


def _fused(members: list[Node], done: dict[Node, Node], builder: Any) -> Node:
    first, *steps = members
    inside = set(members)
    others = list(dict.fromkeys(a for step in steps for a in step.args if a.node not in inside))
    position: dict[Value, int] = {a: i for i, a in enumerate([first, *others, *steps])}
    written = tuple(told(step.op, tuple(position[a] for a in step.args), step.items) for step in steps)
    items = conv2d_blockwise.canonical({"steps": written, **first.params})
    args = tuple(now(done, a) for a in (*first.args, *others))
    found: Node = builder.made(conv2d_blockwise, args, items, steps[-1].avals)
    return found
