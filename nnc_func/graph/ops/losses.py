"""Operators that turn scores into probabilities and losses, each fused so that nothing overflows.

All of them subtract the largest score first, which changes no value and keeps exp at or below one.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import losses as kernels
from nnc_func.errors import ShapeError
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE, Custom
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.laws import nonnegative
from nnc_func.facets.onnx import reductions as onnx_reductions
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.facets.shapes import ShapeT, normalise_axis
from nnc_func.facets.views import per_element, per_input_element
from nnc_func.graph.ops.families import Tensor, real_floating
from nnc_func.op import operator


def _scores(x: ShapeT, *, axis: int) -> ShapeT:
    normalise_axis(axis, len(x))
    return x


def _per_example(logits: ShapeT, labels: ShapeT, *, axis: int) -> ShapeT:
    extent = logits[normalise_axis(axis, len(logits))]
    if known(extent) and extent == 0:
        raise ShapeError(f"axis {axis} of shape {logits} has no elements: an example without classes has no loss")
    if len(logits) != len(labels) or not all(same_extent(m, n) for m, n in zip(logits, labels, strict=True)):
        raise ShapeError(
            f"softmax_cross_entropy wants labels of the logits' shape {logits}, given {labels}; "
            "turn class numbers into probabilities with one_hot(indices, depth=…)"
        )
    at = normalise_axis(axis, len(logits))
    return logits[:at] + logits[at + 1 :]


def _alike(logits: ShapeT, labels: ShapeT, *, axis: int) -> ShapeT:
    _per_example(logits, labels, axis=axis)
    return logits


def _softmax_derivative(o: Any, g: Tensor, y: Tensor, *, axis: int) -> Tensor:
    """The Jacobian of softmax, which is symmetric, times g: y (g - <y, g>)."""
    mean = o.sum(o.multiply(y, g), axis=axis, keepdims=True)
    return o.multiply(y, o.subtract(g, mean))


@operator(
    shape=_scores, dtype=real_floating, kernels=kernels.SOFTMAX,
    onnx=onnx_reductions.softmax("Softmax"), cost=per_element(20),
    derivative=Custom(
        jvp=lambda o, ts, y, x, *, axis: _softmax_derivative(o, ts[0], y, axis=axis),
        vjp=(lambda o, g, y, x, *, axis: _softmax_derivative(o, g, y, axis=axis),),
    ),
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", cases=(
        (((4,),), {}), (((3, 5),), {}), (((3, 5),), {"axis": 0}), (((2, 3, 4),), {"axis": 1}), (((2, 1),), {}),
        (((0, 3),), {}), (((3, 0),), {}),
    )),
    laws=(nonnegative,),
)  # fmt: skip
def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum: probabilities from scores.

    The result has the shape of `x`. Scores of minus infinity get probability zero.
    """


@operator(
    shape=_scores, dtype=real_floating, kernels=kernels.LOG_SOFTMAX,
    onnx=onnx_reductions.softmax("LogSoftmax"), cost=per_element(20),
    derivative=Custom(
        jvp=lambda o, ts, y, x, *, axis: o.subtract(
            ts[0], o.sum(o.multiply(o.exp(y), ts[0]), axis=axis, keepdims=True)
        ),
        vjp=(
            lambda o, g, y, x, *, axis: o.subtract(g, o.multiply(o.exp(y), o.sum(g, axis=axis, keepdims=True))),
        ),
    ),
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", cases=(
        (((4,),), {}), (((3, 5),), {}), (((3, 5),), {"axis": 0}), (((2, 3, 4),), {"axis": 1}), (((2, 1),), {}),
        (((0, 3),), {}), (((3, 0),), {}),
    )),
)  # fmt: skip
def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Logarithm of softmax, without the overflow and the cancellation of computing it in two steps.

    The result has the shape of `x`.
    """


def _to_logits(o: Any, logits: Tensor, labels: Tensor, axis: int) -> Tensor:
    """Derivative of the loss to the logits; the labels need not sum to one."""
    total = o.sum(labels, axis=axis, keepdims=True)
    return o.subtract(o.multiply(o.softmax(logits, axis=axis), total), labels)


def _cross_entropy_jvp(o: Any, ts: Any, y: Tensor, logits: Tensor, labels: Tensor, *, axis: int) -> Tensor:
    parts = []
    if ts[0] is not None:
        parts.append(o.multiply(ts[0], _to_logits(o, logits, labels, axis)))
    if ts[1] is not None:
        parts.append(o.negative(o.multiply(ts[1], o.log_softmax(logits, axis=axis))))
    return o.sum(parts[0] if len(parts) == 1 else o.add(*parts), axis=axis)


def _cross_entropy_vjp_logits(o: Any, g: Tensor, y: Tensor, logits: Tensor, labels: Tensor, *, axis: int) -> Tensor:
    at = normalise_axis(axis, len(logits.shape))
    return o.multiply(o.expand_dims(g, axis=at), _to_logits(o, logits, labels, axis))


def _cross_entropy_vjp_labels(o: Any, g: Tensor, y: Tensor, logits: Tensor, labels: Tensor, *, axis: int) -> Tensor:
    at = normalise_axis(axis, len(logits.shape))
    return o.negative(o.multiply(o.expand_dims(g, axis=at), o.log_softmax(logits, axis=axis)))


@operator(
    shape=_per_example, dtype=real_floating, kernels=kernels.SOFTMAX_CROSS_ENTROPY, cost=per_input_element(24),
    derivative=Custom(_cross_entropy_jvp, (_cross_entropy_vjp_logits, _cross_entropy_vjp_labels)),
    onnx=onnx_reductions.softmax_cross_entropy,
    tolerance=Tolerance(32.0),
    samples=Samples(relation="cases", domain=((-3.0, 3.0), (0.0, 1.0)), cases=(
        (((4,), (4,)), {}), (((3, 5), (3, 5)), {}), (((3, 5), (3, 5)), {"axis": 0}),
        (((2, 3, 4), (2, 3, 4)), {"axis": 1}), (((0, 3), (0, 3)), {}), (((2, 1), (2, 1)), {}),
    )),
)  # fmt: skip
def softmax_cross_entropy(logits: Tensor, labels: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross-entropy between labels, given as probabilities, and the softmax of logits: one loss an example.

    ``-sum(labels * log_softmax(logits))`` along `axis`, which the result lacks. Labels have the shape of the logits
    (`one_hot` makes them of class numbers) and are not checked to sum to one. A label of zero contributes nothing,
    even where the logit is minus infinity.
    """


@operator(
    shape=_alike, dtype=real_floating, kernels=kernels.CROSS_ENTROPY_GRADIENT, cost=per_element(23),
    derivative=NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of"),
    onnx=onnx_reductions.cross_entropy_gradient,
    tolerance=Tolerance(32.0),
    samples=Samples(relation="cases", domain=((-3.0, 3.0), (0.0, 1.0)), cases=(
        (((4,), (4,)), {}), (((3, 5), (3, 5)), {}), (((3, 5), (3, 5)), {"axis": 0}),
        (((2, 3, 4), (2, 3, 4)), {"axis": 1}), (((0, 3), (0, 3)), {}), (((2, 1), (2, 1)), {}),
    )),
)  # fmt: skip
def softmax_cross_entropy_gradient(logits: Tensor, labels: Tensor, /, *, axis: int = -1) -> Tensor:
    """The derivative of `softmax_cross_entropy` to its logits: ``softmax(logits) * sum(labels) - labels``.

    Labels have the shape of the logits, as the result has; they need not sum to one along `axis`.
    """
