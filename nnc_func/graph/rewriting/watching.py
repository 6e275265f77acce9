"""What is recorded while a graph is rewritten, where that is asked for: each rewrite, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import frozen

from nnc_func.body import bodies_of
from nnc_func.facets.machine import Machine
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.origin import Origin, describe
from nnc_func.graph.rewriting.compiled import Compiled
from nnc_func.graph.rewriting.mutable import MutableNode, MutableValue
from nnc_func.graph.rewriting.report import Count
from nnc_func.graph.rules.cost import NOTHING, Work, freed, made, total

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.workspace import Workspace

NEAR = 3  # applications within each other that a rule is taken to look at
Users = Callable[[Value], int]


class Tally:
    """Counts of one rule, as they grow."""

    __slots__ = ("matched", "refused", "saved", "seconds", "tried", "why")

    def __init__(self) -> None:
        self.tried = self.matched = self.refused = 0
        self.seconds = 0.0
        self.saved: Work = NOTHING
        self.why: Counter[str] = Counter()

    def refuse(self, why: str) -> None:
        """A replacement was made, or could not be, and is not taken."""
        self.refused += 1
        self.why[why] += 1

    @property
    def count(self) -> Count:
        """The counts as they are."""
        return Count(self.tried, self.matched, self.refused, self.seconds, dict(self.why.most_common()), self.saved)


@frozen(repr=False)
class Step:
    """One rewrite.

    Attributes
    ----------
    rule, phase
        Names.
    before, after
        Values: what was replaced, on operands as they were then, and by what. Of a pass all roots.
    where
        The origin of what was replaced.
    sweep
        In which walk over the graph it was made.
    """

    rule: str
    phase: str
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    where: Origin
    sweep: int = 0

    def __repr__(self) -> str:
        from nnc_func.graph.fragments import sides

        where = describe(self.where)
        pairs = list(zip(self.before, self.after, strict=True))
        before, after = sides(*pairs[0]) if len(pairs) == 1 else ("", "")
        said = f"{before} -> {after}" if before != after else _exchanged(self.before, self.after)
        return f"{self.rule}: {said}" + (f" (built at {where})" if where else "")


def _exchanged(before: tuple[Value, ...], after: tuple[Value, ...]) -> str:
    """Of how many applications of which operators there are fewer, and of which more; else of leaves, or in bodies."""
    was, now = (Counter(n.op.name for n in topological(roots) if n.args) for roots in (before, after))
    if was == now:  # a fill that became a constant, say
        was, now = (Counter(n.op.name for n in topological(roots) if not n.args) for roots in (before, after))
    if was == now:  # the body of a loop
        was, now = (Counter(_in_bodies(roots)) for roots in (before, after))
    gone, come = (", ".join(f"{n} {name}" for name, n in found.items()) for found in (was - now, now - was))
    return f"{gone or 'nothing'} -> {come or 'nothing'}"


def _in_bodies(roots: tuple[Value, ...]) -> list[str]:
    return [each.op.name for root in roots for body in bodies_of(root.node.items) for each in body.applications]


@frozen(repr=False)
class Merge:
    """Applications that became one node.

    Attributes
    ----------
    at
        How many rewrites had been made: 0 for those that were equal as they were built.
    value
        The node.
    origins
        Where each was asked for.
    """

    at: int
    value: Value
    origins: tuple[Origin, ...]

    def __repr__(self) -> str:
        from nnc_func.graph.rewriting.termination import said

        return f"{said(self.value)} is one node, asked for at {', '.join(map(describe, self.origins))}"


class Watch:
    """What is recorded of one rewriting.

    Attributes
    ----------
    machine
        For which savings are estimated.
    measures
        Whether attempts are counted and timed, their refusals explained, and savings estimated.
    steps, merges
        So far.
    phase, sweep
        What `Step` tells, of the steps to come.
    """

    def __init__(self, machine: Machine, measures: bool) -> None:
        self.machine = machine
        self.measures = measures
        self.steps: list[Step] = []
        self.merges: list[Merge] = []
        self.phase, self.sweep = "", 0

    def attempt(self, rule: Compiled, node: Node, users: Users, tally: Tally) -> Value | None:
        """The rule tried, counted, timed and explained."""
        start = perf_counter()
        tally.tried += 1
        try:
            found, why = rule.explained(node, users)
        finally:
            tally.seconds += perf_counter() - start
        if why is not None:
            tally.why[why.text] += 1
        return found

    def fired(self, name: str, node: MutableNode, found: MutableValue, tally: Tally, work: Workspace) -> None:
        """A rule fired: what it made, what it saved, and with what that is one."""
        if found.node.users is not None and found.node not in _near(node):
            self.merged(node, found, work, len(self.steps) + 1)
        before, after = work.shown(node), work.shown(found)
        self.steps.append(Step(name, self.phase, (before,), (after,), node.origin, self.sweep))
        if self.measures:
            new = made(found, lambda n: n.users is not None)
            gone = freed(node, found, new, lambda n: n.uses)
            tally.saved = tally.saved + total(gone, self.machine) - total(new, self.machine)

    def merged(self, node: MutableNode, other: MutableValue, work: Workspace, at: int | None = None) -> None:
        """A node has become another one of the workspace that was there."""
        mine, theirs = node.origin, other.node.origin  # what is shown may be a node of neither line
        if mine != theirs and mine and theirs:
            self.merges.append(Merge(len(self.steps) if at is None else at, work.shown(other).node, (theirs, mine)))

    def passed(self, name: str, before: tuple[Value, ...], after: tuple[Value, ...], tally: Tally) -> None:
        """A pass changed the roots: which, and what the whole graph costs less."""
        if self.measures:
            now, then = (total(topological(roots), self.machine) for roots in (after, before))
            tally.saved = tally.saved + then - now
        changed = [(b, a) for b, a in zip(before, after, strict=True) if a is not b]
        self.steps.append(
            Step(name, self.phase, tuple(b for b, _ in changed), tuple(a for _, a in changed), (), self.sweep)
        )


def _near(node: Node) -> set[Node]:
    """A node and what a left side can have met below it."""
    found = {node}
    for _ in range(NEAR):
        found.update([a.node for n in found for a in n.args])
    return found
