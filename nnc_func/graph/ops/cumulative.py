"""Along an axis, from one element to the next: products, extremes, sums of exponentials, and the linear recurrence.

The linear recurrence is its own derivative, so that those of the others, which it gives, are right to any order, at
zeros of a product too, and take time in proportion to the number of elements.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import cumulative as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.errors import ShapeError
from nnc_func.facets import dtypes, movement, shapes
from nnc_func.facets.derivatives import Custom, Derivative
from nnc_func.facets.dims import same_extent
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import reductions as onnx_reductions
from nnc_func.facets.samples import EXACT, FLOATS, NUMBERS, REALS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import per_input_element
from nnc_func.graph.ops.families import Decorator, Tensor, real, real_floating
from nnc_func.op import operator

ROUNDED = Tolerance(64.0)  # of a chain of operations, each rounded


def _axis(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw(range(-rank, rank))}


def cumulative(derivative: Derivative, *, dtype: Any, kernel: tuple[Kernel, ...], **facets: Any) -> Decorator:
    """An operator along one axis, of as many elements."""
    return operator(
        shape=movement.along,
        dtype=dtype,
        derivative=derivative,
        kernels=kernel,
        cost=per_input_element(),
        **facets,
    )


# --- for derivatives ----------------------------------------------------------------------------------------


def before(o: Any, x: Any, axis: int, first: Any) -> Any:
    """Each element's predecessor along an axis, and that number in front."""
    rank = len(x.shape)
    at = shapes.normalise_axis(axis, rank)
    wide = o.pad(x, widths=tuple((int(i == at), 0) for i in range(rank)), value=first)
    return o.slice(wide, starts=(0,) * rank, stops=tuple(x.shape), steps=(1,) * rank)


def after(o: Any, x: Any, axis: int, last: Any) -> Any:
    """Each element's successor along an axis, and that number at the end."""
    rank = len(x.shape)
    at = shapes.normalise_axis(axis, rank)
    wide = o.pad(x, widths=tuple((0, int(i == at)) for i in range(rank)), value=last)
    starts = tuple(int(i == at) for i in range(rank))
    stops = tuple(n + start for n, start in zip(x.shape, starts, strict=True))
    return o.slice(wide, starts=starts, stops=stops, steps=(1,) * rank)


def backwards(o: Any, a: Any, g: Any, axis: int) -> Any:
    """The recurrence from the end: ``s[i] = a[i + 1] s[i + 1] + g[i]``."""
    turned = o.linear_recurrence(o.flip(after(o, a, axis, 0), axis=axis), o.flip(g, axis=axis), axis=axis)
    return o.flip(turned, axis=axis)


# --- the linear recurrence ----------------------------------------------------------------------------------


def _alike(a: ShapeT, b: ShapeT, *, axis: int) -> ShapeT:
    """That of both arguments."""
    if len(a) != len(b) or not all(map(same_extent, a, b)):
        raise ShapeError(f"factors and terms have one shape, given {a} and {b}; use broadcast_to")
    return movement.along(b, axis=axis)


def _recurrence_jvp(o: Any, ts: Any, y: Any, a: Any, b: Any, *, axis: int) -> Any:
    term = None if ts[0] is None else o.multiply(ts[0], before(o, y, axis, 0))
    term = ts[1] if term is None else term if ts[1] is None else o.add(term, ts[1])
    return o.linear_recurrence(a, term, axis=axis)


@operator(
    shape=_alike,
    dtype=dtypes.numeric,
    kernels=(
        Kernel(
            "step by step",
            compute=kernels.linear_recurrence_numpy,
            into=kernels.linear_recurrence_into,
            namespaces=NUMPY,
            accepts=lambda avals, **_: len({a.dtype for a in avals}) < 2,
            infallible=True,
            strided=True,
        ),
        reference(kernels.linear_recurrence, infallible=True),
    ),
    derivative=Custom(
        _recurrence_jvp,
        (
            lambda o, g, y, a, b, *, axis: o.multiply(backwards(o, a, g, axis), before(o, y, axis, 0)),
            lambda o, g, y, a, b, *, axis: backwards(o, a, g, axis),
        ),
    ),
    cost=per_input_element(2),
    onnx=onnx_reductions.linear_recurrence,
    tolerance=ROUNDED,
    samples=Samples(dtypes=NUMBERS, relation="equal", params=_axis, min_rank=1),
)
def linear_recurrence(a: Tensor, b: Tensor, /, *, axis: int) -> Tensor:
    """Along an axis ``y[i] = a[i] y[i - 1] + b[i]``, where ``y[-1]`` is zero: a filter with factors of its own.

    Factors and terms have one shape, and are real or complex numbers of any dtype.
    """


# --- products, extremes -------------------------------------------------------------------------------------


@cumulative(
    Custom(
        lambda o, ts, y, x, *, axis: o.linear_recurrence(x, o.multiply(ts[0], before(o, y, axis, 1)), axis=axis),
        (lambda o, g, y, x, *, axis: o.multiply(backwards(o, x, g, axis), before(o, y, axis, 1)),),
    ),
    dtype=dtypes.accumulated,
    kernel=(
        kernels.accumulating("multiply", dtypes.accumulated),
        reference(kernels.cumulative_prod, infallible=True),
    ),
    tolerance=ROUNDED,
    samples=Samples(dtypes=NUMBERS, params=_axis, min_rank=1),
    onnx=onnx_reductions.cumulative_prod,
)
def cumulative_prod(x: Tensor, /, *, axis: int) -> Tensor:
    """Product of each element and all before it along an axis, in the dtype of a product.

    Its derivative is right where elements are zero, too: nothing is divided.
    """


def _attained(o: Any, y: Any, x: Any, axis: int) -> Any:
    """For each element the position of the last one up to it that is the extreme."""
    n = x.shape[shapes.normalise_axis(axis, len(x.shape))]
    behind = len(x.shape) - shapes.normalise_axis(axis, len(x.shape)) - 1
    places = o.reshape(o.arange(start=0, stop=n, dtype=dtypes.INT64), shape=(n, *(1,) * behind))
    nowhere = o.full(shape=(), value=0, dtype=dtypes.INT64)
    return o.cumulative_max(o.where(o.equal(x, y), places, nowhere), axis=axis)


EXTREME = Custom(
    lambda o, ts, y, x, *, axis: o.take_along_axis(ts[0], _attained(o, y, x, axis), axis=axis),
    (lambda o, g, y, x, *, axis: o.put_along_axis_add(o.zeros_like(g), _attained(o, y, x, axis), g, axis=axis),),
)
ORDERED: dict[str, Any] = {
    "dtype": real,
    "tolerance": EXACT,
    "samples": Samples(dtypes=REALS, params=_axis, min_rank=1, distinct=True),
}


@cumulative(
    EXTREME,
    kernel=(
        kernels.accumulating("maximum", real),
        reference(kernels.stepping(kernels.larger, real), infallible=True),
    ),
    **ORDERED,
    onnx=onnx_reductions.cumulative_max,
)
def cumulative_max(x: Tensor, /, *, axis: int) -> Tensor:
    """Largest of each element and all before it along an axis, NaN from the first one on.

    Of several that are largest the last one up to there has the derivative.
    """


@cumulative(
    EXTREME,
    kernel=(
        kernels.accumulating("minimum", real),
        reference(kernels.stepping(kernels.smaller, real), infallible=True),
    ),
    **ORDERED,
    onnx=onnx_reductions.cumulative_min,
)
def cumulative_min(x: Tensor, /, *, axis: int) -> Tensor:
    """Smallest of each element and all before it along an axis, NaN from the first one on.

    Of several that are smallest the last one up to there has the derivative.
    """


# --- sums of exponentials -----------------------------------------------------------------------------------


def _weights(o: Any, y: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """By how much the result before, and the element, count in each result: both at most one, of -inf zero."""
    nothing = o.equal(y, -float("inf"))
    level = o.where(nothing, o.zeros_like(y), y)
    return o.exp(o.subtract(before(o, y, axis, -float("inf")), level)), o.exp(o.subtract(x, level))


def _logcumsumexp_jvp(o: Any, ts: Any, y: Any, x: Any, *, axis: int) -> Any:
    kept, own = _weights(o, y, x, axis)
    return o.linear_recurrence(kept, o.multiply(own, ts[0]), axis=axis)


def _logcumsumexp_vjp(o: Any, g: Any, y: Any, x: Any, *, axis: int) -> Any:
    kept, own = _weights(o, y, x, axis)
    return o.multiply(own, backwards(o, kept, g, axis))


@cumulative(
    Custom(_logcumsumexp_jvp, (_logcumsumexp_vjp,)),
    dtype=real_floating,
    kernel=(
        kernels.accumulating("logaddexp", real_floating),
        reference(kernels.stepping(kernels.logaddexp, real_floating), infallible=True),
    ),
    tolerance=ROUNDED,
    samples=Samples(dtypes=FLOATS, params=_axis, min_rank=1),
    onnx=onnx_reductions.logcumsumexp,
)
def logcumsumexp(x: Tensor, /, *, axis: int) -> Tensor:
    """Logarithm of the sum of exponentials of each element and all before it along an axis, without overflow."""
