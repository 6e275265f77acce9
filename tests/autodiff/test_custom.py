"""Functions with derivatives of their own, in both modes, nested, in trees, compiled (`autodiff/custom`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
X = np.array([0.2, 0.9])


def by_cotangents(stack: Any) -> Any:
    """sin(x) y, by a rule for cotangents."""
    ops = stack.ops
    f = stack.custom_vjp(lambda x, y: ops.sin(x) * y)
    return f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda p, g: (g * ops.cos(p[0]) * p[1], g * ops.sin(p[0])))


def by_tangents(stack: Any) -> Any:
    """The same, by a rule for tangents."""
    ops = stack.ops
    f = stack.custom_jvp(lambda x, y: ops.sin(x) * y)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (a, b) = primals, tangents
        return f(x, y), a * ops.cos(x) * y + b * ops.sin(x)

    return f


rules = pytest.mark.parametrize("make", [by_cotangents, by_tangents])


@every
@rules
def test_a_rule_serves_every_transformation(stack: Any, make: Any) -> None:
    f, ops = make(stack), stack.ops
    y = np.array([2.0, 3.0])
    sin, cos = np.sin(X), np.cos(X)

    def total(x: Any, y: Any) -> Any:
        return ops.sum(f(x, y) * 2)

    by_x, by_y = stack.grad(total, (0, 1))(X, y)
    np.testing.assert_allclose(by_x.numpy(), 2 * cos * y, rtol=1e-14)
    np.testing.assert_allclose(by_y.numpy(), 2 * sin, rtol=1e-14)
    value, slope = stack.jvp(f, (X, y), (y, X))
    np.testing.assert_allclose(value.numpy(), sin * y, rtol=1e-14)
    np.testing.assert_allclose(slope.numpy(), cos * y * y + sin * X, rtol=1e-14)
    np.testing.assert_allclose(stack.linearize(f, X, y)[1](y, X).numpy(), slope.numpy(), rtol=1e-14)
    first, second = stack.hvp(total, (X, y), (y, X))
    np.testing.assert_allclose(first.numpy(), 2 * (-sin * y * y + cos * X), rtol=1e-13)
    np.testing.assert_allclose(second.numpy(), 2 * cos * y, rtol=1e-13)
    one = stack.derivative(stack.derivative(stack.derivative(lambda x: f(x, 2.0))))(0.5)
    np.testing.assert_allclose(one.item(), -2 * np.cos(0.5), rtol=1e-13)
    np.testing.assert_allclose(stack.hessian(lambda x: f(x, x))(0.5).item(), 2 * np.cos(0.5) - 0.5 * np.sin(0.5))
    compiled = stack.jit(stack.grad(total))
    np.testing.assert_allclose(compiled(X, y).numpy(), 2 * cos * y, rtol=1e-14)
    np.testing.assert_allclose(stack.grad(stack.jit(total))(X, y).numpy(), 2 * cos * y, rtol=1e-14)


@every
def test_it_is_the_rule_that_is_used(stack: Any) -> None:
    """A wrong one gives wrong derivatives, in both modes and to any order."""
    double = stack.custom_vjp(lambda x: x * 2).defvjp(lambda x: (x * 2, x), lambda x, g: (g * x * 100,))
    triple = stack.custom_jvp(lambda x: x * 3)
    triple.defjvp(lambda primals, tangents: (primals[0] * 3, tangents[0] * primals[0] * 100))
    for f in (double, triple):
        assert stack.grad(f)(2.0).item() == 200
        assert stack.derivative(f)(2.0).item() == 200
        assert stack.grad(stack.grad(f))(2.0).item() == 100
        assert stack.derivative(stack.grad(f))(2.0).item() == 100
        assert stack.grad(stack.derivative(f))(2.0).item() == 100
    np.testing.assert_array_equal(triple(X).numpy(), X * 3)


@every
def test_trees_integers_and_fixed_arguments(stack: Any) -> None:
    ops = stack.ops

    def blend(f: Any, p: Any, index: Any) -> Any:
        return {"y": f(p["a"]) * index, "n": index + 1}

    by_cotangent = nnc.custom_vjp(blend, nondiff_argnums=(0,))
    by_cotangent.defvjp(
        lambda f, p, index: (blend(f, p, index), (p, index)),
        lambda f, saved, g: ({"a": g["y"] * saved[1] * 7, "b": [saved[0]["b"][0] * 0]}, None),
    )
    by_tangent = nnc.custom_jvp(blend, nondiff_argnums=(0,))

    @by_tangent.defjvp
    def rule(f: Any, primals: Any, tangents: Any) -> Any:
        (p, index), (t, _) = primals, tangents
        made = blend(f, p, index)
        return made, {"y": t["a"] * index * 7, "n": index * 0}

    index = stack.asarray(np.array([1, 2]))
    point = {"a": X, "b": [np.ones(3)]}
    for g in (by_cotangent, by_tangent):

        def total(p: Any, g: Any = g) -> Any:
            made = g(ops.exp, p, index)
            assert made["n"].dtype == np.int64
            return ops.sum(made["y"])

        found = stack.grad(total)(point)
        np.testing.assert_array_equal(found["a"].numpy(), [7, 14])
        np.testing.assert_array_equal(found["b"][0].numpy(), np.zeros(3))
        slope = stack.jvp(total, (point,), (point,))[1]
        np.testing.assert_allclose(slope.item(), 7 * X[0] + 14 * X[1], rtol=1e-14)


@every
def test_keywords_numbers_and_float32(stack: Any) -> None:
    f = stack.custom_jvp(lambda x, scale=2.0: x * scale)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * primals[1]))
    x = X.astype("float32")
    found = stack.grad(lambda t: stack.ops.sum(f(t, scale=3.0)))(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.numpy(), [3, 3])
    np.testing.assert_array_equal(f(x).numpy(), x * 2)


@every
@pytest.mark.parametrize("wide", ["float64", "complex64"])
def test_what_a_rule_gives_is_brought_to_the_dtype_of_its_argument(stack: Any, wide: str) -> None:
    factor = stack.asarray(np.array(3, wide) * (1 + (1j if wide == "complex64" else 0)))
    f = stack.custom_vjp(lambda x: x * 3)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * factor,))
    h = stack.custom_jvp(lambda x: x * 3)
    h.defjvp(lambda primals, tangents: (h(*primals), tangents[0] * factor))
    x = X.astype("float32")
    for each in (f, h):
        gradient = stack.grad(lambda t, each=each: stack.ops.sum(each(t)))(x)
        _, slope = stack.jvp(each, (x,), (x,))
        assert (gradient.dtype, slope.dtype) == (np.float32, np.float32)
        np.testing.assert_allclose(gradient.numpy(), [3, 3])
        np.testing.assert_allclose(slope.numpy(), 3 * x)


def test_known_uses() -> None:
    """Gradient reversal, straight-through rounding, and a logarithm that does not overflow."""
    ops = EAGER.ops
    reversal = nnc.custom_vjp(lambda x: x).defvjp(lambda x: (x, None), lambda _, g: (-g,))
    through = nnc.custom_jvp(ops.round)
    through.defjvp(lambda primals, tangents: (ops.round(*primals), tangents[0]))
    softplus = nnc.custom_jvp(lambda x: ops.log(1 + ops.exp(x)))
    softplus.defjvp(lambda p, t: (softplus(*p), t[0] * (1 - 1 / (1 + ops.exp(p[0])))))
    assert EAGER.grad(lambda x: reversal(x) * 3)(1.0).item() == -3
    assert EAGER.grad(lambda x: through(x * 2.4))(1.0).item() == 2.4
    assert EAGER.grad(softplus)(1000.0).item() == 1


# --- misuse -------------------------------------------------------------------------------------------------


def refused(f: Any, match: str, *args: Any) -> None:
    with pytest.raises(DerivativeError, match=match):
        EAGER.grad(lambda *xs: EAGER.ops.sum(f(*xs)))(*(args or (X,)))


def test_misuse_is_refused_in_words() -> None:
    ops = EAGER.ops

    def make(forward: Any, backward: Any) -> Any:
        return nnc.custom_vjp(lambda x: x * 2).defvjp(forward, backward)

    refused(nnc.custom_vjp(lambda x: x), r"no rule .*defvjp\(forward, backward\)")
    refused(nnc.custom_jvp(lambda x: x), r"defjvp\(rule\)")
    refused(make(lambda x: x, lambda saved, g: (g,)), "returns .result, what backward wants.")
    refused(make(lambda x: (x, None), lambda saved, g: g), "a tuple of 1 cotangents.* given Tensor")
    refused(make(lambda x: (x, None), lambda saved, g: (g, g)), "a tuple of 1 cotangents.* given 2")
    refused(make(lambda x: (x, None), lambda saved, g: ([g],)), "cotangent of argument 0 is a tree")
    refused(make(lambda x: (x, None), lambda saved, g: (ops.sum(g),)), r"cotangent of argument 0 has the shape \(\)")
    broken = nnc.custom_jvp(lambda x: x)
    broken.defjvp(lambda primals, tangents: primals[0])
    refused(broken, "the rule returns .result, its tangent.")
    broken.defjvp(lambda primals, tangents: (primals[0], [tangents[0]]))
    refused(broken, "the tangent is a tree")
    broken.defjvp(lambda primals, tangents: (primals[0], ops.sum(tangents[0])))
    refused(broken, r"tangent of the result has the shape \(\)")
    keyword = nnc.custom_vjp(lambda x, *, n: x).defvjp(lambda x, n: (x, None), lambda s, g: (g, None))
    refused(lambda x: keyword(x, n=1), "by position, given the keyword-only n")


def test_what_is_closed_over_and_differentiated_is_refused() -> None:
    for make in (by_cotangents, by_tangents):

        def f(x: Any, w: Any, make: Any = make) -> Any:
            own = make(EAGER)
            inner = nnc.custom_vjp(lambda t: t * w).defvjp(lambda t: (t * w, None), lambda s, g: (g,))
            other = nnc.custom_jvp(lambda t: t * w)
            other.defjvp(lambda p, t: (p[0] * w, t[0]))
            return own(inner(x) if make is by_cotangents else other(x), 1.0)

        with pytest.raises(DerivativeError, match="pass that as an argument"):
            EAGER.grad(f, (0, 1))(1.0, 2.0)
        with pytest.raises(DerivativeError, match="pass that as an argument"):
            EAGER.jvp(f, (1.0, 2.0), (1.0, 1.0))
        assert EAGER.grad(f)(0.0, 2.0).item() == 1  # w is a constant there
