"""Rules of reductions: of what has been moved before, of tensors in which elements repeat, and of each other.

The order in which one operator adds is the device's, and depends on how elements lie in memory. To give it the same
elements in another place is therefore up to rounding; what adds partial sums in another order is reassociation.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known, product
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.shapes import normalise_axes, reduced
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import real, same_dtype, that, used_once
from nnc_func.graph.rules.move import REARRANGING, RESHAPING, apart, order_of, other
from nnc_func.graph.rules.pattern import Param, apply, computed, shape_of
from nnc_func.graph.rules.rule import (
    EXACT,
    OWN,
    REASSOCIATION,
    ROUNDING,
    SIGNED_ZERO,
    Each,
    Numerics,
    for_each,
    rewrite,
    rule,
)
from nnc_func.op import Op

reshape, permute_dims, broadcast_to, total = OPS["reshape"], OPS["permute_dims"], OPS["broadcast_to"], OPS["sum"]
LOGIC = (OPS["any"], OPS["all"])
EXTREMES = (OPS["max"], OPS["min"])
SUMS = (total, OPS["mean"], OPS["prod"], OPS["logsumexp"])
MULTIPLYING = (OPS["mean"], OPS["prod"])  # by one at least: of a complex number a NaN in one part reaches the other
REDUCTIONS = (*LOGIC, *EXTREMES, *SUMS)
POSITIONS = (OPS["argmax"], OPS["argmin"])


def _up_to(op: Op) -> Numerics:
    """What it costs to reduce the same elements in another place."""
    return EXACT if op in LOGIC else SIGNED_ZERO if op in EXTREMES else ROUNDING


def _reductions(op: Op) -> Any:
    if op in REDUCTIONS:
        yield Each(op), None


# --- shapes of results ---------------------------------------------------------------------------------


def _reshaped_reductions(op: Op) -> Any:
    for reshaping in RESHAPING:
        if op in REDUCTIONS or op in POSITIONS:
            yield Each(op), reshaping


@for_each(_reshaped_reductions, "reduces axes", at=[OPS[name] for name in ("expand_dims", "reshape", "squeeze")])
def keep_reduced_axes(f, reshaping, x):
    """A reshape that puts reduced axes back, or drops those that were kept, is the reduction's own parameter."""
    found = f(x)
    axis, keepdims = f.params["axis"], f.params["keepdims"]
    reshaped = Each(reshaping, params=apart(reshaping))(found)
    return (
        rewrite(reshaped)
        .to(apply(f.op, x, axis=axis, keepdims=other(keepdims)))
        .when(
            that(_only_keeps, x, axis, keepdims, reshaped, says=f"{reshaped} only keeps reduced axes, or drops them"),
            used_once(found),
        )
    )


def _only_keeps(x: Any, axis: Any, keepdims: bool, reshaped: Any) -> bool:
    return bool(reduced(x.shape, axis=axis, keepdims=not keepdims) == reshaped.shape)


def _of_one(axis: Any, x: Any) -> bool:
    return all(x.shape[a] == 1 for a in normalise_axes(axis, len(x.shape)))


@for_each(_reductions, "reduces axes", at=OWN)
def drop_reduction_of_one(f, _, x):
    """A reduction of axes with one element each is a reshape."""
    found = f(x)
    axis = f.params["axis"]
    return (
        rewrite(found)
        .to(reshape(x, shape=shape_of(found)))
        .when(
            that(_of_one, axis, x, says=f"{x} has extent 1 along {axis}"),
            same_dtype(x, found),
            *([real(x)] if f.op in MULTIPLYING else []),
        )
        .up_to(ROUNDING if f.op is OPS["logsumexp"] else SIGNED_ZERO)
    )


# --- of what has been moved ----------------------------------------------------------------------------


@computed
def _axes_before(axis, p, x):
    """The axes that are reduced, counted before the transpose."""
    order = order_of(p, x)
    return tuple(sorted(order[a] for a in normalise_axes(axis, len(order))))


def _keeps_order(axis: Any, keepdims: bool, p: Any, x: Any) -> bool:
    """Whether axes that remain are in one order with the transpose and without it."""
    order = order_of(p, x)
    gone = normalise_axes(axis, len(order))
    kept = [(i, a) for i, a in enumerate(order) if i not in gone]
    return all(i == a for i, a in kept) if keepdims else kept == sorted(kept, key=lambda pair: pair[1])


@for_each(_reductions, "reduces axes", at=OWN)
def reduce_without_transpose(f, _, x, p: Param):
    """A reduction of a transposed tensor reduces the axes where they were before."""
    found = f(permute_dims(x, axes=p))
    axis, keepdims = f.params["axis"], f.params["keepdims"]
    return (
        rewrite(found)
        .to(apply(f.op, x, axis=_axes_before(axis, p, x), keepdims=keepdims))
        .when(that(_keeps_order, axis, keepdims, p, x, says=f"{p} leaves axes that are kept in their order"))
        .up_to(_up_to(f.op))
    )


def _rearranged_reductions(op: Op) -> Any:
    for rearranging in REARRANGING:
        if op in REDUCTIONS:
            yield Each(op), rearranging


def _all_axes(axis: Any, x: Any) -> bool:
    return len(normalise_axes(axis, len(x.shape))) == len(x.shape)


@for_each(_rearranged_reductions, "reduces axes", at=OWN)
def reduce_all_without_rearranging(f, rearranging, x, a: Param):
    """A reduction to one number does not ask how the elements are arranged."""
    moved = Each(rearranging, params=apart(rearranging))(x)
    return (
        rewrite(apply(f.op, moved, axis=a))
        .to(apply(f.op, x))
        .when(that(_all_axes, a, moved, says=f"{a} are all axes of {moved}"))
        .up_to(_up_to(f.op))
    )


# --- of elements that repeat ---------------------------------------------------------------------------


@computed
def _own_axes(axis, x, s):
    """The axes of x, which is broadcast to the shape, among those that are reduced."""
    lead = len(s) - len(x.shape)
    return tuple(a - lead for a in normalise_axes(axis, len(s)) if a >= lead)


def _times(axis: Any, x: Any, s: Any) -> Any:
    """How often each element of x is among the elements of the shape that are reduced."""
    lead = len(s) - len(x.shape)
    return product(tuple(s[a] for a in normalise_axes(axis, len(s)) if a < lead or x.shape[a - lead] != s[a]))


times = computed(_times)
times.__name__ = "times"


def _some(axis: Any, x: Any, s: Any) -> bool:
    n = _times(axis, x, s)
    return bool(known(n) and n > 0)


def _once_or_more(op: Op) -> Any:
    if op in (*LOGIC, *EXTREMES, OPS["mean"]):
        yield Each(op), None


@for_each(_once_or_more, "reduces axes, and does not ask how often an element occurs", at=OWN)
def reduce_before_broadcasting(f, _, x, s: Param):
    """A mean, or the largest element, of repeated elements is that of the elements."""
    found = f(broadcast_to(x, shape=s))
    axis, keepdims = f.params["axis"], f.params["keepdims"]
    return (
        rewrite(found)
        .to(broadcast_to(apply(f.op, x, axis=_own_axes(axis, x, s), keepdims=keepdims), shape=shape_of(found)))
        .when(that(_some, axis, x, s, says=f"{x} is repeated once at least along {axis}"))
        .up_to(_up_to(f.op))
    )


def _countable(axis: Any, x: Any, s: Any, summed: Any) -> bool:
    if not _some(axis, x, s) or summed.dtype.kind == "c":
        return False
    return kind_of(summed.dtype) in "iu" or _times(axis, x, s) <= 1 << limits_of(summed.dtype).nmant + 1


@rule
def sum_before_broadcasting(x, s: Param, a: Param, k: Param):
    """A sum of repeated elements is a multiple of the sum of the elements."""
    summed = total(broadcast_to(x, shape=s), axis=a, keepdims=k)
    return (
        rewrite(summed)
        .to(broadcast_to(total(x, axis=_own_axes(a, x, s), keepdims=k) * times(a, x, s), shape=shape_of(summed)))
        .when(
            that(_countable, a, x, s, summed, says=f"{x} is real and repeated, as often as its dtype counts at most"),
        )
        .up_to(ROUNDING)
    )


# --- of reductions -------------------------------------------------------------------------------------


@computed
def _both_axes(first, then, x, keepdims):
    """The axes of x that are reduced by two reductions, one after the other."""
    rank = len(x.shape)
    gone = normalise_axes(first, rank)
    kept = range(rank) if keepdims else [i for i in range(rank) if i not in gone]
    return tuple(sorted({*gone, *(kept[i] for i in normalise_axes(then, len(kept)))}))


@for_each(_reductions, "reduces axes", at=OWN)
def merge_reductions(f, _, x, a: Param, b: Param, k: Param):
    """Two reductions of one kind in a row are one, of all their axes."""
    inner = apply(f.op, x, axis=a, keepdims=k)
    return (
        rewrite(apply(f.op, inner, axis=b, keepdims=k))
        .to(apply(f.op, x, axis=_both_axes(a, b, x, k), keepdims=k))
        .when(used_once(inner))
        .up_to(REASSOCIATION if f.op in SUMS else _up_to(f.op))
    )
