"""Rules written without a look at the kit, and judged as they came: they look right and are wrong, each for one reason.

Their subjects are what a rewrite forgets: overflow, NaN, the sign of zero, branches of functions, rounding, dtypes and
casts, axes and shapes, windows, indices, and draws. The comment above a rule says on which inputs it is wrong.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.conditions import alike, broadcasts, floating, real, same_aval, same_dtype, same_shape, that
from nnc_func.graph.rules.pattern import Param, Scalar, computed
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, number

UNSOUND = Corpus()
case = UNSOUND.case

o = SimpleNamespace(**dict(CATALOGUE.items()))


# finite numbers whose product overflows
@case("overflow", x=np.array(1e30, "float32"), y=np.array(1e30, "float32"))
@rule
def both_finite(x, y):
    """A product is finite where its factors are."""
    both = o.logical_and(o.isfinite(x), o.isfinite(y))
    return rewrite(both).to(o.isfinite(x * y)).when(alike(x, y, kinds="f"), same_shape(x, y))


# indices out of range, and negative ones: their rows are zero, and the first position is found
@case("indices", i=np.array([0, 5, -1], "int64"), d=3, t="float32")
@rule
def position_of_one(i, d: Param, t: Param):
    """The one stands where the index says."""
    position = o.argmax(o.one_hot(i, depth=d, dtype=t), axis=-1)
    return rewrite(position).to(i).when(same_dtype(i, position))


# repeated indices: the last update is read for each of them
@case("indices", x=np.array([0, 0, 0], "float32"), i=np.array([1, 1], "int64"), u=np.array([5, 6], "float32"))
@rule
def read_after_write(x, i, u):
    """What was written at indices is read there."""
    read = o.take(o.scatter_set(x, i, u), i)
    return rewrite(read).to(u).when(same_aval(u, read))


# y is NaN, and so is the left side
@case("not a number", x=np.array(1, "float32"), y=np.array(np.nan, "float32"))
@rule
def absorbed(x, y):
    """What is at least x and at most x is x."""
    between = o.maximum(x, o.minimum(x, y))
    return rewrite(between).to(x).when(same_aval(x, between)).up_to(SIGNED_ZERO)


# y is zero, whose sign as a number is 0 and as a bit is plus
@case("signed zero", x=np.array(3, "float32"), y=np.array(0, "float32"))
@rule
def sign_times_magnitude(x, y):
    """A sign times a magnitude is a magnitude with a sign."""
    return rewrite(o.sign(y) * abs(x)).to(o.copysign(x, y)).when(alike(x, y, kinds="f")).up_to(SIGNED_ZERO)


# negative numbers: cosh is even, so they come back positive
@case("branches", x=np.array(-2, "float32"))
@rule
def undo_cosh(x):
    """The inverse hyperbolic cosine undoes the hyperbolic cosine."""
    back = o.acosh(o.cosh(x))
    return rewrite(back).to(x).when(same_dtype(x, back)).up_to(ROUNDING)


# two negative numbers: NaN becomes log 3
@case("branches", x=np.array(-6, "float32"), y=np.array(-2, "float32"))
@rule
def difference_of_logarithms(x, y):
    """A difference of logarithms is the logarithm of the quotient."""
    return rewrite(o.log(x) - o.log(y)).to(o.log(x / y)).when(alike(x, y, kinds="f")).up_to(ROUNDING)


# a second step that leaves out elements which the first write has changed
@case(
    "slices",
    x=np.array([1, 2, 3, 4], "float32"),
    v=np.array(7, "float32"),
    w=np.array(9, "float32"),
    s=(0,),
    e=(4,),
    t=(1,),
    u=(2,),
)
@rule
def write_over(x, v, w, s: Param, e: Param, t: Param, u: Param):
    """A part from one start to one stop is written once."""
    first = o.set_slice(x, v, starts=s, stops=e, steps=t)
    second = o.set_slice(first, w, starts=s, stops=e, steps=u)
    return rewrite(second).to(o.set_slice(x, w, starts=s, stops=e, steps=u))


# neighbours, whose rounded squares cancel
@case("rounding", x=np.array(1.0001, "float32"), y=np.array(1, "float32"))
@rule
def c_difference_of_squares(x, y):
    """The product of difference and sum is the difference of squares."""
    product = (x - y) * (x + y)
    squares = o.square(x) - o.square(y)
    return rewrite(product).to(squares).when(alike(x, y, kinds="f")).up_to(ROUNDING)


# negative x: atan gives -pi / 4, the angle of the point is 3 pi / 4
@case("branches", x=np.array(-1, "float32"), y=np.array(1, "float32"))
@rule
def angle_of_ratio(x, y):
    """The angle of a ratio is that of a point."""
    return rewrite(o.atan(y / x)).to(o.atan2(y, x)).when(alike(x, y, kinds="f")).up_to(ROUNDING)


# an unsigned a beside wider operands: its negative is 255
@case("dtypes", a=np.array(1, "uint8"), b=np.array(1, "int32"), c=np.array(0, "int32"))
@rule
def fused_negative(a, b, c):
    """A negative factor is subtracted."""
    return rewrite(o.fma(-a, b, c)).to(c - a * b).when(same_dtype(b, c)).up_to(ROUNDING)


# an infinite or NaN factor where the mask hides x: zero times infinity is NaN
@case("not a number", x=np.array(1, "float32"), y=np.array(np.inf, "float32"), c=np.array(False))
@rule
def mask_later(x, y, c):
    """A mask can wait until after the product."""
    return rewrite(o.masked(x, c) * y).to(o.masked(x * y, c)).when(same_shape(x, y))


# real numbers, whose imaginary part is 0 on the left, and -0 on the right
@case("signed zero", x=np.array(1, "float32"))
@rule
def imaginary_conjugate(x):
    """The conjugate has the opposite imaginary part."""
    return rewrite(o.imag(o.conj(x))).to(-o.imag(x))


# negative numbers, of which there is no logarithm; and a difference that cancels near 1 and 0
@case("branches", x=np.array(-0.5, "float32"))
@rule
def lgamma_step(x):
    """Gamma of the next number is the number times gamma."""
    following = o.lgamma(x + 1)
    return rewrite(following).to(o.lgamma(x) + o.log(x)).when(same_aval(x, following)).up_to(ROUNDING)


# base zero and exponents of two signs: 0 times infinity is NaN, 0 to the power 0 is 1
@case("branches", x=np.array(0, "float32"), y=np.array(1, "float32"), z=np.array(-1, "float32"))
@rule
def product_of_powers(x, y, z):
    """Exponents are added."""
    product = o.power(x, y) * o.power(x, z)
    return rewrite(product).to(o.power(x, y + z)).when(alike(x, y, z, kinds="f")).up_to(ROUNDING)


# integers whose product wraps around: 144 is -112, of magnitude 112, not -112
@case("integers", x=np.array(16, "int8"), y=np.array(9, "int8"))
@rule
def magnitude_of_product(x, y):
    """Magnitudes are multiplied."""
    return rewrite(abs(x * y)).to(abs(x) * abs(y)).when(same_dtype(x, y), real(x))


# infinities of both signs, and sums that overflow both ways
@case("not a number", x=np.array([np.inf, -np.inf], "float32"))
@rule
def any_nan(x):
    """NaN spreads to the sum."""
    return rewrite(o.any(o.isnan(x))).to(o.isnan(o.sum(x)))


@computed
def quotient(a, c):
    """A bound before the factor."""
    return a / c


# negative factors, which turn the bounds round: they cross
@case("parameters", x=np.array(1, "float32"), c=-2.0, a=-1.0, b=3.0)
@rule
def clip_of_scaled(x, c: Scalar, a: Param, b: Param):
    """Bounds are divided by the factor."""
    usual = that(lambda c, a, b: c != 0 and None not in (a, b), c, a, b)
    scaled = o.clip(x * c, min=a, max=b)
    after = o.clip(x, min=quotient(a, c), max=quotient(b, c)) * c
    return rewrite(scaled).to(after).when(floating(x), usual).up_to(ROUNDING)


# c = 0 beside an infinity that is not what is found: the smallest of 0 and NaN is NaN
@case("parameters", x=np.array([1, np.inf], "float32"), c=0.0, a=0, k=False)
@rule
def least_of_scaled(x, c: Scalar, a: Param, k: Param):
    """A factor that is not negative keeps the order."""
    multiple = x * c
    scaled = o.min(multiple, axis=a, keepdims=k)
    after = o.min(x, axis=a, keepdims=k) * number(c)
    conditions = floating(x), same_aval(x, multiple), that(lambda c: 0 <= c < np.inf, c)
    return rewrite(scaled).to(after).when(*conditions).up_to(SIGNED_ZERO)


# large numbers, of which the sigmoid is 1: the first of them is found
@case("rounding", x=np.array([50, 100], "float32"), a=0, k=False)
@rule
def most_probable(x, a: Param, k: Param):
    """The sigmoid keeps the order."""
    return rewrite(o.argmax(o.sigmoid(x), axis=a, keepdims=k)).to(o.argmax(x, axis=a, keepdims=k))


# integers above 2**24 and float64, which become equal
@case("casts", x=np.array([16777216, 16777217], "int32"), k=1, a=0, b=True)
@rule
def best_in_single(x, k: Param, a: Param, b: Param):
    """A narrower dtype keeps the order."""
    before = o.argtop_k(o.cast(x, dtype="float32"), k=k, axis=a, largest=b)
    return rewrite(before).to(o.argtop_k(x, k=k, axis=a, largest=b)).when(real(x))


# products that underflow or wrap around to zero or to another sign
@case("overflow", x=np.array(1e-30, "float32"), y=np.array(1e-30, "float32"))
@rule
def sign_of_product(x, y):
    """Signs are multiplied."""
    return rewrite(o.sign(x * y)).to(o.sign(x) * o.sign(y)).when(alike(x, y, kinds="if")).up_to(SIGNED_ZERO)


# negative y, than which no root is smaller, though its square may be large
@case("branches", x=np.array(1, "float32"), y=np.array(-2, "float32"))
@rule
def root_is_less(x, y):
    """Both sides of a comparison are squared."""
    return rewrite(o.less(o.sqrt(x), y)).to(o.less(x, o.square(y))).when(alike(x, y, kinds="f")).up_to(ROUNDING)


# matrices without a saddle point: the least column maximum is above the largest row minimum
@case("axes", x=np.array([[0, 1], [1, 0]], "float32"))
@rule
def minimax(x):
    """The least of the largest is the largest of the least."""
    return rewrite(o.min(o.max(x, axis=0), axis=0)).to(o.max(o.min(x, axis=1), axis=0)).up_to(SIGNED_ZERO)


# tensors of different extents, whose means do not weigh the same
@case("shapes", x=np.array([1], "float32"), y=np.array([2, 3, 4], "float32"))
@rule
def mean_of_joined(x, y):
    """The mean of two parts is that of their means."""
    joined = o.mean(o.concat(x, y, axis=0))
    return rewrite(joined).to((o.mean(x) + o.mean(y)) * 0.5).when(alike(x, y, kinds="f")).up_to(REASSOCIATION)


# y is NaN, which counts as the largest, and is not larger
@case("not a number", x=np.array(1, "float32"), y=np.array(np.nan, "float32"))
@rule
def which_is_larger(x, y):
    """The second of two is the largest where the first is less."""
    there = o.argmax(o.stack(x, y, axis=0), axis=0)
    return rewrite(there).to(o.cast(o.less(x, y), dtype="int64")).when(same_dtype(x, y))


# parts of different dtypes: x + z wraps in int8, where each was a float32 before the sum
@case(
    "dtypes",
    x=np.array([100], "int8"),
    y=np.array([1], "float32"),
    z=np.array([100], "int8"),
    w=np.array([2], "float32"),
)
@rule
def sum_of_joined(x, y, z, w):
    """Joined tensors are added part by part."""
    both = o.concat(x, y, axis=0) + o.concat(z, w, axis=0)
    after = o.concat(x + z, y + w, axis=0)
    alike_in_pairs = alike(x, z, kinds="iuf"), alike(y, w, kinds="iuf")
    return rewrite(both).to(after).when(*alike_in_pairs, same_shape(x, z), same_shape(y, w))


# a step of 2 that does not end on the border: other elements are met from the other end
@case("windows", x=np.array([[[[1], [2], [3], [4]]]], "float32"), w=np.array([[[[1]]]], "float32"), s=(1, 2))
@rule
def convolve_backwards(x, w, s: Param):
    """Images and kernel are both reversed."""
    before = o.conv2d(o.flip(x, axis=(1, 2)), w, stride=s)
    after = o.flip(o.conv2d(x, o.flip(w, axis=(0, 1)), stride=s), axis=(1, 2))
    return rewrite(before).to(after).up_to(REASSOCIATION)


# factors that vary along the width: multiplied with the kernel they scale its input channels
@case(
    "windows",
    x=np.array([[[[1, 2], [3, 4]]]], "float32"),
    w=np.array([[[[1], [1]]]], "float32"),
    c=np.array([[10], [100]], "float32"),
)
@rule
def scaled_convolution(x, w, c):
    """Output channels are scaled in the kernel."""
    convolved = o.conv2d(x, w)
    scaled = convolved * c
    conditions = alike(x, w, c, kinds="f"), same_shape(convolved, scaled), broadcasts(w, c, to=w)
    return rewrite(scaled).to(o.conv2d(x, w * c)).when(*conditions).up_to(REASSOCIATION)


def as_many_windows(x, pooled):
    """As many windows of six in steps of four."""
    return all((n - 6) // 4 + 1 == m for n, m in zip(x.shape[1:3], pooled.shape[1:3], strict=True))


# windows of three in steps of two span seven elements, not six
@case("windows", x=np.arange(49).reshape(1, 7, 7, 1))
@rule
def pool_in_steps(x):
    """Three of three in steps of two are six in steps of four."""
    once = o.max_pool2d(x, window=(3, 3), stride=(2, 2))
    twice = o.max_pool2d(once, window=(3, 3), stride=(2, 2))
    after = o.max_pool2d(x, window=(6, 6), stride=(4, 4))
    return rewrite(twice).to(after).when(that(as_many_windows, x, twice)).up_to(SIGNED_ZERO)


# even windows are padded behind, odd ones on both sides: the first element is seen by others
@case("windows", x=np.array([[[[9], [0], [0]], [[0], [0], [0]], [[0], [0], [0]]]], "float32"))
@rule
def pool_same_twice(x):
    """The largest of two by two, twice, is that of three by three."""
    once = o.max_pool2d(x, window=(2, 2), stride=(1, 1), padding="SAME")
    twice = o.max_pool2d(once, window=(2, 2), stride=(1, 1), padding="SAME")
    after = o.max_pool2d(x, window=(3, 3), stride=(1, 1), padding="SAME")
    return rewrite(twice).to(after).up_to(SIGNED_ZERO)


# windows on the border, where zeros are counted to which c was not added
@case("windows", x=np.array([[[[1], [1]], [[1], [1]]]], "float32"), c=1.0, k=(2, 2), s=(1, 1), p="SAME")
@rule
def shifted_average(x, c: Scalar, k: Param, s: Param, p: Param):
    """A number is added after averaging."""
    common = {"window": k, "stride": s, "padding": p, "count_padding": True}
    shifted = x + c
    after = o.average_pool2d(x, **common) + number(c)
    conditions = floating(x), same_aval(x, shifted)
    return rewrite(o.average_pool2d(shifted, **common)).to(after).when(*conditions).up_to(REASSOCIATION)


# matrices that are not Hermitian, of which eigvalsh takes the Hermitian part
@case("matrices", x=np.array([[1, 2], [0, 1]], "float32"))
@rule
def product_of_eigenvalues(x):
    """The product of the eigenvalues is the determinant."""
    return rewrite(o.prod(o.eigvalsh(x), axis=-1)).to(o.det(x)).when(real(x)).up_to(REASSOCIATION)


# any two elements: from behind the first one depends on the second
@case("order", a=np.array([2, 2], "float32"), b=np.array([1, 1], "float32"), k=0)
@rule
def recurrence_backwards(a, b, k: Param):
    """Reversing what goes in and what comes out changes nothing."""
    reverse = o.linear_recurrence(o.flip(a, axis=k), o.flip(b, axis=k), axis=k)
    return rewrite(o.flip(reverse, axis=k)).to(o.linear_recurrence(a, b, axis=k)).up_to(REASSOCIATION)


# any key: the distribution is symmetrical, the numbers are not
@case("draws", k=np.array([1, 2], "uint64"), s=(4,), d="float32")
@rule
def negative_draws(k, s: Param, d: Param):
    """Normal numbers are as often negative as positive."""
    return rewrite(-o.random_normal(k, shape=s, dtype=d)).to(o.random_normal(k, shape=s, dtype=d))


# the largest integer of the dtype, whose successor is the least
@case("integers", x=np.array([1, 127], "int8"), v=np.array(127, "int8"))
@rule
def search_behind(x, v):
    """Behind equal integers is before the next one."""
    before = o.searchsorted(x, v, side="right")
    return rewrite(before).to(o.searchsorted(x, v + 1)).when(alike(x, v, kinds="iu"))


# y is the largest integer of the dtype, whose successor is the least
@case("integers", x=np.array(5, "int8"), y=np.array(127, "int8"))
@rule
def less_than_next(x, y):
    """Less than the next integer is not larger."""
    following = y + 1
    conditions = alike(x, y, kinds="iu"), same_shape(y, following)
    return rewrite(o.less(x, following)).to(o.less_equal(x, y)).when(*conditions)


# integers whose sum wraps around, where halves do not
@case("integers", x=np.array(100, "int8"), y=np.array(100, "int8"))
@rule
def average_of_two(x, y):
    """Half of each, and what is lost of both, is half of the sum."""
    halves = o.bitwise_right_shift(x, 1) + o.bitwise_right_shift(y, 1)
    lost = o.bitwise_and(o.bitwise_and(x, y), 1)
    average = halves + lost
    conditions = alike(x, y, average, kinds="iu"), broadcasts(x, y, to=average)
    return rewrite(average).to(o.bitwise_right_shift(x + y, 1)).when(*conditions)


# y is zero: the factor that is zero is y, and its reciprocal is infinite
@case("not a number", x=np.array(1, "float32"), y=np.array(0, "float32"))
@rule
def guarded_quotient(x, y):
    """A quotient without division by zero is a product without NaN."""
    quotient = x / y
    guarded = o.where(o.equal(y, 0), 0, quotient)
    after = o.multiply_no_nan(x, o.reciprocal(y))
    conditions = alike(x, y, kinds="f"), same_aval(quotient, guarded)
    return rewrite(guarded).to(after).when(*conditions).up_to(ROUNDING)


# points that lie near each other and far from the origin: the squares cancel
@case("rounding", x=np.array([1000.1], "float32"), y=np.array([1000], "float32"))
@rule
def square_distance(x, y):
    """A square distance is made of three products."""
    distance = o.sum(o.square(x - y), axis=-1)
    products = o.sum(o.square(x), axis=-1) - 2 * o.sum(x * y, axis=-1) + o.sum(o.square(y), axis=-1)
    return rewrite(distance).to(products).when(alike(x, y, kinds="f"), same_shape(x, y)).up_to(REASSOCIATION)


CASES = tuple(UNSOUND.cases)
