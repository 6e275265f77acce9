"""The graph that is being rewritten: nodes of its own, which change in place where what they use is replaced.

So a rewrite costs as much as what uses the replaced value, not as much as all that lies above it. The nodes that are
left in the end are made anew, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from nnc_func.body import is_pure
from nnc_func.declaration import Items
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.copying import Copies
from nnc_func.graph.rewriting.mutable import NOWHERE, MutableNode, MutableValue, leaf_of
from nnc_func.graph.rewriting.operator_index import ByHeads
from nnc_func.graph.rewriting.places import inserted
from nnc_func.graph.rewriting.shown import Shown
from nnc_func.graph.rewriting.wide import WIDE, Operands, instead
from nnc_func.op import Op

Merged = list[tuple[MutableNode, MutableNode]]  # nodes, and those that they have become one with


class Workspace:
    """A graph of nodes that belong to one rewriting, see `MutableNode`: equal pure ones are one node, see `made`.

    The nodes of the stack are read, and never written.

    Parameters
    ----------
    roots, builder
        What is wanted; what makes nodes.
    nodes
        Those that the roots depend on, operands first, and perhaps more; they are found if they are not given.

    Attributes
    ----------
    before
        The nodes of the stack that it was made of, operands first.
    roots
        As they are so far.
    pending
        Nodes on which some rule that is in force may fire, if they are still part of the graph.
    marks
        For each place a byte: 1 where a sweep has still to look at the node that is there.
    """

    def __init__(self, roots: tuple[Value, ...], builder: Builder, nodes: Iterable[Node] | None = None) -> None:
        self.builder = builder
        self.before = topological(roots) if nodes is None else list(nodes)
        copies = Copies(self.before)
        own = copies.own
        self._equal = copies.equal  # operator, parameters and operands to the node
        self._by_heads = copies.by_heads
        self._leaves = copies.leaves
        self._stale = copies.repeated  # whose users are listed twice, or listed though they are gone
        self._places: list[MutableNode | None] = [*map(own.__getitem__, self.before), None]
        self._shown = Shown(builder)
        self._anew: list[MutableNode] = []  # made or changed, and not put under their heads yet
        self._asked: dict[MutableNode, set[MutableNode]] = {}
        self._held: Collection[MutableNode] = frozenset()  # what is not dropped yet, though nothing uses it
        self._wide: dict[MutableNode, Operands] = {}
        self.roots = [own[r] for r in roots]
        self._rooted: dict[MutableNode, list[int]] = {}
        for i, root in enumerate(self.roots):
            self._rooted.setdefault(root.node, []).append(i)
            root.node.uses += 1
        self._moved: dict[int, list[MutableNode]] = {}  # place to what was put before the node that was there
        self._order, self._changed = list[MutableNode](), True
        self.pending: set[MutableNode] = set()
        self.marks = bytearray(len(self._places))
        stray = [node for node in copies.unused if not node.uses]  # on which the roots do not depend
        for node in stray:
            self._drop(node)
        if stray:
            self.before = [node for node in self.before if own[node].users is not None]

    def close(self) -> None:
        """Leave no circles, so that what it has held is freed at once."""
        for node in filter(None, self._places):
            node.users = None

    # --- what there is ------------------------------------------------------------------------------------

    def order(self) -> list[MutableNode]:
        """The nodes, operands first; their places increase."""
        if self._changed:
            self._order = list(filter(None, self.places()))
            self._changed = False
        return self._order

    def places(self) -> list[MutableNode | None]:
        """What is at each place, if it still is; and nothing at the last one."""
        if self._moved:
            self._places, self._moved = [*inserted(self._places, self._moved), None], {}
            self.marks = bytearray(len(self._places))
        return self._places

    def by_heads(self) -> ByHeads:
        """The nodes by their heads."""
        if self._anew:
            self._by_heads.add(set(self._anew))
            self._anew = []
        return self._by_heads

    def users(self, node: MutableNode) -> list[MutableNode]:
        """The nodes that use it, each once.

        Who is gone stays listed until somebody asks: to look for it wherever it was would take long.
        """
        users: list[MutableNode] = node.users
        if node in self._stale:
            self._stale.discard(node)
            if len(users) > 1 or (users and users[0].users is None):
                users[:] = dict.fromkeys([user for user in users if user.users is not None])
        return users

    def wake(self, nodes: Iterable[MutableNode]) -> None:
        """Rules may fire on these nodes."""
        pending, marks = self.pending, self.marks
        for node in nodes:
            if node.users is not None:
                pending.add(node)
                marks[node.place] = 1

    def ask(self, node: MutableNode, root: MutableNode) -> None:
        """The root is pending again once that node has another number of users."""
        self._asked.setdefault(node, set()).add(root)

    # --- making -------------------------------------------------------------------------------------------

    def made(self, op: Op, args: tuple[MutableValue, ...], items: Items, avals: tuple[Any, ...] | None) -> MutableNode:
        """The node of that application; it is no part of the graph until it enters it."""
        for a in args:
            if type(a) is not MutableNode and type(a.node) is not MutableNode:
                args = tuple(map(self.own, args))
                break
        key = (op, op.key(items) if op.compares_bits else items, args)
        pure = op.pure and (not op.holds_body or is_pure(op, items))
        node = self._equal.get(key) if pure else None
        if node is None or node.args != args or node in self._wide:  # it has been given other operands
            builder = self.builder
            avals = avals or builder.inferred(op, args, items)
            node = MutableNode(builder.table, op, args, items, avals, builder.where)
            node.source = node.users = node.heads = None
            if pure:
                self._equal[key] = node
        return node

    def own(self, value: Value) -> MutableValue:
        """A value that a rule gives: where it was made by the stack, not by the builder, the same made here."""
        if type(value.node) is MutableNode:
            return value
        done: dict[Node, MutableNode] = {}

        def now(value: Value) -> MutableValue:
            node = done.get(value.node, value.node)
            return node.result(value.index) if node.op.multi_result else node

        stack = [value.node]
        while stack:
            node = stack[-1]
            missing = [a.node for a in node.args if type(a.node) is not MutableNode and a.node not in done]
            if missing:
                stack += missing
                continue
            stack.pop()
            if node.args:
                done[node] = self.made(node.op, tuple(map(now, node.args)), node.items, node.avals)
            else:
                done[node] = self.leaf(node)
        return now(value)

    def leaf(self, node: Node) -> MutableNode:
        """The copy of a node of the stack that has no operands."""
        found = self._leaves.get(node)
        if found is None:
            found = self._leaves[node] = leaf_of(node)
        return found

    def enter(self, value: MutableValue, at: MutableNode) -> list[MutableNode] | None:
        """Make a value part of the graph where a node is: what is new in it; None if it depends on that node."""
        node, here, places = value if type(value) is MutableNode else value.node, at.place, self._places
        if node.users is not None or places[here] is not at:
            return self._entered((node,), here, at)
        for a in node.args:
            if type(a) is not MutableNode:
                a = a.node
            if a.users is None or a.place >= here:
                return self._entered((node,), here, at)
        self._register(node)  # most often it is one node, of what there is: it takes the place
        self._changed, node.place, places[here] = True, here, node
        return [node]

    def _entered(self, values: Iterable[MutableValue], here: int, at: MutableNode | None) -> list[MutableNode] | None:
        fresh: list[MutableNode] = []
        seen: set[MutableNode] = set()
        stack = [value.node for value in values]
        while stack:
            node = stack[-1]
            if node in seen or (node.users is not None and node.place < here):
                stack.pop()
                continue
            if node is at:
                return None
            below = [a if type(a) is MutableNode else a.node for a in node.args]
            missing = [b for b in below if (b.users is None or b.place >= here) and b not in seen]
            if missing:
                stack += reversed(missing)
                continue
            seen.add(stack.pop())
            if node.users is None:
                self._register(node)
                fresh.append(node)
            elif node.place == here:
                continue
            elif self._places[node.place] is node:
                self._places[node.place] = None
                if self.marks[node.place]:
                    self.pending.add(node)  # the sweep would have met it there
            self._move(node, here)
        return fresh

    def _move(self, node: MutableNode, here: int) -> None:
        self._changed, node.place = True, here
        moved = self._moved.get(here)
        if moved is None:
            self._moved[here] = [node]
        else:
            moved.append(node)

    def _register(self, node: MutableNode) -> None:
        node.users, node.uses = [], 0
        self.pending.add(node)
        self._anew.append(node)
        args, asked = node.args, self._asked
        for a in args:
            if type(a) is not MutableNode:
                a = a.node
                self._stale.add(a)
            a.users.append(node)
            a.uses += 1
            if a in asked:
                self.wake(asked.pop(a))
        if len(args) > 1 and (args[0] is args[1] or len(args) > 2):
            self._stale.update([a if type(a) is MutableNode else a.node for a in args])

    def _count(self, node: MutableNode, more: int) -> None:
        """Note that a node is used so many times more."""
        node.uses += more
        if node in self._asked:
            self.wake(self._asked.pop(node))

    # --- replacing ----------------------------------------------------------------------------------------

    def replace(self, pairs: list[tuple[MutableNode, MutableValue]]) -> tuple[list[MutableNode], Merged]:
        """Use values, which have entered, where nodes are used: what changes so, and what becomes one with another.

        What changes and is wide has its new operands after `turn_wide`.
        """
        changed: list[MutableNode] = []
        merged: Merged = []
        gone: dict[MutableNode, MutableValue] = {}
        todo = pairs[::-1]
        if len(todo) > 1:
            self._held = {new.node for _, new in todo}
        while todo:
            old, new = todo.pop()
            while gone and new.node in gone:
                new = self._instead(new, new.node, gone[new.node])
            into = new if type(new) is MutableNode else new.node
            if old.users is None or into.users is None:
                continue
            gone[old] = new
            users = self.users(old)
            changed += users
            for one in self._turned(users, old, new):
                todo.append(one)
                merged.append(one)
            if into.users:
                into.users += users
                self._stale.add(into)
            else:
                into.users = users
            if old in self._rooted:
                self._root(old, new)
            self._count(into, old.uses)
            self._drop(old)
        if self._held:
            held, self._held = self._held, frozenset()
            for node in held:
                if node.users is not None and not node.uses:
                    self._drop(node)
        return changed, merged

    def _turned(self, users: list[MutableNode], old: MutableNode, new: MutableValue) -> Merged:
        """Let nodes use one value instead of another: of those that are equal to a node then, which to replace."""
        several, merged = old.op.multi_result, []
        for user in users:
            args = user.args
            if len(args) == 2 and not several:
                a, b = args
                args = new if a is old else a, new if b is old else b
            elif len(args) > WIDE:
                self._wide_operands(user).turn(old, new)
                continue
            elif several:
                args = tuple([self._instead(a, old, new) for a in args])
            else:
                args = tuple([new if a is old else a for a in args])
            if (pair := self._written(user, args)) is not None:
                merged.append(pair)
        return merged

    def _wide_operands(self, node: MutableNode) -> Operands:
        found = self._wide.get(node)
        if found is None:
            found = self._wide[node] = Operands(node.args)
        return found

    def turn_wide(self, node: MutableNode) -> tuple[list[MutableNode], Merged]:
        """Give a wide node the operands that `replace` has found for it: what that changes, as `replace` says it."""
        operands = self._wide.pop(node, None)
        if operands is None or node.users is None:
            return [], []
        pair = self._written(node, tuple(operands.values))
        if pair is None:
            return [], []
        changed, merged = self.replace([pair])
        return changed, [pair, *merged]

    def _written(self, user: MutableNode, args: tuple[MutableValue, ...]) -> tuple[MutableNode, MutableNode] | None:
        """Let a node have these operands: where it is equal to another one then, which of both to replace by which."""
        op, equal = user.op, self._equal
        user.args, user.heads = args, None
        self._anew.append(user)
        if self._shown:
            self._shown.forget(user)
        if not op.pure or (op.holds_body and not is_pure(op, user.items)):
            return None
        key = (op, op.key(user.items) if op.compares_bits else user.items, args)
        other = equal.setdefault(key, user)
        if other is user:
            return None
        is_equal = other.users is not None and other.args == args
        if is_equal and other.place <= user.place:
            return user, other
        equal[key] = user
        return (other, user) if is_equal else None

    def _instead(self, value: MutableValue, old: MutableNode, new: MutableValue) -> MutableValue:
        return instead(value, old, new) if value.node is old else value

    def _root(self, old: MutableNode, new: MutableValue) -> None:
        """Let a value be a root, where a node is one."""
        at = self._rooted.pop(old)
        for i in at:
            self.roots[i] = self._instead(self.roots[i], old, new)
        self._rooted.setdefault(new.node, []).extend(at)

    def _drop(self, node: MutableNode) -> None:
        """Take out a node, and what only it has used."""
        todo, places, shown, asked, stale = [node], self._places, self._shown, self._asked, self._stale
        held, wide = self._held, self._wide
        self._changed = True
        while todo:
            node = todo.pop()
            if places[node.place] is node:
                places[node.place] = None
            node.users, node.place = None, NOWHERE
            if shown:
                shown.pop(node, None)
            for a in wide.pop(node).values if node in wide else node.args:
                if type(a) is not MutableNode:
                    a = a.node
                a.uses = uses = a.uses - 1
                if uses:
                    stale.add(a)
                    if a in asked:
                        self.wake(asked.pop(a))
                elif a in held:
                    stale.add(a)
                else:
                    todo.append(a)

    def turn(self, roots: tuple[MutableValue, ...]) -> None:
        """Go on with other roots."""
        self._entered(reversed(roots), len(self._places) - 1, None)
        for root in roots:
            self._count(root.node, 1)
        before, self.roots, self._rooted = self.roots, list(roots), {}
        for i, root in enumerate(roots):
            self._rooted.setdefault(root.node, []).append(i)
        for root in before:
            self._count(root.node, -1)
            if not root.node.uses:
                self._drop(root.node)

    # --- as nodes of the stack ----------------------------------------------------------------------------

    def shown(self, value: MutableValue) -> Value:
        """A value as it is, as one of the stack."""
        return self._shown.of(value)

    def finished(self) -> tuple[tuple[Value, ...], list[Node]]:
        """The roots as values of the stack, and the nodes that these depend on, operands first.

        Nothing is made or replaced here after that, so what only that needs is freed before the nodes are made.
        """
        self._equal.clear()
        self._by_heads.clear()
        after = self._shown.settle(self.order())
        return tuple([self._shown[r] for r in self.roots]), after
