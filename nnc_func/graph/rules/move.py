"""Rules of movement: reshapes, transposes and broadcasts that do nothing, or are done by what comes after.

Each kind of movement has one direction, so that rules end and do not undo each other:

- broadcasts go towards results: what is computed before one is computed of fewer elements;
- slices go towards inputs: what nobody looks at is not computed;
- reshapes and transposes stay where they are, unless they meet another, an equal one beside them, or what has a
  parameter for them: a product its flags, a reduction its axes. Equal ones go towards results, and become one.

A view costs a call and no memory. So a rule that only exchanges views must leave fewer of them.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets import shapes
from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import broadcasts, same_aval, that
from nnc_func.graph.rules.pattern import Param, computed, shape_of
from nnc_func.graph.rules.rule import EXACT, OWN, ROUNDING, SIGNED_ZERO, Each, Numerics, for_each, rewrite, rule
from nnc_func.op import Op

reshape, permute_dims, broadcast_to = OPS["reshape"], OPS["permute_dims"], OPS["broadcast_to"]
expand_dims, squeeze, flip = OPS["expand_dims"], OPS["squeeze"], OPS["flip"]
RESHAPING = (reshape, expand_dims, squeeze)
REARRANGING = (*RESHAPING, permute_dims, flip)  # every element once

# --- reshapes ------------------------------------------------------------------------------------------


def _reshaping(op: Op) -> Any:
    if op in RESHAPING:
        yield Each(op), None


@for_each(_reshaping, "puts the elements, in their order, in another shape", at=OWN)
def drop_reshape(f, _, x):
    """A reshape to the shape that a tensor has is dropped."""
    reshaped = f(x)
    return rewrite(reshaped).to(x).when(same_aval(x, reshaped))


def _reshaping_twice(op: Op) -> Any:
    for first in RESHAPING:
        if op in RESHAPING:
            yield Each(op), first


@for_each(_reshaping_twice, "puts the elements, in their order, in another shape", at=OWN)
def merge_reshapes(f, first, x):
    """Of two reshapes in a row one remains."""
    last = f(Each(first, params=apart(first))(x))
    return rewrite(last).to(reshape(x, shape=shape_of(last)))


def apart(op: Op) -> dict[str, Param]:
    """Variables for the parameters of an operator that occurs beside another with the same names."""
    return {name: Param(f"{name} before") for name in op.params}


@computed
def other(flag):
    """The opposite of a flag."""
    return not flag


# --- transposes ----------------------------------------------------------------------------------------


def order_of(axes: Any, x: Any) -> tuple[int, ...]:
    """The order of axes that a parameter of `permute_dims` names."""
    rank = len(x.shape)
    return tuple(range(rank))[::-1] if axes is None else tuple(normalise_axis(a, rank) for a in axes)


@computed
def composed(first, then, x):
    """The order of axes that has the effect of two orders, one after the other."""
    before, after = order_of(first, x), order_of(then, x)
    return tuple(before[a] for a in after)


@rule
def merge_transposes(x, p: Param, q: Param):
    """Two transposes in a row are one."""
    return rewrite(permute_dims(permute_dims(x, axes=p), axes=q)).to(permute_dims(x, axes=composed(p, q, x)))


@rule
def drop_transpose(x, p: Param):
    """A transpose that leaves every axis in its place is dropped."""
    return (
        rewrite(permute_dims(x, axes=p))
        .to(x)
        .when(that(lambda p, x: order_of(p, x) == tuple(range(len(x.shape))), p, x, says=f"{p} changes nothing"))
    )


def _is_one(n: Any) -> bool:
    return bool(known(n) and n == 1)


def _moves_ones(p: Any, x: Any) -> bool:
    """Whether only axes of extent 1 change their places among the others."""
    kept = [a for a in order_of(p, x) if not _is_one(x.shape[a])]
    return kept == sorted(kept)


@for_each(_reshaping, "puts the elements, in their order, in another shape", at=OWN)
def drop_transpose_of_ones(f, _, x, p: Param):
    """A transpose that moves axes of extent 1 only, before a reshape, is part of it."""
    reshaped = f(permute_dims(x, axes=p))
    return (
        rewrite(reshaped)
        .to(reshape(x, shape=shape_of(reshaped)))
        .when(that(_moves_ones, p, x, says=f"{p} moves only axes of extent 1"))
    )


@for_each(_reshaping, "puts the elements, in their order, in another shape")
def drop_transpose_to_ones(f, _, x, p: Param):
    """A transpose that moves axes of extent 1 only, after a reshape, is part of it."""
    reshaped = f(x)
    turned = permute_dims(reshaped, axes=p)
    return (
        rewrite(turned)
        .to(reshape(x, shape=shape_of(turned)))
        .when(that(_moves_ones, p, reshaped, says=f"{p} moves only axes of extent 1"))
    )


@computed
def _either(a, b, x):
    """The axes that one of two flips turns, not both."""
    rank = len(x.shape)
    return tuple(sorted({*normalise_axes(a, rank)} ^ {*normalise_axes(b, rank)}))


@rule
def merge_flips(x, a: Param, b: Param):
    """Of two flips in a row one remains, of the axes that only one of them turns."""
    return rewrite(flip(flip(x, axis=a), axis=b)).to(flip(x, axis=_either(a, b, x)))


def _no_more_than_one(axis: Any, x: Any) -> bool:
    return all(known(x.shape[a]) and x.shape[a] <= 1 for a in normalise_axes(axis, len(x.shape)))


@rule
def drop_flip(x, a: Param):
    """A flip of axes with one element each, or of none, is dropped."""
    return rewrite(flip(x, axis=a)).to(x).when(that(_no_more_than_one, a, x, says=f"{x} has no two elements along {a}"))


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


def _unbroadcast(x: Any, s: Any, wanted: Any) -> tuple[Any, ...]:
    """The shape from which the broadcast gives what is wanted, where it gave `s`."""
    own = iter([m for m, n in zip((1,) * (len(s) - len(x.shape)) + x.shape, s, strict=True) if not _is_one(n)])
    return tuple(1 if _is_one(n) else next(own) for n in wanted)


_shape_before = computed(_unbroadcast)


def _differ_in_ones(s: Any, reshaped: Any) -> bool:
    return [n for n in s if not _is_one(n)] == [n for n in reshaped.shape if not _is_one(n)]


def _broadcasts_alone(x: Any, s: Any, reshaped: Any) -> bool:
    if not _differ_in_ones(s, reshaped) or len(x.shape) > len(reshaped.shape):
        return False
    return _from_first(x.shape) == _from_first(_unbroadcast(x, s, reshaped.shape))


@for_each(_reshaping, "puts the elements, in their order, in another shape", at=OWN)
def drop_reshape_of_broadcast(f, _, x, s: Param):
    """A reshape that adds or drops axes of extent 1 is dropped where the broadcast before it does the same."""
    reshaped = f(broadcast_to(x, shape=s))
    return (
        rewrite(reshaped)
        .to(broadcast_to(x, shape=shape_of(reshaped)))
        .when(that(_broadcasts_alone, x, s, reshaped, says=f"{x} broadcasts to the shape of {reshaped} alike"))
    )


@for_each(_reshaping_twice, "puts the elements, in their order, in another shape", at=OWN)
def merge_reshapes_around_broadcast(f, first, x, s: Param):
    """Of two reshapes around a broadcast, the last of which adds or drops axes of extent 1, one remains."""
    reshaped = Each(first, params=apart(first))(x)
    last = f(broadcast_to(reshaped, shape=s))
    return (
        rewrite(last)
        .to(broadcast_to(reshape(x, shape=_shape_before(reshaped, s, shape_of(last))), shape=shape_of(last)))
        .when(that(_differ_in_ones, s, last, says=f"{last} and {s} differ in axes of extent 1 only"))
    )


def elementwise_of_two(op: Op) -> Any:
    """The operator, and where it does not commute also with its operands exchanged."""
    if op.shape is shapes.broadcast and len(op.args) == 2:
        yield Each(op), None
        if not op.has("commutative"):
            yield Each(op, flipped=True), None


def laid_out(op: Op) -> Numerics:
    """What it costs to lay operands out otherwise: of 0.0 and -0.0 the first may be taken for the larger.

    A vectorised function may round otherwise where elements lie otherwise, and a power where its exponent is a number.
    """
    return max(SIGNED_ZERO if op.has("idempotent") else EXACT, EXACT if op.tolerance.ulps == 0 else ROUNDING)


@for_each(elementwise_of_two, "is elementwise, of two arguments", at=OWN)
def rely_on_broadcasting(f, _, x, y, s: Param):
    """A broadcast whose only effect is what the operator's own broadcasting does is dropped."""
    applied = f(broadcast_to(x, shape=s), y)
    return rewrite(applied).to(f(x, y)).when(broadcasts(x, y, to=applied)).up_to(laid_out(f.op))


def _reshaping_beside(op: Op) -> Any:
    for each, _ in elementwise_of_two(op):
        for reshaping in RESHAPING:
            yield each, reshaping


def _leads(x: Any, reshaped: Any, y: Any, applied: Any) -> bool:
    if _from_first(x.shape) != _from_first(reshaped.shape):
        return False
    return bool(shapes.broadcast(x.shape, y.shape) == applied.shape)


@for_each(_reshaping_beside, "is elementwise, of two arguments", at=OWN)
def rely_on_leading_axes(f, reshaping, x, y):
    """Axes of extent 1 that are put in front, or dropped there, are what the operator's own broadcasting does."""
    reshaped = Each(reshaping, params=apart(reshaping))(x)
    applied = f(reshaped, y)
    return (
        rewrite(applied)
        .to(f(x, y))
        .when(that(_leads, x, reshaped, y, applied, says=f"{x} differs in leading axes of 1 only, which {y} has"))
        .up_to(laid_out(f.op))
    )


def _from_first(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without leading axes of extent 1."""
    return shape[next((i for i, n in enumerate(shape) if not _is_one(n)), len(shape)) :]
