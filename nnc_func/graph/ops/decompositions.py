"""Decompositions of matrices: Cholesky, QR, singular values, eigenvalues; batched over front axes.

Derivatives are those of Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), and of Seeger et al., "Auto-differentiating linear algebra" (2017).
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from nnc_func.device.kernels import decompositions as kernels
from nnc_func.errors import DerivativeError, OperatorError
from nnc_func.facets import domains, dtypes
from nnc_func.facets.derivatives import Custom
from nnc_func.facets.samples import FLOATS, INEXACT, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.graph.ops import matrices as m
from nnc_func.graph.ops.families import Tensor
from nnc_func.op import operator

SQUARES = ((1, 1), (2, 2), (3, 3), (2, 3, 3), (0, 2, 2), (2, 0, 0))
TALL = ((3, 2), (2, 4, 1), (3, 0))
WIDE = ((2, 3), (2, 1, 3), (0, 3))
INNER = (-1.0, 1.0)
POSITIVE = (0.125, 1.0)  # so that no sum of two is zero: signs of eigenvectors jump where they are not coupled


def _cases(shapes: Any, **params: Any) -> Any:
    return tuple(((shape,), params) for shape in shapes)


def _samples(*cases: Any) -> Samples:
    return Samples(relation="cases", dtypes=INEXACT, domain=INNER, avoid=(0.0,), cases=cases, prepare=m.dominant)


# --- Cholesky ----------------------------------------------------------------------------------------------


def _half_lower(o: Any, x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    return o.where(m.positions(o, x, "equal"), o.multiply(x, 0.5), m.within(o, x, "greater"))


def _cholesky_jvp(o: Any, ts: Any, y: Any, x: Any, *, upper: bool) -> Any:
    L = m.adjoint(o, y) if upper else y
    left = o.solve_triangular(L, m.hermitian(o, ts[0]), lower=True)
    both = o.solve_triangular(L, m.adjoint(o, left), lower=True)  # its own adjoint, up to rounding
    found = o.matmul(L, _half_lower(o, m.adjoint(o, both)))
    return m.adjoint(o, found) if upper else found


def _cholesky_vjp(o: Any, g: Any, y: Any, x: Any, *, upper: bool) -> Any:
    L = m.adjoint(o, y) if upper else y
    g = m.transpose(o, g) if upper else m.conjugate(o, g)
    inner = _half_lower(o, o.matmul(m.adjoint(o, L), m.within(o, g, "greater_equal")))
    L = m.conjugate(o, L)
    left = o.solve_triangular(L, inner, lower=True, transpose=True)
    both = o.solve_triangular(L, m.adjoint(o, left), lower=True, transpose=True)
    return m.conjugate(o, m.hermitian(o, m.adjoint(o, both)))


@operator(
    shape=m.square, dtype=m.solvable, kernels=kernels.CHOLESKY,
    derivative=Custom(_cholesky_jvp, (_cholesky_vjp,)), cost=m.cubic(1 / 3), tolerance=m.FACTORED,
    onnx=m.NOT_IN_ONNX, samples=_samples(*_cases(SQUARES), *_cases(SQUARES[:4], upper=True)),
    takes_all=domains.something,
)  # fmt: skip
def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with ``x = L Lᴴ``, or with `upper` the U with ``x = Uᴴ U``.

    Shapes: ``(…, n, n)``. Of `x` the Hermitian part ``(x + xᴴ) / 2`` is taken, so that derivatives are Hermitian.
    One that is not positive definite is an error when it runs.
    """


# --- QR ----------------------------------------------------------------------------------------------------


def _qr_shape(x: ShapeT, *, mode: str) -> tuple[ShapeT, ShapeT]:
    if mode not in ("reduced", "complete"):
        raise OperatorError(f"qr knows the modes 'reduced' and 'complete', given {mode!r}")
    inner = m.shorter(x) if mode == "reduced" else m.matrix(x)[-2]
    return (*x[:-1], inner), (*x[:-2], inner, x[-1])


def _two(x: dtypes.DType, **_: Any) -> tuple[dtypes.DType, ...]:
    return (m.solvable(x),) * 2


def _unique(what: str, x: Any, full: bool) -> None:
    """Refuse the derivative of vectors that complete a basis."""
    if full and m.shorter(x.shape) != x.shape[-2]:
        raise DerivativeError(
            f"{what} of shape {x.shape}: the columns that complete Q are arbitrary and have no derivative; "
            "use mode='reduced'"
        )


def _leading(o: Any, x: Any, rows: Any, columns: Any) -> Any:
    """The first rows and columns."""
    rank = len(x.shape)
    stops = (*x.shape[:-2], rows, columns)
    return x if stops == x.shape else o.slice(x, starts=(0,) * rank, stops=stops, steps=(1,) * rank)


def _turning(o: Any, x: Any) -> Any:
    """The skew-Hermitian matrix with the strictly lower triangle of x."""
    lower = m.within(o, x, "greater")
    found = o.subtract(lower, m.adjoint(o, lower))
    if o.dtype(x).kind == "c":
        found = m.on_diagonal(o, found, m.imaginary(o, o.imag(m.diagonal_of(o, x))))
    return found


def _qr_jvp(o: Any, ts: Any, y: Any, x: Any, *, mode: str) -> Any:
    _unique("qr", x, mode == "complete")
    (Q, R), k = y, m.shorter(x.shape)
    R1, t1 = _leading(o, R, k, k), _leading(o, ts[0], x.shape[-2], k)
    right = m.transpose(o, o.solve_triangular(R1, m.transpose(o, t1), lower=False, transpose=True))
    inner = o.matmul(m.adjoint(o, Q), right)
    turn = _turning(o, inner)
    dQ = o.add(o.matmul(Q, o.subtract(turn, inner)), right)
    dR = o.subtract(o.matmul(m.adjoint(o, Q), ts[0]), o.matmul(turn, R))
    return dQ, m.within(o, dR, "less_equal")


def _qr_vjp(o: Any, g: Any, y: Any, x: Any, *, mode: str) -> Any:
    _unique("qr", x, mode == "complete")
    (Q, R), k = y, m.shorter(x.shape)
    gQ = o.zeros_like(Q) if g[0] is None else m.conjugate(o, g[0])
    gR = o.zeros_like(R) if g[1] is None else m.within(o, m.conjugate(o, g[1]), "less_equal")
    inner = o.matmul(m.adjoint(o, Q), gQ)
    turned = o.subtract(inner, o.matmul(gR, m.adjoint(o, R)))
    back = m.within(o, o.subtract(turned, m.adjoint(o, turned)), "greater")
    if o.dtype(x).kind == "c":
        back = m.on_diagonal(o, back, m.imaginary(o, o.imag(m.diagonal_of(o, turned))))
    left = o.add(o.matmul(Q, o.subtract(back, inner)), gQ)
    R1 = m.conjugate(o, _leading(o, R, k, k))
    found = m.transpose(o, o.solve_triangular(R1, m.transpose(o, left), lower=False))
    if k != x.shape[-1]:
        found = o.pad(found, widths=(*((0, 0),) * (len(x.shape) - 1), (0, x.shape[-1] - k)))
    return m.conjugate(o, o.add(o.matmul(Q, gR), found))


@operator(
    shape=_qr_shape, dtype=_two, kernels=kernels.QR, multi_result=True,
    derivative=Custom(_qr_jvp, (_qr_vjp,)), cost=m.cubic(4), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=_samples(*_cases((*SQUARES, *TALL, *WIDE)), *_cases((*SQUARES, *WIDE), mode="complete")),
)  # fmt: skip
def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and the upper triangular R, with ``x = Q R``.

    Shapes, of ``(…, m, n)`` with k the smaller one of both: ``(…, m, k)`` and ``(…, k, n)``, or in the mode
    ``"complete"`` ``(…, m, m)`` and ``(…, m, n)``. Signs are the device's. The derivative wants the first k columns
    to be independent; there is none of the columns that complete a tall matrix.
    """


# --- singular values ---------------------------------------------------------------------------------------


def _svd_shape(x: ShapeT, *, full_matrices: bool) -> tuple[ShapeT, ...]:
    k = m.shorter(x)
    left, right = (x[-2], x[-1]) if full_matrices else (k, k)
    return (*x[:-1], left), (*x[:-2], k), (*x[:-2], right, x[-1])


def _svd_dtypes(x: dtypes.DType, **_: Any) -> tuple[dtypes.DType, ...]:
    return m.solvable(x), m.magnitudes(x), m.solvable(x)


def _thin(x: Any, full: bool) -> None:
    if full and x.shape[-1] != x.shape[-2]:
        raise DerivativeError(
            f"svd of shape {x.shape}: the vectors that complete a basis are arbitrary and have no derivative; "
            "use full_matrices=False, or svdvals"
        )


def _gaps(o: Any, s: Any) -> Any:
    """``s_j² - s_i²`` in row i and column j."""
    row, column = o.expand_dims(s, axis=-2), o.expand_dims(s, axis=-1)
    return o.multiply(o.subtract(row, column), o.add(row, column))


def _outside(o: Any, basis: Any, x: Any) -> Any:
    """What the columns of the basis leave of x."""
    return o.subtract(x, o.matmul(basis, o.matmul(m.adjoint(o, basis), x)))


def _svd_jvp(o: Any, ts: Any, y: Any, x: Any, *, full_matrices: bool) -> Any:
    _thin(x, full_matrices)
    (U, s, Vh), t = y, ts[0]
    rows, columns = x.shape[-2:]
    k = m.shorter(x.shape)
    V, gaps = m.adjoint(o, Vh), _gaps(o, s)
    right, left = o.matmul(t, V), m.adjoint(o, o.matmul(m.adjoint(o, U), t))
    inner = o.matmul(m.adjoint(o, U), right)
    by_right, by_left = m.columns_by(o, inner, s), m.columns_by(o, m.adjoint(o, inner), s)
    turn_u = _turn(o, o.add(by_right, m.adjoint(o, by_right)), gaps)
    turn_v = _turn(o, o.add(by_left, m.adjoint(o, by_left)), gaps)
    if o.dtype(x).kind == "c":
        phase = m.imaginary(o, quotient_by(o, o.imag(m.diagonal_of(o, inner)), s))
        turn_u = m.on_diagonal(o, turn_u, phase)
        turn_v = m.on_diagonal(o, turn_v, o.negative(phase))
    dU, dV = o.matmul(U, turn_u), o.matmul(V, turn_v)
    if rows != k:
        dU = o.add(dU, m.quotient(o, _outside(o, U, right), o.expand_dims(s, axis=-2)))
    if columns != k:
        dV = o.add(dV, m.quotient(o, _outside(o, V, left), o.expand_dims(s, axis=-2)))
    return dU, m.real(o, m.diagonal_of(o, inner)), m.adjoint(o, dV)


def quotient_by(o: Any, a: Any, s: Any) -> Any:
    """``a / (2 s)``."""
    return m.quotient(o, a, o.multiply(s, 2))


def _turn(o: Any, x: Any, gaps: Any) -> Any:
    return m.quotient(o, m.off_diagonal(o, x), gaps)


def _svd_vjp(o: Any, g: Any, y: Any, x: Any, *, full_matrices: bool) -> Any:
    U, s, Vh = y
    k = m.shorter(x.shape)
    if g[0] is None and g[2] is None:
        U, Vh = _leading(o, U, x.shape[-2], k), _leading(o, Vh, k, x.shape[-1])
        return o.matmul(m.columns_by(o, m.conjugate(o, U), g[1]), m.conjugate(o, Vh))
    _thin(x, full_matrices)
    V, gaps = m.adjoint(o, Vh), _gaps(o, s)
    gU = o.zeros_like(U) if g[0] is None else m.conjugate(o, g[0])
    gV = o.zeros_like(V) if g[2] is None else m.transpose(o, g[2])
    by_u, by_v = o.matmul(m.adjoint(o, U), gU), o.matmul(m.adjoint(o, V), gV)
    turn_u, turn_v = _turn(o, by_u, gaps), _turn(o, by_v, gaps)
    inner = m.columns_by(o, o.add(turn_u, m.adjoint(o, turn_u)), s)
    inner = o.add(inner, o.multiply(o.expand_dims(s, axis=-1), o.add(turn_v, m.adjoint(o, turn_v))))
    inner = m.on_diagonal(o, inner, _svd_diagonal(o, g[1], s, by_u, by_v))
    found = o.matmul(o.matmul(U, inner), Vh)
    if x.shape[-2] != k:
        found = o.add(found, o.matmul(m.quotient(o, _outside(o, U, gU), o.expand_dims(s, axis=-2)), Vh))
    if x.shape[-1] != k:
        rest = m.quotient(o, _outside(o, V, gV), o.expand_dims(s, axis=-2))
        found = o.add(found, o.matmul(U, m.adjoint(o, rest)))
    return m.conjugate(o, found)


def _svd_diagonal(o: Any, g: Any, s: Any, by_u: Any, by_v: Any) -> Any:
    """What flows back to the singular values, and to the phases of their vectors."""
    found = o.zeros_like(s) if g is None else g
    if o.dtype(by_u).kind != "c":
        return found
    phase = o.imag(m.diagonal_of(o, o.subtract(by_u, by_v)))
    return o.add(found, m.imaginary(o, quotient_by(o, phase, s)))


@operator(
    shape=_svd_shape, dtype=_svd_dtypes, kernels=kernels.SVD, multi_result=True,
    derivative=Custom(_svd_jvp, (_svd_vjp,)), cost=m.cubic(12), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=evolve(_samples(*_cases((*SQUARES, *TALL, *WIDE), full_matrices=False), *_cases(SQUARES)), dtypes=FLOATS),
    takes_all=domains.something,
)  # fmt: skip
def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """U, the singular values from large to small, and Vᴴ, with ``x = U diag(s) Vᴴ``; a tuple of three.

    Shapes, of ``(…, m, n)`` with k the smaller one of both: ``(…, m, k)``, ``(…, k)``, ``(…, k, n)``; with
    `full_matrices` the first is ``(…, m, m)`` and the last ``(…, n, n)``. Signs and phases of the vectors are the
    device's. Where singular values coincide their vectors have no derivative: what flows through them is not finite.
    There is none of the vectors that complete a basis.
    """


def _svdvals_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    U, _, Vh = o.svd(x, full_matrices=False)
    return m.real(o, o.sum(o.multiply(m.conjugate(o, U), o.matmul(ts[0], m.adjoint(o, Vh))), axis=-2))


def _svdvals_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    U, _, Vh = o.svd(x, full_matrices=False)
    return o.matmul(m.columns_by(o, m.conjugate(o, U), g), m.conjugate(o, Vh))


@operator(
    shape=lambda x: (*x[:-2], m.shorter(x)), dtype=m.magnitudes, kernels=kernels.SVDVALS,
    derivative=Custom(_svdvals_jvp, (_svdvals_vjp,)), cost=m.cubic(3), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=_samples(*_cases((*SQUARES, *TALL, *WIDE))),
    takes_all=domains.something,
)  # fmt: skip
def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, from large to small: of ``(…, m, n)`` the smaller one of both numbers of them.

    Of those that coincide each has the derivative along its own vectors, as `svd` gives them.
    """


# --- eigenvalues -------------------------------------------------------------------------------------------


def _eigh_shape(x: ShapeT) -> tuple[ShapeT, ShapeT]:
    return m.square(x)[:-1], x


def _eigh_dtypes(x: dtypes.DType) -> tuple[dtypes.DType, ...]:
    return m.magnitudes(x), m.solvable(x)


def _differences(o: Any, w: Any) -> Any:
    """``w_j - w_i`` in row i and column j."""
    return o.subtract(o.expand_dims(w, axis=-2), o.expand_dims(w, axis=-1))


def _eigh_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    w, V = y
    inner = o.matmul(m.adjoint(o, V), o.matmul(m.hermitian(o, ts[0]), V))
    return m.real(o, m.diagonal_of(o, inner)), o.matmul(V, _turn(o, inner, _differences(o, w)))


def _eigh_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    w, V = y
    if g[1] is None:
        return _along_vectors(o, g[0], V)
    inner = _turn(o, o.matmul(m.adjoint(o, V), m.conjugate(o, g[1])), _differences(o, w))
    if g[0] is not None:
        inner = m.on_diagonal(o, inner, g[0])
    return m.conjugate(o, m.hermitian(o, o.matmul(o.matmul(V, inner), m.adjoint(o, V))))


def _along_vectors(o: Any, g: Any, vectors: Any) -> Any:
    back = o.matmul(m.columns_by(o, vectors, g), m.adjoint(o, vectors))
    return m.conjugate(o, m.hermitian(o, back))


@operator(
    shape=_eigh_shape, dtype=_eigh_dtypes, kernels=kernels.EIGH, multi_result=True,
    derivative=Custom(_eigh_jvp, (_eigh_vjp,)), cost=m.cubic(9), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=evolve(_samples(*_cases(SQUARES)), domain=POSITIVE, dtypes=FLOATS),
    takes_all=domains.something,
)  # fmt: skip
def eigh(x: Tensor, /) -> Any:
    """Eigenvalues of a Hermitian matrix, from small to large, and the eigenvectors, as columns: a tuple of both.

    Shapes: of ``(…, n, n)`` they are ``(…, n)`` and ``(…, n, n)``. Of `x` the Hermitian part ``(x + xᴴ) / 2`` is
    taken. Signs and phases of the vectors are the device's. Where eigenvalues coincide their vectors have no
    derivative: what flows through them is not finite; nothing flows where nothing is asked of them.
    """


def _eigvalsh_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    _, V = o.eigh(x)
    return m.real(o, o.sum(o.multiply(m.conjugate(o, V), o.matmul(m.hermitian(o, ts[0]), V)), axis=-2))


@operator(
    shape=lambda x: m.square(x)[:-1], dtype=m.magnitudes, kernels=kernels.EIGVALSH,
    derivative=Custom(_eigvalsh_jvp, (lambda o, g, y, x: _along_vectors(o, g, o.eigh(x)[1]),)),
    cost=m.cubic(2), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    samples=evolve(_samples(*_cases(SQUARES)), domain=POSITIVE),
    takes_all=domains.something,
)  # fmt: skip
def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of a Hermitian matrix, from small to large; of `x` the Hermitian part is taken.

    Of those that coincide each has the derivative along its own vector, as `eigh` gives it.
    """
