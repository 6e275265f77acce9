"""A counterexample made easier to read: elements that do not matter become small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nnc_func.graph.node import Node
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.rewrites import Outcome

SIMPLE = (0, 1, 2)
FEW = 12  # elements of an array that are looked at one by one


def simplified(trial: Any, rule: Any, instance: Instance, outcome: Outcome) -> tuple[Instance, Outcome]:
    """The same graph with simpler elements, of which the rule is as wrong.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.testing.rewrites import Trial
    >>> @nnc.rule
    ... def drop_first(x, y):
    ...     '''It is wrong unless the first operand is zero.'''
    ...     return nnc.rewrite(x - y).to(-y)
    >>> operator = nnc.eager().operator
    >>> x, y = (nnc.lazy().input(n, (1,), "float32").value for n in "xy")
    >>> root = operator.bind(operator.type.ops["subtract"], x, y)
    >>> instance = Instance(root, {x: np.float32([7.25]), y: np.float32([9.5])})
    >>> found, _ = simplified(Trial(operator), drop_first, instance, Trial(operator).outcome(drop_first, instance))
    >>> [array.tolist() for array in found.feeds.values()]
    [[1.0], [0.0]]
    """
    for node in instance.feeds:
        whole = [lambda given, number=number: np.full_like(given, number) for number in SIMPLE]
        smaller = _first(trial, rule, instance, outcome, node, whole)
        for at in range(0 if smaller else min(instance.feeds[node].size, FEW)):
            one = [lambda given, at=at, number=number: _with(given, at, number) for number in SIMPLE]
            instance, outcome = _first(trial, rule, instance, outcome, node, one) or (instance, outcome)
        instance, outcome = smaller or (instance, outcome)
    return instance, outcome


def _first(
    trial: Any, rule: Any, instance: Instance, outcome: Outcome, node: Node, changes: Iterable[Any]
) -> tuple[Instance, Outcome] | None:
    """The first change of an array of which the rule is still wrong; None if it is of none, or it changes nothing."""
    for change in changes:
        array = change(instance.feeds[node])
        if array.tobytes() == instance.feeds[node].tobytes():
            return None
        smaller = Instance(instance.root, {**instance.feeds, node: array})
        found = trial.outcome(rule, smaller)
        if found.why and found.old is outcome.old and found.new is not None:
            return smaller, found
    return None


def _with(array: Any, at: int, number: int) -> Any:
    found = array.copy()
    found.flat[at] = number
    return found
