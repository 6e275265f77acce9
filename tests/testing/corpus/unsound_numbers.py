"""Unsound rules about numbers: dtypes, rounding, and special values."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import numpy as np

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import alike, discrete, floating, same_aval, same_dtype, same_shape, that
from nnc_func.graph.rules.pattern import Nonnegative, Param, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, integers

UNSOUND = Corpus()
case = UNSOUND.case

cast, equal, less, greater, greatest = (OPS[n] for n in ("cast", "equal", "less", "greater", "max"))
least, mean, total, where, floor_divide = (OPS[n] for n in ("min", "mean", "sum", "where", "floor_divide"))
exp, log, sqrt, square, absolute, floor = (OPS[n] for n in ("exp", "log", "sqrt", "square", "abs", "floor"))
maximum, minimum, logical_not, logical_and = (OPS[n] for n in ("maximum", "minimum", "logical_not", "logical_and"))


def filled(like, value):
    """A fill of the shape and dtype of what it replaces."""
    return apply(OPS["full"], shape=shape_of(like), value=value, dtype=dtype_of(like))


# --- dtypes --------------------------------------------------------------------------------------------


@case("dtypes", i=np.array(2**24, "int32"), j=np.array(2**24 + 1, "int32"))
@rule
def compare_integers_for_equality(i, j):
    """Whether integers are equal can be asked of them as they are, before they become floats."""
    asked = equal(cast(i, dtype="float32"), cast(j, dtype="float32"))
    return rewrite(asked).to(equal(i, j)).when(discrete(i), same_dtype(i, j))


@case("dtypes", i=np.array(2**53), j=np.array(2**53 + 1))
@rule
def compare_integers_in_order(i, j):
    """Which integer is smaller can be asked of them as they are, before they become floats of 64 bits."""
    asked = less(cast(i, dtype="float64"), cast(j, dtype="float64"))
    return rewrite(asked).to(less(i, j)).when(discrete(i), same_dtype(i, j))


@case("dtypes", x=np.array(2**24 + 1, "int32"), d="float32", e="int32")
@rule
def drop_cast_there_and_back(x, d: Param, e: Param):
    """Integers come back unchanged from a dtype that is as wide."""
    back = cast(cast(x, dtype=d), dtype=e)
    wide = that(
        lambda x, d: np.dtype(d).kind in "iuf" and np.dtype(d).itemsize >= x.dtype.itemsize, x, d, says="d is as wide"
    )
    return rewrite(back).to(x).when(integers(x), wide, same_aval(x, back))


@case("dtypes", x=np.array(-128, "int8"))
@rule
def magnitudes_of_integers(x):
    """The magnitude of an integer is at least zero."""
    asked = OPS["greater_equal"](absolute(x), 0)
    return rewrite(asked).to(filled(asked, True)).when(discrete(x))


@case("dtypes", x=np.array(1, "uint8"), y=np.array(2, "uint8"))
@rule
def compare_without_difference(x, y):
    """A difference of integers is positive where the first is greater."""
    difference = x - y
    asked = greater(difference, 0)
    return rewrite(asked).to(greater(x, y)).when(discrete(x), same_dtype(x, y), same_shape(difference, asked))


@case("dtypes", x=np.array(64, "int8"))
@rule
def halve_doubled_integer(x):
    """Half of a doubled integer is that integer."""
    half = floor_divide(x * 2, 2)
    return rewrite(half).to(x).when(discrete(x), same_aval(x, half))


@case("dtypes", x=np.array(5), y=np.array(0))
@rule
def put_remainder_back(x, y):
    """An integer is its quotient times the divisor, and the remainder."""
    whole = floor_divide(x, y) * y + OPS["remainder"](x, y)
    return rewrite(whole).to(x).when(discrete(x), same_aval(x, whole))


@case("dtypes", x=np.array([-128, 1], "int8"), a=None, k=False)
@rule
def largest_of_negated_integers(x, a: Param, k: Param):
    """The largest of negated integers is the negated smallest."""
    signed = that(lambda x: x.dtype.kind == "i", x, says="x has a sign")
    return rewrite(greatest(-x, axis=a, keepdims=k)).to(-least(x, axis=a, keepdims=k)).when(signed)


@case("dtypes", x=np.array([60000, 60000], "float16"), a=None, k=False)
@rule
def widen_sum_afterwards(x, a: Param, k: Param):
    """A sum of floats that were widened is the widened sum."""
    added = total(cast(x, dtype="float32"), axis=a, keepdims=k)
    narrow = that(lambda x: x.dtype.name in ("float16", "float32"), x, says="x has at most 32 bits")
    widened = cast(total(x, axis=a, keepdims=k), dtype="float32")
    return rewrite(added).to(widened).when(narrow).up_to(REASSOCIATION)


@case("dtypes", x=np.array(-1, "int8"), y=np.array(1, "int8"), d="uint16")
@rule
def compare_before_widening(x, y, d: Param):
    """Integers that become wider ones keep their order."""
    wider = that(
        lambda x, d: np.dtype(d).kind in "iu" and np.dtype(d).itemsize > x.dtype.itemsize, x, d, says="d is wider"
    )
    asked = less(cast(x, dtype=d), cast(y, dtype=d))
    return rewrite(asked).to(less(x, y)).when(integers(x, y), same_dtype(x, y), wider)


# --- rounding ------------------------------------------------------------------------------------------


@case("rounding", x=np.array(3e30, "float32"), y=np.array(4e30, "float32"))
@rule
def root_of_squares(x, y):
    """The hypotenuse is the root of the sum of the squares."""
    return rewrite(OPS["hypot"](x, y)).to(sqrt(x * x + y * y)).when(alike(x, y, kinds="f")).up_to(ROUNDING)


@case("rounding", x=np.array(1e-6, "float32"))
@rule
def logarithm_of_one_more(x):
    """log1p is the logarithm of one more."""
    return rewrite(OPS["log1p"](x)).to(log(x + 1)).when(floating(x)).up_to(ROUNDING)


@case("rounding", x=np.array([10000, 10001], "float32"), a=0)
@rule
def variance_in_one_pass(x, a: Param):
    """The variance is the mean of the squares without the square of the mean."""
    spread = mean(square(x - mean(x, axis=a, keepdims=True)), axis=a)
    once = mean(square(x), axis=a) - square(mean(x, axis=a))
    return rewrite(spread).to(once).when(floating(x)).up_to(REASSOCIATION).with_fast_math()


@case("rounding", x=np.array([100.0, 1.0], "float32"), a=None, k=False)
@rule
def logarithm_of_sum(x, a: Param, k: Param):
    """logsumexp is the logarithm of the sum of exponentials."""
    found = OPS["logsumexp"](x, axis=a, keepdims=k)
    return rewrite(found).to(log(total(exp(x), axis=a, keepdims=k))).when(floating(x)).up_to(REASSOCIATION)


@case("rounding", x=np.array(1.0001, "float32"), y=np.array(1.0, "float32"))
@rule
def difference_of_squares(x, y):
    """A sum times the difference is the difference of the squares."""
    return rewrite((x + y) * (x - y)).to(x * x - y * y).when(alike(x, y, kinds="f")).up_to(ROUNDING).with_fast_math()


@case("rounding", x=np.array(1e-4, "float32"))
@rule
def hyperbolic_sine(x):
    """The hyperbolic sine is half of the difference of two exponentials."""
    return rewrite(OPS["sinh"](x)).to((exp(x) - exp(-x)) * 0.5).when(floating(x)).up_to(ROUNDING)


@case("rounding", x=np.array(1e30, "float32"), y=np.array(1e20, "float32"), z=np.array(1e20, "float32"))
@rule
def divide_once(x, y, z):
    """A quotient that is divided again is divided by the product."""
    return rewrite(x / y / z).to(x / (y * z)).when(alike(x, y, z, kinds="f")).up_to(ROUNDING)


@case("rounding", x=np.array(1e30, "float32"), y=np.array(1e30, "float32"))
@rule
def root_of_product(x: Nonnegative, y: Nonnegative):
    """A product of roots is the root of the product."""
    return rewrite(sqrt(x) * sqrt(y)).to(sqrt(x * y)).when(same_dtype(x, y)).up_to(ROUNDING)


@case("rounding", x=np.array(1e8, "float32"), y=np.array(-1e8, "float32"), z=np.array(1, "float32"))
@rule
def add_from_the_right(x, y, z):
    """A sum of three is the first and the sum of the others, each element rounded for itself."""
    return rewrite((x + y) + z).to(x + (y + z)).when(alike(x, y, z, kinds="f")).up_to(ROUNDING)


@case("rounding", x=np.array([100.0, 1.0], "float32"), a=-1)
@rule
def softmax_as_written(x, a: Param):
    """A softmax is the exponentials over their sum."""
    powers = exp(x)
    return (
        rewrite(OPS["softmax"](x, axis=a))
        .to(powers / total(powers, axis=a, keepdims=True))
        .when(floating(x))
        .up_to(REASSOCIATION)
    )


@case("rounding", x=np.array(6.0, "float32"))
@rule
def error_function_from_one(x):
    """The complementary error function is what the error function leaves of one."""
    return rewrite(OPS["erfc"](x)).to(1 - OPS["erf"](x)).when(floating(x)).up_to(ROUNDING)


# --- special values ------------------------------------------------------------------------------------


@case("special values", x=np.array(np.nan), y=np.array(1.0))
@rule
def negate_less(x, y):
    """What is not less is greater or equal."""
    return rewrite(logical_not(less(x, y))).to(OPS["greater_equal"](x, y))


@case("special values", x=np.array(np.nan), y=np.array(1.0))
@rule
def choose_greater(x, y):
    """A choice of the greater of two is the maximum."""
    chosen = where(greater(x, y), x, y)
    return rewrite(chosen).to(maximum(x, y)).when(floating(x), floating(y)).up_to(SIGNED_ZERO)


@case("special values", x=np.array(-0.0))
@rule
def drop_zero_chosen_for_zero(x):
    """Zero in place of zero changes nothing."""
    chosen = where(equal(x, 0), 0, x)
    return rewrite(chosen).to(x).when(same_aval(x, chosen))


@case("special values", x=np.array(0.0))
@rule
def subtract_from_zero(x):
    """What is subtracted from zero is negated."""
    difference = 0 - x
    return rewrite(difference).to(-x).when(same_aval(x, difference))


@case("special values", x=np.array(0.0))
@rule
def sign_by_division(x):
    """A number over its magnitude is its sign."""
    return rewrite(x / absolute(x)).to(OPS["sign"](x)).when(floating(x)).up_to(ROUNDING)


@case("special values", x=np.array(0.5))
@rule
def round_by_floor(x):
    """One half more, rounded down, is the nearest whole number."""
    rounded = floor(x + 0.5)
    return rewrite(rounded).to(OPS["round"](x)).when(same_aval(x, rounded)).up_to(SIGNED_ZERO)


@computed
def _larger(a, c):
    """The larger bound."""
    return max(a, c)


@computed
def _smaller(b, d):
    """The smaller bound."""
    return min(b, d)


@case("special values", x=np.array(0), a=0, b=1, c=2, d=3)
@rule
def merge_clips(x, a: Param, b: Param, c: Param, d: Param):
    """Two clips in a row are one, between the larger lower and the smaller upper bound."""
    twice = OPS["clip"](OPS["clip"](x, min=a, max=b), min=c, max=d)
    ordered = that(
        lambda a, b, c, d: None not in (a, b, c, d) and a <= b and c <= d, a, b, c, d, says="bounds are in order"
    )
    clipped = OPS["clip"](x, min=_larger(a, c), max=_smaller(b, d))
    return rewrite(twice).to(clipped).when(ordered).up_to(SIGNED_ZERO)


@case("special values", x=np.array(-1.0, "float32"))
@rule
def square_of_root(x):
    """The square of a root is the number."""
    return rewrite(square(sqrt(x))).to(x).when(floating(x)).up_to(ROUNDING)


@case("special values", y=np.array(0.0), x=np.array(0.0))
@rule
def angle_by_ratio(y, x: Nonnegative):
    """The angle of a point to the right is the arc tangent of the ratio."""
    return rewrite(OPS["atan2"](y, x)).to(OPS["atan"](y / x)).when(same_dtype(x, y)).up_to(ROUNDING)


@case("special values", x=np.array(1e200), y=np.array(1e200))
@rule
def finite_products(x, y):
    """A product is finite where both factors are."""
    finite = OPS["isfinite"]
    return rewrite(finite(x * y)).to(logical_and(finite(x), finite(y))).when(alike(x, y, kinds="f"))


@case("special values", x=np.array(np.inf), y=np.array(np.inf))
@rule
def compare_difference_with_zero(x, y):
    """Two numbers are equal where their difference is zero."""
    difference = x - y
    asked = equal(difference, 0)
    return rewrite(asked).to(equal(x, y)).when(alike(x, y, kinds="f"), same_shape(difference, asked))


@case("special values", c=np.array(False), x=np.array(np.nan))
@rule
def multiply_by_condition(c, x):
    """A choice between a number and zero is the number times the condition."""
    chosen = where(c, x, 0)
    return rewrite(chosen).to(x * cast(c, dtype=dtype_of(x))).when(floating(x), same_aval(x, chosen)).up_to(SIGNED_ZERO)
