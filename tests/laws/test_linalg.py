"""Linear algebra against NumPy, and its derivatives at the edge (`graph/ops/linalg`, `graph/ops/decompositions`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DerivativeError, DTypeError, OperatorError, RunError, ShapeError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.comparing import results
from nnc_func.testing.strategies import arrays

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(4, settings().max_examples // 4))
both = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])


def near(found: Any, wanted: Any, relative: float = 1e-9) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    with np.errstate(invalid="ignore"):
        assert np.all((found == wanted) | (np.abs(found - wanted) <= relative * scale)), (found, wanted)


def adjoint(x: Any) -> Any:
    return np.swapaxes(np.conj(x), -1, -2)


@st.composite
def matrices(draw: Any, *, square: bool = False) -> Any:
    """Stacks of matrices, of any rank and conditioning that elements on a grid lead to."""
    batch = draw(st.sampled_from([(), (2,), (0,), (2, 1)]))
    rows = draw(st.integers(0, 4))
    columns = rows if square else draw(st.integers(0, 4))
    return draw(arrays((*batch, rows, columns), draw(st.sampled_from(["float64", "complex128"]))))


def regular(x: Any) -> Any:
    """With a diagonal that dominates."""
    return x + 14 * np.eye(x.shape[-1])


# --- what they are -----------------------------------------------------------------------------------------


@FEW
@given(x=matrices())
def test_a_matrix_is_the_product_of_its_factors(x: Any) -> None:
    ops = EAGER.ops
    for mode in ("reduced", "complete"):
        q, r = (v.numpy() for v in ops.qr(EAGER.asarray(x), mode=mode))
        near(q @ r, x)
        near(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*x.shape[:-2], q.shape[-1], q.shape[-1])))
        near(np.tril(r, -1), np.zeros_like(r), 0.0)
    u, s, vh = (v.numpy() for v in ops.svd(EAGER.asarray(x), full_matrices=False))
    near((u * s[..., None, :]) @ vh, x)
    assert np.all(np.diff(s, axis=-1) <= 0)
    near(ops.svdvals(EAGER.asarray(x)).numpy(), s)
    near(ops.vector_norm(EAGER.asarray(x), axis=(-2, -1)).numpy(), np.sqrt(np.sum(s**2, axis=-1)))
    pinv = ops.pinv(EAGER.asarray(x)).numpy()
    near(x @ pinv @ x, x, 1e-8)
    near(pinv, np.linalg.pinv(x, rtol=max(x.shape[-2:]) * 2.0**-52 if x.size else None), 1e-6)


@FEW
@given(x=matrices(square=True))
def test_hermitian_matrices_have_their_eigenvalues_and_cholesky_factors(x: Any) -> None:
    ops, hermitian = EAGER.ops, (x + adjoint(x)) / 2
    w, v = (each.numpy() for each in ops.eigh(EAGER.asarray(x)))
    near((v * w[..., None, :]) @ adjoint(v), hermitian)
    near(w, np.linalg.eigvalsh(hermitian))
    near(ops.eigvalsh(EAGER.asarray(x)).numpy(), w)
    definite = x @ adjoint(x) + np.eye(x.shape[-1])
    lower = ops.cholesky(EAGER.asarray(definite)).numpy()
    near(lower, np.linalg.cholesky(definite))
    near(lower @ adjoint(lower), definite)
    near(ops.cholesky(EAGER.asarray(definite), upper=True).numpy(), adjoint(lower), 0.0)


@FEW
@given(x=matrices(square=True), data=st.data())
def test_inverses_and_determinants(x: Any, data: Any) -> None:
    ops, a = EAGER.ops, regular(x)
    t, b = EAGER.asarray(a), data.draw(arrays((*x.shape[:-1], 2), a.dtype))
    near(ops.inv(ops.inv(t)).numpy(), a)
    near(ops.solve(t, EAGER.asarray(b)).numpy(), np.linalg.solve(a, b))
    det = ops.det(EAGER.asarray(x)).numpy()
    near(det, np.linalg.det(x))
    near(ops.det(ops.matmul(EAGER.asarray(x), t)).numpy(), det * np.linalg.det(a))
    sign, logarithm = (each.numpy() for each in ops.slogdet(t))
    near(sign * np.exp(logarithm), np.linalg.det(a))
    near(np.swapaxes(a, -1, -2) @ ops.cofactors(t).numpy(), np.linalg.det(a)[..., None, None] * np.eye(x.shape[-1]))


@FEW
@given(data=st.data(), lower=st.booleans(), transpose=st.booleans(), unit=st.booleans())
def test_triangular_systems_read_their_triangle_alone(data: Any, lower: bool, transpose: bool, unit: bool) -> None:
    n = data.draw(st.sampled_from([0, 1, 3, 17]))  # the last one goes to SciPy
    a = data.draw(arrays((2, n, n), "float64")) / max(n, 1) + 4 * np.eye(n)
    b = data.draw(arrays((n, 2), "float64"))
    params: Any = {"lower": lower, "transpose": transpose, "unit_diagonal": unit}
    found = EAGER.ops.solve_triangular(EAGER.asarray(a), EAGER.asarray(b), **params).numpy()
    read = np.tril(a) if lower else np.triu(a)
    if unit:
        read[:, range(n), range(n)] = 1
    near((np.swapaxes(read, -1, -2) if transpose else read) @ found, np.broadcast_to(b, (2, n, 2)))
    other = np.triu(a, 1) if lower else np.tril(a, -1)
    again = EAGER.ops.solve_triangular(EAGER.asarray(a - other * 0.5), EAGER.asarray(b), **params).numpy()
    near(again, found, 0.0)


ORDERS: Any = (2, 1, 0, 3, 0.5, -1, -2.5, np.inf, -np.inf)


@FEW
@given(x=matrices(), order=st.sampled_from(ORDERS), keepdims=st.booleans(), data=st.data())
def test_norms_are_numpys(x: Any, order: Any, keepdims: bool, data: Any) -> None:
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim), (0, 1), (-1, -2)]))
    t = EAGER.asarray(x)
    empty = 0 in x.shape and abs(order) == np.inf
    if not empty:  # of no elements none is largest
        with np.errstate(divide="ignore"):
            wanted = np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=order)
        near(EAGER.ops.vector_norm(t, axis=axis, keepdims=keepdims, ord=order).numpy(), wanted)
    if x.size:
        of_matrix = data.draw(st.sampled_from(("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)))
        wanted = np.linalg.matrix_norm(x, keepdims=keepdims, ord=of_matrix)
        near(EAGER.ops.matrix_norm(t, keepdims=keepdims, ord=of_matrix).numpy(), wanted)
        assert np.array_equal(EAGER.ops.matrix_rank(t).numpy(), np.linalg.matrix_rank(x))


@FEW
@given(x=matrices(square=True), offset=st.integers(-2, 2), power=st.integers(-3, 6))
def test_traces_powers_and_diagonals(x: Any, offset: int, power: int) -> None:
    ops, t = EAGER.ops, EAGER.asarray(x)
    near(ops.trace(t, offset=offset).numpy(), np.linalg.trace(x, offset=offset))
    assert np.array_equal(ops.diagonal(t, offset=offset).numpy(), np.linalg.diagonal(x, offset=offset))
    kept = ops.diagonal_matrix(ops.diagonal(t, offset=offset), shape=x.shape[-2:], offset=offset).numpy()
    assert np.array_equal(kept, x * np.eye(x.shape[-1], k=offset))
    a = regular(x) / 14
    near(ops.matrix_power(EAGER.asarray(a), n=power).numpy(), np.linalg.matrix_power(a, power), 1e-8)


@FEW
@given(data=st.data())
def test_products_of_vectors_are_numpys(data: Any) -> None:
    ops, draw = EAGER.ops, data.draw
    a, b = draw(arrays((2, 3), "float64")), draw(arrays((3,), "float64"))
    near(ops.cross(EAGER.asarray(a), EAGER.asarray(b)).numpy(), np.cross(a, b))
    near(ops.vecdot(EAGER.asarray(a), EAGER.asarray(b)).numpy(), np.linalg.vecdot(a, b))
    near(ops.kron(EAGER.asarray(a), EAGER.asarray(b)).numpy(), np.kron(a, b))
    near(ops.kron(EAGER.asarray(b), EAGER.asarray(a)).numpy(), np.kron(b, a))
    near(ops.outer(EAGER.asarray(a[0]), EAGER.asarray(b)).numpy(), np.linalg.outer(a[0], b))


@FEW
@given(x=matrices(), data=st.data())
def test_least_squares_are_numpys(x: Any, data: Any) -> None:
    if x.ndim == 2:
        b = data.draw(arrays((x.shape[0], 2), x.dtype))
        near(EAGER.ops.lstsq(EAGER.asarray(x), EAGER.asarray(b)).numpy(), np.linalg.lstsq(x, b)[0], 1e-6)


def test_integers_are_computed_in_float64_and_float32_stays() -> None:
    x = np.array([[2, 1], [1, 3]])
    near(EAGER.ops.inv(EAGER.asarray(x)).numpy(), np.linalg.inv(x))
    assert [str(v.dtype) for v in EAGER.ops.svd(EAGER.asarray(x.astype("float32")))] == ["float32"] * 3
    assert str(EAGER.ops.solve(EAGER.asarray(x), EAGER.asarray(np.float32([1, 2]))).dtype) == "float64"


# --- derivatives at the edge -------------------------------------------------------------------------------


@both
def test_the_gradient_of_a_determinant_exists_at_singular_matrices(stack: Any) -> None:
    singular = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])
    wanted = np.array([[-2.0, -2.0, 2.0], [1.0, 1.0, -1.0], [0.0, 0.0, 0.0]])
    near(stack.grad(stack.ops.det)(singular).numpy(), wanted, 1e-12)
    near(stack.grad(stack.ops.det)(np.zeros((3, 3))).numpy(), np.zeros((3, 3)), 0.0)
    near(stack.grad(stack.ops.det)(np.zeros((1, 1))).numpy(), np.ones((1, 1)), 1e-15)


@both
def test_coinciding_values_have_derivatives_and_their_vectors_have_none(stack: Any) -> None:
    ops, x = stack.ops, np.diag([1.0, 1.0, 3.0])
    near(stack.grad(lambda x: ops.sum(ops.eigvalsh(x)))(x).numpy(), np.eye(3), 1e-12)
    near(stack.grad(lambda x: ops.sum(ops.svdvals(x)))(x).numpy(), np.eye(3), 1e-12)
    near(stack.grad(lambda x: ops.sum(ops.eigh(x)[0]))(x).numpy(), np.eye(3), 1e-12)
    alone = stack.grad(lambda x: ops.square(ops.sum(ops.eigh(x)[1][:, 2])))(x).numpy()
    assert np.isfinite(alone).all()  # a simple eigenvalue beside a double one
    assert not np.isfinite(stack.grad(lambda x: ops.sum(ops.eigh(x)[1]))(x).numpy()).all()


def _of_eigenvalues(ops: Any, x: Any) -> Any:
    """The exponential of a Hermitian matrix, which does not depend on phases."""
    w, v = ops.eigh(x)
    return ops.matmul(v * ops.expand_dims(ops.exp(w * 0.1), axis=0), ops.conj(v), transpose_b=True)


def _of_singular_values(ops: Any, x: Any) -> Any:
    u, s, vh = ops.svd(x, full_matrices=False)
    return ops.matmul(u * ops.expand_dims(ops.square(s), axis=0), vh)


@both
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("function", [_of_eigenvalues, _of_singular_values])
def test_complex_vectors_have_the_derivatives_that_do_not_depend_on_their_phases(
    stack: Any, function: Any, shape: Any
) -> None:
    if function is _of_eigenvalues:
        shape = (shape[0], shape[0])
    random, ops = np.random.default_rng(7), stack.ops
    x, t, g = (random.normal(size=shape) + 1j * random.normal(size=shape) for _ in range(3))
    f = lambda x: function(ops, x)  # noqa: E731
    step = 1e-5
    up, down = (f(stack.asarray(x + sign * step * t)).numpy() for sign in (1, -1))
    _, slope = stack.jvp(f, (x,), (t,))
    near(slope.numpy(), (up - down) / (2 * step), 1e-7)
    (back,) = stack.vjp(f, x)[1](stack.asarray(g))
    near(np.sum(back.numpy() * t).real, np.sum(g * slope.numpy()).real, 1e-11)
    weighted = lambda x: ops.sum(ops.real(f(x) * stack.asarray(g)))  # noqa: E731
    (second,) = stack.hvp(weighted, (x,), (t,))
    up, down = (stack.grad(weighted)(x + sign * step * t).numpy() for sign in (1, -1))
    near(second.numpy(), (up - down) / (2 * step), 1e-7)


@both
def test_vectors_that_complete_a_basis_have_no_derivative(stack: Any) -> None:
    ops, tall = stack.ops, np.array([[3.0, 1.0], [0.5, 2.0], [1.0, 1.0]])
    with pytest.raises(DerivativeError, match="full_matrices=False"):
        stack.grad(lambda x: ops.sum(ops.svd(x)[0]))(tall)
    with pytest.raises(DerivativeError, match="reduced"):
        stack.grad(lambda x: ops.sum(ops.qr(x, mode="complete")[1]))(tall)
    thin = stack.grad(lambda x: ops.sum(ops.svd(x, full_matrices=False)[1]))(tall)
    near(stack.grad(lambda x: ops.sum(ops.svd(x)[1]))(tall).numpy(), thin.numpy(), 1e-12)


@both
def test_gradients_of_functions_of_hermitian_matrices_are_hermitian(stack: Any) -> None:
    x = np.array([[4.0, 1.0], [1.0, 3.0]])
    for function in (stack.ops.cholesky, lambda x: stack.ops.eigh(x)[1], stack.ops.eigvalsh):
        found = stack.grad(lambda x, f=function: stack.ops.sum(f(x)))(x).numpy()
        near(found, found.T, 0.0)


@both
def test_the_norm_of_zero_has_the_derivative_zero(stack: Any) -> None:
    ops, zero = stack.ops, np.zeros((2, 2))
    for order in (2, 1, 3, 1.5):
        near(stack.grad(lambda x, n=order: ops.vector_norm(x, ord=n))(zero).numpy(), zero, 0.0)
    near(stack.grad(ops.matrix_norm)(zero).numpy(), zero, 0.0)
    rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    near(stack.grad(lambda x: ops.sum(ops.vector_norm(x, axis=1)))(rows).numpy(), rows / 5, 1e-15)


# --- errors ------------------------------------------------------------------------------------------------


@both
def test_matrices_without_inverse_are_told_with_the_operator_its_shapes_and_the_line(stack: Any) -> None:
    singular, indefinite = np.zeros((2, 2)), -np.eye(2)
    for name, given_, words in (
        ("inv", (singular,), "no inverse"),
        ("solve", (singular, np.ones(2)), "no inverse"),
        ("solve_triangular", (singular, np.ones((2, 1))), "no inverse"),
        ("cholesky", (indefinite,), "not positive definite"),
        ("svd", (np.full((2, 2), np.nan),), "NaN"),
    ):
        with pytest.raises(RunError, match=words) as told:
            stack.evaluate(*results(CATALOGUE[name], getattr(stack.ops, name)(*map(stack.asarray, given_))))
        assert f"{name}(" in str(told.value)
        assert "2, 2" in str(told.value)
    x = LAZY.input("x", (2, 2), "float64")
    program = LAZY.compile(inputs=[x], outputs=[LAZY.ops.inv(x)])
    with pytest.raises(RunError, match="test_linalg"):
        program(singular)


@both
def test_shapes_and_dtypes_are_refused_when_it_is_built(stack: Any) -> None:
    ops, wide = stack.ops, stack.asarray(np.ones((2, 3)))
    for name in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "cofactors"):
        with pytest.raises(ShapeError, match="square"):
            getattr(ops, name)(wide)
    with pytest.raises(ShapeError, match="rank 2"):
        ops.svd(stack.asarray(np.ones(3)))
    with pytest.raises(ShapeError, match="rows on the right"):
        ops.solve(stack.asarray(np.eye(3)), wide)
    with pytest.raises(OperatorError, match="complete"):
        ops.qr(wide, mode="raw")
    with pytest.raises(DTypeError, match="float32 or wider"):
        ops.inv(stack.asarray(np.eye(2, dtype="float16")))
