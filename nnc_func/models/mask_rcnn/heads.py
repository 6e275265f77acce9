"""What is told of regions: features from the level that suits each, its class and its box, detections, masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func import nn
from nnc_func.models.convolution import convolution
from nnc_func.models.mask_rcnn.boxes import moved, picked, sides
from nnc_func.models.mask_rcnn.pyramid import STRIDES
from nnc_func.nn.modules import Context, Module, module, static

USUAL = 224  # sides of a region whose features come from the third level
OVERLAP = 0.3
EPSILON = 1e-3


def features(levels: Any, boxes: Any, size: int) -> Any:
    """Features of regions: ``(images * n, size, size, channels)`` of boxes ``(images, n, 4)``.

    Each region's are those of one level, the larger the region the smaller the map: equation 1 of Lin et al., rounded.
    A bin has one point.
    """
    ops, (images, count, _) = levels[0].stack.ops, boxes.shape
    flat = boxes.reshape((images * count, 4))
    of = np.repeat(np.arange(images), count)
    left, top, right, bottom = sides(ops, flat)
    side = ops.sqrt(ops.maximum((right - left) * (bottom - top), 1e-6))
    level = ops.clip(ops.round(ops.log2(side * (1 / USUAL))) + 2.0, min=0.0, max=3.0).reshape((images * count, 1, 1, 1))
    found = None
    for i, (each, stride) in enumerate(zip(levels[:4], STRIDES, strict=False)):
        here = ops.roi_align(each, flat, of, size=size, scale=1 / stride, sampling=1)
        found = here if found is None else ops.where(ops.equal(level, float(i)), here, found)
    return found


@module
class Classes(Module):
    """Probabilities of classes, the background first, and how to move the box for each: of features of regions.

    Examples
    --------
    >>> head = classes_head(5, units=8).init(0, (None, 7, 7, 4))
    >>> [y.shape for y in head(nn.abstract.Abstract().tensor((3, 7, 7, 4), "float32"))]
    [(3, 5), (3, 5, 4)]
    """

    shared: Module
    scores: Module
    deltas: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """Probabilities ``(regions, classes)`` and deltas ``(regions, classes, 4)``."""
        y = self.shared(x, context)
        probabilities = nn.softmax(self.scores(y, context))
        return probabilities, self.deltas(y, context).reshape((*probabilities.shape, 4))


def classes_head(classes: int, units: int = 1024, window: int = 7) -> Classes:
    """Two layers as wide as the window, and two that tell: drawn as by Girshick, "Fast R-CNN", ICCV 2015."""
    shared = nn.Sequential(
        *convolution(units, window, valid=True, biased=True, epsilon=EPSILON), nn.relu,
        *convolution(units, 1, biased=True, epsilon=EPSILON), nn.relu, nn.Flatten(),
    )  # fmt: skip
    scores, deltas = (nn.Dense(n, initialiser=nn.Normal(d)) for n, d in ((classes, 0.01), (4 * classes, 0.001)))
    return Classes(shared, scores, deltas)


def masks_head(classes: int, channels: int = 256) -> Any:
    """Four convolutions, a transposed one, and for each class the probability of each pixel.

    Examples
    --------
    >>> head = masks_head(5, channels=4).init(0, (None, 14, 14, 4))
    >>> head(nn.abstract.Abstract().tensor((3, 14, 14, 4), "float32")).shape
    (3, 28, 28, 5)
    """
    layers: list[Any] = []
    for _ in range(4):
        layers += [*convolution(channels, 3, biased=True, epsilon=EPSILON), nn.relu]
    return nn.Sequential(*layers, nn.ConvTranspose2D(channels, 2, stride=2), nn.relu, nn.Conv2D(classes, 1), nn.sigmoid)


@module
class Detections(Module):
    """What is shown of an image: class by class, the best regions that do not overlap, of all the best `count`.

    For each class but the background all regions are moved as its deltas say; those are left out that are less likely
    than `confidence`, or that a better one overlaps by more than 0.3.
    """

    size: tuple[int, int] = static()
    count: int = static(default=100)
    confidence: float = static(default=0.7)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """Boxes ``(count, 4)``, classes and scores ``(count,)`` of proposals, probabilities and deltas."""
        boxes, probabilities, deltas = x
        ops, classes = boxes.stack.ops, probabilities.shape[1]
        found = [self._of_class(ops, boxes, probabilities[:, c], deltas[:, c], c) for c in range(1, classes)]
        near, numbers, scores = (ops.concat(*each, axis=0) for each in zip(*found, strict=True))
        best, order = ops.top_k(scores, k=self.count)
        return ops.take(near, order, axis=0), ops.take(numbers, order, axis=0), best

    def _of_class(self, ops: Any, boxes: Any, scores: Any, deltas: Any, number: int) -> Any:
        """The regions of one class that are kept: boxes, numbers of classes, scores; zeros behind them."""
        near = moved(ops, boxes, deltas, *self.size)
        lowest = max(self.confidence, math.ulp(0.0))
        positions, _ = ops.non_maximum_suppression(near, scores, count=self.count, overlap=OVERLAP, lowest=lowest)
        numbers = ops.cast(ops.greater_equal(positions, 0), dtype="int64") * number
        return picked(ops, near, positions), numbers, picked(ops, scores, positions)
