"""Rows that do not take a branch neither make it fail nor reach what comes of it (`batching/branches`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import RunError
from tests.profiles import examples

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = {"eager": EAGER, "lazy": LAZY}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
N = 3  # elements of a row


def reads(stack: Any, x: Any, i: Any) -> Any:
    """Reads an element where there is one."""
    return stack.cond(i < N, lambda: x * stack.ops.take(x, i, axis=0), lambda: stack.ops.sin(x))


def writes(stack: Any, x: Any, i: Any) -> Any:
    """Writes an element where there is one."""
    return stack.cond(i < N, lambda: stack.ops.scatter_set(x, i, x[0] * 2, axis=0), lambda: x)


def chooses(stack: Any, x: Any, i: Any) -> Any:
    """Reads at one end, at the other, or not."""
    ends = [lambda: stack.ops.take(x, i, axis=0) + x, lambda: stack.ops.take(x * x, i - N, axis=0) + x]
    return stack.case_of(i // N, ends, default=lambda: x * x)


def within(stack: Any, x: Any, i: Any) -> Any:
    """A branch in a branch."""
    return stack.cond(i >= 0, lambda: reads(stack, x, i), lambda: writes(stack, x, -i))


def powers(stack: Any, x: Any, i: Any) -> Any:
    """Powers of integers, which have no negative exponents."""
    two = stack.asarray(np.int64(2))
    return stack.cond(i >= 0, lambda: x * stack.ops.power(two, i).astype(x.dtype), lambda: x)


def divides(stack: Any, x: Any, i: Any) -> Any:
    """The inverse of a matrix that has none elsewhere."""
    scale = stack.ops.maximum(i, 0).astype(x.dtype)
    matrix = scale * stack.ops.diagonal_matrix(1 + x * x, shape=(N, N))
    return stack.cond(i > 0, lambda: stack.ops.inv(matrix) @ x, lambda: x)


def counts(stack: Any, x: Any, i: Any) -> Any:
    """A branch in a loop that all rows go through equally often."""
    return stack.fori(0, 4, lambda k, s: (reads(stack, s[0], s[1]), s[1] + 1), (x, i))[0]


def goes_on(stack: Any, x: Any, i: Any) -> Any:
    """A branch in a loop that rows end at different times, and that reads for itself too."""

    def body(y: Any, k: Any) -> Any:
        y = y + 0.5 * stack.ops.take(x, stack.ops.minimum(k, 0) % N, axis=0)
        return None, (writes(stack, y, k) * 0.5, k + 1)

    return stack.while_loop(lambda _, k: k < N + 2, body, (x, i), max_iterations=9)[1][0]


def ends_in_time(stack: Any, x: Any, i: Any) -> Any:
    """A loop that goes as long as there are elements."""

    def body(y: Any, k: Any) -> Any:
        return None, (y * stack.ops.take(x, k, axis=0), k + 1)

    return stack.while_loop(lambda _, k: k < N, body, (x, i), max_iterations=9)[1][0]


def put(x: Any, i: Any) -> Any:
    """Python's own words for a write."""
    if i < 3:
        x[i] = 1.0
    return x


def taken_in_turn(x: Any, i: Any) -> Any:
    """Python's own words for reads in a loop, of which some are left out."""
    y = x * 1.0
    while i < 5:
        if i < 3:
            y = y * x[i]
        i = i + 1
    return y


PROGRAMS = [reads, writes, chooses, within, powers, divides, counts, goes_on, ends_in_time]
CONVERTED = [put, taken_in_turn]


def by_rows(f: Callable[..., Any], x: Any, i: Any) -> Any:
    """What it gives of one row after another."""
    return np.stack([f(row, at).numpy() for row, at in zip(x, i, strict=True)])


def agree(stack: Any, f: Callable[..., Any], x: Any, i: Any, jit: bool) -> None:
    """Values, gradients of rows and of the whole, and dtypes are those of the rows; where a row fails, all do."""

    def slope(x: Any, i: Any) -> Any:
        return stack.grad(lambda x: stack.ops.sum(stack.ops.sin(f(x, i)) * 3, axis=None))(x)

    def whole(x: Any, i: Any) -> Any:
        return stack.grad(lambda x: stack.ops.sum(stack.ops.sin(nnc.vmap(f)(x, i)) * 3, axis=None))(x)

    pairs = ((nnc.vmap(f), f), (nnc.vmap(slope), slope), (whole, slope))
    for of_all, of_one in pairs:
        of_all = stack.jit(of_all) if jit else of_all
        try:
            wanted = by_rows(of_one, *map(stack.asarray, (x, i)))
        except RunError:
            with pytest.raises(RunError):
                of_all(stack.asarray(x), stack.asarray(i)).numpy()
            continue
        found = of_all(stack.asarray(x), stack.asarray(i)).numpy()
        assert found.dtype == wanted.dtype == x.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-5 if x.dtype == np.float32 else 1e-10)


X = np.random.default_rng(3).normal(size=(4, N))
ROWS = {"none": [3, 3, 7, 9], "some": [3, 0, 7, -2], "all": [0, 1, 2, -1], "a bad one": [3, -5, 1, 9]}


@each_stack
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_rows_beside_rows_that_take_it(stack: Any, f: Any, rows: Any, jit: bool) -> None:
    agree(stack, lambda x, i: f(stack, x, i), X, np.array(rows), jit)


@each_stack
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("f", CONVERTED, ids=lambda f: f.__name__)
def test_of_converted_code(stack: Any, f: Any, rows: Any) -> None:
    g = stack.jit(f, control_flow=True, strict=True)
    agree(stack, lambda x, i: g(x, i), X.astype("float32"), np.array(rows), False)


@examples(few=40, nightly=2000)
@given(st.data())
def test_of_any_rows(data: st.DataObject) -> None:
    stack = data.draw(st.sampled_from([EAGER, LAZY]))
    f = data.draw(st.sampled_from(PROGRAMS))
    rows = data.draw(st.lists(st.integers(-N - 2, 2 * N + 1), min_size=1, max_size=4))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x = np.resize(X, (len(rows), N)).astype(dtype)
    agree(stack, lambda x, i: f(stack, x, i), x, np.array(rows), data.draw(st.booleans()))


@each_stack
def test_what_nobody_takes_of_rows_of_rows(stack: Any) -> None:
    rows = np.array([[3, 7, 4], [0, 3, 5]])
    x = np.arange(18.0).reshape(2, 3, N)
    found = nnc.vmap(nnc.vmap(lambda x, i: reads(stack, x, i)))(stack.asarray(x), stack.asarray(rows))
    wanted = [by_rows(lambda x, i: reads(stack, x, i), *map(stack.asarray, pair)) for pair in zip(x, rows, strict=True)]
    np.testing.assert_allclose(found.numpy(), wanted)


def test_what_cannot_fail_stays_a_select() -> None:
    def of(f: Callable[..., Any]) -> set[str]:
        x, i = LAZY.input("x", (4, N), "float64"), LAZY.input("i", (4,), "int64")
        y = nnc.vmap(lambda x, i: LAZY.cond(i < N, lambda: f(x, i), lambda: x))(x, i)
        return {node.op.name for node in LAZY.graph.close([x.value, i.value], [y.value]).nodes}

    assert "branch" not in of(lambda x, i: LAZY.ops.tanh(x) * i.astype(x.dtype))
    assert "branch" in of(lambda x, i: LAZY.ops.take(x, i, axis=0) + x)
