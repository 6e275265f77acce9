"""Graphs of values whose variables were assigned since (`engine/dynamic/records`)."""

from __future__ import annotations

import numpy as np
import pytest

import nnc_func as nnc


@pytest.mark.parametrize("looked", [False, True])
def test_what_was_made_of_a_variable_before_it_was_assigned_is_made_of_a_constant(looked: bool) -> None:
    """Whether or not somebody holds the graph in which it was a variable."""
    stack, lazy = nnc.dynamic(), nnc.lazy()
    x = stack.variable("x", 2.0)
    y = stack.ops.exp(x * x)
    before = stack.trace(y) if looked else None
    i = stack.input("i", (), "float64")
    program = stack.compile([i], [i * y])
    x.value.assign(np.array(1.0))
    assert program(1.0)[0] == np.exp(1.0), "there it stands for the variable"
    for after in (stack.compile([i], [i * y])(1.0)[0], lazy.engine.compile(stack.trace(y).to(lazy))()):
        np.testing.assert_allclose(after, np.exp(4.0))
    z = x * 3
    np.testing.assert_allclose(lazy.engine.compile(stack.trace(y * z).to(lazy))(), np.exp(4.0) * 3)
    assert before is None or len(before.variables) == 1  # that graph stays what it is


def test_variables_that_are_assigned_one_after_the_other() -> None:
    """What reads them is gone by then, but for graphs and programs that somebody holds."""
    stack = nnc.dynamic()
    v, w = stack.variable("v", 2.0), stack.variable("w", 3.0)
    y = v * w
    z = y + v
    held = [stack.trace(z)]
    for variable in (v, w):
        variable.value.assign(np.array(7.0))
        held += [stack.engine.compile(stack.trace(z)), stack.engine.compile(stack.trace(y, z))]
        assert held[-2]() == 8.0
    assert [found.item() for found in held[-1]()] == [6.0, 8.0]
    once = stack.variable("once", 2.0)
    tripled = once * 3.0
    more = tripled + 1.0
    held.append(stack.engine.compile(stack.trace(more)))
    once.value.assign(np.array(5.0))
    assert stack.engine.compile(stack.trace(more))() == 7.0


def test_looking_again_and_again_is_as_quick_as_once() -> None:
    """Nothing is noted for each look, while no variable is assigned."""
    stack = nnc.dynamic()
    y = stack.variable("x", 2.0) * 3.0
    for _ in range(50):
        stack.trace(y)
    recording = stack.engine.recording
    noted = len(recording._reading)
    for _ in range(50):
        stack.trace(y)
    assert len(recording._reading) == noted
