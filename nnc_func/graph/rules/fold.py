"""Folding: what depends on constants only is computed once, and casts and fills that do nothing are dropped."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.facets import shapes
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_aval, same_shape, that
from nnc_func.graph.rules.folding import elements, folded, folding
from nnc_func.graph.rules.move import elementwise_of_two, laid_out
from nnc_func.graph.rules.pattern import Param, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import (
    OWN,
    ROUNDING,
    Each,
    for_each,
    rewrite,
    rewriter,
    rule,
)
from nnc_func.op import Op

cast, full, reshape, permute_dims = OPS["cast"], OPS["full"], OPS["reshape"], OPS["permute_dims"]
broadcast_to, expand_dims, squeeze = OPS["broadcast_to"], OPS["expand_dims"], OPS["squeeze"]
MOVES = frozenset(
    (reshape, permute_dims, broadcast_to, expand_dims, squeeze, *(OPS[n] for n in ("flip", "slice", "tile")))
)

SAME = frozenset((reshape, expand_dims, squeeze))  # of a constant, a constant as large: kernels are to see that

JOINS = frozenset((OPS["concat"], OPS["stack"], OPS["pad"]))
KINDS = {"f": float, "i": int, "u": int, "b": bool}  # of dtypes, and of the numbers of fills

# --- constants -----------------------------------------------------------------------------------------


def _constant_operands(op: Op, operands: tuple[Op, ...]) -> bool:
    if op.multi_result or not op.pure or op.name.startswith("random"):
        return False
    if not operands:
        return op is full
    return all(o is CONSTANT or o is full for o in operands)


def _filled_operands(op: Op, operands: tuple[Op, ...]) -> bool:
    elementwise = (op.shape is shapes.broadcast and op.pure and not op.multi_result) or op is cast
    return elementwise and full in operands and all(o is CONSTANT or o is full for o in operands)


@rewriter(_filled_operands, numerics=ROUNDING, looks=1)
def fold_fills(node: Any, builder: Any) -> Any:
    """An elementwise operator of fills is a fill, of a number that is computed now."""
    numbers = [builder.number_of(a) for a in node.args]
    if None in numbers or node.aval.shape == () or node.dtype.kind == "c":
        return None
    constant, fold = builder.symbol.constant, folding(builder)
    try:
        with np.errstate(all="ignore"):
            operands = [elements(builder, constant(n, a.dtype)) for n, a in zip(numbers, node.args, strict=True)]
            found = builder.number_of(constant(fold(node.op, *operands, **node.params)))
    except NncError:
        return None  # it fails when the program runs, and says where
    return None if found is None else _filled(node, found, builder)


def _filled(node: Any, number: Any, builder: Any) -> Any:
    return builder.apply(full, (), {"shape": node.aval.shape, "value": number, "dtype": node.dtype})


def _any_fill(s: Param, v: Param, d: Param) -> Any:
    return apply(full, shape=s, value=v, dtype=d)


def _joined_fills(op: Op, operands: tuple[Op, ...]) -> bool:
    return op in JOINS and len(operands) > 0 and all(o is full for o in operands)


def _side_by_side(s: Param, v: Param, d: Param) -> Any:
    return OPS["concat"](_any_fill(s, v, d), _any_fill(s, v, d), axis=0)


@rewriter(_joined_fills, of=JOINS, samples=(_side_by_side,))
def join_fills(node: Any, builder: Any) -> Any:
    """Fills with one number that are put together, or get borders of that number, are one fill."""
    first, *others = (builder.number_of(a) for a in node.args)
    others += [node.params["value"]] if node.op is OPS["pad"] else []
    if first is None or node.dtype.kind not in KINDS or any(a.dtype != node.dtype for a in node.args):
        return None
    held = {repr(node.dtype.type(n).item()) for n in (first, *others) if known(n)}
    return _filled(node, first, builder) if len(held) == 1 and None not in others and all(map(known, others)) else None


@rewriter(_constant_operands, looks=1)
def fold_constants(node: Any, builder: Any) -> Any:
    """A pure operator of constants is computed now, unless the result would be large; one number stays a fill."""
    if not node.args and node.aval.shape != ():
        return None  # a fill is smaller than what it makes
    if node.op in MOVES and (number := builder.number_of(node.args[0])) is not None and node.aval.place is None:
        return None if node.args[0].node.op is full else _filled(node, number, builder)  # which `move_full` moves
    return folded(node, builder, as_large=node.op in SAME)


# --- casts ---------------------------------------------------------------------------------------------


@rule
def drop_cast(x, d: Param):
    """A cast to the dtype that a tensor has is dropped."""
    changed = cast(x, dtype=d)
    return rewrite(changed).to(x).when(same_aval(x, changed))


def _loses_nothing(x: Any, d: Any, e: Any) -> bool:
    """Every number of one dtype is one of the second, and the third's are reached from both alike."""
    have, wanted = np.dtype(x.dtype), np.dtype(d)
    if kind_of(have) in "fc" and np.dtype(e).kind in "biu":
        return False  # numbers too large for an integer give what the processor makes of their width
    if have.kind in "iu" and kind_of(wanted) in "fc":
        bits = have.itemsize * 8 - (have.kind == "i")
        return bool(bits <= limits_of(wanted).nmant + 1)
    return np.can_cast(have, wanted, "safe")


@rule
def merge_casts(x, d: Param, e: Param):
    """Of two casts in a row, the first of which loses nothing, the last remains."""
    return (
        rewrite(cast(cast(x, dtype=d), dtype=e))
        .to(cast(x, dtype=e))
        .when(that(_loses_nothing, x, d, e, says=f"{d} holds every number of {x}, and {e} cuts off none"))
    )


# --- fills ---------------------------------------------------------------------------------------------


def _moves(op: Op) -> Any:
    if op in MOVES:
        yield Each(op), None


@for_each(_moves, "moves elements without changing them", at=OWN)
def move_full(f, _, s: Param, v: Param, d: Param):
    """A fill in another shape is a fill of that shape."""
    moved = f(apply(full, shape=s, value=v, dtype=d))
    return rewrite(moved).to(apply(full, shape=shape_of(moved), value=v, dtype=dtype_of(moved)))


def _reductions(op: Op) -> Iterator[tuple[Each, bool]]:
    """Reductions of which the result, for equal elements, is that element; or their sum."""
    if op.name in ("max", "min", "mean", "sum"):
        yield Each(op), op.name == "sum"


@computed
def _reduced(value: Any, x: Any, result: Any, adds: bool) -> Any:
    """What the elements of a fill are reduced to."""
    return value * (x.aval.size // result.aval.size) if adds else value


def _is_exact(value: Any, x: Any, result: Any, adds: bool, rounds: bool) -> bool:
    """Whether there are elements, and every sum of them is one that the dtype holds."""
    one, other = x.aval.size, result.aval.size
    if not (known(one) and known(other) and one and other and known(value)) or result.dtype.kind in "cb":
        return False
    if not rounds:
        return True
    total = abs(value) * (one // other)
    if kind_of(result.dtype) != "f":
        return bool(total <= np.iinfo(result.dtype).max)
    return value == int(value) and total < 2.0 ** limits_of(result.dtype).nmant if np.isfinite(value) else False


@for_each(_reductions, "reduces equal elements to a number that is known", at=OWN)
def reduce_full(f, adds, s: Param, v: Param, d: Param):
    """A sum, a mean or an extremum of a fill is a fill, where no sum of its elements is rounded."""
    x = apply(full, shape=s, value=v, dtype=d)
    result = f(x)
    rounds = adds or f.op.name == "mean"
    exact = that(
        lambda v, x, result: _is_exact(v, x, result, adds, rounds),
        *(v, x, result),
        says=f"{x} has elements, and their sums are held exactly",
    )
    total = _reduced(v, x, result, adds)
    return rewrite(result).to(apply(full, shape=shape_of(result), value=total, dtype=dtype_of(result))).when(exact)


@computed
def _no_axes(s):
    """The shape of a tensor of rank 0."""
    return ()


@for_each(elementwise_of_two, "is elementwise, of two arguments", at=OWN)
def shrink_full(f, _, y, s: Param, v: Param, d: Param):
    """A fill beside a tensor of the result's shape is one number, which broadcasts."""
    filled = apply(full, shape=s, value=v, dtype=d)
    applied = f(y, filled)
    return (
        rewrite(applied)
        .to(f(y, apply(full, shape=_no_axes(s), value=v, dtype=d)))
        .when(same_shape(y, applied), that(bool, s, says=f"{filled} has axes", kind="profit"))
        .up_to(laid_out(f.op))
    )
