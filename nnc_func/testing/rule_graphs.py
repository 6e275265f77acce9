"""Graphs for a rewrite rule: what its left side matches, and near misses of that, with values for their inputs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nnc_func.errors import RuleError
from nnc_func.graph.rules.rule import AnyRule, Pass
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.instances import instances


def graphs_for(rule: AnyRule, stack: Any) -> st.SearchStrategy[Instance]:
    """Graphs drawn from the left side of a rule, some of which miss it by a little: another shape, dtype or number.

    Parameters
    ----------
    rule
        Of a family, a graph for one of its operators.
    stack
        Its catalogue has the operators; the graph is of its nodes.

    Returns
    -------
    A strategy for instances: ``root`` is a node, ``feeds`` has an array for each input.

    Raises
    ------
    RuleError
        The stack lacks its operators; or what it finds is computed, and it declares no samples of that.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from hypothesis import find
    >>> from nnc_func.graph.rules.powers import square_by_product
    >>> find(graphs_for(square_by_product, nnc.eager()), lambda drawn: True).root.op.name
    'power'
    """
    family: Any = tuple(rule.instances(stack.type.ops))
    if not family:
        raise RuleError(f"{rule.name} has no instance: the stack's catalogue lacks its operators")
    if isinstance(rule, Pass) and not rule.samples:
        raise RuleError(f"{rule.name} rewrites whole graphs and declares no samples: draw programs instead")
    drawn = instances(family, stack.operator)
    return drawn.filter(lambda found: found is not None).map(lambda found: found[1])
