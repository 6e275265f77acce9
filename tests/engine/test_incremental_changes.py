"""Incremental programs whose variables, random keys and shapes change (`engine/incremental`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.errors import RunError, ShapeError
from nnc_func.graph.ops import CATALOGUE
from tests.engine.changing import Counting

LAZY = nnc.lazy(Counting())
OPS = LAZY.ops
COUNTING = LAZY.device
BOTH = [nnc.eager(), nnc.lazy()]
KEEPING = ["frontier", "all", []]
X = np.linspace(-1, 1, 12).reshape(3, 4)


# --- variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_a_variable_that_is_assigned_or_written_by_another_program_is_dirty(stack: Any) -> None:
    w, x = stack.variable("w", X), stack.input("x", (3, 4), "float64")
    program = stack.compile([x], stack.ops.sum(stack.ops.tanh(w) * x), retain="all")
    add = stack.compile([], [], [(w, w + 1)])
    for change in (lambda: None, add, lambda: w.value.assign(X * 3), add):
        change()
        np.testing.assert_allclose(program(X), np.sum(np.tanh(w.numpy()) * X), rtol=1e-13)


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_updates_are_written_where_they_changed_and_again_where_the_variable_did(stack: Any) -> None:
    x, w, v = stack.input("x", (3,), "float64"), stack.variable("w", np.zeros(3)), stack.variable("v", np.ones(3))
    program = stack.compile([x], v + 0, [(w, stack.ops.tanh(x)), (v, v * 2)], retain="all")
    one = np.ones(3)
    program(one)
    version = w.value.version
    program(one)
    assert w.value.version == version  # nothing new to write
    np.testing.assert_array_equal(v.numpy(), 4.0)
    w.value.assign(np.zeros(3))
    program(one)
    np.testing.assert_array_equal(w.numpy(), np.tanh(one))
    np.testing.assert_array_equal(v.numpy(), 8.0)


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_swapped_variables(stack: Any) -> None:
    a, b = stack.variable("a", np.zeros(3)), stack.variable("b", np.ones(3))
    program = stack.compile([], [a, b], [(a, b), (b, a)], retain="all")
    for i in range(4):
        first, second = program()
        np.testing.assert_array_equal(first, float(i % 2))
        np.testing.assert_array_equal(second, float(1 - i % 2))


def test_an_update_whose_run_failed_is_written_by_the_next() -> None:
    x, y, w = LAZY.input("x", (3,), "float64"), LAZY.input("y", (3,), "float64"), LAZY.variable("w", np.zeros(3))
    program = LAZY.compile([x, y], OPS.cumulative_sum(y, axis=0), [(w, OPS.cumulative_sum(x, axis=0))], retain="all")
    program(np.ones(3), np.ones(3))
    for at in (0, 1):
        program.assign(x=np.full(3, 5.0 + at), y=np.zeros(3))
        before = w.numpy()
        COUNTING.counted()
        COUNTING.failing.append(at)
        with pytest.raises(RunError, match="cumulative_sum"):
            program.evaluate()
        COUNTING.failing.clear()
        np.testing.assert_array_equal(w.numpy(), before)
        program.evaluate()
        np.testing.assert_array_equal(w.numpy(), np.cumsum(np.full(3, 5.0 + at)))


def test_a_kept_value_that_a_failing_kernel_wrote_again_is_gone() -> None:
    """Of two results of one application one is kept: computing the other again writes both."""
    x, y = LAZY.input("x", (3,), "float64"), LAZY.input("y", (3,), "float64")
    body = Body.of(1, (CATALOGUE["tanh"], 0), (CATALOGUE["square"], 0), results=(1, 2))
    one, other = OPS.blockwise_several(OPS.cumulative_sum(x, axis=0), body=body)
    program = LAZY.compile([x, y], [one, OPS.cumulative_sum(other * y, axis=0)], retain=[])
    program(np.ones(3), np.ones(3))
    for at in range(program.evaluation.total):
        COUNTING.counted()
        COUNTING.failing.append(at)
        with pytest.raises(RunError):
            program(np.ones(3), np.full(3, 2.0 + at))
        COUNTING.failing.clear()
        first, second = program(np.ones(3), np.ones(3))
        np.testing.assert_array_equal(first, np.tanh([1, 2, 3]))
        np.testing.assert_array_equal(second, [1, 5, 14])


# --- random operators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", KEEPING)
def test_random_values_are_drawn_again_when_their_key_changes_once_for_all_who_read_them(retain: Any) -> None:
    """Owl drew again in `eval_graph`, never in `eval_arr`, whatever was assigned; here only the key decides."""
    key, x = LAZY.input("key", (2,), "uint64"), LAZY.input("x", (3,), "float64")
    one = OPS.random_uniform(key, shape=(3,), dtype="float64")
    other = OPS.random_uniform(key, shape=(3,), dtype="float64")
    program = LAZY.compile([key, x], [one * x, other + x, one - other], retain=retain)
    first = np.array([1, 2], "uint64")
    program(first, np.ones(3))
    assert COUNTING.counted().count("random_uniform") == 1
    scaled, _, zero = program(first, np.full(3, 2.0))
    draws = COUNTING.counted().count("random_uniform")
    assert draws == (0 if retain else 1)
    np.testing.assert_array_equal(zero, 0.0)
    again, shifted, _ = program(np.array([1, 3], "uint64"), np.full(3, 2.0))
    assert COUNTING.counted().count("random_uniform") == 1
    assert (again != scaled).all()
    np.testing.assert_allclose(again / 2, shifted - 2, rtol=1e-12)


# --- other shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", KEEPING)
@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_assigning_another_shape_equals_a_fresh_build(stack: Any, retain: Any) -> None:
    """Owl raised DIFFERENT_SIZE: a graph was of its first shapes for ever."""
    x, y = stack.input("x", ("n", 4), "float64"), stack.input("y", (4,), "float64")
    outputs = [stack.ops.cumulative_sum(stack.ops.tanh(x) * y, axis=0), stack.ops.sum(x)]
    program, plain = stack.compile([x, y], outputs, retain=retain), stack.compile([x, y], outputs)
    held = program.retained_bytes
    rows, last = {}, np.ones(4)
    for n in (3, 5, 3, 1, 5, 3):
        last = last + 1 if n == 5 else last
        rows[n] = X[:1].repeat(n, 0) * n
        program.assign(x=rows[n], y=last)
        for found, expected in zip(program.evaluate(), plain(rows[n], last), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert program.retained_bytes >= held
        held = program.retained_bytes
    assert len(program.programs) == 3
    program(rows[3], last)
    assert program.evaluation.kernels == 0
    with pytest.raises(ShapeError, match="input 'x'"):
        program.assign(x=np.ones(3))


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_bindings_share_variables(stack: Any) -> None:
    x, w = stack.input("x", ("n",), "float64"), stack.variable("w", np.zeros(()))
    program = stack.compile([x], x * w, [(w, stack.ops.sum(x))], retain="all")
    before = 0.0
    for n in (2, 3, 2, 2, 3):
        np.testing.assert_array_equal(program(np.ones(n)), before)
        before = float(n)
        assert w.numpy() == n
