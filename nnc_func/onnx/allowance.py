"""What reading a model may make: counted before it is computed, whatever numbers are in the file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nnc_func.errors import OnnxError
from nnc_func.facets.dims import known

MAX_BYTES = 1 << 30
"""What reading a model may make beyond what is in it, where nobody says it: 1 GiB."""
FACTOR = 8
"""A byte of a model's own tensors allows as many bytes of what is computed from them."""


class Allowance:
    """Bytes that a model may ask for: some, and a multiple of what it has itself.

    A tensor that is computed while the model is read counts against all of them. One that depends on an input is not
    made yet, and must be no larger than all of them by itself.

    Examples
    --------
    >>> allowance = Allowance(100)
    >>> allowance.take((3, 4), 8, "zeros")
    >>> allowance.take((1,), 8, "one more")
    Traceback (most recent call last):
        ...
    nnc_func.errors.OnnxError: one more of shape (1,) would take 8 bytes beside 96 others, more than max_bytes=100: ...
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        if type(max_bytes) is not int or max_bytes < 0:
            raise OnnxError(f"max_bytes is a number of bytes, given {max_bytes!r}")
        self.max_bytes = max_bytes
        self._most = self._left = max_bytes

    def add(self, given: int) -> None:
        """Count bytes that are in the model."""
        self._most += FACTOR * given
        self._left += FACTOR * given

    def check(self, shape: Iterable[Any], itemsize: int, what: str) -> None:
        """Raise unless one tensor may be as large; extents that are not known are passed over.

        Raises
        ------
        OnnxError
            It may not, or an extent is negative.
        """
        self._checked(shape, itemsize, what, self._most)

    def take(self, shape: Iterable[Any], itemsize: int, what: str) -> None:
        """Count a tensor that is going to be made.

        Raises
        ------
        OnnxError
            With all that were counted before it is too large.
        """
        self._left -= self._checked(shape, itemsize, what, self._left)

    def _checked(self, shape: Iterable[Any], itemsize: int, what: str, limit: int) -> int:
        listed = tuple(shape)
        numbers = [n for n in listed if known(n)]
        if any(n < 0 for n in numbers):
            raise OnnxError(f"{what} of shape {tuple(map(str, listed))}: extents are from 0 on")
        size = itemsize * math.prod(n or 1 for n in numbers)  # an extent of 0 makes the others no smaller for a loop
        if size > limit:
            others = self._most - limit
            raise OnnxError(
                f"{what} of shape ({', '.join(map(str, listed))}{',' * (len(listed) == 1)}) would take {size} bytes"
                f"{f' beside {others} others' if others else ''}, more than max_bytes={self.max_bytes}: "
                "give from_onnx a larger one if you trust the model"
            )
        return size
