"""Fusion: operators on the same elements that follow each other become one, which goes through memory once.

A group is computed at once, so nothing outside of it may lie between two of its members. Groups grow in two ways: a
node joins when all that use it are in one group; and a group joins another one that reads its result, which then has
several results, when nothing else that depends on the first leads to the second. What would hold much is cut then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from attrs import define, evolve, field, frozen

from nnc_func.body import Application, Body
from nnc_func.declaration import Items
from nnc_func.facets.dims import known, product
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.bodies import enclosed
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.bodies import is_fusible, is_reduction, over_blocks
from nnc_func.graph.ops.fused import blockwise, blockwise_several
from nnc_func.graph.origin import merged
from nnc_func.graph.rewriting.building import Builder, Seen
from nnc_func.graph.rules.cutting import HELD, Cutting
from nnc_func.graph.rules.pattern import Shaped, Tensor
from nnc_func.graph.rules.rule import EXACT, Pass
from nnc_func.op import Op

MOST = 64  # steps of a group
FAR = 64  # groups and nodes looked at to learn that one group does not lead to another
LIBRARY = 1 << 16  # bytes of a value from which on a library's kernel pays that computes all of a group
AHEAD = 8  # steps of a group that a library may leave at its beginning
SMALL = 64  # values that broadcast are computed again for each block: they have so many times less elements


# --- which nodes ------------------------------------------------------------------------------------------


def _is_computed(node: Node, builder: Builder) -> bool:
    """Whether the device's kernel of what is fused takes the operator as a step."""
    op, avals, items = node.op, tuple([a.aval for a in node.args]), node.items
    key = op, items, node.aval, avals
    found = builder.steps.get(key)
    if found is None:
        found = builder.steps[key] = (
            bool(avals) and known(node.aval.nbytes) and is_fusible(op) and builder.fuses(*_alone(op, avals, items))
        )
    return found


def _alone(op: Op, avals: tuple[Any, ...], items: Items) -> tuple[Op, tuple[Any, ...], Items]:
    """The application of a fused operator whose body is that one operator, on values of these avals."""
    count = len(avals)
    by, body = blockwise, Body(count, (Application(op, range(count), items),), (count,))
    if is_reduction(op):
        by = blockwise_several
    return by, avals, by.canonical({"body": body})


def is_elementwise(node: Node, builder: Builder) -> bool:
    """Whether a node can be a step that the device computes element by element."""
    return not is_reduction(node.op) and _is_computed(node, builder)


def is_step(node: Node, builder: Builder) -> bool:
    """Whether a node can be a step of a group on the device: computed element by element, or a reduction."""
    return _is_computed(node, builder) and (not is_reduction(node.op) or _keeps_rows(node, builder.machine.cache))


def _keeps_rows(node: Node, cache: int) -> bool:
    """Whether a reduction is of rows, or leaves rows, a few of which fit in a cache of so many bytes."""
    x = node.args[0].aval
    axes = normalise_axes(node.params["axis"], x.ndim)
    first = _gathers(node) or (axes[0] if axes else 0)
    if not first or not known(x.size):
        return False
    row = product(x.shape[first:])
    return bool(0 < row * x.dtype.itemsize <= cache and (axes[0] or row > 1))


def _gathers(node: Node) -> int:
    """Of a reduction over blocks, its number of axes; nothing in its group reads it."""
    if not is_reduction(node.op) or node.aval.dtype != node.args[0].dtype:
        return 0
    return over_blocks(node.op, node.items, node.args[0].aval.ndim)


class Step:
    """What is the same of all steps of one operator on values of one kind.

    Attributes
    ----------
    reduces
        It is a reduction.
    readable
        Other steps of its group may read it.
    shape
        Of all that is computed with it.
    nbytes
        Of the largest value that it reads or makes.
    plain
        All these are row-major.
    """

    __slots__ = ("nbytes", "plain", "readable", "reduces", "shape")

    def __init__(self, node: Node) -> None:
        avals = [node.aval, *[a.aval for a in node.args]]
        self.reduces = is_reduction(node.op)
        self.readable = not self.reduces or (bool(node.params["keepdims"]) and not _gathers(node))
        self.shape = avals[self.reduces].shape
        self.nbytes = max([aval.nbytes for aval in avals if known(aval.nbytes)])  # the result's is
        self.plain = all(aval.layout is None for aval in avals)


class _Steps:
    """What is known of the steps of a graph: found once for all that are alike."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.known: dict[Any, Step | None] = {}

    def of(self, node: Node) -> Step | None:
        """A node as a step; None where it cannot be one."""
        key = (node.op, node.items, node.aval, *[a.aval for a in node.args])
        if key not in self.known:
            self.known[key] = Step(node) if is_step(node, self.builder) else None
        return self.known[key]


# --- groups -----------------------------------------------------------------------------------------------


@define(eq=False)
class Group:
    """Steps that are computed together, and the shape of all of it."""

    shape: Any
    members: list[Node] = field(factory=list)
    nbytes: int = 0
    plain: bool = True

    def add(self, node: Node, step: Step) -> None:
        """One member more."""
        self.members.append(node)
        self.nbytes = max(self.nbytes, step.nbytes)
        self.plain = self.plain and step.plain


Unit = Group | Node


class _Grouping:
    """The groups of a graph."""

    def __init__(self, roots: tuple[Value, ...], seen: Seen, steps: _Steps, least: int, several: bool) -> None:
        self.order, self.step_of, self.least, self.multi_result = seen.order, steps.of, least, several
        self.asked = {r.node for r in roots}
        self.position, self.users = seen.place, seen.users
        self.steps: dict[Node, Step] = {}
        self.of: dict[Node, Group] = {}
        self.needs: dict[Node, int] = {}  # of members of groups that are cut: large values, until they are there

    def made(self, floor: int) -> list[Group]:
        """The groups with a value of so many bytes, of more than one member, in the order of the first of these."""
        for node in reversed(self.order):
            if node.args and (step := self.step_of(node)) is not None:
                self._place(node, step)
        for node in self.order if self.multi_result else ():
            if node in self.of:
                self._widen(node)
        for group in dict.fromkeys(self.of.values()):
            if group.nbytes >= self.least and len(group.members) > HELD:
                self._cut(group)
        groups = dict.fromkeys(self.of[node] for node in self.order if node in self.of)
        return [g for g in groups if len(g.members) > 1 and g.nbytes >= floor]

    def _cut(self, group: Group) -> None:
        """Make a group several that hold less."""
        members = sorted(group.members, key=self.position)
        cutting = Cutting(members, group.shape, self.users, self.asked, self.least, self.multi_result)
        pieces = cutting.pieces()
        if len(pieces) == 1:
            return
        self.needs |= cutting.needs(pieces)
        for piece in pieces:
            made = Group(group.shape)
            for node in piece:
                self.of[node] = made
                made.add(node, self.steps[node])

    def _place(self, node: Node, step: Step) -> None:
        found = {self.of.get(u) for u in self.users(node)}
        group = found.pop() if len(found) == 1 and node not in self.asked else None
        if group is None or len(group.members) >= MOST or not self._fits(node, step, group):
            if step.reduces and not self.multi_result:
                return
            group = Group(step.shape)
        self.of[node], self.steps[node] = group, step
        group.add(node, step)

    def _fits(self, node: Node, step: Step, group: Group) -> bool:
        if step.reduces:
            return self.multi_result and step.readable and step.shape == group.shape and group.plain
        shape, whole = node.aval.shape, group.shape
        if shape == whole:
            return True
        cut = len(shape) == len(whole) and shape[:1] == whole[:1]  # as blocks are, so each element is computed once
        return _broadcasts(shape, whole) and bool(cut or node.aval.size * SMALL <= product(whole))

    def _widen(self, node: Node) -> None:
        """Let groups whose results a node reads join its own."""
        for a in node.args:
            mine, other = self.of[node], self.of.get(a if isinstance(a, Node) else a.node)
            if other is None or other is mine or not self._may_join(other, mine):
                continue
            for member in other.members:
                self.of[member] = mine
                mine.add(member, self.steps[member])

    def _may_join(self, other: Group, mine: Group) -> bool:
        return (
            other.shape == mine.shape
            and other.plain
            and mine.plain
            and max(other.nbytes, mine.nbytes) >= self.least
            and len(other.members) + len(mine.members) <= MOST
            and all(self.steps[a.node].readable for m in mine.members for a in m.args if self.of.get(a.node) is other)
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


def _broadcasts(shape: Any, whole: Any) -> bool:
    return len(shape) <= len(whole) and all(
        n in (1, extent) for n, extent in zip(shape, whole[len(whole) - len(shape) :], strict=True)
    )


# --- the pass ---------------------------------------------------------------------------------------------


def _is_large(seen: Seen, steps: _Steps, least: int) -> bool:
    """Whether a step of a graph reads or makes a value that is worth it."""
    different = set(map(attrgetter("aval"), seen.order))  # few are
    several = {n: n.avals for op in seen.operators if op.multi_result for n in seen.of(op)}
    different = different.union(*several.values()) - {None}
    large = {aval for aval in different if known(aval.nbytes) and aval.nbytes >= least}
    if not large:
        return False
    made = [n for n in seen.order if n.aval in large] + [n for n, avals in several.items() if large & {*avals}]
    near = dict.fromkeys(each for node in made for each in (node, *seen.users(node)) if each.args)
    return any(not large.isdisjoint([n.aval, *[a.aval for a in n.args]]) and steps.of(n) for n in near)


def _fused(roots: tuple[Value, ...], order: list[Node], builder: Builder, least: int | None) -> Any:
    seen, steps = builder.seen(order), _Steps(builder)
    if least is None:
        least = builder.machine.cache  # what fits in there is still there for the next operator
    floor = min(least, LIBRARY) if builder.has_libraries else least
    if not builder.may_fuse(blockwise) or not _is_large(seen, steps, floor):
        return roots, 0
    grouping = _Grouping(roots, seen, steps, least, builder.may_fuse(blockwise_several))
    joining, found, count = _Joining(grouping, builder), dict[Node, Value](), 0
    for group in grouping.made(floor):
        members = sorted(group.members, key=seen.place)
        made = joining.by_library(members) if group.nbytes < least or joining.reduces(members) else {}
        if not made and group.nbytes >= least:
            made = joining.together(members)
        count += bool(made) or group.nbytes >= least
        found |= made
    return found if found or count else roots, count


class _Joining:
    """The groups of a graph as one operator each."""

    def __init__(self, grouping: _Grouping, builder: Builder) -> None:
        self.grouping, self.builder = grouping, builder

    def reduces(self, members: list[Node]) -> bool:
        """Whether a library may have a kernel of a group's last members, though not of the first ones."""
        return self.builder.has_libraries and any(is_reduction(m.op) for m in members)

    def by_library(self, members: list[Node]) -> dict[Node, Value]:
        """As `together`, by a kernel of a library: of all, or of the last ones where it has none for the first."""
        for first in range(min(AHEAD, len(members) - 1)):
            found = self.together(members[first:], True)
            if found:
                return found
        return {}

    def together(self, members: list[Node], by_library: bool = False) -> dict[Node, Value]:
        """What takes the places of those that are seen from outside, of a group in the graph's order.

        Nothing, where the device has no kernel that computes all of it at once, or, `by_library`, none of a library.
        """
        self.builder.where = merged(m.origin for m in members)
        inside = set(members)
        outside = list(dict.fromkeys(a for m in members for a in m.args if a.node not in inside))
        needs, place = self.grouping.needs, self.grouping.position
        outside.sort(key=lambda a: (-needs.get(a.node, 0), place(a.node)))  # what came first is computed first
        args = tuple(outside)
        results = [m for m in members if self._is_seen(m, inside)]
        body = enclosed(args, members, results)
        if len(results) == 1 and results[0] is members[-1] and not any(is_reduction(m.op) for m in members):
            items, avals = blockwise.canonical({"body": body}), results[0].avals
            keeps_layout = all(a.aval.layout is None for a in args) or self._keeps_layout(args, items, avals[0])
            if keeps_layout and self._fuses(blockwise, args, items, by_library):
                return {members[-1]: self.builder.made(blockwise, args, items, avals)}
            return {}
        items = blockwise_several.canonical({"body": body})
        if not self._fuses(blockwise_several, args, items, by_library):
            return {}
        found = self.builder.made(blockwise_several, args, items, tuple(m.aval for m in results))
        return dict(zip(results, found.results, strict=True))

    def _fuses(self, by: Op, args: tuple[Value, ...], items: Items, by_library: bool = False) -> bool:
        avals = tuple([a.aval for a in args])
        if by_library:
            kernel = self.builder.kernel(by, avals, items)
            return kernel is not None and kernel.library is not None
        return self.builder.fuses(by, avals, items)

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
        Bytes that a value in a group must have, or nothing is gained: smaller ones stay in the caches anyway. None:
        what the outermost cache of the device's machine holds.

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

    least: int | None = None

    def from_size(self, least: int) -> Fusion:
        """The pass for values of so many bytes or more, whatever the machine."""
        function = partial(_fused, least=least)
        return evolve(self, least=least, function=function, samples=(_chain, _centred_rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.least,)


def _restored(least: int | None) -> Fusion:
    return fuse_elementwise if least is None else fuse_elementwise.from_size(least)


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
    partial(_fused, least=None),
    EXACT,
    False,
    __name__,
    (_large_chain,),
)
