"""Symbolic mathematics on small expressions: simplified by the rules of algebra, printed as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.graph.formulas.formula import Formula, formula
from nnc_func.graph.fragments import leaf_name
from nnc_func.graph.leaves import INPUT, VARIABLE
from nnc_func.graph.node import Value, topological

RESULTS = ("y", "z", "w", "v", "u")  # names of results: the first that no input or variable has
SMALL = 60  # nodes of an expression that is shown as a formula where nobody asked for one


def simplified(layer: Any, roots: Sequence[Value], numerics: Any = None, fast_math: bool | None = None) -> Any:
    """The roots rewritten by the first phase of rules, those of algebra, and nothing that hides structure.

    Parameters
    ----------
    layer
        An Optimiser.
    numerics, fast_math
        How far values may differ; as the Optimiser allows, unless given.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float64")
    >>> print(formula(simplified(lazy.optimiser, [(-(-x) * 1 + 0).value])[0]))
    x
    """
    return layer.algebra(numerics, fast_math).optimise(roots).roots


def latex_of(graph: Any) -> str:
    """The outputs and updates of a graph as equations, one a line.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float64")
    >>> print(latex_of(lazy.graph.close([x.value], [(x * x).value, (1 / x).value])))
    \\begin{aligned}
    y_{1} &= x^{2} \\\\
    y_{2} &= \\frac{1}{x}
    \\end{aligned}
    """
    several = len(graph.outputs) > 1
    taken = {leaf_name(n).split("_")[0] for n in graph.nodes if n.op in (INPUT, VARIABLE)}
    letter = next((name for name in RESULTS if name not in taken), "result")
    rows = [(f"{letter}_{i}" if several else letter, value) for i, value in enumerate(graph.outputs, 1)]
    rows += [(_name(variable), value) for variable, value in graph.updates]
    set_rows = [f"{Formula('name', name).to_latex()} &= {formula(value).to_latex()}" for name, value in rows]
    return "\\begin{aligned}\n" + " \\\\\n".join(set_rows) + "\n\\end{aligned}"


def _name(variable: Any) -> str:
    assert variable.op is VARIABLE
    return str(variable.data.name)


def is_small(value: Any) -> bool:
    """Whether a value is an expression that is read at a glance.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (), "float64")
    >>> is_small((x * x + 1).value)
    True
    """
    return isinstance(value, Value) and bool(value.node.args) and len(topological([value])) <= SMALL
