"""Rules of movement: reshapes, transposes and broadcasts that do nothing, or are done by what comes after."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets import shapes
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import broadcasts, same_aval, same_dtype, that
from nnc_func.graph.rules.pattern import Param, computed, shape_of
from nnc_func.graph.rules.rule import (
    EXACT,
    REASSOCIATION,
    ROUNDING,
    SIGNED_ZERO,
    Each,
    for_each,
    rewrite,
    rule,
)
from nnc_func.op import Op

reshape, permute_dims, broadcast_to = OPS["reshape"], OPS["permute_dims"], OPS["broadcast_to"]
expand_dims, squeeze, matmul, total = OPS["expand_dims"], OPS["squeeze"], OPS["matmul"], OPS["sum"]

# --- reshapes ------------------------------------------------------------------------------------------


def _reshaping(op: Op) -> Any:
    if op in (reshape, expand_dims, squeeze):
        yield Each(op), None


@for_each(_reshaping, "puts the elements, in their order, in another shape")
def drop_reshape(f, _, x):
    """A reshape to the shape that a tensor has is dropped."""
    reshaped = f(x)
    return rewrite(reshaped).to(x).when(same_aval(x, reshaped))


def _reshaping_twice(op: Op) -> Any:
    for other in (reshape, expand_dims, squeeze):
        if op in (reshape, expand_dims, squeeze):
            yield Each(op), other


@for_each(_reshaping_twice, "puts the elements, in their order, in another shape")
def merge_reshapes(f, first, x):
    """Of two reshapes in a row one remains."""
    last = f(Each(first, params=_apart(first))(x))
    return rewrite(last).to(reshape(x, shape=shape_of(last)))


def _apart(op: Op) -> dict[str, Param]:
    return {name: Param(f"{name} before") for name in op.params}


# --- transposes ----------------------------------------------------------------------------------------


@computed
def _order(axes, x):
    rank = len(x.shape)
    return tuple(range(rank))[::-1] if axes is None else tuple(normalise_axis(a, rank) for a in axes)


@computed
def _composed(first, then, x):
    """The order of axes that has the effect of two orders, one after the other."""
    before, after = _order(first, x), _order(then, x)
    return tuple(before[a] for a in after)


@rule
def merge_transposes(x, p: Param, q: Param):
    """Two transposes in a row are one."""
    return rewrite(permute_dims(permute_dims(x, axes=p), axes=q)).to(permute_dims(x, axes=_composed(p, q, x)))


@rule
def drop_transpose(x, p: Param):
    """A transpose that leaves every axis in its place is dropped."""
    return (
        rewrite(permute_dims(x, axes=p))
        .to(x)
        .when(that(lambda p, x: _order(p, x) == tuple(range(len(x.shape))), p, x, says=f"{p} changes nothing"))
    )


def _swaps_last(p: Any, x: Any) -> bool:
    rank = len(x.shape)
    return rank >= 2 and _order(p, x) == (*range(rank - 2), rank - 1, rank - 2)


@computed
def _other(flag):
    """The opposite of a flag."""
    return not flag


@rule
def transpose_left(x, y, p: Param, a: Param, b: Param):
    """A transpose of a matrix product's left operand becomes its flag, and nothing is copied for it."""
    product = matmul(permute_dims(x, axes=p), y, transpose_a=a, transpose_b=b)
    return (
        rewrite(product)
        .to(matmul(x, y, transpose_a=_other(a), transpose_b=b))
        .when(that(_swaps_last, p, x, says=f"{p} exchanges the last two axes"))
        .up_to(ROUNDING)
    )


@rule
def transpose_right(x, y, p: Param, a: Param, b: Param):
    """A transpose of a matrix product's right operand becomes its flag, and nothing is copied for it."""
    product = matmul(x, permute_dims(y, axes=p), transpose_a=a, transpose_b=b)
    return (
        rewrite(product)
        .to(matmul(x, y, transpose_a=a, transpose_b=_other(b)))
        .when(that(_swaps_last, p, y, says=f"{p} exchanges the last two axes"))
        .up_to(ROUNDING)
    )


# --- broadcasts ----------------------------------------------------------------------------------------


@rule
def drop_broadcast(x, s: Param):
    """A broadcast to the shape that a tensor has is dropped."""
    widened = broadcast_to(x, shape=s)
    return rewrite(widened).to(x).when(same_aval(x, widened))


@rule
def merge_broadcasts(x, s: Param, t: Param):
    """Of two broadcasts in a row the last remains."""
    return rewrite(broadcast_to(broadcast_to(x, shape=s), shape=t)).to(broadcast_to(x, shape=t))


def _elementwise_of_two(op: Op) -> Any:
    if op.shape is shapes.broadcast and len(op.args) == 2:
        yield Each(op), None
        if not op.has("commutative"):
            yield Each(op, flipped=True), None


@for_each(_elementwise_of_two, "is elementwise, of two arguments")
def rely_on_broadcasting(f, _, x, y, s: Param):
    """A broadcast whose only effect is what the operator's own broadcasting does is dropped."""
    applied = f(broadcast_to(x, shape=s), y)
    up_to = SIGNED_ZERO if f.op.has("idempotent") else EXACT  # of 0.0 and -0.0 the first may be taken for the larger
    return rewrite(applied).to(f(x, y)).when(broadcasts(x, y, to=applied)).up_to(up_to)


# --- sums ----------------------------------------------------------------------------------------------


def _of_one(axis: Any, x: Any) -> bool:
    return all(x.shape[a] == 1 for a in normalise_axes(axis, len(x.shape)))


@rule
def drop_sum_of_one(x, a: Param, k: Param):
    """A sum over axes with one element each is a reshape."""
    summed = total(x, axis=a, keepdims=k)
    return (
        rewrite(summed)
        .to(reshape(x, shape=shape_of(summed)))
        .when(that(_of_one, a, x, says=f"{x} has extent 1 along {a}"), same_dtype(x, summed))
        .up_to(SIGNED_ZERO)
    )


@computed
def _both_axes(first, then, x):
    """Axes of x that are summed by two sums, one after the other, that drop them."""
    rank = len(x.shape)
    gone = normalise_axes(first, rank)
    kept = [i for i in range(rank) if i not in gone]
    return tuple(sorted((*gone, *(kept[i] for i in normalise_axes(then, len(kept))))))


@rule
def merge_sums(x, a: Param, b: Param):
    """Two sums in a row are one, in another order of additions."""
    return rewrite(total(total(x, axis=a), axis=b)).to(total(x, axis=_both_axes(a, b, x))).up_to(REASSOCIATION)
