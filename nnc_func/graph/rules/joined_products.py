"""Matrix products made together: those that share an operand, and those that are added up.

Both need their operands side by side. An engine computes them there where it can, and where it must copy, that costs
little beside the products: it is done where each copied number is multiplied often.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any

from nnc_func.aval import Aval
from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.joining import Starts, adjacent, joined, other_axes, piece_of
from nnc_func.graph.rules.parts import terms
from nnc_func.graph.rules.pattern import Shaped
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, whole_graph
from nnc_func.graph.rules.substituting import users_of

matmul, add, total, split, slice_ = OPS["matmul"], OPS["add"], OPS["sum"], OPS["split"], OPS["slice"]
LEAST = 3  # terms: two products and one sum are no more than one product and two joins
NEAR = 32  # nodes among which one looks for what makes a product wait for another
WORTH = 4  # multiplications for each number that is copied, at least

Users = dict[Value, list[Any]]


def _plain(node: Node) -> bool:
    """A product of known extents in one dtype."""
    a, b = node.args
    return node.op is matmul and _are_plain(a.aval, b.aval, node.aval)


@lru_cache(4096)
def _are_plain(a: Aval, b: Aval, product: Aval) -> bool:
    return a.dtype == b.dtype == product.dtype and all(v.layout is None and all(map(known, v.shape)) for v in (a, b))


def _inner(node: Node) -> tuple[int, int]:
    """The axes that are summed, of both operands."""
    a, b = (len(v.shape) for v in node.args)
    params = node.params
    return (a - 2 if params["transpose_a"] else a - 1), (b - 1 if params["transpose_b"] else b - 2)


def _outer(node: Node) -> tuple[int, int]:
    """The axes that the result has, of both operands."""
    return tuple(2 * len(v.shape) - 3 - k for v, k in zip(node.args, _inner(node), strict=True))  # type: ignore[return-value]


# --- products that are added up ------------------------------------------------------------------------


def _chains(order: list[Node], users: Users) -> list[list[Value]]:
    """What is added up, of each sum of tensors of one shape."""
    adds = {n for n in order if n.op is add and all(a.aval == n.aval for a in n.args)}
    inside = {a.node for n in adds for a in n.args if a.node in adds and len(users[a]) == 1}
    return [[n, *terms(n, inside)] for n in order if n in adds and n not in inside]


def _is_worth(node: Node) -> bool:
    m, n = node.aval.shape[-2:]
    return bool(m * n >= WORTH * (m + n))


def _by_place(node: Node, splits: Starts) -> tuple[Any, Any]:
    """Where an operand lies, if it is a part of another tensor; else in the order of the backward pass."""
    for value, axis in zip(node.args, _inner(node), strict=True):
        piece = piece_of(value, axis, splits)
        if piece is not None and known(piece.start):
            return 0, piece.start
    return 1, -node.args[1].node.serial


def _products(listed: list[Value], users: Users) -> list[list[Node]]:
    """Those terms that can be one product."""
    groups: dict[Any, list[Node]] = {}
    for value in listed:
        node = value.node
        if node.op is matmul and len(users[node]) == 1 and _plain(node) and _is_worth(node):
            (a, b), (i, j) = node.args, _inner(node)
            key = node.items, other_axes(a.shape, i), other_axes(b.shape, j)
            groups.setdefault(key, []).append(node)
    splits: Starts = {}
    return [sorted(g, key=lambda n: _by_place(n, splits)) for g in groups.values() if len(g) >= LEAST]


def _sums(listed: list[Value], users: Users, sides: dict[Any, Any]) -> list[tuple[list[Node], Value]]:
    """Those terms that are sums, over the same axis, of tensors that lie side by side for a product."""
    groups: dict[Any, list[Node]] = {}
    for value in listed:
        node = value.node
        if node.op is total and len(users[node]) == 1 and node.args[0].dtype == node.dtype:
            groups.setdefault((node.items, len(node.args[0].shape)), []).append(node)
    found = []
    for (_, rank), group in groups.items():
        for axis in range(rank):
            side = sides.get((frozenset(n.args[0] for n in group), axis))
            if side is not None and len(group) >= LEAST and axis in normalise_axes(group[0].params["axis"], rank):
                found.append((group, side))
                break
    return found


def _added_products() -> Any:
    first, second, third = (Shaped(f"x{i}", (8, 2)) @ Shaped(f"w{i}", (2, 8)) for i in range(3))
    return (first + second) + third


@whole_graph(of=(matmul,), numerics=REASSOCIATION, samples=(_added_products,))
def multiply_added_products_at_once(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Matrix products that are added up are one product, of their operands side by side."""
    if sum(any(a.node.op is matmul for a in n.args) for n in builder.seen(order).of(add)) < LEAST - 1:
        return roots, 0
    users = users_of(roots, order)
    chains = _chains(order, users)
    found: dict[int, list[tuple[list[Node], Value]]] = {}
    sides: dict[Any, Value] = {}
    for i, (_, *listed) in enumerate(chains):
        found[i] = [(group, _at_once(group, sides, builder)) for group in _products(listed, users)]
    for i, (_, *listed) in enumerate(chains):
        for group, side in _sums(listed, users, sides):
            builder.where = group[0].origin
            found[i].append((group, builder.apply(total, (side,), group[0].params)))
    replaced: dict[Value, Value] = {}
    for i, groups in found.items():
        root, *listed = chains[i]
        if groups:
            replaced[root] = _added(root, listed, groups, builder)
    return replaced, len(replaced)


def _at_once(group: list[Node], sides: dict[Any, Value], builder: Any) -> Value:
    builder.where = group[0].origin
    made = []
    for side, axis in enumerate(_inner(group[0])):
        values = tuple(n.args[side] for n in group)
        made.append(joined(values, axis, builder))
        sides[frozenset(values), axis] = made[-1]
    return builder.apply(matmul, tuple(made), group[0].params)  # type: ignore[no-any-return]


def _added(root: Value, listed: list[Value], groups: list[tuple[list[Node], Value]], builder: Any) -> Value:
    taken = {node for group, _ in groups for node in group}
    builder.where = root.node.origin
    rest = [value for value in listed if value.node not in taken] + [value for _, value in groups]
    found = rest[0]
    for value in rest[1:]:
        found = builder.apply(add, (found, value), {})
    return found


# --- products that share an operand --------------------------------------------------------------------


def _sharing(products: Iterable[Node]) -> list[tuple[list[Node], int]]:
    """Products of two matrices that share an operand, by what they share, and which operand they do not share."""
    groups: dict[Any, list[Node]] = {}
    for node in products:
        if len(node.args[0].aval.shape) == len(node.args[1].aval.shape) == 2 and _plain(node):
            for own in (0, 1):
                groups.setdefault((node.args[1 - own], own, node.items), []).append(node)
    return [(group, own) for (_, own, _), group in groups.items() if len(group) > 1]


def _apart(group: list[Node]) -> list[Node]:
    """The group without members that obviously need another one; without any where it is a recurrence's."""
    members = set(group)
    if len(group) > LEAST and all(_needs(node, members) for node in (*group[1:LEAST], group[-1])):
        return []
    return [node for node in group if not _needs(node, members)]


def _needs(node: Node, members: set[Node]) -> bool:
    """Whether one of the nearest nodes on which it depends is a member."""
    seen: dict[Node, None] = dict.fromkeys(a.node for a in node.args)
    for below in (near := list(seen)):
        if below in members:
            return True
        if len(near) > NEAR:
            return False
        fresh = [a.node for a in below.args if a.node not in seen]
        seen.update(dict.fromkeys(fresh))
        near += fresh
    return False


def _independent(groups: list[tuple[list[Node], int]], order: list[Node]) -> list[tuple[list[Node], int]]:
    """The groups of which no member needs what another gives, nor does one group need another that needs it.

    The order begins with their first member and ends with their last.
    """
    numbers: dict[Node, int] = {}
    for i, (group, _) in enumerate(groups):
        for node in group:
            numbers[node] = numbers.get(node, 0) | 1 << i
    needs: dict[Node, int] = {}  # the groups on which a node depends, as bits
    wanted = [0] * len(groups)
    members: list[list[Node]] = [[] for _ in groups]
    for node in order:
        below = 0
        for a in node.args:
            below |= needs.get(a if isinstance(a, Node) else a.node, 0)
        if node in numbers:
            own = numbers[node]
            for i in _bits(own):
                if below >> i & 1:
                    own &= ~(1 << i)  # it needs another member: it stays alone
                else:
                    members[i].append(node)
                    wanted[i] |= below
            below |= own
        if below:
            needs[node] = below
    return _ordered(members, wanted, groups)


def _bits(number: int) -> list[int]:
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def _ordered(members: list[list[Node]], wanted: list[int], groups: Any) -> list[tuple[list[Node], int]]:
    """Groups one after another, each unless a product is in one before, or it and those before need each other."""
    kept: list[int] = []
    taken: set[Node] = set()
    reached = [0] * len(groups)  # of those kept, what they need by way of each other
    for i in sorted(range(len(groups)), key=lambda i: -len(members[i])):
        free = [n for n in members[i] if n not in taken]
        if not _gains(free, groups[i][1]):
            continue
        needs = wanted[i]
        for j in kept:
            if needs >> j & 1:
                needs |= reached[j]
        if needs >> i & 1:
            continue
        kept.append(i)
        taken |= set(free)
        members[i] = free
        for j in (*kept[:-1], i):
            reached[j] = needs if j == i else reached[j] | (needs if reached[j] >> i & 1 else 0)
    return [(members[i], groups[i][1]) for i in kept]


def _gains(group: list[Node], own: int) -> bool:
    """Whether one product, one join and one split are fewer; and what is copied is little beside what is computed."""
    if len(group) < 2:
        return False
    return _is_worth_copying(group, own) or adjacent(_own(group, own), _outer(group[0])[own]) is not None


def _is_worth_copying(group: list[Node], own: int) -> bool:
    return len(group) > LEAST and bool(group[0].aval.shape[1 - own] >= 2 * WORTH)


def _may_gain(group: list[Node], own: int) -> bool:
    """Whether it may gain, or a part of it."""
    if _is_worth_copying(group, own):
        return True
    at = _outer(group[0])[own]
    splits: Starts = {}
    pieces = (a for a in _own(group, own) if piece_of(a, at, splits) is not None)
    return len(list(islice(pieces, 2))) == 2


def _own(group: list[Node], own: int) -> tuple[Value, ...]:
    return tuple(n.args[own] for n in group)


def _by_start(group: list[Node], own: int) -> list[Node]:
    at = _outer(group[0])[own]
    starts, splits = [], Starts()
    for node in group:
        piece = piece_of(node.args[own], at, splits)
        if piece is None or not known(piece.start):
            return group
        starts.append(piece.start)
    return [n for _, n in sorted(zip(starts, group, strict=True), key=itemgetter(0))]


def _products_with_one() -> Any:
    x = Shaped("x", (8, 2))
    first, second, third, fourth = (x @ Shaped(f"w{i}", (2, 3)) for i in range(4))
    return (first - second) * (third - fourth)


def _products_of_halves() -> Any:
    x, w = Shaped("x", (4, 2)), Shaped("w", (2, 3))
    first, second = (slice_(x, starts=(i, 0), stops=(i + 2, 2), steps=(1, 1)) for i in (0, 2))
    return (first @ w) - (second @ w)


@whole_graph(of=(matmul,), numerics=ROUNDING, samples=(_products_with_one, _products_of_halves))
def multiply_by_shared_operand_at_once(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Matrix products that share an operand are parts of one product, of the other operands side by side."""
    shared = [(group, own) for group, own in _sharing(builder.seen(order).of(matmul)) if _may_gain(group, own)]
    groups = [(_apart(_by_start(group, own)), own) for group, own in shared]
    groups = [(group, own) for group, own in groups if _gains(group, own)]
    if not groups:
        return roots, 0
    replaced: dict[Value, Value] = {}
    place = builder.seen(order).place
    places = [place(node) for group, _ in groups for node in group]
    first, last = (bisect_left(order, at, key=place) for at in (min(places), max(places)))
    kept = _independent(groups, order[first : last + 1])
    for members, own in kept:
        group = _by_start(members, own)
        at = _outer(group[0])[own]
        builder.where = group[0].origin
        whole = joined(_own(group, own), at, builder)
        other = group[0].args[1 - own]
        found = builder.apply(matmul, (whole, other) if own == 0 else (other, whole), group[0].params)
        sections = tuple(n.args[own].shape[at] for n in group)
        parts = builder.apply(split, (found,), {"sections": sections, "axis": own})
        replaced |= dict(zip(group, parts, strict=True))
    return replaced, len(kept)
