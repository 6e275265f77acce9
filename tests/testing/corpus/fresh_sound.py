"""Fresh rules that are right, each condition of which is needed; written without a look at the test kit."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import numpy as np

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import (
    discrete,
    floating,
    of_kinds,
    real,
    same_aval,
    same_dtype,
    same_shape,
    that,
    used_once,
)
from nnc_func.graph.rules.pattern import Param, Scalar, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, integers, of_rank

SOUND = Corpus()
case = SOUND.case

bit_and, bit_or, bit_xor, invert = (OPS[f"bitwise_{n}"] for n in ("and", "or", "xor", "invert"))
shift_up, shift_down = OPS["bitwise_left_shift"], OPS["bitwise_right_shift"]
cast, absolute, sign, signbit, relu = (OPS[n] for n in ("cast", "abs", "sign", "signbit", "relu"))
isfinite, isnan, where, masked = (OPS[n] for n in ("isfinite", "isnan", "where", "masked"))
less, less_equal, greater = (OPS[n] for n in ("less", "less_equal", "greater"))
maximum, minimum, clip, pad = (OPS[n] for n in ("maximum", "minimum", "clip", "pad"))
total, argmax, any_, sort, flip = (OPS[n] for n in ("sum", "argmax", "any", "sort", "flip"))
slice_, broadcast_to, max_pool, conv2d = (OPS[n] for n in ("slice", "broadcast_to", "max_pool2d", "conv2d"))

X, Y = np.array([6, -3, 0, 127], "int8"), np.array([3, 7, 0, -128], "int8")
F, G = np.array([1.5, -0.0, np.nan, -np.inf], "float32"), np.array([-2.0, 3.0, 1.0, np.inf], "float32")
C, D = np.array([True, True, False, False]), np.array([True, False, True, False])
ROWS = np.array([[1, 2, 3], [4, 5, 6]])


def filled(like, value):
    """A fill of the shape and dtype of what it replaces."""
    return apply(OPS["full"], shape=shape_of(like), value=value, dtype=dtype_of(like))


# --- integers ------------------------------------------------------------------------------------------


@case("integers", x=X, y=Y)
@rule
def part_bits(x, y):
    """Bits of which one of "either" and "both" is true are those that exactly one number has."""
    return rewrite(bit_xor(bit_or(x, y), bit_and(x, y))).to(bit_xor(x, y))


@case("integers", x=X, y=Y)
@rule
def add_by_bits(x, y):
    """The bits that both have, and those that either has, add up to the sum."""
    return rewrite(bit_and(x, y) + bit_or(x, y)).to(x + y)


@case("integers", x=X, y=Y)
@rule
def join_parted_bits(x, y):
    """Bits within a mask, and those outside, are all; a mask that is as wide."""
    joined = bit_or(bit_and(x, y), bit_and(x, invert(y)))
    return rewrite(joined).to(x).when(same_dtype(x, y), same_shape(x, joined))


@computed
def _all_but_lowest(s, x):
    """The bits of a number of that dtype, but for some from below."""
    wide = 1 << 8 * x.dtype.itemsize if x.dtype.kind == "u" else 0
    return wide - (1 << s)


@case("integers", x=X, s=2)
@rule
def clear_lowest_bits(x, s: Scalar):
    """Bits that are moved down and up again are those that were not lost."""
    cleared = shift_up(shift_down(x, s), s)
    fewer = that(lambda s, x: 0 <= s < 8 * x.dtype.itemsize, s, x, says="s is fewer than the bits")
    return rewrite(cleared).to(bit_and(x, _all_but_lowest(s, x))).when(fewer, same_aval(x, cleared))


@computed
def _places(s):
    """Of which power of two it is."""
    return s.bit_length() - 1


@case("integers", x=X, s=4)
@rule
def divide_by_shift(x, s: Scalar):
    """An integer is divided by a power of two, rounded down, as its bits are moved."""
    quotient = OPS["floor_divide"](x, s)
    power = that(lambda s: isinstance(s, int) and s > 0 and s & (s - 1) == 0, s, says="s is a power of two")
    return rewrite(quotient).to(shift_down(x, _places(s))).when(power, integers(x), same_aval(x, quotient))


@case("integers", x=np.array([5, 250, 0], "uint8"), y=np.array([3, 255, 9], "uint8"))
@rule
def compare_with_own_bits(x, y):
    """Some of the bits of an unsigned number are not more than all."""
    asked = less_equal(bit_and(x, y), x)
    return rewrite(asked).to(filled(asked, True)).when(of_kinds(x, "u"))


@case("integers", c=C, a=0, k=False)
@rule
def count_truths(c, a: Param, k: Param):
    """Ones in place of truths add up to how many there are."""
    chosen = where(c, 1, 0)
    signed = that(lambda chosen: chosen.dtype.kind == "i", chosen, says="ones are signed integers")
    counted = rewrite(total(chosen, axis=a, keepdims=k)).to(total(c, axis=a, keepdims=k))
    return counted.when(signed, same_shape(c, chosen))


@case("integers", x=X)
@rule
def ask_rectified_for_truth(x):
    """A rectified integer is not zero where it was positive; NaN is not, and stays."""
    rectified = relu(x)
    return rewrite(cast(rectified, dtype="bool")).to(greater(x, 0)).when(discrete(x), used_once(rectified))


# --- casts ---------------------------------------------------------------------------------------------


@case("casts", x=np.array([2**31 - 1, -(2**31)], "int32"))
@rule
def drop_float_between(x):
    """A float of 64 bits has every integer of 32 bits."""
    between = cast(x, dtype="float64")
    return rewrite(cast(between, dtype="int64")).to(cast(x, dtype="int64")).when(integers(x, width=4))


@case("casts", x=np.array([2**31 - 2, 2**31 - 1], "int32"), d="float64", a=0, k=True)
@rule
def find_largest_before_widening(x, d: Param, a: Param, k: Param):
    """Integers of 32 bits keep their order, and stay different, as floats of 64 bits."""
    found = argmax(cast(x, dtype=d), axis=a, keepdims=k)
    double = that(lambda d: np.dtype(d).name == "float64", d, says="d is float64")
    return rewrite(found).to(argmax(x, axis=a, keepdims=k)).when(integers(x, width=4), double)


@case("casts", x=np.array([3 - 4j, 0, np.nan], "complex64"))
@rule
def ask_negated_for_truth(x):
    """A number is zero where its negative is, that of integers that wrap around too."""
    return rewrite(cast(-x, dtype="bool")).to(cast(x, dtype="bool"))


@case("casts", x=F, n=3, f=7)
@rule
def find_truths_in_numbers(x, n: Param, f: Param):
    """Numbers that are not zero stand where they are true."""
    find, truths = OPS["flatnonzero"], cast(x, dtype="bool")
    return rewrite(find(truths, size=n, fill=f)).to(find(x, size=n, fill=f)).when(used_once(truths))


# --- special values ------------------------------------------------------------------------------------


@case("special values", x=F)
@rule
def ask_magnitude_whether_finite(x):
    """The magnitude of a real number is finite where it is; that of a complex one may overflow."""
    return rewrite(isfinite(absolute(x))).to(isfinite(x)).when(real(x))


@case("special values", x=np.array([[1.0, np.nan], [2.0, 3.0]]), a=1, k=True)
@rule
def find_nan_before_running(x, a: Param, k: Param):
    """NaN is the largest so far from where it stands, so that there is one where there was one."""
    asked = isnan(OPS["cumulative_max"](x, axis=a))
    return rewrite(any_(asked, axis=a, keepdims=k)).to(any_(isnan(x), axis=a, keepdims=k)).when(used_once(asked))


@case("special values", x=F)
@rule
def read_sign_of_bits(x):
    """The highest bit of a float is its sign, of NaN and of zero too."""
    asked = less(OPS["bit_cast"](x, dtype="int32"), 0)
    return rewrite(asked).to(signbit(x)).when(floating(x), same_shape(x, asked))


@case("special values", x=F)
@rule
def read_sign_of_magnitude(x):
    """The magnitude of a float has no sign; that of the least integer has."""
    asked = signbit(absolute(x))
    return rewrite(asked).to(filled(asked, False)).when(floating(x))


@case("special values", x=F)
@rule
def cut_off_by_sign(x):
    """Rounded up below zero, and down elsewhere, is cut off, signed zeros too."""
    chosen = where(less(x, 0), OPS["ceil"](x), OPS["floor"](x))
    return rewrite(chosen).to(OPS["trunc"](x)).when(same_aval(x, chosen))


@case("special values", x=F)
@rule
def magnitude_by_sign(x):
    """A real number times its sign is its magnitude."""
    return rewrite(x * sign(x)).to(absolute(x)).when(real(x)).up_to(SIGNED_ZERO)


@case("special values", x=F)
@rule
def join_rectified_sides(x):
    """A float is what is above zero, less what is below; the least integer has no negative."""
    return rewrite(relu(x) - relu(-x)).to(x).when(floating(x)).up_to(SIGNED_ZERO)


@case("special values", x=F, y=G)
@rule
def add_larger_and_smaller(x, y):
    """The larger and the smaller of two numbers are both."""
    return rewrite(maximum(x, y) + minimum(x, y)).to(x + y).up_to(SIGNED_ZERO)


@case("special values", x=F, y=G)
@rule
def compare_larger_with_one(x, y):
    """The larger of two numbers is not below either; what is compared with NaN is not below, either."""
    asked = less(maximum(x, y), y)
    return rewrite(asked).to(filled(asked, False))


@case("special values", x=F, a=0.5, b=None)
@rule
def drop_rectifier_of_clip(x, a: Param, b: Param):
    """What is clipped between bounds that are not negative is not negative, even where the bounds cross."""
    clipped = clip(x, min=a, max=b)
    above = that(
        lambda a, b: a is not None and a >= 0 and (b is None or b >= 0), a, b, says="a is, and b is not below, zero"
    )
    return rewrite(relu(clipped)).to(clipped).when(above).up_to(SIGNED_ZERO)


@case("special values", c=C, x=F, y=G)
@rule
def choose_without_mask(c, x, y):
    """What a condition masks is not chosen by the same condition."""
    return rewrite(where(c, masked(x, c), y)).to(where(c, x, y))


@case("special values", y=F, g=G)
@rule
def drop_rectifier_before_its_gradient(y, g):
    """A number is positive where it is so once rectified."""
    gradient = OPS["relu_gradient"]
    return rewrite(gradient(relu(y), g)).to(gradient(y, g))


@case("special values", c=C, d=D, x=F, y=G, z=F[::-1].copy())
@rule
def drop_excluded_alternative(c, d, x, y, z):
    """Where neither of two conditions is true, a choice by the first of them is made already."""
    either, inner = OPS["logical_or"](c, d), where(c, z, y)
    return rewrite(where(either, x, inner)).to(where(either, x, y)).when(same_aval(y, inner))


@case("special values", x=F, y=G)
@rule
def read_imaginary_part(x, y):
    """The imaginary part of a number that is made of two parts is the second, bit by bit."""
    part = OPS["imag"](OPS["complex"](x, y))
    return rewrite(part).to(y).when(same_aval(y, part))


# --- rounding ------------------------------------------------------------------------------------------


@case("rounding", x=np.array([-3.0, 0.3, 20.0, np.inf, -np.inf, np.nan], "float32"))
@rule
def sigmoid_of_opposite(x):
    """What a sigmoid leaves of one is the sigmoid of the opposite, which keeps small numbers."""
    curve = OPS["sigmoid"](x)
    rest = 1 - curve
    return rewrite(rest).to(OPS["sigmoid"](-x)).when(same_aval(x, rest), used_once(curve)).up_to(ROUNDING)


@case("rounding", x=np.array([-3.0, 0.3, -0.0, np.inf, np.nan], "float32"))
@rule
def angle_beside_one(x):
    """The angle of a point beside one is the arc tangent of its height."""
    found = OPS["atan2"](x, 1)
    return rewrite(found).to(OPS["atan"](x)).when(same_aval(x, found)).up_to(ROUNDING)


# --- places --------------------------------------------------------------------------------------------


@case("places", x=np.array([1, 3, 3]), r=(2, 2))
@rule
def find_largest_in_first_copy(x, r: Param):
    """The first largest of copies of a vector stands in the first copy."""
    found = argmax(OPS["tile"](x, repetitions=r))
    flat = that(lambda x: len(x.shape) <= 1, x, says="x has one axis at most")
    return rewrite(found).to(argmax(x)).when(flat)


@case("places", x=np.array([[3.0, -0.0, np.nan]]), s=(2, 3), d=True)
@rule
def drop_sort_of_copies(x, s: Param, d: Param):
    """Copies of one element are in order."""
    copies = broadcast_to(x, shape=s)
    copied = that(
        lambda x, s: len(s) > len(x.shape) or x.shape[0] == 1, x, s, says="x is repeated along the first axis"
    )
    return rewrite(sort(copies, axis=0, descending=d)).to(copies).when(copied)


@computed
def _turned(w):
    """Borders from the other ends."""
    return tuple((b, a) for a, b in w)


@case("places", x=ROWS, w=((0, 1), (2, 0)), v=7)
@rule
def turn_round_within_border(x, w: Param, v: Param):
    """A tensor with a border is turned round within the border, which is turned round."""
    bordered = pad(x, widths=w, value=v)
    return rewrite(flip(bordered)).to(pad(flip(x), widths=_turned(w), value=v)).when(used_once(bordered))


@case("places", x=np.array([0.0, np.nan]), w=((2, 1),), v=0)
@rule
def find_truth_within_border(x, w: Param, v: Param):
    """A border of zeros has no truth in it."""
    zero = that(lambda v: v == 0, v, says="v is zero")
    return rewrite(any_(pad(x, widths=w, value=v))).to(any_(x)).when(zero)


def _shows_last(x, a, b, c) -> bool:
    n, *others = x.shape
    whole = all(s == (0, m, 1) for s, m in zip(zip(a[1:], b[1:], c[1:], strict=True), others, strict=True))
    return n > 0 and (a[0], b[0], c[0]) == (n - 1, n, 1) and whole


@case("places", x=ROWS, a=(1, 0), b=(2, 3), c=(1, 1))
@rule
def read_last_running_sum(x, a: Param, b: Param, c: Param):
    """The last of running sums of integers, which wrap around, is the sum."""
    running = OPS["cumulative_sum"](x, axis=0)
    last = that(_shows_last, x, a, b, c, says="all of the last row is shown")
    made = rewrite(slice_(running, starts=a, stops=b, steps=c)).to(total(x, axis=0, keepdims=True))
    return made.when(last, discrete(x), used_once(running))


@case("places", x=ROWS, i=np.array([1, -1]), u=ROWS, v=ROWS + 6, a=0)
@rule
def write_once(x, i, u, v, a: Param):
    """What is written to the same places again is not seen."""
    write = OPS["scatter_set"]
    return rewrite(write(write(x, i, u, axis=a), i, v, axis=a)).to(write(x, i, v, axis=a))


@case("places", x=np.array([3.0, np.nan, 1.0]), n=-2, a=0, k=True)
@rule
def count_to_element_before_flip(x, n: Param, a: Param, k: Param):
    """Which element is at a position of the order does not depend on where it stood."""
    found = OPS["kth_value"](flip(x, axis=a), k=n, axis=a, keepdims=k)
    return rewrite(found).to(OPS["kth_value"](x, k=n, axis=a, keepdims=k)).up_to(SIGNED_ZERO)


@computed
def _of_windows(w, u):
    """Windows of windows."""
    return tuple(a * b for a, b in zip(w, u, strict=True))


@case("places", x=np.arange(9.0, dtype="float32").reshape(1, 9, 1, 1), w=(2, 1), u=(2, 1))
@rule
def pool_largest_once(x, w: Param, u: Param):
    """The largest of the largest, in windows side by side, is that of a window as large as both."""
    inner = max_pool(x, window=w)
    made = rewrite(max_pool(inner, window=u)).to(max_pool(x, window=_of_windows(w, u)))
    return made.when(used_once(inner)).up_to(SIGNED_ZERO)


@case("places", x=ROWS.reshape(1, 2, 3, 1), w=np.array([1, 7]).reshape(2, 1, 1, 1))
@rule
def convolve_then_turn(x, w):
    """Images and kernels that are both turned round give, in steps of one, what they give otherwise, turned round."""
    turned = conv2d(flip(x, axis=(1, 2)), flip(w, axis=(0, 1)))
    return rewrite(turned).to(flip(conv2d(x, w), axis=(1, 2))).when(discrete(turned))


@case("places", a=np.float32(ROWS) / 7, b=np.float32(ROWS.T) / 9)
@rule
def contract_matrices(a, b):
    """A contraction of the columns of one matrix with the rows of another is their product."""
    contracted = OPS["tensordot"](a, b, axes=((1,), (0,)))
    return rewrite(contracted).to(a @ b).when(of_rank(2, a, b)).up_to(REASSOCIATION)


@case("places", x=ROWS, s=(3, 4), o=1)
@rule
def read_diagonal_back(x, s: Param, o: Param):
    """The diagonal on which a vector was put is that vector."""
    return rewrite(OPS["diagonal"](OPS["diagonal_matrix"](x, shape=s, offset=o), offset=o)).to(x)


@case("places", a=np.array([[2.0, 0.0], [3.0, 4.0]]), b=np.array([[1.0], [7.0]]), l=True, t=False)
@rule
def solve_without_signs(a, b, l: Param, t: Param):  # noqa: E741 - it stands for `lower`
    """Equations that are negated on both sides have the same solution; integers wrap around."""
    solve = OPS["solve_triangular"]
    made = rewrite(solve(-a, -b, lower=l, transpose=t)).to(solve(a, b, lower=l, transpose=t))
    return made.when(of_kinds(a, "fc"), of_kinds(b, "fc")).up_to(SIGNED_ZERO)


CASES = tuple(SOUND.cases)
