"""What no branch that is taken asks for is not computed (`graph/rewriting/loops`, `graph/rewriting/branches`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


@every
@pytest.mark.parametrize("jit", [False, True])
def test_a_branch_in_a_branch(stack: Any, jit: bool) -> None:
    singular = np.zeros((2, 2))

    def f(a: Any, k: Any) -> Any:
        return stack.cond(k, lambda: stack.cond(a.sum() > 1, lambda: stack.ops.inv(a), lambda: a), lambda: a + 1)

    f = stack.jit(f) if jit else f
    for k in (True, False):
        assert f(stack.asarray(singular), stack.asarray(k)).numpy().tolist() == (singular + (not k)).tolist()
    assert f(stack.asarray(np.eye(2)), stack.asarray(True)).numpy().tolist() == np.eye(2).tolist()


@every
@pytest.mark.parametrize("jit", [False, True])
def test_a_loop_that_would_never_end(stack: Any, jit: bool) -> None:
    def f(x: Any) -> Any:
        def endless() -> Any:
            return stack.while_loop(lambda y: y < 10, lambda y: (None, [y * (x + 1)]), [x])[1][0]

        return stack.cond(x > 0, endless, lambda: x)

    f = stack.jit(f) if jit else f
    for x, wanted in ((-1.0, -1.0), (0.0, 0.0), (1.0, 16.0)):
        assert f(stack.asarray(x)).item() == wanted


def test_a_loop_that_would_never_end_in_one_that_goes_never() -> None:
    n, x = LAZY.input("n", (), "int64"), LAZY.input("x", (), "float64")

    def step(i: Any, state: Any) -> Any:
        def doubled() -> Any:  # of a constant of this body, and in it all the same
            return LAZY.while_loop(lambda y: y < 10, lambda y: (None, [y * (x + 1)]), [x])[1][0]

        return state + LAZY.cond(i >= 0, doubled, lambda: x)

    program = LAZY.compile([n, x], LAZY.fori(0, n, step, 0.0))
    assert program(0, 0.0) == 0
    assert program(2, 1.0) == 32


@every
def test_the_derivative_of_a_loop_that_nothing_bounds_in_a_branch(stack: Any) -> None:
    def within(x: Any) -> Any:
        return stack.cond(
            x > 1, lambda: stack.while_loop(lambda y: y < 10, lambda y: (None, [y * x]), [x])[1][0], lambda: x
        )

    assert stack.grad(within)(2.0).item() == 4 * 2.0**3
    assert stack.grad(within)(0.5).item() == 1
    slope = stack.jit(stack.grad(lambda x: stack.fori(0, (x > 0) * 3, lambda i, s: s * x, x)))
    assert slope(np.array(2.0)).item() == 4 * 2.0**3
    assert slope(np.array(-2.0)).item() == 1
