"""Optimisers of ONNX's preview of training: several tensors of one step at once."""

from __future__ import annotations

from typing import Any

from nnc_func.errors import OperatorError
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.table import onnx_operator

DOMAIN = "ai.onnx.preview.training"


def _columns(tensors: tuple[Tensor, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """Parameter, gradient and states that go together."""
    count, left = divmod(len(tensors), kinds)
    if left or not count:
        raise OperatorError(f"tensors come in {kinds} kinds, as many of each; given {len(tensors)}")
    return [tensors[i::count] for i in range(count)]


def _flattened(results: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(value for kind in zip(*results, strict=True) for value in kind)


def _regularised(o: Context, x: Tensor, g: Tensor, norm: float) -> Tensor:
    return o.add(o.multiply(x, o.scalar(norm, x)), g) if norm else g


@onnx_operator("Adagrad", since=1, domain=DOMAIN, multi_result=True)
def adagrad(
    o: Context, rate: Tensor, step: Tensor, /, *tensors: Tensor, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Steps over roots of sums of squares; Duchi, Hazan and Singer, 2011."""
    found = []
    for x, g, h in _columns(tensors, 3):
        decay = o.add(o.multiply(o.cast(step, dtype=x.dtype), o.scalar(decay_factor, x)), o.scalar(1, x))
        g = _regularised(o, x, g, norm_coefficient)
        h = o.add(h, o.square(g))
        moved = o.divide(o.multiply(o.divide(rate, decay), g), o.add(o.sqrt(h), o.scalar(epsilon, x)))
        found.append((o.subtract(x, moved), h))
    return _flattened(found)


@onnx_operator("Adam", since=1, domain=DOMAIN, multi_result=True)
def adam(
    o: Context, rate: Tensor, step: Tensor, /, *tensors: Tensor, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Averages of gradients over roots of averages of their squares; Kingma and Ba, 2015."""
    found = []
    for x, g, v, h in _columns(tensors, 4):
        one, t = o.scalar(1, x), o.cast(step, dtype=x.dtype)
        g = _regularised(o, x, g, norm_coefficient)
        v = o.add(o.multiply(v, o.scalar(alpha, x)), o.multiply(g, o.scalar(1 - alpha, x)))
        h = o.add(o.multiply(h, o.scalar(beta, x)), o.multiply(o.square(g), o.scalar(1 - beta, x)))
        begun = o.greater(t, o.scalar(0, x))
        t = o.where(begun, t, one)
        corrected = o.divide(
            o.sqrt(o.subtract(one, o.power(o.scalar(beta, x), t))), o.subtract(one, o.power(o.scalar(alpha, x), t))
        )  # fmt: skip
        adjusted = o.where(begun, o.multiply(rate, corrected), rate)
        x = o.subtract(x, o.divide(o.multiply(adjusted, v), o.add(o.sqrt(h), o.scalar(epsilon, x))))
        found.append((o.multiply(x, o.scalar(1 - norm_coefficient_post, x)), v, h))
    return _flattened(found)


@onnx_operator("Momentum", since=1, domain=DOMAIN, multi_result=True)
def momentum(
    o: Context, rate: Tensor, step: Tensor, /, *tensors: Tensor, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients that go on, plainly or looking ahead as Nesterov's."""
    if mode not in ("standard", "nesterov"):
        raise OperatorError(f"the mode of Momentum is 'standard' or 'nesterov', given {mode!r}")
    found: list[Any] = []
    for x, g, v in _columns(tensors, 3):
        g = _regularised(o, x, g, norm_coefficient)
        share = o.where(o.greater(step, 0), o.scalar(beta, x), o.scalar(1, x))
        v = o.add(o.multiply(v, o.scalar(alpha, x)), o.multiply(g, share))
        way = v if mode == "standard" else o.add(g, o.multiply(v, o.scalar(alpha, x)))
        found.append((o.subtract(x, o.multiply(rate, way)), v))
    return _flattened(found)
