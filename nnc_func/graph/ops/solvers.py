"""Linear equations, inverses and determinants; batched over front axes.

Derivatives are those of Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008); of the pseudoinverse, Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear
least squares problems whose variables separate" (1973).
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from nnc_func.device.kernels import decompositions as kernels
from nnc_func.errors import ShapeError
from nnc_func.facets import domains, dtypes
from nnc_func.facets.derivatives import Custom
from nnc_func.facets.dims import same_extent
from nnc_func.facets.samples import INEXACT, Samples
from nnc_func.facets.shapes import ShapeT, broadcast
from nnc_func.facets.views import Cost
from nnc_func.graph.ops import matrices as m
from nnc_func.graph.ops.decompositions import INNER, SQUARES, TALL, WIDE
from nnc_func.graph.ops.families import Tensor
from nnc_func.op import operator

SYSTEMS = (
    ((2, 2), (2,)),
    ((3, 3), (3, 2)),
    ((2, 2, 2), (2, 2, 1)),
    ((2, 2, 2), (2, 3)),
    ((2, 2), (3, 2, 2)),
    ((2, 1, 2, 2), (3, 2, 1)),
    ((2, 2, 2), (2,)),
    ((0, 0), (0, 2)),
    ((0, 2, 2), (2, 1)),
)
SUBSTITUTED = tuple(
    ((a, b), {"lower": bool(i & 1), "transpose": bool(i & 2), "unit_diagonal": unit})
    for i, (a, b) in enumerate((*SYSTEMS, ((20, 20), (20, 2))))
    for unit in (False, True)
)


def _samples(*cases: Any) -> Samples:
    return Samples(relation="cases", dtypes=INEXACT, domain=INNER, cases=cases, prepare=m.dominant)


def _singles(*shapes: Any) -> Any:
    return tuple(((shape,), {}) for shape in shapes)


# --- solve -------------------------------------------------------------------------------------------------


def _solved(a: ShapeT, b: ShapeT, **_: Any) -> ShapeT:
    m.square(a)
    if not b:
        raise ShapeError(f"wanted a vector or matrices on the right, given shapes {a} and {b}")
    rows = b[0] if len(b) == 1 else b[-2]
    if not same_extent(a[-1], rows):
        raise ShapeError(f"{a[-1]} unknowns want as many rows on the right, given shapes {a} and {b}, {rows} rows")
    return (*a[:-2], a[-1]) if len(b) == 1 else (*broadcast(a[:-2], b[:-2]), *b[-2:])


def _solve_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    n = args[0].shape[-1]
    return Cost(args[0].size * n * 2 // 3 + 2 * results[0].size * n, threaded=True)


def _as_columns(o: Any, x: Any, b: Any) -> Any:
    """With a last axis of one where the right side is a vector."""
    return o.expand_dims(x, axis=-1) if len(b.shape) == 1 else x


def _as_right(o: Any, x: Any, b: Any) -> Any:
    """What belongs to the right side, in its shape."""
    return o.sum_to(o.squeeze(x, axis=-1) if len(b.shape) == 1 else x, b.shape)


def _solve_jvp(o: Any, ts: Any, y: Any, a: Any, b: Any) -> Any:
    ta, tb = ts
    change = None if tb is None else o.broadcast_like(_as_columns(o, tb, b), _as_columns(o, y, b))
    if ta is not None:
        moved = o.matmul(ta, _as_columns(o, y, b))
        change = o.negative(moved) if change is None else o.subtract(change, moved)
    found = o.solve(a, change)
    return o.squeeze(found, axis=-1) if len(b.shape) == 1 else found


def _solve_left(o: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    back = o.solve(m.transpose(o, a), _as_columns(o, g, b))
    return o.sum_to(o.negative(o.matmul(back, _as_columns(o, y, b), transpose_b=True)), a.shape)


def _solve_right(o: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    return _as_right(o, o.solve(m.transpose(o, a), _as_columns(o, g, b)), b)


@operator(
    shape=_solved, dtype=m.solvable, kernels=kernels.SOLVE, cost=_solve_cost, tolerance=m.FACTORED,
    derivative=Custom(_solve_jvp, (_solve_left, _solve_right)), onnx=m.NOT_IN_ONNX,
    samples=_samples(*((each, {}) for each in SYSTEMS)),
    takes_all=domains.something,
)  # fmt: skip
def solve(a: Tensor, b: Tensor, /) -> Tensor:
    """The x with ``a x = b``, by LU decomposition with partial pivoting.

    Shapes: ``(…, n, n)`` and ``(…, n, k)``, whose batches broadcast, or a vector ``(n,)``, which stands for one column
    beside every matrix. A singular matrix is an error when it runs.
    """


# --- triangular --------------------------------------------------------------------------------------------


def _triangle(o: Any, x: Any, lower: bool, unit_diagonal: bool) -> Any:
    """The part that is read."""
    relation = ("greater" if lower else "less") + ("" if unit_diagonal else "_equal")
    return m.within(o, x, relation)


def _triangular_jvp(
    o: Any, ts: Any, y: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> Any:
    ta, tb = ts
    change = None if tb is None else o.broadcast_like(_as_columns(o, tb, b), _as_columns(o, y, b))
    if ta is not None:
        read = _triangle(o, ta, lower, unit_diagonal)
        moved = o.matmul(read, _as_columns(o, y, b), transpose_a=transpose)
        change = o.negative(moved) if change is None else o.subtract(change, moved)
    found = o.solve_triangular(a, change, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal)
    return o.squeeze(found, axis=-1) if len(b.shape) == 1 else found


def _triangular_back(o: Any, g: Any, a: Any, b: Any, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    g = _as_columns(o, g, b)
    return o.solve_triangular(a, g, lower=lower, transpose=not transpose, unit_diagonal=unit_diagonal)


def _triangular_left(
    o: Any, g: Any, y: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> Any:
    back = _triangular_back(o, g, a, b, lower, transpose, unit_diagonal)
    left, right = (_as_columns(o, y, b), back) if transpose else (back, _as_columns(o, y, b))
    found = o.negative(o.matmul(left, right, transpose_b=True))
    return o.sum_to(_triangle(o, found, lower, unit_diagonal), a.shape)


def _triangular_right(
    o: Any, g: Any, y: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> Any:
    return _as_right(o, _triangular_back(o, g, a, b, lower, transpose, unit_diagonal), b)


def _graded(a: Any, b: Any) -> list[Any]:
    """Well conditioned with a diagonal of ones, too."""
    return m.dominant(a / a.dtype.type(max(a.shape[-1], 1)), b)


def _triangular_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    return Cost(results[0].size * args[0].shape[-1], threaded=True)


@operator(
    shape=_solved, dtype=m.solvable, kernels=kernels.SOLVE_TRIANGULAR, cost=_triangular_cost, tolerance=m.FACTORED,
    derivative=Custom(_triangular_jvp, (_triangular_left, _triangular_right)), onnx=m.NOT_IN_ONNX,
    samples=evolve(_samples(*SUBSTITUTED), prepare=_graded),
    takes_all=domains.something,
)  # fmt: skip
def solve_triangular(
    a: Tensor, b: Tensor, /, *, lower: bool = False, transpose: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """The x with ``a x = b``, or with `transpose` ``aᵀ x = b``, of a triangular matrix a.

    Shapes are those of `solve`. Only the upper triangle of `a` is read, or with `lower` the lower one; with
    `unit_diagonal` the diagonal is not read, but taken to be one. A zero on the diagonal is an error when it runs.
    """


# --- inverses ----------------------------------------------------------------------------------------------


def _inv_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    return o.negative(o.matmul(y, o.matmul(ts[0], y)))


def _inv_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    return o.negative(o.matmul(o.matmul(y, g, transpose_a=True), y, transpose_b=True))


@operator(
    shape=m.square, dtype=m.solvable, kernels=kernels.INV, cost=m.cubic(2), tolerance=m.FACTORED,
    derivative=Custom(_inv_jvp, (_inv_vjp,)), onnx=m.NOT_IN_ONNX, samples=_samples(*_singles(*SQUARES)),
    takes_all=domains.something,
)  # fmt: skip
def inv(x: Tensor, /) -> Tensor:
    """The inverse of square matrices ``(…, n, n)``; `solve` is faster and more accurate where it will do.

    A singular matrix is an error when it runs.
    """


def _pinv_jvp(o: Any, ts: Any, y: Any, x: Any, *, rtol: Any) -> Any:
    t, P = ts[0], y
    back, Ph = m.adjoint(o, t), m.adjoint(o, P)
    rows = o.matmul(P, o.matmul(Ph, back))
    columns = o.matmul(o.matmul(back, Ph), P)
    found = o.subtract(rows, o.matmul(o.matmul(rows, x), P))
    found = o.add(found, o.subtract(columns, o.matmul(P, o.matmul(x, columns))))
    return o.subtract(found, o.matmul(P, o.matmul(t, P)))


def _pinv_vjp(o: Any, g: Any, y: Any, x: Any, *, rtol: Any) -> Any:
    P, Ph, back = y, m.adjoint(o, y), m.transpose(o, g)
    rows = o.matmul(o.matmul(back, P), Ph)
    columns = o.matmul(Ph, o.matmul(P, back))
    found = o.subtract(rows, o.matmul(x, o.matmul(P, rows)))
    found = o.add(found, o.subtract(columns, o.matmul(o.matmul(columns, P), x)))
    found = o.subtract(found, o.matmul(Ph, o.matmul(m.conjugate(o, g), Ph)))
    return m.conjugate(o, found)


@operator(
    shape=lambda x, *, rtol: (*m.matrix(x)[:-2], x[-1], x[-2]), dtype=m.solvable, kernels=kernels.PINV,
    derivative=Custom(_pinv_jvp, (_pinv_vjp,)), cost=m.cubic(14), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=_samples(*_singles(*SQUARES, *TALL, *WIDE), (((2, 2),), {"rtol": 1e-3})),
    takes_all=domains.something,
)  # fmt: skip
def pinv(x: Tensor, /, *, rtol: float | None = None) -> Tensor:
    """The Moore-Penrose inverse of matrices ``(…, m, n)``, by singular values.

    Those of at most `rtol` times the largest are taken for zero; None: the larger one of m and n times the dtype's
    rounding. The derivative is that at constant rank: where the rank changes there is none.
    """


# --- determinants ------------------------------------------------------------------------------------------


def _over_matrices(o: Any, x: Any) -> Any:
    return o.sum(x, axis=(-2, -1))


def _for_matrices(o: Any, g: Any) -> Any:
    return o.expand_dims(g, axis=(-2, -1))


@operator(
    shape=m.batch, dtype=m.solvable, kernels=kernels.DET, cost=m.cubic(2 / 3), tolerance=m.FACTORED, onnx="Det",
    derivative=Custom(
        lambda o, ts, y, x: _over_matrices(o, o.multiply(ts[0], o.cofactors(x))),
        (lambda o, g, y, x: o.multiply(_for_matrices(o, g), o.cofactors(x)),),
    ),
    samples=_samples(*_singles(*SQUARES)),
)  # fmt: skip
def det(x: Tensor, /) -> Tensor:
    """The determinant of each square matrix.

    Its derivative is the matrix of cofactors, at singular matrices too; further derivatives want an inverse.
    """


def _cofactors_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    inverse = o.inv(x)
    trace = _over_matrices(o, o.multiply(m.transpose(o, inverse), ts[0]))
    turned = o.matmul(inverse, o.matmul(ts[0], y, transpose_a=True), transpose_a=True)
    return o.subtract(o.multiply(_for_matrices(o, trace), y), turned)


def _cofactors_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    inverse = o.inv(x)
    scale = _over_matrices(o, o.multiply(g, y))
    turned = o.matmul(o.matmul(y, g, transpose_b=True), inverse, transpose_b=True)
    return o.subtract(o.multiply(_for_matrices(o, scale), m.transpose(o, inverse)), turned)


@operator(
    shape=m.square, dtype=m.solvable, kernels=kernels.COFACTORS, cost=m.cubic(14), tolerance=m.FACTORED,
    derivative=Custom(_cofactors_jvp, (_cofactors_vjp,)), onnx=m.NOT_IN_ONNX, samples=_samples(*_singles(*SQUARES)),
    takes_all=domains.something,
)  # fmt: skip
def cofactors(x: Tensor, /) -> Tensor:
    """The matrix of cofactors, which is ``det(x) inv(x)ᵀ`` where there is an inverse; by singular values.

    It exists for every square matrix, and is zero where the rank is below n - 1. Its derivative wants an inverse.
    """


def _slogdet_dtypes(x: dtypes.DType) -> tuple[dtypes.DType, ...]:
    return m.solvable(x), m.magnitudes(x)


def _slogdet_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    trace = _over_matrices(o, o.multiply(m.transpose(o, o.inv(x)), ts[0]))
    if o.dtype(x).kind != "c":
        return None, trace
    return o.multiply(y[0], m.imaginary(o, o.imag(trace))), o.real(trace)


def _slogdet_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    scale = g[1]
    if g[0] is not None and o.dtype(x).kind == "c":
        turned = m.imaginary(o, o.imag(o.multiply(g[0], y[0])))
        scale = turned if scale is None else o.add(scale, turned)
    return None if scale is None else o.multiply(_for_matrices(o, scale), m.transpose(o, o.inv(x)))


@operator(
    shape=lambda x: (m.batch(x),) * 2, dtype=_slogdet_dtypes, kernels=kernels.SLOGDET, multi_result=True,
    derivative=Custom(_slogdet_jvp, (_slogdet_vjp,)), cost=m.cubic(2 / 3), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=_samples(*_singles(*SQUARES)),
)  # fmt: skip
def slogdet(x: Tensor, /) -> Any:
    """Sign and logarithm of the magnitude of each determinant, a tuple of both, without overflow.

    A singular matrix has the sign 0 and the logarithm -inf; its derivative wants an inverse. The sign of a complex
    determinant is a number of magnitude one.
    """
