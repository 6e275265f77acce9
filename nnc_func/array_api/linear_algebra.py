"""Linear algebra of the array API, and its extension `linalg`. Matrices are the last two axes of a tensor."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nnc_func.errors import DTypeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.tensors.arithmetic import matrix_product

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


class QR(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class Eigh(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class SignedLogDet(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


class SVD(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


def matmul(xp: ArrayNamespace, x1: Any, x2: Any, /) -> Any:
    """Matrix product; a vector is a row on the left and a column on the right.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.matmul([[1, 2]], [3, 4]).numpy()
    array([11])
    """
    return matrix_product(xp.owner.bind, xp.asarray(x1), xp.asarray(x2))


def tensordot(xp: ArrayNamespace, x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes: the last of the one with the first of the other, or those that are named.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.tensordot([1, 2], [3, 4], axes=1).item()
    11
    """
    a, b = xp.asarray(x1), xp.asarray(x2)
    if isinstance(axes, int):
        pairs = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        one, other = axes
        pairs = tuple(one), tuple(other)
    return xp.ops.tensordot(a, b, axes=pairs)


def vecdot(xp: ArrayNamespace, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Dot products along an axis, which both have; the first is conjugated.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.vecdot([[1, 2]], [3, 4]).numpy()
    array([11])
    """
    return xp.ops.vecdot(xp.asarray(x1), xp.asarray(x2), axis=axis)


def outer(xp: ArrayNamespace, x1: Any, x2: Any, /) -> Any:
    """Products of all elements of one vector with all of another.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.outer([1, 2], [3, 4]).numpy()
    array([[3, 4],
           [6, 8]])
    """
    return xp.ops.outer(xp.asarray(x1), xp.asarray(x2))


def cross(xp: ArrayNamespace, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of three elements along an axis.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.cross([1, 0, 0], [0, 1, 0]).numpy()
    array([0, 0, 1])
    """
    return xp.ops.cross(xp.asarray(x1), xp.asarray(x2), axis=axis)


def diagonal(xp: ArrayNamespace, x: Any, /, *, offset: int = 0) -> Any:
    """Diagonals of matrices, the main one or one beside it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.diagonal([[1, 2], [3, 4]]).numpy()
    array([1, 4])
    """
    return xp.ops.diagonal(x, offset=offset)


def trace(xp: ArrayNamespace, x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums of the diagonals of matrices; small integers widen to 64 bits unless a dtype is given.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.trace([[1, 2], [3, 4]]).item()
    5
    """
    return xp.ops.trace(xp.asarray(x), offset=offset, dtype=dtype)


def matrix_transpose(xp: ArrayNamespace, x: Any, /) -> Any:
    """Matrices with rows and columns exchanged.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.matrix_transpose([[1, 2]]).shape
    (2, 1)
    """
    return xp.ops.matrix_transpose(x)


def matrix_power(xp: ArrayNamespace, x: Any, n: int, /) -> Any:
    """Square matrices multiplied with themselves ``n`` times; negative powers are of the inverse.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 3).numpy()
    array([[1., 3.],
           [0., 1.]])
    """
    return xp.ops.matrix_power(x, n=n)


def _floats(xp: ArrayNamespace, x: Any, name: str) -> Any:
    found = xp.asarray(x)
    if kind_of(found.dtype) not in "fc":
        raise DTypeError(f"{name} wants a floating or complex dtype, given {found.dtype}; cast it first")
    return found


def cholesky(xp: ArrayNamespace, x: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices: L of ``L @ L.mT.conj()``, or its adjoint.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.cholesky([[4.0]]).numpy()
    array([[2.]])
    """
    return xp.ops.cholesky(_floats(xp, x, "cholesky"), upper=upper)


def det(xp: ArrayNamespace, x: Any, /) -> Any:
    """Determinants of square matrices.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.det([[2.0, 0.0], [0.0, 3.0]]).item()
    6.0
    """
    return xp.ops.det(_floats(xp, x, "det"))


def slogdet(xp: ArrayNamespace, x: Any, /) -> SignedLogDet:
    """Sign and logarithm of the absolute value of determinants.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.slogdet([[-1.0]]).sign.item()
    -1.0
    """
    return SignedLogDet(*xp.ops.slogdet(_floats(xp, x, "slogdet")))


def inv(xp: ArrayNamespace, x: Any, /) -> Any:
    """Inverses of square matrices.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.inv([[2.0]]).numpy()
    array([[0.5]])
    """
    return xp.ops.inv(_floats(xp, x, "inv"))


def pinv(xp: ArrayNamespace, x: Any, /, *, rtol: Any = None) -> Any:
    """Pseudo-inverses of matrices; singular values up to ``rtol`` times the largest count as zero.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.pinv([[2.0, 0.0]]).numpy()
    array([[0.5],
           [0. ]])
    """
    given = _floats(xp, x, "pinv")
    if rtol is None or isinstance(rtol, (int, float)):
        return xp.ops.pinv(given, rtol=rtol)
    u, s, vh = xp.ops.svd(given, full_matrices=False)
    small = xp.ops.less_equal(s, _limit(xp, s, rtol))
    inverted = xp.ops.where(small, 0.0, xp.ops.divide(1.0, xp.ops.where(small, 1.0, s)))
    v, uh = (xp.ops.conj(a.mT) if a.dtype.kind == "c" else a.mT for a in (vh, u))
    return xp.ops.matmul(xp.ops.multiply(v, xp.ops.expand_dims(inverted, axis=-2)), uh)


def _limit(xp: ArrayNamespace, s: Any, rtol: Any) -> Any:
    """What singular values count as zero, by a tolerance for each matrix."""
    return xp.ops.multiply(xp.expand_dims(xp.asarray(rtol), axis=-1), xp.ops.max(s, axis=-1, keepdims=True))


def matrix_rank(xp: ArrayNamespace, x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values of matrices are above ``rtol`` times the largest.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]]).item()
    1
    """
    given = _floats(xp, x, "matrix_rank")
    if rtol is None or isinstance(rtol, (int, float)):
        return xp.ops.matrix_rank(given, rtol=rtol)
    s = xp.ops.svdvals(given)
    return xp.count_nonzero(xp.ops.greater(s, _limit(xp, s, rtol)), axis=-1)


def qr(xp: ArrayNamespace, x: Any, /, *, mode: str = "reduced") -> QR:
    """Orthogonal and upper triangular factors of matrices.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.qr([[1.0], [2.0]], mode="complete").Q.shape
    (2, 2)
    """
    return QR(*xp.ops.qr(_floats(xp, x, "qr"), mode=mode))


def eigh(xp: ArrayNamespace, x: Any, /) -> Eigh:
    """Eigenvalues in ascending order, and eigenvectors, of Hermitian matrices.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.eigh([[2.0]]).eigenvalues.numpy()
    array([2.])
    """
    return Eigh(*xp.ops.eigh(_floats(xp, x, "eigh")))


def eigvalsh(xp: ArrayNamespace, x: Any, /) -> Any:
    """Eigenvalues of Hermitian matrices, in ascending order.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.eigvalsh([[2.0]]).numpy()
    array([2.])
    """
    return xp.ops.eigvalsh(_floats(xp, x, "eigvalsh"))


def svd(xp: ArrayNamespace, x: Any, /, *, full_matrices: bool = True) -> SVD:
    """Singular vectors and values of matrices.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.svd([[3.0, 0.0]], full_matrices=False).S.numpy()
    array([3.])
    """
    return SVD(*xp.ops.svd(_floats(xp, x, "svd"), full_matrices=full_matrices))


def svdvals(xp: ArrayNamespace, x: Any, /) -> Any:
    """Singular values of matrices, in descending order.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.svdvals([[3.0, 0.0]]).numpy()
    array([3.])
    """
    return xp.ops.svdvals(_floats(xp, x, "svdvals"))


def solve(xp: ArrayNamespace, x1: Any, x2: Any, /) -> Any:
    """What square matrices have to be multiplied with; a vector on the right is one column.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.solve([[2.0]], [6.0]).numpy()
    array([3.])
    """
    return xp.ops.solve(_floats(xp, x1, "solve"), _floats(xp, x2, "solve"))


def vector_norm(xp: ArrayNamespace, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Norms of vectors along axes, all of them if None: ``sum(abs(x) ** ord) ** (1 / ord)``, and its limits.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.vector_norm([3.0, 4.0]).item()
    5.0
    """
    return xp.ops.vector_norm(_floats(xp, x, "vector_norm"), axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(xp: ArrayNamespace, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices: ``"fro"``, ``"nuc"``, or 1, 2, inf and their negatives.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linalg.matrix_norm([[3.0, 4.0]]).item()
    5.0
    """
    return xp.ops.matrix_norm(_floats(xp, x, "matrix_norm"), keepdims=keepdims, ord="fro" if ord is None else ord)
