"""Kernels that go along an axis from one element to the next: NumPy's `accumulate`, else step by step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.facets.dtypes import accumulated
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.shapes import normalise_axis

HOST = frozenset({"numpy"})


def accumulating(ufunc: str, dtype: Callable[..., Any]) -> Kernel:
    """The kernel that is a universal function's `accumulate`, in the dtype of a rule."""

    def compute(xp: Any, x: Any, *, axis: int) -> Any:
        return getattr(xp, ufunc).accumulate(x, axis=axis, dtype=dtype(x.dtype))

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
        getattr(xp, ufunc).accumulate(arrays[0], axis=axis, dtype=outs[0].dtype, out=outs[0])

    name = f"{ufunc}.accumulate"
    return Kernel(name, compute=compute, into=into, namespaces=HOST, infallible=True, strided=True)


def _places(x: Any, axis: int) -> list[tuple[Any, ...]]:
    at = normalise_axis(axis, x.ndim)
    return [(*(slice(None),) * at, i, ...) for i in range(x.shape[at])]


def stepping(combine: Callable[..., Any], dtype: Callable[..., Any]) -> Callable[..., Any]:
    """The reference: each element combined with the result before it."""

    def compute(xp: Any, x: Any, *, axis: int) -> Any:
        out = xp.asarray(converted(xp, x, dtype(dtype_of(x))), copy=True)
        places = _places(out, axis)
        for before, here in pairwise(places):
            out[here] = combine(xp, out[before], out[here])
        return out

    return compute


def cumulative_prod(xp: Any, x: Any, *, axis: int) -> Any:
    """Reference."""
    return xp.cumulative_prod(converted(xp, x, accumulated(dtype_of(x))), axis=axis)


def larger(xp: Any, a: Any, b: Any) -> Any:
    """Of two, NaN if either is."""
    return xp.maximum(a, b)


def smaller(xp: Any, a: Any, b: Any) -> Any:
    """Of two, NaN if either is."""
    return xp.minimum(a, b)


def logaddexp(xp: Any, a: Any, b: Any) -> Any:
    """Of two, infinities as they should be."""
    return xp.logaddexp(a, b)


def linear_recurrence(xp: Any, a: Any, b: Any, *, axis: int) -> Any:
    """Reference."""
    common = np.result_type(dtype_of(a), dtype_of(b))
    a, out = converted(xp, a, common), xp.asarray(converted(xp, b, common), copy=True)
    places = _places(out, axis)
    for before, here in pairwise(places):
        out[here] = out[here] + a[here] * out[before]
    return out


def linear_recurrence_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """Of `linear_recurrence`, with two calls a step."""
    (a, b), (out,) = arrays, outs
    at = normalise_axis(axis, out.ndim)
    front = (at, *(i for i in range(out.ndim) if i != at))
    a, b, out = a.transpose(front), b.transpose(front), out.transpose(front)
    if not out.shape[0]:
        return
    xp.copyto(out[0:1], b[0:1])
    for i in range(1, out.shape[0]):
        here = out[i : i + 1]
        xp.multiply(a[i : i + 1], out[i - 1 : i], here)
        xp.add(here, b[i : i + 1], here)


def linear_recurrence_numpy(xp: Any, a: Any, b: Any, *, axis: int) -> Any:
    """Of `linear_recurrence_into`."""
    out = xp.empty(b.shape, b.dtype)
    linear_recurrence_into(xp, (a, b), (out,), (), axis=axis)
    return out
