"""A graph rewritten: phase after phase, sweeps and passes until nothing fires; and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnc_func.config import config
from nnc_func.errors import RuleError
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rules.driver import BOUND, Sweep, Table
from nnc_func.graph.rules.match import Builder
from nnc_func.graph.rules.report import Count, Rewritten
from nnc_func.graph.rules.rule import Pass

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
    asked_users
        Of those, the ones on which a rule might fire if they, or what they use, had fewer users.
    counts, trace
        See `rewritten`.
    """

    def __init__(self, roots: tuple[Value, ...], sides: Sides | None, trace: bool) -> None:
        self.roots = roots
        self.sides = sides
        self.counts: dict[str, list[Any]] = {}
        self.trace: list[tuple[str, str]] | None = [] if trace else None
        self.settled: set[Node] = set()
        self.asked_users: set[Node] = set()
        self.order: list[Node] | None = None
        self.before = self.nodes()

    def nodes(self) -> list[Node]:
        """The nodes as they are so far, operands first."""
        if self.order is None:
            self.order = topological(self.roots)
        return self.order

    def phase(self, table: Table) -> None:
        """Bring the roots to the form in which no rule of the phase fires, or of those before it."""
        fired = bool(table.own) and self.settle(table, own=True)
        for _ in range(BOUND):
            passed = False
            for each in table.passes if fired else table.own_passes:
                passed |= self.passed(each, table)
            if not passed:
                return
            fired = True
            self.settle(table, own=False)
        raise RuleError(f"rewriting does not end: after {BOUND} rounds {self._busiest()} still fire")

    def settle(self, table: Table, own: bool) -> bool:
        """Sweep over the graph until no rule fires any more; whether one did."""
        fired = False
        for _ in range(BOUND):
            sweep = Sweep(self, table, self.nodes(), self.settled, own, self.asked_users)
            roots = sweep.run()
            self.order = self.order if roots == self.roots else None
            self.roots = roots
            self.settled.update(node for node, found in sweep.done.items() if found is node)
            self.asked_users = self.asked_users | sweep.asked_users if own else sweep.asked_users
            fired |= sweep.fired
            if not sweep.fired or not self.asked_users:
                return fired
            own = False
        raise RuleError(f"rewriting does not end: after {BOUND} sweeps {self._busiest()} still fire")

    def passed(self, each: Pass, table: Table) -> bool:
        """One pass over the graph; whether it found something."""
        start = perf_counter()
        roots = self.roots
        found, times = each.function(roots, self.nodes(), table.builder)
        found = tuple(found)
        refused = sum(new.aval != old.aval for new, old in zip(found, roots, strict=True))
        times = 0 if found == roots else times
        count = self.counts.setdefault(each.name, [0, 0, 0, 0.0])
        count[0] += 1
        count[1] += 0 if refused else times
        count[2] += refused
        count[3] += perf_counter() - start
        if refused or not times:
            return False
        for old, new in zip(roots, found, strict=True):
            if self.sides is not None and new is not old:
                self.sides.check(each.name, each.numerics, each.fast_math, old, new)
        self.roots, self.order = found, None
        return True

    def _busiest(self) -> str:
        """Names of the rules that fired most."""
        most = max(c[1] for c in self.counts.values())
        return " and ".join(sorted(n for n, c in self.counts.items() if 2 * c[1] > most))


def rewritten(tables: Iterable[Table], roots: Iterable[Value], trace: bool = False) -> Rewritten:
    """The roots with every rule applied until none fires, phase after phase.

    Raises
    ------
    RuleError
        It does not end; names the rules that go on for ever. With ``NNC_SPEC=2``: a rule changes values by more than
        it says.
    """
    listed = tuple(tables)
    builder = listed[0].builder
    of = Rewriting(tuple(roots), _sides(builder), trace)
    for table in listed:
        of.phase(table)
    builder.numbers.clear()
    before, after = of.before, of.nodes()
    return Rewritten(
        of.roots,
        {name: Count(*c) for name, c in of.counts.items()},
        len(before),
        len(after),
        sum(len(n.args) for n in before),
        sum(len(n.args) for n in after),
        tuple(of.trace or ()),
    )


def _sides(builder: Builder) -> Sides | None:
    """What compares both sides of each rewrite, where the settings ask for it."""
    if config.spec < 2:
        return None
    from nnc_func.graph.rules.evaluating import Sides  # few ask for it

    return Sides(builder.operator.device)
