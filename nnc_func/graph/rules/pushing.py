"""Rules that move movement past elementwise operators: each kind in the direction that `move` tells."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.errors import ShapeError
from nnc_func.facets import shapes
from nnc_func.facets.dims import known, product
from nnc_func.facets.shapes import broadcast
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import PROFIT, same_shape, that, used_once
from nnc_func.graph.rules.move import composed, elementwise_of_two, laid_out, order_of
from nnc_func.graph.rules.pattern import Param, shape_of
from nnc_func.graph.rules.rule import OWN, Each, for_each, rewrite
from nnc_func.op import Op

reshape, permute_dims, broadcast_to, slice_ = OPS["reshape"], OPS["permute_dims"], OPS["broadcast_to"], OPS["slice"]
cast = OPS["cast"]


def _of_one(op: Op) -> Any:
    if op is cast or (op.shape is shapes.broadcast and len(op.args) == 1 and not op.variadic):
        yield Each(op), None


def _of_two(op: Op) -> Any:
    if op.shape is shapes.broadcast and len(op.args) == 2:
        yield Each(op), None


# --- reshapes ------------------------------------------------------------------------------------------


@for_each(_of_one, "is elementwise, of one argument", at=(OPS["reshape"],))
def merge_reshapes_around_elementwise(f, _, x, s: Param, t: Param):
    """Of two reshapes, with an elementwise operator between them, the last remains."""
    before = reshape(x, shape=s)
    between = f(before)
    last = reshape(between, shape=t)
    return (
        rewrite(last)
        .to(reshape(f(x), shape=shape_of(last)))
        .when(used_once(between), used_once(before))
        .up_to(laid_out(f.op))
    )


@for_each(_of_two, "is elementwise, of two arguments", at=OWN)
def reshape_both_after_elementwise(f, _, x, y, s: Param):
    """Two operands that are reshaped alike are reshaped together."""
    left, right = reshape(x, shape=s), reshape(y, shape=s)
    return (
        rewrite(f(left, right))
        .to(reshape(f(x, y), shape=s))
        .when(same_shape(x, y), used_once(left), used_once(right))
        .up_to(laid_out(f.op))
    )


# --- transposes ----------------------------------------------------------------------------------------


def _alike(x: Any, p: Any, y: Any, q: Any) -> bool:
    return order_of(p, x) == order_of(q, y)


@for_each(_of_two, "is elementwise, of two arguments", at=OWN)
def transpose_both_after_elementwise(f, _, x, y, p: Param, q: Param):
    """Two operands that are transposed alike are transposed together."""
    left, right = permute_dims(x, axes=p), permute_dims(y, axes=q)
    return (
        rewrite(f(left, right))
        .to(permute_dims(f(x, y), axes=p))
        .when(that(_alike, x, p, y, q, says=f"{p} and {q} put axes in one order"), used_once(left), used_once(right))
        .up_to(laid_out(f.op))
    )


@for_each(_of_one, "is elementwise, of one argument", at=(OPS["permute_dims"],))
def merge_transposes_around_elementwise(f, _, x, p: Param, q: Param):
    """Two transposes, with an elementwise operator between them, are one."""
    before = permute_dims(x, axes=p)
    between = f(before)
    return (
        rewrite(permute_dims(between, axes=q))
        .to(f(permute_dims(x, axes=composed(p, q, x))))
        .when(used_once(between), used_once(before))
        .up_to(laid_out(f.op))
    )


# --- broadcasts ----------------------------------------------------------------------------------------


def _smaller(x: Any, than: Any) -> bool:
    size = product(than.shape)
    return bool(known(size) and known(product(x.shape)) and product(x.shape) < size)


def _narrower(x: Any, y: Any, applied: Any) -> bool:
    try:
        size, whole = product(broadcast(x.shape, y.shape)), product(applied.shape)
    except ShapeError:
        return False
    return bool(known(size) and known(whole) and size < whole)


@for_each(_of_one, "is elementwise, of one argument", at=OWN)
def broadcast_after_elementwise(f, _, x, s: Param):
    """An elementwise operator computes each element once, before it is broadcast."""
    widened = broadcast_to(x, shape=s)
    return (
        rewrite(f(widened))
        .to(broadcast_to(f(x), shape=s))
        .when(that(_smaller, x, widened, says=f"{x} has fewer elements", kind=PROFIT))
        .up_to(laid_out(f.op))
    )


@for_each(elementwise_of_two, "is elementwise, of two arguments", at=OWN)
def broadcast_result_of_elementwise(f, _, x, y, s: Param):
    """An elementwise operator of what is broadcast further than the other operand asks is broadcast afterwards."""
    applied = f(broadcast_to(x, shape=s), y)
    return (
        rewrite(applied)
        .to(broadcast_to(f(x, y), shape=shape_of(applied)))
        .when(that(_narrower, x, y, applied, says=f"{x} and {y} have fewer elements together"))  # none may fail in vain
        .up_to(laid_out(f.op))
    )


# --- slices --------------------------------------------------------------------------------------------


@for_each(_of_one, "is elementwise, of one argument", at=(OPS["slice"],))
def slice_before_elementwise(f, _, x, a: Param, b: Param, c: Param):
    """An elementwise operator, of whose result only a slice is used, is computed of the slice."""
    applied = f(x)
    shown = slice_(applied, starts=a, stops=b, steps=c)
    return (
        rewrite(shown)
        .to(f(slice_(x, starts=a, stops=b, steps=c)))
        .when(used_once(applied), that(_smaller, shown, applied, says=f"{shown} has fewer elements", kind=PROFIT))
        .up_to(laid_out(f.op))
    )


@for_each(_of_two, "is elementwise, of two arguments", at=(OPS["slice"],))
def slice_both_before_elementwise(f, _, x, y, a: Param, b: Param, c: Param):
    """An elementwise operator of two, of whose result only a slice is used, is computed of slices."""
    applied = f(x, y)
    shown = slice_(applied, starts=a, stops=b, steps=c)
    sliced = {"starts": a, "stops": b, "steps": c}
    return (
        rewrite(shown)
        .to(f(slice_(x, **sliced), slice_(y, **sliced)))
        .when(
            same_shape(x, y),
            used_once(applied),
            that(_smaller, shown, applied, says=f"{shown} has fewer elements", kind=PROFIT),
        )
        .up_to(laid_out(f.op))
    )
