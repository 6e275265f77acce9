"""Kernels of matrix products, fed with transposed views that BLAS reads without a copy.

First, what kernels of convolution, pooling, losses and random draws share with them: small steps, and windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.device.kernels.move import converted, dtype_of
from nnc_func.device.kernels.onednn import product_kernels
from nnc_func.errors import ShapeError
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.shapes import normalise_axis

NUMPY_LIKE = frozenset({"numpy", "cupy"})


Arrays = tuple[Any, ...]
Scratch = tuple[tuple[tuple[int, ...], Any], ...]
Pair = tuple[int, int]
Part = tuple[int, slice, slice]


# --- shared steps ------------------------------------------------------------------------------------


def allocating(
    into: Callable[..., None], result: Callable[..., tuple[Any, Any]], scratch: Callable[..., Scratch] | None = None
) -> Callable[..., Any]:
    """The planned kernel as one that returns a new array: eager and planned results are the same bits.

    ``result(*arrays, **params)`` gives the result's shape and dtype.
    """

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        shape, dtype = result(*arrays, **params)
        out = xp.empty(shape, dtype=dtype)
        wanted = scratch(arrays, **params) if scratch is not None else ()
        into(xp, arrays, (out,), tuple(xp.empty(s, dtype=d) for s, d in wanted), **params)
        return out

    return compute


def spans(count: int, step: int) -> Iterator[slice]:
    """Consecutive runs of `step` elements, the last one shorter if need be."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def common(xp: Any, *arrays: Any) -> Arrays:
    """The arrays, all of their promoted dtype."""
    if all(a.dtype == arrays[0].dtype for a in arrays):
        return arrays
    dtype = np.result_type(*map(dtype_of, arrays))
    return tuple(converted(xp, a, dtype) for a in arrays)


def beside(xp: Any, like: Any) -> dict[str, Any]:
    """Where to create arrays: on the device of another one, in a namespace that has several."""
    return {"device": like.device} if xp.__name__.partition(".")[0] == "array_api_strict" else {}


def zeros(xp: Any, shape: tuple[int, ...], like: Any) -> Any:
    """Zeros of that shape, with dtype and device of an array."""
    return xp.zeros(shape, dtype=like.dtype, **beside(xp, like))


def blas_ready(xp: Any, x: Any) -> Any:
    """Itself if BLAS can read its last two axes, else a contiguous copy.

    A broadcast operand has strides of zero; NumPy multiplies such ones without BLAS, a hundred times slower.
    """
    if x.dtype.kind not in "fc" or x.size == 0:
        return x
    item, (rows, columns) = x.dtype.itemsize, x.strides[-2:]
    good = (columns == item and rows >= item) or (rows == item and columns >= item)
    return x if good or 1 in x.shape[-2:] else xp.ascontiguousarray(x)


# --- windows over images --------------------------------------------------------------------


def pair(value: Any) -> Any:
    """The same number for both axes, or a number each."""
    return (value, value) if isinstance(value, int) else value


@frozen
class Windows:
    """Windows over the two spatial axes of images, all in numbers; every field has an entry for each axis."""

    inputs: Pair
    outputs: Pair
    size: Pair
    stride: Pair
    dilation: Pair
    before: Pair
    after: Pair

    def offsets(self) -> Iterator[tuple[int, int, tuple[slice, slice], tuple[slice, slice]]]:
        """Row and column in the window, the windows that have an element of the images there, and these elements.

        Windows in which that element is padding are left out; offsets of which nothing is left are skipped.
        """
        rows, columns = self.along(0), self.along(1)
        for i, out_row, in_row in rows:
            for j, out_column, in_column in columns:
                yield i, j, (out_row, out_column), (in_row, in_column)

    def whole(self, axis: int) -> bool:
        """Every window lies within the images: no padding is seen."""
        n, count, k = self.inputs[axis], self.outputs[axis], self.size[axis]
        last = (count - 1) * self.stride[axis] + self.dilation[axis] * (k - 1) - self.before[axis]
        return self.before[axis] == 0 and last < n

    def tiles(self, axis: int) -> bool:
        """Every element lies in exactly one window."""
        exact = self.size[axis] == self.stride[axis] and self.outputs[axis] * self.stride[axis] == self.inputs[axis]
        return exact and self.dilation[axis] == 1 and self.before[axis] == 0

    def along(self, axis: int) -> list[Part]:
        """Offsets along one axis, with the windows that have an element there, and these elements."""
        n, count, step = self.inputs[axis], self.outputs[axis], self.stride[axis]
        found = []
        for k in range(self.size[axis]):
            shift = k * self.dilation[axis] - self.before[axis]
            low, high = max(0, -(shift // step)), min(count, (n - 1 - shift) // step + 1)
            if low < high:
                start = low * step + shift
                found.append((k, slice(low, high), slice(start, start + (high - low - 1) * step + 1, step)))
        return found


@lru_cache(maxsize=4096)
def windows_of(inputs: Pair, size: Pair, stride: Any, padding: Any, dilation: Any = (1, 1)) -> Windows:
    """The windows of that size over images of these extents.

    Examples
    --------
    >>> windows_of((5, 5), (2, 2), 2, "SAME").after
    (1, 1)
    """
    stride, dilation = pair(stride), pair(dilation)
    before, after, outputs = [], [], []
    for axis, (n, k, s, d) in enumerate(zip(inputs, size, stride, dilation, strict=True)):
        span = d * (k - 1) + 1
        if padding == "SAME":
            total = max((-(-n // s) - 1) * s + span - n, 0) if n else 0
            low, high = total // 2, total - total // 2
        else:
            low, high = (0, 0) if padding == "VALID" else padding[axis]
        before.append(low)
        after.append(high)
        outputs.append((n + low + high - span) // s + 1 if n or padding != "SAME" else 0)
    return Windows(inputs, tuple(outputs), size, stride, dilation, tuple(before), tuple(after))  # type: ignore[arg-type]


def last_channels(x: Any, data_format: str) -> Any:
    """The images with channels last: a view, or themselves."""
    return x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x


def nhwc(xp: Any, x: Any, data_format: str) -> Any:
    """The images with channels last, in any namespace."""
    return xp.permute_dims(x, (0, 2, 3, 1)) if data_format == "NCHW" else x


def from_nhwc(xp: Any, x: Any, data_format: str) -> Any:
    """Images with channels last in that data format, in any namespace."""
    return xp.permute_dims(x, (0, 3, 1, 2)) if data_format == "NCHW" else x


# --- matmul ------------------------------------------------------------------------------------------


def multiply_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, transpose_a: bool, transpose_b: bool
) -> None:
    """The matrix product into its place, by BLAS."""
    a, b = arrays
    (out,) = outs
    if a.ndim > 2 and b.ndim == 2 and not transpose_a and a.flags.c_contiguous and out.flags.c_contiguous:
        # All batches share b: they are rows of one product, which is faster than many small ones.
        a, out = a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), out.reshape(math.prod(out.shape[:-1]), out.shape[-1])
    a = a if a.flags.forc else blas_ready(xp, a)
    b = b if b.flags.forc else blas_ready(xp, b)
    xp.matmul(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b, out=out)


def product(avals: Any, *, transpose_a: bool, transpose_b: bool) -> Callable[[], Callable[[Any, Any, Any], None]]:
    """As `multiply_into`, of two operands: what makes such a function, of no scratch."""
    matmul, many = np.matmul, avals[0].ndim > 2

    def run(a: Any, b: Any, out: Any) -> None:
        if many:
            multiply_into(np, (a, b), (out,), (), transpose_a=transpose_a, transpose_b=transpose_b)
            return
        a = a if a.flags.forc else blas_ready(np, a)
        b = b if b.flags.forc else blas_ready(np, b)
        matmul(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b, out=out)

    return lambda: run


def _matmul_result(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> tuple[Any, Any]:
    rows, columns = a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1]
    batch = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*batch, rows, columns), np.result_type(a.dtype, b.dtype)


def _matmul_reference(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    a, b = common(xp, a, b)
    return xp.matmul(xp.matrix_transpose(a) if transpose_a else a, xp.matrix_transpose(b) if transpose_b else b)


def _plain(avals: Arrays, *, transpose_a: bool = False, transpose_b: bool = False) -> bool:
    return not transpose_a and not transpose_b


def _transposed(avals: Arrays, *, transpose_a: bool = False, transpose_b: bool = False) -> bool:
    return transpose_a or transpose_b


def _packed_scratch(avals: Arrays, *, transpose_a: bool, transpose_b: bool) -> Scratch:
    return tuple(
        ((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
        for x, transposed in zip(avals, (transpose_a, transpose_b), strict=True)
        if transposed
    )


def _packed_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, transpose_a: bool, transpose_b: bool
) -> None:
    packed = iter(scratch)
    given = []
    for x, transposed in zip(arrays, (transpose_a, transpose_b), strict=True):
        if transposed:
            copy = next(packed)
            xp.copyto(copy, x.swapaxes(-1, -2))
            x = copy
        given.append(x)
    multiply_into(xp, tuple(given), outs, (), transpose_a=False, transpose_b=False)


def _products(*kernels: Kernel) -> tuple[Kernel, ...]:
    """On NumPy they cannot fail where everything is contiguous; CuPy's products take memory of their own."""
    numpy = [evolve(k, namespaces=frozenset({"numpy"}), infallible=True, copies_strided=True) for k in kernels]
    return *numpy, *(evolve(k, name=f"{k.name} on cupy", namespaces=frozenset({"cupy"})) for k in kernels)


_BEFORE, _AFTER = product_kernels(_matmul_result)
MATMUL = (
    *_BEFORE,
    *_products(
        Kernel(
            "blas", compute=allocating(multiply_into, _matmul_result), into=multiply_into, bound=product, strided=True
        ),
        # nothing before BLAS: the quickest to call; slow where an operand is broadcast
        Kernel("matmul", ufunc="matmul", accepts=_plain),
        Kernel(
            "blas, packed", compute=allocating(_packed_into, _matmul_result, _packed_scratch), into=_packed_into,
            scratch=_packed_scratch, accepts=_transposed,
        ),
    ),
    *_AFTER,
    reference(_matmul_reference, multiplies=True),
)  # fmt: skip


# --- tensordot ---------------------------------------------------------------------------------------


def contracted_axes(rank_a: int, rank_b: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of each argument that tensordot sums over, pair by pair, counted from the front.

    Raises
    ------
    ShapeError
        `axes` is neither a number of axes nor a pair, names an axis twice, or one that is not there.
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ShapeError(f"tensordot over {axes} axes of tensors of ranks {rank_a} and {rank_b}: not that many")
        return tuple(range(rank_a - axes, rank_a)), tuple(range(axes))
    pairs = [(given,) if isinstance(given, int) else given for given in axes] if isinstance(axes, tuple) else []
    if len(pairs) != 2 or not all(isinstance(p, tuple) and all(isinstance(i, int) for i in p) for p in pairs):
        raise ShapeError(f"tensordot wants axes as a number or as a pair (axes of a, axes of b), given {axes!r}")
    left, right = (
        tuple(normalise_axis(i, rank) for i in given) for given, rank in zip(pairs, (rank_a, rank_b), strict=True)
    )
    if len(left) != len(right) or len(set(left)) != len(left) or len(set(right)) != len(right):
        raise ShapeError(f"tensordot wants as many axes of a as of b, each named once, given {axes!r}")
    return left, right


def _tensordot_result(a: Any, b: Any, *, axes: Any) -> tuple[Any, Any]:
    left, right = contracted_axes(a.ndim, b.ndim, axes)
    rows = (n for i, n in enumerate(a.shape) if i not in left)
    columns = (n for j, n in enumerate(b.shape) if j not in right)
    return (*rows, *columns), np.result_type(a.dtype, b.dtype)


def _as_matrices(xp: Any, a: Any, b: Any, *, axes: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Both as matrices whose product is the contraction, and the shape of that."""
    left, right = contracted_axes(a.ndim, b.ndim, axes)
    kept_a = [i for i in range(a.ndim) if i not in left]
    kept_b = [j for j in range(b.ndim) if j not in right]
    rows, columns = math.prod(a.shape[i] for i in kept_a), math.prod(b.shape[j] for j in kept_b)
    inner = math.prod(a.shape[i] for i in left)
    shape = (*(a.shape[i] for i in kept_a), *(b.shape[j] for j in kept_b))
    a = xp.reshape(xp.permute_dims(a, (*kept_a, *left)), (rows, inner))
    b = xp.reshape(xp.permute_dims(b, (*right, *kept_b)), (inner, columns))
    return a, b, shape


def _tensordot_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axes: Any) -> None:
    a, b, _ = _as_matrices(xp, *arrays, axes=axes)
    xp.matmul(blas_ready(xp, a), blas_ready(xp, b), out=outs[0].reshape(a.shape[0], b.shape[1]))


def _tensordot_reference(xp: Any, a: Any, b: Any, *, axes: Any) -> Any:
    a, b, shape = _as_matrices(xp, *common(xp, a, b), axes=axes)  # not tensordot: NumPy's may take infinity * 0 for 0
    return xp.reshape(xp.matmul(a, b), shape)


TENSORDOT = (
    *_products(Kernel("blas", compute=allocating(_tensordot_into, _tensordot_result), into=_tensordot_into)),
    reference(_tensordot_reference, multiplies=True),
)
