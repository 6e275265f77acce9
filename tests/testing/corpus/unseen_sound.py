"""Rules written without a look at the kit, and judged as they came: they are right with the conditions that they have.

Their subjects: integers and their bits, signs, choices, order, axes and shapes, padding, windows, matrices, casts,
rounding, complex numbers, indices, and draws. The comment above a rule says why it is right.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.conditions import (
    alike,
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
from nnc_func.graph.rules.pattern import Param, Scalar, apply, computed
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, number

SOUND = Corpus()
case = SOUND.case

o = SimpleNamespace(**dict(CATALOGUE.items()))


# a sign is zero of zero only, and NaN of NaN
@case("signs", x=np.array([[0, -0.0, 0], [0, np.nan, -2.5]], "float32"), a=-1, k=True)
@rule
def any_sign(x, a: Param, k: Param):
    """Signs are true where numbers are."""
    return rewrite(o.any(o.sign(x), axis=a, keepdims=k)).to(o.any(x, axis=a, keepdims=k))


# erf is that difference, without its cancellation near zero
@case("rounding", x=np.array([0.001, 5, -5, np.inf, -np.inf, np.nan], "float32"))
@rule
def rest_of_erfc(x):
    """What the complement lacks of one has an operator."""
    rest = o.erfc(x)
    difference = 1 - rest
    return rewrite(difference).to(o.erf(x)).when(same_aval(rest, difference), used_once(rest)).up_to(ROUNDING)


# sums of integers and of truth values do not depend on the order; of floats they do
@case("order", x=np.array([[1, 1, 100, 100, 126], [100, -1, 0, 2, 0]], "int8"), a=1, d=True, k=True)
@rule
def sum_of_sorted(x, a: Param, d: Param, k: Param):
    """What is summed need not be sorted."""
    before = o.sum(o.sort(x, axis=a, descending=d), axis=a, keepdims=k)
    return rewrite(before).to(o.sum(x, axis=a, keepdims=k)).when(discrete(x))


# modulo 2**n, where the result has the dtype of y; floats are rounded, or infinite
@case("integers", x=np.array([100, 126, 3, -128, 1], "int8"), y=np.array([-1, -2, 0, 100, 127], "int8"))
@rule
def subtract_difference(x, y):
    """What is left when the difference is subtracted is the other number."""
    left = x - (x - y)
    return rewrite(left).to(y).when(discrete(y), same_aval(y, left))


# where they are equal either may be chosen, and NaN equals nothing
@case(
    "choices",
    x=np.array([1, 0, 10, -2.5, 0.25, np.inf, -np.inf, np.nan, -1.5], "float32"),
    y=np.array([-1.5, -6, 10, 2, np.inf, 1, np.nan, -2.5, 0.5], "float32"),
)
@rule
def choice_of_equals(x, y):
    """One number, where it equals another one that is chosen elsewhere, is that."""
    choice = o.where(o.equal(x, y), x, y)
    return rewrite(choice).to(y).when(same_aval(y, choice)).up_to(SIGNED_ZERO)


# one of both is not negative; unsigned integers wrap around
@case("signs", x=np.array([-2.5, np.inf, 3, -np.inf, -1.5, 2, np.nan, 0.5, 1], "float32"))
@rule
def larger_of_signs(x):
    """The larger of a number and its negative is the magnitude."""
    return rewrite(o.maximum(x, -x)).to(abs(x)).when(floating(x)).up_to(SIGNED_ZERO)


# negation turns the order of floats round and keeps NaN; unsigned integers wrap around
@case("axes", x=np.array([[3, -0.0, 0, 0.5], [10, np.nan, 0.25, -1.5]], "float32"), a=-1, k=True)
@rule
def least_in_the_mirror(x, a: Param, k: Param):
    """The least in the mirror is the largest."""
    least = o.min(-x, axis=a, keepdims=k)
    conditions = floating(x), used_once(least)
    return rewrite(-least).to(o.max(x, axis=a, keepdims=k)).when(*conditions).up_to(SIGNED_ZERO)


# relu keeps the order and NaN
@case("axes", x=np.array([[-np.inf, 2, np.nan, -2.5], [3, 0.25, 0.5, -0.0]], "float32"), a=-1, k=True)
@rule
def largest_rectified(x, a: Param, k: Param):
    """The largest is found before it is rectified."""
    rectified = o.relu(x)
    after = o.relu(o.max(x, axis=a, keepdims=k))
    return rewrite(o.max(rectified, axis=a, keepdims=k)).to(after).when(used_once(rectified)).up_to(SIGNED_ZERO)


# the exponential keeps the order, NaN and infinity
@case("axes", x=np.array([[3, np.inf, 0.25, -1.5], [1, 0.5, -np.inf, -2.5]], "float32"), a=-1, k=True)
@rule
def largest_exponential(x, a: Param, k: Param):
    """The largest exponential is that of the largest number."""
    powers = o.exp(x)
    after = o.exp(o.max(x, axis=a, keepdims=k))
    conditions = of_kinds(x, "iuf"), used_once(powers)
    return rewrite(o.max(powers, axis=a, keepdims=k)).to(after).when(*conditions).up_to(ROUNDING)


# rounded products with one positive finite number keep the order; zero and infinity make NaN
@case("parameters", x=np.array([[10, -1.5, np.nan, -np.inf], [np.inf, 0, -0.0, -2.5]], "float32"), c=0.3, a=-1, k=True)
@rule
def least_of_positive_multiples(x, c: Scalar, a: Param, k: Param):
    """A positive factor can wait until the least is found."""
    scaled = x * c
    after = o.min(x, axis=a, keepdims=k) * number(c)
    conditions = floating(x), same_aval(x, scaled), that(lambda c: 0 < c < np.inf, c), used_once(scaled)
    return rewrite(o.min(scaled, axis=a, keepdims=k)).to(after).when(*conditions).up_to(SIGNED_ZERO)


# a sum of two is one sum; of small integers the dtype would be another
@case("shapes", x=np.array([-6, 2, 10, 0.5, -2.5], "float32"), y=np.array([0.5, 0, -np.inf, np.inf, 2], "float32"))
@rule
def sum_of_stacked(x, y):
    """A sum of two that lie upon each other is their sum."""
    stacked = o.stack(x, y, axis=0)
    total = o.sum(stacked, axis=0)
    return rewrite(total).to(x + y).when(same_dtype(stacked, total)).up_to(SIGNED_ZERO)


# the larger of two, NaN if either is
@case("shapes", x=np.array([0, np.inf, -0.0, -6, 0.25], "float32"), y=np.array([2, -0.0, 1, 0, -np.inf], "float64"))
@rule
def largest_of_stacked(x, y):
    """The largest of two that lie upon each other is the larger."""
    return rewrite(o.max(o.stack(x, y, axis=0), axis=0)).to(o.maximum(x, y)).up_to(SIGNED_ZERO)


@computed
def extent_of(x):
    """The extent of a vector."""
    return x.shape[0]


# what is sorted stays, equal elements and NaN too; only of vectors it has the same shape
@case("order", x=np.array([0.5, 0, -2.5, np.inf, np.nan, 2, -np.inf], "float32"))
@rule
def order_of_sorted(x):
    """The order of what is sorted is that of positions."""
    positions = apply(o.arange, start=0, stop=extent_of(x))
    vector = that(lambda x: len(x.shape) == 1, x, says="x is a vector")
    return rewrite(o.argsort(o.sort(x, axis=0), axis=0)).to(positions).when(vector)


# integers of one dtype are multiplied modulo 2**n in any order, where indices repeat as well
@case(
    "indices",
    x=np.array([100, 2, 127, -1], "int8"),
    i=np.array([1, 1, -1], "int64"),
    u=np.array([126, 100, -128], "int8"),
    v=np.array([-128, 2, 127], "int8"),
    a=0,
)
@rule
def multiply_twice(x, i, u, v, a: Param):
    """Two factors at the same indices are one."""
    first = o.scatter_multiply(x, i, u, axis=a)
    after = o.scatter_multiply(x, i, u * v, axis=a)
    conditions = alike(x, u, v, kinds="iu"), used_once(first)
    return rewrite(o.scatter_multiply(first, i, v, axis=a)).to(after).when(*conditions)


# zero and one exist in every dtype
@case("casts", i=np.array([0, 5, -1], "int64"), d=3, t="float32", u="int8")
@rule
def one_hot_in(i, d: Param, t: Param, u: Param):
    """Ones and zeros are made in the dtype that they get."""
    return rewrite(o.cast(o.one_hot(i, depth=d, dtype=t), dtype=u)).to(o.one_hot(i, depth=d, dtype=u))


@computed
def both_widths(v, w):
    """What is put around in all."""
    return tuple((a + c, b + d) for (a, b), (c, d) in zip(v, w, strict=True))


# both borders have one value
@case("padding", x=np.array([[-2.5, 0, -1.5], [2, -6, np.nan]], "float32"), v=((1, 0), (0, 2)), w=((0, 2), (1, 1)), p=3)
@rule
def pad_twice(x, v: Param, w: Param, p: Param):
    """Two borders of one value are one."""
    twice = o.pad(o.pad(x, widths=v, value=p), widths=w, value=p)
    return rewrite(twice).to(o.pad(x, widths=both_widths(v, w), value=p))


@computed
def turned(widths):
    """What was put before is put behind."""
    return tuple((after, before) for before, after in widths)


# in the mirror, what is put before comes behind
@case("padding", x=np.array([[-0.0, -6, 0.25], [0, -np.inf, -2.5]], "float32"), w=((1, 0), (0, 2)), p=3)
@rule
def pad_in_the_mirror(x, w: Param, p: Param):
    """Between two mirrors the border is put on the other side."""
    padded = o.pad(o.flip(x), widths=w, value=p)
    return rewrite(o.flip(padded)).to(o.pad(x, widths=turned(w), value=p)).when(used_once(padded))


# all axes are reversed, in whichever order they come
@case("axes", x=np.array([[10, 2, np.nan], [0, -2.5, -0.0]], "float32"))
@rule
def flip_of_transposed(x):
    """Between two transpositions all elements are reversed as well."""
    return rewrite(o.permute_dims(o.flip(o.permute_dims(x)))).to(o.flip(x))


# of matrices that is what transposition does; of more axes batches would become columns
@case(
    "matrices",
    x=np.array([[-1.25, 0.75], [-0.5, 0], [-2, 1.5]], "float32"),
    y=np.array([[-0.5, -2, 1.25], [2, -1.75, 1], [1.25, -1.25, 2], [-1.75, 1.5, -0.25]], "float32"),
)
@rule
def product_of_transposed(x, y):
    """The transposed product of transposed matrices is their product in the other order."""
    matrices = that(lambda x, y: len(x.shape) == len(y.shape) == 2, x, y)
    product = o.permute_dims(x) @ o.permute_dims(y)
    return rewrite(o.permute_dims(product)).to(y @ x).when(matrices, used_once(product)).up_to(REASSOCIATION)


# two axes change places in matrices only, and the product can transpose its factors
@case(
    "matrices",
    a=np.array([[-0.75, -2], [-1, -2], [-1.5, -0.25]], "float32"),
    b=np.array([[0.75, 1.25, -2, -1.25], [-0.5, -2, 2, 1.25]], "float32"),
)
@rule
def transposed_product(a, b):
    """A product is transposed by what it does with its factors."""
    product = a @ b
    after = o.matmul(b, a, transpose_a=True, transpose_b=True)
    return rewrite(o.permute_dims(product, axes=(1, 0))).to(after).when(used_once(product)).up_to(REASSOCIATION)


# in steps of one, without padding, every window has its mirror image
@case(
    "windows",
    x=(np.arange(40) % 7 - 3.5).reshape(1, 4, 5, 2).astype("float32"),
    w=(np.arange(24) % 7 - 3.5).reshape(2, 3, 2, 2).astype("float32"),
    d=(1, 1),
    g=1,
)
@rule
def convolve_in_the_mirror(x, w, d: Param, g: Param):
    """A convolution in the mirror is a convolution."""
    mirrored = o.conv2d(o.flip(x, axis=(1, 2)), o.flip(w, axis=(0, 1)), dilation=d, groups=g)
    after = o.conv2d(x, w, dilation=d, groups=g)
    return rewrite(o.flip(mirrored, axis=(1, 2))).to(after).when(used_once(mirrored)).up_to(REASSOCIATION)


# in steps of one, without padding, every window has its mirror image
@case("windows", x=(np.arange(40) % 7 - 3.5).reshape(1, 4, 5, 2).astype("float32"), k=(2, 3))
@rule
def pool_in_the_mirror(x, k: Param):
    """The largest in the mirror is the largest."""
    mirrored = o.max_pool2d(o.flip(x, axis=(1, 2)), window=k, stride=(1, 1))
    after = o.max_pool2d(x, window=k, stride=(1, 1))
    return rewrite(o.flip(mirrored, axis=(1, 2))).to(after).when(used_once(mirrored)).up_to(SIGNED_ZERO)


# the axis that is kept has extent 1, and is where it was
@case("axes", x=np.array([[1, 3, -2.5, -1.5], [-np.inf, -6, 2, 10]], "float32"), a=-1)
@rule
def squeezed_position(x, a: Param):
    """An axis that is dropped need not be kept."""
    kept = o.argmin(x, axis=a, keepdims=True)
    return rewrite(o.squeeze(kept, axis=a)).to(o.argmin(x, axis=a)).when(used_once(kept))


# windows do not overlap, and what is left over at the end is left over in both
@case("windows", x=(np.arange(72) % 7 - 3.5).reshape(1, 4, 9, 2).astype("float32"))
@rule
def pool_of_pooled(x):
    """Two of two are four, in steps of as many."""
    once = o.max_pool2d(x, window=(2, 2), stride=(2, 2))
    twice = o.max_pool2d(once, window=(2, 2), stride=(2, 2))
    after = o.max_pool2d(x, window=(4, 4), stride=(4, 4))
    return rewrite(twice).to(after).when(used_once(once)).up_to(SIGNED_ZERO)


# the last running maximum is the largest
@case("axes", x=np.array([[1, 10, 2, -np.inf], [-1.5, 3, -0.0, np.nan]], "float32"), a=-1, k=True)
@rule
def largest_so_far(x, a: Param, k: Param):
    """The largest of running maxima is the largest."""
    largest = o.max(o.cumulative_max(x, axis=a), axis=a, keepdims=k)
    return rewrite(largest).to(o.max(x, axis=a, keepdims=k)).up_to(SIGNED_ZERO)


# running sums of booleans and of small signed integers are made in int64
@case("casts", x=np.array([[100, 0, 2, 126], [127, 1, -1, 3]], "int8"), a=-1)
@rule
def running_sum_of_widened(x, a: Param):
    """Small integers need not be widened before they are summed."""
    widened = o.cumulative_sum(o.cast(x, dtype="int64"), axis=a)
    return rewrite(widened).to(o.cumulative_sum(x, axis=a)).when(of_kinds(x, "bi"))


# De Morgan
@case("choices", x=np.array([[False, False, False, False], [False, True, True, True]]), a=-1, k=True)
@rule
def none_is_false(x, a: Param, k: Param):
    """All are true where none is false."""
    some = o.any(o.logical_not(x), axis=a, keepdims=k)
    return rewrite(o.logical_not(some)).to(o.all(x, axis=a, keepdims=k)).when(used_once(some))


# in one dtype both have as many bits, which differ where their opposites do
@case(
    "integers",
    x=np.array([254, 3, 2, 2, 255, 2, 255, 0, 255], "uint8"),
    y=np.array([2, 1, 2, 0, 255, 255, 254, 100, 100], "uint8"),
)
@rule
def both_inverted(x, y):
    """Inverted bits differ where bits do."""
    inverted = o.bitwise_xor(o.bitwise_invert(x), o.bitwise_invert(y))
    return rewrite(inverted).to(o.bitwise_xor(x, y)).when(same_dtype(x, y))


# a sum is the bits that differ and twice the carries; all in the promoted dtype
@case(
    "integers",
    x=np.array([100, 2, 0, 254, 255, 0, 254, 254, 3], "uint8"),
    y=np.array([2, 1, 100, 3, 126, 0, -2, -2, 127], "int8"),
)
@rule
def without_carries(x, y):
    """A sum without its carries is what differs."""
    carries = o.bitwise_and(x, y)
    rest = x + y - 2 * carries
    return rewrite(rest).to(o.bitwise_xor(x, y)).when(same_aval(carries, rest))


# a sum is the bits that differ and twice the carries; of booleans there is none
@case(
    "integers",
    x=np.array([2, 2, 100, 100, 0, 0, 3, 2, 255], "uint8"),
    y=np.array([2, 127, -128, 3, 0, -3, 1, 126, -128], "int8"),
)
@rule
def with_carries(x, y):
    """What differs and the carries are a sum."""
    carries = o.bitwise_and(x, y)
    total = o.bitwise_xor(x, y) + 2 * carries
    return rewrite(total).to(x + y).when(same_aval(carries, total))


# rounding to even is the same on both sides of zero
@case("rounding", x=np.array([-1.5, np.inf, 10, -2.5, 0.5, -6, -0.0, 0.25, -np.inf], "float32"))
@rule
def round_in_the_mirror(x):
    """Rounding in the mirror is rounding."""
    return rewrite(-o.round(-x)).to(o.round(x))


# that is what finite means, of both parts
@case("not a number", x=np.array([0.25, -0.0, 3, -np.inf, -6, -1.5, 0, 1, np.nan], "float32"))
@rule
def neither_nan_nor_infinite(x):
    """Neither NaN nor infinite is finite."""
    return rewrite(o.logical_not(o.logical_or(o.isnan(x), o.isinf(x)))).to(o.isfinite(x))


# infinities alone have an infinite magnitude; that of a finite complex number may overflow
@case("not a number", x=np.array([-0.0, 2, 10, 1, np.inf, -2.5, -np.inf, 0.5, 3], "float32"))
@rule
def infinite_magnitude(x):
    """What has an infinite magnitude is infinite."""
    infinite = o.equal(abs(x), np.inf)
    return rewrite(infinite).to(o.isinf(x)).when(real(x), same_shape(x, infinite))


# the magnitude of a complex number is the length of the point, without overflow
@case(
    "complex",
    x=np.array([3, 0.25, -6, -1.5, 0, np.inf, -np.inf, 2, 1], "float32"),
    y=np.array([-6, 10, 0.25, -np.inf, -1.5, -2.5, np.inf, 3, 2], "float32"),
)
@rule
def length_of_number(x, y):
    """A magnitude of two parts is their length."""
    point = o.complex(x, y)
    length = abs(point)
    return rewrite(length).to(o.hypot(x, y)).when(same_dtype(x, length), used_once(point)).up_to(ROUNDING)


# the angle of a complex number is that of the point, also of zeros
@case(
    "complex",
    x=np.array([-2.5, 10, 0, -0.0, np.nan, -6, 0.25, 3, -1.5], "float32"),
    y=np.array([10, -1.5, 0.25, np.nan, 0.5, -6, 1, 0, np.inf], "float32"),
)
@rule
def angle_of_number(x, y):
    """An angle of two parts is theirs."""
    angle = o.angle(o.complex(x, y))
    return rewrite(angle).to(o.atan2(y, x)).when(same_dtype(x, angle)).up_to(ROUNDING)


# words come from a stream, of which fewer are the beginning
@case("draws", k=np.array([3, 4], "uint64"), s=(1000,), m=(7,))
@rule
def first_words(k, s: Param, m: Param):
    """Fewer random words are drawn, where only the first are used."""
    words = o.random_bits(k, shape=s)
    first = o.slice(words, starts=(0,), stops=m, steps=(1,))
    return rewrite(first).to(o.random_bits(k, shape=m)).when(used_once(words))


# at each place one of both is zero
@case(
    "choices",
    x=np.array([-np.inf, np.inf, -1.5, 10, 0], "float32"),
    y=np.array([-np.inf, 0, -1.5, -6, 2], "float64"),
    c=np.array([False, False, False, True, False]),
)
@rule
def choice_of_masks(x, y, c):
    """Two opposite masks are a choice."""
    masks = o.masked(x, o.logical_not(c)) + o.masked(y, c)
    return rewrite(masks).to(o.where(c, y, x)).up_to(SIGNED_ZERO)


# a factor of one keeps, and of zero gives zero, whatever x is; masks are booleans
@case(
    "choices",
    x=np.array([np.nan, 1, 2, -2.5, -0.0], "float32"),
    c=np.array([False, False, True, False, False]),
    t="float32",
)
@rule
def masked_product(x, c, t: Param):
    """A product with a truth value, without NaN, is a mask."""
    product = o.multiply_no_nan(x, o.cast(c, dtype=t))
    return rewrite(product).to(o.masked(x, c)).when(of_kinds(c, "b"), real(x), same_dtype(x, product))


@computed
def times(a, b):
    """How often in all; the shorter one gets ones in front."""
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    return tuple(i * j for i, j in zip(a, b, strict=True))


# copies of copies are copies, axis by axis
@case("shapes", x=np.array([[-1.5, -np.inf, 10], [-0.0, 0, 0.5]], "float32"), a=(2, 1), b=(3,))
@rule
def tile_twice(x, a: Param, b: Param):
    """Copies of copies are copies."""
    return rewrite(o.tile(o.tile(x, repetitions=a), repetitions=b)).to(o.tile(x, repetitions=times(a, b)))


# axes count in the result, where those that were lost are put back
@case("axes", x=np.array([[np.nan, -6, 10], [-2.5, 0.5, -0.0]], "float32"), a=-1)
@rule
def keep_axes(x, a: Param):
    """An axis that is put back after a product is kept."""
    product = o.prod(x, axis=a)
    kept = o.prod(x, axis=a, keepdims=True)
    named = that(lambda a: a is not None, a, says="a is told")
    return rewrite(o.expand_dims(product, axis=a)).to(kept).when(named, used_once(product))


CASES = tuple(SOUND.cases)
