"""Linear algebra that is made of other operators: norms, powers, ranks, products of vectors, least squares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.samples import INEXACT, NUMBERS, Samples, Tolerance
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.ops import matrices as m
from nnc_func.graph.ops.decompositions import INNER, SQUARES, TALL, WIDE
from nnc_func.graph.ops.families import Axes, DType, Nested, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_CLOSE = Tolerance(64.0)


def _cases(*cases: Any, dtypes: Any = INEXACT, **more: Any) -> Samples:
    return Samples(relation="cases", dtypes=dtypes, cases=cases, **more)


def _regular(*cases: Any) -> Samples:
    return _cases(*cases, domain=INNER, prepare=m.dominant)


def _floating(o: Ops[Any], x: Tensor) -> Tensor:
    return x if kind_of(o.dtype(x)) in "fc" else o.cast(x, dtype=np.dtype("float64"))


# --- matrices ----------------------------------------------------------------------------------------------


@composite(
    tolerance=Tolerance(0.0),
    samples=_cases(*(((shape,), {}) for shape in ((2, 3), (2, 3, 1), (0, 2))), dtypes=NUMBERS),
)  # fmt: skip
def matrix_transpose(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The last two axes swapped; a view."""
    m.matrix(x.shape)
    return m.transpose(o, x)


@composite(tolerance=_CLOSE, samples=_cases(
    *(((shape,), {"offset": offset}) for shape in ((2, 2), (2, 3, 4), (0, 2)) for offset in (0, 1, -1)), dtypes=NUMBERS,
))  # fmt: skip
def trace(o: Ops[Any], x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum of a diagonal of each matrix, in the dtype of a sum, or in that which is given."""
    found = o.diagonal(x, offset=offset)
    if dtype is None:
        return o.sum(found, axis=-1)
    return o.cast(o.sum(o.cast(found, dtype=dtype), axis=-1), dtype=dtype)  # the sum of small integers is wider


@composite(tolerance=_CLOSE, samples=_regular(
    *(((shape,), {"n": n}) for shape in ((2, 2), (2, 3, 3), (0, 0)) for n in (0, 1, 2, 5, -1, -2))
))  # fmt: skip
def matrix_power(o: Ops[Any], x: Tensor, /, *, n: int) -> Tensor:
    """Square matrices multiplied n times, by repeated squaring; a negative n means the inverse's power.

    For n = 0 it is the identity; a singular matrix under a negative n is an error when it runs.
    """
    m.square(x.shape)
    if n == 0:
        return o.where(m.positions(o, x, "equal"), 1, o.zeros_like(x))
    factor, left = (x, n) if n > 0 else (o.inv(x), -n)
    found = None
    while left:
        if left & 1:
            found = factor if found is None else o.matmul(found, factor)
        left >>= 1
        factor = o.matmul(factor, factor) if left else factor
    return found


def _smallest(o: Ops[Any], x: Tensor, rows: Any, columns: Any) -> Any:
    """The larger extent times the dtype's rounding: a number, or a tensor where an extent is not known."""
    rounding = float(limits_of(o.dtype(x)).eps)
    if known(rows) and known(columns):
        return max(rows, columns) * rounding
    counts = (o.full(shape=(), value=n, dtype=np.dtype("int64")) for n in (rows, columns))
    return o.multiply(o.cast(o.maximum(*counts), dtype=o.dtype(x)), rounding)


@composite(
    derivative=Constant("a rank jumps"), tolerance=Tolerance(0.0),
    samples=_regular(*(((shape,), {}) for shape in (*SQUARES, *TALL, *WIDE)), (((2, 2),), {"rtol": 0.75})),
)  # fmt: skip
def matrix_rank(o: Ops[Any], x: Tensor, /, *, rtol: float | None = None) -> Tensor:
    """How many singular values exceed `rtol` times the largest: an int64 for each matrix.

    None: the larger number of rows and columns times the dtype's rounding.
    """
    rows, columns = m.matrix(x.shape)[-2:]
    found = o.svdvals(x)
    if known(found.shape[-1]) and found.shape[-1] == 0:
        return o.full(shape=x.shape[:-2], value=0, dtype=np.dtype("int64"))
    least = _smallest(o, found, rows, columns) if rtol is None else rtol
    large = o.greater(found, o.multiply(o.max(found, axis=-1, keepdims=True), least))
    return o.sum(large, axis=-1)


_SYSTEMS = (((3, 3), (3,)), ((4, 2), (4, 2)), ((2, 3), (2, 1)), ((2, 3, 2), (3, 2)), ((2, 2), (3, 2, 1)))


@composite(tolerance=_CLOSE, samples=_regular(*((each, {}) for each in _SYSTEMS)))
def lstsq(o: Ops[Any], a: Tensor, b: Tensor, /, *, rtol: float | None = None) -> Tensor:
    """The x of least norm among those that make ``a x - b`` shortest: the pseudoinverse times b.

    Shapes: ``(…, m, n)`` and ``(…, m, k)``, whose batches broadcast, or a vector ``(m,)``. `rtol` is that of `pinv`.
    """
    rows = b.shape[-2] if len(b.shape) > 1 else b.shape[0] if b.shape else 1
    if not b.shape or not same_extent(m.matrix(a.shape)[-2], rows):
        raise ShapeError(f"wanted as many rows on both sides, given shapes {a.shape} and {b.shape}")
    inverse = o.pinv(a, rtol=rtol)
    if len(b.shape) > 1:
        return o.matmul(inverse, b)
    return o.squeeze(o.matmul(inverse, o.expand_dims(b, axis=-1)), axis=-1)


# --- norms -------------------------------------------------------------------------------------------------


def _root(o: Ops[Any], x: Tensor, root: Any) -> Tensor:
    """Zero, with the derivative zero, where x is zero."""
    zero = o.equal(x, 0)
    return o.where(zero, 0, root(o.where(zero, 1, x)))


def _extreme(o: Ops[Any], sizes: Tensor, largest: bool, axis: Any, keepdims: bool) -> Tensor:
    """The largest magnitude, zero where there is none, or the smallest."""
    over = {"axis": axis, "keepdims": keepdims}
    if largest and any(known(n) and n == 0 for n in (sizes.shape[a] for a in normalise_axes(axis, len(sizes.shape)))):
        return o.sum(sizes, **over)  # of nothing
    return (o.max if largest else o.min)(sizes, **over)


def _norm(o: Ops[Any], x: Tensor, ord: Any, axis: Any, keepdims: bool) -> Tensor:
    over = {"axis": axis, "keepdims": keepdims}
    if ord == 2:
        squares = o.square(x) if o.dtype(x).kind != "c" else o.add(o.square(o.real(x)), o.square(o.imag(x)))
        return _root(o, o.sum(squares, **over), o.sqrt)
    size = o.abs(x)
    if ord in (math.inf, -math.inf):
        return _extreme(o, size, ord > 0, axis, keepdims)
    if ord == 0:
        return o.sum(o.cast(o.not_equal(size, 0), dtype=o.dtype(size)), **over)
    if ord == 1:
        return o.sum(size, **over)
    if ord < 0:
        return o.power(o.sum(o.power(size, ord), **over), 1 / ord)
    powers = _root(o, size, lambda s: o.power(s, ord))
    return _root(o, o.sum(powers, **over), lambda s: o.power(s, 1 / ord))


_VECTORS = tuple(
    (((2, 3),), {"axis": axis, "keepdims": keepdims, "ord": ord})
    for axis in (None, -1, (0, 1)) for keepdims in (False, True) for ord in (2, 1, 3, 2.5, math.inf)
)  # fmt: skip


def _of_distinct_magnitudes(x: Any) -> list[Any]:
    """Each element a few per cent longer than the one before: largest magnitudes that are equal have no derivative."""
    factors = np.exp(0.0317 * np.arange(x.size)).reshape(x.shape)
    return [(x * factors).astype(x.dtype)]


@composite(tolerance=_CLOSE, samples=_cases(
    *_VECTORS, (((0, 2),), {"axis": 0}), (((),), {}), avoid=(0.0,), dtypes=INEXACT, prepare=_of_distinct_magnitudes,
))  # fmt: skip
def vector_norm(
    o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False, ord: Nested = 2
) -> Tensor:
    """The norm of vectors along axes, or of all elements: ``sum(abs(x) ** ord) ** (1 / ord)``; integers as float64.

    `ord` is a number: ``inf`` means the largest magnitude, ``-inf`` the smallest, 0 counts what is not zero. The
    derivative at the zero vector is zero, and so is that of the magnitude of an element that is zero. The norm of no
    elements is zero, as by NumPy, where the order is positive.
    """
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise OperatorError(f"the order of a vector norm is a number, given {ord!r}")
    return _norm(o, _floating(o, x), ord, axis, keepdims)


@composite(tolerance=_CLOSE, samples=_cases(*(
    ((shape,), {"ord": ord, "keepdims": shape != (2, 3)})
    for shape in ((3, 3), (2, 3), (2, 3, 2)) for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
), domain=INNER, prepare=m.dominant, avoid=(0.0,)))  # fmt: skip
def matrix_norm(o: Ops[Any], x: Tensor, /, *, keepdims: bool = False, ord: Nested = "fro") -> Tensor:
    """The norm of each matrix: Frobenius, ``"nuc"`` (sum of singular values), 2 and -2 (their largest and smallest).

    1 and -1 are the largest and smallest sum of magnitudes of a column, ``inf`` and ``-inf`` of a row. The derivative
    at the zero matrix is zero for the Frobenius norm; at equal extremes it is shared.
    """
    m.matrix(x.shape)
    x = _floating(o, x)
    if ord == "fro":
        return _norm(o, x, 2, (-2, -1), keepdims)
    if ord in ("nuc", 2, -2):
        values = o.svdvals(x)
        found = o.sum(values, axis=-1) if ord == "nuc" else _extreme(o, values, ord > 0, -1, False)
        return o.expand_dims(found, axis=(-2, -1)) if keepdims else found
    if ord not in (1, -1, math.inf, -math.inf):
        raise OperatorError(f"matrices have the norms 'fro', 'nuc', 1, -1, 2, -2, inf and -inf, given ord={ord!r}")
    sums = o.sum(o.abs(x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    return _extreme(o, sums, ord > 0, (-2, -1), keepdims)


# --- products ----------------------------------------------------------------------------------------------


@composite(tolerance=_CLOSE, samples=_cases(
    (((2, 3), (3,)), {}), (((2, 3), (2, 1)), {"axis": 0}), (((2,), (2,)), {}),
    (((0,), (0,)), {}), dtypes=NUMBERS,
))  # fmt: skip
def vecdot(o: Ops[Any], a: Tensor, b: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum along an axis of the conjugate of a times b; other axes broadcast."""
    if axis >= 0 and len(a.shape) != len(b.shape):
        raise ShapeError(
            f"an axis counted from the front wants equal ranks, given {a.shape} and {b.shape}, axis={axis}"
        )
    products = o.multiply(m.conjugate(o, a), b)
    if not same_extent(a.shape[normalise_axis(axis, len(a.shape))], b.shape[normalise_axis(axis, len(b.shape))]):
        raise ShapeError(f"vecdot wants as many elements along axis {axis}, given {a.shape} and {b.shape}")
    found = o.sum(products, axis=axis)
    return found if o.dtype(found) == o.dtype(products) else o.cast(found, dtype=o.dtype(products))


@composite(tolerance=_CLOSE, samples=_cases((((2,), (3,)), {}), (((0,), (2,)), {}), dtypes=NUMBERS))
def outer(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """Every product of an element of one vector with one of another: ``(n,)`` and ``(m,)`` give ``(n, m)``."""
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(f"outer wants two vectors, given shapes {a.shape} and {b.shape}")
    return o.multiply(o.expand_dims(a, axis=1), o.expand_dims(b, axis=0))


def _cycled(o: Ops[Any], x: Tensor, by: int) -> Tensor:
    """The last axis, of three, moved forward in a circle."""
    first, last = o.split(x, sections=(by, 3 - by), axis=-1)
    return o.concat(last, first, axis=-1)


def _to_end(o: Ops[Any], x: Tensor, axis: int) -> Tensor:
    at = normalise_axis(axis, len(x.shape))
    if not same_extent(x.shape[at], 3):
        raise ShapeError(f"cross wants three elements along axis {axis}, given shape {x.shape}")
    order = tuple(i for i in range(len(x.shape)) if i != at)
    return x if at == len(order) else o.permute_dims(x, axes=(*order, at))


@composite(tolerance=_CLOSE, samples=_cases(
    (((3,), (3,)), {}), (((2, 3), (3,)), {}), (((3, 2), (3, 2)), {"axis": 0}), (((2, 3, 1), (3, 4)), {"axis": -2}),
))  # fmt: skip
def cross(o: Ops[Any], a: Tensor, b: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis; other axes broadcast."""
    a, b = _to_end(o, a, axis), _to_end(o, b, axis)
    found = o.subtract(o.multiply(_cycled(o, a, 1), _cycled(o, b, 2)), o.multiply(_cycled(o, a, 2), _cycled(o, b, 1)))
    rank = len(found.shape)
    at = normalise_axis(axis, rank)
    return found if at == rank - 1 else o.permute_dims(found, axes=(*range(at), rank - 1, *range(at, rank - 1)))


@composite(tolerance=_CLOSE, samples=_cases(
    (((2, 3), (3, 2)), {}), (((2,), (3,)), {}), (((2, 2), (3,)), {}), (((), (2,)), {}), (((2, 1, 2), (2, 2)), {}),
    (((0, 2), (2, 2)), {}), dtypes=NUMBERS,
))  # fmt: skip
def kron(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """The Kronecker product: b times each element of a, side by side; the shorter shape gets ones in front."""
    rank = max(len(a.shape), len(b.shape))
    left, right = ((1,) * (rank - len(x.shape)) + tuple(x.shape) for x in (a, b))
    a = o.reshape(a, shape=tuple(n for each in left for n in (each, 1)))
    b = o.reshape(b, shape=tuple(n for each in right for n in (1, each)))
    return o.reshape(o.multiply(a, b), shape=tuple(p * q for p, q in zip(left, right, strict=True)))


@composite(tolerance=_CLOSE, samples=_cases(
    (((2, 2), (2, 2)), {}), (((2, 3, 3), (3, 3)), {}), domain=INNER, prepare=m.dominant,
))  # fmt: skip
def lyapunov(o: Ops[Any], a: Tensor, q: Tensor, /) -> Tensor:
    """The x with ``a x + x aᴴ = q``, batched over front axes; it is `sylvester` of a and its adjoint.

    There is one if no eigenvalue of a is the negative of the conjugate of another; else it is an error when it runs.
    """
    return o.sylvester(a, m.adjoint(o, a), q)
