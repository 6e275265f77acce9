"""Rules of powers, roots and quotients: what is cheap in place of what is dear."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.algebra import filled
from nnc_func.graph.rules.conditions import (
    floating,
    no_larger,
    real,
    same_aval,
    same_dtype,
    that,
    used_once,
)
from nnc_func.graph.rules.pattern import Nonnegative, Scalar, computed
from nnc_func.graph.rules.rule import OWN, ROUNDING, Each, for_each, rewrite, rule
from nnc_func.op import Op

sqrt, square, power_, reciprocal, absolute = (OPS[n] for n in ("sqrt", "square", "power", "reciprocal", "abs"))
sign, multiply_no_nan = OPS["sign"], OPS["multiply_no_nan"]

# --- powers --------------------------------------------------------------------------------------------


@rule
def zeroth_power(x):
    """A zeroth power is one, of zero, infinity and NaN too."""
    power = x**0
    return rewrite(power).to(filled(power, 1))


@rule
def square_by_product(x):
    """A second power is a product, which is many times faster than a general power."""
    power = x**2
    return rewrite(power).to(x * x).when(same_aval(x, power)).up_to(ROUNDING)


def _exponents(op: Op) -> Iterator[tuple[Each, int]]:
    if op is power_:
        yield from ((Each(op), n) for n in (3, 4, 5, 6, 8))


@for_each(_exponents, "raises to a power", at=OWN)
def multiply_out_power(f, n, x):
    """A small whole power is a product of squares, which is many times faster than a general power."""
    power = f(x, n)
    return rewrite(power).to(_product(x, n)).when(real(x), same_aval(x, power)).up_to(ROUNDING)


def _product(x: Any, n: int) -> Any:
    """x to the power of n, by squares of squares."""
    if n == 1:
        return x
    half = _product(x, n // 2)
    squared = half * half
    return squared * x if n % 2 else squared


@rule
def reciprocal_of_power(x):
    """The power of minus one is the reciprocal."""
    power = x**-1
    return rewrite(power).to(reciprocal(x)).when(same_aval(x, power), floating(x)).up_to(ROUNDING)


@rule
def root_of_power(x: Nonnegative):
    """The power of one half of what is not negative is its root."""
    power = x**0.5
    return rewrite(power).to(sqrt(x)).when(same_aval(x, power)).up_to(ROUNDING)


@rule
def root_of_any_power(x):
    """The power of one half is the root, unless it is of minus infinity."""
    power = x**0.5
    return rewrite(power).to(sqrt(x)).when(same_aval(x, power)).up_to(ROUNDING).with_fast_math()


@rule
def reciprocal_root_of_power(x):
    """The power of minus one half is the reciprocal of the root, unless it is of minus infinity or minus zero."""
    power = x**-0.5
    root = reciprocal(sqrt(x))
    return rewrite(power).to(root).when(same_aval(x, power)).up_to(ROUNDING).with_fast_math()


# --- roots ---------------------------------------------------------------------------------------------


@rule
def square_of_root(x: Nonnegative):
    """The square of the root of what is not negative is that."""
    return rewrite(square(sqrt(x))).to(x).up_to(ROUNDING)


@rule
def root_of_square(x):
    """The root of a square is the magnitude, unless the square overflows or vanishes."""
    return rewrite(sqrt(square(x))).to(absolute(x)).when(floating(x)).up_to(ROUNDING).with_fast_math()


@rule
def root_of_product_with_itself(x):
    """The root of a product of equal factors is their magnitude, unless the product overflows or vanishes."""
    return rewrite(sqrt(x * x)).to(absolute(x)).when(floating(x)).up_to(ROUNDING).with_fast_math()


# --- quotients -----------------------------------------------------------------------------------------


def _is_scale(s, quotient) -> bool:
    """A power of two whose reciprocal is a normal number: multiplying by that rounds as dividing does."""
    if kind_of(quotient.dtype) != "f" or not s or not math.isfinite(s) or abs(math.frexp(s)[0]) != 0.5:
        return False
    limits = limits_of(quotient.dtype)
    return bool(limits.tiny <= abs(1 / s) <= limits.max and limits.tiny <= abs(s))


@computed
def _reciprocal(s):
    """One over a number."""
    return 1 / s


@rule
def divide_by_power_of_two(x, s: Scalar):
    """A division by a power of two becomes a multiplication, which gives the same bits."""
    quotient = x / s
    return (
        rewrite(quotient)
        .to(x * _reciprocal(s))
        .when(
            that(_is_scale, s, quotient, says=f"{s} is a power of two, and so is its reciprocal"),
            same_aval(x, quotient),
        )
    )


@rule
def divide_one(x):
    """One divided by a tensor is its reciprocal."""
    quotient = 1 / x
    return rewrite(quotient).to(reciprocal(x)).when(same_aval(x, quotient), real(x))


@rule
def divide_by_reciprocal(x, y):
    """A product with a reciprocal is a quotient, unless the reciprocal overflows."""
    inverse = reciprocal(y)
    product = x * inverse
    made = rewrite(product).to(x / y).when(floating(y), used_once(inverse), no_larger(product, y))
    return made.up_to(ROUNDING).with_fast_math()


@rule
def multiply_by_reciprocal(x, y):
    """A quotient by a reciprocal is a product, unless the reciprocal overflows."""
    quotient = x / reciprocal(y)
    return rewrite(quotient).to(x * y).when(same_dtype(y, quotient)).up_to(ROUNDING).with_fast_math()


@rule
def divide_by_magnitude(x):
    """A real number over its magnitude is its sign, unless it is zero or infinite."""
    return rewrite(x / absolute(x)).to(sign(x)).when(floating(x)).with_fast_math()


@rule
def multiply_by_own_reciprocal(x):
    """A number times its reciprocal is one, unless it is zero or infinite."""
    product = x * reciprocal(x)
    return rewrite(product).to(filled(product, 1)).up_to(ROUNDING).with_fast_math()


@rule
def cancel_factor(x, y):
    """A factor over its product with another leaves the other's reciprocal, unless it is zero or infinite."""
    quotient = x / (x * y)
    made = rewrite(quotient).to(reciprocal(y)).when(same_aval(y, quotient), real(y))
    return made.up_to(ROUNDING).with_fast_math()  # of a large complex number the reciprocal is zero


@rule
def multiply_by_known_factor(x, s: Scalar):
    """A product in which zero absorbs what is not finite is a plain one with a number that is not zero."""
    return rewrite(multiply_no_nan(x, s)).to(x * s).when(that(bool, s, says=f"{s} is not zero"))


def _keeps_within(a: Any, b: Any, quotient: Any) -> bool:
    """Neither step enlarges, and what both come to is a normal number: nothing overflows that would not have."""
    if abs(a) > 1 or abs(b) < 1 or not math.isfinite(b) or kind_of(quotient.dtype) != "f":
        return False
    return not a or bool(abs(a / b) >= limits_of(quotient.dtype).tiny)


@computed
def _quotient(a, b):
    """The quotient of two numbers."""
    return a / b


@rule
def merge_scale_and_divisor(x, a: Scalar, b: Scalar):
    """A constant factor and a constant divisor, neither of which enlarges, are one factor."""
    scaled = x * a
    quotient = scaled / b
    within = that(
        _keeps_within, a, b, quotient, says=f"neither {a} nor one over {b} enlarges, and {a} / {b} is normal or zero"
    )
    made = rewrite(quotient).to(x * _quotient(a, b)).when(within, same_aval(x, quotient), used_once(scaled))
    return made.up_to(ROUNDING)


@rule
def merge_divisor_and_scale(x, a: Scalar, b: Scalar):
    """A constant divisor and a constant factor, neither of which enlarges, are one factor."""
    quotient = x / b
    scaled = quotient * a
    within = that(
        _keeps_within, a, b, scaled, says=f"neither {a} nor one over {b} enlarges, and {a} / {b} is normal or zero"
    )
    made = rewrite(scaled).to(x * _quotient(a, b)).when(within, same_aval(x, scaled), used_once(quotient))
    return made.up_to(ROUNDING)
