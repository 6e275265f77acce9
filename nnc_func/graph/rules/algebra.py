"""Rules of algebra: laws that operators declare, each one rule over all operators that declare it.

What is written in several ways is brought to one, so that rules meet. No rule goes against these directions:

- constants gather at the end of a chain, and operators of constants are constants (`fold`);
- negations move out, towards the result, where an addition, a subtraction or a constant takes them in (`signs`);
- powers become products, roots and reciprocals (`powers`);
- negated comparisons become the opposite ones, and choices lose what their condition tells (`logic`).

Where a law holds of every number of some kinds of dtype its rule fires there, and bit by bit; where it holds of finite
numbers only, a second rule needs ``fast_math``.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnc_func.facets.laws import Law
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import PROFIT, alike, of_kinds, same_aval, that, used_once
from nnc_func.graph.rules.pattern import apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import (
    EXACT,
    OWN,
    REASSOCIATION,
    ROUNDING,
    SIGNED_ZERO,
    Each,
    Numerics,
    for_each,
    for_law,
    rewrite,
)
from nnc_func.op import Op

# --- numbers -------------------------------------------------------------------------------------------


@for_law("unit", arity=2, at=OWN)
def drop_unit(f, law, x):
    """A unit (zero added, one multiplied) is dropped."""
    applied = f(x, law.value)
    return rewrite(applied).to(x).when(same_aval(x, applied), of_kinds(x, law.kinds)).up_to(_of_unit(f))


@for_law("unit", arity=2, at=OWN)
def drop_widening_unit(f, law, x):
    """A unit that widens the other operand, or promotes it, leaves a broadcast and a cast."""
    applied = f(x, law.value)
    promoted = OPS["cast"](x, dtype=dtype_of(applied))
    widened = OPS["broadcast_to"](promoted, shape=shape_of(applied))
    widens = that(lambda x, y: x.aval != y.aval, x, applied, says=f"{applied} is wider than {x}", kind=PROFIT)
    return rewrite(applied).to(widened).when(of_kinds(x, law.kinds), widens).up_to(_of_unit(f))


def _of_unit(f: Each) -> Numerics:
    return SIGNED_ZERO if f.op.name == "add" else EXACT  # -0.0 + 0.0 is 0.0


@for_law("absorbs", arity=2, at=OWN)
def absorb(f, law, x):
    """A number that absorbs any other (zero in a product) is the result, where there is neither NaN nor infinity."""
    applied = f(x, law.value)
    return rewrite(applied).to(filled(applied, law.value)).when(of_kinds(applied, law.kinds))


@for_law("absorbs", arity=2, nearly=True, at=OWN)
def absorb_all(f, law, x):
    """A number that absorbs any other is the result, even of NaN and infinity."""
    applied = f(x, law.value)
    return rewrite(applied).to(filled(applied, law.value)).up_to(SIGNED_ZERO).with_fast_math()


@for_law("always", arity=1, at=OWN)
def answer(f, law, x):
    """A question that has one answer for all numbers of a dtype is answered."""
    asked = f(x)
    return rewrite(asked).to(filled(asked, law.value)).when(of_kinds(x, law.kinds))


def filled(like: Any, value: Any) -> Any:
    """A fill with that number, of the shape and dtype of what it replaces."""
    return apply(OPS["full"], shape=shape_of(like), value=_held(value, dtype_of(like)), dtype=dtype_of(like))


@computed
def _held(value, dtype):
    """The number as that dtype holds it."""
    return np.dtype(dtype).type(value).item()


# --- equal operands ------------------------------------------------------------------------------------


@for_law("idempotent", arity=2, at=OWN)
def drop_equal_operands(f, _, x):
    """Of two equal operands, of which the result is one, that one is taken."""
    return rewrite(f(x, x)).to(x)


@for_law("idempotent", arity=2, flips=False, at=OWN)
def drop_operand_met_before(f, _, x, y):
    """An operand that a chain has taken in before is dropped, where taking it twice changes nothing."""
    once = f(x, y)
    up_to = SIGNED_ZERO if f.op.has("dual").kinds == "f" else EXACT  # of 0.0 and -0.0 either may be the larger
    return rewrite(f(once, x)).to(once).up_to(up_to)


@for_law("cancels", arity=2, flips=False, at=OWN)
def cancel(f, law, x):
    """Two equal operands that cancel each other (subtracted, compared) leave a number, where NaN cannot be."""
    applied = f(x, x)
    return rewrite(applied).to(filled(applied, law.value)).when(of_kinds(x, law.kinds))


@for_law("cancels", arity=2, nearly=True, flips=False, at=OWN)
def cancel_all(f, law, x):
    """Two equal operands that cancel each other (subtracted, divided) leave a number, even of NaN and infinity."""
    applied = f(x, x)
    return rewrite(applied).to(filled(applied, law.value)).up_to(max(SIGNED_ZERO, up_to(law))).with_fast_math()


@for_law("absorption", arity=2, flips=False, at=OWN)
def drop_absorbed(f, law, x, y):
    """What an outer operator absorbs again (the larger of two, in the smaller of it and one of them) is dropped."""
    applied = f(x, OPS[law.value](x, y))
    return rewrite(applied).to(x).when(same_aval(x, applied), of_kinds(applied, law.kinds))


@for_law("absorption", arity=2, nearly=True, flips=False, at=OWN)
def drop_absorbed_finite(f, law, x, y):
    """What an outer operator absorbs again is dropped, even if it was NaN."""
    applied = f(x, OPS[law.value](x, y))
    return rewrite(applied).to(x).when(same_aval(x, applied)).up_to(SIGNED_ZERO).with_fast_math()


# --- one after the other -------------------------------------------------------------------------------


@for_law("involution", arity=1, at=OWN)
def drop_involution(f, _, x):
    """What undoes itself and is applied twice is dropped."""
    return rewrite(f(f(x))).to(x)


@for_law("idempotent", arity=1, at=OWN)
def drop_repetition(f, _, x):
    """What changes nothing the second time is applied once."""
    once = f(x)
    return rewrite(f(once)).to(once)


@for_law("identity", arity=1, at=OWN)
def drop_identity(f, law, x):
    """What changes nothing of a dtype (rounding, of integers) is dropped."""
    return rewrite(f(x)).to(x).when(of_kinds(x, law.kinds))


@for_law("ignores", arity=1, at=OWN)
def drop_ignored(f, law, x):
    """What makes no difference to an operator (a sign, to an even function) is dropped before it."""
    return rewrite(f(OPS[law.value](x))).to(f(x)).when(of_kinds(x, law.kinds)).up_to(up_to(law))


@for_law("ignores", arity=2, at=OWN)
def drop_ignored_operand(f, law, x, y):
    """What makes no difference to an operator of two arguments is dropped before either of them."""
    return rewrite(f(OPS[law.value](x), y)).to(f(x, y)).when(of_kinds(x, law.kinds)).up_to(up_to(law))


def up_to(law: Law) -> Numerics:
    """Numerics of a rule that relies on the law."""
    return ROUNDING if law.rounds else EXACT


def _wholes(op: Op) -> Iterator[tuple[Each, Op]]:
    if op.has("whole"):
        for other in OPS.values():
            if other.has("whole") and other is not op:
                yield Each(op), other


@for_each(_wholes, "gives whole numbers and leaves them as they are", at=OWN)
def drop_second_rounding(f, first, x):
    """What is rounded to whole numbers already is not rounded again."""
    rounded = first(x)
    return rewrite(f(rounded)).to(rounded)


@for_law("inverse_of", arity=1, nearly=True, at=OWN)
def undo(f, law, x):
    """A function of its inverse is dropped, although it overflows, or is NaN, where the other would not be."""
    applied = f(OPS[law.value](x))
    return rewrite(applied).to(x).when(of_kinds(x, law.nearly)).up_to(ROUNDING).with_fast_math()


@for_law("undone_by", arity=2, flips=False)
def undo_operand(f, law, x, y):
    """What one operator puts in and the next takes out again is dropped, of integers that wrap around."""
    applied = OPS[law.value](f(x, y), y)
    return rewrite(applied).to(x).when(same_aval(x, applied), of_kinds(x, law.kinds))


@for_law("undone_by", arity=2, nearly=True, flips=False)
def undo_operand_finite(f, law, x, y):
    """What one operator puts in and the next takes out again is dropped, and with it the rounding of both."""
    applied = OPS[law.value](f(x, y), y)
    return rewrite(applied).to(x).when(same_aval(x, applied)).up_to(REASSOCIATION).with_fast_math()


# --- work that is done once ----------------------------------------------------------------------------


@for_law("distributes_over", arity=2)
def factor_out(f, law, x, y, z):
    """A common operand is applied once, to the sum of what it was applied to, of integers that wrap around."""
    first, second = f(x, y), f(x, z)
    made = rewrite(OPS[law.value](first, second)).to(f(x, OPS[law.value](y, z)))
    return made.when(alike(x, y, z, kinds=law.kinds), used_once(first), used_once(second))


@for_law("distributes_over", arity=2, nearly=True)
def factor_out_finite(f, law, x, y, z):
    """A common operand is applied once, to the sum of what it was applied to: other roundings, where terms cancel."""
    first, second = f(x, y), f(x, z)
    made = rewrite(OPS[law.value](first, second)).to(f(x, OPS[law.value](y, z)))
    made = made.when(alike(x, y, z, kinds=law.nearly), used_once(first), used_once(second))
    return made.up_to(REASSOCIATION).with_fast_math()


@for_law("turns", arity=1)
def merge_images(f, law, x, y):
    """A function of two operands, that turns one operator into another, is applied once, to both (abs, in products)."""
    inner, outer = (OPS[name] for name in law.value)
    first, second = f(x), f(y)
    made = rewrite(outer(first, second)).to(f(inner(x, y)))
    return made.when(alike(x, y, kinds=law.kinds), used_once(first), used_once(second))


@for_law("turns", arity=1, nearly=True)
def merge_images_finite(f, law, x, y):
    """A function of two operands, that turns one operator into another but for rounding, is applied once, to both."""
    inner, outer = (OPS[name] for name in law.value)
    first, second = f(x), f(y)
    made = rewrite(outer(first, second)).to(f(inner(x, y)))
    made = made.when(alike(x, y, kinds=law.nearly), used_once(first), used_once(second))
    return made.up_to(ROUNDING if inner is outer else REASSOCIATION).with_fast_math()
