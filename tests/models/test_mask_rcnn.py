"""Mask R-CNN's parts against plain NumPy, and the whole of it (`models/mask_rcnn`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.errors import ShapeError
from nnc_func.models.mask_rcnn.boxes import DEVIATIONS, anchors, moved
from nnc_func.models.mask_rcnn.heads import Detections, features
from nnc_func.models.mask_rcnn.network import _of_classes, mask_rcnn
from nnc_func.models.mask_rcnn.proposals import Proposals

RNG = np.random.default_rng(0)
SIZE = (48, 64)
EDGES = (64, 48, 64, 48)


def _boxes(count: int) -> Any:
    """Random boxes within the image."""
    ends = np.sort(RNG.uniform(0, 1, (count, 2, 2)), axis=1).reshape(count, 4)
    return (ends * EDGES).astype("float32")


def _overlaps(a: Any, b: Any) -> float:
    """Intersection over union of two boxes."""
    across, down = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    both = across * down
    union = sum((x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)) - both
    return both / union if union > 0 else 0.0


def _moved(boxes: Any, deltas: Any) -> Any:
    d = deltas * DEVIATIONS
    extents = boxes[:, 2:] - boxes[:, :2]
    middles = boxes[:, :2] + extents / 2 + d[:, :2] * extents
    halves = extents * np.exp(d[:, 2:]) / 2
    ends = np.concatenate([middles - halves, middles + halves], axis=1)
    return np.clip(ends, 0, EDGES)


def _suppressed(boxes: Any, scores: Any, overlap: float, lowest: float, count: int) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] >= lowest and all(_overlaps(boxes[i], boxes[j]) <= overlap for j in kept):
            kept.append(int(i))
    return kept[:count]


def test_anchors_have_their_area_and_ratios() -> None:
    found = anchors(3, 5, stride=16, scale=128)
    assert found.shape == (3 * 5 * 3, 4)
    width, height = found[:, 2] - found[:, 0], found[:, 3] - found[:, 1]
    np.testing.assert_allclose(width * height, 128**2, rtol=1e-5)
    np.testing.assert_allclose((width / height)[:3], [0.5, 1, 2], rtol=1e-5)
    middles = (found[:, :2] + found[:, 2:]) / 2
    np.testing.assert_allclose(middles[[0, 3, 15]], [[0, 0], [16, 0], [0, 16]], atol=1e-4)


def test_the_image_has_as_many_anchors_as_published() -> None:
    sides = [(1024 // stride) ** 2 * 3 for stride in (4, 8, 16, 32, 64)]
    assert sum(sides) == 261_888


def test_boxes_move_as_told(stack: Any) -> None:
    boxes, deltas = _boxes(9), RNG.normal(size=(9, 4)).astype("float32")
    found = moved(stack.ops, boxes, deltas, *SIZE).numpy()
    np.testing.assert_allclose(found, _moved(boxes, deltas), rtol=1e-4, atol=1e-4)


def test_proposals_are_the_best_boxes_that_do_not_overlap(stack: Any) -> None:
    known, scores = _boxes(30), RNG.uniform(size=30).astype("float32")
    deltas = RNG.normal(size=(30, 4)).astype("float32")
    layer = Proposals(*(None,) * 3, size=SIZE, count=12, limit=20)  # type: ignore[arg-type]
    found = layer._best(stack.ops, known, stack.asarray(scores), stack.asarray(deltas)).numpy()
    best = np.argsort(-scores)[:20]
    near = _moved(known[best], deltas[best])
    kept = _suppressed(near, scores[best], 0.7, -1, 12)
    assert 0 < len(kept) <= 12
    np.testing.assert_allclose(found[: len(kept)], near[kept], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[len(kept) :], 0)


@pytest.mark.parametrize("confidence", [0.0, 0.3, 0.999])
def test_detections_are_class_by_class(stack: Any, confidence: float) -> None:
    count, classes = 15, 4
    boxes, scores = _boxes(count), RNG.dirichlet(np.ones(classes) / 2, count).astype("float32")
    deltas = RNG.normal(size=(count, classes, 4)).astype("float32")
    layer = Detections(SIZE, count=10, confidence=confidence)
    given = tuple(stack.asarray(each) for each in (boxes, scores, deltas))
    found, numbers, best = (each.numpy() for each in layer.forward(given))
    wanted = []
    for c in range(1, classes):
        near = _moved(boxes, deltas[:, c])
        wanted += [(scores[i, c], c, near[i]) for i in _suppressed(near, scores[:, c], 0.3, max(confidence, 1e-30), 10)]
    wanted = sorted(wanted, key=lambda each: -each[0])[:10]
    np.testing.assert_array_equal(numbers, [c for _, c, _ in wanted] + [0] * (10 - len(wanted)))
    np.testing.assert_allclose(best[: len(wanted)], [s for s, _, _ in wanted])
    for box, (_, _, right) in zip(found, wanted, strict=False):
        np.testing.assert_allclose(box, right, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found[len(wanted) :], 0)
    np.testing.assert_array_equal(best[len(wanted) :], 0)


def test_features_come_from_the_level_that_suits_a_region(stack: Any) -> None:
    levels = [stack.asarray(np.full((2, 1024 // s, 1024 // s, 1), s, "float32")) for s in (4, 8, 16, 32)]
    sides = np.float32([40, 112, 150, 170, 224, 448, 1000])
    boxes = np.stack([sides * 0, sides * 0, sides, sides], axis=1)
    found = features(levels, stack.asarray(np.stack([boxes, boxes[::-1]])), 7).numpy()
    assert found.shape == (14, 7, 7, 1)
    wanted = [4, 8, 8, 16, 16, 32, 32]
    np.testing.assert_allclose(found[:, 3, 3, 0], wanted + wanted[::-1])


def test_masks_are_those_of_the_classes_found(stack: Any) -> None:
    masks = RNG.normal(size=(6, 2, 3, 4)).astype("float32")
    classes = RNG.integers(0, 4, (2, 3))
    found = _of_classes(stack.ops, stack.asarray(masks), stack.asarray(classes)).numpy()
    wanted = np.stack([masks[i, :, :, c] for i, c in enumerate(classes.ravel())]).reshape(2, 3, 2, 3)
    np.testing.assert_array_equal(found, wanted)


def test_what_is_not_static_is_refused() -> None:
    with pytest.raises(ShapeError, match="multiples of 64"):
        mask_rcnn(size=(1000, 1024))
    with pytest.raises(ShapeError, match=r"for images of \(1024, 1024\) pixels"):
        models.get("mask-rcnn").with_options(shape=(64, 64, 3))
    with pytest.raises(ShapeError, match="at least one region"):
        mask_rcnn(regions=0)
    with pytest.raises(ShapeError, match="known number of images"):
        models.get("mask-rcnn").reduced().make(nnc.lazy(nnc.Null()), batch="n", seed=None)


def test_images_of_a_batch_do_not_see_each_other() -> None:
    model, stack = models.get("mask-rcnn").reduced(), nnc.lazy()
    x, _ = model.examples(batch=2, seed=1)
    both, one = (stack.engine.compile(model.make(stack, batch=n))(x[:n]) for n in (2, 1))
    for name in one:
        np.testing.assert_allclose(both[name][:1], one[name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_real_image_gives_detections_alike_on_eager_and_lazy_stacks() -> None:
    """A whole network with a ResNet-101, at a reduced size: boxes within the image, masks from 0 to 1."""
    model = models.get("mask-rcnn").with_options(
        shape=(256, 256, 3), size=(256, 256), limit=600, regions=100, detections=20, confidence=0.0
    )
    x, _ = model.examples(batch=1)
    found = {}
    for stack in (nnc.eager(), nnc.lazy()):
        found[stack] = stack.engine.compile(model.make(stack))(x)
    eager, lazy = found.values()
    boxes = np.asarray(lazy["boxes"])[0]
    assert (boxes >= 0).all()
    assert (boxes <= 256).all()
    assert (boxes[:, 2:] >= boxes[:, :2]).all()
    masks = np.asarray(lazy["masks"])
    assert masks.shape == (1, 20, 28, 28)
    assert ((masks >= 0) & (masks <= 1)).all()
    assert ((masks > 0.001) & (masks < 0.999)).any()
    np.testing.assert_allclose(lazy["scores"], eager["scores"], rtol=1e-3, atol=1e-4)
