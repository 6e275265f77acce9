"""Activations, and what turns scores into probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnc_func.errors import OnnxError
from nnc_func.facets.dtypes import kind_of
from nnc_func.onnx.table import onnx_operator

_PLAIN = {
    "Relu": ((6, 13, 14), "relu"), "Sigmoid": ((6, 13), "sigmoid"), "Softplus": ((1, 22), "softplus"),
    "Softsign": ((1, 22), "softsign"), "Mish": ((18, 22), "mish"),
}  # fmt: skip


def _plain(name: str, since: tuple[int, ...], ours: str) -> None:
    @onnx_operator(name, since)
    def applied(o: Any, x: Any) -> Any:
        return getattr(o, ours)(x)


for _name, (_since, _ours) in _PLAIN.items():
    _plain(_name, _since, _ours)


@onnx_operator("LeakyRelu", since=(6, 16))
def leaky_relu(o: Any, x: Any, *, alpha: float = 0.01) -> Any:
    """With a slope below zero."""
    return o.leaky_relu(x, slope=alpha)


@onnx_operator("Elu", since=(6, 22))
def elu(o: Any, x: Any, *, alpha: float = 1.0) -> Any:
    """An exponential below zero."""
    return o.elu(x, alpha=alpha)


@onnx_operator("Celu", since=(12, 28))
def celu(o: Any, x: Any, *, alpha: float = 1.0) -> Any:
    """An exponential below zero, whose derivative is continuous."""
    return o.celu(x, alpha=alpha)


@onnx_operator("Selu", since=(6, 22))
def selu(o: Any, x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    """A scaled exponential below zero, a line above."""
    return o.multiply(o.elu(x, alpha=alpha), gamma)


@onnx_operator("ThresholdedRelu", since=(10, 22))
def thresholded_relu(o: Any, x: Any, *, alpha: float = 1.0) -> Any:
    """What is above a threshold, else zero."""
    return o.where(o.greater(x, alpha), x, o.scalar(0, x))


@onnx_operator("PRelu", since=(7, 9, 16))
def prelu(o: Any, x: Any, slope: Any) -> Any:
    """With a tensor of slopes below zero, which broadcasts to `x`."""
    return o.where(o.less(x, 0), o.multiply(x, slope), x)


@onnx_operator("PRelu", since=6)
def prelu_of_channels(o: Any, x: Any, slope: Any) -> Any:
    """With one slope below zero for all, or one for each of the second axis."""
    trailing = (1,) * max(len(x.shape) - 2, 0)
    return prelu(o, x, slope if len(slope.shape) != 1 else o.reshape(slope, shape=(*slope.shape, *trailing)))


@onnx_operator("HardSigmoid", since=(6, 22))
def hard_sigmoid(o: Any, x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """A line, cut at zero and one."""
    return o.clip(o.add(o.multiply(x, alpha), beta), min=0, max=1)


@onnx_operator("HardSwish", since=(14, 22))
def hard_swish(o: Any, x: Any) -> Any:
    """Of the slope 1/6 and the offset 1/2."""
    return o.multiply(x, o.clip(o.add(o.multiply(x, 1 / 6), 0.5), min=0, max=1))


@onnx_operator("Shrink", since=(9,))
def shrink(o: Any, x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """Towards zero by `bias`; zero where it is not beyond `lambd`."""
    zero = o.scalar(0, x)
    low: float
    high: float
    by: Any
    if kind_of(x.dtype) in "iu":
        low, high, by = math.ceil(-lambd), math.floor(lambd), o.cast(o.scalar(bias, o.tensor(0.0)), dtype=x.dtype)
    else:
        low, high, by = -lambd, lambd, bias
    outside = o.where(o.greater(x, high), o.subtract(x, by), zero)
    return o.where(o.less(x, low), o.add(x, by), outside) if kind_of(x.dtype) != "u" else outside


@onnx_operator("Gelu", since=(20,))
def gelu(o: Any, x: Any, *, approximate: str = "none") -> Any:
    """Exactly, or by tanh."""
    if approximate not in ("none", "tanh"):
        raise OnnxError(f"approximate is none or tanh, given {approximate!r}")
    return o.gelu(x, approximate=approximate == "tanh")


@onnx_operator("Swish", since=(24,))
def swish(o: Any, x: Any, *, alpha: float = 1.0) -> Any:
    """The number times the sigmoid of its multiple."""
    return o.multiply(x, o.sigmoid(o.multiply(x, alpha)))


@onnx_operator("SwiGLU", since=(28,))
def swiglu(o: Any, a: Any, b: Any, *, alpha: float = 1.0) -> Any:
    """The swish of one tensor times another."""
    return o.multiply(swish(o, a, alpha=alpha), b)


# --- probabilities -----------------------------------------------------------------------------------------


def hardmax_along(o: Any, x: Any, axis: int) -> Any:
    """One where the first largest element stands, and zero elsewhere."""
    first = o.argmax(x, axis=axis, keepdims=True)
    return o.cast(o.equal(first, _positions(o, x, axis)), dtype=x.dtype)


def _positions(o: Any, x: Any, axis: int) -> Any:
    rank = len(x.shape)
    at = axis % rank
    numbers = o.arange(start=0, stop=x.shape[at])
    return o.reshape(numbers, shape=(x.shape[at], *(1,) * (rank - at - 1)))


def _softmax(o: Any, x: Any, axis: int) -> Any:
    return o.softmax(x, axis=axis)


def _log_softmax(o: Any, x: Any, axis: int) -> Any:
    return o.log_softmax(x, axis=axis)


def _along(name: str, function: Callable[[Any, Any, int], Any]) -> None:
    @onnx_operator(name, since=(1, 11))
    def of_a_matrix(o: Any, x: Any, *, axis: int = 1) -> Any:
        """The axes from that one on are one."""
        rank = len(x.shape)
        if not -rank <= axis <= rank:
            raise OnnxError(f"axis {axis} of a tensor of rank {rank}")
        at = axis + rank if axis < 0 else axis
        rows, columns = math.prod(x.shape[:at]), math.prod(x.shape[at:])
        return o.reshape(function(o, o.reshape(x, shape=(rows, columns)), 1), shape=x.shape)

    @onnx_operator(name, since=(13,))
    def along_an_axis(o: Any, x: Any, *, axis: int = -1) -> Any:
        return function(o, x, o.axis(axis, len(x.shape)))


_along("Softmax", _softmax)
_along("LogSoftmax", _log_softmax)
_along("Hardmax", hardmax_along)
