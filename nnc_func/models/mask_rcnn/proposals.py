"""Region proposals: Ren, He, Girshick and Sun, "Faster R-CNN", NeurIPS 2015, on each level of a pyramid."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func import nn
from nnc_func.models.mask_rcnn.boxes import RATIOS, anchors, moved, picked
from nnc_func.models.mask_rcnn.pyramid import STRIDES
from nnc_func.nn.modules import Context, Module, module, static

SCALE = 8  # sides of anchors, in strides of their level
OVERLAP = 0.7
DRAWN = nn.Normal(0.01)  # as in the paper: boxes are near their anchors at first


@module
class Proposals(Module):
    """Boxes that may hold something: ``(images, count, 4)`` of the levels of a pyramid.

    At each pixel of each level a small network tells of each anchor whether something is in it, and how to move it; of
    the best `limit` those are kept that overlap no better one by more than 0.7.
    """

    shared: Module
    scores: Module
    deltas: Module
    size: tuple[int, int] = static()
    count: int = static(default=1000)
    limit: int = static(default=6000)

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The proposals of each image."""
        ops, images = x[0].stack.ops, x[0].shape[0]
        scores, deltas, boxes = [], [], []
        for level, stride in zip(x, STRIDES, strict=True):
            y = self.shared(level, context)
            rows, columns = level.shape[1:3]
            many = rows * columns * len(RATIOS)
            two = ops.softmax(self.scores(y, context).reshape((images, many, 2)), axis=-1)
            scores.append(two[:, :, 1])
            deltas.append(self.deltas(y, context).reshape((images, many, 4)))
            boxes.append(anchors(rows, columns, stride, SCALE * stride))
        every = (ops.concat(*scores, axis=1), ops.concat(*deltas, axis=1))
        known = np.concatenate(boxes)
        return ops.stack(*(self._best(ops, known, *(each[i] for each in every)) for i in range(images)), axis=0)

    def _best(self, ops: Any, boxes: Any, scores: Any, deltas: Any) -> Any:
        """The proposals of one image."""
        best, order = ops.top_k(scores, k=min(self.limit, len(boxes)))
        near = moved(ops, ops.take(boxes, order, axis=0), ops.take(deltas, order, axis=0), *self.size)
        positions, _ = ops.non_maximum_suppression(near, best, count=self.count, overlap=OVERLAP)
        return picked(ops, near, positions)


def proposals(size: tuple[int, int], hidden: int = 512, count: int = 1000, limit: int = 6000) -> Proposals:
    """The network of proposals, for images of that height and width.

    Examples
    --------
    >>> made = proposals((64, 64), hidden=4, count=7, limit=20)
    >>> levels = [nn.abstract.Abstract().tensor((2, n, n, 3), "float32") for n in (16, 8, 4, 2, 1)]
    >>> context = nn.Context(initialising=nn.key_of(0))
    >>> made.forward(levels, context).shape
    (2, 7, 4)
    """
    return Proposals(
        nn.Sequential(nn.Conv2D(hidden, 3, padding="SAME", initialiser=DRAWN), nn.relu),
        nn.Conv2D(2 * len(RATIOS), 1, initialiser=DRAWN),
        nn.Conv2D(4 * len(RATIOS), 1, initialiser=DRAWN),
        size,
        count,
        limit,
    )
