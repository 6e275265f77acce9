"""Special functions that no array namespace has, by published methods: in any namespace, in small blocks on NumPy.

Each takes and gives float32 or float64. Accuracies are of float64, measured against references of fifty digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from nnc_func.device.kernels.blocks import grid
from nnc_func.device.kernels.formulas import Formula, recorded
from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.facets.dims import product
from nnc_func.facets.kernels import ALL, Kernel, reference

HALF_ROOT_PI = math.sqrt(math.pi) / 2
BLOCK = 32768  # elements: a few blocks fit in the second cache, and NumPy's calls are few

# (1 + 2x) exp(x²) erfc(x) as a polynomial in (x - 3.75) / (x + 3.75), the map of Shepherd and Laframboise,
# "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < inf", Math. Comp. 36 (1981): its Chebyshev series,
# computed from the power series with eighty digits, written out in powers, whose magnitudes add up to 1.8 only. What is
# left out is 2e-18.
SCALED = (
    1.2375126308378275, -0.14024059858554702, 0.003585415485464465, 0.08227673849015109, -0.10880393014175024,
    0.09230432116019638, -0.05869339858961115, 0.02836227742154398, -0.009746579558275152, 0.0017556258321915358,
    0.0002937136669846131, -0.0002901539781378384, 5.1649093885821704e-05, 2.238390827660038e-05,
    -1.1444134389658475e-05, -9.728413451815077e-07, 1.7516189406943677e-06, -5.827501862768691e-08,
    -2.5864899107183225e-07, 2.4301839484503084e-08, 3.866242066283792e-08, -4.396921916762906e-09,
    -5.169080644815931e-09, 5.485084520083626e-10, 4.2433038251096756e-10, -3.7980647235900285e-11,
)  # fmt: skip
# the same in single precision, as a ratio of two polynomials in (x - 1.5) / (x + 1.5): found by least squares whose
# weights were raised where the error was largest, until it was alike all over; 7e-9
SINGLE_ABOVE = (
    1.2863416571979929, -0.6775141631427386, 0.22555354627663374, 0.16044335204313065, -0.09768362115962514,
    0.02177417361243317,
)  # fmt: skip
SINGLE_BELOW = (
    1.0, -0.5002960463492258, 0.34695229516647824, -0.047279937784273994, 0.014979927700231984,
)  # fmt: skip
# erf(x) / x as a polynomial in x² from 0 to 1: the power series, economised; what is left out is 1e-17, and 1e-9
SERIES = (
    1.1283791670955126, -0.3761263890318375, 0.11283791670954882, -0.026866170645077334, 0.005223977624823223,
    -0.0008548326981129666, 0.00012055331122299266, -1.4925595519506043e-05, 1.6461004480962034e-06,
    -1.6350354461959655e-07, 1.4660051998394848e-08, -1.1373902296430911e-09, 5.958930743134941e-11,
)  # fmt: skip
SINGLE_SERIES = (
    1.1283791658815026, -0.3761262690358044, 0.11283597463488053, -0.026854328796067244, 0.005189311942686617,
    -0.0008018854992786387, 7.882497110086663e-05,
)  # fmt: skip
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # of log gamma: B / (2k (2k - 1))
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # numbers 2, 4 … 14
FAR = 10  # from which on the asymptotic series have all digits


# --- the error function and its kin -----------------------------------------------------------------------


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """By Horner's rule, the constant first, in memory of its own."""
    total = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        total += c
        total *= x
    total += coefficients[0]
    return total


def scaled_erfc(xp: Any, x: Any) -> Any:
    """exp(x²) erfc(x), of numbers not below zero."""
    if dtype_of(x).itemsize > 4:
        return polynomial(1 - 7.5 / (x + 3.75), SCALED) / (1 + 2 * x)
    t = 1 - 3 / (x + 1.5)
    return polynomial(t, SINGLE_ABOVE) / (polynomial(t, SINGLE_BELOW) * (1 + 2 * x))


def _series(x: Any) -> Any:
    """erf(x), of numbers from 0 to 1."""
    return x * polynomial(x * x, SERIES if dtype_of(x).itemsize > 4 else SINGLE_SERIES)


def gaussian(xp: Any, x: Any) -> Any:
    """exp(-x²), of numbers up to 30: what the square loses is found from a number of few bits, and made good."""
    bits = 2.0**20 if dtype_of(x).itemsize > 4 else 2.0**7
    square, short = x * x, xp.trunc(x * bits) * (1 / bits)
    lost = (short * short - square) + (x - short) * (x + short)
    return xp.exp(-square) * (1 - lost)


def _tail(xp: Any, size: Any) -> Any:
    """erfc of numbers not below zero; beyond 30 it is zero in every dtype."""
    near = xp.minimum(size, xp.full_like(size, 30))
    return gaussian(xp, near) * scaled_erfc(xp, near)


def _on_gpu(name: str) -> Callable[[Any], Any] | None:
    """CuPy's own, one kernel where what follows is thirty; None where CuPy is none, but pretended."""
    try:
        return getattr(import_module("cupyx.scipy.special"), name)  # type: ignore[no-any-return]
    except ImportError:
        return None


def erf(xp: Any, x: Any) -> Any:
    """To 2 ulps: a polynomial below one, one less `erfc` above."""
    if xp.__name__ == "cupy" and (own := _on_gpu("erf")) is not None:
        return own(x)
    size = xp.abs(x)
    low = xp.minimum(size, xp.ones_like(size))
    return xp.copysign(xp.where(size < 1, _series(low), 1 - _tail(xp, size)), x)


def erfc(xp: Any, x: Any) -> Any:
    """To 6 ulps of the result, however small that is; in single precision, to 7."""
    if xp.__name__ == "cupy" and (own := _on_gpu("erfc")) is not None:
        return own(x)
    size = xp.abs(x)
    tail = _tail(xp, size)
    if dtype_of(x).itemsize > 4:
        low = xp.minimum(size, xp.ones_like(size))
        tail = xp.where(size < 0.5, 1 - _series(low), tail)
    sign = xp.copysign(xp.ones_like(x), x)  # which takes as long as five products
    return 1 - sign + sign * tail  # 2 - tail below zero, with no choice


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
        near = (_series(low) - inside) * xp.exp(low * low)
        far = rest * xp.exp(x * x) - scaled_erfc(xp, x)
        step = HALF_ROOT_PI * xp.where(x < 0.5, near, far)
        x = x - step / (1 + x * step)
    found = xp.where(usable, x, xp.where(size == 1, xp.full_like(x, math.inf), xp.full_like(x, math.nan)))
    return xp.where(y < 0, -found, xp.where(y == 0, y, found))


def dawsn(xp: Any, x: Any) -> Any:
    """To 8 ulps, just above one half: Rybicki's sum of Gaussians of step 1/4 ("Dawson's integral and the sampling
    theorem", 1989).
    """
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
    if order == 0:
        return _digamma(xp, x)
    mirrored = x < 0
    found = _zeta(xp, xp.where(mirrored, 1 - x, x), order + 1) * (-1) ** (order + 1)
    away = xp.where(xp.isfinite(x), x - xp.round(x), xp.full_like(x, 0.25))
    pole = mirrored & (away == 0)
    angle = math.pi * xp.where(away == 0, xp.full_like(x, 0.25), away)
    slope = polynomial(xp.cos(angle) / xp.sin(angle), _cotangent(order)) * math.pi ** (order + 1)
    found = xp.where(mirrored, (found if order % 2 == 0 else -found) - slope, found)
    endless = xp.full_like(x, math.inf if order % 2 else math.nan)
    found = xp.where(pole, endless, xp.where(x == -math.inf, xp.full_like(x, math.nan), found))
    return xp.where(xp.isnan(x), x, found)


@lru_cache(64)
def _cotangent(order: int) -> tuple[float, ...]:
    """The derivative of that order of the cotangent, as a polynomial in the cotangent c: c' = -1 - c²."""
    powers = [0, 1]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(powers)][1:]
        powers = [-a - b for a, b in zip([*slopes, 0, 0], [0, 0, *slopes], strict=True)]
    return tuple(map(float, powers))


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
    """Hurwitz's zeta function times (s - 1)!, of positive numbers, by Euler's and Maclaurin's formula; NaN elsewhere.

    Numbers are divided by a power of two, whose own power stands beside the factorial: neither leaves float64 then.
    """
    usable = (x > 0) & (x < math.inf)
    factorial = math.factorial(s - 1)
    bits = int(math.log2(factorial) / s)
    unit, rest = 2.0**-bits, float(Fraction(factorial, 2 ** (bits * s)))

    def power(at: Any, exponent: int) -> Any:
        """What is left of the factorial, over a power; in two halves where one alone might leave float64."""
        half = exponent // 2 if exponent > 20 else 0
        return at**-half * rest * at ** (half - exponent) if half else at**-exponent * rest

    at = xp.where(usable, x, xp.ones_like(x)) * unit
    found = xp.zeros_like(at)
    for _ in range(FAR + s):
        found = found + power(at, s)
        at = at + unit
    found = found + power(at, s - 1) / (unit * (s - 1)) + power(at, s) / 2
    factor = float(s)
    for k, b in enumerate(BERNOULLI, 1):
        found = found + b / math.factorial(2 * k) * factor * unit ** (2 * k - 1) * power(at, s + 2 * k - 1)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    nowhere = xp.where(x == math.inf, xp.zeros_like(x), xp.full_like(x, math.nan))
    return xp.where(usable, found, xp.where(x == 0, xp.full_like(x, math.inf), nowhere))


# --- as kernels -------------------------------------------------------------------------------------------


def in_cache(function: Callable[..., Any], dtype: Callable[..., Any], *, wide: bool = False) -> tuple[Kernel, ...]:
    """The kernels of a function ``(xp, x)``: halves, and with `wide` all, are computed wider than they are given.

    On NumPy it is recorded, and runs on blocks of registers.
    """

    def inner(x: Any) -> np.dtype[Any]:
        found = dtype(dtype_of(x))
        return np.dtype("float64") if wide else np.result_type(found, np.float32)

    def standard(xp: Any, x: Any, **params: Any) -> Any:
        return converted(xp, function(xp, converted(xp, x, inner(x)), **params), dtype(dtype_of(x)))

    def formula(x: Any, params: dict[str, Any]) -> Formula:
        return recorded(function, np.dtype(x.dtype), inner(x), np.dtype(dtype(x.dtype)), tuple(params.items()))

    def scratch(avals: Arrays, **params: Any) -> Any:
        (x,) = avals
        size = product(x.shape)
        count = min(size, BLOCK) if isinstance(size, int) else BLOCK
        shape = x.shape if count == size and x.shape else (max(1, count),)
        return tuple((shape, register) for register in formula(x, params).registers)

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
        (x,), (out,) = arrays, outs
        found, size = formula(x, params), scratch[0].size
        flat = [each.reshape(-1) for each in scratch]
        x, out = (x.reshape(1), out.reshape(1)) if not out.ndim else (x, out)
        with np.errstate(all="ignore"):  # branches that are not taken are computed too
            for where in grid(out.shape, size, out.ndim).blocks():
                part = out[where]
                found.run(x[where], part, [each[: part.size].reshape(part.shape) for each in flat])

    def compute(xp: Any, x: Any, **params: Any) -> Any:
        out = xp.empty(x.shape, dtype(x.dtype))
        into(
            xp, (x,), (out,), tuple(xp.empty(shape, register) for shape, register in scratch((x,), **params)), **params
        )
        return out

    def at_once(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
        outs[0][...] = standard(xp, *arrays, **params)

    return (
        Kernel(
            "in blocks", compute=compute, into=into, scratch=scratch, overwrites=ALL, infallible=True, strided=True,
            namespaces=frozenset({"numpy"}),
        ),
        Kernel(
            "at once", compute=standard, into=at_once, overwrites=ALL, strided=True, namespaces=frozenset({"cupy"}),
        ),
        reference(standard, infallible=True),
    )  # fmt: skip
