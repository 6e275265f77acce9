"""Fusion of products: the elementwise operators that follow one are done block by block, as it is computed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nnc_func.body import Application, Body
from nnc_func.facets.dtypes import is_bfloat16
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.activations import relu
from nnc_func.graph.ops.bodies import is_fusible, is_reduction
from nnc_func.graph.ops.conv import conv2d
from nnc_func.graph.ops.conv_fused import conv2d_blockwise
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.matmul_fused import matmul_blockwise
from nnc_func.graph.ops.pool import max_pool2d
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.graph.ops.unary import negative
from nnc_func.graph.origin import merged
from nnc_func.graph.rewriting.building import Builder, Seen
from nnc_func.graph.rules.fuse import MOST, is_elementwise
from nnc_func.graph.rules.pattern import Shaped
from nnc_func.graph.rules.rule import ROUNDING, whole_graph
from nnc_func.op import Op


def _followed(first: Node, seen: Seen, asked: set[Node], taken: set[Node], builder: Builder) -> list[Node]:
    """A product and what is computed with it: of all these only the last is used by others.

    What uses a member is taken in the graph's order, so nothing that a member uses depends on an earlier one unseen.
    """
    members, best, like = [first], 1, first.aval
    outside: set[Node] = set()
    while len(members) <= MOST and members[-1] not in asked:
        for user in seen.users(members[-1]):
            if user in outside:
                continue
            if user.aval is not like or user in taken or not _may_follow(user, builder):
                return members[:best]  # it stays outside, whatever else is taken
            outside.add(user)
        if not outside:
            break
        if len(outside) > 1:
            found = min(outside, key=seen.place)
            outside.remove(found)
            members.append(found)
        else:
            members.append(outside.pop())
            best = len(members)
    return members[:best]


def _may_follow(node: Node, builder: Builder) -> bool:
    """Whether a node may be computed with the product before it; of bfloat16 it is only a library that may do it."""
    if is_bfloat16(node.aval.dtype):
        return builder.has_libraries and is_fusible(node.op) and not is_reduction(node.op)
    return is_elementwise(node, builder)


def _feeding(members: list[Node], seen: Seen, asked: set[Node], taken: set[Node], builder: Builder) -> list[Node]:
    """With what makes an operand of a member, and nothing else, of one operand of its size: memory is kept no longer.

    One such: each holds a block in scratch.
    """
    like = members[0].aval
    inside = set(members[1:])
    for node in (a.node for each in members[1:] for a in each.args):
        if not node.args or node in taken or node in asked or not inside.issuperset(seen.users(node)):
            continue
        large, aval = sum(a.shape == like.shape for a in node.args), node.aval
        alike = like if aval is None or aval.dtype == like.dtype else like.having(dtype=aval.dtype)
        if large <= 1 and aval is alike and is_elementwise(node, builder):
            return [*members, node]
    return members


def _pooled(last: Node, seen: Seen, asked: set[Node]) -> tuple[Node, ...]:
    """The pooling that alone reads a result, and the rectifier that alone reads what is pooled; or nothing.

    Where a kernel finishes the result, rectifying it there costs no kernel; `rectify_after_pooling` is for the others.
    """
    found = last
    way = []
    for op in (max_pool2d, relu):
        users = seen.users(found)
        if found in asked or len(users) != 1:
            return ()
        (found,) = users
        if found.op is not op:
            return ()
        way.append(found)
    return tuple(way)


NEGATIVE = Body.of(1, (negative, 0))  # a body that any dtype of a product has


def _is_finished(node: Node, by: Op, builder: Builder) -> bool:
    """Whether the device has a kernel that computes a product and what follows it, where the result is to be."""
    avals, items = tuple([a.aval for a in node.args]), node.items
    key = by, avals, items
    found = builder.steps.get(key)
    if found is None:
        own = by.canonical({"body": NEGATIVE, **dict(items)})
        found = builder.steps[key] = builder.fuses(by, avals, own)
    return found


def _as_far_as_finished(members: list[Node], by: Op, builder: Builder, seen: Seen) -> list[Node]:
    """As many members as a kernel of a library takes with the first one: of bfloat16 it takes some bodies only."""
    if not builder.has_libraries:
        return members[:1]
    for count in range(len(members), 1, -1):
        inside = set(members[:count])
        if all(inside.issuperset(seen.users(each)) for each in members[: count - 1]):
            others, items = _joined(members[:count], (), by)
            if builder.fuses(by, tuple([a.aval for a in (*members[0].args, *others)]), items):
                return members[:count]
    return members[:1]


def _groups(
    roots: tuple[Value, ...], seen: Seen, op: Op, by: Op, builder: Builder
) -> dict[Node, tuple[list[Node], tuple[Node, ...]]]:
    """Last node of each group to its nodes, operands first, and to what pools and rectifies its result.

    Of two products that are added the last is finished with the sum, so none waits for others that come after it.
    """
    parts: set[Node] = set()  # the last nodes of groups to which nothing can be added
    asked = {r.node for r in roots}
    taken: set[Node] = set()
    found: dict[Node, tuple[list[Node], tuple[Node, ...]]] = {}
    for node in reversed(seen.of(op)):
        members = _followed(node, seen, asked, taken, builder)
        pooled = _pooled(members[-1], seen, asked)
        more = len(members) > 1 or pooled
        if more and _is_finished(node, by, builder):
            taken.update(members, pooled)
            found[(*members, *pooled)[-1]] = members, pooled
        elif more and len(members := _as_far_as_finished(members, by, builder, seen)) > 1:
            taken.update(members)
            parts.add(members[-1])
            found[members[-1]] = members, ()
    for last, (members, pooled) in found.items():
        if last in parts:
            continue
        product, *steps = _feeding(members, seen, asked, taken, builder)
        taken.update(steps)
        found[last] = [product, *sorted(steps, key=seen.place)], pooled
    return found


def _finished(roots: tuple[Value, ...], seen: Seen, builder: Builder, op: Op, by: Op) -> Any:
    """What follows each of these products, computed with it."""
    if not builder.may_fuse(by):
        return roots, 0
    groups = _groups(roots, seen, op, by, builder)
    return {last: _fused(*group, builder, by) for last, group in groups.items()}, len(groups)


def _rectified_convolution() -> Any:
    return relu(conv2d(Shaped("x", (1, 3, 4, 8)), Shaped("w", (2, 2, 8, 2))) + Shaped("b", (2,)))


def _squashed_product() -> Any:
    return tanh(Shaped("x", (3, 2)) @ Shaped("w", (2, 4)) + Shaped("b", (4,)))


@whole_graph(
    of=(conv2d,), numerics=ROUNDING, samples=(_rectified_convolution,)
)  # products of blocks are rounded otherwise than those of the convolution's kernel
def fuse_convolution(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Elementwise operators that follow a convolution, and that alone, are computed with it, in the caches."""
    return _finished(roots, builder.seen(order), builder, conv2d, conv2d_blockwise)


@whole_graph(
    of=(matmul,), numerics=ROUNDING, samples=(_squashed_product,)
)  # another kernel may be chosen for the product
def fuse_matrix_product(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Elementwise operators that follow a matrix product, and that alone, are computed where it is."""
    return _finished(roots, builder.seen(order), builder, matmul, matmul_blockwise)


def _fused(members: list[Node], pooled: tuple[Node, ...], builder: Any, by: Any) -> Node:
    builder.where = merged([step.origin for step in (*members, *pooled)])
    others, items = _joined(members, pooled, by)
    found: Node = builder.made(by, (*members[0].args, *others), items, members[-1].avals)
    if not pooled:
        return found
    pooling = pooled[0]
    return builder.made(pooling.op, (found,), pooling.items, pooling.avals)  # type: ignore[no-any-return]


def _joined(members: list[Node], pooled: tuple[Node, ...], by: Any) -> tuple[list[Value], Any]:
    """The operands beside those of the first member, and the parameters, of all as one operator."""
    first, *steps = members
    inside = set(members)
    others = list(dict.fromkeys([a for step in steps for a in step.args if a.node not in inside]))
    number = {value: i for i, value in enumerate((first, *others, *steps))}.__getitem__
    rows = [(step.op, tuple(map(number, step.args)), step.items, step.op.key(step.items)) for step in steps]
    if pooled:
        rectifier = pooled[-1]
        op, items = rectifier.op, rectifier.items
        rows.append((op, (number(members[-1]),), items, op.key(items)))
    return others, by.canonical({"body": _body(1 + len(others), tuple(rows)), **first.params})


@lru_cache(maxsize=1 << 10)
def _body(parameters: int, rows: tuple[Any, ...]) -> Body:
    """The body of these applications, of one result each; what follows products is often alike."""
    applications = [Application(op, operands, items) for op, operands, items, _ in rows]
    return Body(parameters, applications, (parameters + len(rows) - 1,))
