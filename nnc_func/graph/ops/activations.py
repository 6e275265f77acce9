"""Activations with kernels of their own, composed of several calls in place; the others are composites."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import Arrays, converted, dtype_of
from nnc_func.device.kernels.onednn_chains import LIBRARY_RELU, guarded
from nnc_func.facets import lowering
from nnc_func.facets.derivatives import Custom, partials
from nnc_func.facets.kernels import ALL, reference
from nnc_func.facets.laws import idempotent, identity, increasing, nonnegative
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, REALS, Samples
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, in_blocks, in_steps, real, real_floating


def _sigmoid(xp: Any, x: Any) -> Any:
    x = converted(xp, x, real_floating(dtype_of(x)))
    below = xp.exp(xp.minimum(x, xp.zeros_like(x)))  # no exponential of anything positive: none overflows
    return below / (1 + xp.exp(-xp.abs(x)))


@lru_cache
def _lowest(dtype: Any) -> int:
    """Below it the exponential is the sigmoid, to the last digit, and that of its negative may be infinite."""
    return 1 - int(np.log(np.finfo(dtype).max))


LEAST = -32.0  # from here on oneDNN has the sigmoid to 3.5 ulps; of numbers near -80 to 4.7, below -86.6 it has 0


@lru_cache
def _one(dtype: Any) -> Any:
    return np.ones((), dtype)  # NumPy adds it sooner than a Python number


def _sigmoid_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    (x,), (out,) = arrays, outs
    highest = -_lowest(out.dtype)
    if x.dtype == out.dtype:
        xp.negative(x, out)
    else:
        xp.negative(x, out, dtype=out.dtype)
    if xp is np and (not out.size or np.maximum.reduce(out, None) <= highest):  # not NaN; a GPU would be waited for
        np.exp(out, out)
        np.add(out, _one(out.dtype), out)
        np.reciprocal(out, out)
        return
    far = out > highest
    least = xp.exp(-xp.maximum(out, highest))
    with np.errstate(over="ignore"):
        xp.exp(out, out)
    xp.add(out, 1, out)
    xp.reciprocal(out, out)
    xp.copyto(out, least, where=far)


@elementwise(
    partials(lambda o, y, x: o.multiply(y, o.subtract(1, y))),
    dtype=real_floating,
    kernel=(
        guarded("sigmoid", LEAST, _sigmoid_into),
        in_steps(_sigmoid_into, dtype=real_floating, overwrites=ALL),
        reference(_sigmoid, infallible=True),
    ),
    onnx="Sigmoid",
    cost=per_element(12),
    laws=(nonnegative, increasing.rounded),
)
def sigmoid(x: Tensor, /) -> Tensor:
    """1 / (1 + exp(-x)): between 0 and 1, without overflow however large the argument, down to the least numbers."""


def _relu(xp: Any, x: Any) -> Any:
    return xp.maximum(x, xp.zeros_like(x))


RUN = 4096  # elements


@lru_cache(maxsize=32)
def _zeros(dtype: Any) -> Any:
    return np.zeros(RUN, dtype)


def _relu_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    (x,), (out,) = arrays, outs
    if x.size < RUN or xp is not np or not (x.flags.c_contiguous and out.flags.c_contiguous):
        xp.maximum(x, 0, out=out)
        return
    # NumPy compares two runs three times as fast as a run and a number
    x, out, zeros = x.reshape(-1), out.reshape(-1), _zeros(out.dtype)
    whole = x.size // RUN * RUN
    np.maximum(x[:whole].reshape(-1, RUN), zeros, out=out[:whole].reshape(-1, RUN))
    np.maximum(x[whole:], zeros[: x.size - whole], out=out[whole:])


@elementwise(
    Custom(
        lambda o, ts, y, x: o.where(o.greater(y, 0), ts[0], 0),
        (lambda o, g, y, x: o.where(o.greater(y, 0), g, 0),),
    ),
    dtype=real,
    kernel=(LIBRARY_RELU, in_steps(_relu_into, dtype=real, overwrites=ALL), reference(_relu, infallible=True)),
    laws=(idempotent, nonnegative, increasing, identity.of("u")),
    onnx=onnx_elementwise.relu,
    samples=Samples(avoid=(0.0,), dtypes=REALS),
    tolerance=EXACT,
    lowering=lowering.Expression(lambda s, x: lowering.larger(s, x, s.number(0, x.dtype)), either_zero=True),
)
def relu(x: Tensor, /) -> Tensor:
    """The number, or 0 if it is negative; its derivative at 0 is taken to be 0, and NaN stays NaN."""


def _softplus(xp: Any, x: Any) -> Any:
    x = converted(xp, x, real_floating(dtype_of(x)))
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


def _softplus_calls(xp: Any, count: int, dtype: Any) -> Any:
    """max(x, 0) + log1p(exp(-|x|)): several passes, and yet ten times as fast as NumPy's logaddexp."""
    x, out, rest = range(3)
    zero = xp.zeros((), dtype)
    return (
        (partial(xp.abs, dtype=dtype), (x, rest)), (xp.negative, (rest, rest)), (xp.exp, (rest, rest)),
        (xp.log1p, (rest, rest)), (lambda x, out: xp.maximum(x, zero, out=out), (x, out)), (xp.add, (out, rest, out)),
    )  # fmt: skip


@elementwise(
    partials(lambda o, y, x: o.sigmoid(x)),
    dtype=real_floating,
    kernel=(
        *in_blocks(_softplus_calls, dtype=real_floating, inner=real_floating),
        reference(_softplus, infallible=True),
    ),
    onnx=onnx_elementwise.softplus,
    cost=per_element(16),
    laws=(nonnegative, increasing.rounded),
)
def softplus(x: Tensor, /) -> Tensor:
    """log(1 + exp(x)), the smooth relu, without overflow however large the argument."""
