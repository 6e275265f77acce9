"""Sums and products of arrays, element by element, in one go through memory: a binary primitive and what follows it."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device.onednn.handles import BINARY, UNARY, Handle, attributes, row_major
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import (
    ALIKE,
    EXACTLY,
    INFERENCE,
    RESULT,
    SECOND,
    SOURCE,
    After,
    Primitive,
    Product,
    assemble,
    for_threads,
    operands_after,
    product,
)
from nnc_func.errors import DeviceError

WEIGHT = 20  # an element takes as long as so many FLOPs of a convolution


@frozen
class Chain:
    """An operator of two arrays and those that follow it.

    Attributes
    ----------
    rows, columns
        Extents of the first array and the result, float32, row by row in memory.
    first
        The operator, and which elements its second operand has.
    after
        What is done with its result.
    """

    rows: int
    columns: int
    first: After
    after: tuple[After, ...]


@lru_cache(ALIKE)
def _chain(of: Chain, count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        whole, channels = row_major(library, (of.rows, of.columns)), row_major(library, (1, of.columns))
        done, others = operands_after(library, of.after, 2, whole, channels)
        attribute = attributes(library, done)
        if not of.first.other:
            kind, *numbers = UNARY[of.first.name]
            made = library.made(
                "eltwise_forward_primitive_desc_create", library.engine, INFERENCE, kind, whole, whole,
                *map(ctypes.c_float, numbers), attribute,
            )  # fmt: skip
            given = [(SOURCE, whole), *others]
        else:
            second = {"whole": whole, "channels": channels}.get(of.first.other) or row_major(library, (1, 1))
            made = library.made(
                "binary_primitive_desc_create", library.engine, BINARY[of.first.name], whole, second, whole, attribute
            )
            given = [(SOURCE, whole), (SECOND, second), *others]
        return assemble(library, Handle(library, "primitive_desc", made), [*given, (RESULT, whole)])

    return for_threads(WEIGHT * of.rows * of.columns, make)


def chain(of: Chain) -> Primitive:
    """The primitive of a chain; its arrays are the first one, other operands in their order, and the result.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _chain(of, threads(present()))


SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, -104.0, 3e38, -3e38, 1e-45, -1e-45)


@lru_cache
def keeps_nan(library: Library) -> bool:
    """Whether a rectifier that is put together (`primitives.EXACTLY`) keeps NaN and is exact, on this processor."""
    given = np.repeat(np.array([SPECIAL], np.float32), 16, 1)
    rows, columns = given.shape
    try:
        rectifier = chain(Chain(rows, columns, After("add", "number"), EXACTLY["relu"]))
    except DeviceError:
        return False
    found = _computed(rectifier, given, np.zeros((1, 1), np.float32), given)
    wanted = np.maximum(given, 0)
    return np.array_equal(found, wanted, equal_nan=True) and not np.signbit(found[found == 0]).any()


@lru_cache
def leaks(library: Library) -> bool:
    """Whether a leaky rectifier is exact, NaN included, on this processor: ``max(x, a x)`` of a factor up to 1.

    It is tried behind a product, with one column that is not zero: other primitives say that they have it, and fail.
    """
    left = np.zeros((len(SPECIAL), 8), np.float32)
    left[:, 0] = SPECIAL
    right = np.zeros((8, 16), np.float32)
    right[0] = 1
    of = Product(left.shape, right.shape, False, False)
    try:
        plain = _computed(product(of), left, right, np.empty(of.result, np.float32))
        for factor in np.array([0.25, 1, 1e-30], np.float32).reshape(-1, 1, 1):
            found = _computed(product(of, after=(After("prelu", "number"),)), left, right, factor, plain)
            wanted = np.maximum(plain, plain * factor)
            if not np.array_equal(found, wanted, equal_nan=True) or (np.signbit(found) != np.signbit(wanted)).any():
                return False
    except DeviceError:
        return False
    return True


def _computed(primitive: Primitive, *arrays: Any) -> Any:
    """What a primitive gives of arrays, of which the last one is as the result."""
    from nnc_func.device.onednn.bound import bound

    *operands, like = arrays
    found = np.empty_like(like)
    scratch = np.empty(primitive.room, np.uint8) if primitive.scratch else None
    bound(primitive, scratch, (np.asarray,) * len(operands))(*operands, found)
    return found
