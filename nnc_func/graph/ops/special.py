"""Special functions of real numbers: of the normal distribution, of the gamma function."""

from __future__ import annotations

import math
from typing import Any

from nnc_func.device.kernels import special as kernels
from nnc_func.errors import OperatorError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import partials
from nnc_func.facets.laws import increasing, nonnegative, odd
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import FLOATS, Refused, Samples, Tolerance
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, real_floating

SLOPE = 2 / math.sqrt(math.pi)
CLOSE = Tolerance(16.0)


def _bell(o: Any, x: Any, height: float) -> Any:
    """A multiple of exp(-x²), which is zero beyond 40 in every dtype: there no square overflows."""
    return o.multiply(o.exp(o.negative(o.square(o.clip(x, min=-40, max=40)))), height)


@elementwise(
    partials(lambda o, y, x: _bell(o, x, SLOPE)),
    dtype=real_floating,
    kernel=kernels.in_cache(kernels.erf, real_floating),
    onnx="Erf",
    samples=Samples(dtypes=FLOATS),
    tolerance=CLOSE,
    cost=per_element(60),
    laws=(odd.rounded, increasing.rounded),
)
def erf(x: Tensor, /) -> Tensor:
    """The error function: the integral of exp(-t²) from 0 to x, times two over the square root of pi."""


@elementwise(
    partials(lambda o, y, x: _bell(o, x, -SLOPE)),
    dtype=real_floating,
    kernel=kernels.in_cache(kernels.erfc, real_floating),
    onnx=onnx_elementwise.erfc,
    samples=Samples(dtypes=FLOATS),
    tolerance=CLOSE,
    cost=per_element(60),
    laws=(nonnegative,),
)
def erfc(x: Tensor, /) -> Tensor:
    """1 - erf(x), with its digits where that is tiny: to 6 ulps."""


@elementwise(
    partials(lambda o, y, x: o.multiply(o.exp(o.square(y)), 1 / SLOPE)),
    dtype=real_floating,
    kernel=kernels.in_cache(kernels.erfinv, real_floating, wide=True),
    onnx=Refused("ONNX has erf, and not its inverse"),
    samples=Samples(domain=(-0.9, 0.9), dtypes=FLOATS),
    tolerance=CLOSE,
    cost=per_element(300),
    laws=(odd.rounded,),
)
def erfinv(x: Tensor, /) -> Tensor:
    """The number of which erf is `x`; 1 and -1 give the infinities, what lies outside NaN."""


@elementwise(
    partials(lambda o, y, x: o.subtract(1, o.multiply(o.multiply(x, y), 2))),
    dtype=real_floating,
    kernel=kernels.in_cache(kernels.dawsn, real_floating),
    onnx=Refused("ONNX has no Dawson integral, nor others that it could be made of"),
    samples=Samples(dtypes=FLOATS),
    tolerance=CLOSE,
    cost=per_element(100),
    laws=(odd.rounded,),
)
def dawsn(x: Tensor, /) -> Tensor:
    """Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to x."""


@elementwise(
    partials(lambda o, y, x: o.polygamma(x, order=0)),
    dtype=real_floating,
    kernel=kernels.in_cache(kernels.lgamma, real_floating, wide=True),
    onnx=Refused("ONNX has no gamma function, nor a series of it"),
    samples=Samples(domain=(0.2, 5.0), dtypes=FLOATS),
    tolerance=CLOSE,
    cost=per_element(80),
)
def lgamma(x: Tensor, /) -> Tensor:
    """The logarithm of the magnitude of the gamma function; infinite at zero and at the negative integers."""


MOST = 160  # orders; the factorials of higher ones leave float64


def _order(x: dtypes.DType, *, order: int) -> dtypes.DType:
    if order < 0:
        raise OperatorError(f"polygamma has orders from zero on, given order={order}; below zero there is lgamma")
    if order > MOST:
        raise OperatorError(f"polygamma has orders to {MOST}, given order={order}: values beyond leave float64")
    return real_floating(x)


@elementwise(
    partials(lambda o, y, x, *, order: o.polygamma(x, order=order + 1)),
    dtype=_order,
    kernel=kernels.in_cache(kernels.polygamma, real_floating, wide=True),
    onnx=Refused("ONNX has no derivatives of the gamma function"),
    samples=Samples(domain=(0.5, 5.0), dtypes=FLOATS, params=lambda shapes, draw: {"order": draw((0, 1, 2))}),
    tolerance=CLOSE,
    cost=per_element(80),
)
def polygamma(x: Tensor, /, *, order: int = 0) -> Tensor:
    """The derivative of an order of digamma, which is that of lgamma.

    At its poles, zero and the negative integers, it is infinite for odd orders and NaN for even ones below zero.
    """
