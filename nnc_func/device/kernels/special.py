"""Special functions that no array namespace has, by published methods: in any namespace, in small blocks on NumPy.

Each takes and gives float32 or float64. Accuracies are of float64, measured against references of fifty digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.facets.kernels import ALL, Kernel, reference

HALF_ROOT_PI = math.sqrt(math.pi) / 2
BLOCK = 16384  # elements: a few blocks fit in the innermost caches

# (1 + 2x) exp(x²) erfc(x) as a Chebyshev series in (x - 3.75) / (x + 3.75), the map of Shepherd and Laframboise,
# "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < inf", Math. Comp. 36 (1981); the coefficients were
# computed from the power series with eighty digits. What is left out is 2e-18.
SCALED = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05, 4.13902798607301e-06,
    7.74038306619849e-07, -2.1886401049234397e-07, 1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10,
    -6.318088340886697e-11, 2.8687950109306582e-11, 1.9455868545994992e-13, -9.654696748372138e-13,
    3.252548144851645e-14, 3.3478119305924397e-14, -1.864562466991378e-15, -1.2507907627821568e-15,
    7.417903108214993e-17, 5.0584123433943696e-17, -2.2638229868352583e-18,
)  # fmt: skip
SERIES = tuple((-1) ** n / (math.factorial(n) * (2 * n + 1) * HALF_ROOT_PI) for n in range(19))  # erf(x) / x in x²
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # of log gamma: B / (2k (2k - 1))
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # numbers 2, 4 … 14
FAR = 10  # from which on the asymptotic series have all digits


# --- the error function and its kin -----------------------------------------------------------------------


def _terms(x: Any, coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """Of a series, those that have a say in the dtype: about half in single precision."""
    return coefficients if dtype_of(x).itemsize > 4 else coefficients[: len(coefficients) * 3 // 5]


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """By Horner's rule, the constant first."""
    total = x * 0 + coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def scaled_erfc(xp: Any, x: Any) -> Any:
    """exp(x²) erfc(x), of numbers not below zero: by Clenshaw's recurrence."""
    t = 1 - 7.5 / (x + 3.75)
    last = before = x * 0
    for c in reversed(_terms(x, SCALED)[1:]):
        last, before = c + 2 * t * last - before, last
    return (SCALED[0] + t * last - before) / (1 + 2 * x)


def gaussian(xp: Any, x: Any) -> Any:
    """exp(-x²): the square is taken of a number of few bits, so that no rounding is magnified."""
    short = xp.trunc(x * 16) / 16
    return xp.exp(-short * short) * xp.exp(-(x - short) * (x + short))


def _tail(xp: Any, size: Any) -> Any:
    """erfc of numbers not below zero; beyond 30 it is zero in every dtype."""
    near = xp.minimum(size, xp.full_like(size, 30))
    return gaussian(xp, near) * scaled_erfc(xp, near)


def erf(xp: Any, x: Any) -> Any:
    """To 1 ulp: the power series below one, one less `erfc` above."""
    size = xp.abs(x)
    low = xp.minimum(size, xp.ones_like(size))
    series = low * polynomial(low * low, _terms(x, SERIES))
    found = xp.where(size < 1, series, 1 - _tail(xp, size))
    return xp.where(x < 0, -found, xp.where(x == 0, x, found))


def erfc(xp: Any, x: Any) -> Any:
    """To 4 ulps of the result, however small that is."""
    size = xp.abs(x)
    low = xp.minimum(size, xp.ones_like(size))
    small = low * polynomial(low * low, _terms(x, SERIES))
    tail = xp.where(size < 0.5, 1 - small, _tail(xp, size))
    return xp.where(x < 0, 2 - tail, tail)


def erfinv(xp: Any, y: Any) -> Any:
    """To 4 ulps: Winitzki's approximation of 2008, to 2e-3, and three steps of Halley's method; each triples digits."""
    size = xp.abs(y)
    usable = size < 1
    inside = xp.where(usable, size, xp.zeros_like(size))
    rest = 1 - inside  # exact from one half on
    bent = xp.log(rest) + xp.log1p(inside)
    shift = 2 / (math.pi * 0.147) + bent / 2
    x = xp.sqrt(xp.maximum(xp.sqrt(shift * shift - bent / 0.147) - shift, xp.zeros_like(bent)))
    for _ in range(3):
        low = xp.minimum(x, xp.ones_like(x))
        near = (low * polynomial(low * low, SERIES) - inside) * xp.exp(low * low)
        far = rest * xp.exp(x * x) - scaled_erfc(xp, x)
        step = HALF_ROOT_PI * xp.where(x < 0.5, near, far)
        x = x - step / (1 + x * step)
    found = xp.where(usable, x, xp.where(size == 1, xp.full_like(x, math.inf), xp.full_like(x, math.nan)))
    return xp.where(y < 0, -found, xp.where(y == 0, y, found))


def dawsn(xp: Any, x: Any) -> Any:
    """To 4 ulps: Rybicki's sum of Gaussians of step 1/4 ("Dawson's integral and the sampling theorem", 1989)."""
    size, step = xp.abs(x), 0.25
    usable = xp.isfinite(size)
    inside = xp.where(usable, size, xp.ones_like(size))
    low = xp.minimum(inside, xp.full_like(inside, 0.5))
    series, squared = xp.ones_like(low), low * low
    for k in range(15, 0, -1):
        series = 1 - series * squared * (2 / (2 * k + 1))
    even = 2 * xp.round(inside / (2 * step))
    off = inside - even * step
    power = xp.exp(2 * off * step)
    squares, total = power * power, off * 0
    for i in range(13):
        near, other = even + (2 * i + 1), even - (2 * i + 1)
        total = total + math.exp(-(((2 * i + 1) * step) ** 2)) * (power / near + 1 / (power * other))
        power = power * squares
    found = xp.where(inside < 0.5, low * series, xp.exp(-off * off) * total / math.sqrt(math.pi))
    found = xp.where(usable, found, xp.where(xp.isnan(size), size, xp.zeros_like(size)))
    return xp.where(x < 0, -found, xp.where(x == 0, x, found))


# --- the gamma function and its kin -----------------------------------------------------------------------


def lgamma(xp: Any, x: Any) -> Any:
    """To 1e-14, relative to the larger of 1 and the result: Stirling's series from ten on, shifted below, reflected."""
    mirrored = x < 0.5
    at = xp.where(mirrored, 1 - x, x)
    at = xp.where(xp.isfinite(at), at, xp.full_like(at, FAR))
    product = xp.ones_like(at)
    for _ in range(FAR):
        below = at < FAR
        product = xp.where(below, product * at, product)
        at = xp.where(below, at + 1, at)
    found = (at - 0.5) * xp.log(at) - at + math.log(2 * math.pi) / 2 - xp.log(product)
    found = found + polynomial(1 / (at * at), STIRLING) / at
    wave = xp.abs(xp.sin(math.pi * (x - xp.round(x))))
    wave = xp.where(xp.isfinite(x), wave, xp.ones_like(wave))
    pole = mirrored & (wave == 0)
    found = xp.where(mirrored, math.log(math.pi) - xp.log(xp.where(pole, xp.ones_like(wave), wave)) - found, found)
    endless = pole | (xp.abs(x) == math.inf)
    return xp.where(xp.isnan(x), x, xp.where(endless, xp.full_like(x, math.inf), found))


def polygamma(xp: Any, x: Any, *, order: int) -> Any:
    """The derivative of that order of digamma; to 8 ulps for order zero."""
    return _digamma(xp, x) if order == 0 else _zeta(xp, x, order + 1) * ((-1) ** (order + 1) * math.factorial(order))


def _digamma(xp: Any, x: Any) -> Any:
    """Its asymptotic series from ten on, by the recurrence below, reflected below zero; NaN at the poles."""
    mirrored = x < 0.5
    at = xp.where(mirrored, 1 - x, x)
    endless = xp.abs(x) == math.inf
    at = xp.where(xp.isfinite(at), at, xp.full_like(at, FAR))
    found = xp.zeros_like(at)
    for _ in range(FAR):
        below = at < FAR
        found = xp.where(below, found - 1 / at, found)
        at = xp.where(below, at + 1, at)
    terms = tuple(-b / (2 * k) for k, b in enumerate(BERNOULLI, 1))
    squared = 1 / (at * at)
    found = found + (xp.log(at) - 1 / (2 * at) + squared * polynomial(squared, terms))
    angle = math.pi * (xp.where(xp.isfinite(x), x, xp.full_like(x, 0.25)) - xp.round(x))
    pole = mirrored & (angle == 0)
    slope = xp.tan(xp.where(angle == 0, xp.ones_like(angle), angle))
    found = xp.where(mirrored, found - math.pi / slope, found)
    found = xp.where(pole | (endless & (x < 0)), xp.full_like(x, math.nan), found)
    return xp.where(xp.isnan(x), x, xp.where(endless & (x > 0), x, found))


def _zeta(xp: Any, x: Any, s: int) -> Any:
    """Hurwitz's zeta function by the sum formula of Euler and Maclaurin, of positive numbers; NaN elsewhere."""
    usable = (x > 0) & (x < math.inf)
    at = xp.where(usable, x, xp.ones_like(x))
    found = xp.zeros_like(at)
    for _ in range(FAR + s):
        found = found + at**-s
        at = at + 1
    found = found + at ** (1 - s) / (s - 1) + at**-s / 2
    factor = float(s)
    for k, b in enumerate(BERNOULLI, 1):
        found = found + b / math.factorial(2 * k) * factor * at ** -(s + 2 * k - 1)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    nowhere = xp.where(x == math.inf, xp.zeros_like(x), xp.full_like(x, math.nan))
    return xp.where(usable, found, xp.where(x == 0, xp.full_like(x, math.inf), nowhere))


# --- as kernels -------------------------------------------------------------------------------------------


def in_cache(function: Callable[..., Any], dtype: Callable[..., Any], *, wide: bool = False) -> tuple[Kernel, ...]:
    """The kernels of a function ``(xp, x)``: halves, and with `wide` all, are computed wider than they are given."""

    def inner(x: Any) -> np.dtype[Any]:
        found = dtype(dtype_of(x))
        return np.dtype("float64") if wide else np.result_type(found, np.float32)

    def computed(xp: Any, x: Any, **params: Any) -> Any:
        return function(xp, converted(xp, x, inner(x)), **params)

    def standard(xp: Any, x: Any, **params: Any) -> Any:
        return converted(xp, computed(xp, x, **params), dtype(dtype_of(x)))

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
        (x,), (out,) = arrays, outs
        if xp is not np or out.size <= BLOCK:
            out[...] = computed(xp, x, **params)
            return
        rows = max(1, BLOCK * out.shape[0] // out.size)
        for i in range(0, out.shape[0], rows):
            out[i : i + rows] = computed(xp, x[i : i + rows], **params)

    def compute(xp: Any, x: Any, **params: Any) -> Any:
        out = xp.empty(x.shape, dtype(x.dtype))
        with np.errstate(all="ignore"):  # branches that are not taken are computed too
            into(xp, (x,), (out,), (), **params)
        return out

    def quiet(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
        with np.errstate(all="ignore"):
            into(xp, arrays, outs, scratch, **params)

    here = frozenset({"numpy", "cupy"})
    return (
        Kernel(
            "in blocks", compute=compute, into=quiet, overwrites=ALL, namespaces=here, infallible=True, strided=True
        ),
        reference(standard, infallible=True),
    )
