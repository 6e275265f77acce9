"""Logarithms of sums of exponentials, written out: once softmaxes, which have them inside, have been recognised."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import reduced
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import floating, that, used_once
from nnc_func.graph.rules.pattern import Param
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule

exp, log, total, largest = OPS["exp"], OPS["log"], OPS["sum"], OPS["max"]
logsumexp, squeeze = OPS["logsumexp"], OPS["squeeze"]


@rule
def logsumexp_of_exponentials(x, a: Param, k: Param):
    """The logarithm of a sum of exponentials is one reduction, which does not overflow."""
    powers = exp(x)
    summed = log(total(powers, axis=a, keepdims=k))
    found = rewrite(summed).to(logsumexp(x, axis=a, keepdims=k)).when(floating(x), used_once(powers))
    return found.up_to(ROUNDING).with_fast_math()


@rule
def drop_shift_of_logsumexp(x, a: Param):
    """The largest need not be taken off before summing exponentials, and added to their logarithm, by hand."""
    most = largest(x, axis=a, keepdims=True)
    found = logsumexp(x - most, axis=a, keepdims=True) + most
    return rewrite(found).to(logsumexp(x, axis=a, keepdims=True)).when(floating(x)).up_to(ROUNDING).with_fast_math()


def _drops_axes(x: Any, a: Any, back: Any) -> bool:
    return kind_of(x.dtype) == "f" and bool(reduced(x.shape, axis=a, keepdims=False) == back.shape)


@rule
def drop_squeezed_shift_of_logsumexp(x, a: Param, b: Param):
    """Nor need it where it is added without the axis along which it was taken."""
    most = largest(x, axis=a, keepdims=True)
    back = squeeze(most, axis=b)
    found = logsumexp(x - most, axis=a, keepdims=False) + back
    dropped = that(_drops_axes, x, a, back, says=f"{x} is floating, and {back} drops {a}")
    return rewrite(found).to(logsumexp(x, axis=a, keepdims=False)).when(dropped).up_to(ROUNDING).with_fast_math()
