"""Long chains, many operands, many axes: nothing recurses over nodes, and nothing is quadratic (`graph`, `engine`)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

LAZY = nnc.lazy()
OPS = LAZY.ops
LONG = 20_000  # nodes; the chain of 100,000 is marked slow
LENGTHS = [LONG, pytest.param(100_000, marks=pytest.mark.slow)]


@contextmanager
def shallow() -> Iterator[None]:
    """No room for recursion over what is made inside."""
    before, depth = sys.getrecursionlimit(), 0
    frame: Any = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 150)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def chain(x: Any, length: int, ops: Any) -> Any:
    """Bounded, and different at each step, so that nothing is merged."""
    for i in range(length // 2):
        x = ops.sin(x) + (0.25 + (i % 7) * 0.125)
    return x


def wanted(x: Any, length: int) -> tuple[Any, Any]:
    """Value and derivative."""
    slope = np.ones_like(x)
    for i in range(length // 2):
        slope = slope * np.cos(x)
        x = np.sin(x) + (0.25 + (i % 7) * 0.125)
    return x, slope


@pytest.mark.parametrize("length", LENGTHS)
def test_a_long_chain_is_built_optimised_planned_and_run(length: int) -> None:
    with shallow():
        x = LAZY.input("x", (4,), "float64")
        program = LAZY.compile([x], chain(x, length, OPS))
        given = np.linspace(0, 1, 4)
        np.testing.assert_allclose(program(given), wanted(given, length)[0], rtol=1e-12)
        program.plan.verify()
        assert program.plan.arena_bytes <= 2 * 64
        assert len(str(program.graph).splitlines()) > length // 2


@pytest.mark.parametrize("length", LENGTHS)
def test_a_long_chain_is_differentiated(length: int) -> None:
    with shallow():
        x = LAZY.input("x", (4,), "float64")
        gradient = LAZY.grad(lambda t: OPS.sum(chain(t, length, OPS)))(x)
        _, tangent = LAZY.jvp(lambda t: chain(t, length, OPS), (x,), (np.ones(4),))
        program = LAZY.compile([x], [gradient, tangent])
        given = np.linspace(0, 1, 4)
        slope = wanted(given, length)[1]
        for found in program(given):
            np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-300)  # it underflows: contracted at each step


def test_a_long_chain_is_forced_and_forgotten() -> None:
    with shallow():
        x = LAZY.asarray(np.linspace(0, 1, 100))
        y = chain(x, LONG, OPS)
        np.testing.assert_allclose(y.numpy(), wanted(np.linspace(0, 1, 100), LONG)[0], rtol=1e-12)
        assert y.value.node.args == ()


def test_a_long_chain_that_nobody_holds_any_more_is_freed_without_overflow() -> None:
    table = LAZY.symbol.table
    gc.collect()
    before = len(table)
    x = LAZY.input("x", (4,), "float64")
    with shallow():
        y = chain(x, 5 * LONG, OPS)
        assert len(table) >= before + 5 * LONG
        del y
        gc.collect()
    assert len(table) <= before + 10


def test_a_long_chain_runs_at_once() -> None:
    eager = nnc.eager()
    with shallow():
        given = np.linspace(0, 1, 4)
        found = eager.grad(lambda t: eager.ops.sum(chain(t, LONG, eager.ops)))(given)
        np.testing.assert_allclose(found.numpy(), wanted(given, LONG)[1], rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("count", [7_000, pytest.param(70_000, marks=pytest.mark.slow)])
def test_one_node_has_many_operands(count: int) -> None:
    x = LAZY.input("x", (2,), "float64")
    parts = [x * float(i) for i in range(count)]
    joined = OPS.concat(*parts, axis=0)
    total, gradient = LAZY.value_and_grad(lambda t: OPS.sum(OPS.concat(*([t] * count), axis=0)))(x)
    program = LAZY.compile([x], [joined, total, gradient])
    given = np.array([1.0, -2.0])
    found, value, slope = program(given)
    np.testing.assert_array_equal(found.reshape(count, 2), np.arange(count)[:, None] * given)
    np.testing.assert_allclose(value, count * given.sum(), rtol=1e-12)
    np.testing.assert_array_equal(slope, count)
    program.plan.verify()


def test_one_node_has_many_results() -> None:
    x = LAZY.input("x", (5_000,), "float64")
    parts = OPS.split(x, sections=5_000)
    program = LAZY.compile([x], OPS.concat(*reversed(parts), axis=0))
    given = np.arange(5_000.0)
    np.testing.assert_array_equal(program(given), given[::-1])


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_twelve_dimensions(make: Any) -> None:
    stack = make()
    ops = stack.ops
    shape = (2, 1, 3, 1, 2, 1, 1, 2, 1, 2, 1, 2)
    given = np.random.default_rng(0).normal(size=shape)
    x = stack.input("x", shape, "float64")
    order = (3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 11, 10)
    outputs = [
        ops.permute_dims(x, axes=order), ops.sum(x * x, axis=(0, 2, 11)), ops.max(x, axis=-1, keepdims=True),
        x @ ops.permute_dims(x, axes=(*range(10), 11, 10)), ops.broadcast_to(x, shape=(2,) * 2 + shape[2:]),
        stack.grad(lambda t: ops.sum(ops.square(ops.mean(t, axis=(4, 7)))))(x),
    ]  # fmt: skip
    found = stack.compile([x], outputs)(given)
    mean = given.mean(axis=(4, 7), keepdims=True)
    expected = [
        given.transpose(order), (given**2).sum(axis=(0, 2, 11)), given.max(axis=-1, keepdims=True),
        given @ given.swapaxes(-1, -2), np.broadcast_to(given, (2, 2, *shape[2:])),
        np.broadcast_to(2 * mean / 4, shape),
    ]  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_more_dimensions_than_numpy_has_are_no_limit_of_shapes() -> None:
    x = LAZY.input("x", (1,) * 100, "float32")
    assert OPS.permute_dims(x, axes=None).shape == (1,) * 100
