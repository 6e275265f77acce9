"""Activations made of other operators. None overflows, however large the argument, nor do their derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import FLOATS, REALS, Samples, Tolerance
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

CLOSE = Tolerance(32.0)
SMOOTH = Samples(dtypes=FLOATS)
KINK = Samples(avoid=(0.0,), dtypes=FLOATS)


def _floating(o: Ops[Any], x: Tensor) -> Any:
    """Integers and booleans as float64."""
    return x if kind_of(o.dtype(x)) == "f" else o.cast(x, dtype="float64")


# --- smooth -----------------------------------------------------------------------------------------------


@composite(samples=Samples(dtypes=FLOATS, params=lambda _, draw: {"approximate": draw((False, True))}),
           tolerance=CLOSE)  # fmt: skip
def gelu(o: Ops[Any], x: Tensor, /, *, approximate: bool = False) -> Tensor:
    """x times the probability that a normal number lies below x: ``x (1 + erf(x / √2)) / 2``.

    With `approximate` by tanh, which is off by 5e-4 at most and cheaper. Source: Hendrycks and Gimpel, "Gaussian error
    linear units", 2016.
    """
    if approximate:
        near = o.clip(_floating(o, x), min=-30, max=30)  # beyond, sigmoid is 0 or 1 in every dtype
        inner = o.multiply(near, o.add(o.multiply(o.square(near), 0.044715), 1))
        return o.multiply(x, o.sigmoid(o.multiply(inner, 2 * math.sqrt(2 / math.pi))))
    return o.multiply(o.multiply(x, 0.5), o.erfc(o.multiply(x, -math.sqrt(0.5))))


@composite(samples=SMOOTH, tolerance=CLOSE)
def silu(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``x sigmoid(x)``, also called swish."""
    return o.multiply(x, o.sigmoid(x))


@composite(samples=SMOOTH, tolerance=CLOSE)
def mish(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``x tanh(softplus(x))``. Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019."""
    return o.multiply(x, o.tanh(o.softplus(o.clip(x, max=30))))  # beyond, tanh is 1 in every dtype


@composite(samples=SMOOTH, tolerance=CLOSE)
def log_sigmoid(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The logarithm of sigmoid: ``-log(1 + exp(-x))``."""
    return o.negative(o.softplus(o.negative(x)))


@composite(samples=KINK, tolerance=CLOSE)
def softsign(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``x / (1 + |x|)``, between -1 and 1; infinite arguments give NaN."""
    return o.divide(x, o.add(o.abs(_floating(o, x)), 1))


# --- linear on the right ----------------------------------------------------------------------------------


def _safe(o: Ops[Any], x: Tensor) -> Tensor:
    """x where it is not above zero, zero elsewhere: nothing flows back from there."""
    return o.where(o.greater(x, 0), 0, x)


def _joined(o: Ops[Any], x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return o.where(o.greater(x, 0), right, left)


@composite(samples=Samples(avoid=(0.0,), dtypes=FLOATS, params=lambda _, draw: {"alpha": draw((1.0, 0.5))}),
           tolerance=CLOSE)  # fmt: skip
def elu(o: Ops[Any], x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """x, or ``alpha (exp(x) - 1)`` below zero; the derivative at zero is `alpha`.

    Source: Clevert and others, "Fast and accurate deep network learning by exponential linear units", 2015.
    """
    x = _floating(o, x)
    return _joined(o, x, o.multiply(o.expm1(_safe(o, x)), alpha), x)


@composite(samples=KINK, tolerance=CLOSE)
def selu(o: Ops[Any], x: Tensor, /) -> Tensor:
    """`elu` scaled such that means and variances settle at 0 and 1: ``1.0507… elu(x, alpha=1.6733…)``.

    Source: Klambauer and others, "Self-normalizing neural networks", 2017.
    """
    return o.multiply(o.elu(x, alpha=1.6732632423543772), 1.0507009873554805)


@composite(tolerance=CLOSE, samples=Samples(
    avoid=(0.0,), dtypes=FLOATS, params=lambda _, draw: {"alpha": draw((1.0, 0.5))}
))  # fmt: skip
def celu(o: Ops[Any], x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """x, or ``alpha (exp(x / alpha) - 1)`` below zero: `elu` with a continuous derivative; `alpha` is not zero."""
    x = _floating(o, x)
    return _joined(o, x, o.multiply(o.expm1(o.multiply(_safe(o, x), 1 / alpha)), alpha), x)


@composite(tolerance=CLOSE, samples=Samples(
    avoid=(0.0,), dtypes=FLOATS, params=lambda _, draw: {"slope": draw((0.01, 0.2))}
))  # fmt: skip
def leaky_relu(o: Ops[Any], x: Tensor, /, *, slope: float = 0.01) -> Tensor:
    """x, or `slope` times x below zero; the derivative at zero is `slope`."""
    x = _floating(o, x)
    return _joined(o, x, o.multiply(x, slope), x)


@composite(tolerance=CLOSE, samples=Samples(avoid=(0.0,), dtypes=FLOATS))
def prelu(o: Ops[Any], x: Tensor, slope: Tensor, /) -> Tensor:
    """x, or `slope` times x below zero, where the slope is a tensor, that may be learnt, and broadcasts.

    Source: He and others, "Delving deep into rectifiers", 2015.
    """
    return _joined(o, x, o.multiply(x, slope), o.broadcast_like(x, o.multiply(x, slope)))


# --- bounded pieces ---------------------------------------------------------------------------------------


@composite(samples=Samples(domain=(-3.0, 9.0), avoid=(0.0, 6.0), dtypes=REALS))
def relu6(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The number, not below 0 and not above 6."""
    return o.clip(x, min=0, max=6)


@composite(samples=Samples(domain=(-5.0, 5.0), avoid=(-3.0, 3.0), dtypes=FLOATS), tolerance=CLOSE)
def hard_sigmoid(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``x / 6 + 1 / 2``, not below 0 and not above 1: sigmoid in three straight pieces."""
    return o.clip(o.add(o.multiply(x, 1 / 6), 0.5), min=0, max=1)


@composite(samples=Samples(domain=(-5.0, 5.0), avoid=(-3.0, 3.0), dtypes=FLOATS), tolerance=CLOSE)
def hard_swish(o: Ops[Any], x: Tensor, /) -> Tensor:
    """``x hard_sigmoid(x)``. Source: Howard and others, "Searching for MobileNetV3", 2019."""
    return o.multiply(x, o.hard_sigmoid(x))


@composite(samples=Samples(avoid=(-1.0, 1.0), dtypes=REALS))
def hard_tanh(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The number, not below -1 and not above 1."""
    return o.clip(x, min=-1 if o.dtype(x).kind != "u" else 0, max=1)


@composite(samples=Samples(avoid=(0.0,), dtypes=REALS))
def square_relu(o: Ops[Any], x: Tensor, /) -> Tensor:
    """The square of `relu`. Source: So and others, "Primer: searching for efficient transformers", 2021."""
    return o.square(o.relu(x))
