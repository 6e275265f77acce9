"""Values asked for outside of a program: computed together, never stale, never growing (`engine/force`)."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import UnboundError
from nnc_func.graph.leaves import CONSTANT

LAZY = nnc.lazy()
OPS = LAZY.ops


def test_an_intermediate_that_was_asked_for_is_right_together_with_the_result() -> None:
    x = LAZY.asarray(np.linspace(0, 1, 50))
    y = OPS.sin(x)
    z = OPS.cos(y)
    for wanted in ((y, z), (z, y), (y, z, y)):
        for found, tensor in zip(LAZY.evaluate(*wanted), wanted, strict=True):
            expected = np.sin(np.linspace(0, 1, 50))
            np.testing.assert_array_equal(found, expected if tensor is y else np.cos(expected))


def test_what_is_held_is_kept_and_what_is_not_is_not() -> None:
    x = LAZY.asarray(np.linspace(0, 1, 50))
    held = OPS.exp(x)
    last = OPS.tanh(OPS.sin(held))
    last.numpy()
    assert held.value.node.op is CONSTANT
    assert last.value.node.args == ()
    np.testing.assert_array_equal(held.numpy(), np.exp(np.linspace(0, 1, 50)))


def test_an_evaluated_graph_can_be_extended() -> None:
    """Owl computed 2 sin(exp x) here: a was recomputed into memory that b still used."""
    x = LAZY.asarray(np.linspace(0, 1, 50))
    a = OPS.exp(x)
    b = OPS.sin(a)
    b.numpy()
    d = a + b
    e = np.exp(np.linspace(0, 1, 50))
    np.testing.assert_array_equal(d.numpy(), e + np.sin(e))
    np.testing.assert_array_equal(b.numpy(), np.sin(e))


def test_a_variable_that_changes_changes_no_value() -> None:
    """Whether a value was looked at before has no say in what it is; see also test_values.py."""
    w = LAZY.variable("w", np.ones(3))
    looked, other = w * 2, w * 3
    parts = OPS.split(w * 4, sections=3)
    np.testing.assert_array_equal(looked.numpy(), 2.0)
    np.testing.assert_array_equal(parts[1].numpy(), 4.0)
    w.value.assign(np.full(3, 5.0))
    LAZY.compile([], [], [(w, w + 1)])()
    np.testing.assert_array_equal(looked.numpy(), 2.0)
    np.testing.assert_array_equal(other.numpy(), 3.0)
    np.testing.assert_array_equal(parts[1].numpy(), 4.0)
    np.testing.assert_array_equal((w * 2).numpy(), 12.0)
    np.testing.assert_array_equal(LAZY.compile([], looked)(), 12.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_an_input_has_no_value(make: Any) -> None:
    stack = make()
    x = stack.input("x", (2,), "float32")
    for tensor in (x, x + 1, (x + 1)[0]):
        with pytest.raises(UnboundError, match=r"input 'x' \(made at test_force.py:\d+"):
            tensor.numpy()
    with pytest.raises(UnboundError, match="'x'"):
        stack.evaluate(stack.asarray(1.0), x)


def test_a_loop_of_forced_values_does_not_grow() -> None:
    table = LAZY.symbol.table
    x = LAZY.asarray(np.ones(300))
    gc.collect()  # what earlier tests left in the table
    sizes = []
    for _ in range(200):
        x = OPS.tanh(x * 1.01 + 0.1)
        x.numpy()
        sizes.append(len(table))
    gc.collect()
    assert sizes[-1] == sizes[20]


def test_live_nodes_are_constant_over_a_thousand_steps_of_eager_over_lazy() -> None:
    lazy = nnc.lazy()
    stack = nnc.eager().swap(device=lazy)
    w = stack.asarray(np.ones((4, 4)))
    v = stack.asarray(np.zeros((4, 4)))
    table = lazy.symbol.table
    counts = []
    for i in range(1000):
        v = v * 0.9 + stack.ops.tanh(w) * 0.1
        w = w - v * 0.01
        w.numpy()
        if i in (100, 999):
            gc.collect()
            counts.append(sum(type(o).__name__ == "Node" and o.table is table for o in gc.get_objects()) or len(table))
    assert counts[0] == counts[1]


def test_equal_structures_share_one_forced_program() -> None:
    stack = LAZY.swap(engine=LAZY.engine.with_orders("depth_first"))
    x = stack.asarray(np.ones(300))
    for i in range(10):
        np.testing.assert_allclose((stack.ops.exp(x) * (x + x)).numpy(), np.exp(2.0**i) * 2 * 2.0**i, rtol=1e-12)
        x = stack.asarray(np.full(300, 2.0 ** (i + 1)))
    assert len(stack.engine.programs) == 1


def test_small_constants_of_equal_structure_are_not_confused() -> None:
    for value in (1.0, 2.0, -0.0, 3.0):
        found = (LAZY.asarray(np.ones(2)) * LAZY.asarray(value)).numpy()
        np.testing.assert_array_equal(found, value)
        assert np.signbit(found).all() == np.signbit(value)


def test_a_forced_value_is_the_callers_own() -> None:
    x = OPS.exp(LAZY.asarray(np.zeros(300)))
    first = x.numpy()
    first[:] = 7
    np.testing.assert_array_equal(x.numpy(), 1.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_tensor_does_not_change_with_the_array_it_was_made_of(make: Any) -> None:
    stack = make()
    for array in (np.zeros(3), np.zeros(1000)):
        tensor = stack.asarray(array)
        array[0] = 7
        np.testing.assert_array_equal(tensor.numpy(), 0.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_nor_with_the_base_of_a_read_only_view(make: Any) -> None:
    stack = make()
    base = np.zeros(1000)
    view = base.view()
    view.flags.writeable = False
    tensor = stack.asarray(view)
    base[0] = 7
    np.testing.assert_array_equal(tensor.numpy(), 0.0)


def test_a_fill_stays_one_for_the_rules_when_it_is_asked_for() -> None:
    """A number that rules know before it was computed, and not after, makes a step that resumes another program."""
    lazy = nnc.lazy()
    x = lazy.input("x", (3,), "float32")
    eps, steps = lazy.ops.full(shape=(), value=1e-5, dtype="float32"), lazy.ops.arange(start=0, stop=3, dtype="float32")
    y = lazy.ops.square(lazy.ops.sqrt(lazy.ops.square(x) + eps)) * steps
    before = str(lazy.compile([x], y).graph)
    for _ in range(2):
        np.testing.assert_array_equal(eps.numpy(), np.float32(1e-5))
        np.testing.assert_array_equal((steps + eps).numpy(), np.arange(3, dtype="float32") + np.float32(1e-5))
    assert str(lazy.compile([x], y).graph) == before
    assert "sqrt" not in before
