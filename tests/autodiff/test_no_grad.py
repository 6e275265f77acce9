"""What is computed within `no_grad` is a constant wherever that stands (`graph/pauses`, `autodiff/traced`)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACKS = {"eager": nnc.eager, "lazy": nnc.lazy, "dynamic": nnc.dynamic}
POINT = np.array([1.0, 2.0])


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> Any:
    """One of each kind."""
    return STACKS[request.param]()


def half_constant(stack: Any) -> Callable[[Any], Any]:
    """The sum of cubes, of which two of three factors are constants."""

    def f(x: Any) -> Any:
        with stack.no_grad(), stack.no_grad():
            c = x * x
        return (c * x).sum()

    return f


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "at once": lambda s, f: f,
    "jit": lambda s, f: s.jit(f),
    "cond": lambda s, f: lambda x: s.cond(x.sum() > 0, lambda: f(x), lambda: x.sum()),
    "foreach": lambda s, f: lambda x: s.foreach(lambda t, c: (None, c + f(x) * t), np.array([1.0]), 0.0)[1],
    "foreach, of a carry": lambda s, f: (
        lambda x: s.foreach(lambda t, c: (None, c * 0 + f(c)), np.array([1.0]), x)[1].sum() * 0.5
    ),
    "vmap": lambda s, f: lambda x: s.vmap(f)(x[None]).sum(),
    "jit of vmap": lambda s, f: s.jit(lambda x: s.vmap(f)(x[None]).sum()),
    "custom": lambda s, f: lambda x: f(x) + _ruled(s, x),
}


def _ruled(stack: Any, x: Any) -> Any:
    """Its squares, of a function with a derivative of its own, and less these."""
    square = stack.custom_vjp(lambda x: x * x).defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    with stack.no_grad():
        y = square(x)
    return (y - (x * x).detach()).sum()


@pytest.mark.parametrize("place", PLACES)
def test_no_gradient_flows_through_it(stack: Any, place: str) -> None:
    f = PLACES[place](stack, half_constant(stack))
    x = stack.variable("x", POINT)
    for derived in (stack.grad(f), stack.jit(stack.grad(f))):
        np.testing.assert_allclose(derived(x).numpy(), POINT**2)
    np.testing.assert_allclose(stack.jvp(f, (x,), (np.ones(2),))[1].numpy(), 5.0)
    if "recording" in dir(stack.engine):
        np.testing.assert_allclose(stack.gradients([f(x)], [x])[0].numpy(), POINT**2)


def test_variables_that_are_read_within_it(stack: Any) -> None:
    """They are no arguments of what is differentiated, and yet constants in a jitted function."""
    v = stack.variable("v", POINT)

    def f(x: Any) -> Any:
        with stack.no_grad():
            c = v * 1.0
        return (c * x * v).sum()

    x = stack.variable("x", np.ones(2))
    np.testing.assert_allclose(stack.jit(stack.grad(f))(x).numpy(), POINT**2)
    if "recording" in dir(stack.engine):
        for each in (f, stack.jit(f)):
            np.testing.assert_allclose(stack.gradients([each(x)], [v])[0].numpy(), POINT)


def test_what_begins_within_it_is_differentiated(stack: Any) -> None:
    f = half_constant(stack)
    with stack.no_grad():
        np.testing.assert_allclose(stack.grad(lambda x: (x * x).sum())(POINT).numpy(), 2 * POINT)
        np.testing.assert_allclose(stack.jit(stack.grad(f))(POINT).numpy(), POINT**2)
        np.testing.assert_allclose(stack.grad(lambda x: stack.jit(f)(x))(POINT).numpy(), POINT**2)


def test_derivatives_of_two_levels(stack: Any) -> None:
    """An inner derivative that begins within it is a constant to the outer one."""

    def outer(x: Any) -> Any:
        with stack.no_grad():
            slope = stack.grad(lambda y: (y**3).sum())(x)
        return (slope * x).sum()

    np.testing.assert_allclose(stack.grad(outer)(POINT).numpy(), 3 * POINT**2)
    np.testing.assert_allclose(stack.jit(stack.grad(outer))(POINT).numpy(), 3 * POINT**2)
    second = stack.hessian(half_constant(stack))(POINT)
    np.testing.assert_allclose(second.numpy(), 0.0)


def test_another_stack_goes_on() -> None:
    """Pauses are of a stack, and of those with the same layers."""
    other = nnc.dynamic()
    lazy = nnc.lazy()

    def f(x: Any) -> Any:
        with other.no_grad():
            return (x * x).sum()

    np.testing.assert_allclose(lazy.grad(f)(POINT).numpy(), 2 * POINT)


def _whole(stack: Any, x: Any) -> Any:
    y = x * 1
    y[:] = x
    return y


SAME: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda s, x: +x,
    "copy": lambda s, x: x.copy(),
    "index": lambda s, x: x[...],
    "set": _whole,
    "positive": lambda s, x: s.ops.positive(x),
    "of the array API": lambda s, x: s.array_api.positive(x),
    "asarray": lambda s, x: s.array_api.asarray(x, copy=True),
    "cast": lambda s, x: x.astype(x.dtype),
    "real": lambda s, x: x.real,
    "clip": lambda s, x: s.array_api.clip(x),
    "copy.copy": lambda s, x: copy.copy(x),
    "copy.deepcopy": lambda s, x: copy.deepcopy([x])[0],
}


@pytest.mark.parametrize("same", SAME)
def test_nor_through_what_gives_the_same_numbers(stack: Any, same: str) -> None:
    """It computes nothing; but a copy that was made within is a constant, as a target that follows is."""

    def within(x: Any) -> Any:
        with stack.no_grad():
            y = SAME[same](stack, x)
        return (y * x).sum()

    def without(x: Any) -> Any:
        return (SAME[same](stack, x) * x).sum()

    for of in (stack.grad, lambda f: stack.jit(stack.grad(f))):
        np.testing.assert_array_equal(of(within)(POINT).numpy(), POINT)
        with stack.no_grad():  # what begins meanwhile is differentiated
            np.testing.assert_array_equal(of(without)(POINT).numpy(), 2 * POINT)
    if "recording" in dir(stack.engine):
        x = stack.variable("x", POINT)
        for each in (x, x * 1.0):
            np.testing.assert_array_equal(stack.gradients([within(each)], [each])[0].numpy(), POINT)


def test_what_gradients_are_added_to_becomes_a_constant() -> None:
    stack = nnc.dynamic()
    x, z = (+stack.variable(name, np.array(value)) for name, value in (("x", 3.0), ("z", 5.0)))
    for y, wanted in ((x * x, 9.0), (z * z, 3.0)):  # the second is made of something else
        with stack.no_grad():
            (g,) = stack.gradients([y], [x], into=[x])
        assert g.item() == wanted
        assert stack.gradients([g * x], [x])[0].item() == wanted
