"""Arrays of the caller's that results are to be written into: ``out=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError


def given(out: Any, wanted: Sequence[Any], device: Any) -> list[Any]:
    """The arrays as a list, if they fit.

    Raises
    ------
    OperatorError, ShapeError
        Too few or too many, what is no array of the device, one that is read-only or shares memory with another,
        one of another shape or dtype.
    """
    arrays = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(arrays) != len(wanted):
        raise OperatorError(
            f"out= wants {len(wanted)} arrays, given {len(arrays)}; give a list in the order of graph.outputs, unnested"
        )
    owns = getattr(device, "owns", None) or _host
    for i, (aval, array) in enumerate(zip(wanted, arrays, strict=True)):
        if not owns(array):
            raise OperatorError(f"out[{i}] wants an array of the device to write into, given a {type(array).__name__}")
        if device.aval(array) != aval.having(layout=None):
            raise ShapeError(f"out[{i}] wants {aval!r}, given {device.aval(array)!r}")
        if not getattr(getattr(array, "flags", None), "writeable", True):
            raise OperatorError(f"out[{i}] is read-only; give an array that may be written to")
        for j, other in enumerate(arrays[:i]):
            if _overlap(array, other) and (array is other or np.shares_memory(array, other)):
                raise OperatorError(f"out[{i}] shares memory with out[{j}]; give each result an array of its own")
    return arrays


def _host(array: Any) -> bool:
    return isinstance(array, np.ndarray)


def usable(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether kernels may write into them.

    Each is contiguous, in this machine's order of bytes, and shows no memory of another or of what is read.
    """
    return all(map(_is_plain, arrays)) and not any(
        _overlap(a, b) for i, a in enumerate(arrays) for b in (*others, *arrays[:i])
    )


def expendable(array: Any, others: Sequence[Any]) -> bool:
    """Whether a program may write over a caller's array and house others in it: nobody else sees its memory.

    Of arrays that are not NumPy's nobody can tell.
    """
    return isinstance(array, np.ndarray) and bool(array.flags.writeable) and usable([array], others)


def kept(inputs: Sequence[Any]) -> list[Any]:
    """Inputs that no run writes over: of NumPy's arrays read-only views, and others nobody may write to anyway.

    Examples
    --------
    >>> (x,) = kept([np.zeros(2)])
    >>> expendable(x, [])
    False
    """
    found = [x.view() if type(x) is np.ndarray else x for x in inputs]
    for x in found:
        if type(x) is np.ndarray:
            x.flags.writeable = False
    return found


def _is_plain(array: Any) -> bool:
    """Whether it is contiguous, in this machine's order of bytes."""
    flags = getattr(array, "flags", None)
    return (flags is None or bool(flags.c_contiguous)) and bool(getattr(array.dtype, "isnative", True))


def _overlap(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.may_share_memory(one, other))
    return one is other


def delivered(out: Any, results: list[Any]) -> list[Any]:
    """The caller's arrays, with the results in them."""
    arrays = list(out) if isinstance(out, (list, tuple)) else [out]
    for array, result in zip(arrays, results, strict=True):
        if array is not result:
            array[...] = result
    return arrays
