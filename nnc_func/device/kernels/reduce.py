"""Kernels that reduce: one factory for NumPy's methods, references with the casts that the standard wants."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_in, dtype_of
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import accumulated, floating
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.shapes import normalise_axes, reduced

INT8, FLOAT16, FLOAT32, FLOAT64 = map(np.dtype, ("int8", "float16", "float32", "float64"))


def by_method(method: str, dtype: Callable[..., Any] | None = None, **facts: Any) -> Kernel:
    """The reduction that is a method of NumPy's and CuPy's arrays, in the dtype of a rule if the method takes one."""

    def typed(x: Any) -> dict[str, Any]:
        return {} if dtype is None else {"dtype": dtype(x.dtype)}

    def compute(xp: Any, x: Any, **params: Any) -> Any:
        return xp.asarray(getattr(x, method)(**params, **typed(x)))

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
        if method == "min" and xp is not np:  # where CUB reduces, CuPy 14 takes the place of a minimum for its dtype
            outs[0][...] = arrays[0].min(**params)
        else:
            getattr(arrays[0], method)(**params, **typed(arrays[0]), out=outs[0])

    if method in REDUCES:
        facts["bound"] = partial(reducing, REDUCES[method])
    return Kernel(method, compute=compute, into=into, namespaces=NUMPY, strided=True, **facts)


REDUCES = {"sum": np.add, "max": np.maximum, "min": np.minimum}  # as NumPy's methods do


def reducing(function: Any, avals: Any, *, axis: Any, keepdims: bool, averaged: bool = False) -> Any:
    """A floating reduction as NumPy's methods do it, with nothing left to be asked at a call; see `Kernel.bound`."""
    x, out = avals
    if x.dtype != out.dtype or x.dtype not in (FLOAT32, FLOAT64) or not all(map(known, x.shape)) or 0 in x.shape:
        return None
    axes, dtype, reduce = normalise_axes(axis, len(x.shape)), out.dtype, function.reduce
    number = out.dtype.type(count(x.shape, axis))

    def into(x: Any, out: Any) -> None:
        reduce(x, axes, dtype, out, keepdims)
        if averaged:
            np.divide(out, number, out)

    return lambda *scratch: into


MANY = 256  # rows, from which on a GPU sums them as a product


def _sums_rows(avals: Any, *, axis: Any, keepdims: bool) -> bool:
    (x,) = avals
    axes = sorted(normalise_axes(axis, len(x.shape)))
    if x.dtype not in (FLOAT32, FLOAT64) or x.layout is not None or axes != [*range(len(axes))]:
        return False
    return 0 < len(axes) < len(x.shape) and MANY <= count(x.shape, axis) < math.prod(x.shape)


def of_rows(averaged: bool) -> Kernel:
    """Sums over leading axes on a GPU: ones times the rows, in the dtype of these, divided by their number or not.

    CuPy's reduction takes up to a hundred times as long: 3.6 ms for 0.03 of 200,704 rows of 64 numbers, on an H200.
    """

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: Any, keepdims: bool) -> None:
        (x,), (out,) = arrays, outs
        rows = x.reshape(-1, out.size)
        xp.matmul(xp.ones((1, len(rows)), x.dtype), rows, out=out.reshape(1, out.size))
        if averaged:
            xp.divide(out, len(rows), out)

    def compute(xp: Any, x: Any, **params: Any) -> Any:
        out = xp.empty(reduced(x.shape, **params), x.dtype)
        into(xp, (xp.ascontiguousarray(x),), (out,), (), **params)
        return out

    return Kernel(
        "of rows", compute=compute, into=into, accepts=_sums_rows, by_shape=True, namespaces=frozenset({"cupy"})
    )


def standard(name: str, dtype: Callable[..., Any] | None = None, **facts: Any) -> Kernel:
    """The standard's reduction, after a cast to the dtype of a rule."""

    def compute(xp: Any, x: Any, **params: Any) -> Any:
        wanted = dtype_of(x) if dtype is None else dtype(dtype_of(x))
        return getattr(xp, name)(converted(xp, x, wanted), **params)

    return reference(compute, **facts)


def ordered(x: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype that the standard can compare: its own, but for booleans."""
    return INT8 if x.kind == "b" else x


def count(shape: tuple[int, ...], axis: Any) -> int:
    """How many elements each element of the result is reduced from."""
    return math.prod(shape[i] for i in normalise_axes(axis, len(shape)))


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to sum in: float32 of float16, whose sums would often be too large for it."""
    return FLOAT32 if dtype == FLOAT16 else dtype


def missing(dtype: np.dtype[Any]) -> Any:
    """NaN in a floating dtype, in both parts of a complex one."""
    return complex(math.nan, math.nan) if dtype.kind == "c" else math.nan


def mean(xp: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """Reference: the mean of nothing is NaN, without a warning."""
    dtype, n = floating(dtype_of(x)), count(x.shape, axis)
    if n == 0:
        return xp.full(reduced(x.shape, axis=axis, keepdims=keepdims), missing(dtype), dtype=dtype_in(xp, dtype))
    total = xp.sum(converted(xp, x, widened(dtype)), axis=axis, keepdims=keepdims)
    return converted(xp, total / n, dtype)


def mean_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: Any, keepdims: bool) -> None:
    """Of `mean`: the sum, divided where it stands."""
    (x,), (out,) = arrays, outs
    n = count(x.shape, axis)
    if n == 0:
        out.fill(missing(out.dtype))
        return
    if out.dtype == FLOAT16:
        out[...] = x.sum(axis=axis, dtype=FLOAT32, keepdims=keepdims) / n
        return
    x.sum(axis=axis, dtype=out.dtype, keepdims=keepdims, out=out)
    xp.divide(out, n, out)


def logsumexp(xp: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """Reference: shifted by the maximum, so that nothing overflows; of nothing, or of infinities below, -inf."""
    x = converted(xp, x, floating(dtype_of(x)))
    shape = reduced(x.shape, axis=axis, keepdims=keepdims)
    if count(x.shape, axis) == 0 or math.prod(shape) == 0:
        return xp.full(shape, -math.inf, dtype=x.dtype)
    gone = normalise_axes(axis, len(x.shape))
    top = xp.max(x, axis=gone, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(xp.exp(x - top), axis=gone, keepdims=True)
    nothing = total == 0
    found = xp.log(xp.where(nothing, xp.ones_like(total), total)) + top
    return xp.reshape(xp.where(nothing, xp.full_like(found, -math.inf), found), shape)


def logsumexp_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: Any, keepdims: bool) -> None:
    """Of `logsumexp`, with scratch for the shifted exponentials and for the maximum."""
    (x,), (out,), (shifted, top) = arrays, outs, scratch
    if count(x.shape, axis) == 0 or out.size == 0:
        out.fill(-math.inf)
        return
    gone = normalise_axes(axis, x.ndim)
    x.max(axis=gone, keepdims=True, out=top)
    xp.copyto(top, 0, where=~xp.isfinite(top))
    xp.subtract(x, top, shifted)
    xp.exp(shifted, shifted)
    shifted.sum(axis=gone, keepdims=keepdims, out=out)
    with np.errstate(divide="ignore"):  # of infinities below: log(0) is the right answer
        xp.log(out, out)
    xp.add(out, top.reshape(out.shape), out)


def logsumexp_scratch(avals: Any, *, axis: Any, keepdims: bool) -> tuple[tuple[Any, Any], ...]:
    """Shifted exponentials, maxima."""
    (x,) = avals
    dtype = floating(x.dtype)
    return (x.shape, dtype), (reduced(x.shape, axis=axis, keepdims=True), dtype)


def cumulative_sum(xp: Any, x: Any, *, axis: int) -> Any:
    """Reference."""
    return xp.cumulative_sum(converted(xp, x, accumulated(dtype_of(x))), axis=axis)
