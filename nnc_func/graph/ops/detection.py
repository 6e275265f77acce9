"""Detection: which boxes to keep."""

from __future__ import annotations

import math
from typing import Any

from nnc_func.device.kernels import detection as kernels
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import indexing as onnx_indexing
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.families import Tensor
from nnc_func.op import operator


def _kept(boxes: ShapeT, scores: ShapeT, *, count: int, overlap: float, lowest: float) -> tuple[ShapeT, ShapeT]:
    if len(boxes) != 2 or not same_extent(boxes[1], 4) or len(scores) != 1 or not same_extent(boxes[0], scores[0]):
        raise ShapeError(
            f"wanted boxes (n, 4) and scores (n,), given {boxes} and {scores}; one class and image at a time"
        )
    if count < 0:
        raise OperatorError(f"count is the largest number of boxes to keep, given {count}")
    if not 0 <= overlap <= 1:
        raise OperatorError(f"overlap is an intersection over union, between 0 and 1, given {overlap}")
    if math.isnan(lowest):
        raise OperatorError("lowest is the least score that counts: no NaN")
    return (count,), ()


def _positions(boxes: dtypes.DType, scores: dtypes.DType, **_: Any) -> tuple[dtypes.DType, dtypes.DType]:
    for each in (boxes, scores):
        if kind_of(each) != "f":
            raise DTypeError(f"boxes and scores are floating numbers, given {boxes} and {scores}; cast them first")
    return dtypes.INT64, dtypes.INT64


def _work(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    n, kept = args[0].shape[0], results[0].size
    return Cost(16 * n * min(n, kept) if known(n) else 0)


@operator(
    shape=_kept, dtype=_positions, kernels=reference(kernels.non_maximum_suppression), multi_result=True, cost=_work,
    derivative=NOT_DIFFERENTIABLE("it gives positions, which jump"),
    onnx=onnx_indexing.non_maximum_suppression, tolerance=Tolerance(0.0),
    samples=Samples(relation="cases", cases=tuple(
        ((((n, 4), dtype, (0.0, 4.0)), ((n,), dtype)), {"count": count, "overlap": overlap, "lowest": lowest})
        for n in (0, 1, 6) for dtype in FLOATS
        for count, overlap, lowest in ((3, 0.5, -math.inf), (8, 0.0, -1.0), (0, 0.5, 0.0))
    )),
)  # fmt: skip
def non_maximum_suppression(
    boxes: Tensor, scores: Tensor, /, *, count: int, overlap: float = 0.5, lowest: float = -math.inf
) -> Any:
    """Positions of boxes from the best score down, without those that overlap a better one; and how many there are.

    Shapes: boxes ``(n, 4)``, each ``(left, top, right, bottom)``, and scores ``(n,)``, of one class of one image. The
    positions are ``int64[count]``, filled up with -1, and their number ``int64[]``.

    A box is left out if its intersection over union with one that is kept is larger than `overlap`, or its score is
    less than `lowest` or NaN. Of equal scores the first comes first. Boxes without extent overlap nothing.
    """
