"""Derivatives and updates as one operator, in ONNX: the operators that they were made of."""

from __future__ import annotations

from typing import Any


def sigmoid_gradient(g: Any, y: Any, *cotangents: Any) -> Any:
    """Products of cotangents times y (1 - y)."""
    return _times(g, cotangents, g.multiply(y, g.subtract(1, y)))


def tanh_gradient(g: Any, y: Any, *cotangents: Any) -> Any:
    """Products of cotangents times 1 - y²."""
    return _times(g, cotangents, g.subtract(1, g.square(y)))


def relu_gradient(g: Any, y: Any, cotangent: Any) -> Any:
    """The cotangent where y is positive, and zero elsewhere."""
    y, cotangent = (g.converted(x, g.result.dtype) for x in (y, cotangent))
    return g.Where(g.greater(y, 0), cotangent, g.scalar(0, g.result.dtype))


def adaptive_update(g: Any, x: Any, direction: Any, squares: Any, rate: Any, epsilon: Any) -> Any:
    """A step along a direction, divided by a root."""
    return g.subtract(x, g.divide(g.multiply(direction, rate), g.add(g.sqrt(squares), epsilon)))


def _times(g: Any, cotangents: Any, slope: Any) -> Any:
    found = cotangents[0]
    for each in cotangents[1:]:
        found = g.multiply(found, each)
    return g.multiply(found, slope)
