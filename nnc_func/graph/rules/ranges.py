"""What is known of the elements of a tensor from the operators that make it."""

from __future__ import annotations

from functools import cache

import numpy as np

from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.op import Op

MOST = 32  # nodes that are looked at


def is_constant(value: Value) -> bool:
    """Whether it is a constant, or a fill.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> is_constant((stack.input("x", (), "float32") * 2).value.args[1])
    True
    """
    op = value.op
    return op is CONSTANT or op.name == "full"


def is_nonnegative(value: Value) -> bool:
    """Whether no element of a floating tensor is below zero, as far as its operators tell; NaN and -0.0 may be there.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (2,), "float32")
    >>> is_nonnegative(((x * x).mean() + 1e-5).value), is_nonnegative((x + 1).value)
    (True, False)
    """
    todo, seen = [value.node], 0
    while todo:
        node, seen = todo.pop(), seen + 1
        if seen > MOST or node.op.multi_result or kind_of(node.aval.dtype) != "f":
            return False
        told = sign_of(node.op)
        if told == "kept" and not (node.op.name == "multiply" and node.args[0] is node.args[1]):
            todo += [a.node for a in node.args]
        elif not told and not _is_known(node):
            return False
    return True


@cache
def sign_of(op: Op) -> str:
    """What the operator's laws say of the sign of its result: it is "plus", or "kept" from its arguments."""
    if op.has("nonnegative"):
        return "plus"
    return "kept" if op.has("keeps_nonnegative") else ""


def _is_known(node: Node) -> bool:
    """Whether it is a constant, or a fill, without a number below zero."""
    if node.op.name == "full":
        value = node.params["value"]
        return bool(known(value) and value >= 0)
    if node.op is not CONSTANT:
        return False
    data = node.table.literals.get(node)  # what was computed, or is a variable's, may be other numbers next time
    return data is not None and bool(np.all(data >= 0))
