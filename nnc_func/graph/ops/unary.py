"""Elementwise operators of one argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels import move
from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.facets import dtypes, layouts, shapes
from nnc_func.facets.derivatives import Constant, Custom, Linear, partials
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.laws import idempotent, inverse_of, involution
from nnc_func.facets.samples import ANY, EXACT, FLOATS, NUMBERS, Refused, Samples
from nnc_func.facets.views import View, free, per_element
from nnc_func.graph.ops.families import (
    STEPS,
    DType,
    Tensor,
    blocks,
    comparable,
    elementwise,
    holding,
    in_blocks,
    in_steps,
    logical,
    number,
    predicate,
    real,
    real_floating,
    rounding,
)
from nnc_func.op import operator

POSITIVE = Samples(domain=(0.1, 5.0), dtypes=FLOATS)
TRANSCENDENTAL = per_element(8)


@elementwise(
    Linear(lambda o, g, x: o.negative(g)),
    dtype=dtypes.numeric,
    laws=(involution,),
    onnx="Neg",
    samples=Samples(dtypes=NUMBERS),
    tolerance=EXACT,
)
def negative(x: Tensor, /) -> Tensor:
    """The number with its sign changed; unsigned integers wrap around."""


@elementwise(
    partials(lambda o, y, x: o.sign(x)),
    dtype=real,
    laws=(idempotent,),
    onnx="Abs",
    samples=Samples(avoid=(0.0,), dtypes=NUMBERS),
    tolerance=EXACT,
)
def abs_(x: Tensor, /) -> Tensor:
    """Magnitude; its derivative at zero is taken to be zero."""


@elementwise(
    STEPS, dtype=real, laws=(idempotent,), onnx="Sign", samples=Samples(avoid=(0.0,), dtypes=NUMBERS), tolerance=EXACT
)
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN stays NaN."""


@elementwise(partials(lambda o, y, x: y), laws=(inverse_of("log"),), onnx="Exp", cost=TRANSCENDENTAL)
def exp(x: Tensor, /) -> Tensor:
    """e to the power of each element."""


@elementwise(
    partials(lambda o, y, x: o.add(y, 1)),
    laws=(inverse_of("log1p"),),
    onnx=Refused("ONNX has no expm1"),
    cost=TRANSCENDENTAL,
)
def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, exact also where x is small."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(x), singular=True), onnx="Log", samples=POSITIVE, cost=TRANSCENDENTAL
)
def log(x: Tensor, /) -> Tensor:
    """Natural logarithm; negative numbers give NaN, zero gives -inf."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.add(x, 1))),
    onnx=Refused("ONNX has no log1p"),
    samples=Samples(domain=(-0.9, 4.0)),
    cost=TRANSCENDENTAL,
)
def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), exact also where x is small."""


@elementwise(
    partials(lambda o, y, x: o.multiply(o.reciprocal(y), 0.5), singular=True),
    onnx="Sqrt",
    samples=POSITIVE,
    tolerance=EXACT,
)
def sqrt(x: Tensor, /) -> Tensor:
    """Square root; negative numbers give NaN."""


@elementwise(
    partials(lambda o, y, x: o.multiply(x, 2)),
    dtype=dtypes.numeric,
    laws=(inverse_of("sqrt"),),
    onnx=Refused("ONNX has no square; multiply the tensor with itself"),
    samples=Samples(dtypes=NUMBERS),
    tolerance=EXACT,
)
def square(x: Tensor, /) -> Tensor:
    """The number times itself."""


@elementwise(
    partials(lambda o, y, x: o.negative(o.reciprocal(o.square(x))), singular=True),
    onnx="Reciprocal",
    samples=Samples(avoid=(0.0,)),
    tolerance=EXACT,
)
def reciprocal(x: Tensor, /) -> Tensor:
    """One over the number; unlike NumPy's, that of an integer is a float64."""


@elementwise(partials(lambda o, y, x: o.cos(x)), onnx="Sin", cost=TRANSCENDENTAL)
def sin(x: Tensor, /) -> Tensor:
    """Sine of an angle in radians."""


@elementwise(partials(lambda o, y, x: o.negative(o.sin(x))), onnx="Cos", cost=TRANSCENDENTAL)
def cos(x: Tensor, /) -> Tensor:
    """Cosine of an angle in radians."""


@elementwise(partials(lambda o, y, x: o.subtract(1, o.square(y))), onnx="Tanh", cost=TRANSCENDENTAL)
def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent, between -1 and 1."""


# --- composed: several calls, in place --------------------------------------------------------------------


def _sigmoid(xp: Any, x: Any) -> Any:
    x = converted(xp, x, real_floating(dtype_of(x)))
    below = xp.exp(xp.minimum(x, xp.zeros_like(x)))  # no exponential of anything positive: none overflows
    return below / (1 + xp.exp(-xp.abs(x)))


def _sigmoid_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    (out,) = outs
    with np.errstate(over="ignore"):  # 1 / (1 + inf) is the zero that is wanted
        xp.negative(arrays[0], out, dtype=out.dtype)
        xp.exp(out, out)
        xp.add(out, 1, out)
        xp.reciprocal(out, out)


@elementwise(
    partials(lambda o, y, x: o.multiply(y, o.subtract(1, y))),
    dtype=real_floating,
    kernel=(in_steps(_sigmoid_into, dtype=real_floating, overwrites=ALL), reference(_sigmoid, infallible=True)),
    onnx="Sigmoid",
    cost=per_element(12),
)
def sigmoid(x: Tensor, /) -> Tensor:
    """1 / (1 + exp(-x)): between 0 and 1, without overflow however large the argument."""


def _relu(xp: Any, x: Any) -> Any:
    return xp.maximum(x, xp.zeros_like(x))


def _relu_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    xp.maximum(arrays[0], 0, out=outs[0])


@elementwise(
    Custom(
        lambda o, ts, y, x: o.where(o.greater(y, 0), ts[0], 0),
        (lambda o, g, y, x: o.where(o.greater(y, 0), g, 0),),
    ),
    dtype=real,
    kernel=(in_steps(_relu_into, dtype=real, overwrites=ALL), reference(_relu, infallible=True)),
    laws=(idempotent,),
    onnx="Relu",
    samples=Samples(avoid=(0.0,), dtypes=NUMBERS),
    tolerance=EXACT,
)
def relu(x: Tensor, /) -> Tensor:
    """The number, or 0 if it is negative; its derivative at 0 is taken to be 0, and NaN stays NaN."""


def _softplus(xp: Any, x: Any) -> Any:
    x = converted(xp, x, real_floating(dtype_of(x)))
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


def _softplus_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    """max(x, 0) + log1p(exp(-|x|)): several passes, and yet ten times as fast as NumPy's logaddexp."""
    for x, out, rest in blocks(xp, arrays, outs[0], scratch[0]):
        xp.abs(x, rest, dtype=rest.dtype)
        xp.negative(rest, rest)
        xp.exp(rest, rest)
        xp.log1p(rest, rest)
        xp.maximum(x, 0, out=out)
        xp.add(out, rest, out)


@elementwise(
    partials(lambda o, y, x: o.sigmoid(x)),
    dtype=real_floating,
    kernel=(
        *in_blocks(_softplus_into, dtype=real_floating, inner=real_floating),
        reference(_softplus, infallible=True),
    ),
    onnx="Softplus",
    cost=per_element(16),
)
def softplus(x: Tensor, /) -> Tensor:
    """log(1 + exp(x)), the smooth relu, without overflow however large the argument."""


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


def _clip_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, min: Any, max: Any) -> None:
    (x,), (out,) = arrays, outs
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
    laws=(idempotent,),
    onnx="Clip",
    tolerance=EXACT,
    samples=Samples(avoid=(-2.0, -1.0, 1.0, 2.0), dtypes=NUMBERS, params=_bounds),
)
def clip(x: Tensor, /, *, min: number | None = None, max: number | None = None) -> Tensor:
    """The number, not below `min` and not above `max`; the derivative on a bound is 1, and `max` wins if they cross."""


# --- rounding and questions ------------------------------------------------------------------------------

WHOLE = Samples(avoid=(-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), dtypes=NUMBERS)
QUESTION: dict[str, Any] = {"samples": Samples(dtypes=ANY), "tolerance": EXACT}
HALVES = Samples(avoid=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5), dtypes=NUMBERS)


@elementwise(
    STEPS,
    dtype=real,
    kernel=rounding("floor", "floor"),
    laws=(idempotent,),
    onnx="Floor",
    samples=WHOLE,
    tolerance=EXACT,
)
def floor(x: Tensor, /) -> Tensor:
    """The largest integer that is not above, in the dtype of the number."""


@elementwise(
    STEPS, dtype=real, kernel=rounding("ceil", "ceil"), laws=(idempotent,), onnx="Ceil", samples=WHOLE, tolerance=EXACT
)
def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer that is not below, in the dtype of the number."""


@elementwise(
    STEPS,
    dtype=real,
    kernel=rounding("rint", "round"),
    laws=(idempotent,),
    onnx="Round",
    samples=HALVES,
    tolerance=EXACT,
)
def round_(x: Tensor, /) -> Tensor:
    """The nearest integer, in the dtype of the number; halves go to the even one."""


@predicate("a question has no derivative", common=comparable, onnx="IsNaN", **QUESTION)
def isnan(x: Tensor, /) -> Tensor:
    """Whether it is NaN; nothing but a float ever is."""


@predicate("a question has no derivative", common=comparable, onnx="IsInf", **QUESTION)
def isinf(x: Tensor, /) -> Tensor:
    """Whether it is infinite, of either sign."""


@predicate("a question has no derivative", common=comparable, onnx=Refused("ONNX has no isfinite"), **QUESTION)
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
)
def logical_not(x: Tensor, /) -> Tensor:
    """The opposite truth value, of booleans only."""


# --- identities ------------------------------------------------------------------------------------------


@operator(
    shape=shapes.same,
    dtype=dtypes.given,
    layout=layouts.common,
    kernels=reference(move.cast, move.cast_into, infallible=True, strided=True),
    derivative=Linear(lambda o, g, x, *, dtype: o.cast(g, dtype=o.dtype(x))),
    laws=(idempotent,),
    onnx="Cast",
    cost=free,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=lambda shapes_, draw: {"dtype": np.dtype(draw(FLOATS))}),
)
def cast(x: Tensor, /, *, dtype: DType) -> Tensor:
    """The same numbers in another dtype: floats are cut towards zero to become integers."""


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.common,
    kernels=Kernel("view", compute=move.whole, infallible=True),
    derivative=Constant("stopping the gradient is its purpose"),
    laws=(idempotent,),
    view=View(contiguous=True),
    onnx="Identity",
    cost=free,
    samples=Samples(dtypes=ANY),
    tolerance=EXACT,
)
def stop_gradient(x: Tensor, /) -> Tensor:
    """The same numbers, which differentiation takes for constants."""
