"""Exponentials, logarithms, trigonometric and hyperbolic functions and their inverses, of real and complex numbers.

Branch cuts are NumPy's and the standard's. Formulas of derivatives are right on the principal branch everywhere.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels.special_cases import EXPM1, LOG1P, TANH, corrected
from nnc_func.facets.derivatives import partials
from nnc_func.facets.dtypes import floating
from nnc_func.facets.laws import ignores, increasing, inverse_of, nonnegative, odd
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import FLOATS, INEXACT, Samples, Tolerance
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, pointwise, real_floating, standing_in

POSITIVE = Samples(domain=(0.1, 5.0), dtypes=INEXACT)
WITHIN_ONE = Samples(domain=(-0.9, 0.9), dtypes=INEXACT)
ABOVE_ONE = Samples(domain=(1.1, 4.0), dtypes=INEXACT)
SLOW = per_element(8)
LN2 = 0.6931471805599453
LN10 = 2.302585092994046
EVEN = (ignores("negative").of("f").rounded, ignores("abs").of("f").rounded)
ODD = odd.of("f").rounded


# --- exponentials and logarithms --------------------------------------------------------------------------


@elementwise(
    partials(lambda o, y, x: y),
    laws=(inverse_of("log"), nonnegative, increasing.rounded),
    onnx="Exp",
    cost=SLOW,
)
def exp(x: Tensor, /) -> Tensor:
    """e to the power of each element."""


@elementwise(
    partials(lambda o, y, x: o.multiply(y, LN2)),
    dtype=real_floating,
    kernel=standing_in("exp2", lambda xp, x: xp.pow(xp.full_like(x, 2), x), real_floating),
    laws=(inverse_of("log2"), nonnegative, increasing.rounded),
    onnx=onnx_elementwise.exp2,
    samples=Samples(dtypes=FLOATS),
    cost=SLOW,
)
def exp2(x: Tensor, /) -> Tensor:
    """Two to the power of each element."""


@elementwise(
    partials(lambda o, y, x: o.add(y, 1)),
    kernel=corrected("expm1", "expm1", floating, EXPM1, pointwise("expm1", "expm1", floating, widens=True)),
    laws=(inverse_of("log1p").of("", nearly="f"), increasing.rounded),
    onnx=onnx_elementwise.expm1,
    cost=SLOW,
)
def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, exact also where x is small."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(x), singular=True),
    onnx="Log",
    samples=POSITIVE,
    cost=SLOW,
    laws=(inverse_of("exp").of("", nearly="f"),),
)
def log(x: Tensor, /) -> Tensor:
    """Natural logarithm; negative real numbers give NaN, zero gives -inf."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.multiply(x, LN2)), singular=True),
    onnx=onnx_elementwise.logarithm(2),
    samples=POSITIVE,
    cost=SLOW,
    laws=(inverse_of("exp2").of("", nearly="f"),),
)
def log2(x: Tensor, /) -> Tensor:
    """Logarithm to base two; its derivative is 1 / (x ln 2)."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.multiply(x, LN10)), singular=True),
    onnx=onnx_elementwise.logarithm(10),
    samples=POSITIVE,
    cost=SLOW,
)
def log10(x: Tensor, /) -> Tensor:
    """Logarithm to base ten; its derivative is 1 / (x ln 10)."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.add(x, 1)), singular=True),
    kernel=corrected("log1p", "log1p", floating, LOG1P, pointwise("log1p", "log1p", floating, widens=True)),
    onnx=onnx_elementwise.log1p,
    samples=Samples(domain=(-0.9, 4.0)),
    cost=SLOW,
    laws=(inverse_of("expm1").of("", nearly="f"),),
)
def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), exact also where x is small."""


def _larger(o: Any, y: Any, a: Any, b: Any) -> Any:
    """Of the derivative of logaddexp, the part of `a`: sigmoid(a - b), half where both are the same infinity."""
    a, b = (o.cast(each, dtype=o.dtype(y)) for each in (a, b))  # of two numbers nothing would say what dtype they have
    same = o.logical_and(o.equal(a, b), o.isinf(a))
    return o.sigmoid(o.where(same, 0, o.subtract(o.where(same, 0, a), o.where(same, 0, b))))


@elementwise(
    partials(_larger, lambda o, y, a, b: _larger(o, y, b, a)),
    dtype=real_floating,
    onnx=onnx_elementwise.logaddexp,
    samples=Samples(dtypes=FLOATS),
    cost=per_element(20),
)
def logaddexp(a: Tensor, b: Tensor, /) -> Tensor:
    """log(exp(a) + exp(b)), without overflow however large the arguments."""


# --- trigonometric ----------------------------------------------------------------------------------------


@elementwise(partials(lambda o, y, x: o.cos(x)), onnx="Sin", cost=SLOW, laws=(ODD, inverse_of("asin")))
def sin(x: Tensor, /) -> Tensor:
    """Sine of an angle in radians."""


@elementwise(
    partials(lambda o, y, x: o.negative(o.sin(x))),
    onnx="Cos",
    cost=SLOW,
    laws=(*EVEN, inverse_of("acos")),
)
def cos(x: Tensor, /) -> Tensor:
    """Cosine of an angle in radians."""


@elementwise(
    partials(lambda o, y, x: o.add(o.square(y), 1)),
    onnx="Tan",
    samples=Samples(domain=(-1.2, 1.2)),
    cost=SLOW,
    laws=(ODD,),
)
def tan(x: Tensor, /) -> Tensor:
    """Tangent of an angle in radians."""


def _circle(o: Any, x: Any) -> Any:
    """1 / sqrt(1 - x²), in a form that keeps to the principal branch and to what is small beside one."""
    return o.reciprocal(o.multiply(o.sqrt(o.subtract(1, x)), o.sqrt(o.add(x, 1))))


@elementwise(
    partials(lambda o, y, x: _circle(o, x), singular=True),
    kernel="arcsin",
    standard="asin",
    onnx="Asin",
    samples=WITHIN_ONE,
    cost=SLOW,
    laws=(ODD,),
)
def asin(x: Tensor, /) -> Tensor:
    """The angle with that sine, between -pi/2 and pi/2; real numbers outside of [-1, 1] give NaN."""


@elementwise(
    partials(lambda o, y, x: o.negative(_circle(o, x)), singular=True),
    kernel="arccos",
    standard="acos",
    onnx="Acos",
    samples=WITHIN_ONE,
    cost=SLOW,
)
def acos(x: Tensor, /) -> Tensor:
    """The angle with that cosine, between 0 and pi; real numbers outside of [-1, 1] give NaN."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.add(o.square(x), 1))),
    kernel="arctan",
    standard="atan",
    onnx="Atan",
    samples=WITHIN_ONE,
    cost=SLOW,
    laws=(ODD, increasing.rounded),
)
def atan(x: Tensor, /) -> Tensor:
    """The angle with that tangent, between -pi/2 and pi/2."""


# --- hyperbolic -------------------------------------------------------------------------------------------


@elementwise(
    partials(lambda o, y, x: o.cosh(x)), onnx="Sinh", cost=SLOW, laws=(ODD, increasing.rounded, inverse_of("asinh"))
)
def sinh(x: Tensor, /) -> Tensor:
    """Hyperbolic sine."""


@elementwise(
    partials(lambda o, y, x: o.sinh(x)),
    onnx="Cosh",
    cost=SLOW,
    laws=(*EVEN, nonnegative, inverse_of("acosh")),
)
def cosh(x: Tensor, /) -> Tensor:
    """Hyperbolic cosine."""


@elementwise(
    partials(lambda o, y, x: o.subtract(1, o.square(y))),
    kernel=corrected("tanh", "tanh", floating, TANH, pointwise("tanh", "tanh", floating, widens=True)),
    onnx="Tanh",
    samples=Samples(domain=(-1.2, 1.2)),
    cost=SLOW,
    laws=(ODD, increasing.rounded, inverse_of("atanh").of("", nearly="f")),
)
def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent, of real numbers between -1 and 1."""


def _hyperbola(o: Any, y: Any, x: Any) -> Any:
    """1 / sqrt(x² + 1): of real numbers by hypot, which does not overflow."""
    return o.reciprocal(o.sqrt(o.add(o.square(x), 1)) if o.dtype(y).kind == "c" else o.hypot(x, 1))


@elementwise(
    partials(_hyperbola),
    kernel="arcsinh",
    standard="asinh",
    onnx="Asinh",
    samples=WITHIN_ONE,
    cost=SLOW,
    laws=(ODD, increasing.rounded, inverse_of("sinh").of("", nearly="f")),
)
def asinh(x: Tensor, /) -> Tensor:
    """The number with that hyperbolic sine."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.multiply(o.sqrt(o.subtract(x, 1)), o.sqrt(o.add(x, 1)))), singular=True),
    kernel="arccosh",
    standard="acosh",
    onnx="Acosh",
    samples=ABOVE_ONE,
    cost=SLOW,
)
def acosh(x: Tensor, /) -> Tensor:
    """The number, not below zero, with that hyperbolic cosine; real numbers below 1 give NaN."""


@elementwise(
    partials(lambda o, y, x: o.reciprocal(o.multiply(o.subtract(1, x), o.add(x, 1))), singular=True),
    kernel="arctanh",
    standard="atanh",
    onnx="Atanh",
    samples=WITHIN_ONE,
    cost=SLOW,
    laws=(ODD, inverse_of("tanh").of("", nearly="f")),
)
def atanh(x: Tensor, /) -> Tensor:
    """The number with that hyperbolic tangent; real numbers outside of [-1, 1] give NaN."""


# --- roots and lengths ------------------------------------------------------------------------------------


def _cube_root(xp: Any, x: Any) -> Any:
    """By logarithms, then one step of Newton's method."""
    size = xp.abs(x)
    usable = (size > 0) & xp.isfinite(size)
    some = xp.where(usable, size, xp.ones_like(size))
    root = xp.exp(xp.log(some) / 3)
    root = root - (root - some / (root * root)) / 3
    return xp.where(usable, xp.sign(x) * root, x)


@elementwise(
    partials(lambda o, y, x: o.multiply(o.reciprocal(o.square(y)), 1 / 3), singular=True),
    dtype=real_floating,
    kernel=standing_in("cbrt", _cube_root, real_floating),
    onnx=onnx_elementwise.cbrt,
    samples=Samples(avoid=(0.0,), dtypes=FLOATS),
    tolerance=Tolerance(8.0),
    cost=per_element(16),
    laws=(ODD, increasing.rounded),
)
def cbrt(x: Tensor, /) -> Tensor:
    """The real cube root, of negative numbers too."""


def _over(o: Any, part: Any, y: Any) -> Any:
    """The part over the length, zero where that is zero."""
    nowhere = o.equal(y, 0)
    return o.where(nowhere, 0, o.divide(part, o.where(nowhere, 1, y)))


@elementwise(
    partials(lambda o, y, a, b: _over(o, a, y), lambda o, y, a, b: _over(o, b, y)),
    dtype=real_floating,
    onnx=onnx_elementwise.hypot,
    samples=Samples(avoid=(0.0,), dtypes=FLOATS),
    cost=per_element(8),
    laws=(*EVEN, nonnegative),
)
def hypot(a: Tensor, b: Tensor, /) -> Tensor:
    """sqrt(a² + b²) without overflow; its derivative at the origin is taken to be zero."""
