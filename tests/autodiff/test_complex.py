"""Complex derivatives by one convention: ∂f/∂x − i ∂f/∂y, or f′ if holomorphic (`autodiff`, `facets/derivatives`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError
from nnc_func.testing import check_gradients

EAGER, LAZY = nnc.eager(), nnc.lazy()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
Z = np.array([0.3 + 0.4j, -1.2 + 0.7j, 0.5 - 2.0j])
X = np.array([0.5, -1.0, 2.0])

# f from C to R, and ∂f/∂x − i ∂f/∂y
TO_REAL: dict[str, Any] = {
    "real": (lambda o, z: o.real(z), lambda z: np.ones_like(z)),
    "imag": (lambda o, z: o.imag(z), lambda z: np.full_like(z, -1j)),
    "square of the magnitude": (lambda o, z: o.real(z * o.conj(z)), lambda z: 2 * z.conj()),
    "magnitude": (lambda o, z: o.abs(z), lambda z: z.conj() / np.abs(z)),
    "real part of exp": (lambda o, z: o.real(o.exp(z)), np.exp),
    "imaginary part of a square": (lambda o, z: o.imag(z * z), lambda z: -2j * z),
    "conjugate": (lambda o, z: o.real(1j * o.conj(z)), lambda z: np.full_like(z, -1j)),
}  # fmt: skip


@every
@pytest.mark.parametrize("name", TO_REAL)
def test_gradients_of_real_functions(stack: Any, name: str) -> None:
    f, wanted = TO_REAL[name]
    found = stack.grad(lambda z: stack.ops.sum(f(stack.ops, z)))(Z)
    assert found.dtype == np.complex128
    np.testing.assert_allclose(found.numpy(), wanted(Z), rtol=1e-13)
    slope = stack.jvp(lambda z: f(stack.ops, z), (Z,), (np.full_like(Z, 1j),))[1].numpy()
    np.testing.assert_allclose(slope, np.real(wanted(Z) * 1j), rtol=1e-13, atol=1e-15)
    check_gradients(lambda z: f(stack.ops, z), Z, stack=stack)


@every
def test_holomorphic_functions_have_their_complex_derivative(stack: Any) -> None:
    ops, d = stack.ops, lambda f: stack.grad(f, holomorphic=True)
    total = lambda z: ops.sum(ops.exp(z) * z)  # noqa: E731
    np.testing.assert_allclose(d(total)(Z).numpy(), np.exp(Z) * (1 + Z), rtol=1e-13)
    np.testing.assert_allclose(d(d(lambda z: z * z * z))(Z[0]).item(), 6 * Z[0], rtol=1e-13)
    hessian = stack.hessian(total, holomorphic=True)(Z).numpy()
    np.testing.assert_allclose(hessian, np.diag(np.exp(Z) * (2 + Z)), rtol=1e-13)
    matrix = stack.jacobian(lambda z: z * z[0], holomorphic=True)(Z).numpy()
    wanted = np.diag(np.full(3, Z[0]))
    wanted[:, 0] += Z
    np.testing.assert_allclose(matrix, wanted, rtol=1e-13)


@every
def test_real_numbers_among_complex_ones(stack: Any) -> None:
    """A real argument has a real gradient; Jacobians between real and complex go the one way there is."""
    ops = stack.ops
    found = stack.grad(lambda x: ops.sum(ops.real(ops.exp(1j * x))))(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.numpy(), -np.sin(X), rtol=1e-13)
    by_x, by_z = stack.grad(lambda x, z: ops.sum(ops.real(x * z * z)), (0, 1))(X, Z)
    np.testing.assert_allclose(by_x.numpy(), np.real(Z * Z), rtol=1e-13)
    np.testing.assert_allclose(by_z.numpy(), 2 * X * Z, rtol=1e-13)
    curve = stack.jacobian(lambda x: ops.exp(1j * x))(X)
    np.testing.assert_allclose(curve.numpy(), np.diag(1j * np.exp(1j * X)), rtol=1e-13)
    surface = stack.jacobian(lambda z: ops.real(z * z))(Z)
    np.testing.assert_allclose(surface.numpy(), np.diag(2 * Z), rtol=1e-13)
    narrow = stack.grad(lambda x, z: ops.sum(ops.real(x * z)), (0, 1))(X.astype("float32"), Z.astype("complex64"))
    assert [g.dtype for g in narrow] == [np.float32, np.complex64]


@every
def test_what_has_no_such_gradient_is_refused(stack: Any) -> None:
    ops = stack.ops
    with pytest.raises(DerivativeError, match="holomorphic=True"):
        stack.grad(lambda z: ops.sum(z * z))(Z)
    with pytest.raises(DerivativeError, match="of complex arguments, given float64"):
        stack.grad(lambda x: ops.sum(x * 1j), holomorphic=True)(X)
    with pytest.raises(DerivativeError, match="holomorphic=True, or take real and imaginary parts"):
        stack.jacobian(ops.conj)(Z)
    with pytest.raises(DerivativeError, match="goes forward, asked for reverse"):
        stack.jacobian(lambda x: x * 1j, mode="reverse")(X)
    with pytest.raises(DerivativeError, match="a tangent of a real primal is real"):
        stack.jvp(lambda x: x * 2, (X,), (Z,))


@every
def test_the_variance_of_equal_numbers_has_its_second_derivative(stack: Any) -> None:
    """The magnitude of a distance of zero has none; the variance is a square all the same."""

    def gradient(x: Any) -> Any:
        return stack.grad(lambda v: stack.ops.var(v))(x)

    x, step = np.zeros(2, "complex128"), np.array([0.3 - 0.5j, -0.2 + 0.1j])
    _, found = stack.jvp(gradient, (x,), (step,))
    wanted = np.asarray(gradient(step)) - np.asarray(gradient(x))  # a square's gradient is linear
    assert abs(wanted).max() > 0.1
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)
