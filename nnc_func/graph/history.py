"""Histories: how a graph became its optimised form, rewrite by rewrite; stepped, replayed, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from nnc_func.errors import GraphError
from nnc_func.graph.node import Node, Value
from nnc_func.graph.pictures.history_page import page_of
from nnc_func.graph.rewriting.bodies import with_bodies_optimised
from nnc_func.graph.rewriting.report import Count, table
from nnc_func.graph.rewriting.watching import Merge, Step
from nnc_func.graph.rules.rule import Pass
from nnc_func.graph.rules.substituting import substituted
from nnc_func.graph.unpickled import Unpickled

BODY = "optimise_body"  # the name of a step in which loops and branches are rewritten, their bodies as graphs


@frozen(eq=False, repr=False)
class History(Unpickled):
    """The rewrites that led from one graph to another, in the order in which they were made.

    It is a sequence of `Step`: rule, phase, before, after, and where in user code what was replaced had been built.
    Printed it is one line a rewrite.

    Attributes
    ----------
    source
        The graph before.
    steps, merges
        Each rewrite, and what became one node on the way. Applications that were one node as they were built are told
        with all their lines where they were built within ``nnc.counted(stack)``, or with ``NNC_SPEC=1``.
    statistics
        Rule name to `Count`: tried, matched, refused and why, seconds, and what it saved.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> program = lazy.compile(inputs=[x], outputs=[-(-x) * 1])
    >>> history = program.graph.history
    >>> [step.rule for step in history]
    ['drop_involution', 'drop_unit']
    >>> [n.op.name for n in history.at(1).nodes]
    ['input', 'constant', 'multiply']
    """

    source: Any
    steps: tuple[Step, ...]
    merges: tuple[Merge, ...]
    statistics: Mapping[str, Count] = field(factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, i: int) -> Step:
        return self.steps[i]

    def at(self, i: int) -> Any:
        """The graph after so many rewrites.

        Raises
        ------
        GraphError
            There were not so many.
        """
        if not 0 <= i <= len(self.steps):
            raise GraphError(f"there were {len(self.steps)} rewrites; given {i}")
        return _replayed(self.source, self.steps[:i])

    def replay(self, graph: Any) -> Any:
        """These rewrites made to a graph of the same stack, wherever what they replaced occurs in it.

        Raises
        ------
        GraphError
            It is a graph of another stack: move it with ``graph.to(stack)``.
        """
        if graph.layer.symbol.table is not self.source.layer.symbol.table:
            raise GraphError(f"{graph!r} is of another stack than the history; move it here with graph.to(stack)")
        return _replayed(graph, self.steps)

    def to_html(self) -> str:
        """A self-contained page that steps through the rewrites, each drawn before and after."""
        return page_of(self)

    def __str__(self) -> str:
        lines = [f"{i}  {step.phase}: {step!r}" for i, step in enumerate(self.steps, 1)]
        lines += [f"after {merge.at}: {merge!r}" for merge in self.merges]
        return "\n".join([*lines, "", *table(self.statistics)] if self.statistics else lines)

    def __repr__(self) -> str:
        return f"<history of {self.source.name!r}: {len(self.steps)} rewrites, {len(self.merges)} merges>"

    def _repr_html_(self) -> str:
        return self.to_html()


def history(graph: Any) -> History:
    """The history of an optimised graph: its source is rewritten once more, and each rewrite recorded.

    Raises
    ------
    GraphError
        The graph was not made by rewriting.
    """
    source = graph.source
    if source is None:
        raise GraphError(
            f"{graph!r} was not made by rewriting, so it has no history; "
            "stack.graph.optimised(graph)[0] and program.graph have one"
        )
    inside, loops = with_bodies_optimised(source, source.layer.optimiser)
    origin = source.roots[0].node.origin if loops else ()
    bodies = [Step(BODY, "bodies", source.roots, inside.roots, origin, sweep=-1)] if loops else []
    done = source.layer.optimiser.optimise(inside.roots, trace=True, measure=True)
    counts = {BODY: Count(tried=loops, matched=loops)} if loops else {}
    return History(source, (*bodies, *done.steps), done.merges, {**counts, **done.statistics})


def _replayed(graph: Any, steps: tuple[Step, ...]) -> Any:
    """The graph after these rewrites: those of each walk over the graph at once, each pass apart."""
    from nnc_func.graph.rewriting.building import Builder

    builder = Builder(graph.layer.operator)
    passes = {BODY, *(r.name for r in graph.layer.optimiser.rules if isinstance(r, Pass))}
    roots, segment = graph.roots, dict[Node, Value]()
    with builder.table.walking:
        for i, step in enumerate(steps):
            if step.rule in passes or (i and step.sweep != steps[i - 1].sweep):
                roots, segment = substituted(roots, segment, builder), {}
            if step.rule in passes:
                changed = dict(zip(step.before, step.after, strict=True))
                roots = tuple([changed.get(r, r) for r in roots])
            else:
                segment[step.before[0].node] = step.after[0]
        return graph.with_roots(substituted(roots, segment, builder), source=graph)
