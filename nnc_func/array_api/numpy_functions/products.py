"""NumPy's functions of vectors and matrices: products, norms, diagonals, equations, transforms of two axes."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import product
from nnc_func.facets.dtypes import kind_of

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _dot(xp: ArrayNamespace, /, *, a: Any, b: Any) -> Any:
    a, b = map(xp.asarray, (a, b))
    if a.ndim == 0 or b.ndim == 0:
        return xp.multiply(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return xp.matmul(a, b)
    return xp.tensordot(a, b, axes=((-1,), (-2 if b.ndim > 1 else -1,)))


def _inner(xp: ArrayNamespace, /, *, a: Any, b: Any) -> Any:
    a, b = map(xp.asarray, (a, b))
    return xp.multiply(a, b) if a.ndim == 0 or b.ndim == 0 else xp.tensordot(a, b, axes=((-1,), (-1,)))


def _vdot(xp: ArrayNamespace, /, *, a: Any, b: Any) -> Any:
    return xp.vecdot(flat(xp, a), flat(xp, b))


def _outer(xp: ArrayNamespace, /, *, a: Any, b: Any) -> Any:
    return xp.linalg.outer(flat(xp, a), flat(xp, b))


def _cross(
    xp: ArrayNamespace, /, *, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    found = xp.ops.cross(xp.moveaxis(xp.asarray(a), axisa, -1), xp.moveaxis(xp.asarray(b), axisb, -1), axis=-1)
    return xp.moveaxis(found, -1, axisc)


def _einsum(xp: ArrayNamespace, /, *operands: Any, optimize: Any = False) -> Any:
    subscripts, *tensors = operands
    if not isinstance(subscripts, str):
        raise OperatorError(
            "numpy.einsum of tensors wants its subscripts as text first: numpy.einsum('ij,jk->ik', a, b)"
        )
    return xp.ops.einsum(*tensors, subscripts=subscripts)


def _einsum_path(xp: ArrayNamespace, /, *operands: Any, optimize: Any = "greedy") -> Any:
    like: list[Any] = [x if isinstance(x, str) else np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in operands]
    return np.einsum_path(*like, optimize=optimize)


# --- diagonals ------------------------------------------------------------------------------------------------


def _diag(xp: ArrayNamespace, /, *, v: Any, k: int = 0) -> Any:
    return xp.ops.diag(xp.asarray(v), k=k)


def _diagflat(xp: ArrayNamespace, /, *, v: Any, k: int = 0) -> Any:
    return xp.ops.diag(flat(xp, v), k=k)


def _diagonal(xp: ArrayNamespace, /, *, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return xp.linalg.diagonal(xp.moveaxis(xp.asarray(a), (axis1, axis2), (-2, -1)), offset=offset)


def _trace(xp: ArrayNamespace, /, *, a: Any, dtype: Any = None, **which: int) -> Any:
    return xp.sum(_diagonal(xp, a=a, **which), axis=-1, dtype=dtype)


# --- matrices -------------------------------------------------------------------------------------------------


def _norm(xp: ArrayNamespace, /, *, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = xp.asarray(x)
    over = tuple(range(x.ndim)) if axis is None else axis
    if ord is not None and isinstance(over, tuple) and len(over) == 2:
        moved = xp.moveaxis(x, over, (-2, -1))
        found = xp.linalg.matrix_norm(moved, ord=ord, keepdims=keepdims)
        return xp.moveaxis(found, (-2, -1), over) if keepdims else found
    if ord is not None and axis is None and x.ndim > 2:
        raise ShapeError(f"norm with ord={ord!r} wants a vector or a matrix, given shape {x.shape}")
    return xp.linalg.vector_norm(x, axis=over, keepdims=keepdims, ord=2 if ord is None else ord)


def _cond(xp: ArrayNamespace, /, *, x: Any, p: Any = None) -> Any:
    if p is None or p in (2, -2):
        s = xp.linalg.svdvals(x)
        largest, smallest = s[..., 0], s[..., -1]
        return xp.divide(smallest, largest) if p == -2 else xp.divide(largest, smallest)
    norms = [xp.linalg.matrix_norm(each, ord=p) for each in (xp.asarray(x), xp.linalg.inv(x))]
    return xp.multiply(*norms)


def _lstsq(xp: ArrayNamespace, /, *, a: Any, b: Any, rcond: Any = None) -> Any:
    a, b = xp.asarray(a), xp.asarray(b)
    if a.ndim != 2:
        raise ShapeError(f"numpy.linalg.lstsq wants a matrix, given shape {a.shape}; stack.ops.lstsq takes batches")
    rtol = float(np.finfo(a.dtype if kind_of(a.dtype) in "fc" else np.float64).eps)
    rtol = rtol * max(a.shape) if rcond is None else rtol if rcond == -1 else rcond
    found = xp.ops.lstsq(a, b, rtol=rtol)
    s = xp.linalg.svdvals(a)
    rank = int(xp.count_nonzero(xp.greater(s, rtol * xp.max(s)))) if min(a.shape) else 0
    beyond = xp.subtract(b, xp.matmul(a, found))
    squares = xp.sum(xp.square(xp.abs(beyond)), axis=0)
    full = rank == a.shape[1] < a.shape[0]
    return found, xp.reshape(squares, (-1,)) if full else xp.zeros((0,), dtype=squares.dtype), np.int32(rank), s


def _multi_dot(xp: ArrayNamespace, /, *, arrays: Any) -> Any:
    return reduce(xp.matmul, [xp.asarray(x) for x in arrays])


def _tensorinv(xp: ArrayNamespace, /, *, a: Any, ind: int = 2) -> Any:
    if ind < 1:
        raise ShapeError(f"tensorinv: ind is positive, given {ind}")
    a = xp.asarray(a)
    matrix = xp.reshape(a, (product(tuple(a.shape[:ind])), -1))
    return xp.reshape(xp.linalg.inv(matrix), (*a.shape[ind:], *a.shape[:ind]))


def _tensorsolve(xp: ArrayNamespace, /, *, a: Any, b: Any, axes: Any = None) -> Any:
    a, b = xp.asarray(a), xp.asarray(b)
    if axes is not None:
        last = [axis % a.ndim for axis in axes]
        a = xp.permute_dims(a, (*(i for i in range(a.ndim) if i not in last), *last))
    shape = tuple(a.shape[b.ndim :])
    matrix = xp.reshape(a, (-1, product(shape)))
    return xp.reshape(xp.linalg.solve(matrix, flat(xp, b)), shape)


def _of_two_axes(name: str) -> Callable[..., Any]:
    def transform(xp: ArrayNamespace, /, *, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
        return getattr(xp.fft, name)(a, s=s, axes=axes, norm=norm or "backward")

    return transform


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "dot": _dot, "inner": _inner, "vdot": _vdot, "outer": _outer, "cross": _cross, "einsum": _einsum,
    "einsum_path": _einsum_path, "diag": _diag, "diagflat": _diagflat, "diagonal": _diagonal, "trace": _trace,
    "linalg.norm": _norm, "linalg.cond": _cond, "linalg.lstsq": _lstsq, "linalg.multi_dot": _multi_dot,
    "linalg.tensorinv": _tensorinv, "linalg.tensorsolve": _tensorsolve,
    **{f"fft.{name}2": _of_two_axes(f"{name}n") for name in ("fft", "ifft", "rfft", "irfft")},
}  # fmt: skip
