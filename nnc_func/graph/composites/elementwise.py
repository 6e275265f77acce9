"""Elementwise functions made of other operators: angles in degrees, NumPy's and SciPy's smaller ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.samples import ANY, FLOATS, INEXACT, NUMBERS, REALS, Samples, Tolerance
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor, real_floating

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

CLOSE = Tolerance(16.0)


@composite(samples=Samples(dtypes=NUMBERS))
def positive(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The number itself; booleans are refused."""
    dtypes.numeric(o.dtype(x))
    return x


@composite(samples=Samples(domain=(0.1, 5.0), dtypes=INEXACT), tolerance=CLOSE)
def rsqrt(o: Ops[Any], x: Tensor, /) -> Tensor:
    """One over the square root."""
    return o.reciprocal(o.sqrt(x))


@composite(samples=Samples(dtypes=FLOATS), tolerance=CLOSE)
def deg2rad(o: Ops[Any], x: Tensor, /) -> Tensor:
    """An angle in degrees, in radians."""
    return o.multiply(x, math.pi / 180)


@composite(samples=Samples(dtypes=FLOATS), tolerance=CLOSE)
def rad2deg(o: Ops[Any], x: Tensor, /) -> Tensor:
    """An angle in radians, in degrees."""
    return o.multiply(x, 180 / math.pi)


@composite(
    tolerance=CLOSE,
    samples=Samples(domain=((-0.9, 0.9), (1.0, 3.0)), avoid=(0.0,), dtypes=REALS),
)  # fmt: skip
def fmod(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """What a leaves when divided by b, the quotient cut to a whole number: of the sign of a; `remainder` has b's."""
    common = dtypes.promote(o.dtype(a), o.dtype(b))
    a, b = (x if o.dtype(x) == common else o.cast(x, dtype=common) for x in (a, b))  # |-128| is no int8
    kind = kind_of(common)
    if kind == "u":
        return o.remainder(a, b)
    if kind == "f":
        return o.copysign(o.remainder(o.abs(a), o.abs(b)), a)
    left = o.remainder(a, b)
    zero = o.number(0, left)
    turned = o.logical_and(o.not_equal(left, zero), o.not_equal(o.less(a, 0), o.less(b, 0)))
    return o.where(turned, o.subtract(left, b), left)


@composite(samples=Samples(dtypes=FLOATS), tolerance=CLOSE)
def sinc(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``sin(pi x) / (pi x)``, 1 at zero; near it by a power series, so that all derivatives are right there."""
    angle = o.multiply(x, math.pi)
    near = o.less(o.abs(angle), 0.5)
    square = o.square(o.where(near, angle, 0))
    series = o.full(shape=(), value=1 / math.factorial(15), dtype=o.dtype(square))
    for n in range(6, -1, -1):
        series = o.subtract(1 / math.factorial(2 * n + 1), o.multiply(series, square))
    far = o.where(near, 1, angle)
    return o.where(near, series, o.divide(o.sin(far), far))


@composite(samples=Samples(domain=((-3.0, 3.0), (0.1, 4.0)), dtypes=FLOATS), tolerance=CLOSE)
def xlogy(o: Ops[Any], x: Tensor, y: Tensor, /) -> Tensor:
    """``x log(y)``, zero where x is zero, whatever y is but NaN; its derivatives are finite there."""
    usable = o.logical_and(o.greater(y, 0), o.isfinite(y))
    skipped = o.logical_and(o.equal(x, 0), o.logical_not(o.logical_or(usable, o.isnan(y))))
    return o.multiply(x, o.log(o.where(skipped, 1, y)))


# --- where numbers are missing ----------------------------------------------------------------------------


def _finite(o: Ops[Any], x: Tensor, nan: float, posinf: float | None, neginf: float | None) -> Tensor:
    limits = limits_of(o.dtype(x))
    above = float(limits.max) if posinf is None else posinf
    below = float(limits.min) if neginf is None else neginf
    infinite = o.where(o.greater(x, 0), o.full(shape=(), value=above, dtype=o.dtype(x)), below)
    return o.where(o.isnan(x), nan, o.where(o.isinf(x), infinite, x))


@composite(samples=Samples(dtypes=NUMBERS))
def nan_to_num(
    o: Ops[Any], x: Tensor, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:  # fmt: skip
    """`nan` for NaN, `posinf` and `neginf` for infinities: the largest and the smallest number of the dtype by default.

    Both parts of complex numbers are treated so; nothing flows back to what has been replaced.
    """
    kind = kind_of(o.dtype(x))
    if kind not in "fc":
        return x
    if kind == "f":
        return _finite(o, x, nan, posinf, neginf)
    return o.complex(*(_finite(o, part, nan, posinf, neginf) for part in (o.real(x), o.imag(x))))


@composite(samples=Samples(dtypes=FLOATS, distinct=True))
def fmax(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """The larger of two numbers, of which NaN is none: it is NaN where both are."""
    return o.where(o.isnan(a), b, o.where(o.isnan(b), a, o.maximum(a, b)))


@composite(samples=Samples(dtypes=FLOATS, distinct=True))
def fmin(o: Ops[Any], a: Tensor, b: Tensor, /) -> Tensor:
    """The smaller of two numbers, of which NaN is none: it is NaN where both are."""
    return o.where(o.isnan(a), b, o.where(o.isnan(b), a, o.minimum(a, b)))


@composite(derivative=Constant("it is constant between its jumps"), samples=Samples(avoid=(0.0,), dtypes=REALS))
def heaviside(o: Ops[Any], x: Tensor, middle: Tensor, /) -> Tensor:
    """0 below zero, 1 above, `middle` at zero; NaN stays NaN. It is floating, of integers float64."""
    common = real_floating(o.dtype(x), o.dtype(middle))
    x, middle = (each if o.dtype(each) == common else o.cast(each, dtype=common) for each in (x, middle))
    step = o.where(o.equal(x, 0), middle, o.cast(o.greater(x, 0), dtype=common))
    return o.where(o.isnan(x), x, step)


@composite(derivative=Constant("a question has no derivative"), samples=Samples(dtypes=ANY))
def isclose(
    o: Ops[Any], a: Tensor, b: Tensor, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:  # fmt: skip
    """Whether ``|a - b| <= atol + rtol |b|``; equal infinities are close, NaN is close to NaN only with `equal_nan`."""
    a, b = (_number(o, each) for each in (a, b))
    same = o.equal(a, b)
    finite = o.logical_and(o.isfinite(a), o.isfinite(b))
    allowed = o.add(o.multiply(o.abs(b), rtol), atol)
    distance = o.abs(o.subtract(o.where(finite, a, 0), o.where(finite, b, 0)))
    near = o.logical_or(same, o.logical_and(finite, o.less_equal(distance, allowed)))
    return o.logical_or(near, o.logical_and(o.isnan(a), o.isnan(b))) if equal_nan else near


def _number(o: Ops[Any], x: Any) -> Tensor:
    """Integers and booleans as float64, in which no difference wraps around."""
    return x if kind_of(o.dtype(x)) in "fc" else o.cast(x, dtype="float64")
