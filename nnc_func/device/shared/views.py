"""Views of arrays by number: which slot shows which, and where NumPy's lie in the memory that they show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.shared.bounds import check_view

View = tuple[int, tuple[int, ...], Any, int, tuple[int, ...]]
"""A slot, and the shape, dtype, offset and strides (in bytes) of its array in the memory of another."""
Shown = tuple[Any, int, int | tuple[int, ...]]
"""A function, the slot of what it shows, and the slot of the view; a tuple of slots where it gives a tuple of views."""


class HostViews:
    """Where views of NumPy's arrays lie: see `ViewsSignature`.

    Examples
    --------
    >>> chain = [(lambda x: x[1:], 0, 1), (lambda x: x.T, 1, 2), (lambda x: x[2:], 2, 3)]
    >>> HostViews().locate(Aval((3, 4), "float32"), 0, chain, [3])
    [(3, (2, 2), dtype('float32'), 24, (4, 16))]
    """

    at: ClassVar[Any] = np.ndarray

    def locate(self, aval: Aval, root: int, shown: Sequence[Shown], wanted: Sequence[int]) -> list[View] | None:
        """Where views of an array lie in it; see `ViewsSignature.locate`."""
        try:
            whole = np.empty(aval.shape, aval.dtype)  # nothing is written to it or read, so that it costs no pages
        except MemoryError:
            return None
        start = whole.__array_interface__["data"][0]
        arrays = {root: whole}
        found: dict[int, View] = {}
        for call, operand, result in shown:
            for slot, array in paired(result, call(arrays[operand])):
                arrays[slot] = array
                if not _shows(array, whole):
                    return None
                offset = array.__array_interface__["data"][0] - start
                check_view(whole.nbytes, offset, array.shape, array.strides, array.itemsize)
                found[slot] = slot, array.shape, array.dtype, offset, array.strides
        return [found[slot] for slot in wanted]


def slots(result: int | tuple[int, ...]) -> tuple[int, ...]:
    """The slots of views that are made together."""
    return result if type(result) is tuple else (result,)  # type: ignore[return-value]


def paired(result: int | tuple[int, ...], found: Any) -> Iterable[tuple[int, Any]]:
    """The same, each with its array."""
    return zip(result, found, strict=True) if type(result) is tuple else ((result, found),)  # type: ignore[return-value]


def _shows(array: Any, whole: Any) -> bool:
    """Whether an array is that one, or a view of it."""
    while array is not None and array is not whole:
        array = getattr(array, "base", None)
    return array is whole
