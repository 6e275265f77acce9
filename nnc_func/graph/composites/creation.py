"""Creation by other operators, as the array API standard has it; and the parts of matrices that are made by masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.samples import ANY, EXACT, FLOATS, NUMBERS, Samples
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import DType, Extent, Sizes, Tensor, number

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

MADE = Constant("it depends on no elements of a tensor")
INT64 = np.dtype("int64")


# --- filled -------------------------------------------------------------------------------------------------

SHAPES = Samples(relation="cases", cases=[((), {"shape": s, "dtype": d}) for s in ((), (2, 3), (0,)) for d in ANY])
LIKE = Samples(dtypes=ANY, params=lambda _, draw: {"dtype": draw((None, *map(np.dtype, ANY)))})


@composite(derivative=MADE, samples=SHAPES, tolerance=EXACT)
def zeros(o: Ops[Any], /, *, shape: Sizes, dtype: DType = "float64") -> Tensor:
    """A tensor of that shape that is zero everywhere."""
    return o.full(shape=shape, value=0, dtype=dtype)


@composite(derivative=MADE, samples=SHAPES, tolerance=EXACT)
def ones(o: Ops[Any], /, *, shape: Sizes, dtype: DType = "float64") -> Tensor:
    """A tensor of that shape that is one everywhere."""
    return o.full(shape=shape, value=1, dtype=dtype)


@composite(derivative=MADE, samples=SHAPES, tolerance=EXACT)
def empty(o: Ops[Any], /, *, shape: Sizes, dtype: DType = "float64") -> Tensor:
    """A tensor of that shape whose elements nobody has chosen: zeros, so that a graph has one value."""
    return o.full(shape=shape, value=0, dtype=dtype)


@composite(derivative=MADE, samples=LIKE, tolerance=EXACT)
def zeros_like(o: Ops[Any], x: Tensor, /, *, dtype: DType | None = None) -> Tensor:
    """Zeros of the shape of another tensor, and of its dtype unless one is said."""
    return full_like.over(o, x, value=0, dtype=dtype)


@composite(derivative=MADE, samples=LIKE, tolerance=EXACT)
def ones_like(o: Ops[Any], x: Tensor, /, *, dtype: DType | None = None) -> Tensor:
    """Ones of the shape of another tensor, and of its dtype unless one is said."""
    return full_like.over(o, x, value=1, dtype=dtype)


@composite(derivative=MADE, samples=LIKE, tolerance=EXACT)
def empty_like(o: Ops[Any], x: Tensor, /, *, dtype: DType | None = None) -> Tensor:
    """As `zeros_like`: see `empty`."""
    return full_like.over(o, x, value=0, dtype=dtype)


@composite(
    derivative=MADE,
    samples=Samples(dtypes=NUMBERS, params=lambda _, draw: {"value": draw((0, 1, 2))}),
    tolerance=EXACT,
)
def full_like(o: Ops[Any], x: Tensor, /, *, value: number, dtype: DType | None = None) -> Tensor:
    """One number in the shape and place of another tensor, and in its dtype unless one is said."""
    found = o.full(shape=tuple(x.shape), value=value, dtype=o.dtype(x) if dtype is None else dtype)
    place = o.place(x)
    return found if place is None else o.transfer(found, place=place)


# --- ranges and grids ---------------------------------------------------------------------------------------

SPACES = tuple(
    ((), {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype})
    for start, stop in ((0, 1), (2.5, -1), (3, 3))
    for num in (0, 1, 2, 5)
    for endpoint in (True, False)
    for dtype in FLOATS
)


@composite(derivative=MADE, samples=Samples(relation="cases", cases=SPACES), tolerance=EXACT)
def linspace(
    o: Ops[Any], /, *, start: number, stop: number, num: int, endpoint: bool = True, dtype: DType = "float64"
) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, which is the last one if `endpoint` is true."""
    if num < 0:
        raise ShapeError(f"linspace wants 0 numbers or more, given num={num}")
    wanted = np.dtype(dtype)
    return o.cast(np.linspace(start, stop, num, endpoint=endpoint, dtype=wanted), dtype=wanted)


SQUARES = tuple(
    ((), {"n_rows": n, "n_cols": m, "k": k, "dtype": dtype})
    for n, m in ((3, None), (2, 4), (4, 2), (0, 2), (0, None))
    for k in (0, 1, -1, 5)
    for dtype in ANY
)


@composite(derivative=MADE, samples=Samples(relation="cases", cases=SQUARES), tolerance=EXACT)
def eye(
    o: Ops[Any], /, *, n_rows: Extent, n_cols: Extent | None = None, k: int = 0, dtype: DType = "float64"
) -> Tensor:
    """A matrix of ones on its `k`-th diagonal (above the main one if positive) and zeros elsewhere."""
    rows, columns = _rows_and_columns(o, n_rows, n_rows if n_cols is None else n_cols, k)
    return o.cast(o.equal(rows, columns), dtype=np.dtype(dtype))


FAR = 1 << 62  # a diagonal that no matrix reaches, whose number and an extent's sum are an int64


def _rows_and_columns(o: Ops[Any], n: Any, m: Any, k: int) -> tuple[Any, Any]:
    """The row of each element, `k` further on, and its column: of shapes (n, 1) and (1, m)."""
    k = max(-FAR, min(k, FAR))
    rows = o.arange(start=k, stop=n + k, dtype=INT64)
    return o.expand_dims(rows, axis=1), o.expand_dims(o.arange(start=0, stop=m, dtype=INT64), axis=0)


GRIDS = tuple(
    (tuple(((n,), dtype) for n in extents), {"indexing": indexing})
    for extents in ((3,), (2, 3), (2, 1, 4), (0, 2))
    for indexing in ("xy", "ij")
    for dtype in ANY
)


@composite(samples=Samples(relation="cases", cases=GRIDS), tolerance=EXACT)
def meshgrid(o: Ops[Any], /, *xs: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates on a grid: of vectors of extents n₁ … nᵣ a tensor each, of shape (n₁ … nᵣ), ``"ij"``.

    With ``"xy"`` the first two axes are in each other's place, as in a picture.
    """
    if indexing not in ("xy", "ij"):
        raise OperatorError(f"indexing is 'xy' or 'ij', given {indexing!r}")
    for x in xs:
        if len(x.shape) > 1:
            raise ShapeError(f"a grid is made of vectors, given shape {tuple(x.shape)}")
    shape = tuple(x.shape[0] if x.shape else 1 for x in xs)
    turned = indexing == "xy" and len(xs) > 1
    found = []
    for i, x in enumerate(xs):
        at = 1 - i if turned and i < 2 else i
        whole = (shape[1], shape[0], *shape[2:]) if turned else shape
        line = o.reshape(x, shape=(*(1,) * at, shape[i], *(1,) * (len(xs) - at - 1)))
        found.append(o.broadcast_to(line, shape=whole))
    return tuple(found)


# --- parts of matrices --------------------------------------------------------------------------------------


def _diagonals(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"k": draw(range(-3, 4))}


PARTS = Samples(dtypes=ANY, params=_diagonals, min_rank=2)


def _matrix(x: Any, name: str) -> tuple[Any, Any]:
    if len(x.shape) < 2:
        raise ShapeError(f"{name} wants matrices (rank 2 or more), given shape {tuple(x.shape)}")
    return x.shape[-2], x.shape[-1]


@composite(samples=PARTS, tolerance=EXACT)
def tril(o: Ops[Any], x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices of the last two axes, zero above their `k`-th diagonal."""
    rows, columns = _rows_and_columns(o, *_matrix(x, "tril"), k)
    return o.where(o.greater_equal(rows, columns), x, o.full(shape=(), value=0, dtype=o.dtype(x)))


@composite(samples=PARTS, tolerance=EXACT)
def triu(o: Ops[Any], x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices of the last two axes, zero below their `k`-th diagonal."""
    rows, columns = _rows_and_columns(o, *_matrix(x, "triu"), k)
    return o.where(o.less_equal(rows, columns), x, o.full(shape=(), value=0, dtype=o.dtype(x)))


DIAGONALS = tuple(
    (((shape, dtype),), {"k": k}) for shape in ((3,), (0,), (2, 3), (3, 3)) for k in (0, 1, -2) for dtype in ANY
)


@composite(samples=Samples(relation="cases", cases=DIAGONALS), tolerance=EXACT)
def diag(o: Ops[Any], x: Tensor, /, *, k: int = 0) -> Tensor:
    """Of a vector the square matrix that has it as its `k`-th diagonal, of a matrix that diagonal: NumPy's."""
    if len(x.shape) == 2:
        return o.diagonal(x, offset=k)
    if len(x.shape) != 1:
        raise ShapeError(f"diag wants a vector or a matrix, given shape {tuple(x.shape)}; use diagonal")
    side = x.shape[0] + abs(k)
    return o.diagonal_matrix(x, shape=(side, side), offset=k)
