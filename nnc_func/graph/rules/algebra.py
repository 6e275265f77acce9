"""Rules of algebra: laws that operators declare, and identities that hold bit by bit."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

import math

import numpy as np

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import discrete, real, same_aval, same_dtype, that
from nnc_func.graph.rules.pattern import Scalar, apply, computed, dtype_of, shape_of
from nnc_func.graph.rules.rule import EXACT, ROUNDING, SIGNED_ZERO, for_law, rewrite, rule

# --- laws ----------------------------------------------------------------------------------------------


@for_law("unit", arity=2)
def drop_unit(f, unit, x):
    """A unit (zero added, one multiplied) is dropped, unless it widens the other operand or promotes it."""
    applied = f(x, unit)
    up_to = SIGNED_ZERO if f.op.name == "add" else EXACT  # -0.0 + 0.0 is 0.0
    return rewrite(applied).to(x).when(same_aval(x, applied), real(x)).up_to(up_to)


@for_law("involution", arity=1)
def drop_involution(f, _, x):
    """What undoes itself and is applied twice is dropped."""
    return rewrite(f(f(x))).to(x)


@for_law("idempotent", arity=1)
def drop_repetition(f, _, x):
    """What changes nothing the second time is applied once."""
    once = f(x)
    return rewrite(f(once)).to(once)


@for_law("idempotent", arity=2)
def drop_equal_operands(f, _, x):
    """Of two equal operands, of which the result is one, that one is taken."""
    return rewrite(f(x, x)).to(x)


@for_law("absorbs", arity=2)
def absorb(f, value, x):
    """A number that absorbs any other (zero in a product) is the result, where there is neither NaN nor infinity."""
    applied = f(x, value)
    result = apply(OPS["full"], shape=shape_of(applied), value=_held(value, dtype_of(applied)), dtype=dtype_of(applied))
    return rewrite(applied).to(result).when(discrete(applied))


@for_law("absorbs", arity=2)
def absorb_all(f, value, x):
    """A number that absorbs any other is the result, even of NaN and infinity."""
    applied = f(x, value)
    result = apply(OPS["full"], shape=shape_of(applied), value=_held(value, dtype_of(applied)), dtype=dtype_of(applied))
    return rewrite(applied).to(result).up_to(SIGNED_ZERO).with_fast_math()


@for_law("inverse_of", arity=1)
def undo(f, inverse, x):
    """A function of its inverse is dropped, although it overflows, or is NaN, where the other would not be."""
    applied = f(OPS[inverse](x))
    return rewrite(applied).to(x).when(same_aval(x, applied)).up_to(ROUNDING).with_fast_math()


@computed
def _held(value, dtype):
    """The number as that dtype holds it."""
    return np.dtype(dtype).type(value).item()


# --- signs ---------------------------------------------------------------------------------------------


@rule
def add_negative(x, y):
    """What is negated and added is subtracted."""
    total = x + -y
    return rewrite(total).to(x - y).when(same_dtype(y, total))


@rule
def subtract_negative(x, y):
    """What is negated and subtracted is added."""
    negated = -y
    total = x - negated
    return rewrite(total).to(x + y).when(same_dtype(negated, total))


@rule
def multiply_negatives(x, y):
    """The product of two negated tensors is that of the tensors."""
    product = -x * -y
    return rewrite(product).to(x * y).when(same_dtype(x, product), same_dtype(y, product))


# --- quotients and powers ------------------------------------------------------------------------------


def _is_scale(s, quotient) -> bool:
    """A power of two whose reciprocal is a normal number: multiplying by that rounds as dividing does."""
    if kind_of(quotient.dtype) != "f" or not s or not math.isfinite(s) or abs(math.frexp(s)[0]) != 0.5:
        return False
    limits = limits_of(quotient.dtype)
    return bool(limits.tiny <= abs(1 / s) <= limits.max and limits.tiny <= abs(s))


@computed
def _reciprocal(s):
    """One over a number."""
    return 1 / s


@rule
def divide_by_power_of_two(x, s: Scalar):
    """A division by a power of two becomes a multiplication, which gives the same bits."""
    quotient = x / s
    return (
        rewrite(quotient)
        .to(x * _reciprocal(s))
        .when(
            that(_is_scale, s, quotient, says=f"{s} is a power of two, and so is its reciprocal"),
            same_aval(x, quotient),
        )
    )


@rule
def square_by_product(x):
    """A second power is a product, which is many times faster than a general power."""
    power = x**2
    return rewrite(power).to(x * x).when(same_aval(x, power)).up_to(ROUNDING)
