"""Map, fold and scan are Python's loops, on every engine, under differentiation, of trees (`control_flow/scanning`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import OperatorError, ShapeError

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(5, settings().max_examples // 3))


@FEW
@given(st.integers(0, 4), st.integers(0, 2), st.booleans(), st.sampled_from((EAGER, LAZY)), st.integers(0, 2**32 - 1))
def test_scan_is_a_loop(n: int, axis: int, reverse: bool, stack: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = (2, 3)
    x = random.normal(size=(*shape[:axis], n, *shape[axis:]))
    weight = random.normal(size=shape)

    def step(carry: Any, slice_: Any) -> Any:
        following = {"state": carry["state"] * slice_["x"] + weight, "count": carry["count"] + 1}
        return following, (following["state"], slice_["x"] * 2.0)

    found = stack.scan(step, {"state": np.ones(shape), "count": 0}, {"x": x}, axis=axis, reverse=reverse)
    state, states, doubled = np.ones(shape), [], []
    order = range(n) if not reverse else reversed(range(n))
    for i in order:
        part = np.take(x, i, axis)
        state = state * part + weight
        states.append(state)
        doubled.append(part * 2.0)
    if reverse:
        states.reverse(), doubled.reverse()
    np.testing.assert_allclose(found[0]["state"].numpy(), state, 1e-12)
    assert found[0]["count"].item() == n
    for one, listed in zip(found[1], (states, doubled), strict=True):
        wanted = np.stack(listed, axis) if n else x
        np.testing.assert_allclose(one.numpy(), wanted, 1e-12)


def test_its_derivative_is_that_of_the_loop(stack: Any) -> None:
    def last(weight: Any, xs: Any) -> Any:
        state = stack.fold(lambda h, x: stack.ops.tanh(h * weight + x), stack.asarray(0.0), xs)
        return stack.ops.sum(state)

    xs, weight = np.array([0.5, -1.0, 2.0]), np.float64(0.7)

    def by_hand(w: float) -> float:
        h = 0.0
        for x in xs:
            h = np.tanh(h * w + x)
        return float(h)

    step = 1e-6
    wanted = (by_hand(weight + step) - by_hand(weight - step)) / (2 * step)
    np.testing.assert_allclose(stack.grad(last)(weight, xs).numpy(), wanted, 1e-8)
    second = stack.grad(stack.grad(last))(weight, xs).numpy()
    above, below = (stack.grad(last)(weight + s, xs).numpy() for s in (step, -step))
    np.testing.assert_allclose(second, (above - below) / (2 * step), 1e-6)


def test_map_goes_along_several_tensors(stack: Any) -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.array([[1.0, 10.0]] * 3)
    found = stack.map(lambda a, b: {"dot": (a * b).sum(), "both": a + b}, x, y)
    np.testing.assert_array_equal(found["dot"].numpy(), (x * y).sum(1))
    np.testing.assert_array_equal(found["both"].numpy(), x + y)


def test_it_is_compiled(lazy: Any) -> None:
    x = lazy.input("x", (3,), "float64")
    program = lazy.compile([x], lazy.scan(lambda c, v: (c + v, c * v), lazy.asarray(0.0), x))
    total, outputs = program(np.array([1.0, 2.0, 3.0]))
    assert total == 6.0
    np.testing.assert_array_equal(outputs, [0.0, 2.0, 9.0])


def test_steps_without_a_tensor_are_counted(stack: Any) -> None:
    total, outputs = stack.scan(lambda c, _: (c * 2, c), stack.asarray(1), None, length=4)
    assert total.item() == 16
    np.testing.assert_array_equal(outputs.numpy(), [1, 2, 4, 8])


def test_refusals(stack: Any) -> None:
    x = stack.asarray([1.0, 2.0])
    asks: list[tuple[Any, str, Callable[[], Any]]] = [
        (OperatorError, "returns a pair", lambda: stack.scan(lambda c, v: c, x, x)),
        (OperatorError, "keeps its shape", lambda: stack.fold(lambda c, v: c.sum(), x, x)),
        (OperatorError, "keeps its dtype", lambda: stack.fold(lambda c, v: v, stack.asarray(0), x)),
        (OperatorError, "keeps its structure", lambda: stack.fold(lambda c, v: (c, v), x, x)),
        (ShapeError, "not negative", lambda: stack.scan(lambda c, v: (c, c), x, None, length=-1)),
        (OperatorError, "wants length=", lambda: stack.fold(lambda c, v: c, x, None)),
        (ShapeError, "one extent along axis 0", lambda: stack.map(lambda a, b: a, x, [1.0])),
    ]
    for kind, words, ask in asks:
        with pytest.raises(kind, match=words):
            ask()
