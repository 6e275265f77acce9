"""The whole network: from images to boxes, classes, scores and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import known
from nnc_func.models.mask_rcnn.heads import EPSILON, Detections, classes_head, features, masks_head
from nnc_func.models.mask_rcnn.proposals import proposals
from nnc_func.models.mask_rcnn.pyramid import pyramid
from nnc_func.models.resnet import backbone
from nnc_func.nn.modules import Context, Module, module, static


@module
class MaskRCNN(Module):
    """Detections in images of one size; for inference."""

    pyramid: Module
    proposals: Module
    classes: Module
    detections: Module
    masks: Module
    size: tuple[int, int] = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """``boxes`` (images, count, 4), ``classes`` and ``scores`` (images, count), ``masks`` (…, 28, 28); a dict.

        What does not exist has class and score zero.
        """
        ops, images = x.stack.ops, x.shape[0]
        if context is None and not known(images):
            raise ShapeError("Mask R-CNN is for a known number of images: regions are chosen image by image")
        if not known(images):
            images, x = 1, x[:1]  # tensors are being made: any image will do
        if tuple(x.shape[1:3]) != self.size:
            raise ShapeError(
                f"this Mask R-CNN is for images of {self.size} pixels: say shape= and size=; given {x.shape}"
            )
        levels = self.pyramid(x, context)
        regions = self.proposals(levels, context)
        probabilities, deltas = self.classes(features(levels, regions, 7), context)
        count = regions.shape[1]
        shown = []
        for i in range(images):
            mine = slice(i * count, (i + 1) * count)
            shown.append(self.detections.forward((regions[i], probabilities[mine], deltas[mine]), context))
        boxes, classes, scores = (ops.stack(*each, axis=0) for each in zip(*shown, strict=True))
        masks = self.masks(features(levels, boxes, 14), context)
        return {"boxes": boxes, "classes": classes, "scores": scores, "masks": _of_classes(ops, masks, classes)}


def _of_classes(ops: Any, masks: Any, classes: Any) -> Any:
    """Of the masks of all classes, (images * n, height, width, classes), those of the classes found."""
    images, count = classes.shape
    by_class = ops.permute_dims(masks, axes=(0, 3, 1, 2))
    flat = by_class.reshape((images * count * masks.shape[3], *masks.shape[1:3]))
    rows = ops.add(np.arange(images * count) * masks.shape[3], classes.reshape((images * count,)))
    return ops.take(flat, rows, axis=0).reshape((images, count, *masks.shape[1:3]))


def mask_rcnn(
    classes: int = 81, size: tuple[int, int] = (1024, 1024), depth: int = 101, blocks: Any = None, width: int = 64,
    channels: int = 256, units: int = 1024, limit: int = 6000, regions: int = 1000, detections: int = 100,
    confidence: float = 0.7,
) -> MaskRCNN:  # fmt: skip
    """Mask R-CNN for images of a height and a width that are multiples of 64.

    Parameters
    ----------
    classes
        The background is the first.
    depth, blocks, width
        Of the ResNet.
    channels, units
        Of the pyramid, and of the head of classes; proposals have twice as many channels as the pyramid.
    limit, regions, detections
        How many anchors are looked at for overlaps, how many proposals and how many detections there are at most.
    confidence
        The least probability of what is shown.

    Examples
    --------
    >>> from nnc_func import nn
    >>> nn.count(mask_rcnn().init(None, (None, 1024, 1024, 3)))
    64047096
    """
    if min(limit, regions, detections) < 1:
        counts = f"limit={limit}, regions={regions}, detections={detections}"
        raise ShapeError(f"at least one region is looked at, proposed and shown; given {counts}")
    if any(n % 64 for n in size):
        raise ShapeError(f"sides of images are multiples of 64, so that each level of the pyramid is a half; {size}")
    maps = backbone(depth, width, blocks, early=True, biased=True, epsilon=EPSILON)
    return MaskRCNN(
        pyramid(maps, channels),
        proposals(size, 2 * channels, regions, limit),
        classes_head(classes, units),
        Detections(size, detections, confidence),
        masks_head(classes, channels),
        size,
    )
