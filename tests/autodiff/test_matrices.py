"""Jacobians, Hessians, Laplacians and directional derivatives, against closed forms (`autodiff/matrices`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import frozen

import nnc_func as nnc
from nnc_func.autodiff.matrices import Matrices
from nnc_func.errors import DerivativeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
RANDOM = np.random.default_rng(0)
A, B = RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(3, 2))
X = np.array([0.5, -1.0, 2.0])


@frozen
class Parameters:
    """A tree with a field that is no tensor."""

    is_tree = True
    weight: Any
    bias: Any


@every
@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_jacobian_of_trees(stack: Any, mode: Any) -> None:
    """Blocks by result and argument: of W x + b and Σ b, by {W, b} and x."""
    w, b = A, np.array([1.0, 2.0])

    def f(p: Any, x: Any) -> Any:
        return {"affine": stack.ops.tensordot(p.weight, x, axes=1) + p.bias, "total": [stack.ops.sum(p.bias), None]}

    found = stack.jacobian(f, (0, 1), mode=mode)(Parameters(w, b), X)
    of_p, of_x = found["affine"]
    np.testing.assert_allclose(of_p.weight.numpy(), np.einsum("ij,k->ijk", np.eye(2), X), atol=1e-15)
    np.testing.assert_array_equal(of_p.bias.numpy(), np.eye(2))
    np.testing.assert_allclose(of_x.numpy(), w, rtol=1e-15)
    (of_p, of_x), nothing = found["total"]
    assert nothing is None
    np.testing.assert_array_equal(of_p.weight.numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(of_p.bias.numpy(), np.ones(2))
    np.testing.assert_array_equal(of_x.numpy(), np.zeros(3))
    assert of_p.weight.shape == (2, 3)


@every
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("shapes", [((2,), (3, 2)), ((), (2, 2)), ((0,), (2,)), ((2, 2), ()), ((2,), (0, 3))])
def test_jacobian_of_any_shapes(stack: Any, mode: str, shapes: Any) -> None:
    given, made = shapes
    a, x = RANDOM.normal(size=(*made, *given)), RANDOM.normal(size=given)
    f = stack.jacobian(lambda t: stack.ops.tensordot(stack.asarray(a), t, axes=len(given)), mode=mode)
    np.testing.assert_allclose(f(x).numpy(), a, rtol=1e-13, atol=1e-13)


@every
def test_jacobian_calls_its_function_once_and_keeps_dtypes(stack: Any) -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return x * x, "kept"

    for mode in ("forward", "reverse"):
        found, aux = stack.jacobian(f, has_aux=True, mode=mode)(X.astype("float32"))
        assert (len(calls), aux, found.dtype) == (1, "kept", np.float32)
        np.testing.assert_array_equal(found.numpy(), np.diag(2 * X))
        calls.clear()


@every
def test_hessian_of_trees_and_gradhessian(stack: Any) -> None:
    """f = uᵀ A v + |u|²: blocks 2 I, A, Aᵀ, 0."""
    a = stack.asarray(A)

    def f(p: Any) -> Any:
        return stack.ops.sum(p["u"] * stack.ops.tensordot(a, p["v"], axes=1)) + stack.ops.sum(p["u"] ** 2)

    point = {"u": np.array([1.0, -2.0]), "v": X}
    gradient, hessian = stack.gradhessian(f)(point)
    np.testing.assert_allclose(gradient["u"].numpy(), A @ X + 2 * point["u"], rtol=1e-14)
    for found in (hessian, stack.hessian(f)(point)):
        np.testing.assert_array_equal(found["u"]["u"].numpy(), 2 * np.eye(2))
        np.testing.assert_allclose(found["u"]["v"].numpy(), A, rtol=1e-14)
        np.testing.assert_allclose(found["v"]["u"].numpy(), A.T, rtol=1e-14)
        np.testing.assert_array_equal(found["v"]["v"].numpy(), np.zeros((3, 3)))
    tangent = {"u": np.array([1.0, 1.0]), "v": np.array([0.0, 1.0, 0.0])}
    (first,), (product,) = stack.grad_and_hvp(f, (point,), (tangent,))
    np.testing.assert_allclose(first["v"].numpy(), A.T @ point["u"], rtol=1e-14)
    np.testing.assert_allclose(product["u"].numpy(), 2 + A[:, 1], rtol=1e-14)
    np.testing.assert_allclose(product["v"].numpy(), A.sum(0), rtol=1e-14)


@every
def test_auxiliary_values_of_second_derivatives(stack: Any) -> None:
    def f(x: Any) -> Any:
        return stack.ops.sum(x**3), {"twice": x * 2}

    hessian, aux = stack.hessian(f, has_aux=True)(X)
    np.testing.assert_allclose(hessian.numpy(), np.diag(6 * X), rtol=1e-14)
    np.testing.assert_array_equal(aux["twice"].numpy(), 2 * X)
    gradient, again, aux = stack.gradhessian(f, has_aux=True)(X)
    np.testing.assert_allclose(gradient.numpy(), 3 * X**2, rtol=1e-14)
    np.testing.assert_allclose(again.numpy(), hessian.numpy(), rtol=1e-14)
    np.testing.assert_array_equal(aux["twice"].numpy(), 2 * X)
    value, slope, aux = stack.jvp(f, (X,), (X,), has_aux=True)
    np.testing.assert_allclose([value.item(), slope.item()], [np.sum(X**3), np.sum(3 * X**3)], rtol=1e-14)
    np.testing.assert_array_equal(aux["twice"].numpy(), 2 * X)
    value, push, aux = stack.linearize(f, X, has_aux=True)
    np.testing.assert_allclose(push(X).item(), np.sum(3 * X**3), rtol=1e-14)
    np.testing.assert_array_equal(aux["twice"].numpy(), 2 * X)


@every
def test_laplacian(stack: Any) -> None:
    ops = stack.ops
    q = RANDOM.normal(size=(3, 3))
    found = stack.laplacian(lambda x: ops.sum(x * ops.tensordot(stack.asarray(q), x, axes=1)) + ops.sum(x) ** 2)(X)
    terms = 2 * abs(np.diag(q)).sum() + 6  # of different signs: some draws nearly cancel
    np.testing.assert_allclose(found.item(), 2 * np.trace(q) + 6, rtol=0, atol=1e-13 * terms)
    found = stack.laplacian(lambda a, b: ops.sum(a**3) * b, (0, 1))(X, 2.0)  # that is linear in b
    np.testing.assert_allclose(found.item(), 12 * X.sum(), rtol=1e-13)
    assert stack.laplacian(ops.sum)(X).item() == 0
    harmonic = stack.laplacian(lambda p: ops.log(p[0] ** 2 + p[1] ** 2))([0.3, 0.4]).item()
    assert abs(harmonic) < 1e-13


@every
def test_derivatives_along_directions_of_any_order(stack: Any) -> None:
    x, t = np.array([0.2, 0.4]), np.array([1.0, -0.5])
    for order, slope in enumerate((np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)), start=1):
        found = stack.directional_derivative(stack.ops.sin, (x,), (t,), order=order)
        np.testing.assert_allclose(found.numpy(), slope(x) * t**order, rtol=1e-13)
    both = stack.derivative(lambda s: [s * s, {"cube": s**3}])(2.0)
    assert (both[0].item(), both[1]["cube"].item()) == (4, 12)


@every
def test_a_linearisation_is_used_again_and_has_the_transpose_of_the_pullback(stack: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        return a @ b, stack.ops.tanh(b)

    y, push = stack.linearize(f, A, B)
    again, pull = stack.vjp(f, A, B)
    for seed in (1, 2):
        random = np.random.default_rng(seed)
        t, g = [[random.normal(size=s) for s in shapes] for shapes in (((2, 3), (3, 2)), ((2, 2), (3, 2)))]
        forward = sum(np.sum(u * v.numpy()) for u, v in zip(g, push(*t), strict=True))
        back = sum(np.sum(u.numpy() * v) for u, v in zip(pull(tuple(g)), t, strict=True))
        np.testing.assert_allclose(forward, back, rtol=1e-12)
    np.testing.assert_allclose(y[0].numpy(), A @ B, rtol=1e-14)
    np.testing.assert_array_equal(again[1].numpy(), y[1].numpy())


@every
def test_arguments_by_name_and_keywords(stack: Any) -> None:
    def f(x: Any, *, scale: Any, name: str) -> Any:
        assert name == "kept"
        return stack.ops.sum(x * x) * scale

    by_x, by_scale = stack.grad(f, (0, "scale"))(X, scale=2.0, name="kept")
    np.testing.assert_array_equal(by_x.numpy(), 4 * X)
    assert by_scale.item() == np.sum(X * X)
    assert stack.grad(f, "scale")(X, scale=2.0, name="kept").item() == np.sum(X * X)
    np.testing.assert_array_equal(stack.hessian(f)(X, scale=1.0, name="kept").numpy(), 2 * np.eye(3))
    with pytest.raises(DerivativeError, match="given by name scale, name"):
        stack.grad(f, "weight")(X, scale=2.0, name="kept")


def test_unknown_extents_are_refused() -> None:
    x = LAZY.input("x", (None, 2), "float64")
    for f in (LAZY.jacobian(lambda t: t * t), LAZY.laplacian(lambda t: LAZY.ops.sum(t * t))):
        with pytest.raises(DerivativeError, match="known extents"):
            f(x)


@every
def test_what_a_complex_result_does_not_depend_on_is_complex_zero(stack: Any) -> None:
    found = stack.jacobian(lambda x: stack.asarray(np.array([1j, 2j])))(X)
    assert (found.dtype, found.shape) == (np.complex128, (2, 3))
    assert not found.numpy().any()


@pytest.mark.parametrize(("count", "wanted"), [(2, "reverse"), (3, "forward"), (4, "forward")])
def test_the_mode_is_that_of_fewer_passes(count: int, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, modes = nnc.eager(), []
    original = Matrices._blocks

    def blocks(self: Any, found: Any, mode: str) -> Any:
        modes.append(mode)
        return original(self, found, mode)

    monkeypatch.setattr(Matrices, "_blocks", blocks)
    stack.jacobian(lambda x: stack.ops.full(shape=(count,), value=1.0, dtype="float64") * stack.ops.sum(x))(X)
    assert modes == [wanted]


@every
def test_a_product_with_no_updates_has_a_derivative(stack: Any) -> None:
    places = stack.asarray(np.zeros(0, "int64"))

    def f(x: Any, updates: Any) -> Any:
        return stack.ops.sum(stack.ops.scatter_multiply(x, places, updates))

    of_x, of_updates = stack.grad(f, (0, 1))(X, np.zeros(0))
    np.testing.assert_array_equal(of_x.numpy(), np.ones(3))
    assert of_updates.shape == (0,)
