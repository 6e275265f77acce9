"""Unsound rules about places: shapes, parameters, and conditions that are missing or too weak."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import numpy as np

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import alike, discrete, floating, real, same_aval, same_shape, that
from nnc_func.graph.rules.pattern import Param, Scalar, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from tests.testing.corpus.cases import Corpus, cubic, integers, of_rank, whole

UNSOUND = Corpus()
case = UNSOUND.case

permute_dims, reshape, broadcast_to, flip, concat = (
    OPS[n] for n in ("permute_dims", "reshape", "broadcast_to", "flip", "concat")
)
total, mean, greatest, matmul, stack, take = (OPS[n] for n in ("sum", "mean", "max", "matmul", "stack", "take"))
relu, maximum, diagonal, pad, slice_ = (OPS[n] for n in ("relu", "maximum", "diagonal", "pad", "slice"))
average_pool, argmax, argsort, one_hot = (OPS[n] for n in ("average_pool2d", "argmax", "argsort", "one_hot"))

CUBE = np.arange(8).reshape(2, 2, 2)
SQUARE = np.array([[1, 2], [3, 4]])
ANOTHER = np.array([[5, 6], [7, 9]])

# --- shapes --------------------------------------------------------------------------------------------


@case("shapes", a=SQUARE, b=ANOTHER)
@rule
def multiply_squares_by_elements(a, b):
    """The product of two square matrices is that of their elements, where the shapes agree."""
    product = a @ b
    return rewrite(product).to(a * b).when(same_aval(a, b), same_aval(a, product), whole(a))


@case("shapes", a=SQUARE, b=np.array([10, 20]))
@rule
def transpose_after_sum(a, b):
    """A transposed square matrix and a transposed tensor that broadcasts to it are added before they are transposed."""
    added = permute_dims(a) + permute_dims(b)
    return rewrite(added).to(permute_dims(a + b)).when(of_rank(2, a), cubic(a), same_shape(a, added))


@case("shapes", x=CUBE, p=(1, 2, 0))
@rule
def drop_repeated_transpose(x, p: Param):
    """The same transpose twice leaves a tensor as it was, if it keeps its shape."""
    twice = permute_dims(permute_dims(x, axes=p), axes=p)
    return rewrite(twice).to(x).when(same_aval(x, twice))


@case("shapes", x=np.arange(16).reshape(2, 2, 2, 2), p=(1, 2, 3, 0))
@rule
def drop_sixfold_transpose(x, p: Param):
    """The same transpose six times leaves a tensor as it was, if it keeps its shape."""
    turned = x
    for _ in range(6):
        turned = permute_dims(turned, axes=p)
    return rewrite(turned).to(x).when(same_aval(x, turned))


@computed
def _one_by_the_other(p, q):
    """Axes of the second order, looked up by the first."""
    return tuple(q[a] for a in p)


@case("shapes", x=CUBE, p=(1, 2, 0), q=(1, 0, 2))
@rule
def compose_transposes(x, p: Param, q: Param):
    """Two transposes in a row are the one whose axes are the second's, looked up by the first's."""
    twice = permute_dims(permute_dims(x, axes=p), axes=q)
    given = that(
        lambda p, q: p is not None and q is not None and min((*p, *q), default=0) >= 0, p, q, says="both given"
    )
    return rewrite(twice).to(permute_dims(x, axes=_one_by_the_other(p, q))).when(given, cubic(x))


@computed
def _first_extent(s):
    """How often the first axis is repeated."""
    return s[0]


@case("shapes", x=np.array([[1]]), s=(2, 3))
@rule
def add_repeated_rows(x, s: Param):
    """The sum of a tensor that is repeated along its first axis is its own sum, times the first extent."""
    spread = broadcast_to(x, shape=s)
    one_first = that(
        lambda x, s: len(x.shape) == len(s) > 0 and x.shape[0] == 1 and s[0] > 0, x, s, says="the first extent was 1"
    )
    return rewrite(total(spread)).to(total(x) * _first_extent(s)).when(one_first, whole(x))


@case("shapes", x=np.array([1.0, 1.0, 4.0], "float32"), y=np.array([8.0], "float32"))
@rule
def average_means_of_parts(x, y):
    """The mean of two vectors, one behind the other, is the mean of their means."""
    joined = mean(concat(x, y, axis=0))
    return rewrite(joined).to((mean(x) + mean(y)) * 0.5).when(alike(x, y, kinds="f")).up_to(REASSOCIATION)


@case("shapes", x=np.arange(6).reshape(1, 2, 3), p=(0, 2, 1), s=(6,))
@rule
def drop_transpose_before_reshape(x, p: Param, s: Param):
    """A transpose before a reshape changes nothing of a tensor with an axis of extent 1."""
    reshaped = reshape(permute_dims(x, axes=p), shape=s)
    thin = that(lambda x: 1 in x.shape, x, says="an extent is 1")
    return rewrite(reshaped).to(reshape(x, shape=s)).when(thin)


@case("shapes", a=CUBE, b=CUBE)
@rule
def add_product_by_its_sums(a, b):
    """The sum of a matrix product is that of the columns' sums times the rows' sums."""
    product = total(total(a, axis=0) * total(b, axis=1))
    return rewrite(total(a @ b)).to(product).when(whole(a), cubic(a), same_aval(a, b))


def _fits(x, shape) -> bool:
    lead = len(shape) - len(x.shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True))


@case("shapes", x=np.array([1, 2]), s=(2, 1), t=(2, 2))
@rule
def drop_reshape_before_broadcast(x, s: Param, t: Param):
    """A reshape before a broadcast is dropped, if the tensor can be broadcast without it."""
    spread = broadcast_to(reshape(x, shape=s), shape=t)
    return rewrite(spread).to(broadcast_to(x, shape=t)).when(that(_fits, x, t, says="x broadcasts to it"))


# --- parameters ----------------------------------------------------------------------------------------


@computed
def _last_of(x):
    """The last position of the first axis."""
    return x.shape[0] - 1


@case("parameters", x=np.array([1, 1]))
@rule
def find_largest_from_behind(x):
    """The largest of a tensor that is turned round is found by counting from the other end."""
    return rewrite(argmax(flip(x, axis=0), axis=0)).to(_last_of(x) - argmax(x, axis=0)).when(discrete(x))


@case("parameters", x=np.array([1, 2]), a=0)
@rule
def add_up_from_behind(x, a: Param):
    """Running sums of what is turned round, turned back, are the running sums."""
    return rewrite(flip(OPS["cumulative_sum"](flip(x, axis=a), axis=a), axis=a)).to(OPS["cumulative_sum"](x, axis=a))


@computed
def _mirrored(bounds, x):
    """Bounds counted from the other ends."""
    return tuple(n - b for b, n in zip(bounds, x.shape, strict=True))


@case("parameters", x=np.arange(4), a=(0,), b=(4,), c=(2,))
@rule
def slice_after_flip(x, a: Param, b: Param, c: Param):
    """A slice that is turned round is the slice of the turned tensor, with bounds from the other ends."""
    shown = slice_(x, starts=a, stops=b, steps=c)
    forward = that(lambda c: all(n > 0 for n in c), c, says="steps go forward")
    turned = slice_(flip(x), starts=_mirrored(b, x), stops=_mirrored(a, x), steps=c)
    return rewrite(flip(shown)).to(turned).when(forward)


@case("parameters", x=np.array([-1]), w=((0, 0),))
@rule
def find_largest_within_borders(x, w: Param):
    """The largest element within borders of zeros is at least zero."""
    found = greatest(pad(x, widths=w, value=0))
    held = that(lambda x: 0 not in x.shape and len(x.shape) > 0, x, says="x has elements")
    return rewrite(found).to(relu(greatest(x))).when(held, integers(x))


@case(
    "parameters",
    x=np.ones((1, 1, 1, 1), "float32"), w=(2, 2), s=(1, 1), p=((0, 1), (0, 1)), c=True,
)  # fmt: skip
@rule
def drop_rectifier_after_pooling(x, w: Param, s: Param, p: Param, c: Param):
    """Means of rectified images need no rectifier."""
    pooled = average_pool(relu(x), window=w, stride=s, padding=p, count_padding=c)
    again = average_pool(relu(x), window=w, stride=s, padding=p)
    return rewrite(relu(pooled)).to(again).up_to(SIGNED_ZERO)


@case("parameters", x=np.array([1, 1]))
@rule
def sort_positions_downwards(x):
    """Positions in rising order, turned round, are those in falling order."""
    return rewrite(flip(argsort(x), axis=-1)).to(argsort(x, descending=True)).when(discrete(x))


@computed
def _with_next(a, b):
    """Both axes, the second one further."""
    return (a, b + 1)


@case("parameters", x=CUBE, a=2, b=0)
@rule
def merge_sums(x, a: Param, b: Param):
    """A sum over one axis and then over another is that over both, the second counted one further."""

    def differ(a, b, x) -> bool:
        rank = len(x.shape)
        return isinstance(a, int) and isinstance(b, int) and a >= 0 and b >= 0 and a != b + 1 and b + 1 < rank

    twice = total(total(x, axis=a), axis=b)
    return (
        rewrite(twice)
        .to(total(x, axis=_with_next(a, b)))
        .when(that(differ, a, b, x, says="the axes differ"), cubic(x), whole(x))
    )


@case("parameters", x=np.array([1, 2]), i=np.array([[0, 0], [1, 1]]), j=np.array([1, 0]))
@rule
def take_by_positions_taken(x, i, j):
    """Elements of what was taken from the last axis are taken by positions that are taken first."""
    twice = take(take(x, i, axis=-1), j, axis=-1)
    as_long = that(lambda i, j: j.shape == i.shape[:1], i, j, says="j has as many positions as i")
    return rewrite(twice).to(take(x, take(i, j, axis=0), axis=-1)).when(cubic(i), as_long)


@case("parameters", a=SQUARE, b=ANOTHER, f=False, g=False)
@rule
def exchange_factors(a, b, f: Param, g: Param):
    """The transpose of a matrix product is the product of the factors in the other order."""
    product = matmul(a, b, transpose_a=f, transpose_b=g)
    return (
        rewrite(permute_dims(product))
        .to(matmul(b, a, transpose_a=f, transpose_b=g))
        .when(of_rank(2, a, b), same_shape(a, product), same_shape(b, product), whole(a, b))
    )


@case("parameters", x=CUBE, y=CUBE + 8)
@rule
def transpose_pairs(x, y):
    """Transposed tensors that are stacked along the second axis are the transpose of those stacked there."""
    paired = stack(permute_dims(x), permute_dims(y), axis=1)
    flat = that(lambda x: len(x.shape) >= 2, x, says="x has two axes or more")
    return rewrite(paired).to(permute_dims(stack(x, y, axis=1))).when(flat)


@case("parameters", x=np.array([[1], [2]]), i=np.array([-1]), d=2)
@rule
def take_rows_by_position(x, i, d: Param):
    """A product with ones at given positions takes rows."""
    product = one_hot(i, depth=d, dtype="int64") @ x
    return rewrite(product).to(take(x, i, axis=0)).when(whole(x), of_rank(2, x))


# --- conditions ----------------------------------------------------------------------------------------


@case("conditions", x=np.array(-1.0), s=0.5)
@rule
def drop_bound_of_rectified(x, s: Scalar):
    """A small lower bound of what is rectified is met already."""
    bounded = maximum(relu(x), s)
    small = that(lambda s: s < 1, s, says="s is below 1")
    return rewrite(bounded).to(relu(x)).when(small, same_aval(x, bounded)).up_to(SIGNED_ZERO)


@case("conditions", x=np.array(1.5))
@rule
def drop_whole_division_by_one(x):
    """A division by one, rounded down, changes no real number."""
    quotient = OPS["floor_divide"](x, 1)
    return rewrite(quotient).to(x).when(real(x), same_aval(x, quotient)).up_to(SIGNED_ZERO)


@case("conditions", x=np.array(np.nan), y=np.array(1.0))
@rule
def one_of_two_comparisons(x, y):
    """Of two real numbers one is greater, or at most as large."""
    either = OPS["logical_or"](OPS["greater"](x, y), OPS["less_equal"](x, y))
    truth = apply(OPS["full"], shape=shape_of(either), value=True, dtype=dtype_of(either))
    return rewrite(either).to(truth).when(real(x), real(y))


@computed
def _below(s):
    """The bits below a power of two."""
    return s - 1


@case("conditions", x=np.array(5), s=0)
@rule
def remainder_by_bits(x, s: Scalar):
    """The remainder of integers by a power of two is their lower bits."""
    rest = OPS["remainder"](x, s)
    power = that(lambda s: isinstance(s, int) and 0 <= s < 64 and s & (s - 1) == 0, s, says="s is a power of two")
    signed = that(lambda x: x.dtype.kind == "i", x, says="x is signed")
    return rewrite(rest).to(OPS["bitwise_and"](x, _below(s))).when(power, signed, same_aval(x, rest))


@computed
def _inverse(s):
    """One over a number."""
    return 1 / s


@case("conditions", x=np.array(1e-40, "float32"), s=1e-40)
@rule
def multiply_by_inverse(x, s: Scalar):
    """A division by a number other than zero is a product with one over it."""
    quotient = x / s
    other = that(lambda s: s != 0, s, says="s is not zero")
    made = rewrite(quotient).to(x * _inverse(s)).when(other, floating(x), same_aval(x, quotient))
    return made.up_to(ROUNDING)


@case("conditions", x=np.array(1.0), y=np.array(np.inf))
@rule
def drop_difference_of_equals(x, y):
    """What is subtracted from itself adds nothing to numbers."""
    added = x + (y - y)
    return rewrite(added).to(x).when(floating(x), same_aval(x, added)).up_to(SIGNED_ZERO)
