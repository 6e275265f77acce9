"""Losses and metrics: functions (outputs, targets) → one number, the mean over the examples.

One of the two may be an array or a list of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.origin import with_line
from nnc_func.nn.inputs import in_tensor


def softmax_cross_entropy(logits: Any, labels: Any, label_smoothing: float = 0.0) -> Any:
    """Mean cross-entropy between labels and the softmax of logits, whose last axis counts classes.

    Labels are class numbers (integers, the logits' shape without the last axis) or probabilities (the logits' shape).

    Raises
    ------
    ShapeError
        Labels of another shape, or, where they are known at once, a class number that is not one of the classes;
        where they are not, IndexError when it is met.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> round(float(softmax_cross_entropy(stack.asarray(np.zeros((2, 4))), stack.asarray([0, 3]))), 4)  # log 4
    1.3863
    """
    logits, labels = _tensors("softmax_cross_entropy", logits, labels)
    if labels.dtype.kind in "iu":
        _class_numbers(logits, labels)
    return logits.stack.ops.softmax_cross_entropy_loss(logits, labels, label_smoothing=label_smoothing)


def _tensors(name: str, outputs: Any, targets: Any) -> tuple[Any, Any]:
    """Both as tensors of one stack."""
    outputs = in_tensor(name, outputs, targets)
    return outputs, in_tensor(name, targets, outputs)


def _class_numbers(logits: Any, labels: Any) -> None:
    wanted, given = logits.shape[:-1], labels.shape
    if len(wanted) != len(given) or not all(map(same_extent, wanted, given)):
        raise ShapeError(with_line(f"class numbers for logits {logits.shape} have shape {wanted}, given {given}"))
    known, classes = labels.value, logits.shape[-1]
    if isinstance(known, np.ndarray) and known.size and (known.min() < 0 or known.max() >= classes):
        told = f"{known.min()} to {known.max()}"
        raise ShapeError(with_line(f"class numbers of {classes} classes are 0 to {classes - 1}, given {told}"))


def quadratic(outputs: Any, targets: Any) -> Any:
    """Mean of the squared differences.

    Raises
    ------
    ShapeError
        Outputs and targets have different shapes: a broadcast here is an error in the model.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> float(quadratic(stack.asarray([1.0, 2.0]), stack.asarray([1.0, 4.0])))
    2.0
    """
    outputs, targets = _tensors("quadratic", outputs, targets)
    return outputs.stack.ops.quadratic_loss(outputs, targets)


def sigmoid_binary_cross_entropy(logits: Any, targets: Any) -> Any:
    """Mean cross-entropy between targets, from 0 to 1, and the sigmoid of logits.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> round(float(sigmoid_binary_cross_entropy(stack.asarray([0.0, 0.0]), stack.asarray([0.0, 1.0]))), 4)  # log 2
    0.6931
    """
    logits, targets = _tensors("sigmoid_binary_cross_entropy", logits, targets)
    return logits.stack.ops.sigmoid_binary_cross_entropy(logits, targets)


def smooth_l1(outputs: Any, targets: Any, beta: float = 1.0) -> Any:
    """Mean of the squared differences where they are small, of the absolute ones elsewhere; smooth between.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> float(smooth_l1(stack.asarray([0.0, 3.0]), stack.asarray([1.0, 0.0])))
    1.5
    """
    outputs, targets = _tensors("smooth_l1", outputs, targets)
    return outputs.stack.ops.smooth_l1_loss(outputs, targets, beta=beta)


def hinge(outputs: Any, targets: Any) -> Any:
    """Mean of ``max(0, 1 - outputs targets)`` for targets of -1 and 1.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> float(hinge(stack.asarray([0.5, 2.0]), stack.asarray([1.0, -1.0])))
    1.75
    """
    outputs, targets = _tensors("hinge", outputs, targets)
    return outputs.stack.ops.hinge_loss(outputs, targets)


def accuracy(logits: Any, labels: Any) -> Any:
    """The part of the examples whose largest logit is that of their label; labels as for `softmax_cross_entropy`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> float(accuracy(stack.asarray([[0.1, 0.9], [0.8, 0.2]]), stack.asarray([1, 1])))
    0.5
    """
    logits, labels = _tensors("accuracy", logits, labels)
    ops = logits.stack.ops
    if labels.dtype.kind in "iu":
        _class_numbers(logits, labels)
    else:
        labels = ops.argmax(labels, axis=-1)
    hit = ops.equal(ops.argmax(logits, axis=-1), labels)
    return ops.cast(hit, dtype="float32").mean()
