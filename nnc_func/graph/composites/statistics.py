"""Statistics by other operators: spread, quantiles and counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import known, product
from nnc_func.facets.samples import EXACT, FLOATS, INTEGERS, NUMBERS, REALS, Samples, Tolerance
from nnc_func.facets.shapes import normalise_axes, reduced
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.extents import extent_of, value_of
from nnc_func.graph.ops.families import Axes, Extent, Nested, Tensor
from nnc_func.graph.ops.move import part
from nnc_func.graph.ops.reduce import reduced_count

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

CLOSE = Tolerance(256.0)  # of differences that may be small beside what they are of
INT64, FLOAT16 = np.dtype("int64"), np.dtype("float16")


def _some_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    axis = draw([None, (), *range(-rank, rank), *((i, i - rank + 1) for i in range(rank - 1))])
    return {"axis": axis, "keepdims": draw((False, True)), "correction": draw((0.0, 1.0, 0.5))}


# --- spread -------------------------------------------------------------------------------------------------


@composite(samples=Samples(dtypes=NUMBERS, params=_some_axes), tolerance=CLOSE)
def var(
    o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Variance: the sum of squared distances from the mean, divided by their number less `correction`.

    In two passes, the mean first. It is NaN where there are no more elements than `correction`; integers give float64.
    Of complex numbers it is the real sum of squared magnitudes. Of float16 it is computed in float32.
    """
    if o.dtype(x) == FLOAT16:
        wide = var.over(o, o.cast(x, dtype="float32"), axis=axis, correction=correction, keepdims=keepdims)
        return o.cast(wide, dtype=FLOAT16)
    count = reduced_count(o, x, axis) if _unknown(x, axis) else _number_of(x, axis)
    distance = o.subtract(x, o.mean(x, axis=axis, keepdims=True))
    if o.dtype(x).kind == "c":  # by parts: a magnitude has no second derivative at zero
        squares = o.add(o.square(o.real(distance)), o.square(o.imag(distance)))
    else:
        squares = o.square(distance)
    total = o.sum(squares, axis=axis, keepdims=keepdims)
    if not isinstance(count, int):
        return o.divide(total, o.subtract(o.cast(count, dtype=o.dtype(total)), correction))
    if count - correction <= 0:
        return o.full(shape=tuple(total.shape), value=math.nan, dtype=o.dtype(total))
    return o.divide(total, float(count - correction))


def _unknown(x: Any, axis: Any) -> bool:
    return not known(product(tuple(x.shape[i] for i in normalise_axes(axis, len(x.shape)))))


def _number_of(x: Any, axis: Any) -> Any:
    return product(tuple(x.shape[i] for i in normalise_axes(axis, len(x.shape))))


@composite(samples=Samples(dtypes=NUMBERS, params=_some_axes, distinct=True), tolerance=CLOSE)
def std(
    o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Standard deviation: the root of `var`. Where that is zero, its derivative is taken to be zero, too."""
    spread = var.over(o, x, axis=axis, correction=correction, keepdims=keepdims)
    none = o.equal(spread, 0)
    root = o.sqrt(o.where(none, o.full(shape=(), value=1, dtype=o.dtype(spread)), spread))
    return o.where(none, o.full(shape=(), value=0, dtype=o.dtype(spread)), root)


# --- order statistics ---------------------------------------------------------------------------------------

METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def _some_quantiles(shapes_: Any, draw: Any) -> dict[str, Any]:
    found = _some_axes(shapes_, draw)
    del found["correction"]
    return {**found, "q": draw((0.0, 0.5, 0.3, 1.0, (0.25, 0.9), ())), "method": draw(METHODS)}


@composite(samples=Samples(dtypes=REALS, params=_some_quantiles, distinct=True), tolerance=CLOSE)
def quantile(
    o: Ops[Any], x: Tensor, /, *, q: Nested, axis: Axes | None = None, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """The value below which a part `q` of the elements lies: one, or a tuple of them along a new first axis.

    Between two elements it is interpolated: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"`` (the even one at
    a tie) or ``"midpoint"``. NaN among the elements gives NaN, and so do none. The extents of the axes are known.
    """
    if method not in METHODS:
        raise OperatorError(f"method={method!r} is none of {', '.join(map(repr, METHODS))}")
    wanted = q if isinstance(q, tuple) else (q,)
    if not all(isinstance(each, (int, float)) and 0 <= each <= 1 for each in wanted):
        raise OperatorError(f"a quantile is a number from 0 to 1, or a tuple of them, given {q!r}")
    shape, n, ordered = _ordered(o, x, axis, keepdims)
    if n == 0:
        some = [o.full(shape=shape, value=math.nan, dtype=o.dtype(ordered))] * len(wanted)
    else:
        some = [o.reshape(_interpolated(o, ordered, n, each, method), shape=shape) for each in wanted]
    if not isinstance(q, tuple):
        return some[0]
    return o.stack(*some, axis=0) if some else o.full(shape=(0, *shape), value=0, dtype=o.dtype(ordered))


def _ordered(o: Ops[Any], x: Any, axis: Any, keepdims: bool) -> tuple[Any, int, Any]:
    """The shape of the result, how many elements each is of, and those in order along a last axis, floating."""
    gone = normalise_axes(axis, len(x.shape))
    kept = tuple(i for i in range(len(x.shape)) if i not in gone)
    n = _number_of(x, axis)
    if not known(n):
        raise ShapeError(f"quantiles of {n} elements: how many there are must be known")
    dtype = dtypes.floating(o.dtype(x))
    x = x if o.dtype(x) == dtype else o.cast(x, dtype=dtype)
    moved = o.permute_dims(x, axes=(*kept, *gone))
    flat = o.reshape(moved, shape=(*(x.shape[i] for i in kept), n))
    return reduced(tuple(x.shape), axis=axis, keepdims=keepdims), n, o.sort(flat, axis=-1)


def _interpolated(o: Ops[Any], ordered: Any, n: int, q: float, method: str) -> Any:
    position = q * (n - 1)
    low = min(math.floor(position), n - 1)
    beyond = position - low
    if method != "linear":
        beyond = {"lower": 0.0, "higher": float(beyond > 0), "midpoint": 0.5 * (beyond > 0)}.get(
            method, float(round(position) - low)
        )
    axis = len(ordered.shape) - 1
    found = part(o, ordered, axis, low, low + 1)
    if beyond:
        above = part(o, ordered, axis, low + 1, low + 2)
        found = above if beyond == 1 else o.add(found, o.multiply(o.subtract(above, found), float(beyond)))
    last = part(o, ordered, axis, n - 1, n)
    return o.where(o.not_equal(last, last), last, found)  # NaN is last, and unequal to itself


def _no_correction(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {name: value for name, value in _some_axes(shapes_, draw).items() if name != "correction"}


@composite(samples=Samples(dtypes=REALS, params=_no_correction, distinct=True), tolerance=CLOSE)
def median(o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The middle element, or the mean of the two: the quantile 0.5. NaN among them gives NaN, and so do none."""
    return quantile.over(o, x, q=0.5, axis=axis, keepdims=keepdims)


# --- counts -------------------------------------------------------------------------------------------------


def _bins() -> Any:
    for shape in ((4,), (0,), (2, 2)):
        for dtype in INTEGERS:
            yield ((shape, dtype, (0, 4)),), {"length": 5}
            for weight in FLOATS:
                yield ((shape, dtype, (0, 4)), (shape, weight)), {"length": 6}


@composite(samples=Samples(relation="cases", cases=_bins()), tolerance=Tolerance(64.0))
def bincount(o: Ops[Any], x: Tensor, weights: Tensor | None = None, /, *, length: Extent | None = None) -> Tensor:
    """How often each number from 0 occurs among integers: a vector; or the sum of the weights of each.

    Without `length` it is as long as the largest needs, which is computed at once: an ExtentError says if that cannot
    be. A negative number, or one that is not below `length`, raises.
    """
    if o.dtype(x).kind not in "iu":
        raise DTypeError(f"bincount counts integers, given {o.dtype(x)}; histogram counts other numbers")
    size = product(tuple(x.shape))
    flat = o.reshape(o.cast(x, dtype=INT64), shape=(size,))
    if length is None:
        least = o.full(shape=(1,), value=-1, dtype=INT64)  # of no elements the length is 0
        largest = o.max(flat if known(size) and size else o.concat(flat, least, axis=0))
        length = extent_of(o.add(largest, 1), "give length=")
    outside = o.full(shape=(), value=length, dtype=INT64)
    flat = o.where(o.less(flat, 0), outside, flat)  # no number counts from the end
    if weights is None:
        weights = o.full(shape=(size,), value=1, dtype=INT64)
    elif tuple(weights.shape) != tuple(x.shape):
        raise ShapeError(f"weights have the shape {tuple(x.shape)} of what they weigh, given {tuple(weights.shape)}")
    zeros = o.full(shape=(length,), value=0, dtype=o.dtype(weights))
    return o.scatter_add(zeros, flat, o.reshape(weights, shape=(size,)), axis=0)


def _histograms() -> Any:
    for shape in ((5,), (0,), (2, 3)):
        for dtype in REALS:
            for bins, range_ in ((1, (-1.0, 1.0)), (4, (0, 2)), (3, (-2.0, 3.0))):
                yield ((shape, dtype),), {"bins": bins, "range": range_}


@composite(derivative=Constant("counts are integers, and edges are said"), tolerance=EXACT,
           samples=Samples(relation="cases", cases=_histograms()))  # fmt: skip
def histogram(
    o: Ops[Any], x: Tensor, weights: Tensor | None = None, /, *, bins: int = 10, range: Nested | None = None
) -> tuple[Tensor, ...]:
    """How many elements lie in each of `bins` equal parts of a range, and the ``bins + 1`` edges of the parts.

    A part has its lower edge, and the last one its upper edge as well; what lies outside, NaN too, is not counted.
    Without `range` it is from the least to the largest element, computed at once; an ExtentError says if that cannot
    be. With `weights` they are summed. Edges have the dtype of `x`, or float64 if that is of integers.
    """
    if bins < 1:
        raise OperatorError(f"a histogram has 1 part or more, given bins={bins}")
    low, high = _range(o, x) if range is None else range
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise OperatorError(f"a range is from a finite number to one that is not below it, given {(low, high)}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    dtype = dtypes.floating(o.dtype(x))
    edges = o.cast(np.linspace(low, high, bins + 1, dtype=dtype), dtype=dtype)
    x = x if o.dtype(x) == dtype else o.cast(x, dtype=dtype)
    last = part(o, edges, 0, bins, bins + 1)
    found = o.subtract(o.searchsorted(edges, x, side="right"), 1)
    found = o.where(o.equal(x, last), o.subtract(found, 1), found)
    outside = o.full(shape=(), value=bins, dtype=INT64)
    found = o.where(o.logical_and(o.greater_equal(found, 0), o.less(found, bins)), found, outside)
    counts = bincount.over(o, found, *(() if weights is None else (weights,)), length=bins + 1)
    return part(o, counts, 0, 0, bins), edges


def _range(o: Ops[Any], x: Any) -> tuple[float, float]:
    size = product(tuple(x.shape))
    if known(size) and size == 0:
        return 0.0, 1.0
    why = "give range="
    return float(value_of(o.min(x), why)), float(value_of(o.max(x), why))
