"""Room for a tensor that grows along an axis: what is put behind it is written behind it, and nothing is moved.

There is twice as much room each time that it does not suffice. What was there before stays as it was, so that whoever
has seen the tensor at an earlier time may go on reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.engine.copying import COPY
from nnc_func.engine.planning.sub_buffers import row_major
from nnc_func.engine.running import array_views
from nnc_func.engine.running.results import memory

LEAST = 16  # rows that there is room for at first


def doubled(extent: int, least: int = LEAST) -> int:
    """The least power of two that is as large.

    Examples
    --------
    >>> doubled(5), doubled(17), doubled(64)
    (16, 32, 64)
    """
    return max(least, 1 << max(0, extent - 1).bit_length())


class Room:
    """Memory in which a tensor grows.

    Parameters
    ----------
    axis
        Along which it does.
    place
        Of the device.

    Attributes
    ----------
    whole
        The tensor that was last made: what it begins with stays where it is.
    """

    __slots__ = ("_bytes", "_copy", "_device", "_extent", "_strides", "axis", "place", "whole")

    def __init__(self, device: Any, axis: int, place: Any = None) -> None:
        self.axis, self.place = axis, place
        self.whole: Any = None
        self._bytes: Any = None
        self._strides: tuple[int, ...] = ()
        self._device, self._extent = device, 0
        self._copy = device.writing(COPY, COPY.kernels[0], (), 1, ())

    def joined(self, parts: Sequence[Any], shape: tuple[int, ...]) -> Any:
        """The parts one behind the other, as an array of that shape; the first one is not moved if it is there."""
        first, *rest = parts
        axis = self.axis
        if first is self.whole and shape[axis] <= self._extent:
            at = first.shape[axis]
        else:
            self._make(shape, first.dtype)
            at, rest = 0, [first, *rest]
        step = self._strides[axis]
        for part in rest:
            extent = part.shape[axis]
            if part.size:
                self._copy(part, self._view(at * step, part.shape, first.dtype))
            at += extent
        self.whole = self._view(0, shape, first.dtype)
        return self.whole

    def _make(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._extent = doubled(shape[self.axis])
        wide = (*shape[: self.axis], self._extent, *shape[self.axis + 1 :])
        self._strides = row_major(wide, dtype.itemsize)
        nbytes = self._strides[0] * wide[0]
        with memory(nbytes, f"a tensor {dtype}{list(shape)} that grows along axis {self.axis}"):
            self._bytes = array_views.arena(self._device, nbytes, self.place)

    def _view(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._device.view(self._bytes, offset, shape, dtype, strides=self._strides)
