"""Gradients of values through loops that grow, and host functions in loops (`growing`, `recorded_programs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.dynamic_stacks import fresh

POINT = np.array([1.0, 3.0])


def slopes(stack: Any, f: Callable[[Any], Any], at: Any = POINT) -> tuple[Any, Any]:
    """The gradient of the sum of f as one of values, and as one of a function."""
    x = stack.variable("x", at)
    (found,) = stack.gradients([f(x).sum()], [x])
    return found.numpy(), stack.grad(lambda x: f(x).sum())(at).numpy()


def agree(stack: Any, f: Callable[[Any], Any], at: Any = POINT) -> Any:
    """The gradient, which is the same both ways."""
    found, wanted = slopes(stack, f, at)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.any(wanted)
    return found


# --- loops that grow ---------------------------------------------------------------------------------------


def grown(stack: Any, x: Any) -> Any:
    """Three numbers more, each twice the one before."""

    def step(c: Any) -> Any:
        return None, stack.ops.concat(c, 2 * c[-1:], axis=0)

    return stack.while_loop(lambda c: c.shape[0] < 5, step, x, dynamic=True)[1]


def bent(stack: Any, x: Any, w: Any = 2.0) -> Any:
    """Products of the first and the last one, until they are large."""

    def step(c: Any) -> Any:
        return None, stack.ops.concat(c, (w + 1) * c[-1:] * c[:1], axis=0)

    return stack.while_loop(lambda c: c.sum() < 100, step, x, dynamic=True)[1]


@pytest.mark.parametrize(
    "settings", [{}, {"memory_limit": 0}, {"asynchronous": True}, {"replay_after": 2}, {"memoise": True}]
)
def test_gradients_flow_through_a_loop_that_grows(settings: dict[str, Any]) -> None:
    stack = fresh(**settings)
    for _ in range(3):
        np.testing.assert_array_equal(agree(stack, lambda x: grown(stack, x)), [1, 15])


def test_what_is_beside_a_loop_that_grows_is_added() -> None:
    stack = fresh()
    agree(stack, lambda x: grown(stack, x).sum() + x * x)
    agree(stack, lambda x: grown(stack, x) * grown(stack, x))


def test_gradients_flow_through_a_loop_that_grows_in_each_row() -> None:
    stack = fresh()
    agree(stack, lambda x: stack.vmap(lambda row: grown(stack, row))(stack.ops.stack(x, x * x, axis=0)))


def test_gradients_flow_to_a_variable_that_a_loop_that_grows_reads() -> None:
    stack = fresh()
    w = stack.variable("w", 2.0)
    (found,) = stack.gradients([bent(stack, stack.asarray(POINT), w).sum()], [w])
    assert found.item() == stack.grad(lambda w: bent(stack, stack.asarray(POINT), w).sum())(2.0).item() == 102


def test_gradients_flow_through_rows_of_differing_shapes() -> None:
    stack = fresh()

    def listed(x: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return c * t, stack.ops.concat(c, t * c[-1:] * c[:1], axis=0)

        rows, last = stack.foreach(step, x * np.array([1.0, 2.0]), x, dynamic=True)
        return sum((row.sum() for row in rows), last.sum())

    agree(stack, listed)


def test_gradients_flow_through_what_a_loop_that_grows_stacks() -> None:
    stack = fresh()

    def stacked(x: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return c.sum(), stack.ops.concat(c, t * c[-1:] * c[:1], axis=0)

        return stack.foreach(step, x, x, dynamic=True)[0]

    agree(stack, stacked)


def test_second_derivatives_flow_through_a_loop_that_grows() -> None:
    stack = fresh()
    slope = stack.grad(lambda x: bent(stack, x).sum())
    x = stack.variable("x", POINT)
    wanted = stack.grad(lambda x: (slope(x) ** 2).sum())(POINT).numpy()
    (first,) = stack.gradients([bent(stack, x).sum()], [x])
    (of_values,) = stack.gradients([(first**2).sum()], [x])
    (of_a_function,) = stack.gradients([(slope(x) ** 2).sum()], [x])
    np.testing.assert_allclose(of_values.numpy(), wanted)
    np.testing.assert_allclose(of_a_function.numpy(), wanted)


def test_a_loop_that_grows_is_a_constant_without_gradients() -> None:
    stack = fresh()
    x = stack.variable("x", POINT)
    with stack.no_grad():
        y = grown(stack, x)
    np.testing.assert_array_equal(stack.gradients([(y[:2] * x).sum()], [x])[0].numpy(), POINT)


def test_a_loop_that_grows_keeps_nothing_once_it_is_dropped() -> None:
    stack = fresh()
    x = +stack.variable("x", POINT)
    before = stack.live
    y = grown(stack, x).sum()
    assert stack.live.nodes > before.nodes
    del y
    assert stack.live == before
