"""Kernels of oneDNN over the innermost axes, under `fast_math`: sums, means, extremes and softmax.

Extremes and softmax lose NaN. Sums do not, but are rounded otherwise than NumPy's, which groups of operators compute:
by default rewriting leaves their bits. Over other axes the library goes element by element, a hundred times slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.device.kernels.onednn import FAST, Run, Scratch, accepted, contiguous, kernel_of, pad, takes
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.shapes import normalise_axes, reduced

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import Primitive

LEAST = 1 << 13  # elements: of fewer NumPy has answered before the library has begun
MOST = 1 << 12  # elements of a row that are summed one after the other: NumPy sums halves


def rows_of(shape: Sequence[int], axis: Any) -> tuple[int, int] | None:
    """How many rows there are, and elements in each, where axes are the innermost ones; None where they are not."""
    axes, rank = sorted(normalise_axes(axis, len(shape))), len(shape)
    if not axes or axes != [*range(rank - len(axes), rank)]:
        return None
    columns = math.prod(shape[axes[0] :])
    return math.prod(shape) // columns, columns


def are_rows(avals: Sequence[Any], axis: Any) -> bool:
    """Whether an array is of float32, row by row in memory, of some size, and axes are its innermost ones."""
    if not takes(avals) or getattr(avals[0], "layout", None) is not None or math.prod(avals[0].shape) < LEAST:
        return False
    found = rows_of(avals[0].shape, axis)
    return found is not None and found[1] > 1


def bound_rows(primitive: Primitive, operands: int = 1) -> Callable[..., Run]:
    """What makes of scratch memory a function of operands, row by row in memory, and a result."""
    from nnc_func.device.onednn.bound import bound

    return lambda *scratch: bound(primitive, scratch[0] if scratch else None, (contiguous,) * operands)


# --- reductions --------------------------------------------------------------------------------------------


def _reduction_of(kind: str, avals: Sequence[Any], *, axis: Any, keepdims: bool) -> Primitive:
    from nnc_func.device.onednn.rows import reduction

    found = rows_of(avals[0].shape, axis)
    assert found is not None
    return reduction(kind, *found)


def _takes_reduction(kind: str, avals: Sequence[Any], **params: Any) -> bool:
    if not are_rows(avals, params["axis"]) or not accepted(_reduction_of, kind, avals, **params):
        return False
    found = rows_of(avals[0].shape, params["axis"])
    return kind in ("max", "min") or (found is not None and found[1] <= MOST)


def _bound_reduction(kind: str, avals: Sequence[Any], **params: Any) -> Callable[..., Run]:
    return bound_rows(_reduction_of(kind, avals, **params))


def _reduction_scratch(kind: str, avals: Sequence[Any], **params: Any) -> Scratch:
    return pad(_reduction_of(kind, avals, **params))


def _empty_reduced(x: Any, **params: Any) -> Any:
    return np.empty(reduced(x.shape, **params), x.dtype)


def reduction_kernel(kind: str) -> Kernel:
    """Of a reduction over the innermost axes; extremes are not NaN where there is one."""
    parts = partial(_bound_reduction, kind), partial(_reduction_scratch, kind), partial(_takes_reduction, kind)
    return kernel_of("onednn, fast math", *parts, _empty_reduced, library=FAST)


# --- softmax -----------------------------------------------------------------------------------------------


def _softmax_of(kind: str, avals: Sequence[Any], *, axis: int) -> Primitive:
    from nnc_func.device.onednn.rows import softmax

    found = rows_of(avals[0].shape, axis)
    assert found is not None
    return softmax(kind, *found)


def _takes_softmax(kind: str, avals: Sequence[Any], *, axis: int) -> bool:
    return are_rows(avals, axis) and accepted(_softmax_of, kind, avals, axis=axis)


def _bound_softmax(kind: str, avals: Sequence[Any], *, axis: int) -> Callable[..., Run]:
    return bound_rows(_softmax_of(kind, avals, axis=axis))


def _softmax_scratch(kind: str, avals: Sequence[Any], *, axis: int) -> Scratch:
    return pad(_softmax_of(kind, avals, axis=axis))


def _empty_like(x: Any, **_: Any) -> Any:
    return np.empty(x.shape, x.dtype)


def softmax_kernel(kind: str) -> Kernel:
    """Of ``"softmax"`` or ``"log_softmax"`` over the innermost axis.

    Of a row with NaN some elements are numbers, and what is below the least normal number is zero.
    """
    parts = partial(_bound_softmax, kind), partial(_softmax_scratch, kind), partial(_takes_softmax, kind)
    return kernel_of("onednn, fast math", *parts, _empty_like, overwrites=(0,), library=FAST)
