"""Fusion: elementwise operators that follow each other become one, which goes through memory once."""

from __future__ import annotations

from typing import Any

from nnc_func.aval import Aval
from nnc_func.facets.dims import known
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.fused import blockwise, is_step, step_kernel
from nnc_func.graph.origin import merged
from nnc_func.graph.rules.rule import whole_graph

LEAST = 1 << 21  # bytes of a result: one that fits in the caches gains nothing
MOST = 64  # steps of a group


def _large(aval: Aval) -> bool:
    size = aval.nbytes
    return bool(known(size) and size >= LEAST)


def _takes_part(node: Node) -> bool:
    """Whether a node can be a step: computed element by element, and large enough to be worth it."""
    return (
        bool(node.args)
        and known(node.aval.nbytes)
        and node.aval.nbytes * 8 >= LEAST  # a boolean has a byte for eight
        and is_step(node.op)
        and step_kernel(node.op, tuple(a.dtype for a in node.args)) is not None
    )


def _groups(order: list[Node], roots: tuple[Value, ...]) -> dict[Node, Node]:
    """Node to the last step of its group: a node joins when all that use it are in one group.

    Whatever lies between two members is then a member too, so a group can be computed at once.
    """
    asked = {r.node for r in roots}
    users: dict[Node, list[Node]] = {}
    for node in order:
        for a in node.args:
            users.setdefault(a.node, []).append(node)
    group: dict[Node, Node] = {}
    sizes: dict[Node, int] = {}
    for node in reversed(order):
        if not _takes_part(node):
            continue
        lasts = {group.get(u) for u in users.get(node, ())}
        last = lasts.pop() if len(lasts) == 1 and node not in asked else None
        if last is not None and node.aval.shape == last.aval.shape and sizes[last] < MOST:
            group[node] = last
            sizes[last] += 1
        elif _large(node.aval):
            group[node] = node
            sizes[node] = 1
    return {node: last for node, last in group.items() if sizes[last] > 1}


@whole_graph()
def fuse_elementwise(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Large elementwise results that only one such group uses are computed with it, block by block in the caches."""
    if builder.operator.type.ops.get(blockwise.name) is not blockwise:
        return roots, 0
    group = _groups(order, roots) if any(map(_large, {n.aval for n in order if n.avals})) else {}
    if not group:
        return roots, 0
    members: dict[Node, list[Node]] = {}
    done: dict[Node, Node] = {}
    for node in order:
        last = group.get(node)
        if last is not None:
            members.setdefault(last, []).append(node)
        builder.where = node.origin
        if last is node:
            builder.where = merged(step.origin for step in members[node])
            done[node] = _fused(members[node], done, builder)
        elif last is None:
            args = tuple(now(done, a) for a in node.args)
            done[node] = node if args == node.args else builder.made(node.op, args, node.items, node.avals)
    return tuple(now(done, r) for r in roots), len(members)


def now(done: dict[Node, Node], value: Value) -> Value:
    """What a value has become."""
    found = done[value.node]
    return found.result(value.index) if value.node.op.several else found


def _fused(steps: list[Node], done: dict[Node, Node], builder: Any) -> Node:
    """One node for the steps, operands first."""
    inside = set(steps)
    outside = list(dict.fromkeys(a for step in steps for a in step.args if a.node not in inside))
    position: dict[Value, int] = {a: i for i, a in enumerate([*outside, *steps])}
    told = tuple((step.op.name, *(position[a] for a in step.args)) for step in steps)
    args, items, avals = tuple(now(done, a) for a in outside), blockwise.canonical({"steps": told}), steps[-1].avals
    if any(a.aval.layout is not None for a in args):
        given = tuple([a.aval for a in args])
        if builder.shape.infer(blockwise, given, items) != avals[0]:  # a layout that got lost on the way would stay
            for step in steps:
                moved = tuple(now(done, a) for a in step.args)
                done[step] = step if moved == step.args else builder.made(step.op, moved, step.items, step.avals)
            return done[steps[-1]]
    found: Node = builder.made(blockwise, args, items, avals)
    return found
