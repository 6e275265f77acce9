"""Operands first, in the order in which a recursive evaluator comes to them: what most compilers do."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem


def depth_first(problem: OrderProblem) -> range:
    """By number: the engine numbers tasks depth-first, from the first result that is wanted to the last.

    Examples
    --------
    >>> depth_first(OrderProblem([(), (0,), ()], [()] * 3, []))
    range(0, 3)
    """
    return range(len(problem))
