"""Sound rules about numbers: integers and booleans, comparisons and choices, casts, floats, rounding."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import numpy as np

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import (
    alike,
    discrete,
    floating,
    real,
    same_aval,
    same_dtype,
    same_shape,
    that,
    used_once,
)
from nnc_func.graph.rules.pattern import Nonnegative, Param, Scalar, computed
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule
from tests.testing.corpus.cases import Corpus, integers

SOUND = Corpus()
case = SOUND.case

invert, bit_and, bit_or, bit_xor = (OPS[f"bitwise_{n}"] for n in ("invert", "and", "or", "xor"))
equal, less, where, cast, minimum = (OPS[n] for n in ("equal", "less", "where", "cast", "minimum"))
maximum, absolute, copysign, isnan, relu = (OPS[n] for n in ("maximum", "abs", "copysign", "isnan", "relu"))
floor, sqrt, square, matmul = (OPS[n] for n in ("floor", "sqrt", "square", "matmul"))
logical_not, logical_and, logical_or = (OPS[f"logical_{n}"] for n in ("not", "and", "or"))

X, Y = np.array([5, -3, 0, 127], "int8"), np.array([1, 7, 0, -128], "int8")
F, G = np.array([1.5, -0.0, np.nan, -np.inf], "float32"), np.array([-2.0, 3.0, 1.0, np.inf], "float32")

# --- integers and booleans -----------------------------------------------------------------------------


@case("integers", x=X, y=Y)
@rule
def drop_bits_cut_out(x, y):
    """The bits of a number that are in it or in another are its own."""
    cut = bit_and(bit_or(x, y), x)
    return rewrite(cut).to(x).when(same_aval(x, cut))


@case("integers", x=X, y=Y)
@rule
def add_what_was_subtracted(x, y):
    """Integers that wrap around come back."""
    back = (x - y) + y
    return rewrite(back).to(x).when(discrete(x), same_aval(x, back))


@case("integers", x=X, y=Y)
@rule
def exchange_subtracted(x, y):
    """A negated difference of integers is the other one; of floats zero would have the other sign."""
    difference = x - y
    return rewrite(-difference).to(y - x).when(discrete(difference))


@case("integers", x=X)
@rule
def negate_by_bits(x):
    """In two's complement a number with its bits turned is one short of its negative."""
    negated = invert(x) + 1
    return rewrite(negated).to(-x).when(same_aval(x, negated))


@case("integers", x=X)
@rule
def increase_by_bits(x):
    """In two's complement the negative of a number with its bits turned is one more than it."""
    return rewrite(-invert(x)).to(x + 1)


@case("integers", x=X, y=Y)
@rule
def turn_bits_once(x, y):
    """Bits that are neither in one nor in the other, which is as wide, are not in either."""
    first, second = invert(x), invert(y)
    made = rewrite(bit_and(first, second)).to(invert(bit_or(x, y)))
    return made.when(same_dtype(x, y), used_once(first), used_once(second))


@case("integers", x=np.array([True, False]), y=np.array([False, False]))
@rule
def drop_absorbed_truth(x, y):
    """What is true, and true or something else, is true."""
    both = logical_and(x, logical_or(x, y))
    return rewrite(both).to(x).when(same_aval(x, both))


@case("integers", x=X, y=Y, z=np.array([9, 9, 9, 100], "int8"))
@rule
def compare_without_addend(x, y, z):
    """Integers that wrap around are equal where they are with one number added."""
    first, second = x + z, y + z
    asked = equal(first, second)
    made = rewrite(asked).to(equal(x, y)).when(alike(x, y, z, kinds="iu"), same_shape(x, asked))
    return made.when(used_once(first), used_once(second))


@case("integers", x=X, y=Y)
@rule
def drop_second_remainder(x, y):
    """A remainder of integers is between zero and the divisor, and its own; of floats it may round to the divisor."""
    rest = OPS["remainder"](x, y)
    return rewrite(OPS["remainder"](rest, y)).to(rest).when(discrete(rest))


@case("integers", x=X)
@rule
def multiply_magnitudes(x):
    """The signs of a real number cancel in its square, and so do those of what has no negative."""
    magnitude = absolute(x)
    return rewrite(magnitude * magnitude).to(x * x).when(real(x))


# --- comparisons and choices ---------------------------------------------------------------------------


@case("comparisons", x=X, y=Y)
@rule
def negate_less_than(x, y):
    """Of two integers the first is less, or greater or equal."""
    asked = less(x, y)
    made = rewrite(logical_not(asked)).to(OPS["greater_equal"](x, y))
    return made.when(discrete(x), discrete(y), used_once(asked))


@case("comparisons", x=X, y=Y)
@rule
def choose_the_smaller(x, y):
    """Of two integers the one that is chosen where it is less is the smaller; NaN is not less."""
    chosen = where(less(x, y), x, y)
    return rewrite(chosen).to(minimum(x, y)).when(integers(chosen))


@case("comparisons", x=X, y=Y)
@rule
def compare_negated(x, y):
    """Numbers of one dtype are equal where their negatives are."""
    first, second = -x, -y
    made = rewrite(equal(first, second)).to(equal(x, y))
    return made.when(same_dtype(x, y), used_once(first), used_once(second))


@case("comparisons", x=F, y=G)
@rule
def order_negated(x, y):
    """Floats are in the other order where they are negated; the least of integers has no negative."""
    first, second = -x, -y
    made = rewrite(less(first, second)).to(less(y, x))
    return made.when(alike(x, y, kinds="f"), used_once(first), used_once(second))


# --- casts ---------------------------------------------------------------------------------------------


@case("casts", c=np.array([True, False]), d="complex64")
@rule
def ask_for_truth(c, d: Param):
    """One and zero are numbers of every dtype, and only one of them is not zero."""
    asked = OPS["not_equal"](cast(c, dtype=d), 0)
    return rewrite(asked).to(c).when(same_aval(c, asked))


@case("casts", x=np.array([-1, 300, 70000], "int32"), d="uint16", e="int8")
@rule
def cast_integers_once(x, d: Param, e: Param):
    """The low bits of an integer are those of one that is cut off above them."""

    def cut(x, d, e) -> bool:
        first, last = np.dtype(d), np.dtype(e)
        return x.dtype.kind + first.kind + last.kind in KINDS and first.itemsize >= last.itemsize

    made = rewrite(cast(cast(x, dtype=d), dtype=e)).to(cast(x, dtype=e))
    return made.when(that(cut, x, d, e, says="all are integers, and the second is no narrower than the last"))


KINDS = {a + b + c for a in "biu" for b in "iu" for c in "iu"}


@case("casts", x=np.array([2**31 - 1, 2**31 - 2], "int32"), y=np.array([2**31 - 1, 2**31 - 1], "int32"))
@rule
def compare_short_integers(x, y):
    """A float of 64 bits has every integer of 32 bits."""
    first, second = cast(x, dtype="float64"), cast(y, dtype="float64")
    made = rewrite(equal(first, second)).to(equal(x, y))
    return made.when(integers(x, y, width=4), used_once(first), used_once(second))


@case("casts", x=X, y=np.array([1, 7, 0, 65535], "uint16"))
@rule
def order_short_integers(x, y):
    """A float of 32 bits has every integer of 16 bits, in their order."""
    first, second = cast(x, dtype="float32"), cast(y, dtype="float32")
    made = rewrite(less(first, second)).to(less(x, y))
    return made.when(integers(x, y, width=2), used_once(first), used_once(second))


@case("casts", x=F, d="float64", e="float32")
@rule
def drop_wider_float(x, d: Param, e: Param):
    """A float of 64 bits has every float of at most 64 bits."""
    back = cast(cast(x, dtype=d), dtype=e)
    double = that(lambda d: np.dtype(d).name == "float64", d, says="d is float64")
    return rewrite(back).to(x).when(double, floating(x), same_aval(x, back))


@case("casts", x=np.array([0.0, 1.5, 2.999], "float32"))
@rule
def cut_off_once(x: Nonnegative):
    """A cast to integers cuts off towards zero, which is down for what is not negative."""
    return rewrite(cast(floor(x), dtype="int64")).to(cast(x, dtype="int64"))


@case("casts", x=F, d="int32")
@rule
def read_bits_back(x, d: Param):
    """Bits that are read as another dtype and as their own again are the same."""
    once = OPS["bit_cast"](x, dtype=d)
    return (
        rewrite(OPS["bit_cast"](once, dtype="float32"))
        .to(x)
        .when(that(lambda x: x.dtype.name == "float32", x, says="x is float32"))
    )


# --- floats --------------------------------------------------------------------------------------------


@case("special values", x=F)
@rule
def ask_for_equality_with_itself(x):
    """Only NaN is not equal to itself."""
    asked = isnan(x)
    return rewrite(logical_not(asked)).to(equal(x, x)).when(used_once(asked))


@case("special values", x=F, y=G)
@rule
def drop_sign_before_magnitude(x, y):
    """The magnitude of a float does not depend on its sign."""
    signed = absolute(copysign(x, y))
    return rewrite(signed).to(absolute(x)).when(same_aval(x, signed))


@case("special values", x=F, y=G, z=F[::-1].copy())
@rule
def take_last_sign(x, y, z):
    """The last sign that a float gets is the one that it has."""
    once = copysign(x, y)
    return rewrite(copysign(once, z)).to(copysign(x, z)).when(same_aval(x, once))


@case("special values", x=F)
@rule
def round_up(x):
    """A whole number below the negative is the negative of one above, signed zeros too."""
    return rewrite(-floor(-x)).to(OPS["ceil"](x))


@case("special values", x=F)
@rule
def ask_magnitude_for_nan(x):
    """The magnitude of a real number is NaN where it is; of a complex one infinity is stronger."""
    return rewrite(isnan(absolute(x))).to(isnan(x)).when(real(x))


@case("special values", x=F)
@rule
def drop_infinite_bound(x):
    """No float is greater than infinity."""
    bounded = minimum(x, np.inf)
    return rewrite(bounded).to(x).when(same_aval(x, bounded))


@case("special values", x=F)
@rule
def drop_rectifier_of_magnitude(x):
    """The magnitude of a float is not negative; that of the least integer is."""
    return rewrite(relu(absolute(x))).to(absolute(x)).when(floating(x))


@case("special values", x=F, s=0.5)
@rule
def drop_rectifier_below_bound(x, s: Scalar):
    """A positive lower bound is above what a rectifier changes."""
    bounded = maximum(relu(x), s)
    positive = that(lambda s: s > 0, s, says="s is positive")
    return rewrite(bounded).to(maximum(x, s)).when(positive)


@case("special values", x=F, y=G)
@rule
def divide_negated(x, y):
    """The signs of two negated floats cancel in their quotient, to the bit."""
    first, second = -x, -y
    made = rewrite(first / second).to(x / y)
    return made.when(alike(x, y, kinds="f"), used_once(first), used_once(second))


@case("special values", a=F[:2].reshape(1, 2), b=G[:2].reshape(2, 1))
@rule
def multiply_negated_matrices(a, b):
    """Each product of a matrix product of two negated ones, of one dtype, has the same bits as before."""
    first, second = -a, -b
    made = rewrite(matmul(first, second)).to(matmul(a, b))
    return made.when(same_dtype(a, b), used_once(first), used_once(second))


@computed
def _opposite(s):
    """The negative of a number, of zero too."""
    return -float(s)


@case("special values", x=F, s=1.5)
@rule
def negate_factor(x, s: Scalar):
    """The sign of a product of floats is that of either factor."""
    product = x * s
    made = rewrite(-product).to(x * _opposite(s))
    return made.when(floating(x), same_aval(x, product), used_once(product))


@case("special values", x=F, y=G)
@rule
def drop_magnitude_before_hypotenuse(x, y):
    """Only the magnitude of a real number makes a difference to a hypotenuse."""
    return rewrite(OPS["hypot"](absolute(x), y)).to(OPS["hypot"](x, y)).when(real(x))


@case("special values", x=np.array([1 + 2j, np.inf - 1j], "complex64"))
@rule
def drop_conjugate_before_magnitude(x):
    """The magnitude of a number is that of its conjugate."""
    return rewrite(absolute(OPS["conj"](x))).to(absolute(x))


# --- rounding ------------------------------------------------------------------------------------------


@case("rounding", x=np.array([1e-6, 3.0, np.inf], "float32"))
@rule
def logarithm_near_one(x):
    """One more is rounded before its logarithm is taken, and log1p loses nothing of a float."""
    logarithm = OPS["log"](x + 1)
    kept = that(
        lambda x, y: x.dtype.kind == "f" and x.aval == y.aval, x, logarithm, says="x is floating, and one no wider"
    )
    return rewrite(logarithm).to(OPS["log1p"](x)).when(kept).up_to(ROUNDING)


@case("rounding", x=np.array([1e-6, 3.0, np.inf], "float32"), s=0.7)
@rule
def drop_small_addend(x, s: Scalar):
    """What a number that overflows no sum adds and takes away again is rounding."""
    back = (x + s) - s
    small = that(lambda s: abs(s) <= 1, s, says="s is at most 1")
    return rewrite(back).to(x).when(small, same_aval(x, back)).up_to(ROUNDING)


@case("rounding", x=np.array([0.3, 1e30, np.inf], "float32"))
@rule
def square_of_a_root(x: Nonnegative):
    """A root is rounded, and its square again; the number itself is neither."""
    root = sqrt(x)
    return rewrite(root * root).to(x).up_to(ROUNDING)
