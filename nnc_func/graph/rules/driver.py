"""The driver: rules applied to a graph, operands first, until none fires any more. Nothing recurses over nodes.

Nodes never change; a rewritten graph is new nodes above old ones. Once all operands of a node are as they will
stay, only its number of users can still make a rule fire, so one sweep is enough but where that was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError, OperatorError, PlaceError, RuleError, ShapeError
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.building import Builder
from nnc_func.graph.rules.ending import BOUND, Link, cycle, growth
from nnc_func.graph.rules.match import Compiled
from nnc_func.graph.rules.rule import Pass
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.rules.rewriting import Rewriting

REFUSALS = (ShapeError, DTypeError, OperatorError, PlaceError)


class Table:
    """Compiled rules, indexed by the operators of a node and of its operands; entries are made when first needed.

    Attributes
    ----------
    name
        Of the phase.
    rules, passes
        Of the phase and of those before it.
    own, own_passes
        What the phase itself brings in.
    own_roots
        Operators of the nodes that its own rules can match; None where that is not known.
    found, found_own
        Entries so far.
    """

    __slots__ = (
        "_rooted",
        "builder",
        "counts_users",
        "found",
        "found_own",
        "name",
        "own",
        "own_passes",
        "own_roots",
        "passes",
        "rules",
    )

    def __init__(
        self,
        name: str,
        builder: Builder,
        rules: Iterable[Compiled],
        passes: Iterable[Pass],
        earlier: Table | None = None,
    ) -> None:
        self.name = name
        self.builder = builder
        self.own, self.own_passes = tuple(rules), tuple(passes)
        self.rules: tuple[Compiled, ...] = (*(earlier.rules if earlier else ()), *self.own)
        self.passes: tuple[Pass, ...] = (*(earlier.passes if earlier else ()), *self.own_passes)
        self.counts_users = any(r.counts_users for r in self.rules)
        roots = [r.roots for r in self.own]
        self.own_roots = None if None in roots else frozenset().union(*roots)  # type: ignore[arg-type]
        self.found: dict[tuple[Op, ...], tuple[Compiled, ...]] = {}
        self.found_own: dict[tuple[Op, ...], tuple[Compiled, ...]] = {}
        self._rooted: dict[tuple[Op, bool], tuple[Compiled, ...]] = {}

    def at(self, heads: tuple[Op, ...]) -> tuple[Compiled, ...]:
        """Rules that may match a node whose operator, and whose operands' operators, are these."""
        found = self.found.get(heads)
        return self._entered(self.found, heads, False) if found is None else found

    def own_at(self, heads: tuple[Op, ...]) -> tuple[Compiled, ...]:
        """As `at`, of the phase's own rules."""
        found = self.found_own.get(heads)
        return self._entered(self.found_own, heads, True) if found is None else found

    def _entered(self, table: dict[tuple[Op, ...], Any], heads: tuple[Op, ...], own: bool) -> Any:
        op, operands = heads[0], heads[1:]
        rooted = self._rooted.get((op, own))
        if rooted is None:
            every = self.own if own else self.rules
            rooted = self._rooted[op, own] = tuple(r for r in every if r.roots is None or op in r.roots)
        found = table[heads] = tuple(r for r in rooted if r.wants(op, operands))
        return found


class Sweep:
    """One sweep over a graph.

    Attributes
    ----------
    done
        Node to what it has become: a value, or of a node with several results the new node.
    own
        Whether the phase's own rules are to be tried on nodes that were settled before.
    asked
        (node, what it uses, users): a rule did not fire on the node, perhaps because of that number of users.
    replaced
        Nodes that a pass has replaced, and by what, as long as they have not been met.
    fired
        Whether a rule fired.
    """

    def __init__(self, of: Rewriting, table: Table, own: bool, replaced: Mapping[Node, Value]) -> None:
        self.of = of
        self.watch, self.sides = of.watch, of.sides
        self.table = table
        self.builder = table.builder
        self.own = own
        self.counts_users = table.counts_users or of.measures
        self.uses: dict[Node, int] = {}
        if replaced:
            self.uses = uses_with(replaced, of.roots)
        elif self.counts_users:
            self.uses = dict(of.uses())
        self.done: dict[Node, Any] = {}
        self.replaced = dict(replaced)
        self.waiting: dict[Node, Value] = {}  # rewritten to something that is not settled yet
        self.twins: dict[Node, Node] = {}  # of those, on which new operands a rule fired
        self.links: dict[Node, Link] = {}  # by what they made
        self.going: dict[Node, Link | None] = {}  # of those that are waiting
        self.last: Any = None
        self.asked: list[tuple[Node, Node, int]] = []
        self.root: Any = None
        self.fired = False

    def run(self) -> tuple[Value, ...]:
        """The new roots."""
        done, waiting, result, table, uses = self.done, self.waiting, self.result, self.table, self.uses
        settled, again, found_at, replaced = self.of.settled, self.of.again, table.found, self.replaced
        own = table.own_roots if self.own else frozenset()
        live = set(self.uses) if replaced else None
        changed = False  # whether some node has become another
        for node in self.of.nodes():
            if node in done:
                continue
            if live is not None and node not in live:
                continue  # only what a pass has replaced used it
            if node in replaced:
                changed = True
                self.settle(node)
                continue
            old = node.args
            known = node in settled and node not in again
            if known and not changed and own is not None and node.op not in own:
                done[node] = node
                continue
            if not old and not node.op.pure:
                done[node] = node
                continue
            args = tuple([done[a] if type(a) is Node else result(a) for a in old])
            new = node if args == old else self.rebuilt(node, args)
            if new is not node:
                changed = True
                if new in done or new in waiting or new in replaced:
                    self.settle(node)  # it is one that there is already
                    continue
                known = new in settled and new not in again
            heads = (new.op, *[a.op if type(a) is Node else a.node.op for a in args])
            rules = found_at.get(heads)
            if rules is None:
                rules = table.at(heads)
            if rules and known:
                rules = table.own_at(heads) if self.own else ()
            found = self.fire(new, rules) if rules else None
            if found is None:
                done[new] = new
                if new is not node:
                    done[node] = new
                    if uses:
                        uses[new] = uses.get(new, 0) + uses[node]
            else:
                changed = True
                self.replace(node, new, found)
        return tuple(map(self.final, self.of.roots))

    def replace(self, node: Node, new: Node, found: Value) -> None:
        """A rule made something of a node on its new operands: bring that to the form in which none fires."""
        done = self.done
        chain: list[tuple[Node, Value, Link]] = []
        value: Any = found
        link = self.last
        while value.node not in done:
            made = value.node
            met = made in self.waiting or made in self.replaced or made is node or made is new
            met = met or made in [each for each, _, _ in chain]
            if met or not all(map(self.is_settled, made.args)):
                self.wait(node, new, found, link)  # it is there already, or what lies below it is not settled
                for each, after, why in chain:
                    self.wait(each, each, after, why)
                self.settle(node, *(each for each, _, _ in chain))
                return
            fired = self.fire(made, self.table.at((made.op, *[a.node.op for a in made.args])))
            if fired is None:
                self.becomes(made, made)
                break
            chain.append((made, fired, self.last))
            value = fired
        final = self.final(value)
        for each, _, _ in chain:
            done[each] = final
        self.becomes(node, final)
        done[new] = final

    def is_settled(self, value: Value) -> bool:
        """Whether a value is what it will stay."""
        return self.done.get(value.node) is value.node

    def final(self, value: Value) -> Value:
        """What a value has become."""
        return self.done[value] if type(value) is Node and not value.op.several else self.result(value)

    def result(self, value: Value) -> Value:
        """What one of several results has become."""
        node = self.done[value.node]
        return value if node is value.node else node.result(value.index)

    def rebuilt(self, node: Node, args: tuple[Value, ...]) -> Node:
        """The node on other operands, which have the avals of its own: so has the result."""
        self.builder.where = node.origin
        return self.builder.made(node.op, args, node.items, node.avals)

    def fire(self, node: Node, rules: tuple[Compiled, ...]) -> Value | None:
        """What the first rule that fires makes of the node."""
        if not node.op.pure or node.op.several:
            return None
        self.builder.where = node.origin
        self.root = node
        users, watch, measures = self.users, self.watch, self.of.measures
        for rule in rules:
            try:
                if measures:
                    found = watch.attempt(rule, node, users, self.of.tally(rule.name))  # type: ignore[union-attr]
                else:
                    found = rule.attempt(node, users)
            except REFUSALS as error:  # the right side does not exist for these operands
                self.of.tally(rule.name).refuse(f"it cannot be built: {error}")
                continue
            except Exception as error:
                raise RuleError(f"rule {rule.name} failed on {node!r}: {type(error).__name__}: {error}") from error
            if found is not None and found is not node and self.accepted(rule, node, found):
                return found
        return None

    def accepted(self, rule: Compiled, node: Node, found: Value) -> bool:
        """Whether what a rule made of a node may take its place; if so, it is counted."""
        name, tally = rule.name, self.of.tally(rule.name)
        if found.aval != node.aval:
            tally.refuse(f"{node.aval!r} became {found.aval!r}")
            return False
        if self.sides is not None:
            self.sides.check(name, rule.rule.numerics, rule.rule.fast_math, node, found)
        tally.matched += 1
        self.fired = True
        if self.watch is not None:
            self.watch.fired(name, node, found, tally, self.done, self.uses)
        link = Link(name, node, found, self.links.get(node))
        if link.depth > BOUND:
            raise growth(link)
        self.last = link
        if found.node not in self.done:
            self.links.setdefault(found.node, link)
        return True

    def settle(self, *nodes: Node) -> None:
        """Bring a node, and whatever rules make of it, to the form in which no rule fires; each waits for the next."""
        done, waiting = self.done, self.waiting
        stack = [*nodes]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            value = waiting.get(node)
            if value is None and node in self.replaced:
                value = waiting[node] = self.replaced.pop(node)
            if value is not None:
                if value.node in done:
                    self.becomes(node, self.final(value))
                    del waiting[node]
                    twin = self.twins.pop(node, None)
                    if twin is not None:
                        done[twin] = done[node]
                        del waiting[twin]
                else:
                    self.enter(stack, value.node, node)
                continue
            pending = [a.node for a in node.args if a.node not in done]
            if pending:
                for operand in pending:
                    self.enter(stack, operand, node)
                continue
            self.step(node)

    def enter(self, stack: list[Node], node: Node, after: Node) -> None:
        """Go on with a node, which must not be waiting itself."""
        if node in self.waiting:
            raise cycle(self.going.get(after) or self.links.get(after), self.twins.get(node, node))
        link = self.links.get(after)
        if link is not None:
            self.links.setdefault(node, link)
        stack.append(node)

    def step(self, node: Node) -> None:
        """One rewrite of a node whose operands are settled, or none any more."""
        args = tuple(map(self.final, node.args))
        new = node if args == node.args else self.rebuilt(node, args)
        if new is not node:
            if new in self.waiting:
                raise cycle(self.links.get(node), new)
            if new in self.done:
                if self.watch is not None:
                    self.watch.merged(node, new)
                self.becomes(node, self.done[new])
                return
            if new in self.replaced:
                self.wait(node, new, self.replaced.pop(new), self.links.get(node))
                return
            if node in self.links:
                self.links.setdefault(new, self.links[node])
        heads = (new.op, *[a.node.op for a in new.args])
        found = self.fire(new, self.table.at(heads))
        if found is None:
            self.done[new] = new
            self.becomes(node, new)
        else:
            self.wait(node, new, found, self.last)

    def wait(self, node: Node, new: Node, found: Value, link: Link | None) -> None:
        """A rule made `found` of the node on its new operands; it is not settled yet."""
        self.waiting[node] = found
        self.going[node] = link
        if new is not node:
            self.waiting[new] = found
            self.twins[node] = new

    def becomes(self, node: Node, value: Any) -> None:
        """Record what a node has become; its users use that."""
        self.done[node] = value
        if self.counts_users:
            uses = self.uses
            if node not in uses:  # a rule made it: what it uses is used once more
                uses[node] = 0
                for a in node.args:
                    uses[a.node] = uses.get(a.node, 0) + 1
            if value is not node:
                uses[value.node] = uses.get(value.node, 0) + uses[node]

    def users(self, value: Value) -> int:
        """How often a value is used, as an operand or a root; never too few, but for nodes that become equal later."""
        node = value.node
        found = self.uses.get(node, 0)
        if found != 1:
            self.asked.append((self.root, node, found))
        return found


def uses_with(replaced: Mapping[Node, Value], roots: tuple[Value, ...]) -> dict[Node, int]:
    """How often each node is used, of those that are left when some are replaced; these are used no more."""

    def target(node: Node) -> Node:
        while node in replaced:
            node = replaced[node].node
        return node

    found = dict.fromkeys(replaced, 0)
    waiting = [roots]
    while waiting:
        for value in waiting.pop():
            node = target(value.node)
            if node not in found:
                found[node] = 0
                waiting.append(node.args)
            found[node] += 1
    return found


def uses_of(order: list[Node], roots: tuple[Value, ...]) -> dict[Node, int]:
    """How often each node is used, as an operand or a root."""
    found = dict.fromkeys(order, 0)
    for node in order:
        for a in node.args:
            found[a if type(a) is Node else a.node] += 1
    for root in roots:
        found[root.node] += 1
    return found
