"""Functions with rules of their own, in bodies: as in Python loops (`control_flow/tracing`, `graph/ops/custom`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])


def by_cotangents(stack: Any) -> Any:
    """A square whose slope is said to be 10 x, which no rule of its operators gives."""
    return stack.custom_vjp(lambda x: x * x).defvjp(lambda x: (x * x, (x,)), lambda saved, g: (10 * g * saved[0],))


def by_tangents(stack: Any) -> Any:
    f = stack.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 10 * primals[0]))
    return f


rules = pytest.mark.parametrize("make", [by_cotangents, by_tangents])


def looped(stack: Any, f: Any) -> tuple[Any, Any]:
    """A scan with a branch inside, and the same in Python."""

    def step(c: Any, i: Any) -> Any:
        return stack.cond(i > 0, lambda: f(c) * x_of[0], lambda: f(x_of[0]) + c), c

    x_of: list[Any] = [None]

    def rolled(x: Any) -> Any:
        x_of[0] = x
        return stack.scan(step, x, np.arange(3))[0]

    def written(x: Any) -> Any:
        c = x
        for i in range(3):
            c = f(c) * x if i > 0 else f(x) + c
        return c

    return rolled, written


@every
@rules
def test_rules_are_used_in_loops_and_branches_for_derivatives_of_derivatives_too(stack: Any, make: Any) -> None:
    rolled, written = looped(stack, make(stack))
    x = stack.asarray(1.1)
    for one, other in ((rolled, written), (stack.grad(rolled), stack.grad(written))):
        np.testing.assert_allclose(one(x).numpy(), other(x).numpy(), rtol=1e-12)
        np.testing.assert_allclose(stack.grad(one)(x).numpy(), stack.grad(other)(x).numpy(), rtol=1e-12)
        found, wanted = (stack.jvp(f, (x,), (stack.asarray(1.0),))[1].numpy() for f in (one, other))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@every
@pytest.mark.parametrize("kind", ["tangents", "cotangents"])
def test_a_rule_may_call_its_function(stack: Any, kind: str) -> None:
    """Whose rule it then has, and so on: four orders are the same as of the operator."""
    exp = stack.ops.exp
    if kind == "tangents":
        f = stack.custom_jvp(lambda x: exp(x))
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * f(*primals)))
    else:
        f = stack.custom_vjp(lambda x: exp(x))
        f.defvjp(lambda x: (f(x), x), lambda x, g: (g * f(x),))
    one, other = (lambda x, k=k: stack.scan(lambda c, _: (k(c * 0.5) * x, c), x, None, length=2)[0] for k in (f, exp))
    for _ in range(4):
        np.testing.assert_allclose(one(stack.asarray(0.4)).numpy(), other(stack.asarray(0.4)).numpy(), rtol=1e-9)
        one, other = stack.grad(one), stack.grad(other)


@every
def test_what_a_rule_uses_from_around_it_is_not_taken_for_a_constant(stack: Any) -> None:
    def rolled(x: Any) -> Any:
        f = stack.custom_vjp(lambda a: a * a * x).defvjp(lambda a: (a * a * x, a), lambda a, g: (10 * g * a,))
        return stack.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    with pytest.raises(DerivativeError, match="pass that as an argument"):
        stack.grad(rolled)(1.1)
    with pytest.raises(DerivativeError, match="pass that as an argument"):
        stack.jvp(rolled, (1.1,), (1.0,))

    def still(x: Any) -> Any:
        k = stack.ops.stop_gradient(x)
        f = stack.custom_vjp(lambda a: a * k).defvjp(lambda a: (a * k, a), lambda a, g: (10 * g * a,))
        return stack.scan(lambda c, _: (f(c), None), x, None, length=1)[0]

    np.testing.assert_allclose(stack.grad(still)(1.5).numpy(), 15.0)


@every
def test_integers_among_the_arguments_of_a_rule(stack: Any) -> None:
    f = stack.custom_vjp(lambda x, n: x * n).defvjp(lambda x, n: (x * n, n), lambda n, g: (7 * g * n, None))
    found = stack.grad(lambda x: stack.scan(lambda c, i: (f(c, i), c), x, np.arange(1, 3))[0])(1.1)
    np.testing.assert_allclose(found.numpy(), 7 * 1 * 7 * 2)


@every
def test_a_loop_within_a_rule(stack: Any) -> None:
    def power(x: Any) -> Any:
        return stack.fori(0, 3, lambda _, c: c * x, x)

    f = stack.custom_vjp(power).defvjp(lambda x: (power(x), x), lambda x, g: (stack.fori(0, 2, lambda _, c: c * x, g),))
    np.testing.assert_allclose(stack.grad(f)(1.1).numpy(), 1.1**2)  # as the rule says, and not 4 x³
    np.testing.assert_allclose(stack.grad(stack.grad(f))(1.1).numpy(), 2.2)
