"""Reductions over axes: `axis` is one, a tuple of them, or None for all; `keepdims` keeps them with extent 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels import reduce as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.device.kernels.onednn_rows import reduction_kernel
from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, movement, shapes
from nnc_func.facets.derivatives import Constant, Custom, Derivative, Linear
from nnc_func.facets.dims import known, product
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import keeps_nonnegative, odd
from nnc_func.facets.onnx import reductions as onnx_reductions
from nnc_func.facets.samples import ANY, EXACT, FLOATS, NUMBERS, Samples, Tolerance
from nnc_func.facets.views import per_input_element
from nnc_func.graph.ops.families import Axes, Decorator, Tensor, real, real_floating
from nnc_func.op import operator

SUMMED = Tolerance(64.0)  # the order of additions is the device's


def _axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    every = [None, (), *range(-rank, rank), *((i, i - rank + 1) for i in range(rank - 1))]
    return {"axis": draw(every), "keepdims": draw((False, True))}


def _one_axis(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw([None, *range(-rank, rank)]), "keepdims": draw((False, True))}


def reduction(
    derivative: Derivative,
    *,
    kernel: tuple[Kernel, ...],
    dtype: dtypes.DTypeRule = dtypes.first,
    shape: Callable[..., Any] = shapes.reduced,
    samples: Samples | None = None,
    **facets: Any,
) -> Decorator:
    """An operator that reduces axes; its kernels, but for a library's, cannot fail once shapes are checked."""
    return operator(
        shape=shape,
        dtype=dtype,
        derivative=derivative,
        samples=samples or Samples(dtypes=NUMBERS, params=_axes),
        kernels=tuple(evolve(k, infallible=k.library is None) for k in kernel),
        cost=per_input_element(),
        **facets,
    )


# --- for derivatives --------------------------------------------------------------------------------------


def restore(o: Any, g: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """A reduced tensor with its axes put back, with extent 1: it broadcasts against the argument."""
    gone = shapes.normalise_axes(axis, len(x.shape))
    return g if keepdims or not gone else o.expand_dims(g, axis=gone)


def spread(o: Any, g: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """The same, in the argument's shape."""
    return o.broadcast_to(restore(o, g, x, axis, keepdims), shape=x.shape)


def reduced_count(o: Any, x: Any, axis: Any) -> Any:
    """How many elements make one of the result: a number, or a tensor while extents are unknown."""
    extents = tuple(x.shape[i] for i in shapes.normalise_axes(axis, len(x.shape)))
    size = product(extents)
    return max(size, 1) if isinstance(size, int) else o.sum(o.full(shape=extents, value=1, dtype=o.dtype(x)))


# --- sums -------------------------------------------------------------------------------------------------


@reduction(
    Linear(lambda o, g, x, *, axis, keepdims: spread(o, g, x, axis, keepdims)),
    kernel=(
        reduction_kernel("sum"),
        kernels.of_rows(averaged=False),
        kernels.by_method("sum", dtypes.accumulated),
        kernels.standard("sum", dtypes.accumulated),
    ),
    dtype=dtypes.accumulated,
    onnx=onnx_reductions.reduced("ReduceSum", 0),
    tolerance=SUMMED,
    laws=(odd.rounded, keeps_nonnegative),
)
def sum_(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Sum; booleans and small integers are summed in 64 bits, floats in their own dtype."""


def _mean_transpose(o: Any, g: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    return spread(o, o.divide(g, reduced_count(o, x, axis)), x, axis, keepdims)


def _mean_compute(xp: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    out = xp.empty(shapes.reduced(x.shape, axis=axis, keepdims=keepdims), dtypes.floating(x.dtype))
    kernels.mean_into(xp, (x,), (out,), (), axis=axis, keepdims=keepdims)
    return out


@reduction(
    Linear(_mean_transpose),
    kernel=(
        reduction_kernel("mean"),
        kernels.of_rows(averaged=True),
        Kernel(
            "sum, divided",
            compute=_mean_compute,
            into=kernels.mean_into,
            namespaces=NUMPY,
            strided=True,
            bound=partial(kernels.reducing, np.add, averaged=True),
        ),
        reference(kernels.mean),
    ),
    dtype=dtypes.floating,
    onnx=onnx_reductions.reduced("ReduceMean", float("nan")),
    tolerance=SUMMED,
    laws=(odd.rounded, keeps_nonnegative),
)
def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean; integers give float64, and no elements give NaN."""


# --- extremes ---------------------------------------------------------------------------------------------


def _share(o: Any, y: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Of each element in the derivative: it is split equally among those that attain the extreme."""
    attained = o.cast(o.equal(x, restore(o, y, x, axis, keepdims)), dtype=o.dtype(x))
    return o.divide(attained, o.sum(attained, axis=axis, keepdims=True))


EXTREME = Custom(
    lambda o, ts, y, x, *, axis, keepdims: o.sum(
        o.multiply(ts[0], _share(o, y, x, axis, keepdims)), axis=axis, keepdims=keepdims
    ),
    (
        lambda o, g, y, x, *, axis, keepdims: o.multiply(
            restore(o, g, x, axis, keepdims), _share(o, y, x, axis, keepdims)
        ),
    ),
)
DISTINCT = Samples(dtypes=NUMBERS, params=_axes, distinct=True)


@reduction(
    EXTREME,
    kernel=(reduction_kernel("max"), kernels.by_method("max"), kernels.standard("max")),
    dtype=real,
    shape=movement.reduced_some,
    samples=DISTINCT,
    onnx=onnx_reductions.extreme("ReduceMax"),
    tolerance=EXACT,
    laws=(keeps_nonnegative,),
)
def max_(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Largest element, NaN if there is one; several largest share the derivative equally."""


@reduction(
    EXTREME,
    kernel=(reduction_kernel("min"), kernels.by_method("min"), kernels.standard("min")),
    dtype=real,
    shape=movement.reduced_some,
    samples=DISTINCT,
    onnx=onnx_reductions.extreme("ReduceMin"),
    tolerance=EXACT,
    laws=(keeps_nonnegative,),
)
def min_(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Smallest element, NaN if there is one; several smallest share the derivative equally."""


def _position(x: dtypes.DType, **_: Any) -> dtypes.DType:
    if x.kind == "c":
        raise DTypeError("complex numbers have no order; take the position in their magnitudes")
    return dtypes.INT64


POSITION: dict[str, Any] = {"shape": movement.reduced_some, "dtype": _position, "tolerance": EXACT}
POSITIONS = Samples(dtypes=NUMBERS, params=_one_axis, distinct=True)


@reduction(
    Constant("a position jumps"),
    kernel=(kernels.by_method("argmax"), kernels.standard("argmax", kernels.ordered)),
    samples=POSITIONS,
    onnx=onnx_reductions.position("ArgMax"),
    **POSITION,
)
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first largest element along an axis, or in the flattened tensor; NaN counts as the largest."""


@reduction(
    Constant("a position jumps"),
    kernel=(kernels.by_method("argmin"), kernels.standard("argmin", kernels.ordered)),
    samples=POSITIONS,
    onnx=onnx_reductions.position("ArgMin"),
    **POSITION,
)
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first smallest element along an axis, or in the flattened tensor; NaN counts as the smallest."""


# --- products ---------------------------------------------------------------------------------------------


def _others(o: Any, x: Any) -> Any:
    """For each element, the product of all others along the last axis: by a tree of products, with no division."""
    n = x.shape[-1]
    if not known(n):
        return _others_by_table(o, x)
    front, levels, sizes = x.shape[:-1], [], []
    while x.shape[-1] > 1:
        n = x.shape[-1]
        if n % 2:
            x = o.pad(x, widths=((0, 0),) * len(front) + ((0, 1),), value=1)
        pairs = o.reshape(x, shape=(*front, (n + 1) // 2, 2))
        x = o.squeeze(o.multiply(*o.split(pairs, sections=2, axis=-1)), axis=-1)
        levels.append(pairs)
        sizes.append(n)
    outside = o.full(shape=x.shape, value=1, dtype=o.dtype(x))
    for pairs, n in zip(reversed(levels), reversed(sizes), strict=True):
        within = o.multiply(o.expand_dims(outside, axis=-1), o.flip(pairs, axis=-1))
        outside = o.reshape(within, shape=(*front, 2 * pairs.shape[-2]))
        if n % 2:
            outside = o.split(outside, sections=(n, 1), axis=-1)[0]
    return outside


def _others_by_table(o: Any, x: Any) -> Any:
    """The same where the extent is not known: a square table, each row without one element."""
    n = x.shape[-1]
    place = o.cumulative_sum(o.full(shape=(n,), value=1, dtype=np.dtype("int64")), axis=0)
    own = o.equal(o.expand_dims(place, axis=1), o.expand_dims(place, axis=0))
    return o.prod(o.where(own, 1, o.expand_dims(x, axis=-2)), axis=-1)


def _cofactors(o: Any, x: Any, axis: Any) -> Any:
    gone = shapes.normalise_axes(axis, len(x.shape))
    kept = tuple(i for i in range(len(x.shape)) if i not in gone)
    order = kept + gone
    moved = o.permute_dims(x, axes=order)
    flat = o.reshape(moved, shape=(*(x.shape[i] for i in kept), product(tuple(x.shape[i] for i in gone))))
    back = o.reshape(_others(o, flat), shape=moved.shape)
    return o.permute_dims(back, axes=tuple(order.index(i) for i in range(len(order))))


@reduction(
    Custom(
        lambda o, ts, y, x, *, axis, keepdims: o.sum(
            o.multiply(ts[0], _cofactors(o, x, axis)), axis=axis, keepdims=keepdims
        ),
        (lambda o, g, y, x, *, axis, keepdims: o.multiply(restore(o, g, x, axis, keepdims), _cofactors(o, x, axis)),),
    ),
    kernel=(kernels.by_method("prod", dtypes.accumulated), kernels.standard("prod", dtypes.accumulated)),
    dtype=dtypes.accumulated,
    onnx=onnx_reductions.reduced("ReduceProd", 1),
    tolerance=SUMMED,
    laws=(keeps_nonnegative,),
)
def prod(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Product; its derivative is right where elements are zero, too."""


# --- truth ------------------------------------------------------------------------------------------------

TRUTH = Samples(dtypes=ANY, params=_axes)


@reduction(
    Constant("booleans have no derivative"),
    kernel=(kernels.by_method("any"), kernels.standard("any")),
    dtype=dtypes.boolean,
    samples=TRUTH,
    onnx=onnx_reductions.quantified(every=False),
    tolerance=EXACT,
)
def any_(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Whether any element is true or not zero; of none, false."""


@reduction(
    Constant("booleans have no derivative"),
    kernel=(kernels.by_method("all"), kernels.standard("all")),
    dtype=dtypes.boolean,
    samples=TRUTH,
    onnx=onnx_reductions.quantified(every=True),
    tolerance=EXACT,
)
def all_(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Whether every element is true or not zero; of none, true."""


# --- exponential and cumulative ---------------------------------------------------------------------------


def _softmax(o: Any, y: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return o.exp(o.subtract(x, restore(o, y, x, axis, keepdims)))


def _logsumexp_compute(xp: Any, x: Any, **params: Any) -> Any:
    out = xp.empty(shapes.reduced(x.shape, **params), dtypes.floating(x.dtype))
    scratch = tuple(xp.empty(*each) for each in kernels.logsumexp_scratch((x,), **params))
    kernels.logsumexp_into(xp, (x,), (out,), scratch, **params)
    return out


@reduction(
    Custom(
        lambda o, ts, y, x, *, axis, keepdims: o.sum(
            o.multiply(ts[0], _softmax(o, y, x, axis, keepdims)), axis=axis, keepdims=keepdims
        ),
        (
            lambda o, g, y, x, *, axis, keepdims: o.multiply(
                restore(o, g, x, axis, keepdims), _softmax(o, y, x, axis, keepdims)
            ),
        ),
    ),
    kernel=(
        Kernel(
            "in steps",
            compute=_logsumexp_compute,
            into=kernels.logsumexp_into,
            scratch=kernels.logsumexp_scratch,
            namespaces=NUMPY,
            strided=True,
        ),
        reference(kernels.logsumexp),
    ),
    dtype=real_floating,
    samples=Samples(dtypes=FLOATS, params=_axes),
    onnx=onnx_reductions.logsumexp,
    tolerance=SUMMED,
)
def logsumexp(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials, without overflow; of no elements, -inf."""


def _axis_only(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw(range(-rank, rank))}


@operator(
    shape=movement.along,
    dtype=dtypes.accumulated,
    kernels=(
        kernels.by_method("cumsum", dtypes.accumulated, infallible=True),
        reference(kernels.cumulative_sum, infallible=True),
    ),
    derivative=Linear(lambda o, g, x, *, axis: o.flip(o.cumulative_sum(o.flip(g, axis=axis), axis=axis), axis=axis)),
    onnx=onnx_reductions.cumulative_sum,
    cost=per_input_element(),
    tolerance=SUMMED,
    samples=Samples(dtypes=NUMBERS, params=_axis_only, min_rank=1),
    laws=(odd.rounded, keeps_nonnegative),
)
def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    """Sum of each element and all before it along an axis, in the dtype of a sum."""
