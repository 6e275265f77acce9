"""Unknown extents: a rewrite must hold whatever they turn out to be, and must not fail where it cannot know them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.facets.dims import Dim, substitute
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rules.rule import Pass
from nnc_func.testing.counterexamples import Instance, code
from nnc_func.testing.rewrites import values

NAMES = {2: "n", 3: "m"}  # extents that are made unknown
BINDINGS = tuple({"n": n, "m": m} for n, m in ((2, 3), (1, 3), (2, 1), (1, 1), (3, 2)))
SOME = 20  # graphs, of those whose extents can be unknown


def wrong_where_unknown(trial: Any, drawn: Iterable[tuple[Any, Instance]]) -> list[str]:
    """What goes wrong where a rule fires on graphs whose extents of two and three are unknown."""
    made = ((rule, instance, unknown(instance, trial.operator)) for rule, instance in drawn)
    for rule, instance, root in itertools.islice((m for m in made if m[2] is not None), SOME):
        assert root is not None
        try:
            new = trial.attempt(rule, root.node)
        except NncError:
            continue  # the driver leaves such a graph as it is
        except Exception as error:
            why = f"it fails where extents are unknown: {type(error).__name__}: {error}"
            return [f"{why}\n{code({'before': instance.root}, instance.feeds)}"]
        if new is None or isinstance(rule, Pass) or new.aval != root.aval:
            continue
        for dims in BINDINGS:
            why = _difference(trial.device, rule, root, new, instance, dims)
            if why:
                shown = code({"before": instance.root}, instance.feeds)
                return [f"where the extents 2 and 3 are unknown, and turn out to be {dims}: {why}\n{shown}"]
    return []


def unknown(instance: Instance, operator: Any) -> Value | None:
    """The graph with unknown extents, where there is one; None where there is not.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> stack = nnc.eager()
    >>> x = stack.symbol.input("x", Aval((2, 1), "float32"))
    >>> y = stack.operator.bind(stack.type.ops["exp"], x)
    >>> unknown(Instance(y, {}), stack.operator).aval
    float32[n, 1]
    """
    made: dict[Node, Any] = {}
    if not any(n.op is INPUT and set(n.aval.shape) & set(NAMES) for n in topological([instance.root])):
        return None
    try:
        for node in topological([instance.root]):
            if node.op is INPUT:
                made[node] = operator.symbol.input(str(node.data), node.aval.having(shape=_named(node.aval.shape)))
            elif node.op is CONSTANT:
                made[node] = node
            else:
                items = tuple((k, _named(v) if k == "shape" else v) for k, v in node.items)
                made[node] = operator.symbol.apply(node.op, tuple(made[a.node] for a in node.args), items)
        root: Value = made[instance.root]
        fits = substitute(root.aval.shape, BINDINGS[0]) == instance.root.aval.shape
    except (NncError, TypeError, AttributeError):
        return None
    return root if fits else None


def _named(shape: Any) -> Any:
    return tuple(Dim.named(NAMES[n]) if n in NAMES else n for n in shape)


def _difference(device: Any, rule: Any, old: Value, new: Value, instance: Instance, dims: Mapping[str, int]) -> str:
    """How the values differ for one binding; empty where they do not, or the graph is none for it."""
    feeds = {}
    for node in topological([old, new]):
        if node.op is INPUT:
            shape = substitute(node.aval.shape, dims)
            given = next(a for n, a in instance.feeds.items() if str(n.data) == str(node.data)).ravel()
            feeds[node] = np.resize(given, shape).astype(node.aval.dtype)
    both = values(old, new, feeds, device, dims)
    if both is None or (both.failure and not both.was.size):
        return ""  # of an empty result nothing need be computed
    return both.difference(rule.numerics, rule.fast_math)
