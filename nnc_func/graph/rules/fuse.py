"""Fusion: operators on the same elements that follow each other become one, which goes through memory once.

A group is computed at once, so nothing outside of it may lie between two of its members. Groups grow in two ways: a
node joins when all that use it are in one group; and a group joins another one that reads its result, which then has
several results, when nothing else that depends on the first leads to the second. What would hold much is cut then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from attrs import define, evolve, field, frozen

from nnc_func.declaration import Items
from nnc_func.facets.dims import known, product
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.fused import blockwise, blockwise_several
from nnc_func.graph.ops.steps import is_own, is_reduction, over_blocks, step_kernel, told
from nnc_func.graph.origin import merged
from nnc_func.graph.rules.building import Seen
from nnc_func.graph.rules.cutting import HELD, Cutting
from nnc_func.graph.rules.pattern import Shaped, Tensor
from nnc_func.graph.rules.rule import EXACT, Pass
from nnc_func.op import Op

LEAST = 1 << 21  # bytes of a result: one that fits in the caches gains nothing
MOST = 64  # steps of a group
FAR = 64  # groups and nodes looked at to learn that one group does not lead to another
UNIT = 1 << 21  # bytes of what a reduction keeps in one piece
SMALL = 64  # values that broadcast are computed again for each block: they have so many times less elements


# --- which nodes ------------------------------------------------------------------------------------------


@lru_cache(4096)
def _is_computed(op: Op, avals: tuple[Any, ...], items: Items, result: Any) -> bool:
    return (
        bool(avals)
        and op.pure
        and not op.several
        and known(result.nbytes)
        and is_own(op)
        and step_kernel(op, tuple([a.dtype for a in avals]), items) is not None
    )


def is_step(node: Node) -> bool:
    """Whether a node can be a step of a group: computed element by element, or a reduction."""
    op = node.op
    computed = _is_computed(op, tuple([a.aval for a in node.args]), node.items, node.aval)
    return computed and (not is_reduction(op) or _keeps_rows(node))


def _keeps_rows(node: Node) -> bool:
    """Whether a reduction is of rows, or leaves rows, a few of which fit in the caches."""
    x = node.args[0].aval
    axes = normalise_axes(node.params["axis"], x.ndim)
    first = _gathers(node) or (axes[0] if axes else 0)
    if not first or not known(x.size):
        return False
    row = product(x.shape[first:])
    return bool(0 < row * x.dtype.itemsize <= UNIT and (axes[0] or row > 1))


def _gathers(node: Node) -> int:
    """Of a reduction over blocks, its number of axes; nothing in its group reads it."""
    if not is_reduction(node.op) or node.aval.dtype != node.args[0].dtype:
        return 0
    return over_blocks(node.op, node.items, node.args[0].aval.ndim)


def _shape(node: Node) -> Any:
    """Of all that is computed with a node."""
    return node.args[0].shape if is_reduction(node.op) else node.aval.shape


# --- groups -----------------------------------------------------------------------------------------------


@define(eq=False)
class Group:
    """Steps that are computed together, and the shape of all of it."""

    shape: Any
    members: list[Node] = field(factory=list)
    large: bool = False
    plain: bool = True

    def add(self, node: Node, least: int) -> None:
        """One member more."""
        self.members.append(node)
        self.large = self.large or max(node.aval.nbytes, *(a.aval.nbytes for a in node.args)) >= least
        self.plain = self.plain and node.aval.layout is None and all(a.aval.layout is None for a in node.args)


Unit = Group | Node


class _Grouping:
    """The groups of a graph."""

    def __init__(self, order: list[Node], roots: tuple[Value, ...], seen: Seen, least: int, several: bool) -> None:
        self.order, self.least, self.several = order, least, several
        self.asked = {r.node for r in roots}
        self.position, self.users = seen.place, seen.users
        self.of: dict[Node, Group] = {}

    def made(self) -> dict[Node, Group]:
        """Node to its group, of those that have more than one member."""
        for node in reversed(self.order):
            if is_step(node):
                self._place(node)
        for node in self.order if self.several else ():
            if node in self.of:
                self._widen(node)
        for group in {id(g): g for g in self.of.values() if g.large and len(g.members) > HELD}.values():
            self._cut(group)
        return {node: g for node, g in self.of.items() if len(g.members) > 1 and g.large}

    def _cut(self, group: Group) -> None:
        """Make a group several that hold less."""
        members = sorted(group.members, key=self.position)
        pieces = Cutting(members, group.shape, self.users, self.asked, self.least, self.several).pieces()
        for piece in pieces if len(pieces) > 1 else ():
            made = Group(group.shape)
            for node in piece:
                self.of[node] = made
                made.add(node, self.least)

    def _place(self, node: Node) -> None:
        found = {self.of.get(u) for u in self.users(node)}
        group = found.pop() if len(found) == 1 and node not in self.asked else None
        if group is None or len(group.members) >= MOST or not self._fits(node, group):
            if is_reduction(node.op) and not self.several:
                return
            group = Group(_shape(node))
        self.of[node] = group
        group.add(node, self.least)

    def _fits(self, node: Node, group: Group) -> bool:
        if is_reduction(node.op):
            return self.several and _is_readable(node) and _shape(node) == group.shape and group.plain
        if node.aval.shape == group.shape:
            return True
        shape, whole = node.aval.shape, group.shape
        cut = len(shape) == len(whole) and shape[:1] == whole[:1]  # as blocks are, so each element is computed once
        return _broadcasts(shape, whole) and bool(cut or node.aval.size * SMALL <= product(whole))

    def _widen(self, node: Node) -> None:
        """Let groups whose results a node reads join its own."""
        for a in node.args:
            mine, other = self.of[node], self.of.get(a.node)
            if other is None or other is mine or not self._may_join(other, mine):
                continue
            for member in other.members:
                self.of[member] = mine
                mine.add(member, self.least)

    def _may_join(self, other: Group, mine: Group) -> bool:
        return (
            other.shape == mine.shape
            and other.plain
            and mine.plain
            and (other.large or mine.large)
            and len(other.members) + len(mine.members) <= MOST
            and all(_is_readable(a.node) for m in mine.members for a in m.args if self.of.get(a.node) is other)
            and not self._leads(other, mine)
        )

    def _leads(self, start: Group, end: Group) -> bool:
        """Whether there is a way from one group to another that leaves both; also if that takes long to learn."""
        seen: set[int] = set()
        waiting: list[Unit] = [u for u in self._after(start) if u is not end]
        while waiting:
            unit = waiting.pop()
            if id(unit) in seen:
                continue
            seen.add(id(unit))
            if unit is end or len(seen) > FAR:
                return True
            waiting += self._after(unit)
        return False

    def _after(self, unit: Unit) -> Iterator[Unit]:
        for node in unit.members if isinstance(unit, Group) else (unit,):
            for user in self.users(node):
                found = self.of.get(user, user)
                if found is not unit:
                    yield found


def _is_readable(node: Node) -> bool:
    """Whether other steps of its group may read it."""
    return not is_reduction(node.op) or (bool(node.params["keepdims"]) and not _gathers(node))


def _broadcasts(shape: Any, whole: Any) -> bool:
    return len(shape) <= len(whole) and all(
        n in (1, extent) for n, extent in zip(shape, whole[len(whole) - len(shape) :], strict=True)
    )


# --- the pass ---------------------------------------------------------------------------------------------


def _is_large(seen: Seen, least: int) -> bool:
    """Whether some value of a graph is worth it."""
    different = {id(n.aval): n.aval for n in seen.order}  # few are
    several = [n for op, listed in seen.applied.items() if op.several for n in listed]
    different |= {id(a): a for n in several for a in n.avals}
    return any(a is not None and known(a.nbytes) and a.nbytes >= least for a in different.values())


def _fused(roots: tuple[Value, ...], order: list[Node], builder: Any, least: int) -> Any:
    ops = builder.operator.type.ops
    if ops.get(blockwise.name) is not blockwise or not _is_large(builder.seen(order), least):
        return roots, 0
    grouping = _Grouping(order, roots, builder.seen(order), least, ops.get(blockwise_several.name) is blockwise_several)
    groups = grouping.made()
    if not groups:
        return roots, 0
    rebuilding = _Rebuilding(grouping, groups, builder)
    for root in roots:
        rebuilding.reach(root.node)
    return tuple(now(rebuilding.done, r) for r in roots), len({id(g) for g in groups.values()})


def now(done: dict[Node, Any], value: Value) -> Value:
    """What a value has become."""
    found = done[value.node]
    return found.result(value.index) if value.node.op.several else found  # type: ignore[no-any-return]


class _Rebuilding:
    """A graph made anew with its groups, each once all that its members read is there."""

    def __init__(self, grouping: _Grouping, groups: dict[Node, Group], builder: Any) -> None:
        self.grouping, self.groups, self.builder = grouping, groups, builder
        self.done: dict[Node, Any] = {}

    def reach(self, first: Node) -> None:
        """Make a node, and all that it needs."""
        stack = [first]
        while stack:
            node = stack[-1]
            group = self.groups.get(node)
            members = [node] if group is None else group.members
            inside = set(members)
            missing = [a.node for m in members for a in m.args if a.node not in self.done and a.node not in inside]
            if node in self.done:
                stack.pop()
            elif missing:
                stack += missing
            elif group is None:
                self._one(node)
            else:
                self._together(sorted(members, key=self.grouping.position))

    def _one(self, node: Node) -> None:
        args = tuple(now(self.done, a) for a in node.args)
        self.builder.where = node.origin
        self.done[node] = node if args == node.args else self.builder.made(node.op, args, node.items, node.avals)

    def _together(self, members: list[Node]) -> None:
        self.builder.where = merged(m.origin for m in members)
        inside = set(members)
        outside = list(dict.fromkeys(a for m in members for a in m.args if a.node not in inside))
        outside.sort(key=lambda a: self.grouping.position(a.node))  # what came first is computed first
        position: dict[Value, int] = {a: i for i, a in enumerate([*outside, *members])}
        steps = tuple(told(m.op, tuple(position[a] for a in m.args), m.items) for m in members)
        args = tuple(now(self.done, a) for a in outside)
        results = [m for m in members if self._is_seen(m, inside)]
        if len(results) == 1 and results[0] is members[-1] and not any(is_reduction(m.op) for m in members):
            items, avals = blockwise.canonical({"steps": steps}), results[0].avals
            if all(a.aval.layout is None for a in args) or self._keeps_layout(args, items, avals[0]):
                self.done[members[-1]] = self.builder.made(blockwise, args, items, avals)
            else:
                for m in members:
                    self._one(m)
            return
        places = tuple(position[m] for m in results)
        items = blockwise_several.canonical({"steps": steps, "outputs": places})
        found = self.builder.made(blockwise_several, args, items, tuple(m.aval for m in results))
        for m, value in zip(results, found.results, strict=True):
            self.done[m] = value

    def _is_seen(self, node: Node, inside: set[Node]) -> bool:
        grouping = self.grouping
        return node in grouping.asked or any(u not in inside for u in grouping.users(node))

    def _keeps_layout(self, args: tuple[Value, ...], items: Items, aval: Any) -> bool:
        """Whether none gets lost on the way."""
        return bool(self.builder.shape.infer(blockwise, tuple([a.aval for a in args]), items) == aval)


@frozen(eq=False, repr=False)
class Fusion(Pass):
    """The pass that makes groups.

    Attributes
    ----------
    least
        Bytes that a value in a group must have, or nothing is gained: smaller ones stay in the caches anyway.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> rest = lazy.optimiser.without_rules("fuse_elementwise")
    >>> lazy = lazy.swap(optimiser=rest.with_rules(fuse_elementwise.from_size(0), phase="fuse"))
    >>> x = lazy.input("x", (3,), "float32")
    >>> lazy.compile(inputs=[x], outputs=[lazy.ops.sqrt(x * x + 1)]).plan.kernels
    1
    """

    least: int = LEAST

    def from_size(self, least: int) -> Fusion:
        """The pass for values of so many bytes or more."""
        function = partial(_fused, least=least)
        return evolve(self, least=least, function=function, samples=(_chain, _centred_rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.least,)


def _restored(least: int) -> Fusion:
    return fuse_elementwise if least == LEAST else fuse_elementwise.from_size(least)


def _chain() -> Any:
    x, y = Tensor("x"), Tensor("y")
    return OPS["sqrt"](OPS["maximum"]((x * y + x) * x - y / 2, 0)) + y


def _centred_rows() -> Any:
    x = Tensor("x")
    return OPS["exp"](x - OPS["max"](x, axis=-1, keepdims=True)) * 2


def _large_chain() -> Any:
    return OPS["abs"](Shaped("x", (1 << 19,)) + 1)


fuse_elementwise = Fusion(
    "fuse_elementwise",
    "Large results of elementwise operators, and reductions of rows of them, are computed together, block by block.",
    partial(_fused, least=LEAST),
    EXACT,
    False,
    __name__,
    (_large_chain,),
)
