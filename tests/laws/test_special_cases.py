"""Elementwise operators at the edges of floating point: special cases, and NumPy's values (`device/kernels`).

The table says what the standard says, in its own order; everything else is compared with NumPy, element by element, and
with array-api-strict, on values where arithmetic ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels.special_cases import EXPM1, LOG1P, Special
from nnc_func.facets import dtypes
from nnc_func.facets.samples import COMPLEX, FLOATS, INTEGERS

EAGER, STRICT, LAZY = nnc.eager(), nnc.eager(nnc.Strict()), nnc.lazy()
NAN, INF, PI = math.nan, math.inf, math.pi

# What the standard lists for real floating arguments: arguments, then the result.
TABLE: dict[str, list[tuple[float, ...]]] = {
    "abs": [(NAN, NAN), (-0.0, 0.0), (-INF, INF)],
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (1.0, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (1.0, 0.0), (INF, INF)],
    "add": [
        (INF, -INF, NAN), (-INF, INF, NAN), (INF, 1.0, INF), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (2.0, -2.0, 0.0),
    ],
    "asin": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atan2": [
        (NAN, 1.0, NAN), (1.0, NAN, NAN), (1.0, 0.0, PI / 2), (1.0, -0.0, PI / 2), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
        (0.0, -0.0, PI), (0.0, -1.0, PI), (-0.0, 1.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -PI), (-0.0, -1.0, -PI),
        (-1.0, 0.0, -PI / 2), (-1.0, -0.0, -PI / 2), (1.0, INF, 0.0), (1.0, -INF, PI), (-1.0, INF, -0.0),
        (-1.0, -INF, -PI), (INF, 1.0, PI / 2), (-INF, 1.0, -PI / 2), (INF, INF, PI / 4), (INF, -INF, 3 * PI / 4),
        (-INF, INF, -PI / 4), (-INF, -INF, -3 * PI / 4),
    ],
    "atanh": [(NAN, NAN), (-1.5, NAN), (1.5, NAN), (-1.0, -INF), (1.0, INF), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (NAN, NAN)],
    "copysign": [(1.0, 2.0, 1.0), (1.0, -0.0, -1.0), (-1.0, 0.0, 1.0), (INF, -1.0, -INF)],
    "cos": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "divide": [
        (NAN, 1.0, NAN), (INF, INF, NAN), (0.0, 0.0, NAN), (-0.0, 0.0, NAN), (0.0, 1.0, 0.0), (0.0, -1.0, -0.0),
        (-0.0, 1.0, -0.0), (1.0, 0.0, INF), (1.0, -0.0, -INF), (-1.0, 0.0, -INF), (INF, 1.0, INF), (INF, -1.0, -INF),
        (1.0, INF, 0.0), (1.0, -INF, -0.0),
    ],
    "exp": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "expm1": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "floor_divide": [
        (NAN, 1.0, NAN), (INF, INF, NAN), (0.0, 0.0, NAN), (0.0, 1.0, 0.0), (0.0, -1.0, -0.0), (-0.0, 1.0, -0.0),
        (1.0, INF, 0.0), (-1.0, INF, -0.0), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (7.0, -2.0, -4.0), (-7.0, -2.0, 3.0),
    ],
    "hypot": [
        (INF, NAN, INF), (NAN, INF, INF), (-INF, NAN, INF), (1.0, NAN, NAN), (NAN, 1.0, NAN), (3.0, 4.0, 5.0),
    ],
    "log": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (100.0, 2.0), (INF, INF)],
    "log1p": [(NAN, NAN), (-1.5, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF)],
    "log2": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (8.0, 3.0), (INF, INF)],
    "logaddexp": [
        (NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, 1.0, INF), (-INF, -INF, -INF), (-INF, 2.0, 2.0), (INF, INF, INF),
    ],
    "multiply": [(INF, 0.0, NAN), (-0.0, 1.0, -0.0), (-1.0, 0.0, -0.0), (INF, -INF, -INF), (INF, -2.0, -INF)],
    "power": [
        (2.0, 0.0, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (1.0, NAN, 1.0), (NAN, 2.0, NAN), (2.0, INF, INF),
        (2.0, -INF, 0.0), (1.0, INF, 1.0), (-1.0, INF, 1.0), (0.5, INF, 0.0), (0.5, -INF, INF), (INF, 1.0, INF),
        (INF, -1.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (0.0, 1.0, 0.0),
        (0.0, -1.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-2.0, 0.5, NAN),
        (-2.0, 3.0, -8.0), (0.0, 0.0, 1.0),
    ],
    "remainder": [
        (NAN, 1.0, NAN), (INF, 1.0, NAN), (INF, INF, NAN), (0.0, 0.0, NAN), (1.0, 0.0, NAN), (0.0, 1.0, 0.0),
        (0.0, -1.0, -0.0), (-0.0, 1.0, 0.0), (-0.0, -1.0, -0.0), (1.0, INF, 1.0), (1.0, -INF, -INF), (-1.0, INF, INF),
        (-1.0, -INF, -1.0), (7.0, 2.0, 1.0), (-7.0, 2.0, 1.0), (7.0, -2.0, -1.0), (-7.0, -2.0, -1.0),
    ],
    "round": [
        (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (0.5, 0.0), (1.5, 2.0), (2.5, 2.0),
        (-0.5, -0.0),
    ],
    "sign": [(-2.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (3.0, 1.0), (NAN, NAN), (INF, 1.0)],
    "sin": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "sqrt": [(NAN, NAN), (-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (-1.7, -1.0), (1.7, 1.0)],
}  # fmt: skip
UNSIGNED = ("sign",)  # the standard leaves the sign of its zero open
LOOSE = {"asin", "acos", "acosh", "asinh", "atanh", "logaddexp", "log10", "power"}  # to an ulp; the others to the bit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
def test_the_standards_special_cases(stack: Any, name: str, dtype: str) -> None:
    *columns, wanted = (np.array(c, dtype) for c in zip(*TABLE[name], strict=True))
    with np.errstate(all="ignore"):
        found = getattr(stack.ops, name)(*map(stack.asarray, columns)).numpy()
    ulp = np.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=2 * ulp if name in LOOSE or "atan" in name else 0.5 * ulp)
    if name not in UNSIGNED:
        zeros = wanted == 0
        assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros])), name


# --- NumPy's values where arithmetic ends -----------------------------------------------------------------

UNARY = {
    "abs": "abs", "negative": "negative", "sign": "sign", "sqrt": "sqrt", "square": "square",
    "reciprocal": "reciprocal", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "cbrt": "cbrt",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "signbit": "signbit", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "conj": "conj", "real": "real", "imag": "imag", "angle": "angle",
    "positive": "positive", "nan_to_num": "nan_to_num", "sinc": "sinc",
}  # fmt: skip
BINARY = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "power",
    "floor_divide": "floor_divide", "remainder": "remainder", "maximum": "maximum", "minimum": "minimum",
    "fmax": "fmax", "fmin": "fmin", "atan2": "arctan2", "hypot": "hypot", "logaddexp": "logaddexp",
    "copysign": "copysign", "nextafter": "nextafter", "heaviside": "heaviside", "equal": "equal", "less": "less",
    "greater_equal": "greater_equal", "not_equal": "not_equal", "isclose": "isclose",
}  # fmt: skip
REAL_ONLY = {
    "exp2", "cbrt", "floor", "ceil", "trunc", "signbit", "floor_divide", "remainder", "maximum", "minimum", "fmax",
    "fmin", "atan2", "hypot", "logaddexp", "copysign", "nextafter", "heaviside", "less", "greater_equal", "sinc",
}  # fmt: skip


def _endless(*of: Any) -> Any:
    return np.any([np.isinf(x) for x in np.broadcast_arrays(*of)], axis=0)


UNLIKE: dict[str, Any] = {  # where NumPy is not the standard, whose cases are in tests/array_api/special_cases.py
    "floor_divide": _endless,
    "sign": lambda z: np.isnan(z) & np.iscomplexobj(z),
    "expm1": lambda z: (~np.isfinite(z) | (z == 0)) & np.iscomplexobj(z),
}


def alike(name: str, found: Any, wanted: Any, *of: Any) -> tuple[Any, Any]:
    """Those elements of which NumPy's values are wanted."""
    return (found, wanted) if name not in UNLIKE else (found[~UNLIKE[name](*of)], wanted[~UNLIKE[name](*of)])


def edges(dtype: str) -> Any:
    """Where arithmetic ends, and a few numbers between; of complex numbers every pair of parts."""
    kind = np.dtype(dtype)
    limits = np.finfo(kind)
    bounds = [limits.max, limits.tiny, limits.smallest_subnormal, limits.eps]
    real = np.array([0.0, 1.0, 0.5, 1.5, 2.5, 0.1, 3.0, 40.0, INF, *bounds], type(limits.max))
    real = np.concatenate([real, -real, [NAN]]).astype(type(limits.max))
    if kind.kind != "c":
        return real
    found = np.empty((real.size, real.size), kind)
    found.real, found.imag = real[:, None], real
    return found.reshape(-1)


def taken(names: Iterable[str], dtypes: Iterable[str]) -> list[tuple[str, str]]:
    """Operators, each with the dtypes that it takes."""
    return [(n, d) for n, d in itertools.product(names, dtypes) if not (d in COMPLEX and n in REAL_ONLY)]


@pytest.mark.parametrize(("name", "dtype"), taken(UNARY, (*FLOATS, *COMPLEX)))
def test_one_argument_as_numpy(name: str, dtype: str) -> None:
    x = edges(dtype)
    with np.errstate(all="ignore"):
        wanted = np.asarray(getattr(np, UNARY[name])(x))
        found = getattr(EAGER.ops, name)(EAGER.asarray(x)).numpy()
    assert found.dtype == wanted.dtype
    close = {"rtol": 8 * np.finfo(dtype).eps, "atol": 4 * np.finfo(dtype).eps} if name == "sinc" else {"rtol": 0}
    usable = np.isfinite(x) if name == "sinc" else np.ones(x.shape, bool)  # the sine of what is huge is noise
    usable &= np.abs(x) < 1e3 if name == "sinc" else True
    if name == "log1p" and dtype in COMPLEX:  # near zero NumPy's is the logarithm of what 1 + z rounds to
        usable &= ~(np.abs(x) <= 0.5)
    np.testing.assert_allclose(*alike(name, found[usable], wanted[usable], x[usable]), **close)


@pytest.mark.parametrize(("name", "special"), [("log1p", LOG1P), ("expm1", EXPM1)], ids=["log1p", "expm1"])
def test_complex_numbers_near_zero(name: str, special: Special) -> None:
    """To two units of the magnitude, beside the same of complex128: NumPy's log1p loses all digits there."""
    draw = np.random.default_rng(0)
    x = (10.0 ** draw.uniform(-4, -0.31, 2000) * np.exp(2j * np.pi * draw.random(2000))).astype("complex64")
    x[::3].real = 0
    wide = x.astype("complex128")
    wanted = np.log(1 + wide) if name == "log1p" else np.exp(wide) - 1
    for found in (getattr(EAGER.ops, name)(EAGER.asarray(x)).numpy(), special.give(np, x)):
        assert (np.abs(found - wanted) <= 2 * np.finfo("float32").eps * np.abs(wanted)).all()


@pytest.mark.parametrize(("name", "dtype"), taken(BINARY, (*FLOATS, "complex64")))
def test_two_arguments_as_numpy(name: str, dtype: str) -> None:
    x = edges(dtype)[::7] if dtype in COMPLEX else edges(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, BINARY[name])(x[:, None], x)
        found = getattr(EAGER.ops, name)(EAGER.asarray(x[:, None]), EAGER.asarray(x)).numpy()
    assert found.dtype == wanted.dtype
    if name == "isclose":  # NumPy takes everything for close to what overflows to infinity
        with np.errstate(over="ignore"):
            found, wanted = found[:, np.isfinite(np.abs(x))], wanted[:, np.isfinite(np.abs(x))]
    np.testing.assert_array_equal(*alike(name, found, wanted, x[:, None], x))


# --- smaller functions, on all dtypes as NumPy has them -----------------------------------------------------


def limits(dtype: str) -> Any:
    """Zero, the ends of a dtype, and a few numbers between."""
    if dtype in INTEGERS:
        ends = np.iinfo(dtype)
        return np.array([ends.min, ends.max, 0, 1, 3, 100], dtype)
    return np.array([0.0, -0.0, 0.5, -3.0, 100.0, -100.0, INF, -INF, NAN], dtype)


def pairs(stack: Any) -> Any:
    """Any two dtypes of real numbers that a stack has: the standard has no float16."""
    return itertools.product([d for d in (*INTEGERS, *FLOATS) if stack is not STRICT or d != "float16"], repeat=2)


@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
def test_remainders_of_any_two_dtypes_as_numpys(stack: Any) -> None:
    """The least integer has no magnitude in its own dtype."""
    for a, b in pairs(stack):
        x, y = limits(a)[:, None], limits(b)
        with np.errstate(all="ignore"):
            found = stack.ops.fmod(stack.asarray(x), stack.asarray(y)).numpy()
            wanted = np.fmod(x, y)
        assert found.dtype == wanted.dtype, (a, b)
        np.testing.assert_array_equal(found, wanted, f"{a}, {b}")
        zero = np.asarray(wanted == 0)
        assert np.array_equal(np.signbit(found[zero]), np.signbit(wanted[zero])), (a, b)


@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
def test_steps_of_any_two_dtypes_are_floating_as_numpys(stack: Any) -> None:
    """NumPy gives small integers small floats; here two integers together have float64."""
    for a, b in pairs(stack):
        x, y = limits(a)[:, None], limits(b)
        found = stack.ops.heaviside(stack.asarray(x), stack.asarray(y)).numpy()
        assert found.dtype == dtypes.floating(x.dtype, y.dtype), (a, b)
        with np.errstate(all="ignore"):
            wanted = np.heaviside(x.astype(found.dtype), y.astype(found.dtype))
        np.testing.assert_array_equal(found, wanted, f"{a}, {b}")


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("given", [{}, {"nan": 2.0, "posinf": INF, "neginf": -1.0}], ids=str)
@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
def test_parts_that_are_numbers_stay_as_they_are(stack: Any, given: Any, dtype: str) -> None:
    """Their signs too, of zeros, beside parts that are replaced."""
    x = edges(dtype)
    found = stack.ops.nan_to_num(stack.asarray(x), **given).numpy()
    wanted = np.nan_to_num(x, **given)
    for part, other in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_array_equal(part, other)
        assert np.array_equal(np.signbit(part), np.signbit(other))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
def test_the_mean_of_no_complex_numbers_is_nan_in_both_parts(stack: Any, dtype: str) -> None:
    for shape, axis in (((0,), None), ((2, 0), 1), ((0, 3), 0)):
        found = stack.ops.mean(stack.asarray(np.zeros(shape, dtype)), axis=axis).numpy()
        assert np.isnan(found.real).all()
        assert np.isnan(found.imag).all()


INTEGERS_OF_TWO = ("add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum", "bitwise_and",
                   "bitwise_or", "bitwise_xor", "equal", "less")  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_as_numpy(dtype: str) -> None:
    """Sums wrap around, division by zero gives zero, shifts of all bits leave none."""
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 7, limits.max, limits.min, limits.max - 1], dtype)
    shifts = np.array([0, 1, 3, limits.bits - 1, limits.bits, limits.bits + 3], dtype)
    with np.errstate(all="ignore"):
        for name in INTEGERS_OF_TWO:
            found = getattr(EAGER.ops, name)(EAGER.asarray(x[:, None]), EAGER.asarray(x)).numpy()
            np.testing.assert_array_equal(found, getattr(np, name)(x[:, None], x), name)
        for name in ("left_shift", "right_shift"):
            found = getattr(EAGER.ops, f"bitwise_{name}")(EAGER.asarray(x[:, None]), EAGER.asarray(shifts)).numpy()
            np.testing.assert_array_equal(found, getattr(np, name)(x[:, None], shifts), name)
        found = EAGER.ops.bitwise_invert(EAGER.asarray(x)).numpy()
        np.testing.assert_array_equal(found, np.invert(x))


# --- special functions against Python's own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function", "ulps", "points"),
    [
        ("erf", math.erf, 2, np.linspace(-7, 7, 701)),
        ("erfc", math.erfc, 8, np.linspace(-7, 26, 701)),
        ("lgamma", math.lgamma, 40, np.concatenate([np.linspace(0.03, 40, 400), np.linspace(-4.97, -0.03, 99)])),
    ],
)
def test_special_functions_as_pythons(name: str, function: Any, ulps: float, points: Any) -> None:
    found = getattr(EAGER.ops, name)(EAGER.asarray(points)).numpy()
    wanted = np.array([function(x) for x in points])
    least = 1.0 if name == "lgamma" else 0.0  # near its zeros the error is absolute
    eps = np.finfo("float64").eps
    assert np.all(np.abs(found - wanted) <= ulps * eps * np.maximum(np.abs(wanted), least))
    assert np.array_equal(getattr(STRICT.ops, name)(STRICT.asarray(points)).numpy(), found)


def test_erfc_has_the_digits_that_it_says() -> None:
    points = np.random.default_rng(0).uniform(0.4, 6.5, 20_000)
    wanted = np.array([math.erfc(x) for x in points])
    assert (np.abs(EAGER.ops.erfc(points).numpy() - wanted) <= 6 * np.spacing(wanted)).all()


SIGMOIDS = {"float16": (-20, 12), "float32": (-110, 20), "float64": (-750, 40)}


@pytest.mark.parametrize("stack", [EAGER, STRICT, nnc.lazy()], ids=["eager", "strict", "lazy"])
@pytest.mark.parametrize("dtype", SIGMOIDS)
def test_sigmoid_has_its_digits_down_to_the_least_number(stack: Any, dtype: str) -> None:
    """In exact decimals; a sigmoid that is smaller than any normal number is no zero."""
    if stack is STRICT and dtype == "float16":
        return  # the standard has none
    points = np.linspace(*SIGMOIDS[dtype], 1501).astype(dtype)
    with localcontext() as context:
        context.prec = 40
        wanted = np.array([float(1 / (1 + (-Decimal(x)).exp())) for x in points.tolist()])
    found = stack.ops.sigmoid(stack.asarray(points)).numpy()
    assert found.dtype == dtype
    ulp = np.spacing(wanted.astype(dtype)).astype("float64")
    assert (np.abs(found.astype("float64") - wanted) <= 4 * ulp).all()
    assert (found[wanted >= np.finfo(dtype).smallest_subnormal] > 0).all()
    ends = np.array([-INF, NAN, -1e4, INF], dtype)
    np.testing.assert_array_equal(stack.ops.sigmoid(stack.asarray(ends)).numpy(), [0, NAN, 0, 1])


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_a_negative_number_of_places_counts_as_many(make: Any, dtype: str) -> None:
    ops, x, limits = make().ops, np.array([-5, 5, 100], dtype), np.iinfo(dtype)
    for places in (-1, -2, limits.min, limits.bits, limits.max):
        shift = np.array(places, dtype)
        assert ops.bitwise_left_shift(x, shift).numpy().tolist() == [0, 0, 0]
        assert ops.bitwise_right_shift(x, shift).numpy().tolist() == [-1, 0, 0]


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_bound_that_is_nan_makes_everything_nan(make: Any) -> None:
    ops, x = make().ops, np.array([1.0, -INF, NAN])
    for bounds in ({"min": NAN}, {"max": NAN}, {"min": 2.0, "max": NAN}):
        assert np.isnan(ops.clip(x, **bounds).numpy()).all()
    np.testing.assert_array_equal(ops.clip(x, min=0.0).numpy(), [1, 0, NAN])


def test_special_functions_at_their_edges() -> None:
    ops, x = EAGER.ops, np.array([0.0, -0.0, INF, -INF, NAN, 1e300, -1e300])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ops.erf(x).numpy(), [0.0, -0.0, 1, -1, NAN, 1, -1])
        np.testing.assert_array_equal(ops.erfc(x).numpy(), [1, 1, 0, 2, NAN, 0, 2])
        np.testing.assert_array_equal(ops.dawsn(x[:5]).numpy(), [0, 0, 0, 0, NAN])
        np.testing.assert_array_equal(ops.lgamma(x[:5]).numpy(), [INF, INF, INF, INF, NAN])
        np.testing.assert_array_equal(ops.lgamma(np.array([1.0, 2.0, -3.0])).numpy()[2], INF)
        np.testing.assert_array_equal(ops.erfinv(np.array([0.0, 1, -1, 1.5, NAN])).numpy(), [0, INF, -INF, NAN, NAN])


def test_inverses_of_special_functions() -> None:
    y = np.concatenate([np.linspace(-0.999, 0.999, 201), 1 - 2.0 ** -np.arange(11, 53), 2.0 ** -np.arange(1, 300, 13)])
    found = EAGER.ops.erf(EAGER.ops.erfinv(EAGER.asarray(y))).numpy()
    np.testing.assert_allclose(found, y, rtol=1e-14)


@pytest.mark.parametrize("order", range(1, 7))
@given(x=st.floats(-8, -0.01))
def test_polygamma_below_zero_is_scipys_above_by_the_recurrence(order: int, x: float) -> None:
    """At x it is that of x + n less all (-1)^order order! / (x + k)^(order + 1) between."""
    steps, sign = math.ceil(1 - x), (-1) ** order * math.factorial(order)
    assume(abs(x - round(x)) > 1e-3)
    terms = [-sign / (x + k) ** (order + 1) for k in range(steps)]
    wanted = math.fsum([float(scipy.special.polygamma(order, x + steps)), *terms])
    found = EAGER.ops.polygamma(EAGER.asarray(x), order=order).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * max(map(abs, [wanted, *terms])))


def test_polygamma_at_its_poles() -> None:
    x = EAGER.asarray([-1.0, -3.0, -np.inf, np.inf])
    np.testing.assert_array_equal(EAGER.ops.polygamma(x, order=1).numpy(), [np.inf, np.inf, NAN, 0])
    np.testing.assert_array_equal(EAGER.ops.polygamma(x, order=2).numpy(), [NAN, NAN, NAN, 0])


def test_polygamma_keeps_its_recurrence_and_reflection() -> None:
    x = np.linspace(0.11, 12.3, 50)
    for order in range(4):
        psi = lambda x, order=order: EAGER.ops.polygamma(EAGER.asarray(x), order=order).numpy()  # noqa: E731
        step = (-1) ** order * math.factorial(order) / x ** (order + 1)
        assert np.all(np.abs(psi(x + 1) - psi(x) - step) <= 1e-14 * np.maximum(np.abs(step), 1))
    psi = EAGER.ops.polygamma(EAGER.asarray(np.array([1.0, 0.5, -0.5]))).numpy()
    euler = 0.5772156649015329
    np.testing.assert_allclose(psi, [-euler, -euler - 2 * math.log(2), 2 - euler - 2 * math.log(2)], rtol=1e-14)


def test_dawsons_integral_solves_its_equation() -> None:
    """F' = 1 - 2 x F, by differences."""
    x, h = np.linspace(-8, 8, 161), 1e-5
    dawsn = lambda x: EAGER.ops.dawsn(EAGER.asarray(x)).numpy()  # noqa: E731
    np.testing.assert_allclose((dawsn(x + h) - dawsn(x - h)) / (2 * h), 1 - 2 * x * dawsn(x), atol=1e-9)
