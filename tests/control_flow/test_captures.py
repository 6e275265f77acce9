"""What branches capture is an operand: nothing of one is computed around it (`control_flow/tracing`)."""

from __future__ import annotations

import math
from typing import Any

import pytest

import nnc_func as nnc
from nnc_func.graph.node import Value, topological


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])
def test_a_loop_of_a_captured_value_in_a_branch_that_is_not_taken_is_not_computed(stack: Any) -> None:
    def f(x: Any) -> Any:
        def doubled() -> Any:  # without an end where x is not positive
            return stack.while_loop(lambda v: v < 10.0, lambda v: (None, (v * 2.0,)), (x,))[1][0]

        return stack.cond(x > 0, doubled, lambda: -x)

    x = stack.asarray(-1.0)
    assert f(x).item() == 1.0
    assert f(x * 1.0).item() == 1.0
    assert f(x * -3.0).item() == 12.0


def test_a_captured_node_is_an_operand_and_what_is_made_of_it_stands_in_the_body() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (), "float32")
    found = lazy.cond(x > 0, lambda: lazy.ops.log(x), lambda: x)
    assert [node.op.name for node in topological([found.value])].count("log") == 0


def test_the_derivative_of_a_body_captures_nothing_that_it_can_compute() -> None:
    """It was a node, on an eager stack, too; and a value that is kept for the way back was missing."""
    eager = nnc.eager()

    def f(x: Any) -> Any:
        one = lambda: eager.ops.tanh(eager.ops.full(shape=(), value=1.0, dtype="float64"))  # noqa: E731
        return eager.cond(x > 0, lambda: eager.ops.sin(x * one()) * one(), lambda: x)

    slope = eager.grad(f)(eager.asarray(2.0))
    assert not isinstance(slope.value, Value)
    factor = math.tanh(1.0)
    assert math.isclose(slope.item(), math.cos(2.0 * factor) * factor**2)
