"""Known faults of other libraries' derivatives, and what is right; each on every engine (`autodiff`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.testing import check_gradients

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
RANDOM = np.random.default_rng(0)
SMOOTH_ORDERS = ("forward over forward", "forward over reverse", "reverse over forward", "reverse over reverse")


def second(stack: Any, f: Any, x: Any, t: Any) -> dict[str, Any]:
    """The second derivative of a function to numbers, times t, by each order of the modes."""
    ops = stack.ops

    def total(x: Any) -> Any:
        return ops.sum(f(x))

    def slope(x: Any) -> Any:
        return stack.jvp(total, (x,), (t,))[1]

    gradient = stack.grad(total)
    return {
        "forward over reverse": stack.jvp(gradient, (x,), (t,))[1].numpy(),
        "reverse over forward": stack.grad(slope)(x).numpy(),
        "reverse over reverse": stack.grad(lambda x: ops.sum(gradient(x) * t))(x).numpy(),
    }


@every
def test_logarithms_to_other_bases(stack: Any) -> None:
    """Owl's derivative of log2 is ln 2 / x, of log10 ln 10 / x, and its tests say so; it is 1 / (x ln b)."""
    x = np.array([0.5, 3.0])
    for base in (2.0, 10.0):
        found = stack.grad(lambda t, base=base: stack.ops.sum(stack.ops.log(t) / np.log(base)))(x)
        np.testing.assert_allclose(found.numpy(), 1 / (x * np.log(base)), rtol=1e-14)
    for name in ("log2", "log10"):
        if name in stack.type.ops:
            found = stack.grad(lambda t, name=name: stack.ops.sum(getattr(stack.ops, name)(t)))(x)
            np.testing.assert_allclose(found.numpy(), 1 / (x * np.log(int(name[3:]))), rtol=1e-14)


@every
def test_atan2_under_broadcasting(stack: Any) -> None:
    """Owl does not sum over what was repeated."""
    a, b = RANDOM.normal(size=(3, 1)), RANDOM.normal(size=(2,))
    by_a, by_b = stack.grad(lambda s, t: stack.ops.sum(stack.ops.atan2(s, t)), (0, 1))(a, b)
    r = a**2 + b**2
    np.testing.assert_allclose(by_a.numpy(), (b / r).sum(1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(by_b.numpy(), (-a / r).sum(0), rtol=1e-13)


@every
def test_the_tangent_of_a_convolution(stack: Any) -> None:
    """Owl's is the tangent of an argument itself. It is linear in each: J (s, t) = s * w + x * t."""
    conv = stack.ops.conv2d
    x, s = RANDOM.normal(size=(2, 1, 5, 5, 2))
    w, t = RANDOM.normal(size=(2, 3, 3, 2, 4))
    slope = stack.jvp(conv, (x, w), (s, t))[1].numpy()
    np.testing.assert_allclose(slope, conv(s, w).numpy() + conv(x, t).numpy(), rtol=1e-12, atol=1e-12)
    bilinear = second(stack, lambda v: conv(v, stack.asarray(w)) ** 2, x, s)
    for found in bilinear.values():
        wanted = stack.grad(lambda v: stack.ops.sum(2 * conv(v, stack.asarray(w)) * conv(s, stack.asarray(w))))(x)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-11, atol=1e-11)


@every
def test_the_second_derivative_of_pooling(stack: Any) -> None:
    """Owl has none, nor forward mode. Of Σ max² it is 2 t where the maximum is, of averages 2 Jᵀ J t."""
    ops = stack.ops
    x = RANDOM.permutation(16.0 * np.arange(16) + 1).reshape(1, 4, 4, 1)
    t = RANDOM.normal(size=x.shape)
    windows = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    at_most = np.zeros((4, 4))
    at_most[np.arange(4), windows.argmax(1)] = 1
    at_most = at_most.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(x.shape)
    for found in second(stack, lambda v: ops.max_pool2d(v, window=(2, 2), stride=(2, 2)) ** 2, x, t).values():
        np.testing.assert_allclose(found, 2 * t * at_most, rtol=1e-13)
    mean = t.reshape(2, 2, 2, 2).mean((1, 3))
    wanted = (np.repeat(np.repeat(mean, 2, 0), 2, 1) * 2 / 4).reshape(x.shape)
    for found in second(stack, lambda v: ops.average_pool2d(v, window=(2, 2), stride=(2, 2)) ** 2, x, t).values():
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@every
def test_sums_with_and_without_keepdims(stack: Any) -> None:
    """Owl prints and fails without keepdims; the cotangent has an axis to get back."""
    ops, x = stack.ops, RANDOM.normal(size=(2, 3, 2))
    for axis in (None, 0, 1, -1, (0, 2), ()):
        for keepdims in (False, True):
            for name in ("sum", "mean", "max", "prod", "logsumexp"):
                reduce = getattr(ops, name)
                made = reduce(x, axis=axis, keepdims=keepdims).shape
                weights = RANDOM.normal(size=made)
                found = stack.grad(
                    lambda v, r=reduce, a=axis, k=keepdims, w=weights: ops.sum(r(v, axis=a, keepdims=k) * w)
                )(x)
                assert found.shape == x.shape
                if name == "sum":
                    wide = weights if keepdims or axis in (None, ()) else np.expand_dims(weights, axis)
                    np.testing.assert_allclose(found.numpy(), np.broadcast_to(wide, x.shape), rtol=1e-14)


@every
def test_ties_share(stack: Any) -> None:
    """Among several largest elements the derivative is split; it adds up to one, in both modes."""
    ops, x = stack.ops, np.array([1.0, 3.0, 3.0, 2.0])
    np.testing.assert_array_equal(stack.grad(ops.max)(x).numpy(), [0, 0.5, 0.5, 0])
    np.testing.assert_array_equal(stack.grad(lambda t: -ops.min(-t))(x).numpy(), [0, 0.5, 0.5, 0])
    assert stack.jvp(ops.max, (x,), (np.array([5.0, 1.0, 3.0, 7.0]),))[1].item() == 2
    np.testing.assert_array_equal(stack.grad(ops.max)(np.zeros((2, 2))).numpy(), np.full((2, 2), 0.25))
    a, b = stack.grad(lambda s, t: ops.sum(ops.maximum(s, t)), (0, 1))(x, np.full(4, 3.0))
    np.testing.assert_array_equal(a.numpy(), [0, 0.5, 0.5, 0])
    np.testing.assert_array_equal(b.numpy(), [1, 0.5, 0.5, 1])


@every
def test_kinks_have_documented_derivatives(stack: Any) -> None:
    """relu'(0) is 0 (Owl's 0.5), |x|' at 0 is 0, clip's on a bound is 1."""
    ops = stack.ops
    for f, wanted in ((ops.relu, 0), (ops.abs, 0), (lambda t: ops.clip(t, min=0.0, max=1.0), 1)):
        assert stack.grad(f)(0.0).item() == wanted
        assert stack.derivative(f)(0.0).item() == wanted
    assert "derivative at 0 is taken to be 0" in stack.type.ops["relu"].doc


@every
def test_what_where_leaves_out_has_no_effect(stack: Any) -> None:
    """sqrt, log and 1/x at 0, left out by where: 0 · ∞ is no NaN, to second order, in every order of the modes."""
    ops = stack.ops
    x, t = np.array([0.0, 4.0, 0.25]), np.array([1.0, -2.0, 3.0])
    cases = {
        "sqrt": (lambda v: 0.5 / np.sqrt(v), lambda v: -0.25 * v**-1.5),
        "log": (lambda v: 1 / v, lambda v: -1 / v**2),
        "reciprocal": (lambda v: -1 / v**2, lambda v: 2 / v**3),
    }
    for name, (first, curvature) in cases.items():

        def f(v: Any, name: str = name) -> Any:
            return ops.where(v > 0, getattr(ops, name)(v), 0)

        with np.errstate(all="ignore"):
            slope, bend = (np.where(x > 0, formula(x), 0) for formula in (first, curvature))
        np.testing.assert_allclose(stack.grad(lambda v, f=f: ops.sum(f(v)))(x).numpy(), slope, rtol=1e-14)
        np.testing.assert_allclose(stack.jvp(f, (x,), (t,))[1].numpy(), slope * t, rtol=1e-14)
        for order, found in second(stack, f, x, t).items():
            np.testing.assert_allclose(found, bend * t, rtol=1e-13, err_msg=f"{name}, {order}")
    assert stack.grad(ops.sqrt)(0.0).item() == np.inf  # where nothing is left out the slope is what it is


@every
def test_the_norm_at_zero(stack: Any) -> None:
    """Its subgradient of least length is zero; where it is smooth x / |x|."""
    norm = stack.ops.vector_norm
    np.testing.assert_array_equal(stack.grad(norm)(np.zeros(3)).numpy(), np.zeros(3))
    np.testing.assert_allclose(stack.grad(norm)(np.array([3.0, -4.0])).numpy(), [0.6, -0.8], rtol=1e-15)
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = stack.grad(lambda v: stack.ops.sum(norm(v, axis=-1)))(rows)
    np.testing.assert_allclose(found.numpy(), [[0, 0], [0.6, 0.8]], rtol=1e-15)


@every
def test_powers_at_zero(stack: Any) -> None:
    found = stack.grad(lambda x, n: stack.ops.sum(x**n), (0, 1))(np.zeros(4), np.array([0.0, 1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(found[0].numpy(), [0, 1, 0, 0])
    np.testing.assert_array_equal(found[1].numpy(), np.zeros(4))
    assert stack.grad(lambda x: x**2)(-3.0).item() == -6


@every
def test_nncs_closed_forms(stack: Any) -> None:
    """x² + ln (1/x), (x − y)(y + 1), two objectives at once, and a result that does not depend on x."""
    ops = stack.ops
    first = lambda x: x * x + ops.log(1 / x)  # noqa: E731
    np.testing.assert_allclose(stack.grad(first)(0.84).item(), 2 * 0.84 - 1 / 0.84, rtol=1e-14)
    x, y = 43.24, 0.38
    value, (by_x, by_y) = stack.value_and_grad(lambda x, y: (x - y) * (y + 1), (0, 1))(x, y)
    np.testing.assert_allclose([value.item(), by_x.item()], [42.86 * 1.38, 1.38], rtol=1e-14)
    np.testing.assert_allclose(by_y.item(), -2 * y + x - 1, rtol=1e-14)
    a, b = stack.vjp(lambda x, y: [first(x), first(y)], 0.84, 0.24)[1]([1.0, 1.0])
    np.testing.assert_allclose([a.item(), b.item()], [2 * 0.84 - 1 / 0.84, 2 * 0.24 - 1 / 0.24], rtol=1e-14)
    assert stack.grad(lambda x: stack.asarray(1.0))(2.0).item() == 0


@every
def test_owls_compositions(stack: Any) -> None:
    """Nested gradients through products, differences in forward mode, broadcasting in higher order, concatenation."""
    ops = stack.ops
    a, b = RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(3,))

    def f(a: Any, b: Any) -> Any:
        joined = ops.concat(a * b, ops.tanh(a) - b, axis=0)
        return ops.sum((joined @ ops.permute_dims(a, axes=(1, 0))) ** 2)

    check_gradients(f, a, b, stack=stack)
