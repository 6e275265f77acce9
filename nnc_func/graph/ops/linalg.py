"""Operators of linear algebra: matrix products, batched, contractions over any axes, diagonals of matrices.

Transposition is a parameter, so that derivatives and rewrites need no nodes for it and BLAS no copies.
"""

from __future__ import annotations

import math
from typing import Any

from nnc_func.device.kernels import decompositions as diagonals
from nnc_func.device.kernels import linalg as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.errors import ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import Bilinear, Linear
from nnc_func.facets.dims import known, product, same_extent
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import distributes_over, keeps_nonnegative, odd
from nnc_func.facets.onnx import matrices as onnx_matrices
from nnc_func.facets.samples import ANY, EXACT, FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT, broadcast
from nnc_func.facets.views import Cost, free
from nnc_func.graph.ops.families import Nested, Sizes, Tensor
from nnc_func.op import operator

# --- matmul ------------------------------------------------------------------------------------------


def _matmul_shape(a: ShapeT, b: ShapeT, *, transpose_a: bool, transpose_b: bool) -> ShapeT:
    if len(a) < 2 or len(b) < 2:
        raise ShapeError(
            f"matmul wants matrices (rank 2 or more), given shapes {a} and {b}; "
            "make a vector a matrix of one row or column with expand_dims"
        )
    rows, inner = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if transpose_b else (b[-2], b[-1])
    if not same_extent(inner, other):
        left, right = "transposed " * transpose_a, "transposed " * transpose_b
        raise ShapeError(
            f"matmul wants as many columns as rows, given {left}{a} with {inner} columns and {right}{b} with "
            f"{other} rows; transpose_a and transpose_b swap the last two axes of an argument"
        )
    return (*broadcast(a[:-2], b[:-2]), rows, columns)


def _matmul_left(o: Any, g: Tensor, a: Tensor, b: Tensor, *, transpose_a: bool, transpose_b: bool) -> Tensor:
    if transpose_a:
        found = o.matmul(b, g, transpose_a=transpose_b, transpose_b=True)
    else:
        found = o.matmul(g, b, transpose_b=not transpose_b)
    return o.sum_to(found, a.shape)


def _matmul_right(o: Any, g: Tensor, a: Tensor, b: Tensor, *, transpose_a: bool, transpose_b: bool) -> Tensor:
    if len(b.shape) == 2 and len(a.shape) > 2 and not transpose_a:  # one long product instead of a sum of many
        a = o.reshape(a, shape=(product(a.shape[:-1]), a.shape[-1]))
        g = o.reshape(g, shape=(product(g.shape[:-1]), g.shape[-1]))
    if transpose_b:
        found = o.matmul(g, a, transpose_a=True, transpose_b=transpose_a)
    else:
        found = o.matmul(a, g, transpose_a=not transpose_a)
    return o.sum_to(found, b.shape)


def _matmul_cost(args: tuple[Any, ...], results: tuple[Any, ...], *, transpose_a: bool, **_: Any) -> Cost:
    return Cost(2 * results[0].size * args[0].shape[-2 if transpose_a else -1], threaded=True)


@operator(
    shape=_matmul_shape, dtype=dtypes.numeric, kernels=kernels.MATMUL,
    derivative=Bilinear(_matmul_left, _matmul_right), cost=_matmul_cost, onnx=onnx_matrices.matmul,
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", dtypes=(*FLOATS, "int32", "int64"), cases=(
        (((3, 4), (4, 2)), {}),
        (((4, 3), (4, 2)), {"transpose_a": True}),
        (((3, 4), (2, 4)), {"transpose_b": True}),
        (((4, 3), (2, 4)), {"transpose_a": True, "transpose_b": True}),
        (((2, 3, 4), (2, 4, 5)), {}),
        (((2, 3, 4), (4, 5)), {}),
        (((2, 2, 3, 4), (5, 4)), {"transpose_b": True}),
        (((4, 3), (2, 4, 5)), {"transpose_a": True}),
        (((2, 4, 3), (4, 5)), {"transpose_a": True}),
        (((2, 1, 3, 4), (3, 4, 2)), {}),
        (((2, 1, 4, 3), (3, 2, 4)), {"transpose_a": True, "transpose_b": True}),
        (((0, 3, 4), (4, 2)), {}),
        (((3, 0), (0, 2)), {}),
        (((1, 1), (1, 1)), {}),
    )),
    laws=(odd.rounded, keeps_nonnegative, *(distributes_over(n).of("", nearly="fc") for n in ("add", "subtract"))),
)  # fmt: skip
def matmul(a: Tensor, b: Tensor, /, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Matrix product of the last two axes; axes before them are batches and broadcast.

    Shapes: ``(…, m, k)`` and ``(…, k, n)`` give ``(…, m, n)``. With `transpose_a` the first argument is given as
    ``(…, k, m)``, with `transpose_b` the second as ``(…, n, k)``; nothing is copied for that. Both arguments have
    rank 2 at least: vectors are not promoted.
    """


# --- tensordot ---------------------------------------------------------------------------------------


def _tensordot_shape(a: ShapeT, b: ShapeT, *, axes: Any) -> ShapeT:
    left, right = kernels.contracted_axes(len(a), len(b), axes)
    for i, j in zip(left, right, strict=True):
        if not same_extent(a[i], b[j]):
            raise ShapeError(
                f"tensordot sums over axis {i} of {a} and axis {j} of {b}, but {a[i]} is not {b[j]}; given axes={axes}"
            )
    return (*(n for i, n in enumerate(a) if i not in left), *(n for j, n in enumerate(b) if j not in right))


def _tensordot_left(o: Any, g: Tensor, a: Tensor, b: Tensor, *, axes: Any) -> Tensor:
    rank, other = len(a.shape), len(b.shape)
    left, right = kernels.contracted_axes(rank, other, axes)
    kept_a = [i for i in range(rank) if i not in left]
    kept_b = [j for j in range(other) if j not in right]
    found = o.tensordot(g, b, axes=(tuple(range(len(kept_a), len(kept_a) + len(kept_b))), tuple(kept_b)))
    return _restored(o, found, [*kept_a, *(left[right.index(j)] for j in sorted(right))])


def _tensordot_right(o: Any, g: Tensor, a: Tensor, b: Tensor, *, axes: Any) -> Tensor:
    rank, other = len(a.shape), len(b.shape)
    left, right = kernels.contracted_axes(rank, other, axes)
    kept_a = [i for i in range(rank) if i not in left]
    kept_b = [j for j in range(other) if j not in right]
    found = o.tensordot(a, g, axes=(tuple(kept_a), tuple(range(len(kept_a)))))
    return _restored(o, found, [*(right[left.index(i)] for i in sorted(left)), *kept_b])


def _restored(o: Any, x: Tensor, goes_to: list[int]) -> Tensor:
    """With its axis i moved to position ``goes_to[i]``."""
    if goes_to == sorted(goes_to):
        return x
    return o.permute_dims(x, axes=tuple(goes_to.index(i) for i in range(len(goes_to))))


def _tensordot_cost(args: tuple[Any, ...], results: tuple[Any, ...], *, axes: Any) -> Cost:
    left, _ = kernels.contracted_axes(len(args[0].shape), len(args[1].shape), axes)
    return Cost(2 * results[0].size * math.prod(args[0].shape[i] for i in left), threaded=True)


@operator(
    shape=_tensordot_shape, dtype=dtypes.numeric, kernels=kernels.TENSORDOT,
    derivative=Bilinear(_tensordot_left, _tensordot_right), cost=_tensordot_cost, tolerance=Tolerance(16.0),
    onnx=onnx_matrices.tensordot,
    samples=Samples(relation="cases", dtypes=(*FLOATS, "int32", "int64"), cases=(
        (((3, 4), (4, 2)), {"axes": 1}),
        (((2, 3, 4), (3, 4, 5)), {"axes": 2}),
        (((2, 3), (4,)), {"axes": 0}),
        (((2, 3, 4), (4, 3, 5)), {"axes": ((1, 2), (1, 0))}),
        (((2, 3, 4), (5, 4, 3, 2)), {"axes": ((-1, 0), (1, -1))}),
        (((3, 2), (3, 4)), {"axes": (0, 0)}),
        (((2, 3), (2, 3)), {"axes": 2 * ((0, 1),)}),
        (((0, 3), (3, 2)), {"axes": 1}),
    )),
)  # fmt: skip
def tensordot(a: Tensor, b: Tensor, /, *, axes: Nested) -> Tensor:
    """Sum of products over pairs of axes, one of each argument.

    `axes` is a number n, for the last n axes of `a` with the first n of `b`, or a pair ``(axes of a, axes of b)``
    of equally long tuples. The result has the other axes of `a`, then the other axes of `b`, in their order.
    """


# --- diagonals ---------------------------------------------------------------------------------------


def _diagonal_length(rows: Any, columns: Any, offset: int) -> Any:
    if rows == columns and not known(rows):
        return rows - abs(offset)
    if known(rows) and known(columns):
        return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    raise ShapeError(f"the length of the diagonal of a matrix with {rows} rows and {columns} columns is not known")


def _diagonal_shape(x: ShapeT, *, offset: int) -> ShapeT:
    if len(x) < 2:
        raise ShapeError(f"wanted matrices (rank 2 or more), given shape {x}")
    return (*x[:-2], _diagonal_length(x[-2], x[-1], offset))


def _placed_shape(x: ShapeT, *, shape: Any, offset: int) -> ShapeT:
    if not x or len(shape) != 2:
        raise ShapeError(f"diagonal_matrix wants vectors and the shape of a matrix, given {x} and shape={shape}")
    if not same_extent(x[-1], _diagonal_length(shape[0], shape[1], offset)):
        raise ShapeError(f"diagonal {offset} of a matrix of shape {shape} does not have the {x[-1]} elements of {x}")
    return (*x[:-1], *shape)


def _placing(into: Any, result: Any, compute: Any) -> tuple[Kernel, ...]:
    """On NumPy and CuPy through a strided view, elsewhere as the standard has it."""
    made = kernels.allocating(into, lambda x, **params: (result(x.shape, **params), x.dtype))
    strided = Kernel("strided", compute=made, into=into, namespaces=NUMPY, infallible=True, strided=True)
    return strided, reference(compute, infallible=True)


@operator(
    shape=_diagonal_shape, dtype=dtypes.first, cost=free, tolerance=EXACT,
    kernels=_placing(diagonals.diagonal_into, _diagonal_shape, diagonals.diagonal),
    derivative=Linear(lambda o, g, x, *, offset: o.diagonal_matrix(g, shape=x.shape[-2:], offset=offset)),
    onnx=onnx_matrices.diagonal,
    samples=Samples(relation="cases", dtypes=ANY, cases=tuple(
        ((shape,), {"offset": offset})
        for shape in ((3, 3), (2, 3), (2, 4, 2), (0, 2, 2), (0, 3), (1, 1)) for offset in (0, 1, -1)
    )),
)  # fmt: skip
def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of the last two axes: of ``(…, m, n)`` the elements whose column is their row plus `offset`."""


@operator(
    shape=_placed_shape, dtype=dtypes.first, cost=free, tolerance=EXACT,
    kernels=_placing(diagonals.diagonal_matrix_into, _placed_shape, diagonals.diagonal_matrix),
    derivative=Linear(lambda o, g, x, *, shape, offset: o.diagonal(g, offset=offset)),
    onnx=onnx_matrices.diagonal_matrix,
    samples=Samples(relation="cases", dtypes=ANY, cases=tuple(
        (((*batch, _diagonal_length(shape[0], shape[1], offset)),), {"shape": shape, "offset": offset})
        for batch, shape in (((), (3, 3)), ((2,), (2, 3)), ((0,), (2, 2)), ((), (4, 2)), ((), (0, 3)))
        for offset in (0, 1, -1)
    )),
)  # fmt: skip
def diagonal_matrix(x: Tensor, /, *, shape: Sizes, offset: int = 0) -> Tensor:
    """Matrices of that shape that have vectors ``(…, n)`` on a diagonal, and zeros elsewhere.

    It undoes `diagonal`: the elements stand where the column is the row plus `offset`.
    """
