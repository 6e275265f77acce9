"""A graph rewritten: phase after phase, sweeps and passes until nothing fires; and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnc_func.config import config
from nnc_func.errors import RuleError
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rules.driver import Sweep, Table, uses_of
from nnc_func.graph.rules.ending import BOUND
from nnc_func.graph.rules.report import Rewritten
from nnc_func.graph.rules.rule import Pass
from nnc_func.graph.rules.substituting import substituted
from nnc_func.graph.rules.watching import Merge, Tally, Watch

if TYPE_CHECKING:
    from nnc_func.graph.rules.evaluating import Sides


class Rewriting:
    """A graph that is being rewritten.

    Attributes
    ----------
    roots
        As they are so far.
    settled
        Nodes on which no rule fires that has been in force so far.
    asked, again
        Of those, the ones on which a rule might fire if what they use had other numbers of users, see `Sweep.asked`;
        and those for which that has come true.
    watch, measures
        What records each rewrite, where that is asked for; whether it measures attempts as well.
    tallies
        Rule name to its counts.
    replaced
        Nodes that a pass has replaced in the roots as they are so far, and by what: the next sweep puts it there.
    version, seen
        Counts the graphs on the way; names of passes to the one that each has seen last.
    """

    def __init__(self, roots: tuple[Value, ...], sides: Sides | None, watch: Watch | None) -> None:
        self.roots = roots
        self.sides, self.watch = sides, watch
        self.measures = watch is not None and watch.measures
        self.tallies: dict[str, Tally] = {}
        self.settled: set[Node] = set()
        self.asked: list[tuple[Node, Node, int]] = []
        self.again: set[Node] = set()
        self.replaced: dict[Node, Value] = {}
        self.version = 0
        self.seen: dict[str, int] = {}
        self._order: list[Node] | None = None
        self._uses: dict[Node, int] | None = None
        self.before = self.nodes()

    def nodes(self) -> list[Node]:
        """The nodes as they are so far, operands first."""
        if self._order is None:
            self._order = topological(self.roots)
        return self._order

    def uses(self) -> dict[Node, int]:
        """How often each node is used so far."""
        if self._uses is None:
            self._uses = uses_of(self.nodes(), self.roots)
        return self._uses

    def tally(self, name: str) -> Tally:
        """The counts of a rule."""
        found = self.tallies.get(name)
        if found is None:
            found = self.tallies[name] = Tally()
        return found

    def phase(self, table: Table) -> None:
        """Bring the roots to the form in which no rule of the phase fires, or of those before it.

        What a pass has replaced, and none after it had to see, comes in with the next sweep: a node is made anew once.
        """
        if table.own or self.replaced:
            self.settle(table, own=True)
        for _ in range(BOUND):
            passed = [each for each in table.own_passes if self.passed(each, table)]
            if not passed or self.replaced or not self.settle(table, own=False):
                return
        raise self._endless("rounds")

    def close(self, table: Table) -> None:
        """Bring the roots to the form in which no pass finds anything that rewriting after it has made possible."""
        if self.replaced:
            self.settle(table, own=False)
        for _ in range(BOUND):
            late = [each for each in table.passes if self.seen.get(each.name) != self.version]
            if not [each for each in late if self.passed(each, table)]:
                return
            self.settle(table, own=False)
        raise self._endless("rounds")

    def settle(self, table: Table, own: bool) -> bool:
        """Sweep over the graph until no rule fires any more; whether one did."""
        fired = False
        for _ in range(BOUND):
            if self.watch is not None:
                self.watch.sweep += 1
            sweep = Sweep(self, table, own, self.replaced)
            self.replaced = {}
            roots = sweep.run()
            self.settled.update([node for node, found in sweep.done.items() if found is node])
            self.again = set()
            self.asked += sweep.asked
            fired |= sweep.fired
            self.move(roots)
            if not self.again:
                return fired
            own = False
        raise self._endless("sweeps")

    def move(self, roots: tuple[Value, ...]) -> None:
        """Go on with other roots; on what has other numbers of users in them rules are tried again."""
        if roots == self.roots:
            return
        self.roots = roots
        self.version += 1
        self._order = self._uses = None
        if self.asked:
            uses, settled = self.uses(), self.settled
            self.asked = [each for each in self.asked if each[0] in settled and each[0] in uses]
            self.again = {root for root, node, count in self.asked if uses.get(node, 0) != count}
            self.asked = [each for each in self.asked if each[0] not in self.again]

    def passed(self, each: Pass, table: Table) -> bool:
        """One pass over the graph; whether it found something."""
        start = perf_counter()
        if not each.wants(self.nodes(), table.builder):
            self.seen[each.name] = self.version
            return False
        self.substitute(table.builder)
        self.seen[each.name] = self.version
        roots = self.roots
        given, times = each.function(roots, self.nodes(), table.builder)
        tally = self.tally(each.name)
        tally.tried += 1
        tally.seconds += perf_counter() - start
        if not times:
            return False
        if isinstance(given, dict):
            if self.watch is None and self.sides is None and all(b.aval == a.aval for a, b in given.items()):
                self.replaced = given
                tally.matched += times
                return True
            given = substituted(roots, given, table.builder)
        found = tuple(given)
        if found == roots:
            return False
        if any(new.aval != old.aval for new, old in zip(found, roots, strict=True)):
            tally.refuse("a root has another aval")
            return False
        tally.matched += times
        for old, new in zip(roots, found, strict=True):
            if self.sides is not None and new is not old:
                self.sides.check(each.name, each.numerics, each.fast_math, old, new)
        if self.watch is not None:
            self.watch.passed(each.name, roots, found)
        self.move(found)
        return True

    def substitute(self, builder: Any) -> None:
        """Put what a pass has found in its place, as the next one is to see it."""
        if self.replaced:
            found, self.replaced = substituted(self.roots, self.replaced, builder), {}
            self.move(found)

    def verify(self, builder: Any) -> None:
        """Infer new nodes again: they must be what rewriting took them for."""
        known = set(self.before)
        for node in self.nodes():
            if node in known or not node.args:
                continue
            inferred = builder.shape.infer(node.op, tuple([a.aval for a in node.args]), node.items)
            if (inferred if node.op.several else (inferred,)) != node.avals:
                raise RuleError(f"rewriting made {node!r}, whose operands give {inferred!r}")

    def _endless(self, what: str) -> RuleError:
        """Names the rules that fired most."""
        most = max(c.matched for c in self.tallies.values())
        names = " and ".join(sorted(n for n, c in self.tallies.items() if 2 * c.matched > most))
        return RuleError(f"rewriting does not end: after {BOUND} {what} {names} still fire")


def rewritten(tables: Iterable[Table], roots: Iterable[Value], trace: bool = False, measure: bool = False) -> Rewritten:
    """The roots with every rule applied until none fires, phase after phase.

    Raises
    ------
    RuleError
        It does not end; names the rules that go on for ever, in their order, and what they make. With ``NNC_SPEC=1``:
        a node has not the aval that its operands give; with ``NNC_SPEC=2``: a rule changes values by more than it says.
    """
    listed = tuple(tables)
    builder = listed[0].builder
    watch = Watch(measure) if trace or measure else None
    of = Rewriting(tuple(roots), _sides(builder), watch)
    for table in listed:
        if watch is not None:
            watch.phase = table.name
        of.phase(table)
    of.close(listed[-1])
    if config.spec:
        of.verify(builder)
    builder.forget()
    before, after = of.before, of.nodes()
    return Rewritten(
        of.roots,
        {name: each.count for name, each in of.tallies.items()},
        len(before),
        len(after),
        sum([len(n.args) for n in before]),
        sum([len(n.args) for n in after]),
        tuple(watch.steps) if watch else (),
        (*_built_as_one(before, builder), *watch.merges) if watch else (),
    )


def _built_as_one(order: list[Node], builder: Any) -> list[Merge]:
    """Applications that were one node as they were built, where that was recorded."""
    recorded = builder.table.merged
    return [Merge(0, n, (n.origin, *recorded[n])) for n in order if n in recorded] if recorded else []


def _sides(builder: Any) -> Sides | None:
    """What compares both sides of each rewrite, where the settings ask for it."""
    if config.spec < 2:
        return None
    from nnc_func.graph.rules.evaluating import Sides  # few ask for it

    return Sides(builder.operator.device)
