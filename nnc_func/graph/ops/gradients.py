"""Derivatives and updates as one operator: made by rewriting where general fusion does not pay, on small tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Any

from attrs import evolve

from nnc_func.device.kernels.move import converted, dtype_of
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.dtypes import BOOL, kind_of
from nnc_func.facets.kernels import ALL, reference
from nnc_func.facets.onnx import gradients as onnx_gradients
from nnc_func.facets.samples import FLOATS, Samples
from nnc_func.facets.views import Cost, per_element
from nnc_func.graph.ops.families import Tensor, elementwise, in_blocks, real_floating

FUSED = NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of")


def _cases(*shapes: Any, positive: int = -1) -> Samples:
    return Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        (tuple((s, dtype, (0.1, 3.0)) if i == positive else (s, dtype) for i, s in enumerate(given)), {})
        for given in shapes for dtype in ("float32", "float64")
    ))  # fmt: skip


PAIRS = (((3, 4), (3, 4)), ((2, 3), ()), ((3, 1), (2,)), ((0, 3), (0, 3)), ((), ()), ((300, 70), (70,)))


def _times(xp: Any, count: int) -> list[Any]:
    """The product of cotangents, taken first, times a derivative, which is in the scratch."""
    g, out, slope = 1, count, count + 1
    found = []
    for each in range(2, count):
        found.append((xp.multiply, (g, each, out)))
        g = out
    return [*found, (xp.multiply, (g, slope, out))]


def _sigmoid_slope(xp: Any, count: int, dtype: Any) -> Any:
    y, slope = 0, count + 1
    return (xp.subtract, (xp.ones((), dtype), y, slope)), (xp.multiply, (y, slope, slope)), *_times(xp, count)


def _tanh_slope(xp: Any, count: int, dtype: Any) -> Any:
    y, slope = 0, count + 1
    return (xp.square, (y, slope)), (xp.subtract, (xp.ones((), dtype), slope, slope)), *_times(xp, count)


def _relu_mask(xp: Any, count: int, dtype: Any) -> Any:
    """Bits times one or zero, as `masked` does it."""

    def select(g: Any, mask: Any, out: Any) -> None:
        bits = f"i{out.dtype.itemsize}"
        xp.multiply(g.view(bits), mask, out.view(bits))

    y, g, out, mask = range(4)
    return (xp.greater, (y, xp.zeros((), "float32"), mask)), (select, (g, mask, out))


def _stepped(xp: Any, count: int, dtype: Any) -> Any:
    x, g, squares, rate, epsilon, out, root, step = range(8)
    return (
        (xp.sqrt, (squares, root)), (xp.add, (root, epsilon, root)), (xp.multiply, (g, rate, step)),
        (xp.divide, (step, root, step)), (xp.subtract, (x, step, out)),
    )  # fmt: skip


def _gradient(
    calls: Callable[..., Any], compute: Callable[..., Any], export: Any, samples: Samples,
    inner: dtypes.DTypeRule = real_floating, overwrites: Any = (0, 1), registers: int = 1,
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """What makes an operator of the calls that compute it, of real floating numbers."""

    def standard(xp: Any, *arrays: Any) -> Any:
        dtype = real_floating(*map(dtype_of, arrays))
        return compute(xp, *(converted(xp, a, dtype) for a in arrays))

    same = in_blocks(calls, dtype=real_floating, inner=inner, overwrites=overwrites, registers=registers)
    return elementwise(
        FUSED, dtype=real_floating, cost=_cost, samples=samples, onnx=export,
        kernel=(*(evolve(k, accepts=_of_one_dtype) for k in same), reference(standard, infallible=True)),
    )  # fmt: skip


def _of_one_dtype(avals: Any, **_: Any) -> bool:
    return all(a.dtype == avals[0].dtype and kind_of(a.dtype) == "f" for a in avals)


def _cost(args: tuple[Any, ...], results: tuple[Any, ...]) -> Cost:
    return per_element(len(args) + 1)(args, results)


@_gradient(
    _sigmoid_slope, lambda xp, y, *gs: reduce(mul, gs) * (y * (1 - y)), onnx_gradients.sigmoid_gradient,
    _cases(*PAIRS, ((3, 4), (3, 4), (3, 1)), ((2, 3), (), (3,), (2, 3))),
)  # fmt: skip
def sigmoid_gradient(y: Tensor, cotangent: Tensor, /, *others: Tensor) -> Tensor:
    """A cotangent times the derivative of `sigmoid`, y (1 - y), where its value is y.

    Others are what the cotangent is multiplied by before.
    """


@_gradient(
    _tanh_slope, lambda xp, y, *gs: reduce(mul, gs) * (1 - y * y), onnx_gradients.tanh_gradient,
    _cases(*PAIRS, ((3, 4), (3, 4), (3, 1)), ((2, 3), (), (3,), (2, 3))),
)  # fmt: skip
def tanh_gradient(y: Tensor, cotangent: Tensor, /, *others: Tensor) -> Tensor:
    """A cotangent times the derivative of `tanh`, 1 - y², where its value is y.

    Others are what the cotangent is multiplied by before.
    """


@_gradient(
    _relu_mask, lambda xp, y, g: xp.where(y > 0, g, xp.zeros_like(g)), onnx_gradients.relu_gradient,
    _cases(*PAIRS), inner=lambda *_, **__: BOOL,
)  # fmt: skip
def relu_gradient(y: Tensor, cotangent: Tensor, /) -> Tensor:
    """The cotangent where y, a value of `relu` or its argument, is positive, and zero elsewhere."""


@_gradient(
    _stepped, lambda xp, x, g, h, rate, epsilon: x - g * rate / (xp.sqrt(h) + epsilon),
    onnx_gradients.adaptive_update,
    _cases(((3, 4), (3, 4), (3, 4), (), ()), ((), (), (), (), ()), ((2, 3), (3,), (2, 1), (2, 3), (3,)), positive=2),
    overwrites=ALL, registers=2,
)  # fmt: skip
def adaptive_update(
    x: Tensor, direction: Tensor, squares: Tensor, rate: Tensor, epsilon: Tensor, /
) -> Tensor:  # fmt: skip
    """``x - rate * direction / (sqrt(squares) + epsilon)``: what Adagrad, RMSprop and Adam do to a parameter."""
