"""Boxes: anchors, and boxes moved by what a head tells of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

DEVIATIONS = np.array([0.1, 0.1, 0.2, 0.2], np.float32)  # by which heads divide what they learn
RATIOS = (0.5, 1.0, 2.0)
LARGEST = math.log(1000 / 16)  # a box grows at most by this factor's exponential


def anchors(rows: int, columns: int, stride: int, scale: float, ratios: Sequence[float] = RATIOS) -> Any:
    """Boxes of one area around each pixel of a map, of several ratios of width to height: (n, 4).

    Examples
    --------
    >>> anchors(1, 2, stride=8, scale=4, ratios=[1.0])
    array([[-2., -2.,  2.,  2.],
           [ 6., -2., 10.,  2.]], dtype=float32)
    """
    roots = np.sqrt(np.asarray(ratios))
    halves = np.stack([scale * roots, scale / roots, -scale * roots, -scale / roots], axis=-1) / -2
    y, x = np.meshgrid(np.arange(rows) * stride, np.arange(columns) * stride, indexing="ij")
    middles = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4)
    return (middles + halves).reshape(-1, 4).astype("float32")


def sides(ops: Any, boxes: Any) -> list[Any]:
    """Left, top, right and bottom, or whatever four things a matrix has, each of shape (n, 1)."""
    return list(ops.split(boxes, sections=(1, 1, 1, 1), axis=1))


def moved(ops: Any, boxes: Any, deltas: Any, height: int, width: int) -> Any:
    """Boxes (n, 4) moved and stretched, then cut at the edges of the image.

    Of deltas ``(dx, dy, dw, dh)`` times their deviations, the first two move the middle by parts of width and height,
    the others are logarithms by which these grow; Girshick et al., CVPR 2014.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> ops = nnc.eager().ops
    >>> moved(ops, np.float32([[0, 0, 4, 4]]), np.float32([[5, 0, 0, 0]]), 8, 5).numpy()
    array([[2., 0., 5., 4.]], dtype=float32)
    """
    left, top, right, bottom = sides(ops, boxes)
    dx, dy, dw, dh = sides(ops, ops.multiply(deltas, DEVIATIONS))

    def stretched(low: Any, high: Any, shift: Any, growth: Any, extent: int) -> tuple[Any, Any]:
        length = high - low
        middle = low + length * 0.5 + shift * length
        half = length * ops.exp(ops.clip(growth, min=-LARGEST, max=LARGEST)) * 0.5
        return ops.clip(middle - half, min=0.0, max=float(extent)), ops.clip(middle + half, min=0.0, max=float(extent))

    across, down = stretched(left, right, dx, dw, width), stretched(top, bottom, dy, dh, height)
    return ops.concat(across[0], down[0], across[1], down[1], axis=1)


def picked(ops: Any, rows: Any, positions: Any) -> Any:
    """Rows by position; zeros where the position is -1."""
    exists = ops.greater_equal(positions, 0)
    found = ops.take(rows, ops.maximum(positions, 0), axis=0)
    for _ in found.shape[1:]:
        exists = ops.expand_dims(exists, axis=-1)
    return ops.where(exists, found, ops.zeros_like(found))
