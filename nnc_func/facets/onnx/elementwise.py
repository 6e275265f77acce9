"""Elementwise operators in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.facets.dims import known
from nnc_func.facets.onnx import describe_as

FLOAT32, INT64 = np.dtype("float32"), np.dtype("int64")


def _is_whole(x: Any) -> bool:
    return x.dtype.kind in "biu"


def wide(g: Any, x: Any) -> Any:
    """In float32 at least, so that several steps round as one of half precision."""
    return g.converted(x, FLOAT32) if x.dtype.itemsize < 4 and not _is_whole(x) else x


def _wide(g: Any, *xs: Any) -> list[Any]:
    """Arguments in the result's dtype, float32 at least."""
    return [wide(g, g.converted(x, g.result.dtype)) for x in xs]


def unchanged(g: Any, x: Any, **_: Any) -> Any:
    """The tensor itself: ONNX says nothing of layouts, places and gradients."""
    return x


def first(g: Any, x: Any, *_: Any) -> Any:
    """The first tensor itself: ONNX says nothing of the order in which values are computed."""
    return x


def cast(g: Any, x: Any, *, dtype: Any) -> Any:
    """In another dtype."""
    return g.converted(x, dtype)


# --- signs, rounding --------------------------------------------------------------------------------------


def rounded(name: str) -> Any:
    """Of floats only; integers stay as they are."""

    @describe_as(f"{name} of floats; integers stay as they are.")
    def export(g: Any, x: Any) -> Any:
        return x if _is_whole(x) else g.node(name, x)

    return export


def truncated(g: Any, x: Any) -> Any:
    """Towards zero: the magnitude is rounded down."""
    return x if _is_whole(x) else g.Mul(g.Sign(x), g.Floor(g.Abs(x)))


def negative(g: Any, x: Any) -> Any:
    """Unsigned integers wrap around."""
    return g.Sub(g.scalar(0, x.dtype), x) if x.dtype.kind == "u" else g.Neg(x)


def sign(g: Any, x: Any) -> Any:
    """Runtimes differ in the sign of NaN, which is NaN; of int64 it is made of comparisons, see `extremum`."""
    if x.dtype == INT64:
        return g.Sub(g.converted(g.Greater(x, 0), INT64), g.converted(g.Less(x, 0), INT64))
    return g.Sign(x) if _is_whole(x) else g.Where(g.IsNaN(x), x, g.Sign(x))


def extremum(g: Any, name: str, a: Any, b: Any) -> Any:
    """The larger of two, ``"Max"``, or the smaller, ``"Min"``, of one dtype.

    Of int64 by a comparison: onnxruntime compares the lower halves of them as if they had signs
    (https://github.com/microsoft/onnxruntime/pull/25280).
    """
    if a.dtype != INT64:
        return g.node(name, a, b)
    return g.Where(g.Greater(a, b) if name == "Max" else g.Less(a, b), a, b)


def extreme_of_two(name: str) -> Any:
    """The larger of two, ``"Max"``, or the smaller, ``"Min"``."""

    @describe_as(f"{name}; of int64 a comparison.")
    def export(g: Any, *xs: Any) -> Any:
        return extremum(g, name, *(g.converted(x, g.result.dtype) for x in xs))

    return export


def signbit(g: Any, x: Any) -> Any:
    """Also of -0.0, whose reciprocal is negative; ONNX does not look at bits, so NaN counts as positive."""
    below = g.Less(x, 0)
    return below if _is_whole(x) else g.Or(below, g.Less(g.Reciprocal(x), 0))


def copysign(g: Any, a: Any, b: Any) -> Any:
    """The magnitude, negated where the other is negative."""
    a, b = (g.converted(x, g.result.dtype) for x in (a, b))
    size = g.Abs(a)
    return g.Where(signbit(g, b), g.Neg(size), size)


def clip(g: Any, x: Any, *, min: Any, max: Any) -> Any:
    """As maximum, then minimum: that settles what happens where the bounds cross."""
    found = g.converted(x, g.result.dtype)
    if min is not None:
        found = extremum(g, "Max", found, g.scalar(min, found.dtype))
    return found if max is None else extremum(g, "Min", found, g.scalar(max, found.dtype))


def relu(g: Any, x: Any) -> Any:
    """An unsigned integer is never negative."""
    if x.dtype == INT64:
        return extremum(g, "Max", x, g.scalar(0, INT64))
    return x if x.dtype.kind == "u" else g.Relu(x)


def imag(g: Any, x: Any) -> Any:
    """Zero: numbers are real."""
    return g.full(shape=x.shape, value=0, dtype=x.dtype)


def angle(g: Any, x: Any) -> Any:
    """Half a turn where the real number is negative, -0.0 too; NaN stays NaN."""
    x = g.converted(x, g.result.dtype)
    half = g.Where(signbit(g, x), g.scalar(math.pi, x.dtype), g.scalar(0, x.dtype))
    return g.Where(g.IsNaN(x), x, half)


# --- questions --------------------------------------------------------------------------------------------


def of_floats(name: str) -> Any:
    """A question whose answer is false for integers and booleans."""

    @describe_as(f"{name} of floats; false for integers and booleans.")
    def export(g: Any, x: Any) -> Any:
        return g.full(shape=x.shape, value=False, dtype=np.dtype("bool")) if _is_whole(x) else g.node(name, x)

    return export


def isfinite(g: Any, x: Any) -> Any:
    """Neither infinite nor NaN."""
    if _is_whole(x):
        return g.full(shape=x.shape, value=True, dtype=np.dtype("bool"))
    return g.Not(g.Or(g.IsNaN(x), g.IsInf(x)))


def not_equal(g: Any, a: Any, b: Any) -> Any:
    """The opposite of equal."""
    return g.logical_not(g.equal(a, b))


# --- arithmetic -------------------------------------------------------------------------------------------


def square(g: Any, x: Any) -> Any:
    """The product with itself."""
    return g.Mul(x, x)


def fma(g: Any, a: Any, b: Any, c: Any) -> Any:
    """Product and sum, each in the dtype of its operands."""
    return g.add(g.multiply(a, b), c)


def multiply_no_nan(g: Any, a: Any, b: Any) -> Any:
    """The product, but where the second factor is zero."""
    a, b = (g.converted(x, g.result.dtype) for x in (a, b))
    return g.Where(g.Equal(b, 0), g.scalar(0, b.dtype), g.Mul(a, b))


def masked(g: Any, x: Any, condition: Any) -> Any:
    """Zero where the condition is false."""
    return g.Where(condition, x, g.scalar(0, x.dtype))


def quantize(g: Any, x: Any, scale: Any, zero: Any, *, min: Any, max: Any) -> Any:
    """Rounded, moved, and bounded; zero where it is no number."""
    found = g.Add(g.Round(g.Div(x, scale)), zero)
    found = g.Where(g.IsNaN(found), g.scalar(0, found.dtype), found)
    return clip(g, found, min=min, max=max)


def where(g: Any, condition: Any, a: Any, b: Any) -> Any:
    """Both in the result's dtype."""
    return g.Where(condition, *(g.converted(x, g.result.dtype) for x in (a, b)))


# --- division with a whole quotient -----------------------------------------------------------------------


def _of_integers(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient, rounded down, and rest; both are zero where the divisor is.

    Division by zero, and of the least integer by -1, stops a runtime: neither is asked for.
    """
    zero, one = g.scalar(0, a.dtype), g.scalar(1, a.dtype)
    nothing = g.Equal(b, zero)
    if a.dtype.kind == "u":
        safe = g.Where(nothing, one, b)
        return g.Where(nothing, zero, g.Div(a, safe)), g.Where(nothing, zero, g.Mod(a, safe))
    turned = g.Equal(b, g.scalar(-1, b.dtype))
    safe = g.Where(g.Or(nothing, turned), one, b)
    rest, quotient = g.Mod(a, safe), g.Div(a, safe)  # the rest has the divisor's sign, the quotient is cut
    below = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(a, zero), g.Less(safe, zero)))
    quotient = g.Where(below, g.Sub(quotient, one), quotient)
    quotient = g.Where(turned, g.Neg(a), g.Where(nothing, zero, quotient))
    return quotient, g.Where(g.Or(nothing, turned), zero, rest)


def _of_floats(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """As C's fmod has it, then the rest brought to the divisor's sign, and the quotient to an integer."""
    zero, one = g.scalar(0, a.dtype), g.scalar(1, a.dtype)
    rest = g.Mod(a, b, fmod=1)
    quotient = g.Div(g.Sub(a, rest), b)
    other = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(b, zero)))
    rest, quotient = g.Where(other, g.Add(rest, b), rest), g.Where(other, g.Sub(quotient, one), quotient)
    below = g.Floor(quotient)
    below = g.Where(g.Greater(g.Sub(quotient, below), g.scalar(0.5, a.dtype)), g.Add(below, one), below)
    endless = g.Or(g.Equal(b, zero), g.Or(g.IsInf(a), g.IsInf(b)))
    return g.Where(endless, g.Div(a, b), below), rest


def _divided(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    a, b = (g.converted(x, g.result.dtype) for x in (a, b))
    return (_of_integers if a.dtype.kind in "iu" else _of_floats)(g, a, b)


def floor_divide(g: Any, a: Any, b: Any) -> Any:
    """The quotient, rounded down."""
    return _divided(g, a, b)[0]


def remainder(g: Any, a: Any, b: Any) -> Any:
    """What the floored division leaves."""
    return _divided(g, a, b)[1]


# --- exponentials and logarithms --------------------------------------------------------------------------


def exp2(g: Any, x: Any) -> Any:
    """A power of two."""
    (x,) = _wide(g, x)
    return g.Pow(g.scalar(2, x.dtype), x)


def expm1(g: Any, x: Any) -> Any:
    """tanh(x / 2) (exp(x) + 1), which is exact also where x is small."""
    (x,) = _wide(g, x)
    return g.Mul(g.Tanh(g.Mul(x, 0.5)), g.Add(g.Exp(x), 1))


def logarithm(base: float) -> Any:
    """The natural one, divided by that of the base."""

    @describe_as(f"Log, divided by that of {base:g}.")
    def export(g: Any, x: Any) -> Any:
        (x,) = _wide(g, x)
        return g.Div(g.Log(x), math.log(base))

    return export


def log1p(g: Any, x: Any) -> Any:
    """log(u) x / (u - 1) with u = 1 + x as it is rounded: Kahan's, exact also where x is small."""
    (x,) = _wide(g, x)
    return _log1p(g, x)


def _log1p(g: Any, x: Any) -> Any:
    one = g.scalar(1, x.dtype)
    above = g.Add(x, one)
    step = g.Sub(above, one)
    found = g.Mul(g.Log(above), g.Div(x, step))
    return g.Where(g.Equal(step, 0), x, g.Where(g.IsInf(x), g.Log(above), found))


def logaddexp(g: Any, a: Any, b: Any) -> Any:
    """The larger, and what the smaller adds to it."""
    a, b = _wide(g, a, b)
    apart = g.Where(g.Equal(a, b), g.scalar(0, a.dtype), g.Neg(g.Abs(g.Sub(a, b))))
    return g.Add(g.Max(a, b), _log1p(g, g.Exp(apart)))


def softplus(g: Any, x: Any) -> Any:
    """Softplus; of float64 as `logaddexp`, since onnxruntime's is infinite where the exponential is."""
    (x,) = _wide(g, x)
    return g.logaddexp(x, 0) if x.dtype == np.float64 else g.Softplus(x)


def cbrt(g: Any, x: Any) -> Any:
    """A power of the magnitude, with the sign."""
    (x,) = _wide(g, x)
    return g.Mul(g.Sign(x), g.Pow(g.Abs(x), g.scalar(1 / 3, x.dtype)))


def hypot(g: Any, a: Any, b: Any) -> Any:
    """The larger magnitude times the root of one and the squared ratio: no square overflows."""
    a, b = (g.Abs(x) for x in _wide(g, a, b))
    large, small = g.Max(a, b), g.Min(a, b)
    ratio = g.Div(small, g.Where(g.Equal(large, 0), g.scalar(1, large.dtype), large))
    infinite = g.Or(g.IsInf(a), g.IsInf(b))  # whatever the other is, NaN too
    return g.Where(infinite, g.scalar(math.inf, large.dtype), g.Mul(large, g.Sqrt(g.Add(g.Mul(ratio, ratio), 1))))


def atan2(g: Any, a: Any, b: Any) -> Any:
    """The angle of the ratio, and half a turn on the left side; two infinities are at 45 degrees."""
    a, b = _wide(g, a, b)
    infinite = g.And(g.IsInf(a), g.IsInf(b))
    a, b = (g.Where(infinite, g.Sign(x), x) for x in (a, b))
    nowhere = g.And(g.Equal(a, 0), g.Equal(b, 0))
    angle = g.Atan(g.Div(a, g.Where(nowhere, g.scalar(1, b.dtype), b)))
    half = g.scalar(math.pi, b.dtype)
    return g.Where(signbit(g, b), g.Add(angle, g.Where(signbit(g, a), g.Neg(half), half)), angle)


def erfc(g: Any, x: Any) -> Any:
    """1 - erf(x): right to the last place of one, so a tiny result has few digits, or is zero."""
    (x,) = _wide(g, x)
    return g.Sub(g.scalar(1, x.dtype), g.Erf(x))


# --- bits -------------------------------------------------------------------------------------------------


def bitwise(of_integers: str, of_booleans: str) -> Any:
    """Two operators: of integers, and of booleans."""

    @describe_as(f"{of_integers}; of booleans {of_booleans}.")
    def export(g: Any, *xs: Any) -> Any:
        operands = [g.converted(x, g.result.dtype) for x in xs]
        return g.node(of_booleans if g.result.dtype.kind == "b" else of_integers, *operands)

    return export


def left_shift(g: Any, a: Any, b: Any) -> Any:
    """The product with a power of two, which wraps around: from a table, whose last entry is zero."""
    a, b = (g.converted(x, g.result.dtype) for x in (a, b))
    bits = 8 * a.dtype.itemsize
    powers = np.array([1 << i for i in range(bits)] + [0], "uint64").astype(a.dtype)
    at = extremum(g, "Min", g.converted(b, INT64), g.scalar(bits, INT64))
    return g.Mul(a, g.Gather(g.constant(powers), at, axis=0))


def right_shift(g: Any, a: Any, b: Any) -> Any:
    """ONNX's shift of unsigned integers; of signed ones a quotient by a power of two, of negative ones by complement.

    Complements are taken twice so that ones come from above.
    """
    places = g.value_of(b)
    a, b = (g.converted(x, g.result.dtype) for x in (a, b))
    bits = 8 * a.dtype.itemsize - (a.dtype.kind == "i")  # that make up the magnitude
    last = g.scalar(bits - 1, b.dtype)
    below = None if a.dtype.kind == "u" else g.Less(a, 0)
    size = a if below is None else g.Where(below, g.BitwiseNot(a), a)
    by = extremum(g, "Min", b, last)
    if below is None:
        moved = g.BitShift(size, by, direction="RIGHT")
    else:
        powers = g.constant(np.array([1 << i for i in range(bits)], "uint64").astype(a.dtype))
        moved = g.Div(size, g.Gather(powers, g.converted(by, INT64), axis=0))
    if places is None or (places >= bits).any():
        moved = g.Mul(moved, g.converted(g.LessOrEqual(b, last), a.dtype))
    return moved if below is None else g.Where(below, g.BitwiseNot(moved), moved)


# --- creation ---------------------------------------------------------------------------------------------


def full(g: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    """One number everywhere; an extent may be the number."""
    if not shape:
        return g.scalar(value, dtype)
    if known(value):
        held = np.dtype("float32") if dtype.name == "bfloat16" else dtype  # of which it makes none
        return g.ConstantOfShape(g.extents(shape), value=np.full((1,), value).astype(held))
    return g.Expand(g.scalar(value, dtype), g.extents(shape))


def arange(g: Any, *, start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    """Positions, times the step, from the start; of floats the step is the one that NumPy rounds to."""
    (count,) = g.result.shape
    places = g.Range(g.scalar(0, INT64), g.extent(count), g.scalar(1, INT64))
    if dtype.kind not in "iu":
        first = np.asarray(start, dtype)
        slope = np.asarray(start + step, dtype) - first
        return g.Add(g.Mul(g.converted(places, dtype), g.constant(slope)), g.constant(first))
    return g.Add(g.Mul(places, g.scalar(step, INT64)), g.scalar(start, INT64))
