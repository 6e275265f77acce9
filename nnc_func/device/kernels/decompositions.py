"""Kernels of matrix decompositions, solvers and determinants: NumPy's, CuPy's, or whatever has the linalg extension.

A matrix that has no inverse, or is not definite, is found out here: what is raised says what to do about it.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import converted, dtype_of, permute_dims
from nnc_func.facets.kernels import Kernel, reference

WIDE = 16  # rows from which on a triangular solver pays for its call

SINGULAR = "a matrix has no inverse; use pinv or lstsq, or add a multiple of the identity"
INDEFINITE = "a matrix is not positive definite; add a multiple of the identity, or use eigh"
NOT_FINITE = "the iteration did not converge, as with NaN or infinity in the matrix"


# --- what they share ---------------------------------------------------------------------------------------


def watched(xp: Any) -> AbstractContextManager[Any]:
    """Within it a GPU's solvers raise as the host's do: each is waited for."""
    if xp.__name__ != "cupy":
        return nullcontext()
    found: AbstractContextManager[Any] = importlib.import_module("cupyx").errstate(linalg="raise")
    return found


def common(xp: Any, *arrays: Any) -> tuple[Any, ...]:
    """The arrays in their common floating dtype; integers are float64."""
    wanted = np.result_type(*map(dtype_of, arrays))
    wanted = wanted if wanted.kind in "fc" else np.dtype("float64")
    return tuple(converted(xp, a, wanted) for a in arrays)


def solving(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A kernel of floating arguments, whose failure is told in these words."""

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compute)
        def run(xp: Any, *arrays: Any, **params: Any) -> Any:
            try:
                with watched(xp):
                    return compute(xp, *common(xp, *arrays), **params)
            except np.linalg.LinAlgError as error:
                raise np.linalg.LinAlgError(f"{error}: {words}") from None

        return run

    return decorate


def transposed(xp: Any, x: Any) -> Any:
    """The last two axes swapped."""
    return permute_dims(xp, x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conjugate(xp: Any, x: Any) -> Any:
    """Itself where it is real."""
    return xp.conj(x) if dtype_of(x).kind == "c" else x


def adjoint(xp: Any, x: Any) -> Any:
    """Conjugated and transposed."""
    return conjugate(xp, transposed(xp, x))


def hermitian(xp: Any, x: Any) -> Any:
    """The Hermitian part, which is the matrix itself, bit by bit, where that is Hermitian."""
    return (x + adjoint(xp, x)) * 0.5


def identity(xp: Any, x: Any) -> Any:
    """True on the diagonal of a square matrix of that size."""
    return xp.eye(x.shape[-1], dtype=xp.int8) == 1


# --- what they take for themselves -------------------------------------------------------------------------


def _floating(x: Any) -> tuple[int, int, int]:
    """Bytes of an argument in the dtype that it is computed in, of one matrix of it, and of what it is converted to."""
    dtype = common_dtype(x)
    nbytes = math.prod(x.shape) * dtype.itemsize
    return nbytes, math.prod(x.shape[-2:]) * dtype.itemsize, nbytes if x.dtype != dtype else 0


def common_dtype(*arrays: Any) -> np.dtype[Any]:
    """The common floating dtype of arrays, or of what has their dtypes."""
    found = np.result_type(*[a.dtype for a in arrays])
    return found if found.kind in "fc" else np.dtype("float64")


def _takes(copies: int, matrices: int, hermitian: bool = False) -> Callable[..., int]:
    """So many copies of all, and LAPACK's of one matrix at a time; a Hermitian part of complex numbers is one more."""

    def private(avals: tuple[Any, ...], **_: Any) -> int:
        (x,) = avals
        nbytes, matrix, converts = _floating(x)
        more = nbytes if hermitian and x.dtype.kind == "c" else 0
        return copies * nbytes + matrices * matrix + converts + more

    return private


def _extents(x: Any) -> tuple[int, int, int, int]:
    """How many matrices there are, their rows and columns, and the bytes of an element that is computed with."""
    return math.prod(x.shape[:-2]), x.shape[-2], x.shape[-1], common_dtype(x).itemsize


def _orthogonal(avals: tuple[Any, ...], mode: str = "reduced", **_: Any) -> int:
    """A copy of all and both results; LAPACK's matrix and its Q, one at a time, are gone when R is cut out."""
    (x,) = avals
    nbytes, matrix, converts = _floating(x)
    count, rows, columns, item = _extents(x)
    wide = rows if mode == "complete" else min(rows, columns)
    q, r = rows * wide * item, wide * columns * item
    return nbytes + count * q + max(matrix + q, count * r) + converts


def _singular(avals: tuple[Any, ...], full_matrices: bool = False, **_: Any) -> int:
    """The results, and what LAPACK has of one matrix; its workspace is three small squares, of a long matrix four."""
    (x,) = avals
    matrix, converts = _floating(x)[1:]
    count, rows, columns, item = _extents(x)
    least = min(rows, columns)
    u, v = [n * (n if full_matrices else least) * item for n in (rows, columns)]
    squares = 4 if 6 * max(rows, columns) >= 11 * least else 3
    return count * (u + v) + matrix + u + v + squares * least * least * item + converts


def _by_singular(avals: tuple[Any, ...], **_: Any) -> int:
    """Singular values and vectors as they are found; or both vectors, one of them scaled, and the product."""
    (x,) = avals
    nbytes, converts = _floating(x)[::2]
    count, rows, columns, item = _extents(x)
    vectors = count * min(rows, columns) * item * (rows + 2 * columns)
    return max(_singular(avals), vectors + nbytes + converts)


def _substituting(avals: tuple[Any, ...], **_: Any) -> int:
    """The result, and that of one matrix at a time."""
    a, b = avals
    columns = math.prod(b.shape[-2:]) if b.ndim > 1 else b.shape[0]
    batch = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2] if b.ndim > 1 else ()))
    item, dtype = common_dtype(a, b).itemsize, common_dtype(a, b)
    return int((batch * columns + columns + sum([math.prod(x.shape) for x in avals if x.dtype != dtype])) * item)


def _triangular(avals: tuple[Any, ...], unit_diagonal: bool = False, **_: Any) -> int:
    """As a solution, of a copy in which there is the triangle alone; or what another diagonal takes before that."""
    a, b = avals
    copy: int = math.prod(a.shape) * common_dtype(a, b).itemsize
    return max(_solving(avals) + copy, 3 * copy if unit_diagonal else 0)


def _solving(avals: tuple[Any, ...], **_: Any) -> int:
    """The result, both operands of one product, and what they are converted to."""
    a, b = avals
    dtype = common_dtype(a, b)
    batch = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2] if b.ndim > 1 else ()))
    columns = math.prod(b.shape[-2:]) if b.ndim > 1 else b.shape[0]
    found = batch * columns + math.prod(a.shape[-2:]) + columns
    return int((found + sum([math.prod(x.shape) for x in avals if x.dtype != dtype])) * dtype.itemsize)


# --- decompositions ----------------------------------------------------------------------------------------


@solving(INDEFINITE)
def _cholesky(xp: Any, x: Any, *, upper: bool) -> Any:
    found = xp.linalg.cholesky(hermitian(xp, x))
    return adjoint(xp, found) if upper else found


@solving(NOT_FINITE)
def _qr(xp: Any, x: Any, *, mode: str) -> Any:
    return xp.linalg.qr(x, mode=mode)


@solving(NOT_FINITE)
def _svd(xp: Any, x: Any, *, full_matrices: bool) -> Any:
    return xp.linalg.svd(x, full_matrices=full_matrices)


@solving(NOT_FINITE)
def _svdvals(xp: Any, x: Any) -> Any:
    if hasattr(xp.linalg, "svdvals"):
        return xp.linalg.svdvals(x)
    return xp.linalg.svd(x, compute_uv=False)


@solving(NOT_FINITE)
def _eigh(xp: Any, x: Any) -> Any:
    return xp.linalg.eigh(hermitian(xp, x))


@solving(NOT_FINITE)
def _eigvalsh(xp: Any, x: Any) -> Any:
    return xp.linalg.eigvalsh(hermitian(xp, x))


# --- inverses ----------------------------------------------------------------------------------------------


@solving(SINGULAR)
def _inv(xp: Any, x: Any) -> Any:
    return xp.linalg.inv(x)


@solving(NOT_FINITE)
def _pinv(xp: Any, x: Any, *, rtol: float | None) -> Any:
    if 0 in x.shape:
        return transposed(xp, x) * 1
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(dtype_of(x)).eps)
    kept = s > rtol * xp.max(s, axis=-1, keepdims=True)
    inverse = xp.where(kept, 1 / xp.where(kept, s, xp.ones_like(s)), xp.zeros_like(s))
    return xp.matmul(adjoint(xp, vh) * converted(xp, inverse, dtype_of(x))[..., None, :], adjoint(xp, u))


def _matrices(xp: Any, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Both as stacks of matrices, their batches broadcast; whether the second is a vector."""
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[:-2] != batch:
        a = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
    if b.shape[:-2] != batch:
        b = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    return a, b, vector


@solving(SINGULAR)
def _solve(xp: Any, a: Any, b: Any) -> Any:
    a, b, vector = _matrices(xp, a, b)
    found = xp.linalg.solve(a, b)
    return found[..., 0] if vector else found


@solving(SINGULAR)
def _solve_triangular(xp: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    a, b, vector = _matrices(xp, a, b)
    a = xp.tril(a) if lower else xp.triu(a)
    if unit_diagonal:
        a = xp.where(identity(xp, a), xp.ones_like(a), a)
    found = xp.linalg.solve(transposed(xp, a) if transpose else a, b)
    return found[..., 0] if vector else found


@cache
def has_scipy() -> bool:
    """Whether SciPy can be imported; it is not, here."""
    return importlib.util.find_spec("scipy") is not None


def _is_wide(avals: Any, **_: Any) -> bool:
    return has_scipy() and len(avals) == 2 and avals[0].shape[-1] >= WIDE


@solving(SINGULAR)
def _substituted(xp: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    solver = importlib.import_module("scipy.linalg").solve_triangular
    a, b, vector = _matrices(xp, a, b)
    found = np.empty(b.shape, b.dtype)
    for at in np.ndindex(b.shape[:-2]):
        found[at] = solver(
            a[at], b[at], trans=int(transpose), lower=lower, unit_diagonal=unit_diagonal, check_finite=False
        )
    return found[..., 0] if vector else found


# --- determinants ------------------------------------------------------------------------------------------


@solving(NOT_FINITE)
def _det(xp: Any, x: Any) -> Any:
    return xp.asarray(xp.linalg.det(x))


@solving(NOT_FINITE)
def _slogdet(xp: Any, x: Any) -> Any:
    sign, logarithm = xp.linalg.slogdet(x)
    return xp.asarray(sign), xp.asarray(logarithm)


@solving(NOT_FINITE)
def _cofactors(xp: Any, x: Any) -> Any:
    """By singular values: the cofactors of a product are the product of the cofactors. Nothing is divided."""
    if 0 in x.shape:
        return x * 1
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    others = xp.prod(xp.where(identity(xp, x), xp.ones_like(s)[..., None, :], s[..., None, :]), axis=-1)
    turned = xp.asarray(xp.linalg.det(u)) * xp.asarray(xp.linalg.det(vh))
    inner = converted(xp, others, dtype_of(x))[..., None, :] * turned[..., None, None]
    return xp.matmul(conjugate(xp, u) * inner, conjugate(xp, vh))


CHOLESKY = reference(_cholesky, private=_takes(2, 1, hermitian=True))
QR = reference(_qr, private=_orthogonal)
SVD = reference(_svd, private=_singular)
SVDVALS = reference(_svdvals, private=_takes(0, 1))
EIGH = reference(_eigh, private=_takes(2, 3, hermitian=True))
EIGVALSH = reference(_eigvalsh, private=_takes(1, 1, hermitian=True))
INV = reference(_inv, private=_takes(1, 2))
PINV = reference(_pinv, private=_by_singular)
SOLVE = reference(_solve, private=_solving)
SOLVE_TRIANGULAR = (
    Kernel(
        "scipy", compute=_substituted, accepts=_is_wide, by_shape=True, namespaces=frozenset({"numpy"}),
        private=_substituting,
    ),
    reference(_solve_triangular, private=_triangular),
)  # fmt: skip
DET = reference(_det, private=_takes(0, 1))
SLOGDET = reference(_slogdet, private=_takes(0, 1))
COFACTORS = reference(_cofactors, private=_by_singular)


# --- diagonals ---------------------------------------------------------------------------------------------


def _within(offset: int, rows: int, columns: int) -> int:
    """That offset, or one as far outside of a matrix as namespaces take it."""
    return max(-rows, min(offset, columns))


def diagonal(xp: Any, x: Any, *, offset: int) -> Any:
    """A copy."""
    return xp.asarray(xp.linalg.diagonal(x, offset=_within(offset, *x.shape[-2:])), copy=True)


def diagonal_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, offset: int) -> None:
    """Of `diagonal`."""
    xp.copyto(outs[0], arrays[0].diagonal(_within(offset, *arrays[0].shape[-2:]), -2, -1))


def diagonal_matrix(xp: Any, x: Any, *, shape: Any, offset: int) -> Any:
    """Elements of the vector stand in its order, in their columns."""
    rows, columns = shape
    offset = _within(offset, rows, columns)
    before, batch = max(offset, 0), x.shape[:-1]
    after = columns - before - x.shape[-1]
    row = xp.concat([xp.zeros((*batch, before), dtype=x.dtype), x, xp.zeros((*batch, after), dtype=x.dtype)], axis=-1)
    on = xp.eye(rows, columns, k=offset, dtype=xp.int8) == 1
    row = xp.broadcast_to(row[..., None, :], (*batch, rows, columns))
    return xp.where(on, row, xp.zeros_like(row))


def diagonal_matrix_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, shape: Any, offset: int) -> None:
    """Written through a strided view of the result's diagonal."""
    (out,) = outs
    out[...] = 0
    start = (max(-offset, 0), max(offset, 0))
    seen = out[..., start[0] :, start[1] :]
    count = arrays[0].shape[-1]
    if count:
        at = xp.arange(count)
        seen[..., at, at] = arrays[0]
