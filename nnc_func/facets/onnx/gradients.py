"""Derivatives and updates as one operator, in ONNX: the operators that they were made of.

They compute in the dtype of their result, to which all operands are converted first: integers would wrap.
"""

from __future__ import annotations

from typing import Any


def sigmoid_gradient(g: Any, *operands: Any) -> Any:
    """Products of cotangents times y (1 - y)."""
    y, *cotangents = _converted(g, operands)
    return _times(g, cotangents, g.multiply(y, g.subtract(1, y)))


def tanh_gradient(g: Any, *operands: Any) -> Any:
    """Products of cotangents times 1 - y²."""
    y, *cotangents = _converted(g, operands)
    return _times(g, cotangents, g.subtract(1, g.square(y)))


def relu_gradient(g: Any, *operands: Any) -> Any:
    """The cotangent where y is positive, and zero elsewhere."""
    y, cotangent = _converted(g, operands)
    return g.Where(g.greater(y, 0), cotangent, g.scalar(0, g.result.dtype))


def adaptive_update(g: Any, *operands: Any) -> Any:
    """A step along a direction, divided by a root."""
    x, direction, squares, rate, epsilon = _converted(g, operands)
    return g.subtract(x, g.divide(g.multiply(direction, rate), g.add(g.sqrt(squares), epsilon)))


def _converted(g: Any, operands: Any) -> list[Any]:
    return [g.converted(x, g.result.dtype) for x in operands]


def _times(g: Any, cotangents: Any, slope: Any) -> Any:
    found = cotangents[0]
    for each in cotangents[1:]:
        found = g.multiply(found, each)
    return g.multiply(found, slope)
