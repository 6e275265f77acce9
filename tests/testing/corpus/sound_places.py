"""Sound rules about places: shapes, movement, reductions, positions."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import numpy as np

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import (
    alike,
    discrete,
    floating,
    no_larger,
    same_aval,
    same_dtype,
    same_shape,
    that,
    used_once,
)
from nnc_func.graph.rules.pattern import Param, Scalar, computed
from nnc_func.graph.rules.rule import REASSOCIATION, rewrite, rule
from tests.testing.corpus.cases import Corpus, whole

SOUND = Corpus()
case = SOUND.case

permute_dims, reshape, broadcast_to, flip, concat = (
    OPS[n] for n in ("permute_dims", "reshape", "broadcast_to", "flip", "concat")
)
expand_dims, squeeze, stack, sort, pad = (OPS[n] for n in ("expand_dims", "squeeze", "stack", "sort", "pad"))
total, any_, all_, argmax, argmin = (OPS[n] for n in ("sum", "any", "all", "argmax", "argmin"))
cumulative_max, where, logical_not, logical_or = (
    OPS[n] for n in ("cumulative_max", "where", "logical_not", "logical_or")
)

ROWS = np.array([[1, 2, 3], [4, 5, 6]])
TRUTHS = np.array([[True, False], [False, False]])

# --- movement ------------------------------------------------------------------------------------------


@case("shapes", x=ROWS, y=ROWS * 2, p=(1, 0))
@rule
def add_before_transpose(x, y, p: Param):
    """Elements of one shape that move alike are added before they move."""
    first, second = permute_dims(x, axes=p), permute_dims(y, axes=p)
    made = rewrite(first + second).to(permute_dims(x + y, axes=p))
    return made.when(same_shape(x, y), used_once(first), used_once(second))


@case("shapes", x=ROWS[0], s=(2, 3), t=(2, 2, 3))
@rule
def broadcast_once(x, s: Param, t: Param):
    """Broadcasting aligns shapes from behind, so that the last of two broadcasts decides."""
    return rewrite(broadcast_to(broadcast_to(x, shape=s), shape=t)).to(broadcast_to(x, shape=t))


@case("shapes", x=ROWS, a=0)
@rule
def drop_kept_axis(x, a: Param):
    """The axes that a sum keeps with extent 1 are those that are taken away."""
    return rewrite(squeeze(total(x, axis=a, keepdims=True), axis=a)).to(total(x, axis=a))


@case("shapes", x=ROWS[:1], y=ROWS[:, :1], s=(2, 3))
@rule
def add_before_broadcast(x, y, s: Param):
    """Two tensors that broadcast to a shape broadcast to it after they are added, too."""
    first, second = broadcast_to(x, shape=s), broadcast_to(y, shape=s)
    return rewrite(first + second).to(broadcast_to(x + y, shape=s)).when(used_once(first), used_once(second))


@case("shapes", x=ROWS, y=ROWS[:1], a=0)
@rule
def join_in_other_order(x, y, a: Param):
    """Two parts, each turned round, joined and turned round again, are joined in the other order."""
    return rewrite(flip(concat(flip(x, axis=a), flip(y, axis=a), axis=a), axis=a)).to(concat(y, x, axis=a))


@case("shapes", x=ROWS, y=ROWS + 6)
@rule
def stack_before_transpose(x, y):
    """Reversed axes with a new last one are those with a new first one, reversed."""
    first, second = permute_dims(x), permute_dims(y)
    made = rewrite(stack(first, second, axis=-1)).to(permute_dims(stack(x, y, axis=0)))
    return made.when(used_once(first), used_once(second))


# --- reductions ----------------------------------------------------------------------------------------


@case("reductions", x=TRUTHS, p=(1, 0))
@rule
def any_before_transpose(x, p: Param):
    """Whether any element is true does not depend on where it is."""
    return rewrite(any_(permute_dims(x, axes=p))).to(any_(x))


@case("reductions", x=TRUTHS, s=(3, 2, 2))
@rule
def any_before_broadcast(x, s: Param):
    """Where repeated elements are left, one of them is true if one was before."""
    held = that(lambda s: 0 not in s, s, says="no extent is 0")
    return rewrite(any_(broadcast_to(x, shape=s))).to(any_(x)).when(held)


@case("reductions", x=TRUTHS, a=1, k=True)
@rule
def any_of_opposites(x, a: Param, k: Param):
    """Any opposite is true where not all are."""
    opposite = logical_not(x)
    return (
        rewrite(any_(opposite, axis=a, keepdims=k))
        .to(logical_not(all_(x, axis=a, keepdims=k)))
        .when(used_once(opposite))
    )


@case("reductions", x=ROWS, s=(3, 2))
@rule
def find_largest_before_reshape(x, s: Param):
    """A position is counted in the flat order, which a reshape keeps."""
    return rewrite(argmax(reshape(x, shape=s))).to(argmax(x))


@case("reductions", x=np.array([1.0, 3.0, -2.0]), a=0, k=False)
@rule
def find_smallest(x, a: Param, k: Param):
    """A negated float exists for each, in the other order, and NaN stays NaN; integers wrap around."""
    negated = -x
    made = rewrite(argmax(negated, axis=a, keepdims=k)).to(argmin(x, axis=a, keepdims=k))
    return made.when(floating(x), used_once(negated))


@case("reductions", x=ROWS, a=1)
@rule
def add_before_flip(x, a: Param):
    """Integers that wrap around have one sum in any order."""
    return rewrite(total(flip(x, axis=a))).to(total(x)).when(discrete(x))


@case("reductions", x=np.array([3, 1, 2]))
@rule
def sort_before_flip(x):
    """Equal integers are the same bits, so that it does not matter which of them comes first."""
    return rewrite(sort(flip(x, axis=-1))).to(sort(x)).when(discrete(x))


@case("reductions", x=ROWS)
@rule
def add_first_axes_at_once(x):
    """Integers that wrap around have one sum, axis by axis or at once."""
    return rewrite(total(total(x, axis=0), axis=0)).to(total(x, axis=(0, 1))).when(discrete(x))


@case("reductions", x=np.float32([[0.1, 0.2, 3e7], [1.0, 7.0, 0.3]]))
@rule
def add_numbers_of_first_axes_at_once(x):
    """Numbers have one sum, axis by axis or at once, but for the order of additions."""
    return rewrite(total(total(x, axis=0), axis=0)).to(total(x, axis=(0, 1))).up_to(REASSOCIATION)


@computed
def _itself(s):
    """The number."""
    return s


@case("reductions", x=ROWS, s=3, a=0)
@rule
def scale_sum(x, s: Scalar, a: Param):
    """Products of integers of 64 bits distribute over their sums, which wrap around alike."""
    product = x * s
    made = rewrite(total(product, axis=a)).to(total(x, axis=a) * _itself(s))
    return made.when(whole(x), same_aval(x, product), used_once(product))


@case("reductions", x=ROWS, y=ROWS * 2)
@rule
def add_two_layers(x, y):
    """A sum over two layers of integers of 64 bits is that of the two."""
    return rewrite(total(stack(x, y, axis=0), axis=0)).to(x + y).when(whole(x, y))


@case("reductions", a=ROWS, b=ROWS.T, c=ROWS.T * 2)
@rule
def add_factors(a, b, c):
    """Matrix products of integers distribute over sums, which wrap around alike."""
    first, second = a @ b, a @ c
    made = rewrite(first + second).to(a @ (b + c))
    return made.when(alike(a, b, c, kinds="iu"), used_once(first), used_once(second))


@case("reductions", x=np.array([1.0, 3.0, 2.0, np.nan]), a=0)
@rule
def largest_so_far_once(x, a: Param):
    """What is the largest so far rises, so that it is the largest so far of itself."""
    largest = cumulative_max(x, axis=a)
    return rewrite(cumulative_max(largest, axis=a)).to(largest)


# --- parameters ----------------------------------------------------------------------------------------


@computed
def _wider(w, u):
    """Borders of both."""
    return tuple((a + c, b + d) for (a, b), (c, d) in zip(w, u, strict=True))


@case("parameters", x=np.array([1]), w=((1, 0),), u=((2, 1),), v=7)
@rule
def pad_once(x, w: Param, u: Param, v: Param):
    """A border around a border of the same value is one border, as wide as both."""
    return rewrite(pad(pad(x, widths=w, value=v), widths=u, value=v)).to(pad(x, widths=_wider(w, u), value=v))


@case("parameters", x=TRUTHS[0], y=TRUTHS[1])
@rule
def either_of_two_layers(x, y):
    """Whether any of two layers is true is whether one or the other is."""
    made = rewrite(any_(stack(x, y, axis=0), axis=0)).to(logical_or(x, y))
    return made.when(alike(x, y, kinds="b"))


@case("parameters", c=TRUTHS, x=ROWS[:, :2], y=ROWS[:, 1:])
@rule
def negate_choice(c, x, y):
    """Numbers of one dtype are negated alike before and after one of them is chosen."""
    first, second = -x, -y
    chosen = where(c, first, second)
    made = rewrite(chosen).to(-where(c, x, y))
    return made.when(same_dtype(x, y), no_larger(chosen, x), used_once(first), used_once(second))


@case("parameters", c=TRUTHS, x=ROWS[:, :2], y=ROWS[:, 1:], z=ROWS[:, ::2])
@rule
def add_after_choice(c, x, y, z):
    """What is added to both alternatives of one dtype is added to the one that is chosen."""
    first, second = x + z, y + z
    chosen = where(c, first, second)
    made = rewrite(chosen).to(where(c, x, y) + z)
    return made.when(same_dtype(x, y), no_larger(chosen, first), used_once(first), used_once(second))
