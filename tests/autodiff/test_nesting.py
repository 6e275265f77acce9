"""Transformations under each other: perturbations are not confused, tangents do not leak (`autodiff`, `batching`)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import TracingError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def forward(stack: Any, f: Any) -> Any:
    """The derivative of a function of one number by dual numbers."""
    return stack.derivative(f)


def reverse(stack: Any, f: Any) -> Any:
    """By the tape."""
    return stack.grad(f)


def pushed(stack: Any, f: Any) -> Any:
    """By tangents through the tape."""
    return lambda x: stack.linearize(f, x)[1](1.0)


MODES = (forward, reverse, pushed)
pairs = pytest.mark.parametrize(("outer", "inner"), list(itertools.product(MODES, MODES)))


@every
@pairs
def test_the_inner_derivative_does_not_see_the_outer_variable(stack: Any, outer: Any, inner: Any) -> None:
    """d/dx (x · d/dy (x + y)) is 1, and 2 where perturbations are confused (Siskind and Pearlmutter 2005)."""
    found = outer(stack, lambda x: x * inner(stack, lambda y: x + y)(1.0))(1.0)
    assert found.item() == 1
    found = outer(stack, lambda x: x * inner(stack, lambda y: x * y * y)(2.0))(3.0)  # x² 2y
    assert found.item() == 24


@every
@pairs
def test_the_same_variable_under_both(stack: Any, outer: Any, inner: Any) -> None:
    """d/dx [g(x) + d/dy (x y²) at y = x]: the inner point is itself under differentiation."""
    found = outer(stack, lambda x: x * x + inner(stack, lambda y: x * y * y)(x))(3.0)  # x² + 2x²
    assert found.item() == 18
    found = outer(stack, lambda x: inner(stack, lambda y: inner(stack, lambda z: x * y * z)(y) * x)(x))(2.0)
    assert found.item() == 4  # y ↦ x² y, its derivative x², and of that 2x


@every
def test_three_deep_in_every_order(stack: Any) -> None:
    for a, b, c in itertools.product(MODES, MODES, MODES):
        found = a(stack, b(stack, c(stack, lambda x: x**5 + stack.ops.sin(x))))(0.5).item()
        np.testing.assert_allclose(found, 60 * 0.25 - math.cos(0.5), rtol=1e-12)


@every
def test_a_closure_that_escapes_is_of_its_own_variable(stack: Any) -> None:
    """Manzyuk, Pearlmutter, Radul, Rush, Siskind 2019: a curried function that is differentiated by its first argument.

    D (x ↦ y ↦ f (x + y)) at 0 is y ↦ f'(y), which takes a derivative itself.
    """

    def shifted(x: Any) -> Any:
        return lambda f: lambda y: f(y + x)

    for mode in (forward, pushed):

        def derived(f: Any, mode: Any = mode) -> Any:
            return lambda y: mode(stack, lambda x: shifted(x)(f)(y))(0.0)

        twice = derived(derived(stack.ops.exp))
        np.testing.assert_allclose(twice(1.0).item(), math.e, rtol=1e-15)


@every
def test_jvp_of_vjp_of_jvp(stack: Any) -> None:
    """f = x³: J t = 3x² t, pulled back by g 6x t g, and its tangent along u is 6 t g u."""

    def slope(x: Any) -> Any:
        return stack.jvp(lambda y: y**3, (x,), (2.0,))[1]

    def pulled(x: Any) -> Any:
        return stack.vjp(slope, x)[1](5.0)[0]

    value, tangent = stack.jvp(pulled, (7.0,), (0.5,))
    assert (value.item(), tangent.item()) == (6 * 7 * 2 * 5, 6 * 2 * 5 * 0.5)


@every
def test_a_pullback_is_differentiated_by_its_cotangent_and_by_what_it_closed_over(stack: Any) -> None:
    ops = stack.ops

    def f(x: Any, g: Any) -> Any:
        return ops.sum(stack.vjp(lambda y: ops.sin(y) * y, x)[1](g)[0])

    x, g = np.array([0.3, 0.7]), np.array([2.0, -1.0])
    by_x, by_g = stack.grad(f, (0, 1))(x, g)
    np.testing.assert_allclose(by_g.numpy(), np.sin(x) + x * np.cos(x), rtol=1e-13)
    np.testing.assert_allclose(by_x.numpy(), g * (2 * np.cos(x) - x * np.sin(x)), rtol=1e-13)
    _, push = stack.linearize(lambda y: ops.sin(y) * y, x)
    found = stack.grad(lambda t: ops.sum(push(t)))(g)  # an outer transformation of a linear map made before it
    np.testing.assert_allclose(found.numpy(), np.sin(x) + x * np.cos(x), rtol=1e-13)


@every
def test_tangents_do_not_leak(stack: Any) -> None:
    kept: list[Any] = []

    def leaking(x: Any) -> Any:
        kept.append(x * 2)
        return x * x

    for apply in (
        lambda: stack.jvp(leaking, (1.0,), (1.0,)),
        lambda: stack.grad(leaking)(1.0),
        lambda: stack.linearize(leaking, 1.0),
        lambda: stack.hessian(leaking)(1.0),
    ):
        kept.clear()
        apply()
        with pytest.raises(TracingError, match="after the transformation"):
            kept[0] * 2
        with pytest.raises(TracingError, match="after the transformation"):  # as a constant of another one, too
            stack.grad(lambda x: x * kept[0])(1.0)


@every
def test_a_failed_function_leaves_nothing_behind(stack: Any) -> None:
    def failing(x: Any) -> Any:
        raise ZeroDivisionError

    for apply in (lambda: stack.grad(failing)(1.0), lambda: stack.jvp(failing, (1.0,), (1.0,))):
        with pytest.raises(ZeroDivisionError):
            apply()
    assert stack.grad(lambda x: x * x)(3.0).item() == 6


@every
def test_jit_within_and_around(stack: Any) -> None:
    ops = stack.ops
    inner = stack.jit(lambda x: ops.sum(ops.exp(x) * x))
    x = np.array([0.1, 0.4])
    wanted = np.exp(x) * (2 + x)
    for f in (stack.grad(lambda t: ops.sum(stack.grad(inner)(t))), lambda t: stack.hvp(inner, (t,), ([1.0, 1.0],))[0]):
        np.testing.assert_allclose(f(x).numpy(), wanted, rtol=1e-13)
        np.testing.assert_allclose(stack.jit(f)(x).numpy(), wanted, rtol=1e-13)
