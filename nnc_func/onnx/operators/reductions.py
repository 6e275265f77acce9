"""Reductions, and positions of the largest and smallest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.facets.dtypes import kind_of
from nnc_func.onnx.table import onnx_operator

Reduction = Callable[[Any, Any, tuple[int, ...], bool], Any]


def _in_floats(function: Reduction) -> Reduction:
    """Of whole numbers it is computed in float64 and cut towards zero."""

    def reduced(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        if kind_of(x.dtype) == "f":
            return function(o, x, axis, keepdims)
        return o.cast(function(o, o.cast(x, dtype="float64"), axis, keepdims), dtype=x.dtype)

    return reduced


def _sum(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.cast(o.sum(x, axis=axis, keepdims=keepdims), dtype=x.dtype)


def _prod(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.cast(o.prod(x, axis=axis, keepdims=keepdims), dtype=x.dtype)


@_in_floats
def _mean(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.mean(x, axis=axis, keepdims=keepdims)


def _extreme(name: str) -> Reduction:
    def reduced(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        if kind_of(x.dtype) == "b":
            return (o.any if name == "max" else o.all)(x, axis=axis, keepdims=keepdims)
        if any(type(x.shape[a]) is int and x.shape[a] == 0 for a in axis):
            shape = tuple(1 if a in axis else n for a, n in enumerate(x.shape) if keepdims or a not in axis)
            return o.full(shape=shape, value=_least(x.dtype, name), dtype=x.dtype)
        return getattr(o, name)(x, axis=axis, keepdims=keepdims)

    return reduced


def _least(dtype: Any, name: str) -> Any:
    """What a reduction of nothing gives."""
    if kind_of(dtype) == "f":
        return -np.inf if name == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if name == "max" else limits.max


def _l1(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return _sum(o, o.abs(x), axis, keepdims)


@_in_floats
def _l2(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.sqrt(o.sum(o.square(x), axis=axis, keepdims=keepdims))


@_in_floats
def _log_sum(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.log(o.sum(x, axis=axis, keepdims=keepdims))


@_in_floats
def _log_sum_exp(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return o.logsumexp(x, axis=axis, keepdims=keepdims)


def _sum_square(o: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return _sum(o, o.square(x), axis, keepdims)


def _reduction(name: str, function: Reduction, attribute: tuple[int, ...], tensor: tuple[int, ...]) -> None:
    """The versions whose axes are an attribute, and those whose axes are an input."""

    @onnx_operator(name, since=attribute)
    def by_attribute(o: Any, x: Any, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Any:
        rank = len(x.shape)
        return function(o, x, o.axes(axes, rank) if axes else tuple(range(rank)), bool(keepdims))

    @onnx_operator(name, since=tensor, known=("axes",))
    def by_input(o: Any, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        rank = len(x.shape)
        listed = () if axes is None else o.axes(axes, rank)
        if not listed and not noop_with_empty_axes:
            listed = tuple(range(rank))
        return function(o, x, listed, bool(keepdims))


for _name, _function in {
    "ReduceL1": _l1, "ReduceL2": _l2, "ReduceMean": _mean, "ReduceProd": _prod, "ReduceSumSquare": _sum_square,
}.items():  # fmt: skip
    _reduction(_name, _function, (1, 11, 13), (18,))
_reduction("ReduceLogSum", _log_sum, (1, 11, 13), (18, 28))
_reduction("ReduceLogSumExp", _log_sum_exp, (1, 11, 13), (18, 28))
_reduction("ReduceSum", _sum, (1, 11), (13,))
_reduction("ReduceMax", _extreme("max"), (1, 11, 12, 13), (18, 20))
_reduction("ReduceMin", _extreme("min"), (1, 11, 12, 13), (18, 20))


def _position(name: str, ours: str) -> None:
    @onnx_operator(name, since=(1, 11, 12, 13))
    def found(o: Any, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        at = o.axis(axis, len(x.shape))
        if not select_last_index:
            return getattr(o, ours)(x, axis=at, keepdims=bool(keepdims))
        last = getattr(o, ours)(o.flip(x, axis=at), axis=at, keepdims=bool(keepdims))
        return o.subtract(o.full(shape=(), value=x.shape[at] - 1, dtype="int64"), last)


_position("ArgMax", "argmax")
_position("ArgMin", "argmin")
