"""Distances between points, along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.facets import dtypes
from nnc_func.facets.samples import Samples
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops


@composite(samples=Samples(min_rank=1))
def square_distance(o: Ops[Any], x: Tensor, y: Tensor, /, *, axis: int = -1) -> Tensor:
    """The square of the Euclidean distance between points: the sum of squared differences along an axis.

    `x` and `y` broadcast against each other; the result lacks the axis. Small integers are widened to 64 bits first.
    """
    wide = dtypes.accumulated(dtypes.promote(o.dtype(x), o.dtype(y)))
    x, y = (each if wide.kind not in "iu" else o.cast(each, dtype=wide) for each in (x, y))
    return o.sum(o.square(o.subtract(x, y)), axis=axis, keepdims=False)
