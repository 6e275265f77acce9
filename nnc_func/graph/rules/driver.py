"""The driver: rules applied to a graph, operands first, until none fires any more. Nothing recurses over nodes.

Nodes never change; a rewritten graph is new nodes above old ones. Once all operands of a node are as they will
stay, only its number of users can still make a rule fire, so one sweep is enough but where that was asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError, OperatorError, PlaceError, RuleError, ShapeError
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import told
from nnc_func.graph.rules.match import Builder, Compiled
from nnc_func.graph.rules.rule import Pass
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.rules.rewriting import Rewriting

BOUND = 1000  # rewrites of one root, one after the other, and sweeps over a graph


class Table:
    """Compiled rules, indexed by the operators of a node and of its operands; entries are made when first needed.

    Attributes
    ----------
    rules, passes
        Of the phase and of those before it.
    own, own_passes
        What the phase itself brings in.
    own_roots
        Operators of the nodes that its own rules can match; None where that is not known.
    """

    __slots__ = (
        "_found",
        "_own",
        "_rooted",
        "builder",
        "counts_users",
        "own",
        "own_passes",
        "own_roots",
        "passes",
        "rules",
    )

    def __init__(
        self, builder: Builder, rules: Iterable[Compiled], passes: Iterable[Pass], earlier: Table | None = None
    ) -> None:
        self.builder = builder
        self.own, self.own_passes = tuple(rules), tuple(passes)
        self.rules: tuple[Compiled, ...] = (*(earlier.rules if earlier else ()), *self.own)
        self.passes: tuple[Pass, ...] = (*(earlier.passes if earlier else ()), *self.own_passes)
        self.counts_users = any(r.counts_users for r in self.rules)
        roots = [r.roots for r in self.own]
        self.own_roots = None if None in roots else frozenset().union(*roots)  # type: ignore[arg-type]
        self._found: dict[tuple[Op, ...], tuple[Compiled, ...]] = {}
        self._own: dict[tuple[Op, ...], tuple[Compiled, ...]] = {}
        self._rooted: dict[tuple[Op, bool], tuple[Compiled, ...]] = {}

    def at(self, heads: tuple[Op, ...]) -> tuple[Compiled, ...]:
        """Rules that may match a node whose operator, and whose operands' operators, are these."""
        found = self._found.get(heads)
        return self._entered(self._found, heads, False) if found is None else found

    def own_at(self, heads: tuple[Op, ...]) -> tuple[Compiled, ...]:
        """As `at`, of the phase's own rules."""
        found = self._own.get(heads)
        return self._entered(self._own, heads, True) if found is None else found

    def _entered(self, table: dict[tuple[Op, ...], Any], heads: tuple[Op, ...], own: bool) -> Any:
        op, operands = heads[0], heads[1:]
        rooted = self._rooted.get((op, own))
        if rooted is None:
            every = self.own if own else self.rules
            rooted = self._rooted[op, own] = tuple(r for r in every if r.roots is None or op in r.roots)
        found = table[heads] = tuple(r for r in rooted if r.wants(op, operands))
        return found


class _Link:
    """What introduced a node: the rule, and what introduced the node that the rule was applied to."""

    __slots__ = ("depth", "name", "of")

    def __init__(self, name: str, of: _Link | None) -> None:
        self.name = name
        self.of = of
        self.depth: int = 1 if of is None else of.depth + 1


class Sweep:
    """One sweep over a graph.

    Attributes
    ----------
    done
        Node to what it has become: a value, or of a node with several results the new node.
    settled
        Nodes on which no rule fires but perhaps the phase's own, unless `again`.
    own
        Whether the phase's own rules are to be tried on those.
    again
        Nodes on which a rule did not fire because of a number of users.
    fired
        Whether a rule fired.
    """

    def __init__(
        self, of: Rewriting, table: Table, order: list[Node], settled: set[Node], own: bool, again: set[Node]
    ) -> None:
        self.sides, self.counts, self.trace = of.sides, of.counts, of.trace
        self.table = table
        self.builder = table.builder
        self.settled, self.own, self.again = settled, own, again
        self.root: Any = None
        self.asked_users: set[Node] = set()
        self.roots = of.roots
        self.order = order
        self.done: dict[Node, Any] = {}
        self.waiting: dict[Node, Value] = {}  # rewritten to something that is not settled yet
        self.twins: dict[Node, Node] = {}  # of those, on which new operands a rule fired
        self.links: dict[Node, _Link] = {}
        self.uses = _uses(self.order, self.roots) if table.counts_users else {}
        self.fired = False

    def run(self) -> tuple[Value, ...]:
        """The new roots."""
        done, result = self.done, self.result
        settled, again, at, own_at, own = (
            self.settled,
            self.again,
            self.table.at,
            self.table.own_at,
            self.table.own_roots,
        )
        own = own if self.own else frozenset()
        changed = False  # whether some node has become another
        for node in self.order:
            if node in done:
                continue
            old = node.args
            if not old and not node.op.pure:
                done[node] = node
                continue
            known = node in settled and node not in again
            if known and not changed and own is not None and node.op not in own:
                done[node] = node
                continue
            args = tuple([done[a] if type(a) is Node else result(a) for a in old])
            new = node if args == old else self.rebuilt(node, args)
            if new is not node and (new in done or new in self.waiting):
                self.settle(node)
                changed = True
                continue
            rules = at((new.op, *[a.op if type(a) is Node else a.node.op for a in args]))
            if rules and (known if new is node else new in settled and new not in again):
                rules = own_at((new.op, *[a.op if type(a) is Node else a.node.op for a in args])) if self.own else ()
            found = self.fire(new, rules) if rules else None
            if found is None:
                done[new] = new
                if new is not node:
                    changed = True
                    self.becomes(node, new)
            else:
                changed = True
                self.wait(node, new, found)
                self.settle(node)
        return tuple(map(self.final, self.roots))

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
        for rule in rules:
            count = self.counts.get(rule.name)
            if count is None:
                count = self.counts[rule.name] = [0, 0, 0, 0.0]
            start = perf_counter()
            try:
                found = rule.attempt(node, self.users)
            except (
                ShapeError,
                DTypeError,
                OperatorError,
                PlaceError,
            ):  # the right side does not exist for these operands
                count[2] += 1
                found = None
            except Exception as error:
                raise RuleError(f"rule {rule.name} failed on {node!r}: {type(error).__name__}: {error}") from error
            count[0] += 1
            count[3] += perf_counter() - start
            if found is None or found is node:
                continue
            if found.aval != node.aval:
                count[2] += 1
                continue
            if self.sides is not None:
                self.sides.check(rule.name, rule.rule.numerics, rule.rule.fast_math, node, found)
            count[1] += 1
            self.fired = True
            if self.trace is not None:
                self.trace.append((rule.name, told(node.origin)))
            self.introduce(found.node, rule.name, node)
            return found
        return None

    def introduce(self, made: Node, name: str, root: Node) -> None:
        """Remember which rules led to a node; a node to which too many led will never settle."""
        link = _Link(name, self.links.get(root))
        if link.depth > BOUND:
            raise RuleError(f"rewriting does not end: {_names(link)} fired {link.depth} times one after the other")
        if made not in self.done:
            self.links.setdefault(made, link)

    def settle(self, first: Node) -> None:
        """Bring a node, and whatever rules make of it, to the form in which no rule fires."""
        done, waiting = self.done, self.waiting
        stack = [first]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            value = waiting.get(node)
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
            names = _names(self.links.get(node), self.links.get(after))
            raise RuleError(f"rewriting does not end: {names} lead back to {node!r}")
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
                raise RuleError(f"rewriting does not end: {_names(self.links.get(node))} lead back to {new!r}")
            if new in self.done:
                self.becomes(node, self.done[new])
                return
            if node in self.links:
                self.links.setdefault(new, self.links[node])
        heads = (new.op, *[a.node.op for a in new.args])
        found = self.fire(new, self.table.at(heads))
        if found is None:
            self.done[new] = new
            self.becomes(node, new)
        else:
            self.wait(node, new, found)

    def wait(self, node: Node, new: Node, found: Value) -> None:
        """A rule made `found` of the node on its new operands; it is not settled yet."""
        self.waiting[node] = found
        if new is not node:
            self.waiting[new] = found
            self.twins[node] = new

    def becomes(self, node: Node, value: Any) -> None:
        """Record what a node has become; its users use that."""
        self.done[node] = value
        if self.table.counts_users:
            uses = self.uses
            if node not in uses:  # a rule made it: what it uses is used once more
                uses[node] = 0
                for a in node.args:
                    uses[a.node] = uses.get(a.node, 0) + 1
            if value is not node:
                uses[value.node] = uses.get(value.node, 0) + uses[node]

    def users(self, value: Value) -> int:
        """How often a value is used, as an operand or a root; never too few, but for nodes that become equal later."""
        found = self.uses.get(value.node, 0)
        if found != 1:
            self.asked_users.add(self.root)
        return found


def _uses(order: list[Node], roots: tuple[Value, ...]) -> dict[Node, int]:
    uses: dict[Node, int] = dict.fromkeys(order, 0)
    for node in order:
        for a in node.args:
            uses[a.node] += 1
    for root in roots:
        uses[root.node] += 1
    return uses


def _names(*links: _Link | None) -> str:
    names: set[str] = set()
    for link in links:
        while link is not None:
            names.add(link.name)
            link = link.of
    return " and ".join(sorted(names)) or "a rule"
