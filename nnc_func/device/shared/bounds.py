"""The one door to memory: an array is shown in a run of bytes only where each of its elements lies inside, exactly.

Python's integers do not wrap: NumPy computes bounds modulo 2⁶⁴, so that strides which wrap pass its own check, and
`as_strided` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.errors import DeviceError

RANK = 64  # axes that NumPy's arrays have at most
LIMIT = 1 << 62  # no number of bytes, offset or stride is as large: sums of them do not wrap in 64 bits


def reach(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The bytes that an array takes, counted from its first element: ``[low, high)``; of an empty one, none.

    Examples
    --------
    >>> reach((3, 4), (-16, 4), 4)
    (-32, 16)
    """
    if 0 in shape:
        return 0, 0
    low, high = 0, itemsize
    for n, s in zip(shape, strides, strict=True):
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    return low, high


def check_view(nbytes: int, offset: int, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> None:
    """Raise unless an array lies inside a run of memory.

    Parameters
    ----------
    nbytes
        Of the memory.
    offset
        Bytes from its start to the first element.
    shape, strides
        Of the array; strides in bytes, None: row-major.
    itemsize
        Bytes of an element.

    Raises
    ------
    DeviceError
        It does not, or a number is none, or is too large to compute with.

    Examples
    --------
    >>> check_view(64, 32, (2, 4), None, 4)
    >>> check_view(64, 0, (2**56 + 1, 64), (768, 1), 1)
    Traceback (most recent call last):
    nnc_func.errors.DeviceError: an array of shape (72057594037927937, 64), ... lies outside of 64 bytes
    """
    if type(offset) is int and len(shape) <= RANK and _is_inside(nbytes, offset, shape, strides, itemsize):
        return
    raise DeviceError(
        f"an array of shape {tuple(shape)}, strides {strides} and items of {itemsize} bytes, at byte {offset}, lies "
        f"outside of {nbytes} bytes"
    )


def _is_inside(nbytes: int, offset: int, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> bool:
    if strides is None:
        size = itemsize
        for n in shape:
            if type(n) is not int or not 0 <= n < LIMIT:
                return False
            size *= n
        return 0 <= offset <= nbytes - size
    if len(strides) != len(shape):
        return False
    low, high = offset, offset + itemsize  # as `reach` has it, in one loop
    for n, s in zip(shape, strides, strict=True):
        if type(n) is not int or type(s) is not int or not (0 <= n < LIMIT and -LIMIT < s < LIMIT):
            return False
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    if 0 in shape:
        return 0 <= offset <= nbytes
    return low >= 0 and high <= nbytes


def strided(xp: Any, base: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A view of an array with another shape and strides, in bytes, from the same first element.

    Raises
    ------
    DeviceError
        It would show a byte that is outside of the array's.

    Examples
    --------
    >>> import numpy as np
    >>> strided(np, np.arange(5), (3, 3), (8, 8)).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    low, high = reach(base.shape, base.strides, base.itemsize)
    check_view(high - low, -low, [*map(int, shape)], [*map(int, strides)], base.itemsize)
    return xp.lib.stride_tricks.as_strided(base, shape, strides)
