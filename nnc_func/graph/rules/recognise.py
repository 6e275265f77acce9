"""Functions that users and files write out, recognised by their parts: softmax, sigmoid, softplus, losses."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import floating, same_aval, that, used_once
from nnc_func.graph.rules.pattern import Param, Scalar, computed
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, rewrite, rule

exp, log, log1p, total, largest = OPS["exp"], OPS["log"], OPS["log1p"], OPS["sum"], OPS["max"]
softmax, log_softmax = OPS["softmax"], OPS["log_softmax"]
sigmoid, softplus, reciprocal = OPS["sigmoid"], OPS["softplus"], OPS["reciprocal"]
multiply, divide, erf, erfc = OPS["multiply"], OPS["divide"], OPS["erf"], OPS["erfc"]
tanh = OPS["tanh"]

# --- softmax -------------------------------------------------------------------------------------------


def _one_axis(a: Any) -> bool:
    return isinstance(a, int) or (isinstance(a, tuple) and len(a) == 1)


@computed
def _axis(a):
    """The one axis."""
    return a[0] if isinstance(a, tuple) else a


@rule
def softmax_of_parts(x, a: Param):
    """Exponentials of what the largest is taken off, over their sum along one axis, are a softmax."""
    powers = exp(x - largest(x, axis=a, keepdims=True))
    shares = powers / total(powers, axis=a, keepdims=True)
    return (
        rewrite(shares)
        .to(softmax(x, axis=_axis(a)))
        .when(floating(x), that(_one_axis, a, says=f"{a} is one axis"))
        .up_to(ROUNDING)
    )


@rule
def log_softmax_of_parts(x, a: Param):
    """What the largest is taken off, less the logarithm of the sum of its exponentials, is a logarithm of a softmax."""
    away = x - largest(x, axis=a, keepdims=True)
    logs = away - log(total(exp(away), axis=a, keepdims=True))
    return (
        rewrite(logs)
        .to(log_softmax(x, axis=_axis(a)))
        .when(same_aval(x, logs), that(_one_axis, a, says=f"{a} is one axis"))
        .up_to(ROUNDING)
    )


# --- sigmoid and softplus ------------------------------------------------------------------------------


@rule
def sigmoid_of_parts(x):
    """One over one plus an exponential of the negated is a sigmoid."""
    powers = exp(-x)
    share = 1 / (1 + powers)
    return rewrite(share).to(sigmoid(x)).when(floating(x), same_aval(x, share)).up_to(ROUNDING)


@rule
def sigmoid_by_reciprocal(x):
    """The reciprocal of one plus an exponential of the negated is a sigmoid."""
    powers = exp(-x)
    share = reciprocal(1 + powers)
    return rewrite(share).to(sigmoid(x)).when(floating(x), same_aval(x, share)).up_to(ROUNDING)


@rule
def sigmoid_of_share(x):
    """An exponential over one plus itself is a sigmoid, which does not overflow."""
    powers = exp(x)
    share = powers / (1 + powers)
    return rewrite(share).to(sigmoid(x)).when(floating(x), same_aval(x, share)).up_to(ROUNDING).with_fast_math()


@rule
def sigmoid_of_tanh(x):
    """Half of one plus a hyperbolic tangent is a sigmoid of the double."""
    said = (1 + tanh(x)) * 0.5
    return rewrite(said).to(sigmoid(x * 2)).when(floating(x), same_aval(x, said)).up_to(ROUNDING)


@computed
def _double(s):
    """Twice a number."""
    return s * 2


def _holds_double(s: Any, x: Any) -> bool:
    return kind_of(x.dtype) == "f" and bool(abs(2 * s) <= limits_of(x.dtype).max)


def _halves(s: Any, x: Any) -> bool:
    return kind_of(x.dtype) == "f" and abs(s) <= 1 / 2


@rule
def gelu_of_parts(x, s: Scalar, k: Scalar, c: Scalar):
    """Gelu by a hyperbolic tangent, of x and its third power, is weighed by a sigmoid, which vanishes later."""
    cubic = x + x * x * x * k  # infinite or NaN wherever x is: so NaN, of infinity times what vanishes, stays
    scaled, share = x * s, 1 + tanh(cubic * c)
    said = scaled * share
    small = that(_halves, s, x, says=f"{x} is floating and twice {s} does not enlarge it")
    held = that(_holds_double, c, x, says=f"{x} holds twice {c}")
    made = rewrite(said).to((x * _double(s)) * sigmoid(cubic * _double(c))).when(small, held, same_aval(x, said))
    return made.when(used_once(scaled), used_once(share)).up_to(ROUNDING)


@rule
def softplus_of_parts(x):
    """The logarithm of one plus an exponential is a softplus, which does not overflow."""
    rest = log(1 + exp(x))
    return rewrite(rest).to(softplus(x)).when(floating(x), same_aval(x, rest)).up_to(ROUNDING).with_fast_math()


@rule
def softplus_by_log1p(x):
    """The logarithm of one plus an exponential, taken at once, is a softplus, which does not overflow."""
    powers = exp(x)
    rest = log1p(powers)
    return rewrite(rest).to(softplus(x)).when(floating(x), used_once(powers)).up_to(ROUNDING).with_fast_math()


# --- losses of sigmoids --------------------------------------------------------------------------------


@rule
def binary_cross_entropy_of_parts(x, y):
    """The logarithm of what a sigmoid says of a label is the label times the score, less a softplus of the score."""
    likely = sigmoid(x)
    said = y * log(likely) + (1 - y) * log(1 - likely)
    made = rewrite(said).to(y * x - softplus(x)).when(same_aval(x, said), floating(y))
    return made.up_to(REASSOCIATION).with_fast_math()  # a difference of what may be nearly equal


# --- Gauss' error function -----------------------------------------------------------------------------


@computed
def _negative(s):
    """The number with its sign changed."""
    return -s


@rule
def complement_error_function(x, s: Scalar):
    """One plus an error function is the complementary one of the negated, which keeps its digits where it is small."""
    scaled = x * s
    above = 1 + erf(scaled)
    return rewrite(above).to(erfc(x * _negative(s))).when(same_aval(x, above)).up_to(ROUNDING)
