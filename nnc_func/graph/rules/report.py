"""What rewriting a graph reports: the new roots, and what became of each rule."""

from __future__ import annotations

from attrs import frozen

from nnc_func.graph.node import Value


@frozen
class Count:
    """What became of one rule.

    Attributes
    ----------
    tried
        Nodes that it was held against, of those that had the right operators.
    matched
        Times that it fired.
    refused
        Replacements refused: of another aval, or that could not be built.
    seconds
        In all.
    """

    tried: int = 0
    matched: int = 0
    refused: int = 0
    seconds: float = 0.0


@frozen(repr=False)
class Rewritten:
    """A graph, rewritten.

    Attributes
    ----------
    roots
        In the order in which they were given.
    statistics
        Rule name to `Count`, of the rules that were tried.
    nodes_before, nodes_after, edges_before, edges_after
        Sizes.
    trace
        (rule name, where the node was built) of each rewrite, where that was asked for.
    """

    roots: tuple[Value, ...]
    statistics: dict[str, Count]
    nodes_before: int
    nodes_after: int
    edges_before: int
    edges_after: int
    trace: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        lines = [
            f"nodes {self.nodes_before} -> {self.nodes_after}, edges {self.edges_before} -> {self.edges_after}",
        ]
        if self.statistics:
            width = max(map(len, self.statistics))
            lines.append(f"{'rule':{width}}  {'tried':>8} {'matched':>8} {'refused':>8} {'ms':>8}")
            for name, c in sorted(self.statistics.items(), key=lambda item: (-item[1].matched, item[0])):
                lines.append(f"{name:{width}}  {c.tried:8} {c.matched:8} {c.refused:8} {1e3 * c.seconds:8.2f}")
        return "\n".join(lines)

    __str__ = __repr__
