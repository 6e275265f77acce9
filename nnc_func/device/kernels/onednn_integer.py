"""Kernels of oneDNN for convolutions and matrix products of bytes, on processors that multiply these exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.device.kernels.onednn import (
    PACKED,
    Run,
    Scratch,
    accepted,
    contiguous,
    kernel_of,
    pad,
    result_array,
)
from nnc_func.device.kernels.onednn_conv import IMAGES, description, pads_inward
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC, ROW_MAJOR

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import Primitive

BYTES, INT8, INT32 = frozenset(map(np.dtype, ("uint8", "int8"))), np.dtype("int8"), np.dtype("int32")
FEW = (1 << 24) // (255 * 128)  # products of bytes, of which every sum is a whole number that a float32 has
EXACT = ("vnni", "amx")  # in the names of what multiplies bytes without saturating sums of pairs
ZERO = 2  # the operand that is taken off the elements of the first one


def _is_exact() -> bool:
    from nnc_func.device.onednn.integer import is_exact
    from nnc_func.device.onednn.library import present

    return is_exact(present())


def _takes(of: Callable[..., Primitive], avals: Sequence[Any], *, small_sums: bool, **params: Any) -> bool:
    """Whether the library has code for these, exact on this processor: extents are known, and none is empty.

    It rounds sums to float32 on their way to int32 wherever it takes something off them.
    """
    x, w, _ = avals[:3]
    fits = x.dtype in BYTES and w.dtype == INT8
    sized = all(isinstance(n, int) and n for a in avals for n in a.shape)
    if not fits or not sized or not _is_exact() or not (small_sums or math.prod(w.shape[:-1]) <= FEW):
        return False
    return not pads_inward(params.get("padding", "VALID")) and (
        accepted(of, avals, **params) and any(n in of(avals, **params).implementation for n in EXACT)
    )


def _bound(
    of: Callable[..., Primitive], is_laid: bool, avals: Sequence[Any], *, small_sums: bool, shares: bool = False,
    **params: Any,
) -> Callable[..., Run]:  # fmt: skip
    from nnc_func.device.onednn.bound import bound

    primitive = of(avals, **params)
    images = IMAGES if is_laid and params["data_format"] != NHWC else contiguous
    ready = (images, contiguous, contiguous)
    return lambda *scratch: _with_number(bound(primitive, scratch[0] if scratch else None, ready, shares))


def _with_number(run: Run) -> Run:
    """The function given a byte, where the library wants its zero point in int32."""
    number = np.empty((), INT32)

    def around(run: Any) -> Any:
        def call(x: Any, w: Any, zero: Any, out: Any) -> None:
            number[()] = zero
            run(x, w, number, out)

        call.fixed = lambda arrays: around(run.fixed({**arrays, ZERO: number}))  # type: ignore[attr-defined]
        return call

    return around(run)  # type: ignore[no-any-return]


def _scratch(of: Callable[..., Primitive], avals: Sequence[Any], *, small_sums: bool, **params: Any) -> Scratch:
    return pad(of(avals, **params))


def _kernels(
    name: str, of: Callable[..., Primitive], is_laid: bool, empty: Callable[..., Any], **facts: Any
) -> tuple[Kernel, ...]:
    """With any right operand, and with one that stays the same; `is_laid`: channels of images are innermost."""
    parts = partial(_bound, of, is_laid), partial(_scratch, of), partial(_takes, of), empty
    return (
        kernel_of(f"onednn{name}", *parts, packed=f"{PACKED}{name}", **facts),
        kernel_of(f"{PACKED}{name}", *parts, (1,), **facts),
    )


# --- convolutions ------------------------------------------------------------------------------------------


def _convolution(by_channel: bool, avals: Sequence[Any], *, lasting: tuple[int, ...] = (), **params: Any) -> Primitive:
    from nnc_func.device.onednn.integer import convolution

    x, w = avals[:2]
    found = description(x.shape, w.shape, by_channel=by_channel and params["data_format"] != NHWC, **params)
    return convolution(found, x.dtype == INT8, lasting)


def convolution_kernels(result: Callable[..., Any]) -> tuple[Kernel, ...]:
    """Of a convolution of bytes; ``result(x, w, **params)`` is its shape.

    Images lie with channels innermost, or, in the format NCHW, channel by channel: these are put into order before it.
    """

    def empty(x: Any, w: Any, zero: Any, *, data_format: str, small_sums: bool, **params: Any) -> Any:
        shape = result(x.shape, w.shape, data_format=data_format, **params)
        return result_array(shape, INT32, data_format)

    def empty_by_channel(x: Any, w: Any, zero: Any, *, small_sums: bool, **params: Any) -> Any:
        return np.empty(result(x.shape, w.shape, **params), INT32)

    return (
        *_kernels("", partial(_convolution, False), True, empty, layouts=((NHWC, ROW_MAJOR, ROW_MAJOR, NHWC),)),
        *_kernels(", by channel", partial(_convolution, True), False, empty_by_channel, layouts=(ROW_MAJOR,)),
    )


# --- matrix products ---------------------------------------------------------------------------------------


def _product(avals: Sequence[Any], *, lasting: tuple[int, ...] = ()) -> Primitive:
    from nnc_func.device.onednn.integer import product
    from nnc_func.device.onednn.primitives import Product

    x, w = avals[:2]
    rows = (math.prod(x.shape[:-1]), x.shape[-1])
    return product(Product(rows, tuple(w.shape), False, False), x.dtype == INT8, lasting)


def product_kernels() -> tuple[Kernel, ...]:
    """Of a matrix product of bytes."""

    def empty(x: Any, w: Any, zero: Any, *, small_sums: bool) -> Any:
        return np.empty((*x.shape[:-1], w.shape[-1]), INT32)

    return _kernels("", _product, False, empty)
