"""Convolutions and matrix products of bytes, summed in int32: where the processor multiplies these exactly.

Without instructions for it (VNNI) the library adds pairs of products in 16 bits, which saturate.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nnc_func.device.onednn.handles import (
    ANY,
    INT8,
    INT32,
    UINT8,
    Handle,
    attributes,
    row_major,
    sizes,
    strided,
    tagged,
)
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import (
    ALIKE,
    DIRECT,
    INFERENCE,
    RESULT,
    SOURCE,
    WEIGHTS,
    ZERO_POINT,
    Convolution,
    Primitive,
    Product,
    assemble,
    for_threads,
    images,
    kernels,
)
from nnc_func.errors import DeviceError

FASTER = 4  # by so much products of bytes take less time than those of float32


def _less_zero(library: Library) -> Handle:
    """Attributes of a primitive that takes a number, which it is given when it runs, off its first operand."""
    found = attributes(library)
    library.call("primitive_attr_set_zero_points_mask", found, SOURCE, 0)
    return found


def _dtype(is_signed: bool) -> int:
    return INT8 if is_signed else UINT8


@lru_cache(ALIKE)
def _convolution(of: Convolution, is_signed: bool, lasting: tuple[int, ...], count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        outputs, dtype = (of.images[0], *of.outputs, of.kernel[3]), _dtype(is_signed)
        (x, xs), (w, ws), (y, ys) = images(of.images), kernels(of.kernel, of.groups), images(outputs)
        source, result = strided(library, x, xs, dtype), strided(library, y, ys, INT32)
        made = library.made(
            "convolution_forward_primitive_desc_create", library.engine, INFERENCE, DIRECT, source,
            tagged(library, w, ANY, INT8), None, result, sizes(of.stride), sizes([d - 1 for d in of.dilation]),
            sizes(of.before), sizes(of.after), _less_zero(library),
        )  # fmt: skip
        given, found = (source, result), (row_major(library, x, dtype), row_major(library, y, INT32))
        source, result = found if of.by_channel else given
        arrays = [
            (SOURCE, source), (WEIGHTS, strided(library, w, ws, INT8)),
            (ZERO_POINT | SOURCE, row_major(library, (1,), INT32)), (RESULT, result),
        ]  # fmt: skip
        return assemble(library, Handle(library, "primitive_desc", made), arrays, lasting)

    return for_threads(of.flops // FASTER, make)


def convolution(of: Convolution, is_signed: bool, lasting: tuple[int, ...] = ()) -> Primitive:
    """The primitive of a convolution of bytes, less a number, with int8.

    Its arrays are images of uint8, or of int8 if they are signed; the kernel; that number, int32; the result, int32.
    With ``(1,)`` as `lasting` the kernel stays the same.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _convolution(of.lying, is_signed, lasting, threads(present()))


@lru_cache(ALIKE)
def _product(of: Product, is_signed: bool, lasting: tuple[int, ...], count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        source, result = row_major(library, of.left, _dtype(is_signed)), row_major(library, of.result, INT32)
        right = row_major(library, of.right, INT8)
        wanted = tagged(library, of.right, ANY, INT8) if lasting else right
        made = library.made(
            "matmul_primitive_desc_create", library.engine, source, wanted, None, result, _less_zero(library)
        )
        arrays = [
            (SOURCE, source), (WEIGHTS, right), (ZERO_POINT | SOURCE, row_major(library, (1,), INT32)),
            (RESULT, result),
        ]  # fmt: skip
        return assemble(library, Handle(library, "primitive_desc", made), arrays, lasting)

    return for_threads(of.flops // FASTER, make)


def product(of: Product, is_signed: bool, lasting: tuple[int, ...] = ()) -> Primitive:
    """The primitive of a matrix product of bytes, less a number, with int8; its arrays as those of `convolution`.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _product(of, is_signed, lasting, threads(present()))


@lru_cache
def is_exact(library: Library) -> bool:
    """Whether sums of the largest products are what they are, on this processor, and numbers are taken off before."""
    from nnc_func.device.onednn.bound import bound

    if "VNNI" not in library.instructions:
        return False
    inner, columns = 64, 16
    right = np.full((inner, columns), -128, np.int8)
    right[:, ::2] = 127
    try:
        for is_signed in (False, True):
            bounds = np.iinfo(np.int8 if is_signed else np.uint8)
            left = np.full((3, inner), bounds.max, bounds.dtype)
            left[1] = bounds.min
            made = product(Product(left.shape, right.shape, False, False), is_signed)
            scratch = np.empty(made.room, np.uint8) if made.scratch else None
            run = bound(made, scratch, (np.asarray,) * 3)
            for zero in (0, 3, -7):
                found = np.empty((3, columns), np.int32)
                run(left, right, np.array(zero, np.int32), found)
                wanted = (left.astype(np.int32) - zero) @ right.astype(np.int32)
                if not np.array_equal(found, wanted):
                    return False
    except DeviceError:
        return False
    return True
