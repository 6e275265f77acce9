"""Owns what oneDNN makes: each object is freed when nobody has it any more."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

from nnc_func.device.onednn.library import Library
from nnc_func.facets.dtypes import DType, is_bfloat16

BFLOAT16, FLOAT32, INT32, INT8, UINT8 = 2, 3, 4, 5, 6  # ``dnnl_data_type_t``
ANY = 1  # the format tag of ``dnnl_types.h`` that leaves the order of axes to the library
LIMIT = 12  # the most axes that a descriptor has


class Pair(ctypes.Structure):
    """``dnnl_exec_arg_t``: the number of an argument and its memory object."""

    _fields_ = (("number", ctypes.c_int), ("memory", ctypes.c_void_p))


class Handle:
    """An object of the library.

    Parameters
    ----------
    kind
        As in the name of the function that frees it: ``dnnl_kind_destroy``.
    """

    __slots__ = ("__weakref__", "_as_parameter_", "pointer")

    def __init__(self, library: Library, kind: str, pointer: ctypes.c_void_p) -> None:
        self.pointer = pointer
        self._as_parameter_ = pointer  # what ctypes passes: a property's interrupt would be an error of the argument
        free = getattr(library.functions, f"dnnl_{kind}_destroy")
        weakref.finalize(self, free, pointer).atexit = False  # the process takes all with it


def data_type(dtype: DType) -> int:
    """The library's number for float32 or bfloat16."""
    return BFLOAT16 if is_bfloat16(dtype) else FLOAT32


def sizes(numbers: Sequence[int]) -> Any:
    """``dnnl_dims_t`` of extents, strides or offsets."""
    return (ctypes.c_int64 * LIMIT)(*numbers)


def tagged(library: Library, shape: Sequence[int], tag: int, dtype: int = FLOAT32) -> Handle:
    """A descriptor in the order of a format tag, or with `ANY` in whichever the library likes best."""
    made = library.made("memory_desc_create_with_tag", len(shape), sizes(shape), dtype, tag)
    return Handle(library, "memory_desc", made)


def strided(library: Library, shape: Sequence[int], strides: Sequence[int], dtype: int = FLOAT32) -> Handle:
    """A descriptor with those strides, in elements."""
    made = library.made("memory_desc_create_with_strides", len(shape), sizes(shape), dtype, sizes(strides))
    return Handle(library, "memory_desc", made)


def row_major(library: Library, shape: Sequence[int], dtype: int = FLOAT32) -> Handle:
    """A descriptor without gaps, the last axis innermost."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(1, n)
    return strided(library, shape, strides[::-1], dtype)


def nbytes(library: Library, description: Any) -> int:
    """How many bytes a descriptor is of."""
    return int(library.functions.dnnl_memory_desc_get_size(description))


def same(library: Library, one: Any, other: Any) -> bool:
    """Whether two descriptors say the same."""
    return bool(library.functions.dnnl_memory_desc_equal(one, other))


BINARY = {"add": 0x1FFF0, "multiply": 0x1FFF1, "subtract": 0x1FFF5}
UNARY = {
    "fast relu": (0x20, 0.0, 0.0), "zero elu": (0x22, 0.0, 0.0), "plus zero": (0x26, 1.0, 0.0),
    "sigmoid": (0x29, 0.0, 0.0), "swish": (0x2C, 1.0, 0.0), "clip": (0x2E, 0.0, 0.0), "hardswish": (0x34, 1 / 6, 0.5),
    "gelu": (0x31, 0.0, 0.0),
}  # fmt: skip
"""``dnnl_alg_kind_t`` and two parameters; an exponential linear unit of alpha 0, 1 * x + 0, and others."""


def attributes(library: Library, after: Sequence[tuple[str, Handle | None, tuple[float, ...]]] = ()) -> Handle:
    """Attributes of a primitive: the scratchpad is given by whoever runs it, and float32 stays float32.

    Parameters
    ----------
    after
        What is done with each element of its result, in this order: a name, of `BINARY` with the descriptor of the
        second operand, ``"prelu"`` with that of its factor, of `UNARY` with None; and the two parameters, where these
        are others than it says there.
    """
    found = Handle(library, "primitive_attr", library.made("primitive_attr_create"))
    library.call("primitive_attr_set_scratchpad_mode", found, 1)
    library.call("primitive_attr_set_fpmath_mode", found, 0)
    if after:
        chain = Handle(library, "post_ops", library.made("post_ops_create"))
        for name, other, own in after:
            if name == "prelu":
                library.call("post_ops_append_prelu", chain, 0)
            elif other is None:
                kind, *numbers = UNARY[name]
                library.call("post_ops_append_eltwise", chain, kind, *map(ctypes.c_float, own or numbers))
            else:
                library.call("post_ops_append_binary", chain, BINARY[name], other)
        library.call("primitive_attr_set_post_ops", found, chain)  # which copies them
    return found
