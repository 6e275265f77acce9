"""Transformations of functions: closed forms, trees, nesting, auxiliary values (`autodiff/transforms`)."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.errors import DerivativeError, OperatorError, TracingError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
X = np.linspace(0.2, 1.5, 6)

# Function, first and second derivative, of one number; each formula is NumPy's.
# ruff: noqa: E501
CLOSED: dict[str, Any] = {
    "power": (lambda o, x: x**3, lambda x: 3 * x**2, lambda x: 6 * x),
    "by exponent": (lambda o, x: 2.0**x, lambda x: np.log(2) * 2**x, lambda x: np.log(2) ** 2 * 2**x),
    "self power": (lambda o, x: x**x, lambda x: x**x * (np.log(x) + 1), lambda x: x**x * ((np.log(x) + 1) ** 2 + 1 / x)),
    "reciprocal": (lambda o, x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "log": (lambda o, x: o.log(x), lambda x: 1 / x, lambda x: -1 / x**2),
    "tanh": (lambda o, x: o.tanh(x), lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
    "softplus": (lambda o, x: o.softplus(x), lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    "chosen": (lambda o, x: o.where(x > 1, x * x, 0), lambda x: np.where(x > 1, 2 * x, 0), lambda x: np.where(x > 1, 2.0, 0)),
    "literals": (lambda o, x: o.where(x > 1, 5.0, x * x), lambda x: np.where(x > 1, 0, 2 * x), lambda x: np.where(x > 1, 0, 2.0)),
    "sqrt": (lambda o, x: o.sqrt(x), lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "log1p expm1": (lambda o, x: o.log1p(o.expm1(x)) * x, lambda x: 2 * x, lambda x: 2 + 0 * x),
    "gaussian": (lambda o, x: o.exp(-(x * x)), lambda x: -2 * x * np.exp(-(x**2)), lambda x: (4 * x**2 - 2) * np.exp(-(x**2))),
}  # fmt: skip


@every
@pytest.mark.parametrize("name", CLOSED)
def test_first_and_second_derivatives_by_closed_forms(stack: Any, name: str) -> None:
    f, first, second = CLOSED[name]
    ops = stack.ops

    def total(x: Any) -> Any:
        return ops.sum(f(ops, x))

    ones = np.ones_like(X)
    gradient = stack.grad(total)
    np.testing.assert_allclose(gradient(X).numpy(), first(X), rtol=1e-12, atol=1e-12)
    slope = stack.jvp(lambda x: f(ops, x), (X,), (ones,))[1]
    np.testing.assert_allclose(slope.numpy(), first(X), rtol=1e-12, atol=1e-12)
    wanted = second(X)
    rr = stack.grad(lambda x: ops.sum(gradient(x)))(X)  # reverse over reverse
    fr = stack.hvp(total, (X,), (ones,))[0]  # forward over reverse
    ff = stack.jvp(lambda x: stack.jvp(lambda y: f(ops, y), (x,), (ones,))[1], (X,), (ones,))[1]
    rf = stack.grad(lambda x: ops.sum(stack.jvp(lambda y: f(ops, y), (x,), (ones,))[1]))(X)
    for found in (rr, fr, ff, rf):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(stack.hessian(total)(X).numpy(), np.diag(wanted), rtol=1e-10, atol=1e-10)


@every
def test_third_derivatives(stack: Any) -> None:
    d = stack.grad
    found = d(d(d(lambda x: x**4 + stack.ops.sin(x))))(0.7).item()
    np.testing.assert_allclose(found, 24 * 0.7 - np.cos(0.7), rtol=1e-12)


@every
def test_where_both_branches_are_numbers_or_broadcast(stack: Any) -> None:
    ops = stack.ops
    x = np.array([[1.0, -2.0], [3.0, -4.0]])
    found = stack.grad(lambda t: ops.sum(ops.where(t > 0, t, 0) + ops.where(t > 0, 1.0, t) * t))(x)
    np.testing.assert_array_equal(found.numpy(), np.where(x > 0, 2.0, 2 * x))
    row, number = stack.grad(lambda r, n: ops.sum(ops.where(stack.asarray(x > 0), r, n)), (0, 1))(np.ones(2), 5.0)
    np.testing.assert_array_equal(row.numpy(), [2, 0])
    assert number.item() == 2
    _, slope = stack.jvp(lambda t: ops.where(stack.asarray(x > 0), t, 7), (x,), (x,))
    np.testing.assert_array_equal(slope.numpy(), np.where(x > 0, x, 0))


@every
def test_writing_a_number_into_a_slice(stack: Any) -> None:
    ops = stack.ops
    where = {"starts": (1,), "stops": (4,), "steps": (2,)}
    found = stack.grad(lambda t: ops.sum(ops.square(ops.set_slice(t, 3.0, **where))))(X)
    wanted = 2 * X
    wanted[1:4:2] = 0
    np.testing.assert_array_equal(found.numpy(), wanted)
    value = stack.grad(lambda v: ops.sum(ops.square(ops.set_slice(stack.asarray(X), v, **where))))(3.0)
    assert value.item() == 12


# --- trees, several arguments, auxiliary values ------------------------------------------------------------


@frozen
class Layer:
    """Parameters as fields."""

    is_tree = True
    weight: Any
    bias: Any


@every
def test_gradients_are_trees_like_their_arguments(stack: Any) -> None:
    ops = stack.ops
    layers = {"b": [Layer(np.ones((2, 3)), np.zeros(3))], "a": (np.float64(2.0), None)}

    def loss(tree: Any, x: Any, *, scale: float) -> Any:
        layer = tree["b"][0]
        return ops.sum(x @ layer.weight + layer.bias) * tree["a"][0] * scale

    x = np.arange(4.0).reshape(2, 2)
    value, (found, of_x) = stack.value_and_grad(loss, (0, 1))(layers, x, scale=0.5)
    assert value.item() == x.sum() * 3
    np.testing.assert_array_equal(found["b"][0].weight.numpy(), np.repeat(x.sum(0)[:, None], 3, axis=1))
    np.testing.assert_array_equal(found["b"][0].bias.numpy(), [2, 2, 2])
    assert found["a"][0].item() == x.sum() * 1.5
    assert found["a"][1] is None
    np.testing.assert_array_equal(of_x.numpy(), 3.0)


@every
def test_auxiliary_values_come_out_untraced(stack: Any) -> None:
    ops = stack.ops

    def f(x: Any) -> Any:
        y = x * x
        return ops.sum(y), {"y": y, "name": "square"}

    gradient, aux = stack.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(gradient.numpy(), 2 * X)
    np.testing.assert_array_equal(aux["y"].numpy(), X * X)
    assert aux["name"] == "square"


@every
def test_what_does_not_depend_has_gradient_zero(stack: Any) -> None:
    ops = stack.ops
    a, b = stack.grad(lambda x, y: ops.sum(ops.stop_gradient(x) * y) + ops.sum(ops.floor(x)), (0, 1))(X, X)
    np.testing.assert_array_equal(a.numpy(), 0.0)
    assert a.shape == X.shape
    np.testing.assert_array_equal(b.numpy(), X)
    np.testing.assert_array_equal(stack.jacobian(lambda x: stack.asarray(np.ones(2)))(X).numpy(), np.zeros((2, 6)))


@every
def test_the_pullback_may_be_called_again(stack: Any) -> None:
    (one, two), back = stack.vjp(lambda x: [x * x, x[:2]], X)
    for g in (1.0, 3.0):
        found = back([np.full(6, g), np.full(2, g)])[0].numpy()
        np.testing.assert_allclose(found, 2 * X * g + g * (np.arange(6) < 2), rtol=1e-15)
    np.testing.assert_array_equal(one.numpy(), X * X)
    np.testing.assert_array_equal(two.numpy(), X[:2])


@every
@pytest.mark.parametrize("shapes", [((2,), (3, 2)), ((3,), (1,)), ((), (2, 2)), ((0,), (2,)), ((2, 2), ())])
def test_jacobians_of_any_shape_by_forward_and_reverse(stack: Any, shapes: Any) -> None:
    """Linear maps: the Jacobian is the matrix that they are."""
    given_, made = shapes
    a = np.random.default_rng(0).normal(size=(*made, *given_))
    axes = len(given_)
    x = np.random.default_rng(1).normal(size=given_)
    found = stack.jacobian(lambda t: stack.ops.tensordot(stack.asarray(a), t, axes=axes))(x)
    np.testing.assert_allclose(found.numpy(), a, rtol=1e-12, atol=1e-12)


def test_a_tensor_that_escapes_is_refused() -> None:
    kept = []
    EAGER.grad(lambda x: (kept.append(x), EAGER.ops.sum(x))[1])(X)
    with pytest.raises(TracingError, match=r"after the transformation .* had returned"):
        kept[0] + 1


def test_operators_without_derivative_say_why() -> None:
    found = [op for op in EAGER.type.ops.values() if type(op.derivative).__name__ == "Refusal"]
    for op in found:
        assert len(op.derivative.why) > 10
    with pytest.raises(DerivativeError, match="cotangent is a tree"):
        EAGER.vjp(lambda x: x, X)[1]([X, X])


def test_owls_shorter_stack_differentiates() -> None:
    autodiff = Autodiff(nnc.NumPy())
    o = autodiff.functions
    y, back = autodiff.vjp(lambda x: o.sum(o.where(o.greater(x, 1), o.multiply(x, x), 0)), [X])
    np.testing.assert_allclose(y, np.sum(X[X > 1] ** 2), rtol=1e-12)
    np.testing.assert_array_equal(back(np.float64(1))[0], np.where(X > 1, 2 * X, 0))


# --- dtypes ------------------------------------------------------------------------------------------------


@every
def test_gradients_have_the_dtype_of_their_argument(stack: Any) -> None:
    ops = stack.ops
    for dtype in ("float32", "float64"):
        x = X.astype(dtype)
        assert stack.grad(lambda t: ops.sum(t * np.float64(2.0)))(x).dtype == dtype
        assert stack.grad(lambda t: ops.sum(t.astype("float64") * t.astype("float32")))(x).dtype == dtype
        assert stack.jvp(lambda t: t * 2, (x,), (np.ones(6),))[1].dtype == dtype
        assert stack.grad(lambda t: ops.sum(t * ops.arange(start=0, stop=6)))(x).dtype == dtype


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@example(2, 0)
def test_a_recurrence_is_differentiated_as_its_closed_form(steps: int, seed: int) -> None:
    """h' = A h, loss = |h|²/2: the gradient by h₀ is (Aⁿ)ᵀ Aⁿ h₀, by A the sum of outer products."""
    random = np.random.default_rng(seed)
    a, h = random.normal(size=(3, 3)) * 0.7, random.normal(size=(3, 1))

    for stack in (EAGER, LAZY):

        def loss(a: Any, h: Any, stack: Any = stack) -> Any:
            for _ in range(steps):
                h = a @ h
            return stack.ops.sum(h * h) * 0.5

        of_a, of_h = stack.grad(loss, (0, 1))(a, h)
        power = np.linalg.matrix_power
        last = power(a, steps) @ h
        wanted = sum(power(a, steps - 1 - k).T @ last @ (power(a, k) @ h).T for k in range(steps))
        np.testing.assert_allclose(of_h.numpy(), power(a, steps).T @ last, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(of_a.numpy(), wanted, rtol=1e-9, atol=1e-9)


# --- trees and what is no function -------------------------------------------------------------------------


def nested(leaf: Any, depth: int = 2000) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def innermost(tree: Any) -> Any:
    while isinstance(tree, list):
        (tree,) = tree
    return tree


@every
def test_trees_of_any_depth_have_derivatives(stack: Any) -> None:
    tree, x = nested(np.arange(3.0)), np.arange(3.0)
    zeros = nested(np.array([1.0, 0.0, 2.0]))

    def loss(t: Any) -> Any:
        return stack.ops.sum(innermost(t) ** 2)

    for found in (stack.grad(loss)(tree), stack.vjp(loss, tree)[1](1.0)[0], stack.vjp(lambda t: t, tree)[1](tree)[0]):
        assert innermost(found).shape == (3,)
    np.testing.assert_array_equal(innermost(stack.grad(loss)(tree)).numpy(), 2 * x)
    value, slope = stack.jvp(lambda t: nested(innermost(t) ** 2), (tree,), (zeros,))
    np.testing.assert_array_equal(innermost(value).numpy(), x**2)
    np.testing.assert_array_equal(innermost(slope).numpy(), [0.0, 0.0, 8.0])
    np.testing.assert_array_equal(innermost(stack.hvp(loss, (tree,), (zeros,))[0]).numpy(), [2.0, 0.0, 4.0])


@every
def test_tangents_of_numbers_in_a_list_are_one_tensor_where_one_is_wanted(stack: Any) -> None:
    pair = collections.namedtuple("pair", "a b")
    for kind in (lambda a, b: [a, b], lambda a, b: (a, b), lambda a, b: {"a": a, "b": b}, pair):
        at, along = kind(np.ones(2), np.float64(3.0)), kind([5.0, 6.0], 7.0)
        _, slope = stack.jvp(lambda t: t, (at,), (along,))
        leaves = slope.values() if isinstance(slope, dict) else slope
        assert [x.numpy().tolist() for x in leaves] == [[5.0, 6.0], 7.0]
    with pytest.raises(DerivativeError, match=r"tangents are a tree .*, primals .*; they must be equal"):
        stack.jvp(lambda t: t, ([1.0, np.ones(2)],), ([1.0, [2.0], 3.0],))


NAMES = (
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "derivative", "directional_derivative", "jacobian", "hessian",
    "gradhessian", "hvp", "grad_and_hvp", "laplacian", "jit", "vmap", "custom_vjp", "custom_jvp",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_function_is_refused_where_it_is_given(name: str) -> None:
    for wrong, words in ((None, "None, a NoneType"), (2.5, "2.5, a float")):
        with pytest.raises(OperatorError, match=rf"{name} wants a function of tensors, given {words}: write {name}\("):
            getattr(EAGER, name)(wrong)


# --- arrays that change later ------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])
def test_an_array_that_is_written_into_later_counts_as_it_was(stack: Any) -> None:
    """A tape keeps operands; the caller writes into an array of NumPy, or fills a buffer again."""
    x = np.array([1.0, 2.0, 3.0])

    def scaled(x: Any) -> Any:
        factors = np.ones(3)
        y = x * factors
        factors *= 5
        return (y * y).sum()

    def picked(x: Any) -> Any:
        i = np.asarray(0)
        y = x[i]
        i += 2
        return y

    buffer = np.zeros(3)

    def refilled(w: Any) -> Any:
        total = 0.0
        for k in range(3):
            buffer[:] = k
            total = total + (w * buffer).sum()
        return total

    @nnc.custom_vjp
    def product(x: Any, factors: Any) -> Any:
        return x * factors

    product.defvjp(lambda x, c: (x * c, (x, c)), lambda saved, g: (g * saved[1], g * saved[0]))

    def by_a_rule(x: Any) -> Any:
        factors = np.ones(3)
        y = product(x, factors)
        factors *= 5
        return (y * y).sum()

    np.testing.assert_array_equal(stack.grad(by_a_rule)(x).numpy(), 2 * x)
    np.testing.assert_array_equal(stack.grad(scaled)(x).numpy(), 2 * x)
    np.testing.assert_array_equal(stack.hvp(scaled, [x], [np.ones(3)])[0].numpy(), [2, 2, 2])
    np.testing.assert_array_equal(stack.grad(picked)(x).numpy(), [1, 0, 0])
    np.testing.assert_array_equal(stack.grad(refilled)(x).numpy(), [3, 3, 3])
    rows = stack.vmap(stack.grad(scaled))(np.stack([x, 2 * x]))
    np.testing.assert_array_equal(rows.numpy(), [2 * x, 4 * x])


@pytest.mark.parametrize("control_flow", [False, True])
@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_a_jitted_function_leaves_its_arguments_alone_under_transformations(
    stack: Any, control_flow: bool, kind: str
) -> None:
    def f(w: Any, buffer: Any) -> Any:
        buffer[0] += 1.0
        return (w * buffer).sum()

    jitted = stack.jit(f, control_flow=control_flow)
    w, buffer = np.ones(3), np.zeros(3) if kind == "array" else stack.asarray(np.zeros(3))
    for _ in range(3):
        np.testing.assert_array_equal(stack.grad(jitted)(w, buffer).numpy(), [1, 0, 0])
        np.testing.assert_array_equal(stack.vmap(jitted, in_axes=(0, None))(np.ones((2, 3)), buffer).numpy(), [1, 1])
    np.testing.assert_array_equal(np.asarray(buffer if kind == "array" else buffer.numpy()), [0, 0, 0])
