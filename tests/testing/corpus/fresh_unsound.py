"""Fresh rules that look right and are wrong, each for one reason; written without a look at the test kit."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import math

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.shapes import broadcast, normalise_axes
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import (
    alike,
    discrete,
    floating,
    of_kinds,
    same_aval,
    same_shape,
    that,
)
from nnc_func.graph.rules.pattern import Nonnegative, Param, Scalar, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, cubic, of_rank, whole

UNSOUND = Corpus()
case = UNSOUND.case

permute_dims, reshape, concat, stack, flip, sort = (
    OPS[n] for n in ("permute_dims", "reshape", "concat", "stack", "flip", "sort")
)
total, greatest, least, argmax, take, cast = (OPS[n] for n in ("sum", "max", "min", "argmax", "take", "cast"))
matmul, tensordot, conv2d, max_pool = (OPS[n] for n in ("matmul", "tensordot", "conv2d", "max_pool2d"))
absolute, sign, floor, where, isnan, less = (OPS[n] for n in ("abs", "sign", "floor", "where", "isnan", "less"))
shift_down, floor_divide, nextafter = (OPS[n] for n in ("bitwise_right_shift", "floor_divide", "nextafter"))

CUBE = np.arange(8).reshape(2, 2, 2)
SQUARE = np.array([[1, 2], [3, 4]])


@computed
def _itself(s):
    """The number."""
    return s


# --- shapes --------------------------------------------------------------------------------------------


def _doubles(x, a, s) -> bool:
    rank = len(x.shape)
    return -rank <= a < rank and s == tuple(2 * n if i == a % rank else n for i, n in enumerate(x.shape))


@case("shapes", x=np.array([1, 2]), y=np.array([3, 4]), a=-1, s=(4,))
@rule
def join_instead_of_stacking(x, y, a: Param, s: Param):
    """Tensors that are stacked before an axis, with which the new one is merged, are joined along that axis."""
    merged = reshape(stack(x, y, axis=a), shape=s)
    doubled = that(_doubles, x, a, s, says="the axis has twice its extent")
    return rewrite(merged).to(concat(x, y, axis=a)).when(doubled)


def _fits_after_sum(x, y, summed) -> bool:
    if not x.shape or not y.shape or y.shape[-1] != 1:
        return False
    try:
        return bool(broadcast(x.shape[:-1], y.shape) == summed.shape)
    except ShapeError:
        return False


@case("shapes", x=CUBE, y=np.array([[1], [2]]))
@rule
def scale_sum_of_last_axis(x, y):
    """A factor of extent 1 along the last axis is multiplied once that axis is summed, if it fits then."""
    summed = total(x * y, axis=-1)
    fits = that(_fits_after_sum, x, y, summed, says="y is 1 long there, and fits afterwards")
    return rewrite(summed).to(total(x, axis=-1) * y).when(fits, whole(x, y))


@case("shapes", a=SQUARE, b=SQUARE + 5)
@rule
def contract_rows_with_columns(a, b):
    """A contraction of the rows of one matrix with the columns of another is the product of the second with it."""
    contracted = tensordot(a, b, axes=((0,), (1,)))
    turned = that(lambda a, b: a.shape == b.shape[::-1], a, b, says="b has the shape of a, transposed")
    return rewrite(contracted).to(b @ a).when(of_rank(2, a, b), turned, whole(a, b))


@case("shapes", x=np.zeros((1, 0), "uint8"), a=1, k=False)
@rule
def find_unsigned_not_below_zero(x, a: Param, k: Param):
    """Some unsigned number is not below zero, since none is."""
    found = OPS["any"](OPS["greater_equal"](x, 0), axis=a, keepdims=k)
    truth = apply(OPS["full"], shape=shape_of(found), value=True, dtype=dtype_of(found))
    return rewrite(found).to(truth).when(of_kinds(x, "u"))


@case("shapes", x=np.array([[3, 1], [2, 4]]))
@rule
def sort_rows_before_columns(x):
    """The columns and rows of a matrix are sorted in any order."""
    made = rewrite(sort(sort(x, axis=0), axis=1)).to(sort(sort(x, axis=1), axis=0))
    return made.when(of_rank(2, x), discrete(x))


@computed
def _opposite(f):
    """The other truth value."""
    return not f


@case("shapes", a=CUBE, b=CUBE + 1, f=False)
@rule
def transpose_within_product(a, b, f: Param):
    """A first factor that is transposed is transposed by the matrix product itself."""
    product = matmul(permute_dims(a), b, transpose_a=f)
    return rewrite(product).to(matmul(a, b, transpose_a=_opposite(f))).when(cubic(a), whole(a, b))


@computed
def _looked_up(p, a):
    """Where the axis comes from."""
    return p[a]


@case("shapes", x=CUBE, p=(1, 0, 2), a=2)
@rule
def find_largest_before_transpose(x, p: Param, a: Param):
    """The largest along an axis of a transposed tensor is the largest along the axis that it was."""

    def given(p, a) -> bool:
        return p is not None and min(p, default=0) >= 0 and isinstance(a, int) and a >= 0

    found = greatest(permute_dims(x, axes=p), axis=a)
    made = rewrite(found).to(greatest(x, axis=_looked_up(p, a)))
    return made.when(that(given, p, a, says="axes count from the front"), cubic(x), discrete(x))


@case("shapes", x=np.array([[[1], [2]]]), y=np.array([[[3], [4]]]), a=2, s=(4,))
@rule
def flatten_parts(x, y, a: Param, s: Param):
    """Two tensors of one row each are flattened one by one, and then joined."""
    flat = reshape(concat(x, y, axis=a), shape=s)
    one = that(
        lambda x, y, s: len(s) == 1 and x.shape[0] == y.shape[0] == 1, x, y, s, says="both have one row, and become one"
    )
    return rewrite(flat).to(concat(reshape(x, shape=(-1,)), reshape(y, shape=(-1,)), axis=0)).when(one)


# --- dtypes --------------------------------------------------------------------------------------------


@case("dtypes", x=np.array([128]), d="int8", a=0, k=False)
@rule
def drop_cast_before_sum(x, d: Param, a: Param, k: Param):
    """Signed integers are summed in 64 bits, whatever they are cast to before."""
    summed = total(cast(x, dtype=d), axis=a, keepdims=k)
    signed = that(lambda x, d: x.dtype.kind == np.dtype(d).kind == "i", x, d, says="both are signed integers")
    return rewrite(summed).to(total(x, axis=a, keepdims=k)).when(signed)


@case("dtypes", x=np.array(127, "int8"), y=np.array(-128, "int8"))
@rule
def measure_distance_of_integers(x, y):
    """The distance of two signed integers is the larger without the smaller."""
    apart = OPS["maximum"](x, y) - OPS["minimum"](x, y)
    return rewrite(absolute(x - y)).to(apart).when(alike(x, y, kinds="i"))


@case("dtypes", x=np.array([2**53, 2**53 + 1]), d="float64", a=0, k=False)
@rule
def find_largest_before_cast(x, d: Param, a: Param, k: Param):
    """The largest of integers stands where the largest of them as floats of as many bits does."""
    found = argmax(cast(x, dtype=d), axis=a, keepdims=k)
    long = that(lambda d: np.dtype(d).name == "float64", d, says="d is float64")
    return rewrite(found).to(argmax(x, axis=a, keepdims=k)).when(whole(x), long)


@case("dtypes", x=np.array(1e5, "float32"), y=np.array(1e-3, "float32"))
@rule
def narrow_factors_first(x, y):
    """A product that is rounded to 16 bits is the product of factors that are rounded to 16 bits."""
    single = that(lambda x, y: x.dtype.name == y.dtype.name == "float32", x, y, says="x and y are float32")
    narrow = cast(x, dtype="float16") * cast(y, dtype="float16")
    return rewrite(cast(x * y, dtype="float16")).to(narrow).when(single).up_to(ROUNDING)


@case("dtypes", x=np.array(255, "uint8"), y=np.array(200, "uint8"), z=np.array(60, "uint8"))
@rule
def shift_once_by_sum(x, y, z):
    """Two shifts of unsigned numbers in a row are one, by as many places as both."""
    return rewrite(shift_down(shift_down(x, y), z)).to(shift_down(x, y + z)).when(alike(x, y, z, kinds="u"))


@case("dtypes", x=np.array(1 - 1e-12))
@rule
def cut_off_without_narrowing(x):
    """A float needs no rounding to 32 bits before it is cut to a whole number of 32 bits."""
    narrowed = cast(cast(x, dtype="float32"), dtype="int32")
    double = that(lambda x: x.dtype.name == "float64", x, says="x is float64")
    return rewrite(narrowed).to(cast(x, dtype="int32")).when(double)


@case("dtypes", c=np.array(True), x=np.array(2**53 + 1), y=np.array(0.0), d="int64")
@rule
def cast_alternatives(c, x, y, d: Param):
    """A choice that is cast is the choice between what is cast."""
    return rewrite(cast(where(c, x, y), dtype=d)).to(where(c, cast(x, dtype=d), cast(y, dtype=d)))


@case("dtypes", x=np.array([2**63, 2**63], "uint64"), a=0)
@rule
def find_largest_running_sum(x, a: Param):
    """Running sums of unsigned integers rise, so that the largest is the whole sum."""
    largest = greatest(OPS["cumulative_sum"](x, axis=a), axis=a)
    return rewrite(largest).to(total(x, axis=a)).when(of_kinds(x, "u"))


# --- rounding ------------------------------------------------------------------------------------------


@case("rounding", x=np.array(3e38, "float32"))
@rule
def cube_root_by_power(x: Nonnegative):
    """The cube root of what is not negative is its power of a third."""
    return rewrite(OPS["cbrt"](x)).to(x ** (1 / 3)).up_to(ROUNDING)


@case("rounding", x=np.array(0.9999, "float32"))
@rule
def arc_cosine_from_arc_sine(x):
    """The arc cosine is a quarter turn without the arc sine."""
    return rewrite(OPS["acos"](x)).to(math.pi / 2 - OPS["asin"](x)).when(floating(x)).up_to(ROUNDING)


@case("rounding", x=np.array(1e8, "float32"), y=np.array(0.3, "float32"))
@rule
def remainder_by_division(x, y):
    """A remainder is what the quotient, rounded down, leaves of the first number."""
    rest = OPS["remainder"](x, y)
    made = rewrite(rest).to(x - floor(x / y) * y).when(alike(x, y, kinds="f"))
    return made.up_to(ROUNDING).with_fast_math()


@case("rounding", x=np.array(-1e-9, "float32"), s=1)
@rule
def round_down_before_adding(x, s: Scalar):
    """A whole number can be added after numbers are rounded down."""
    added = x + s
    is_whole = that(lambda s: math.isfinite(s) and s == int(s), s, says="s is whole")
    return rewrite(floor(added)).to(floor(x) + _itself(s)).when(is_whole, same_aval(x, added)).up_to(SIGNED_ZERO)


@case("rounding", x=np.array([0, 1e-9], "float32"), a=0, k=False)
@rule
def find_likeliest_by_score(x, a: Param, k: Param):
    """The largest probability of a softmax stands where the largest score does."""
    found = argmax(OPS["softmax"](x, axis=a), axis=a, keepdims=k)
    return rewrite(found).to(argmax(x, axis=a, keepdims=k)).when(floating(x))


# --- special values ------------------------------------------------------------------------------------


@case("special values", x=np.array(-np.inf, "float32"))
@rule
def root_instead_of_power(x):
    """A power of one half is the root."""
    powered = x**0.5
    return rewrite(powered).to(OPS["sqrt"](x)).when(floating(x), same_aval(x, powered)).up_to(ROUNDING)


@case("special values", x=np.array(-0.0))
@rule
def put_sign_back(x):
    """The sign of a float times its magnitude is that float."""
    return rewrite(sign(x) * absolute(x)).to(x).when(floating(x))


@case("special values", x=np.array([1.0, np.nan]), a=0, k=False)
@rule
def find_smallest_as_first(x, a: Param, k: Param):
    """The first element in ascending order is the smallest."""
    first = OPS["kth_value"](x, k=0, axis=a, keepdims=k)
    return rewrite(first).to(least(x, axis=a, keepdims=k)).when(floating(x)).up_to(SIGNED_ZERO)


@case("special values", x=np.array(-1.0))
@rule
def turn_angle_of_conjugate(x):
    """The angle of the conjugate is the negated angle."""
    return rewrite(OPS["angle"](OPS["conj"](x))).to(-OPS["angle"](x)).up_to(SIGNED_ZERO)


@case("special values", x=np.array(np.inf), y=np.array(-np.inf))
@rule
def ask_terms_for_nan(x, y):
    """A sum of floats is NaN where either of them is."""
    return rewrite(isnan(x + y)).to(OPS["logical_or"](isnan(x), isnan(y))).when(alike(x, y, kinds="f"))


@case("special values", x=np.array(np.inf, "float32"))
@rule
def step_there_and_back(x):
    """The next float, and from there the one before, is where one began."""
    back = nextafter(nextafter(x, np.inf), -np.inf)
    return rewrite(back).to(x).when(same_aval(x, back)).up_to(SIGNED_ZERO)


@case("special values", x=np.array([0.0, -np.inf], "float32"), y=np.array([1.0, 0.0], "float32"), a=0)
@rule
def cross_entropy_as_written(x, y, a: Param):
    """A cross-entropy is the negated sum of labels times logarithms of probabilities."""
    loss = OPS["softmax_cross_entropy"](x, y, axis=a)
    written = -total(y * OPS["log_softmax"](x, axis=a), axis=a)
    return rewrite(loss).to(written).when(alike(x, y, kinds="f"), same_shape(x, y)).up_to(REASSOCIATION)


@case("special values", x=np.array([[np.inf, 1]], "float32"), v=np.array([1, 1], "float32"), s=(2, 2))
@rule
def scale_columns(x, v, s: Param):
    """A product with a diagonal matrix multiplies each column by a number."""
    product = x @ OPS["diagonal_matrix"](v, shape=s)
    made = rewrite(product).to(x * v).when(alike(x, v, kinds="f"), of_rank(1, v), same_aval(x, product))
    return made.up_to(REASSOCIATION)


# --- parameters ----------------------------------------------------------------------------------------


@computed
def _all_of(a, b, x):
    """The axes that either names."""
    rank = len(x.shape)
    return tuple(sorted({*normalise_axes(a, rank), *normalise_axes(b, rank)}))


@case("parameters", x=np.array([1, 2]), a=0, b=-1)
@rule
def flip_once(x, a: Param, b: Param):
    """Two reversals in a row are one, along the axes of both."""
    return rewrite(flip(flip(x, axis=a), axis=b)).to(flip(x, axis=_all_of(a, b, x)))


@computed
def _reaching(w, u):
    """Windows as far as both reach."""
    return tuple(a + b - 1 for a, b in zip(w, u, strict=True))


@computed
def _by_each_other(s, t):
    """Products of pairs."""
    return tuple(a * b for a, b in zip(s, t, strict=True))


@case("parameters", x=np.array([0, 0, 0, 1]).reshape(1, 4, 1, 1), w=(2, 1), s=(2, 1), u=(2, 1), t=(1, 1))
@rule
def pool_overlapping_windows_once(x, w: Param, s: Param, u: Param, t: Param):
    """The largest of the largest are those of windows that reach as far as both, in steps of both."""
    twice = max_pool(max_pool(x, window=w, stride=s), window=u, stride=t)
    once = max_pool(x, window=_reaching(w, u), stride=_by_each_other(s, t))
    given = that(lambda s, t: s is not None and t is not None, s, t, says="steps are given")
    return rewrite(twice).to(once).when(given, discrete(x))


@case(
    "parameters",
    x=np.zeros(3, "int64"), v=np.array([1]), y=np.array([5, 5]), a=(1,), b=(2,), c=(1,), d=(0,), e=(3,), f=(2,),
)  # fmt: skip
@rule
def drop_overwritten(x, v, y, a: Param, b: Param, c: Param, d: Param, e: Param, f: Param):
    """What is written, and overwritten by a later write whose bounds are around it, need not be written."""

    def around(a, b, c, d, e, f) -> bool:
        bounds = zip(a, b, d, e, strict=True)
        return all(n > 0 for n in (*c, *f)) and all(
            start <= first and stop <= end for first, stop, start, end in bounds
        )

    once = OPS["set_slice"](x, v, starts=a, stops=b, steps=c)
    twice = OPS["set_slice"](once, y, starts=d, stops=e, steps=f)
    within = that(around, a, b, c, d, e, f, says="the bounds of the second are around those of the first")
    return rewrite(twice).to(OPS["set_slice"](x, y, starts=d, stops=e, steps=f)).when(within)


@case("parameters", x=np.array([0]), i=np.array([0, 0]), u=np.array([1, 1]), a=0)
@rule
def add_where_it_is_read(x, i, u, a: Param):
    """What is added at positions is added to what is read there, and written back."""
    added = OPS["scatter_add"](x, i, u, axis=a)
    written = OPS["scatter_set"](x, i, take(x, i, axis=a) + u, axis=a)
    return rewrite(added).to(written).when(alike(x, u, kinds="iu"))


@case("parameters", x=np.array([1, 2]).reshape(1, 2, 1, 1), w=np.ones((1, 1, 1, 1), "int64"), s=(2, 1))
@rule
def convolve_before_turning(x, w, s: Param):
    """Images and kernels that are both turned round give what they give otherwise, turned round."""
    turned = conv2d(flip(x, axis=(1, 2)), flip(w, axis=(0, 1)), stride=s)
    return rewrite(turned).to(flip(conv2d(x, w, stride=s), axis=(1, 2))).when(alike(x, w, kinds="iu"))


@case("parameters", x=np.array([0, 1], "float32"), a=0)
@rule
def transform_before_reversal(x, a: Param):
    """The spectrum of a signal that is turned round is the spectrum, turned round."""
    spectrum = OPS["real_fourier"]
    return rewrite(spectrum(flip(x, axis=a), axis=a)).to(flip(spectrum(x, axis=a), axis=a)).up_to(REASSOCIATION)


@case("parameters", a=np.array([[1, 1], [0, 1]], "float32"), b=np.array([[1], [1]], "float32"), l=True)
@rule
def transpose_within_solver(a, b, l: Param):  # noqa: E741 - it stands for `lower`
    """A triangular matrix that is transposed can be transposed by the solver."""
    solved = OPS["solve_triangular"](permute_dims(a), b, lower=l)
    within = OPS["solve_triangular"](a, b, lower=l, transpose=True)
    return rewrite(solved).to(within).when(of_rank(2, a), alike(a, b, kinds="f")).up_to(REASSOCIATION)


@case("parameters", x=np.array([1]), v=np.array(1), d="right")
@rule
def count_smaller(x, v, d: Param):
    """As many elements stand before a number as are smaller."""
    made = rewrite(OPS["searchsorted"](x, v, side=d)).to(total(less(x, v)))
    return made.when(alike(x, v, kinds="iu"), of_rank(0, v))


# --- conditions ----------------------------------------------------------------------------------------


@case("conditions", x=SQUARE, i=np.array([[0, 1], [1, 0]]), j=np.array([0, 0]))
@rule
def take_columns_first(x, i, j):
    """Rows and columns of a matrix are taken in any order."""
    rows_first = take(take(x, i, axis=0), j, axis=1)
    return rewrite(rows_first).to(take(take(x, j, axis=1), i, axis=0)).when(of_rank(2, x), of_rank(1, j))


@case("conditions", x=np.array(0.0), s=np.inf)
@rule
def multiply_by_known_number(x, s: Scalar):
    """A product with a number other than zero needs no look at zeros."""
    product = OPS["multiply_no_nan"](s, x)
    other = that(lambda s: s != 0, s, says="s is not zero")
    return rewrite(product).to(x * _itself(s)).when(other, floating(x), same_aval(x, product)).up_to(SIGNED_ZERO)


@computed
def _product(s, t):
    """The product."""
    return s * t


@case("conditions", x=np.array(1), s=2, t=-1)
@rule
def divide_down_once(x, s: Scalar, t: Scalar):
    """Two divisions of integers that are rounded down are one, by the product."""

    def small(s, t) -> bool:
        return isinstance(s, int) and isinstance(t, int) and s > 0 and abs(s * t) < 128

    twice = floor_divide(floor_divide(x, s), t)
    held = that(small, s, t, says="s is positive, and the product small")
    made = rewrite(twice).to(floor_divide(x, _product(s, t)))
    return made.when(of_kinds(x, "i"), held, same_aval(x, twice))


CASES = tuple(UNSOUND.cases)
