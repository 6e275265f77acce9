"""Whether a rewrite is worth it: what it saves by the cost model, and whether it computes something again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, topological
from nnc_func.graph.rules.rule import Pass
from nnc_func.testing.counterexamples import Instance, Work, code, work
from nnc_func.testing.rewrites import applied


def saves(trial: Any, rule: Any, instance: Instance, outcome: Any) -> bool:
    """Whether a rule with all its conditions fires on a graph, and what it makes of that takes less.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> from nnc_func.testing.rewrites import Trial
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> trial, instance = Trial(lazy.operator), Instance((x - -x).value, {x.value: np.float32([1, 2])})
    >>> saves(trial, subtract_negative, instance, trial.outcome(subtract_negative, instance))
    True
    """
    if outcome.new is None or trial.attempt(rule, instance.root) is None:
        return False
    return bool(work([outcome.new]).saves(work([instance.root])))


def never_saves(trial: Any, drawn: Sequence[tuple[Any, Instance, Any]]) -> list[str]:
    """That a rule saves nothing on any of these graphs, if it is so.

    Parameters
    ----------
    drawn
        Rules with all their conditions, graphs on which they fire without those of profit, and what became of them.
    """
    profitable = [d for d in drawn if trial.attempt(d[0], d[1].root) is not None] or drawn
    pairs = [(work([d[1].root]), work([d[2].new])) for d in profitable]
    if any(after.saves(before) for before, after in pairs):
        return []
    before, after = pairs[0]
    _, instance, outcome = profitable[0]
    shown = code({"before": instance.root, "after": outcome.new}, instance.feeds)
    return [f"it never saves anything:\nbefore: {before}\nafter:  {after}\n{shown}"]


def repeats_work(trial: Any, drawn: Iterable[tuple[Any, Instance]]) -> list[str]:
    """That a rule fires where others use what it computes on the way, and makes more work there each time."""
    found: list[tuple[Instance, Node, Any, Work, Work]] = []
    for rule, instance in drawn:
        for inner in _inner(instance.root):
            new, shared = _beside(trial, rule, instance.root, inner)
            if new is None or inner.aval.size == 0:
                continue
            before, after = work([instance.root, inner]), work([new, shared])
            if after.launches < before.launches or after.flops <= before.flops:
                return []
            found.append((instance, inner, new, before, after))
    if not found:
        return []
    instance, inner, new, before, after = found[0]
    shown = code({"shared": inner, "before": instance.root, "after": new}, instance.feeds)
    return [
        f"it computes again what others use too; ask that it is used once:\nbefore: {before}\nafter:  {after}\n{shown}"
    ]


def _beside(trial: Any, rule: Any, root: Node, inner: Node) -> tuple[Any, Any]:
    """What the root becomes where a node on the way to it is used by others too, and what becomes of that."""
    if isinstance(rule, Pass):
        found: Any = applied(rule, trial.builder, (root, inner))
        return found or (None, inner)
    return trial.attempt(rule, root, lambda value: 1 + (value.node is inner)), inner


def _inner(root: Node) -> list[Node]:
    """What is computed on the way to the root."""
    met = topological([root])
    return [n for n in met if n is not root and n.op not in (INPUT, CONSTANT) and n.args and not n.op.multi_result]
