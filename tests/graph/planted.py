"""Rules that are wrong or useless, each in another way: what the kit must refute.

Those named after a library are what it had, as it had it; the rest are mistakes that are easily made.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import math
from typing import Any

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules import EXACT, REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from nnc_func.graph.rules.conditions import discrete, floating, same_aval, same_dtype, that, used_once
from nnc_func.graph.rules.pattern import Param, Scalar, apply, computed, dtype_of, shape_of

fma, exp, log, sqrt, square, relu = (OPS[n] for n in ("fma", "exp", "log", "sqrt", "square", "relu"))
abs_, maximum, minimum, where = (OPS[n] for n in ("abs", "maximum", "minimum", "where"))
isnan, less, less_equal, greater, logical_not = (
    OPS[n] for n in ("isnan", "less", "less_equal", "greater", "logical_not")
)
floor_divide, remainder, negative = OPS["floor_divide"], OPS["remainder"], OPS["negative"]
total, mean, largest, argmax, argmin = (OPS[n] for n in ("sum", "mean", "max", "argmax", "argmin"))
matmul, softmax, max_pool2d, pad = OPS["matmul"], OPS["softmax"], OPS["max_pool2d"], OPS["pad"]
permute_dims, reshape, broadcast_to, flip = (OPS[n] for n in ("permute_dims", "reshape", "broadcast_to", "flip"))
expand_dims, slice_, set_slice, cast, full = (OPS[n] for n in ("expand_dims", "slice", "set_slice", "cast", "full"))
cumulative_sum, sort, concat = OPS["cumulative_sum"], OPS["sort"], OPS["concat"]


@computed
def _other(flag):
    return not flag


def _zeros(x):
    return apply(full, shape=shape_of(x), value=_zero(dtype_of(x)), dtype=dtype_of(x))


@computed
def _zero(dtype):
    return dtype.type(0).item()


# --- of other libraries --------------------------------------------------------------------------------


@rule
def owl_002_drop_zeros(x):
    """Zeros that are added are dropped; whether they widen x is not asked."""
    return rewrite(x + 0).to(x).up_to(SIGNED_ZERO)


@rule
def owl_006_flip_left(x, y, p: Param, a: Param, b: Param):
    """A transpose becomes the product's flag, whichever axes it exchanges."""
    product = matmul(permute_dims(x, axes=p), y, transpose_a=a, transpose_b=b)
    return rewrite(product).to(matmul(x, y, transpose_a=_other(a), transpose_b=b)).up_to(ROUNDING)


@rule
def owl_006_flip_both(x, y, a: Param, b: Param):
    """Two transposes become flags, of which the second is written with the first as it was."""
    product = matmul(permute_dims(x), permute_dims(y), transpose_a=a, transpose_b=b)
    return rewrite(product).to(matmul(x, y, transpose_a=a, transpose_b=_other(b))).up_to(ROUNDING)


@rule
def owl_008_zero_divided(x):
    """Zero divided by anything is zero."""
    quotient = 0.0 / x
    return rewrite(quotient).to(_zeros(quotient)).up_to(SIGNED_ZERO)


@rule
def owl_020_zero_times(x):
    """Zero times anything is zero."""
    product = x * 0.0
    return rewrite(product).to(_zeros(product)).up_to(SIGNED_ZERO)


@rule
def owl_023_drop_repeat(x, y, s: Param):
    """A broadcast before a sum is dropped; whether the other operand has the full shape is not asked."""
    return rewrite(broadcast_to(x, shape=s) + y).to(x + y)


@rule
def owl_024_drop_kept_axis(x, a: Param):
    """A sum that keeps its axis does not keep it."""
    return rewrite(total(x, axis=a, keepdims=True)).to(total(x, axis=a))


@rule
def pytensor_add_to_part(x, v, s: Param, d: Param, a: Param, b: Param, c: Param):
    """Zeros but for a part, added, become an addition to that part; whether the zeros are broadcast is not asked."""
    zeros = apply(full, shape=s, value=0, dtype=d)
    written = x + set_slice(zeros, v, starts=a, stops=b, steps=c)
    part = slice_(x, starts=a, stops=b, steps=c) + v
    return rewrite(written).to(set_slice(x, part, starts=a, stops=b, steps=c)).up_to(SIGNED_ZERO)


# --- shapes --------------------------------------------------------------------------------------------


@rule
def choose_of_equals(c, x):
    """A choice between equals is that; whether the condition is wider is not asked."""
    return rewrite(where(c, x, x)).to(x)


@rule
def sum_of_one(x, a: Param):
    """A sum over one element is that element, of whatever rank."""
    summed = total(x, axis=a)
    return rewrite(summed).to(x).when(that(lambda x: x.size == 1, x), same_dtype(x, summed)).up_to(SIGNED_ZERO)


@rule
def sum_before_transpose(x, p: Param, a: Param):
    """The sum of a transposed tensor is summed along the same axis before."""
    return rewrite(total(permute_dims(x, axes=p), axis=a)).to(total(x, axis=a)).up_to(REASSOCIATION)


@rule
def softmax_before_transpose(x, p: Param, k: Param):
    """A softmax of a transposed tensor is taken along the same axis before."""
    return rewrite(softmax(permute_dims(x, axes=p), axis=k)).to(permute_dims(softmax(x, axis=k), axes=p))


@rule
def transposes_cancel(x, p: Param):
    """A transpose made twice is nothing."""
    return rewrite(permute_dims(permute_dims(x, axes=p), axes=p)).to(x)


@rule
def flip_a_slice(x, a: Param, b: Param, c: Param):
    """A slice that runs either way is what it runs over."""
    shown = slice_(x, starts=a, stops=b, steps=c)
    return rewrite(shown).to(x).when(same_aval(x, shown))


@computed
def _inner(widths):
    return widths[1:3]


def _only_inner(widths: Any) -> bool:
    return len(widths) == 4 and widths[0] == widths[3] == (0, 0)


@rule
def pool_padded(x, w: Param, s: Param, p: Param):
    """Zeros around images are left to pooling, which has less than any number there."""
    padded = pad(x, widths=p)
    pooled = max_pool2d(padded, window=w, stride=s)
    return rewrite(pooled).to(max_pool2d(x, window=w, stride=s, padding=_inner(p))).when(that(_only_inner, p))


@rule
def mean_of_fill(s: Param, v: Param, d: Param):
    """The mean of a fill is its number, of none as well."""
    filled = mean(apply(full, shape=s, value=v, dtype=d))
    return rewrite(filled).to(apply(full, shape=(), value=v, dtype=dtype_of(filled))).when(floating(filled))


@computed
def _reciprocal_of_size(x):
    return 1.0 / math.prod(x.shape) if x.size else math.nan


@rule
def mean_by_known_size(x):
    """A mean is a sum over the number of elements, which is taken to be a number."""
    averaged = mean(x)
    scaled = total(x) * _reciprocal_of_size(x)
    return rewrite(averaged).to(scaled).when(same_dtype(x, averaged)).up_to(REASSOCIATION)


def _is_narrow(x: Any) -> bool:
    return not any(isinstance(n, int) and n > 1 for n in x.shape)


@rule
def flip_of_narrow(x, a: Param):
    """Where no axis is longer than one, turning around does nothing; an unknown one is taken for short."""
    return rewrite(flip(x, axis=a)).to(x).when(that(_is_narrow, x))


def _is_short(x: Any) -> bool:
    return all(n.bit_length() < 2 for n in x.shape)


@rule
def flip_of_short(x, a: Param):
    """Where no axis is longer than one, turning around does nothing; an unknown one is compared."""
    return rewrite(flip(x, axis=a)).to(x).when(that(_is_short, x))


# --- dtypes --------------------------------------------------------------------------------------------


@rule
def root_of_square(x):
    """The root of a square is the magnitude, of integers too."""
    return rewrite(sqrt(square(x))).to(abs_(x)).up_to(ROUNDING)


@rule
def square_of_magnitude(x):
    """The square of a magnitude is the square, of complex numbers too."""
    return rewrite(square(abs_(x))).to(square(x)).up_to(ROUNDING)


@rule
def last_cast(x, d: Param, e: Param):
    """Of two casts the last remains, whatever the first loses."""
    return rewrite(cast(cast(x, dtype=d), dtype=e)).to(cast(x, dtype=e))


@rule
def cast_before_sum(x, y, d: Param):
    """A sum is cast before it is made."""
    added = x + y
    return rewrite(cast(added, dtype=d)).to(cast(x, dtype=d) + cast(y, dtype=d)).when(used_once(added))


@rule
def magnitude_of_negative(x):
    """The magnitude does not see a sign: of unsigned numbers, which wrap around, it does."""
    return rewrite(abs_(-x)).to(abs_(x))


@rule
def compare_one_more(x, y):
    """Both sides of a comparison, one more each, compare as they are; the largest integer wraps around."""
    return rewrite(less(x + 1, y + 1)).to(less(x, y)).when(discrete(x), same_aval(x, y))


@rule
def halve_the_double(x):
    """What is doubled and halved is itself, but where the double does not exist."""
    doubled = floor_divide(x * 2, 2)
    return rewrite(doubled).to(x).when(same_aval(x, doubled), discrete(x))


@rule
def scale_the_sum(x, s: Scalar):
    """A factor is taken out of a sum, which is wider than a product."""
    scaled = x * s
    return rewrite(total(scaled)).to(total(x) * s).when(discrete(x), same_aval(x, scaled))


# --- NaN, infinity, zeros ------------------------------------------------------------------------------


@rule
def difference_of_equals(x):
    """What is subtracted from itself is zero."""
    difference = x - x
    return rewrite(difference).to(_zeros(difference)).up_to(SIGNED_ZERO)


@rule
def quotient_of_equals(x):
    """What is divided by itself is one, zero too."""
    quotient = x / x
    return rewrite(quotient).to(apply(full, shape=shape_of(x), value=1.0, dtype=dtype_of(quotient))).up_to(ROUNDING)


@rule
def floor_quotient_of_equals(x):
    """An integer divided by itself is one, zero too."""
    quotient = floor_divide(x, x)
    one = apply(full, shape=shape_of(x), value=1, dtype=dtype_of(quotient))
    return rewrite(quotient).to(one).when(discrete(x))


@rule
def exp_of_log(x):
    """The exponential of a logarithm is the number, negative ones too."""
    grown = exp(log(x))
    return rewrite(grown).to(x).when(same_aval(x, grown)).up_to(ROUNDING)


@rule
def root_of_product(x):
    """The root of a number times itself is that number."""
    root = sqrt(x * x)
    return rewrite(root).to(x).when(same_aval(x, root)).up_to(ROUNDING)


@rule
def log_of_product(x, y):
    """The logarithm of a product is a sum."""
    return rewrite(log(x * y)).to(log(x) + log(y)).up_to(ROUNDING)


@rule
def compare_the_other_way(x, y):
    """What is not greater is less or equal; a NaN is neither."""
    return rewrite(logical_not(greater(x, y))).to(less_equal(x, y))


@rule
def smaller_by_choice(x, y):
    """The smaller of two is chosen by comparing: a NaN is lost."""
    smaller = where(less(x, y), x, y)
    return rewrite(smaller).to(minimum(x, y)).up_to(SIGNED_ZERO)


@rule
def root_by_power(x):
    """A half as exponent is a square root, of minus infinity too."""
    root = x**0.5
    return rewrite(root).to(sqrt(x)).when(floating(x), same_aval(x, root)).up_to(ROUNDING)


@rule
def negate_difference(x, y):
    """A difference is negated by exchanging its operands, equal ones too."""
    return rewrite(-(x - y)).to(y - x).up_to(EXACT)


@rule
def larger_of_zero(x):
    """The larger of a number and zero is rectified, a negative zero too."""
    return rewrite(abs_(x) * relu(x)).to(x * relu(x)).up_to(EXACT)


@rule
def drop_zero_exactly(x):
    """A zero that is added is dropped, also from a negative zero."""
    widened = x + 0.0
    return rewrite(widened).to(x).when(same_aval(x, widened)).up_to(EXACT)


# --- order ---------------------------------------------------------------------------------------------


@computed
def _added(s, t):
    return s + t


@rule
def reassociate_exactly(x, y, s: Scalar, t: Scalar):
    """Numbers that are added one after the other are added first, to the same bits."""
    once = x + s
    twice = once + t
    return rewrite(twice).to(x + _added(s, t)).when(same_aval(x, once), same_aval(x, twice), used_once(once))


@computed
def _reciprocal(s):
    return 1 / s


@rule
def scale_is_exact(x, s: Scalar):
    """A division by a number is a multiplication by its reciprocal, to the same bits."""
    quotient = x / s
    return rewrite(quotient).to(x * _reciprocal(s)).when(same_aval(x, quotient), that(bool, s))


@rule
def position_of_rectified(x, a: Param):
    """The first largest of rectified elements is the first largest, where none is positive too."""
    return rewrite(argmax(relu(x), axis=a)).to(argmax(x, axis=a))


@rule
def position_of_smallest(x, a: Param):
    """The smallest of negated elements is the largest: of integers, the least of which has no opposite, it is not."""
    return rewrite(argmin(-x, axis=a)).to(argmax(x, axis=a))


@rule
def cumulate_backwards(x, a: Param):
    """A running sum of what is turned around is the running sum, turned around."""
    return rewrite(cumulative_sum(flip(x, axis=a), axis=a)).to(flip(cumulative_sum(x, axis=a), axis=a))


def _is_narrowly_stored(x: Any) -> bool:
    return bool(x.dtype == "float32")


@rule
def third_of_few_digits(x):
    """A third is written with few digits, so that narrow numbers are about what they were."""
    third = x / 3.0
    return rewrite(third).to(x * 0.333333).when(that(_is_narrowly_stored, x), same_aval(x, third)).up_to(ROUNDING)


def _is_long(x: Any) -> bool:
    return isinstance(x.aval.size, int) and x.aval.size > 3


@rule
def third_of_a_sum(x):
    """A third of a sum is written with few digits, and is as near as sums in another order are."""
    third = total(x) / 3.0
    rounded = rewrite(third).to(total(x) * 0.333333).up_to(REASSOCIATION)
    return rounded.when(that(_is_narrowly_stored, x), that(_is_long, x), same_dtype(x, third))
