"""The kernel of oneDNN that puts arrays into another order of axes in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels.move import relayout
from nnc_func.device.kernels.onednn import FLOAT32, Run, accepted, in_layout, kernel_of, pad, takes
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import Layout, permutation, strides

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import Primitive


def _order(x: Any) -> Layout:
    """How an operand lies, as a plan says; of an array as its strides do."""
    if not isinstance(x, np.ndarray):
        return getattr(x, "layout", None)
    found = tuple(sorted(range(x.ndim), key=lambda axis: (-x.strides[axis], axis)))
    return None if found == tuple(range(x.ndim)) else found


def _steps(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """From one element to the next along each axis, in elements."""
    order = tuple(range(len(shape))) if layout is None else layout
    found = strides(order, shape, FLOAT32.itemsize)
    assert found is not None
    return tuple(step // FLOAT32.itemsize for step in found)


def _reorder_of(x: Any, *, layout: Any, data_format: str) -> Primitive:
    from nnc_func.device.onednn.reorders import reorder

    shape = tuple(x.shape)
    return reorder(shape, _steps(shape, _order(x)), _steps(shape, permutation(layout, len(shape), data_format)))


def _takes(avals: Sequence[Any], **params: Any) -> bool:
    return takes(avals) and avals[0].ndim > 1 and accepted(_reorder_of, avals[0], **params)


def _scratch(avals: Sequence[Any], **params: Any) -> Any:
    return pad(_reorder_of(avals[0], **params))


def _bound(avals: Sequence[Any], **params: Any) -> Callable[..., Run]:
    from nnc_func.device.onednn.bound import bound

    primitive, ready = _reorder_of(avals[0], **params), (in_layout(_order(avals[0])),)
    return lambda *scratch: bound(primitive, scratch[0] if scratch else None, ready)


LIBRARY_RELAYOUT: Kernel = evolve(
    kernel_of("onednn", _bound, _scratch, _takes, relayout), compute=relayout
)  # what is called by itself is of arrays that may lie anyhow
