"""Values never change: whatever is assigned, updated or written into later (`engine/running/results`)."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACKS = {
    "eager": nnc.eager(),
    "lazy": nnc.lazy(),
    "eager over lazy": nnc.eager().swap(device=nnc.lazy()),
    "lazy over lazy": nnc.lazy().swap(device=nnc.lazy()),
    "lazy on strict": nnc.lazy().swap(device=nnc.Strict()),
}
ONES, FIVES = np.ones(1000), np.full(1000, 5.0)


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> Any:
    """Every engine."""
    return STACKS[request.param]


def assign(stack: Any, v: Any) -> None:
    v.value.assign(FIVES)


def update(stack: Any, v: Any) -> None:
    """A program that may write over the variable's memory."""
    step = stack.compile([], [], [(v, v * 2 + 3)])
    step()
    step()


def exchange(stack: Any, v: Any) -> None:
    """A program whose next value is memory of its own."""
    step = stack.compile([], (v * 7).sum(), [(v, stack.ops.flip(v, axis=0) + 4)], retain="all")
    step.evaluate()


CHANGES = pytest.mark.parametrize("change", [assign, update, exchange])
VALUES: dict[str, Any] = {
    "product": lambda o, v: v * 2,
    "alone": lambda o, v: +v,
    "whole": lambda o, v: v[...],
    "part": lambda o, v: v[10:20],
    "same dtype": lambda o, v: v.astype("float64"),
    "same shape": lambda o, v: v.reshape((1000,)),
    "reshaped": lambda o, v: o.reshape(v, shape=(10, 100)),
    "reversed": lambda o, v: o.flip(v, axis=0),
    "several": lambda o, v: o.split(v, sections=2)[1],
    "fold": lambda o, v: o.cumulative_sum(v * v, axis=0),
    "given to jit": lambda o, v: v.stack.jit(lambda x: x)(v),
    "read by jit": lambda o, v: v.stack.jit(lambda: v)(),
    "mapped": lambda o, v: v.stack.map(lambda x: x * 2, v[:4]),
    "differentiated": lambda o, v: v.stack.grad(lambda x: (x * x).sum())(v),
    "twice": lambda o, v: (v * 3) + (v * 3),
}


def host(x: Any) -> Any:
    return np.asarray(x.numpy())


@CHANGES
@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_was_made_of_a_variable_stays_what_it_was(stack: Any, value: Any, looked: bool, change: Any) -> None:
    v = stack.variable("v", ONES)
    y = value(stack.ops, v)
    eager = nnc.eager()
    wanted = host(value(eager.ops, eager.asarray(ONES)))
    if looked:
        np.testing.assert_array_equal(host(y), wanted)
    change(stack, v)
    np.testing.assert_array_equal(host(y), wanted)
    now = v.value.copied()
    assert not np.array_equal(now, ONES)
    np.testing.assert_array_equal(host(value(stack.ops, v)), host(value(eager.ops, eager.asarray(now))))
    np.testing.assert_array_equal(host(y + 1), wanted + 1)  # what is made of it later, too
    change(stack, v)
    np.testing.assert_array_equal(host(y), wanted)


@CHANGES
def test_a_program_follows_the_variable(stack: Any, change: Any) -> None:
    """What was built is the expression, whenever the program was compiled, and whether it was looked at or not."""
    v = stack.variable("v", ONES)
    y = v * 2
    before = stack.compile([], y)
    host(y)
    change(stack, v)
    after = stack.compile([], [y, v * 2, y + v])
    step = stack.compile([], y, [(v, y)])
    now = v.value.copied()
    np.testing.assert_array_equal(np.asarray(before()), now * 2)
    for found, factor in zip(after(), (2, 2, 3), strict=True):
        np.testing.assert_array_equal(np.asarray(found), now * factor)
    step()
    np.testing.assert_array_equal(v.value.copied(), now * 2)


@CHANGES
def test_a_jitted_function_reads_variables_and_keeps_values(stack: Any, change: Any) -> None:
    v = stack.variable("v", ONES)
    y = v * 2

    def f(x: Any) -> Any:
        return x + y, x + v * 2, x + v

    fast = stack.jit(f)
    for _ in range(2):
        for found, wanted in zip(fast(ONES), f(stack.asarray(ONES)), strict=True):
            np.testing.assert_array_equal(host(found), host(wanted))
        change(stack, v)
    now = v.value.copied()
    for found, wanted in zip(fast(ONES), (3.0 * ONES, 1 + 2 * now, 1 + now), strict=True):
        np.testing.assert_array_equal(host(found), wanted)
    assert fast.traces == 1


@CHANGES
def test_gradients_are_of_the_values_that_there_were(stack: Any, change: Any) -> None:
    v = stack.variable("v", ONES)
    value, gradient = stack.value_and_grad(lambda x: (x * x * 3).sum())(v)
    change(stack, v)
    assert float(host(value)) == 3000.0
    np.testing.assert_array_equal(host(gradient), 6.0)


@CHANGES
@pytest.mark.parametrize("name", ["eager", "lazy"])
def test_what_was_exported_stays(name: str, change: Any) -> None:
    stack = STACKS[name]
    v = stack.variable("v", ONES)
    shown = [np.asarray(v), np.asarray(+v), np.asarray(v[...]), np.from_dlpack(v + 0), np.asarray(v * 1)]
    change(stack, v)
    for each in shown:
        np.testing.assert_array_equal(each, 1.0)


def test_what_numpy_writes_later_is_not_seen(stack: Any) -> None:
    for extent in (3, 1000):
        a = np.ones(extent)
        x, v = stack.asarray(a), stack.variable("v", a)
        y, z = x + a, stack.ops.add(a, 1.0)
        program = stack.compile([], v + a)
        a[:] = 7
        for found, wanted in ((x, 1), (y, 2), (z, 2), (v, 1)):
            np.testing.assert_array_equal(host(found), wanted)
        np.testing.assert_array_equal(np.asarray(program()), 2.0)


def test_no_copy_is_made_where_nobody_can_ask() -> None:
    """Of a program's own graph, and of what depends on inputs, nothing has a value to be kept."""
    stack = nnc.lazy()
    pasts = stack.symbol.table.pasts
    gc.collect()
    before = len(pasts)
    v, x = stack.variable("v", ONES), stack.input("x", (1000,), "float64")
    loss = ((v - x) ** 2).sum()
    step = stack.compile([x], loss, [(v, v * 0.5)])
    memory = v.value.array
    step(ONES)
    step(ONES)
    assert len(pasts) == before
    assert v.value.array is memory
    kept = v * 2
    step(ONES)
    assert len(pasts) == before + 1
    np.testing.assert_array_equal(kept.numpy(), 0.5)
    del kept
    assert len(pasts) == before
