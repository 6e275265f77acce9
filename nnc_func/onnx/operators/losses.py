"""Losses of ONNX, by integer classes along the second axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import OperatorError
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")


def _negative(
    o: Context, log_probabilities: Tensor, classes: Tensor, weight: Tensor | None, ignore: int | None, reduction: str
) -> Tensor:
    """Less the log-probability of each class, weighed; a class that is ignored counts for nothing."""
    if reduction not in ("none", "sum", "mean"):
        raise OperatorError(f"the reduction of a loss is 'none', 'sum' or 'mean', given {reduction!r}")
    chosen = o.cast(classes, dtype=INT64)
    counted = None
    if ignore is not None:
        counted = o.not_equal(chosen, o.scalar(ignore, chosen))
        chosen = o.where(counted, chosen, o.scalar(0, chosen))
    found = o.take_along_axis(log_probabilities, o.expand_dims(chosen, axis=1), axis=1)
    losses = o.negative(o.squeeze(found, axis=1))
    weights = None if weight is None else o.take(weight, chosen, axis=0)
    if counted is not None:
        each = o.scalar(1, losses) if weights is None else weights
        weights = o.where(counted, each, o.scalar(0, losses))
        losses = o.where(counted, losses, o.scalar(0, losses))
    losses = losses if weights is None else o.multiply(losses, weights)
    if reduction == "none":
        return losses
    if reduction == "mean" and weights is None:
        return o.mean(losses, axis=None)
    total = o.sum(losses, axis=None)
    return total if reduction == "sum" else o.divide(total, o.sum(weights, axis=None))


@onnx_operator("NegativeLogLikelihoodLoss", since=(12, 13, 22))
def negative_log_likelihood_loss(
    o: Context, log_probabilities: Tensor, classes: Tensor, weight: Tensor | None = None, /, *,
    ignore_index: int | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The loss of log-probabilities."""
    return _negative(o, log_probabilities, classes, weight, ignore_index, reduction)


@onnx_operator("SoftmaxCrossEntropyLoss", since=(12, 13), multi_result=True)
def softmax_cross_entropy_loss(
    o: Context, scores: Tensor, classes: Tensor, weight: Tensor | None = None, /, *,
    ignore_index: int | None = None, reduction: str = "mean",
) -> tuple[Any, ...]:  # fmt: skip
    """The loss of scores, and their log-probabilities."""
    found = o.log_softmax(scores, axis=1)
    return _negative(o, found, classes, weight, ignore_index, reduction), found
