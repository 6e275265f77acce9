"""Fusion of products: the elementwise operators that follow one are done block by block, as it is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.activations import relu
from nnc_func.graph.ops.conv import conv2d
from nnc_func.graph.ops.conv_fused import accepts as convolves
from nnc_func.graph.ops.conv_fused import conv2d_blockwise
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.matmul_fused import accepts as multiplies
from nnc_func.graph.ops.matmul_fused import matmul_blockwise
from nnc_func.graph.ops.pool import max_pool2d
from nnc_func.graph.ops.steps import is_reduction, told
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.graph.origin import merged
from nnc_func.graph.rules.fuse import MOST, is_step
from nnc_func.graph.rules.pattern import Shaped
from nnc_func.graph.rules.rule import ROUNDING, whole_graph


def _is_step(node: Node, like: Any, taken: set[Node]) -> bool:
    """Whether a node can be computed on a block of a product, and is not taken by another one."""
    return node not in taken and bool(node.avals) and node.aval == like and is_step(node) and not is_reduction(node.op)


def _followed(
    first: Node, users: dict[Node, list[Node]], place: dict[Node, int], asked: set[Node], taken: set[Node]
) -> list[Node]:
    """A product and what is computed with it: of all these only the last is used by others.

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


def _feeding(members: list[Node], users: dict[Node, list[Node]], asked: set[Node], taken: set[Node]) -> list[Node]:
    """With what makes an operand of a member, and nothing else, of one operand of its size: memory is kept no longer.

    One such: each holds a block in scratch.
    """
    like = members[0].aval
    for node in (a.node for each in members[1:] for a in each.args):
        if node in taken or node in asked or not node.args or not all(u in members[1:] for u in users[node]):
            continue
        large = sum(a.shape == like.shape for a in node.args)
        if large <= 1 and _is_step(node, like.having(dtype=node.aval.dtype), taken):
            return [*members, node]
    return members


def _pooled(last: Node, users: dict[Node, list[Node]], asked: set[Node]) -> tuple[Node, ...]:
    """The pooling that alone reads a result, and the rectifier that alone reads what is pooled; or nothing.

    Where a kernel finishes the result, rectifying it there costs no kernel; `rectify_after_pooling` is for the others.
    """
    found = last
    way = []
    for op in (max_pool2d, relu):
        if found in asked or len(users.get(found, ())) != 1 or users[found][0].op is not op:
            return ()
        found = users[found][0]
        way.append(found)
    return tuple(way)


def _groups(
    order: list[Node], roots: tuple[Value, ...], users: dict[Node, list[Node]], op: Any, accepts: Callable[..., bool]
) -> dict[Node, tuple[list[Node], tuple[Node, ...]]]:
    """Last node of each group to its nodes, operands first, and to what pools and rectifies its result.

    Of two products that are added the last is finished with the sum, so none waits for others that come after it.
    """
    place, asked = {node: i for i, node in enumerate(order)}, {r.node for r in roots}
    taken: set[Node] = set()
    found: dict[Node, tuple[list[Node], tuple[Node, ...]]] = {}
    for node in reversed(order):
        if node.op is not op:
            continue
        members = _followed(node, users, place, asked, taken)
        pooled = _pooled(members[-1], users, asked)
        more = len(members) > 1 or pooled
        if more and accepts(tuple(a.aval for a in node.args), steps=(("negative", 0),), **node.params):
            taken.update(members, pooled)
            found[(*members, *pooled)[-1]] = members, pooled
    for last, (members, pooled) in found.items():
        product, *steps = _feeding(members, users, asked, taken)
        taken.update(steps)
        found[last] = [product, *sorted(steps, key=place.__getitem__)], pooled
    return found


def _finished(roots: tuple[Value, ...], order: list[Node], builder: Any, op: Any, by: Any, accepts: Any) -> Any:
    """What follows each of these products, computed with it."""
    if builder.operator.type.ops.get(by.name) is not by or not any(n.op is op for n in order):
        return roots, 0
    groups = _groups(order, roots, builder.users(order), op, accepts)
    return {last: _fused(*group, builder, by) for last, group in groups.items()}, len(groups)


def _rectified_convolution() -> Any:
    return relu(conv2d(Shaped("x", (1, 3, 4, 8)), Shaped("w", (2, 2, 8, 2))) + Shaped("b", (2,)))


def _squashed_product() -> Any:
    return tanh(Shaped("x", (3, 2)) @ Shaped("w", (2, 4)) + Shaped("b", (4,)))


@whole_graph(
    numerics=ROUNDING, samples=(_rectified_convolution,)
)  # products of blocks are rounded otherwise than those of the convolution's kernel
def fuse_convolution(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Elementwise operators that follow a convolution, and that alone, are computed with it, in the caches."""
    return _finished(roots, order, builder, conv2d, conv2d_blockwise, convolves)


@whole_graph(numerics=ROUNDING, samples=(_squashed_product,))  # another kernel may be chosen for the product
def fuse_matrix_product(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Elementwise operators that follow a matrix product, and that alone, are computed where it is."""
    return _finished(roots, order, builder, matmul, matmul_blockwise, multiplies)


def _fused(members: list[Node], pooled: tuple[Node, ...], builder: Any, by: Any) -> Node:
    first, *steps = members
    builder.where = merged(step.origin for step in (*members, *pooled))
    inside = set(members)
    others = list(dict.fromkeys(a for step in steps for a in step.args if a.node not in inside))
    position: dict[Value, int] = {a: i for i, a in enumerate([first, *others, *steps])}
    written = tuple(told(step.op, tuple(position[a] for a in step.args), step.items) for step in steps)
    if pooled:
        pooling, rectifier = pooled
        written += (told(rectifier.op, (position[members[-1]],), rectifier.items),)
    items = by.canonical({"steps": written, **first.params})
    found: Node = builder.made(by, (*first.args, *others), items, members[-1].avals)
    return builder.made(pooling.op, (found,), pooling.items, pooling.avals) if pooled else found
