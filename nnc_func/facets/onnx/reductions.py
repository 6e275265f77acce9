"""Reductions, and what goes from one element to the next along an axis, in ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.facets.dims import known
from nnc_func.facets.onnx import describe_as
from nnc_func.facets.onnx.elementwise import wide
from nnc_func.facets.shapes import normalise_axes, normalise_axis

INT64 = np.dtype("int64")


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(sorted(normalise_axes(axis, len(x.shape))))


def _nothing(x: Any, axes: tuple[int, ...]) -> bool:
    """Whether no elements are reduced."""
    return any(known(x.shape[i]) and x.shape[i] == 0 for i in axes)


def reduced(name: str, of_none: float | None = None) -> Any:
    """The operator of that name, over axes; what it is of no elements, runtimes do not agree on."""

    @describe_as(f"{name}.")
    def export(g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
        axes = _axes(x, axis)
        x = g.converted(x, g.result.dtype)
        if _nothing(x, axes):
            return g.full(shape=g.result.shape, value=of_none, dtype=x.dtype)
        return g.node(name, x, g.integers(axes), keepdims=int(keepdims)) if axes else x

    return export


LONG = tuple(map(np.dtype, ("int64", "uint32", "uint64")))  # dtypes of which onnxruntime's extremes are wrong, or none


def extreme(name: str) -> Any:
    """The largest or smallest; NaN if there is one, of which runtimes know nothing."""

    @describe_as(f"{name}, and NaN where there is one; of large integers Arg{name.removeprefix('Reduce')}.")
    def export(g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
        axes = _axes(x, axis)
        if not axes:
            return x
        if x.dtype in LONG:
            return g.having(_picked(g, x, axes, name.replace("Reduce", "Arg")), g.result.shape)
        found = g.node(name, x, g.integers(axes), keepdims=int(keepdims))
        return found if x.dtype.kind in "iu" else _nan_wins(g, x, found, axes, keepdims)

    return export


def _picked(g: Any, x: Any, axes: tuple[int, ...], position: str) -> Any:
    """The extreme elements, axis by axis, from where they are."""
    for axis in axes:
        x = g.GatherElements(x, g.node(position, _ordered(g, x), axis=axis, keepdims=1), axis=axis)
    return g.Reshape(x, g.extents(g.result.shape))


def _ordered(g: Any, x: Any) -> Any:
    """Integers as int64 of the same order: of uint64 the highest bit is flipped."""
    found = g.converted(x, INT64)
    return g.BitwiseXor(found, g.scalar(np.iinfo(INT64).min, INT64)) if x.dtype == np.uint64 else found


def _nan_wins(g: Any, x: Any, found: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The result, NaN where the sum of the elements times zero is: where one of them is NaN."""
    marks = g.converted(g.IsNaN(x), np.dtype("int32"))
    some = g.ReduceMax(marks, g.integers(axes), keepdims=int(keepdims))
    return g.Where(g.converted(some, np.dtype("bool")), g.scalar(math.nan, x.dtype), found)


def quantified(every: bool) -> Any:
    """Whether any, or every, element is true: those that are, or are not, are counted."""

    @describe_as(
        "ReduceSum of those that are not true, which are none."
        if every
        else "ReduceSum of those that are true, which are some."
    )
    def export(g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
        axes = _axes(x, axis)
        truth = g.converted(x, np.dtype("bool"))
        if not axes:
            return truth
        if _nothing(x, axes):
            return g.full(shape=g.result.shape, value=every, dtype=np.dtype("bool"))
        marks = g.converted(g.Not(truth) if every else truth, INT64)
        count = g.ReduceSum(marks, g.integers(axes), keepdims=int(keepdims))
        return g.Equal(count, 0) if every else g.Greater(count, 0)

    return export


def position(name: str) -> Any:
    """Where the first largest, or smallest, element is; NaN counts as that."""

    @describe_as(f"{name}, where NaN counts as that.")
    def export(g: Any, x: Any, *, axis: int | None, keepdims: bool) -> Any:
        shape = x.shape
        if axis is None:
            x, axis = g.reshape(x, shape=(-1,)), 0
        kept = {"axis": normalise_axis(axis, len(x.shape)), "keepdims": int(keepdims and len(x.shape) == len(shape))}
        found = g.node(name, _ordered(g, x) if x.dtype == np.uint64 else x, **kept)
        if x.dtype.kind not in "biu":
            marks = g.converted(g.IsNaN(x), np.dtype("int32"))
            some = g.ReduceMax(marks, g.integers((kept["axis"],)), keepdims=kept["keepdims"])
            found = g.Where(g.converted(some, np.dtype("bool")), g.ArgMax(marks, **kept), found)
        return g.Reshape(found, g.extents(g.result.shape))

    return export


def logsumexp(g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    """With the largest element taken away first, unless that is infinite."""
    axes = _axes(x, axis)
    x = g.having(wide(g, g.converted(x, g.result.dtype)), x.shape)
    if _nothing(x, axes):
        return g.full(shape=g.result.shape, value=-math.inf, dtype=x.dtype)
    if not axes:
        return x
    most = g.ReduceMax(x, g.integers(axes), keepdims=1)
    level = g.Where(g.IsInf(most), g.scalar(0, x.dtype), most)
    total = g.Log(g.ReduceSum(g.Exp(g.Sub(x, level)), g.integers(axes), keepdims=1))
    return g.Reshape(g.Add(total, level), g.extents(g.result.shape))


def softmax(name: str) -> Any:
    """Along an axis."""

    @describe_as(f"{name}.")
    def export(g: Any, x: Any, *, axis: int) -> Any:
        return g.node(name, g.converted(x, g.result.dtype), axis=normalise_axis(axis, len(x.shape)))

    return export


def softmax_cross_entropy(g: Any, logits: Any, labels: Any, *, axis: int) -> Any:
    """The negative sum of labels times log-probabilities, in which a label of zero contributes nothing."""
    logits, labels = (g.converted(x, g.result.dtype) for x in (logits, labels))
    return g.negative(g.sum(g.multiply_no_nan(g.log_softmax(logits, axis=axis), labels), axis=axis))


def cross_entropy_gradient(g: Any, logits: Any, labels: Any, *, axis: int) -> Any:
    """Probabilities, times what the labels sum to, less the labels."""
    logits, labels = (g.converted(x, g.result.dtype) for x in (logits, labels))
    total = g.sum(labels, axis=axis, keepdims=True)
    return g.subtract(g.multiply(g.softmax(logits, axis=axis), total), labels)


# --- from one element to the next ---------------------------------------------------------------------------


def cumulative_sum(g: Any, x: Any, *, axis: int) -> Any:
    """Along an axis, in the dtype of a sum."""
    return g.CumSum(g.converted(x, g.result.dtype), g.scalar(normalise_axis(axis, len(x.shape)), INT64))


def cumulative(name: str, first: Callable[[Any], Any]) -> Any:
    """A loop over an axis, of the operator of that name, from what `first` gives for the dtype."""

    @describe_as(f"Scan: {name} from one element to the next.")
    def export(g: Any, x: Any, *, axis: int) -> Any:
        x = g.having(x, x.shape, g.result.dtype)
        return _looped(g, lambda so_far, each: getattr(g, name)(so_far, each), first(x.dtype), (x,), axis)

    return export


def _looped(g: Any, step: Callable[..., Any], first: Any, rows: tuple[Any, ...], axis: int) -> Any:
    at = normalise_axis(axis, len(rows[0].shape))
    shape = tuple(n for i, n in enumerate(rows[0].shape) if i != at)

    def both(so_far: Any, *elements: Any) -> tuple[tuple[Any], tuple[Any]]:
        found = g.having(step(so_far, *elements), shape, so_far.dtype)
        return (found,), (found,)

    return g.scan(both, (g.full(shape=shape, value=first, dtype=rows[0].dtype),), rows, at)[1][0]


def linear_recurrence(g: Any, a: Any, b: Any, *, axis: int) -> Any:
    """A loop over an axis."""
    a, b = (g.having(x, x.shape, g.result.dtype) for x in (a, b))
    return _looped(g, lambda y, factor, term: g.add(g.multiply(factor, y), term), 0, (a, b), axis)


def _extreme(least: bool) -> Callable[[Any], Any]:
    def first(dtype: Any) -> Any:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return int(limits.max if least else limits.min)
        return math.inf if least else -math.inf

    return first


cumulative_prod = cumulative("multiply", lambda dtype: 1)
cumulative_max = cumulative("maximum", _extreme(False))
cumulative_min = cumulative("minimum", _extreme(True))
logcumsumexp = cumulative("logaddexp", lambda dtype: -math.inf)
