"""Rows of matrices: their sums, means and extremes, softmax, and rows that are normalised."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from nnc_func.device.onednn.handles import Handle, attributes, row_major
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import ALIKE, INFERENCE, RESULT, SOURCE, Primitive, assemble, for_threads

REDUCTIONS = {"max": 0x2FFF2, "min": 0x2FFF3, "sum": 0x2FFF4, "mean": 0x2FFF6}  # ``dnnl_alg_kind_t``
SOFTMAX = {"softmax": 0x30000, "log_softmax": 0x30001}
SCALE, OFFSET = 51, 52  # arguments
WITH_SCALE, WITH_OFFSET = 2, 4  # ``dnnl_normalization_flags_t``
WEIGHT = 20  # an element takes as long as so many FLOPs of a convolution


def _made(rows: int, columns: int, make: Callable[[Library], Primitive]) -> Primitive:
    return for_threads(WEIGHT * rows * columns, make)


@lru_cache(ALIKE)
def _reduction(kind: str, rows: int, columns: int, count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        x, y = row_major(library, (rows, columns)), row_major(library, (rows, 1))
        none = ctypes.c_float(0)
        made = library.made(
            "reduction_primitive_desc_create", library.engine, REDUCTIONS[kind], x, y, none, none, attributes(library)
        )
        return assemble(library, Handle(library, "primitive_desc", made), [(SOURCE, x), (RESULT, y)])

    return _made(rows, columns, make)


def reduction(kind: str, rows: int, columns: int) -> Primitive:
    """The primitive of each row's ``"sum"``, ``"mean"``, or ``"max"`` or ``"min"``, which do not see NaN.

    Its arrays are float32, row by row in memory: a matrix, and a number for each of its rows.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _reduction(kind, rows, columns, threads(present()))


@lru_cache(ALIKE)
def _softmax(kind: str, rows: int, columns: int, count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        x = row_major(library, (rows, columns))
        made = library.made(
            "softmax_forward_primitive_desc_create", library.engine, INFERENCE, SOFTMAX[kind], x, x, 1,
            attributes(library),
        )  # fmt: skip
        return assemble(library, Handle(library, "primitive_desc", made), [(SOURCE, x), (RESULT, x)])

    return _made(rows, columns, make)


def softmax(kind: str, rows: int, columns: int) -> Primitive:
    """The primitive of ``"softmax"`` or ``"log_softmax"`` of rows; its arrays are two matrices, or one twice.

    What is below the least normal number is zero, and of a row with NaN some elements are numbers.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _softmax(kind, rows, columns, threads(present()))


@lru_cache(ALIKE)
def _normalisation(rows: int, columns: int, has_scale: bool, has_offset: bool, epsilon: float, count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        x, of_columns = row_major(library, (rows, columns)), row_major(library, (columns,))
        flags = WITH_SCALE * has_scale | WITH_OFFSET * has_offset
        made = library.made(
            "layer_normalization_forward_primitive_desc_create", library.engine, INFERENCE, x, x, None,
            ctypes.c_float(epsilon), flags, attributes(library),
        )  # fmt: skip
        others = [(SCALE, of_columns)] * has_scale + [(OFFSET, of_columns)] * has_offset
        return assemble(library, Handle(library, "primitive_desc", made), [(SOURCE, x), *others, (RESULT, x)])

    return _made(rows, columns, make)


def normalisation(rows: int, columns: int, has_scale: bool, has_offset: bool, epsilon: float) -> Primitive:
    """The primitive of rows less their mean, divided by the root of their variance and `epsilon`.

    Its arrays are a matrix, a factor and a term for each column where it has these, and the result.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _normalisation(rows, columns, has_scale, has_offset, epsilon, threads(present()))
