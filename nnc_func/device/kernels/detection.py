"""Kernels of detection: boxes, chosen one after the other."""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels.linalg import NUMPY_LIKE, beside


def _descending(xp: Any, scores: Any) -> Any:
    """Positions from the largest score down, the first of equal ones first, NaN last."""
    stable: dict[str, Any] = {"kind": "stable"} if xp.__name__ in NUMPY_LIKE else {"stable": True}
    return xp.argsort(xp.negative(scores), **stable)


def overlaps(xp: Any, box: Any, boxes: Any) -> Any:
    """Intersection over union of one box with each of others; zero where both are empty."""
    zero = xp.zeros((), dtype=boxes.dtype, **beside(xp, boxes))
    width, height = (
        xp.maximum(xp.minimum(box[i + 2], boxes[:, i + 2]) - xp.maximum(box[i], boxes[:, i]), zero) for i in (0, 1)
    )
    common = width * height
    own = xp.maximum(box[2] - box[0], zero) * xp.maximum(box[3] - box[1], zero)
    areas = xp.maximum(boxes[:, 2] - boxes[:, 0], zero) * xp.maximum(boxes[:, 3] - boxes[:, 1], zero)
    union = own + areas - common
    return xp.where(union > 0, common / xp.where(union > 0, union, zero + 1), zero)


def non_maximum_suppression(
    xp: Any, boxes: Any, scores: Any, *, count: int, overlap: float, lowest: float
) -> tuple[Any, Any]:
    """Of the operator of that name: greedily, in the order of the scores."""
    found: list[int] = []
    alive = scores >= lowest
    for at in _descending(xp, scores):
        i = int(at)
        if len(found) == count or not bool(scores[i] >= lowest):
            break
        if bool(alive[i]):
            found.append(i)
            alive = alive & ~(overlaps(xp, boxes[i, :], boxes) > overlap)
    chosen = xp.asarray(found + [-1] * (count - len(found)), dtype=xp.int64, **beside(xp, boxes))
    return chosen, xp.asarray(len(found), dtype=xp.int64, **beside(xp, boxes))
