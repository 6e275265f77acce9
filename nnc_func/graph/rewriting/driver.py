"""The driver: rules applied to a graph, operands first, until none fires any more. Nothing recurses over nodes.

What a rule makes is rewritten before what uses it is met. So one sweep over the graph is enough, but for nodes below
which, as far down as rules look, something is replaced later, or that were asked how often something is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError, OperatorError, PlaceError, RuleError, ShapeError
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.node import Result, Value
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.compiled import Compiled, Numbered, compiled
from nnc_func.graph.rewriting.mutable import MutableNode, MutableValue
from nnc_func.graph.rewriting.operator_index import TWICE, Heads, heads_of
from nnc_func.graph.rewriting.rule_index import AtOperator, RuleIndex
from nnc_func.graph.rewriting.termination import BOUND, Link, cycle, growth
from nnc_func.graph.rewriting.wide import WIDE
from nnc_func.graph.rules.ranges import sign_of
from nnc_func.graph.rules.rule import Rewriter, Rule
from nnc_func.locks import forkable_lock
from nnc_func.op import Op

Found = tuple[Compiled, ...] | Numbered

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.rewriting import Rewriting

SIGNS = 2  # applications within each other, of which rules ask whether the result may be negative
REFUSALS = (ShapeError, DTypeError, OperatorError, PlaceError)


class Depths(dict[Op, int]):
    """Operators to how far below nodes of them the rules of a table look."""

    __slots__ = ("table",)

    def __init__(self, table: Table) -> None:
        self.table = table

    def __missing__(self, op: Op) -> int:
        self.table.rooted(op)
        return self[op]


class Table:
    """Rules, indexed by the operators of a node and of its operands; they are compiled when a node is first met.

    Parameters
    ----------
    name
        Of the phase.
    builder
        Makes what rules replace nodes by.
    index
        The rules.
    earlier
        The table of the phase before it.

    Attributes
    ----------
    passes, own, own_passes
        Of the index.
    depths
        Operators to how far below nodes of them rules look; asked of one, its rules are made.
    deepest
        How far all rules look that were made, and rewriters of all nodes.
    found, found_own
        Entries so far; rules that want certain numbers are told apart once more, see `Numbered`.
    """

    __slots__ = (
        "_compiled",
        "_far",
        "_lock",
        "_rooted",
        "builder",
        "deepest",
        "depths",
        "found",
        "found_own",
        "index",
        "name",
        "own",
        "own_passes",
        "passes",
    )

    def __init__(self, name: str, builder: Builder, index: RuleIndex, earlier: Table | None = None) -> None:
        self.name = name
        self.builder = builder
        self.index = index
        self.own, self.own_passes, self.passes = index.own, index.own_passes, index.passes
        self.deepest = index.depth
        self.depths = Depths(self)
        self.found: dict[Heads, Found] = {}
        self.found_own: dict[Heads, Found] = {}
        self._compiled: dict[Any, Compiled] = earlier._compiled if earlier else {}
        self._rooted: dict[Op, tuple[AtOperator, AtOperator]] = {}
        self._far: dict[Op, int] = {}
        self._lock = forkable_lock()

    def rooted(self, op: Op) -> tuple[AtOperator, AtOperator]:
        """The rules for nodes of an operator, all and the phase's own, in the order in which they are tried."""
        found = self._rooted.get(op)
        if found is not None:
            return found
        with uncollected(self._lock), self._lock:
            found = self._rooted.get(op)
            if found is None:
                found = self.index.rooted(op)
                looks = self.depths[op] = max(self.index.depth, found[0][1].depth)
                self.deepest = max(self.deepest, looks)
                self._far.clear()
                self._rooted[op] = found
        return found

    def at(self, heads: Heads) -> Found:
        """Rules that may match a node of these heads, see `heads_of`."""
        found = self.found.get(heads)
        return self._entered(self.found, heads, False) if found is None else found

    def own_at(self, heads: Heads) -> Found:
        """As `at`, of the phase's own rules."""
        found = self.found_own.get(heads)
        return self._entered(self.found_own, heads, True) if found is None else found

    def far(self, op: Op) -> int:
        """How far above a node of that operator rules see that it is one."""
        found = self._far.get(op)
        if found is None:
            sign = SIGNS if sign_of(op) else 0
            inside = [which.inside.get(op, 0) for (_, which), _ in [*self._rooted.values()]]
            found = self._far[op] = max(self.index.depth, sign, *inside)
        return found

    def _entered(self, table: dict[Heads, Any], heads: Heads, own: bool) -> Any:
        op, operands = heads[0], heads[1:]
        if not op.pure or op.multi_result:
            table[heads] = ()
            return ()
        listed, which = self.rooted(op)[own]
        rules = tuple([self._ready(listed[at]) for at in which[operands]])
        found: Found = rules
        if any(r.facts.numbers for r in rules):
            found = Numbered(rules, operands[:-1] if operands[-1] is TWICE else operands)
        table[heads] = found
        return found

    def _ready(self, rule: Rule | Rewriter) -> Compiled:
        found = self._compiled.get(rule)
        if found is None:
            found = self._compiled.setdefault(rule, compiled(rule, self.builder))
        return found


class Sweep:
    """One sweep over a graph.

    Attributes
    ----------
    own
        Whether the phase's own rules are tried on all nodes; all rules are on those that are pending.
    links
        Nodes to the rewrite that made them.
    late
        Wide nodes below which something was replaced, to how far below at the least, and how far above it is seen:
        what waits until the sweep has come there, so that many replacements cost what one does.
    fired
        Whether a rule fired.
    """

    def __init__(self, of: Rewriting, table: Table, own: bool) -> None:
        self.of = of
        self.work, self.watch, self.sides = of.work, of.watch, of.sides
        self.table = table
        self.builder = table.builder
        self.own = own
        self.links: dict[MutableNode, Link] = {}
        self.late: dict[MutableNode, tuple[int, int]] = {}
        self.attempt = self.measured if of.measures else None
        self.root: Any = None
        self.fired = False

    def run(self) -> None:
        """Meet each node once, operands first; and what rules make of it."""
        table, work, pending = self.table, self.work, self.work.pending
        places, marks = work.places(), work.marks
        self.mark(pending)
        if self.own:
            for heads, nodes in work.by_heads().items():
                if table.own_at(heads):
                    self.mark(nodes)
        found, found_own, next_mark, at, late = table.found, table.found_own, marks.find, -1, self.late
        while (to := next_mark(1, at + 1)) >= 0 or late:
            if late and self.catch_up(to if to >= 0 else len(places)):
                continue
            at = to
            node = places[at]
            if node is None:
                continue
            heads = node.heads
            if heads is None:
                heads = node.heads = heads_of(node)
            if node in pending:
                pending.discard(node)
                rules = found.get(heads)
                if rules is None:
                    rules = table.at(heads)
            elif self.own:
                rules = found_own.get(heads)
                if rules is None:
                    rules = table.own_at(heads)
            else:
                continue
            if rules and (made := self.step(node, rules)):
                self.meet(made)

    def mark(self, nodes: Iterable[MutableNode]) -> None:
        """The sweep is to look at these nodes."""
        marks = self.work.marks
        for node in nodes:
            if node.users is not None:
                marks[node.place] = 1

    def meet(self, made: list[MutableNode]) -> None:
        """Try all rules on what rules have made, and on what these make, and so on."""
        pending = self.work.pending
        while made:
            node = made.pop()
            if node in pending and node.users is not None:
                if self.late:
                    self.catch_up(node.place)
                pending.discard(node)
                heads = node.heads
                if heads is None:
                    heads = node.heads = heads_of(node)
                if rules := self.table.at(heads):
                    made += self.step(node, rules) or ()

    def step(self, node: MutableNode, rules: Found) -> list[MutableNode] | None:
        """What is new, operands last, where one of the rules fires on the node and what it makes takes its place."""
        found = self.fire(node, rules)
        if found is None:
            return None
        link, work = self.link, self.work
        fresh = work.enter(found, node)
        if fresh is None:
            raise cycle(link, node)
        links, of = self.links, link.of
        for each in fresh:
            links[each] = link
            if of is not None and any(before.before is each for before in link):
                raise cycle(link, each)
        changed, merged = work.replace([(node, found)])
        made = found if type(found) is MutableNode else found.node
        self.touch(changed, fresh if made in fresh and made.args and not merged else ())
        self.note(merged)
        fresh.reverse()
        return fresh

    def touch(self, changed: Collection[MutableNode], fresh: Collection[MutableNode]) -> None:
        """All rules are tried again on what has changed, and on what is above, as far as they look down.

        What is `fresh` is seen as far as rules know its operators; other values also where rules compare them.
        """
        table = self.table
        far = 0 if fresh else table.deepest
        for node in fresh:
            far = max(far, table.far(node.op))
        if far:
            self._wake(changed, 1, far)
        else:  # wide nodes want their operands all the same
            self._put_off([node for node in changed if len(node.args) > WIDE], 1, 0)

    def _wake(self, changed: Collection[MutableNode], near: int, far: int) -> None:
        """Try all rules again on nodes, below which something was replaced that near, and on what is above."""
        depths = self.table.depths
        for distance in range(near, far + 1):
            wide: list[MutableNode] = []
            woken: list[MutableNode] = []
            for node in changed:
                if len(node.args) > WIDE:
                    wide.append(node)
                elif depths[node.op] >= distance:
                    woken.append(node)
            self.work.wake(woken)
            if wide:
                changed = [node for node in changed if len(node.args) <= WIDE]
                self._put_off(wide, distance, far)
            if distance < far:
                changed = {user for node in changed if node.users is not None for user in node.users}

    def _put_off(self, wide: Iterable[MutableNode], distance: int, far: int) -> None:
        late = self.late
        for node in wide:
            if node.users is not None:
                near, seen = late.get(node, (distance, far))
                late[node] = min(near, distance), max(seen, far)

    def catch_up(self, place: int) -> bool:
        """Go on above the wide nodes up to that place, with their new operands; whether there are any."""
        due = [node for node in self.late if node.place <= place]
        for node in due:
            near, far = self.late.pop(node)
            changed, merged = self.work.turn_wide(node)
            if node.users is not None:
                if far >= near and self.table.depths[node.op] >= near:
                    self.work.wake((node,))
                self._wake({user for user in node.users if user.users is not None}, near + 1, far)
            self.touch(changed, ())
            self.note(merged)
        return bool(due)

    def note(self, merged: Iterable[tuple[MutableNode, MutableNode]]) -> None:
        """Record what has become one with another node."""
        if self.watch is not None:
            for gone, other in merged:
                self.watch.merged(gone, other, self.work)

    def fire(self, node: MutableNode, rules: Found) -> MutableValue | None:
        """What the first rule that fires makes of the node."""
        self.builder.where, self.root = node.origin, node
        attempt, users = self.attempt, self.users
        if isinstance(rules, Numbered):
            rules = rules.of(node, self.builder.number_of) if attempt is None else rules.rules
        for rule in rules:
            try:
                found = attempt(rule, node) if attempt is not None else rule.attempt(node, users)
            except REFUSALS as error:  # the right side does not exist for these operands
                self.of.tally(rule.name).refuse(f"it cannot be built: {error}")
                continue
            except (RecursionError, MemoryError) as error:  # of whoever calls, perhaps, or of the machine
                error.add_note(f"while the rule {rule.name} was tried on {node!r}")
                raise
            except Exception as error:
                raise RuleError(f"rule {rule.name} failed on {node!r}: {type(error).__name__}: {error}") from error
            if found is None:
                continue
            if type(found) is not MutableNode:
                found = self.work.own(found)
            if found is not node:
                if found.aval is node.aval:
                    self.take(rule, node, found)
                    return found
                self.of.tally(rule.name).refuse(f"{node.aval!r} became {found.aval!r}")
        return None

    def measured(self, rule: Compiled, node: MutableNode) -> Value | None:
        """As `rule.attempt`, counted, timed and explained."""
        return self.watch.attempt(rule, node, self.users, self.of.tally(rule.name))  # type: ignore[union-attr]

    def take(self, rule: Compiled, node: MutableNode, found: MutableValue) -> None:
        """Count, check and record what takes the place of a node."""
        name, tally = rule.name, self.of.tally(rule.name)
        if self.sides is not None:
            both = self.work.shown(node), self.work.shown(found)
            self.sides.check(name, rule.rule.numerics, rule.rule.fast_math, *both)
        tally.matched += 1
        self.fired = True
        if self.watch is not None:
            self.watch.fired(name, node, found, tally, self.work)
        self.link = Link(name, node, found, self.links.get(node))
        if self.link.depth > BOUND:
            raise growth(self.link)

    def users(self, value: Value) -> int:
        """How often a value is used, as an operand or a root."""
        node = value.node if type(value) is Result else value
        if type(node) is not MutableNode:
            node = self.work.own(node)
        found: int = node.uses if node.users is not None else 0
        if found != 1:
            self.work.ask(node, self.root)
        return found
