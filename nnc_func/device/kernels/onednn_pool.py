"""Kernels of oneDNN: maxima and means of windows over images whose channels are innermost in memory.

Its maxima do not see NaN: they are taken where that is allowed (`onednn.FAST`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nnc_func.device.kernels.onednn import (
    FAST,
    LIBRARY,
    Run,
    accepted,
    contiguous,
    in_layout,
    kernel_of,
    pad,
    result_array,
    takes,
)
from nnc_func.device.kernels.pool_reference import pooled, windows_in
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import CHANNELS_INNERMOST, NHWC

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import Primitive


def _pooling_of(maximum: bool, x: Any, *, count_padding: bool = False, data_format: str, **params: Any) -> Primitive:
    from nnc_func.device.onednn.pooling import Pooling, pooling

    over = windows_in(x.shape, data_format=data_format, **params)
    kind = "maximum" if maximum else "mean with padding" if count_padding else "mean"
    images = tuple(x.shape) if data_format == NHWC else tuple(x.shape[i] for i in CHANNELS_INNERMOST)
    return pooling(
        Pooling(kind, images, over.outputs, over.size, over.stride, over.dilation, over.before, over.after)
    )  # fmt: skip


def _takes(maximum: bool, avals: Sequence[Any], **params: Any) -> bool:
    return takes(avals) and accepted(_pooling_of, maximum, avals[0], **params)


def _scratch(maximum: bool, avals: Sequence[Any], **params: Any) -> Any:
    return pad(_pooling_of(maximum, avals[0], **params))


def _bound(maximum: bool, avals: Sequence[Any], *, data_format: str, **params: Any) -> Callable[..., Run]:
    from nnc_func.device.onednn.bound import bound

    ready = (contiguous if data_format == NHWC else in_layout(CHANNELS_INNERMOST),)
    primitive = _pooling_of(maximum, avals[0], data_format=data_format, **params)
    return lambda *scratch: bound(primitive, scratch[0] if scratch else None, ready)


def _empty(x: Any, *, data_format: str, **params: Any) -> Any:
    return result_array(pooled(x, data_format=data_format, **params), x.dtype, data_format)


def _kernel(name: str, library: str, maximum: bool) -> Kernel:
    bound, scratch, takes = partial(_bound, maximum), partial(_scratch, maximum), partial(_takes, maximum)
    return kernel_of(name, bound, scratch, takes, _empty, layouts=((NHWC, NHWC),), library=library)


LIBRARY_MAXIMUM = _kernel("onednn, fast math", FAST, True)
LIBRARY_MEAN = _kernel("onednn", LIBRARY, False)
