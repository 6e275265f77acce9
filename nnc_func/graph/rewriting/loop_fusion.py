"""Loop fusion: loops that go equally often, none of which waits for another, are one loop with the bodies of all.

What they slice, and what is the same each time, is then read once; what they compute alike is computed once; a time
is begun once. A loop that reads rows of another one at the same times is fused with it too, and rows that nobody else
reads are never stacked. Typed fusion (Kennedy and McKinley, 1993) and Futhark do the same. Loops stay apart where one
loop would hold more memory, or drive constants out of the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from nnc_func.body import Body, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets.dims import known, substitute, symbols_of
from nnc_func.facets.machine import Machine
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.loop import ESTIMATE, loop, steps_of
from nnc_func.graph.rewriting.loops import Apply
from nnc_func.graph.rules.cost import EXTENT
from nnc_func.locks import cached_property

Users = Mapping[Value, Sequence[Node | None]]
"""The nodes that use each value, and None where it is a root."""


def fused(roots: Sequence[Value], machine: Machine, apply_at: Callable[[Node], Apply]) -> tuple[Sequence[Value], int]:
    """The roots with loops fused where that pays; and how many loops there are fewer.

    Conditional loops are not fused, nor are loops with effects: these keep their order.

    Parameters
    ----------
    machine
        Says what an iteration costs, and what its caches hold.
    apply_at
        What makes nodes in place of one.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (9,), "float64")
    >>> total = lazy.fold(lambda s, row: s + row, 0.0, x)
    >>> product = lazy.fold(lambda p, row: p * row, 1.0, x)
    >>> program = lazy.compile(inputs=[x], outputs=[total, product])
    >>> [node.op.name for node in program.graph.nodes if node.op.holds_body]
    ['loop']
    """
    found = _Fusion(roots, machine)
    groups = [group for group in found.groups if len(group.members) > 1]
    if not groups:
        return roots, 0
    return _rebuilt(roots, groups, found.users, apply_at), sum(len(group.members) - 1 for group in groups)


def has_siblings(roots: Sequence[Value], machine: Machine) -> bool:
    """Whether loops of which none reads another one's rows would be fused."""
    return any(len(group.members) > 1 for group in _Fusion(roots, machine, siblings=True).groups)


@define(eq=False)
class _Member:
    """One of the loops of a graph that can be fused with others.

    Attributes
    ----------
    number
        Its bit.
    times
        What loops have in common that go equally often: how often at most, and the value that says how often.
    reverse
        Whether it goes backwards; None where that makes no difference, as it carries nothing.
    """

    node: Node
    number: int
    constants: tuple[Value, ...]
    carries: tuple[Value, ...]
    slices: tuple[Value, ...]
    count: tuple[Value, ...]
    times: Any
    reverse: bool | None
    params: dict[str, Any]

    @classmethod
    def of(cls, node: Node, number: int) -> _Member | None:
        """The loop that a node is; None where it is none that is fused with others."""
        if node.op is not loop or not is_pure(loop, node.items):
            return None
        params = node.params
        if params["conditional"]:
            return None
        constants, first = params["constants"], params["constants"] + params["carries"]
        last = len(node.args) - params["counted"]
        avals = tuple([a.aval for a in node.args])
        most = steps_of(avals, constants, params["carries"], params["length"], params["counted"])
        count = node.args[last:]
        moves = params["carries"] or params["counted"]
        return cls(
            node, number, node.args[:constants], node.args[constants:first], node.args[first:last], count,
            (most, count, params["checkpoint"], node.avals[0].place), params["reverse"] if moves else None, params,
        )  # fmt: skip

    @property
    def body(self) -> Body:
        """What it computes each time."""
        return self.params["body"]  # type: ignore[no-any-return]

    @property
    def rows(self) -> tuple[Value, ...]:
        """Its results that are stacked."""
        return self.node.results[len(self.carries) :]


@define(eq=False)
class _Group:
    """Loops that are one, in the order of the graph.

    Attributes
    ----------
    number
        Its bit: that of its first member.
    above
        The groups that it depends on, by whatever is in between, as bits.
    """

    number: int
    members: list[_Member]
    above: int = 0
    mask: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.mask = 0
        for each in self.members:
            self.mask |= 1 << each.number

    @property
    def times(self) -> Any:
        """As of its members."""
        return self.members[0].times

    @property
    def reverse(self) -> bool | None:
        """Whether it goes backwards; None where that makes no difference."""
        return next((each.reverse for each in self.members if each.reverse is not None), None)

    @property
    def steps(self) -> int:
        """How often it goes, for comparing."""
        most = self.times[0]
        return ESTIMATE if most is None else _number(most)

    @cached_property
    def inner(self) -> set[Value]:
        """Rows that a later member slices."""
        rows = {row for each in self.members for row in each.rows}
        return {value for each in self.members for value in each.slices if value in rows}

    @cached_property
    def operands(self) -> set[Value]:
        """What it reads."""
        return {a for each in self.members for a in each.node.args} - self.inner

    def results(self, users: Users) -> set[Value]:
        """What others read of it."""
        own = {each.node for each in self.members}
        inner = self.inner
        given = {value for each in self.members for value in each.node.results if value in users}
        return {v for v in given if v not in inner or any(user not in own for user in users[v])}

    def seconds(self, machine: Machine, users: Users) -> float:
        """What it costs beside its arithmetic: each time is begun, reads slices, writes rows, and reads what it keeps.

        What it keeps, if that does not fit into the cache, is read from memory each time.
        """
        steps = self.steps
        kept = _bytes({v for each in self.members for v in (*each.constants, *each.carries)})
        rows = {row for each in self.members for row in each.rows}
        sliced = _bytes({v for each in self.members for v in each.slices} - self.inner)
        moved = sliced + _bytes(rows & self.results(users))
        fits = kept + moved // max(1, steps) <= machine.cache
        return steps * machine.launch + (moved + kept * (1 if fits else steps)) / machine.bandwidth


class _Fusion:
    """Which loops of a graph are fused.

    Attributes
    ----------
    siblings
        Only loops that read nothing of each other.
    groups
        Of all loops that could be, those that are one.
    """

    def __init__(self, roots: Sequence[Value], machine: Machine, siblings: bool = False) -> None:
        self.machine, self.siblings = machine, siblings
        self.groups: list[_Group] = []
        self.group_of: list[_Group] = []  # by the number of a loop
        self.members: dict[Node, _Member] = {}
        self.order = topological(roots)
        if sum(node.op is loop for node in self.order) > 1:
            self._group(roots)

    def _group(self, roots: Sequence[Value]) -> None:
        for node in self.order:
            member = _Member.of(node, len(self.members))
            if member is not None:
                self.members[node] = member
        if len({each.times for each in self.members.values()}) == len(self.members):
            return
        self.users: dict[Value, list[Node | None]] = {}
        for node in self.order:
            for a in node.args:
                self.users.setdefault(a, []).append(node)
        for root in roots:
            self.users.setdefault(root, []).append(None)
        self.above: dict[Node, int] = {}  # the loops that a node depends on, whatever is in between, as bits
        for node in self.order:
            self.above[node] = _united(self.above[a.node] | self._own(a.node) for a in node.args)
        near: dict[Node, int] = {}  # those of them with no loop in between
        for node in self.order:
            if node in self.members:
                self._place(self.members[node], near)
            else:
                near[node] = _united(self._own(a.node) or near[a.node] for a in node.args)

    def _own(self, node: Node) -> int:
        member = self.members.get(node)
        return 0 if member is None else 1 << member.number

    def _place(self, member: _Member, near: Mapping[Node, int]) -> None:
        """Let a loop be part of the first group with which it is fused with profit, or of a new one."""
        waits, sliced = 0, 0
        for n, a in enumerate(member.node.args):
            other = self.members.get(a.node)
            is_slice = len(member.constants) + len(member.carries) <= n < len(member.node.args) - len(member.count)
            if other is None:
                waits |= near[a.node]
            elif is_slice and a in other.rows and not self.siblings:
                sliced |= 1 << other.number
            else:
                waits |= 1 << other.number
        before = {self.group_of[n].number: self.group_of[n] for n in _bits(waits | sliced)}
        above = _united(1 << group.number | group.above for group in before.values())
        for group in self.groups:
            if group.times != member.times or {group.reverse, member.reverse} >= {True, False}:
                continue
            if group.mask & waits or any(
                other is not group and other.above >> group.number & 1 for other in before.values()
            ):
                continue
            alone = _Group(member.number, [member])
            both = _Group(group.number, [*group.members, member], (group.above | above) & ~(1 << group.number))
            if self._pays(group, alone, both, bool(group.mask & sliced)):
                self._replace(group, both)
                return
        self.groups.append(_Group(member.number, [member], above))
        self.group_of.append(self.groups[-1])

    def _replace(self, group: _Group, both: _Group) -> None:
        self.groups[self.groups.index(group)] = both
        self.group_of = [both if each is group else each for each in (*self.group_of, both)]
        for each in self.groups:
            if each.above >> both.number & 1:
                each.above |= both.above

    def _pays(self, first: _Group, second: _Group, both: _Group, in_order: bool) -> bool:
        """Whether two groups as one take less time, and hold no more memory."""
        times = [each.seconds(self.machine, self.users) for each in (first, second, both)]
        if not times[2] < times[0] + times[1]:
            return False
        held = self._held(first, second)
        if not in_order:
            held = min(held, self._held(second, first))
        slack = self.machine.caches[0] if self.machine.caches else 0
        return _bytes(v for v in (both.operands | both.results(self.users)) if v.node.args) <= held + slack

    def _held(self, first: _Group, second: _Group) -> int:
        """Bytes of operands and results that there are at once, at the least, where one loop goes after the other."""
        own = {each.node for group in (first, second) for each in group.members}
        there = first.operands | first.results(self.users)
        then = second.operands | second.results(self.users)

        def stays(value: Value) -> bool:
            users = [user for user in self.users[value] if user not in own]
            return any(user is None or self.above[user] & second.mask for user in users)

        at_first = _bytes(v for v in there if v.node.args)
        at_second = _bytes(v for v in then | {v for v in there if stays(v)} if v.node.args)
        return max(at_first, at_second)


def _united(masks: Iterable[int]) -> int:
    found = 0
    for each in masks:
        found |= each
    return found


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _number(extent: Any) -> int:
    """An extent; an unknown one as costs take it to be."""
    return int(extent if known(extent) else substitute(extent, dict.fromkeys(symbols_of(extent), EXTENT)))


def _bytes(values: Iterable[Value]) -> int:
    return sum(_number(value.aval.nbytes) for value in values)


# --- one loop of several -----------------------------------------------------------------------------------


def _rebuilt(
    roots: Sequence[Value], groups: Sequence[_Group], users: Users, apply_at: Callable[[Node], Apply]
) -> list[Value]:
    """The roots of a graph in which each group is one loop."""
    group_of = {each.node: group for group in groups for each in group.members}
    done: dict[Node, Sequence[Value | None]] = {}

    def now(value: Value) -> Value:
        return done[value.node][value.index]  # type: ignore[return-value]

    stack = [root.node for root in roots]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        group = group_of.get(node)
        args = node.args if group is None else group.operands
        waiting = [a.node for a in args if a.node not in done]
        if waiting:
            stack += waiting
        elif group is not None:
            done.update(_one_loop(group, users, now, apply_at(group.members[0].node)))
        elif all(now(a) is a for a in node.args):
            done[node] = node.results
        else:
            found = apply_at(node)(node.op, tuple(map(now, node.args)), node.items)
            done[node] = found if node.op.multi_result else (found,)
    return [now(root) for root in roots]


def _one_loop(
    group: _Group, users: Users, now: Callable[[Value], Value], apply: Apply
) -> dict[Node, Sequence[Value | None]]:
    """The results of each member, by its node, from one loop; None where nobody wants one."""
    wanted = group.results(users)
    constants = list(dict.fromkeys(v for each in group.members for v in each.constants))
    slices = list(dict.fromkeys(v for each in group.members for v in each.slices if v not in group.inner))
    carries = [value for each in group.members for value in each.carries]
    kinds: list[Any] = list(carries)  # carries are one that begin alike, as long as they go on alike
    while True:
        kept = list(dict.fromkeys(kinds))
        builder = BodyBuilder()
        known_values = dict(zip(constants, builder.parameters(len(constants)), strict=True))
        carried = dict(zip(kept, builder.parameters(len(kept)), strict=True))
        rows = dict(zip(slices, builder.parameters(len(slices)), strict=True))
        after: list[int] = []
        for each in group.members:
            first = len(after)
            given = [known_values[v] for v in each.constants]
            given += [carried[kind] for kind in kinds[first : first + len(each.carries)]]
            given += [rows[v] for v in each.slices]
            values = builder.include(each.body, given)
            made = [values[n] for n in each.body.results]
            after += made[: len(each.carries)]
            rows.update(zip(each.rows, made[len(each.carries) :], strict=True))
        finer = list(zip(kinds, after, strict=True))
        if len(set(finer)) == len(kept):
            break
        kinds = finer
    next_of = dict(zip(kinds, after, strict=True))
    stacked = list(dict.fromkeys(rows[v] for each in group.members for v in each.rows if v in wanted))
    body = builder.built([*(next_of[kind] for kind in kept), *stacked])
    start = dict(zip(kinds, carries, strict=True))
    most, count, _, _ = group.times
    params = {
        **group.members[0].params, "body": body, "constants": len(constants), "carries": len(kept),
        "length": None if slices else most, "reverse": bool(group.reverse),
    }  # fmt: skip
    operands = [*constants, *(start[kind] for kind in kept), *slices, *count]
    results = apply(loop, tuple(map(now, operands)), loop.canonical(params))
    place = {kind: n for n, kind in enumerate(kept)}
    found: dict[Node, Sequence[Value | None]] = {}
    for each in group.members:
        own = kinds[: len(each.carries)]
        del kinds[: len(each.carries)]
        stacks = [len(kept) + stacked.index(rows[v]) if v in wanted else None for v in each.rows]
        found[each.node] = [
            *(results[place[kind]] for kind in own),
            *(None if n is None else results[n] for n in stacks),
        ]
    return found
