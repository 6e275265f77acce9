"""What rewriting a graph reports: the new roots, and what became of each rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from nnc_func.graph.node import Value
from nnc_func.graph.origin import describe
from nnc_func.graph.rules.cost import NOTHING, Work

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.watching import Merge, Step


@frozen
class Count:
    """What became of one rule.

    Attributes
    ----------
    tried
        Nodes that it was held against, of those that had the right operators; where that was measured.
    matched
        Times that it fired.
    refused
        Replacements refused: of another aval, or that could not be built.
    seconds
        In all; of rules where that was measured.
    why
        What stood against it: the text of the condition that did not hold, where that was measured, or what was wrong
        with the replacement; and how often.
    saved
        Estimated from the operators' costs, where that was measured: bytes, FLOPs, kernels, seconds.
    """

    tried: int = 0
    matched: int = 0
    refused: int = 0
    seconds: float = 0.0
    why: Mapping[str, int] = field(factory=dict)
    saved: Work = NOTHING


@frozen(repr=False)
class Rewritten:
    """A graph, rewritten.

    Attributes
    ----------
    roots
        In the order in which they were given.
    statistics
        Rule name to `Count`: of the rules that fired or were refused, and where that was measured of all that were
        tried.
    nodes_before, nodes_after, edges_before, edges_after
        Sizes.
    steps, merges
        Each rewrite, and what became one node, where that was asked for.
    """

    roots: tuple[Value, ...]
    statistics: dict[str, Count]
    nodes_before: int
    nodes_after: int
    edges_before: int
    edges_after: int
    steps: tuple[Step, ...] = ()
    merges: tuple[Merge, ...] = ()

    @property
    def trace(self) -> tuple[tuple[str, str], ...]:
        """(rule name, where the node was built) of each rewrite, where that was asked for."""
        return tuple((step.rule, describe(step.where)) for step in self.steps)

    def __repr__(self) -> str:
        lines = [
            f"nodes {self.nodes_before} -> {self.nodes_after}, edges {self.edges_before} -> {self.edges_after}",
        ]
        if self.statistics:
            lines += table(self.statistics)
        return "\n".join(lines)

    __str__ = __repr__


def table(statistics: Mapping[str, Count]) -> list[str]:
    """The counts in columns, those that fired most first.

    Examples
    --------
    >>> print("\\n".join(table({"drop_unit": Count(3, 2)})))
    rule          tried  matched  refused       ms   kB saved    kFLOP  kernels
    drop_unit         3        2        0     0.00        0.0      0.0        0
    """
    width = max(map(len, statistics))
    titles = ("tried", "matched", "refused", "ms", "kB saved", "kFLOP", "kernels")
    lines = [f"{'rule':{width}}  " + " ".join(f"{t:>{10 if t == 'kB saved' else 8}}" for t in titles)]
    for name, c in sorted(statistics.items(), key=lambda item: (-item[1].matched, item[0])):
        lines.append(
            f"{name:{width}}  {c.tried:8} {c.matched:8} {c.refused:8} {1e3 * c.seconds:8.2f} "
            f"{c.saved.bytes / 1e3:z10.1f} {c.saved.flops / 1e3:z8.1f} {c.saved.launches:8}"
        )
    return lines
