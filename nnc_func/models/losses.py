"""The loss by which the networks of the zoo train."""

from __future__ import annotations

from typing import Any

from nnc_func.nn import softmax_cross_entropy

AUXILIARY = 0.4  # the weight of scores from the middle of a network


def scored(outputs: Any, labels: Any) -> Any:
    """Mean cross-entropy of scores and class numbers; of several scores, that of the first and 0.4 of the others'.

    The weight is that of Szegedy et al., CVPR 2016, for classifiers in the middle of a network.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> logits, labels = stack.asarray([[0.0, 0.0]]), stack.asarray([1])
    >>> round(float(scored(logits, labels)), 4), round(float(scored((logits, logits), labels)), 4)
    (0.6931, 0.9704)
    """
    first, *others = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = softmax_cross_entropy(first, labels)
    for each in others:
        loss = loss + softmax_cross_entropy(each, labels) * AUXILIARY
    return loss
