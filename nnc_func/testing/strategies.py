"""Hypothesis strategies for what tensors are, and for what is made of them.

Shapes, shapes that broadcast, dtypes, arrays and avals are in `tensors`; `programs`, the `arguments` of an operator,
the `graphs_for` a rule and `rule_sets` in modules of their own, imported when they are asked for. All of them shrink:
towards few axes, small extents, float64, elements next to zero, few operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from nnc_func.deferred import deferred
from nnc_func.testing.tensors import arrays, avals, broadcastable_shapes, dtypes, shapes

if TYPE_CHECKING:
    from nnc_func.op import Op
    from nnc_func.stack import Stack
    from nnc_func.testing.programs import programs
    from nnc_func.testing.rule_graphs import graphs_for
    from nnc_func.testing.rule_sets import rule_sets
    from nnc_func.testing.samples import arguments
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "arguments": "nnc_func.testing.samples",
            "graphs_for": "nnc_func.testing.rule_graphs",
            "programs": "nnc_func.testing.programs",
            "rule_sets": "nnc_func.testing.rule_sets",
        },
    )

__all__ = [
    "arguments",
    "arrays",
    "avals",
    "broadcastable_shapes",
    "dtypes",
    "graphs_for",
    "operators",
    "programs",
    "rule_sets",
    "shapes",
    "stacks",
]


def operators() -> st.SearchStrategy[Op]:
    """Operators of the default catalogue.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(operators(), lambda op: op.name == 'add')
    add
    """
    from nnc_func.graph.ops import CATALOGUE

    return st.sampled_from(tuple(CATALOGUE.values()))


def stacks() -> st.SearchStrategy[Stack]:
    """Stacks on the host: eager; dynamic; lazy with each allocator, each order, without rules; eager over lazy.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(stacks(), lambda stack: True).engine
    Eager(...)
    """
    from nnc_func.stacks import dynamic, eager, lazy
    from nnc_func.testing.agreement import variations

    return st.sampled_from([eager(), dynamic(), *variations(lazy()).values(), eager(lazy())])
