"""A graph rewritten: phase after phase, sweeps and passes until nothing fires; and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnc_func.config import config
from nnc_func.errors import RuleError, UnknownOperatorError
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rewriting.driver import Sweep, Table
from nnc_func.graph.rewriting.mutable import MutableNode, MutableValue
from nnc_func.graph.rewriting.report import Rewritten
from nnc_func.graph.rewriting.termination import BOUND
from nnc_func.graph.rewriting.watching import Merge, Tally, Watch
from nnc_func.graph.rewriting.workspace import Workspace
from nnc_func.graph.rules.rule import Pass

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.evaluating import Sides

_args = attrgetter("args")


class Rewriting:
    """A graph that is being rewritten.

    Attributes
    ----------
    work
        The graph as it is so far.
    watch, measures
        What records each rewrite, where that is asked for; whether it measures attempts as well.
    tallies
        Rule name to its counts.
    version, seen
        Counts the graphs on the way; names of passes to the one that each has seen last.
    """

    def __init__(self, work: Workspace, sides: Sides | None, watch: Watch | None) -> None:
        self.work = work
        self.sides, self.watch = sides, watch
        self.measures = watch is not None and watch.measures
        self.tallies: dict[str, Tally] = {}
        self.version = 0
        self.seen: dict[str, int] = {}

    def tally(self, name: str) -> Tally:
        """The counts of a rule."""
        found = self.tallies.get(name)
        if found is None:
            found = self.tallies[name] = Tally()
        return found

    def phase(self, table: Table) -> None:
        """Bring the graph to the form in which no rule of the phase fires, or of those before it."""
        if table.own or self.work.pending:
            self.settle(table, own=True)
        for _ in range(BOUND):
            passed = [each for each in table.own_passes if self.passed(each, table)]
            if not passed or not self.settle(table, own=False):
                return
        raise self._endless("rounds")

    def close(self, table: Table) -> None:
        """Bring the graph to the form in which no pass finds anything that rewriting after it has made possible."""
        for _ in range(BOUND):
            late = [each for each in table.passes if self.seen.get(each.name) != self.version]
            if not [each for each in late if self.passed(each, table)]:
                return
            self.settle(table, own=False)
        raise self._endless("rounds")

    def settle(self, table: Table, own: bool) -> bool:
        """Sweep over the graph until no rule fires any more; whether one did."""
        work, fired = self.work, False
        for _ in range(BOUND):
            if self.watch is not None:
                self.watch.sweep += 1
            sweep = Sweep(self, table, own)
            sweep.run()
            if sweep.fired:
                fired = True
                self.version += 1
            work.pending = {node for node in work.pending if node.users is not None}
            if not work.pending:
                return fired
            own = False
        raise self._endless("sweeps")

    def passed(self, each: Pass, table: Table) -> bool:
        """One pass over the graph; whether it found something."""
        start, work = perf_counter(), self.work
        self.seen[each.name] = self.version
        order = work.order()
        if each.of and each.of.isdisjoint(table.builder.seen(order).operators):
            return False
        roots = tuple(work.roots)
        try:
            given, times = each.function(roots, order, table.builder)
        except UnknownOperatorError:  # what it would give, this stack's catalogue lacks
            return False
        tally = self.tally(each.name)
        tally.tried += 1
        tally.seconds += perf_counter() - start
        both = given.items() if isinstance(given, dict) else zip(roots, given, strict=True)
        pairs: list[Any] = [(old, work.own(new)) for old, new in both if new is not old]
        if not times or not pairs:
            return False
        if any(new.aval != old.aval for old, new in pairs):
            tally.refuse("a value has another aval")
            return False
        tally.matched += times
        before = self._shown_roots()
        if isinstance(given, dict):
            self._replace(each, pairs, table)
        else:
            work.turn(tuple(map(work.own, given)))
        self._recorded(each, before)
        self.version += 1
        return True

    def _replace(self, each: Pass, pairs: list[tuple[MutableNode, MutableValue]], table: Table) -> None:
        work, fresh = self.work, list[MutableNode]()
        for old, new in pairs:
            entered = work.enter(new, old)
            if entered is None:
                raise RuleError(f"pass {each.name} replaces {old!r} by what depends on it")
            fresh += entered
        while late := [(old, new) for old, new in pairs if new.node.place > old.place]:
            for old, new in late:  # what came in before an earlier place has taken the old one there
                work.enter(new, old)
        changed, merged = work.replace(pairs)
        sweep = Sweep(self, table, own=False)
        sweep.touch(changed, () if merged else fresh)
        while sweep.late:
            sweep.catch_up(len(work.places()))

    def _shown_roots(self) -> tuple[Value, ...]:
        """The roots as values of the stack, where somebody wants to see them."""
        return tuple(map(self.work.shown, self.work.roots)) if self.watch or self.sides else ()

    def _recorded(self, each: Pass, before: tuple[Value, ...]) -> None:
        after = self._shown_roots()
        for old, new in zip(before, after, strict=True):
            if self.sides is not None and new is not old:
                self.sides.check(each.name, each.numerics, each.fast_math, old, new)
        if self.watch is not None:
            self.watch.passed(each.name, before, after, self.tally(each.name))

    def _endless(self, what: str) -> RuleError:
        """Names the rules that fired most."""
        most = max(c.matched for c in self.tallies.values())
        names = " and ".join(sorted(n for n, c in self.tallies.items() if 2 * c.matched > most))
        return RuleError(f"rewriting does not end: after {BOUND} {what} {names} still fire")


def rewritten(
    tables: Iterable[Table],
    roots: Iterable[Value],
    nodes: Iterable[Node] | None = None,
    trace: bool = False,
    measure: bool = False,
) -> Rewritten:
    """The roots, which depend on these nodes, with every rule applied until none fires, phase after phase.

    Raises
    ------
    RuleError
        It does not end; names the rules that go on for ever, in their order, and what they make. With ``NNC_SPEC=1``:
        a node has not the aval that its operands give; with ``NNC_SPEC=2``: a rule changes values by more than it says.
    """
    listed = tuple(tables)
    builder = listed[0].builder
    builder.forget()
    watch = Watch(builder.machine, measure) if trace or measure else None
    work = builder.workspace = Workspace(tuple(roots), builder, nodes)
    of = Rewriting(work, _sides(builder), watch)
    try:
        for table in listed:
            if watch is not None:
                watch.phase = table.name
            of.phase(table)
        of.close(listed[-1])
        found, after = work.finished()
    finally:
        work.close()
        builder.forget()
    if config.spec:
        verify(after, work.before, builder)
    return Rewritten(
        found,
        {name: each.count for name, each in of.tallies.items()},
        len(work.before),
        len(after),
        sum(map(len, map(_args, work.before))),
        sum(map(len, map(_args, after))),
        tuple(watch.steps) if watch else (),
        (*_built_as_one(work.before, builder), *watch.merges) if watch else (),
    )


def verify(nodes: Iterable[Node], known: Iterable[Node], builder: Any) -> None:
    """Infer nodes again that rewriting has made: they must be what it took them for."""
    there = set(known)
    for node in nodes:
        if node in there or not node.args:
            continue
        inferred = builder.shape.infer(node.op, tuple([a.aval for a in node.args]), node.items)
        if (inferred if node.op.multi_result else (inferred,)) != node.avals:
            raise RuleError(f"rewriting made {node!r}, whose operands give {inferred!r}")


def _built_as_one(order: list[Node], builder: Any) -> list[Merge]:
    """Applications that were one node as they were built, where that was recorded."""
    recorded = builder.table.merged
    return [Merge(0, n, (n.origin, *recorded[n])) for n in order if n in recorded] if recorded else []


def _sides(builder: Any) -> Sides | None:
    """What compares both sides of each rewrite, where the settings ask for it."""
    if config.spec < 2:
        return None
    from nnc_func.graph.rewriting.evaluating import Sides  # few ask for it

    return Sides(builder.operator.device)
