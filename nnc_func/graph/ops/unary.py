"""Elementwise operators of one argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels import move
from nnc_func.device.kernels.move import Arrays
from nnc_func.device.kernels.special_cases import SIGN, corrected
from nnc_func.facets import dtypes, layouts, lowering, shapes
from nnc_func.facets.derivatives import Constant, Custom, Linear, partials
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.laws import (
    always,
    idempotent,
    identity,
    ignores,
    increasing,
    inverse_of,
    involution,
    keeps_nonnegative,
    nonnegative,
    odd,
    turns,
    whole,
)
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import ANY, EXACT, INEXACT, NUMBERS, Samples
from nnc_func.facets.views import View, free
from nnc_func.graph.ops.families import (
    STEPS,
    DType,
    Tensor,
    comparable,
    elementwise,
    holding,
    in_steps,
    logical,
    number,
    pointwise,
    predicate,
    real,
    rounding,
)
from nnc_func.op import operator

POSITIVE = Samples(domain=(0.1, 5.0))


@elementwise(
    Linear(lambda o, g, x: o.negative(g)),
    dtype=dtypes.numeric,
    laws=(involution,),
    onnx=onnx_elementwise.negative,
    samples=Samples(dtypes=NUMBERS),
    tolerance=EXACT,
    lowering=lowering.primitive("negative"),
)
def negative(x: Tensor, /) -> Tensor:
    """The number with its sign changed; unsigned integers wrap around."""


@elementwise(
    Custom(
        lambda o, ts, y, x: o.real(o.multiply(ts[0], o.conj(o.sign(x)))),
        (lambda o, g, y, x: o.multiply(g, o.conj(o.sign(x))),),
    ),
    dtype=dtypes.real_part,
    kernel=pointwise("abs", "abs", dtypes.numeric, widens=False),
    laws=(
        idempotent,
        identity.of("u"),
        ignores("negative").of("ifc"),
        ignores("conj"),
        nonnegative,
        turns("multiply", "multiply").of("f", nearly="c"),
    ),
    onnx="Abs",
    samples=Samples(avoid=(0.0,), dtypes=NUMBERS),
    lowering=lowering.of_reals(lambda s, x: s.absolute(x)),
)
def abs_(x: Tensor, /) -> Tensor:
    """Magnitude, of complex numbers too; its derivative at zero is taken to be zero."""


def _across(o: Any, x: Any) -> Any:
    """1 / |2 x|, zero at zero."""
    size = o.abs(x)
    nowhere = o.equal(size, 0)
    return o.where(nowhere, 0, o.divide(0.5, o.where(nowhere, 1, size)))


def _sign_jvp(o: Any, ts: Any, y: Any, x: Any) -> Any:
    """What of the tangent of x / |x| points along x is taken away: (t - y² conj(t)) / |2 x|; of a real number all."""
    if o.dtype(x).kind != "c":
        return None
    return o.multiply(o.subtract(ts[0], o.multiply(o.square(y), o.conj(ts[0]))), _across(o, x))


def _sign_vjp(o: Any, g: Any, y: Any, x: Any) -> Any:
    if o.dtype(x).kind != "c":
        return None
    return o.multiply(o.subtract(g, o.conj(o.multiply(g, o.square(y)))), _across(o, x))


@elementwise(
    Custom(_sign_jvp, (_sign_vjp,)),
    dtype=dtypes.numeric,
    kernel=corrected("sign", "sign", dtypes.numeric, SIGN, pointwise("sign", "sign", dtypes.numeric, widens=False)),
    onnx=onnx_elementwise.sign,
    samples=Samples(avoid=(0.0,), dtypes=NUMBERS),
    laws=(odd,),
    lowering=lowering.of_reals(lowering.sign_of),
)
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1, of a complex number x / |x|; NaN stays NaN, and the derivative at zero is taken to be zero."""


@elementwise(
    partials(lambda o, y, x: o.multiply(o.reciprocal(y), 0.5), singular=True),
    onnx="Sqrt",
    samples=POSITIVE,
    tolerance=EXACT,
    laws=(nonnegative,),
    lowering=lowering.in_floats("sqrt"),
)
def sqrt(x: Tensor, /) -> Tensor:
    """Square root; negative numbers give NaN."""


@elementwise(
    partials(lambda o, y, x: o.multiply(x, 2)),
    dtype=dtypes.numeric,
    laws=(
        inverse_of("sqrt"),
        ignores("negative"),
        ignores("abs").of("iuf"),
        nonnegative,
        turns("multiply", "multiply").of("iu", nearly="fc"),
    ),
    onnx=onnx_elementwise.square,
    samples=Samples(dtypes=NUMBERS),
    tolerance=EXACT,
    lowering=lowering.Expression(lambda s, x: s.multiply(x, x)),
)
def square(x: Tensor, /) -> Tensor:
    """The number times itself."""


@elementwise(
    partials(lambda o, y, x: o.negative(o.reciprocal(o.square(x))), singular=True),
    onnx="Reciprocal",
    samples=Samples(avoid=(0.0,)),
    tolerance=EXACT,
    laws=(odd, inverse_of("reciprocal")),
    lowering=lowering.of_reals(lowering.inverse),
)
def reciprocal(x: Tensor, /) -> Tensor:
    """One over the number; unlike NumPy's, that of an integer is a float64."""


# --- bounds ----------------------------------------------------------------------------------------------


def _holds_bounds(x: dtypes.DType, *, min: Any, max: Any) -> dtypes.DType:
    for name, bound in (("min", min), ("max", max)):
        if bound is not None:
            holding(real(x), bound, name)
    return real(x)


def _clip(xp: Any, x: Any, *, min: Any, max: Any) -> Any:
    out = xp.asarray(x, copy=True)
    if min is not None:
        out = xp.maximum(out, xp.asarray(min, dtype=out.dtype))
    return out if max is None else xp.minimum(out, xp.asarray(max, dtype=out.dtype))


def _in_dtype(dtype: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds in a dtype; without one, infinity."""
    return dtype.type(-np.inf if low is None else low), dtype.type(np.inf if high is None else high)


def _clip_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, min: Any, max: Any) -> None:
    (x,), (out,) = arrays, outs
    if xp is np and x.dtype == out.dtype and x.dtype.kind == "f" and not min is max is None:
        x.clip(*_in_dtype(x.dtype, min, max), out)  # `maximum` of a run and a number is slow
        return
    if min is not None:
        xp.maximum(x, min, out=out)
    elif max is None:
        xp.copyto(out, x)
    if max is not None:
        xp.minimum(x if min is None else out, max, out=out)


def _bounds(shapes_: Any, draw: Any) -> dict[str, Any]:
    low, high = draw(((-1, 2), (-2, None), (None, 1), (None, None)))
    return {"min": low, "max": high}


@elementwise(
    Custom(
        lambda o, ts, y, x, *, min, max: o.where(o.equal(x, y), ts[0], 0),
        (lambda o, g, y, x, *, min, max: o.where(o.equal(x, y), g, 0),),
    ),
    dtype=_holds_bounds,
    kernel=(in_steps(_clip_into, dtype=_holds_bounds, overwrites=ALL), reference(_clip, infallible=True)),
    laws=(idempotent, increasing),
    onnx=onnx_elementwise.clip,
    tolerance=EXACT,
    samples=Samples(avoid=(-2.0, -1.0, 1.0, 2.0), dtypes=NUMBERS, params=_bounds),
    lowering=lowering.Expression(lowering.bounded, either_zero=True),
)
def clip(x: Tensor, /, *, min: number | None = None, max: number | None = None) -> Tensor:
    """The number, not below `min` and not above `max`; the derivative on a bound is 1, and `max` wins if they cross.

    A bound that is NaN makes everything NaN, as a tensor of bounds would.
    """


# --- rounding and questions ------------------------------------------------------------------------------

WHOLE = Samples(avoid=(-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), dtypes=NUMBERS)
QUESTION: dict[str, Any] = {"samples": Samples(dtypes=ANY), "tolerance": EXACT}
HALVES = Samples(avoid=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5), dtypes=NUMBERS)


@elementwise(
    STEPS,
    dtype=real,
    kernel=rounding("floor", "floor"),
    laws=(idempotent, identity.of("iu"), whole.of("f"), increasing, keeps_nonnegative),
    onnx=onnx_elementwise.rounded("Floor"),
    samples=WHOLE,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: s.rounded(x, "floor")),
)
def floor(x: Tensor, /) -> Tensor:
    """The largest integer that is not above, in the dtype of the number."""


@elementwise(
    STEPS,
    dtype=real,
    kernel=rounding("ceil", "ceil"),
    laws=(idempotent, identity.of("iu"), whole.of("f"), increasing, keeps_nonnegative),
    onnx=onnx_elementwise.rounded("Ceil"),
    samples=WHOLE,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: s.rounded(x, "ceil")),
)
def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer that is not below, in the dtype of the number."""


@elementwise(
    STEPS,
    dtype=dtypes.numeric,
    kernel=rounding("rint", "round"),
    laws=(idempotent, identity.of("iu"), whole.of("f"), increasing, keeps_nonnegative, odd),
    onnx=onnx_elementwise.rounded("Round"),
    samples=HALVES,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: s.rounded(x, "rint")),
)
def round_(x: Tensor, /) -> Tensor:
    """The nearest integer, in the dtype of the number; halves go to the even one. Both parts of complex numbers."""


@elementwise(
    STEPS,
    dtype=real,
    kernel=rounding("trunc", "trunc"),
    laws=(idempotent, identity.of("iu"), whole.of("f"), increasing, keeps_nonnegative, odd),
    onnx=onnx_elementwise.truncated,
    samples=WHOLE,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: s.rounded(x, "trunc")),
)
def trunc(x: Tensor, /) -> Tensor:
    """The nearest integer that is not farther from zero, in the dtype of the number."""


@predicate(
    "a question has no derivative",
    common=comparable,
    onnx=onnx_elementwise.of_floats("IsNaN"),
    **QUESTION,
    laws=(always(0).of("biu"), ignores("negative").of("fc")),
    lowering=lowering.primitive("is_nan"),
)
def isnan(x: Tensor, /) -> Tensor:
    """Whether it is NaN; nothing but a float ever is."""


@predicate(
    "a question has no derivative",
    common=comparable,
    onnx=onnx_elementwise.of_floats("IsInf"),
    **QUESTION,
    laws=(always(0).of("biu"), ignores("negative").of("fc")),
    lowering=lowering.of_reals(lowering.is_infinite),
)
def isinf(x: Tensor, /) -> Tensor:
    """Whether it is infinite, of either sign."""


@predicate(
    "a question has no derivative",
    common=comparable,
    onnx=onnx_elementwise.isfinite,
    **QUESTION,
    laws=(always(1).of("biu"), ignores("negative").of("fc")),
    lowering=lowering.of_reals(lowering.is_finite),
)
def isfinite(x: Tensor, /) -> Tensor:
    """Whether it is neither infinite nor NaN."""


@predicate(
    "booleans have no derivative",
    common=logical,
    dtype=logical,
    laws=(involution,),
    onnx="Not",
    samples=Samples(dtypes=("bool",)),
    tolerance=EXACT,
    lowering=lowering.primitive("bit_not"),
)
def logical_not(x: Tensor, /) -> Tensor:
    """The opposite truth value, of booleans only."""


# --- identities ------------------------------------------------------------------------------------------


@operator(
    shape=shapes.same,
    dtype=dtypes.converted,
    layout=layouts.common,
    kernels=reference(move.cast, move.cast_into, infallible=True, strided=True),
    derivative=Linear(lambda o, g, x, *, dtype: o.projected(g, o.dtype(x)), by_element=True),
    laws=(idempotent,),
    onnx=onnx_elementwise.cast,
    cost=free,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=lambda shapes_, draw: {"dtype": np.dtype(draw(INEXACT))}),
    data_movement=True,
    lowering=lowering.Expression(lambda s, x, *, dtype: s.cast(x, dtype)),
)
def cast(x: Tensor, /, *, dtype: DType) -> Tensor:
    """The same numbers in another dtype: floats are cut towards zero to become integers, complex ones stay complex."""


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.common,
    kernels=Kernel("view", compute=move.whole, infallible=True),
    derivative=Constant("stopping the gradient is its purpose"),
    laws=(idempotent, identity, odd, keeps_nonnegative),
    view=View(contiguous=True),
    onnx=onnx_elementwise.unchanged,
    cost=free,
    samples=Samples(dtypes=ANY),
    tolerance=EXACT,
    data_movement=True,
    lowering=lowering.Expression(lambda s, x: x),
)
def stop_gradient(x: Tensor, /) -> Tensor:
    """The same numbers, which differentiation takes for constants."""
