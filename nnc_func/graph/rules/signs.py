"""Rules of signs: negations move out, towards the result, until something takes them in."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator

from nnc_func.facets.laws import Law
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.algebra import up_to
from nnc_func.graph.rules.conditions import no_larger, of_kinds, real, same_aval, same_dtype, that, used_once
from nnc_func.graph.rules.pattern import Nonnegative, Scalar, computed
from nnc_func.graph.rules.rule import OWN, SIGNED_ZERO, Each, for_each, for_law, rewrite, rule
from nnc_func.op import Op

absolute, sign, relu, negative = OPS["abs"], OPS["sign"], OPS["relu"], OPS["negative"]

# --- taken in ------------------------------------------------------------------------------------------


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


@rule
def negate_difference(x, y):
    """A difference that is negated is taken the other way round."""
    difference = x - y
    return rewrite(-difference).to(y - x).when(used_once(difference)).up_to(SIGNED_ZERO)


@computed
def _opposite(s):
    """A number with its sign changed."""
    return -s


@rule
def negate_quotient(x, s: Scalar):
    """A quotient by a number that is negated is divided by the negated number."""
    quotient = x / s
    made = rewrite(-quotient).to(x / _opposite(s)).when(same_aval(x, quotient), real(x), used_once(quotient))
    return made.when(that(bool, s, says=f"{s} is not zero"))


@rule
def negate_dividend(x, s: Scalar):
    """A quotient of a number that is negated has the negated number for its dividend."""
    quotient = s / x
    return rewrite(-quotient).to(_opposite(s) / x).when(same_aval(x, quotient), used_once(quotient)).up_to(SIGNED_ZERO)


# --- moved out -----------------------------------------------------------------------------------------


def _scaling(op: Op) -> Iterator[tuple[Each, Law]]:
    law = op.has("unit")
    if law is not None and op.has("odd"):
        yield Each(op), law


@for_each(_scaling, "is odd, and has a unit", at=OWN)
def negate_for_minus_one(f, law, x):
    """A factor, or a divisor, of minus one is a negation."""
    applied = f(x, -law.value)
    return rewrite(applied).to(-x).when(same_aval(x, applied), of_kinds(x, law.kinds))


@for_law("odd", arity=1, at=OWN)
def negate_after(f, law, x):
    """An odd function of what is negated is negated."""
    negated = -x
    applied = f(negated)
    made = rewrite(applied).to(-f(x)).when(of_kinds(x, law.kinds), used_once(negated), no_larger(applied, x))
    return made.up_to(max(SIGNED_ZERO, up_to(law)))


@for_law("odd", arity=2, at=OWN)
def negate_after_both(f, law, x, y):
    """What is odd in an argument that is negated is negated itself: products, quotients, convolutions."""
    negated = -x
    applied = f(negated, y)
    made = rewrite(applied).to(-f(x, y)).when(of_kinds(x, law.kinds), used_once(negated), no_larger(applied, x))
    made = made if "c" in law.kinds else made.when(of_kinds(applied, law.kinds))
    return made.up_to(max(SIGNED_ZERO, up_to(law)))


# --- magnitudes ----------------------------------------------------------------------------------------


@rule
def drop_magnitude(x: Nonnegative):
    """The magnitude of what is not negative is that."""
    return rewrite(absolute(x)).to(x).up_to(SIGNED_ZERO)


@rule
def drop_rectifier(x: Nonnegative):
    """What is not negative is not rectified."""
    return rewrite(relu(x)).to(x).up_to(SIGNED_ZERO)


@rule
def multiply_by_sign(x):
    """A real number times its sign is its magnitude."""
    return rewrite(x * sign(x)).to(absolute(x)).when(real(x)).up_to(SIGNED_ZERO)


@rule
def multiply_magnitude_by_sign(x):
    """A magnitude times the sign is the real number."""
    return rewrite(absolute(x) * sign(x)).to(x).when(real(x)).up_to(SIGNED_ZERO)
