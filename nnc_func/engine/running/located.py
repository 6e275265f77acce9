"""Arrays in memory of a device as avals say: their place, and the order in which their axes lie there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.bounds import check_view
from nnc_func.facets.places import Place


def arena(device: Any, nbytes: int, place: Place) -> Any:
    """An uninitialised run of bytes in a place."""
    return device.arena(nbytes) if place is None else device.arena(nbytes, place=place)


def view(device: Any, memory: Any, offset: int, aval: Aval, strides: tuple[int, ...] | None = None) -> Any:
    """The array of that aval that lies `offset` bytes into a run of memory; strides in bytes, None for row-major."""
    if strides is None:
        return device.view(memory, offset, aval.shape, aval.dtype)
    return device.view(memory, offset, aval.shape, aval.dtype, strides=strides)


def empty(device: Any, aval: Aval) -> Any:
    """An uninitialised array of that aval."""
    if aval.layout is None and aval.place is None:
        return device.empty(aval.shape, aval.dtype)
    facts: dict[str, Any] = {} if aval.place is None else {"place": aval.place}
    return device.empty(aval.shape, aval.dtype, strides=aval.strides, **facts)


View = tuple[int, tuple[int, ...], Any, int, tuple[int, ...]]
"""A slot, and the shape, dtype, offset and strides (in bytes) of its array in the memory of another."""
Shown = tuple[Any, int, int | tuple[int, ...]]
"""A function, the slot of what it shows, and the slot of the view; a tuple of slots where it gives a tuple of views."""


def slots(result: int | tuple[int, ...]) -> tuple[int, ...]:
    """The slots of views that are made together."""
    return result if type(result) is tuple else (result,)  # type: ignore[return-value]


def paired(result: int | tuple[int, ...], found: Any) -> Iterable[tuple[int, Any]]:
    """The same, each with its array."""
    return zip(result, found, strict=True) if type(result) is tuple else ((result, found),)  # type: ignore[return-value]


def places(aval: Aval, root: int, views: Sequence[Shown], wanted: Sequence[int]) -> list[View] | None:
    """Where views of a NumPy array lie in it, given that it is row-major; None where one of them is no view.

    Parameters
    ----------
    aval
        Of the array.
    root
        Its slot.
    views
        In order: views of views come after them.
    wanted
        Slots of the views that are asked for.

    Examples
    --------
    >>> chain = [(lambda x: x[1:], 0, 1), (lambda x: x.T, 1, 2), (lambda x: x[2:], 2, 3)]
    >>> places(Aval((3, 4), "float32"), 0, chain, [3])
    [(3, (2, 2), dtype('float32'), 24, (4, 16))]
    """
    try:
        whole = np.empty(aval.shape, aval.dtype)  # nothing is written to it or read, so that it costs no pages
    except MemoryError:
        return None
    start = whole.__array_interface__["data"][0]
    shown = {root: whole}
    found: dict[int, View] = {}
    for call, operand, result in views:
        for slot, array in paired(result, call(shown[operand])):
            shown[slot] = array
            if not _shows(array, whole):
                return None
            offset = array.__array_interface__["data"][0] - start
            check_view(whole.nbytes, offset, array.shape, array.strides, array.itemsize)
            found[slot] = slot, array.shape, array.dtype, offset, array.strides
    return [found[slot] for slot in wanted]


def _shows(array: Any, whole: Any) -> bool:
    """Whether an array is that one, or a view of it."""
    while array is not None and array is not whole:
        array = getattr(array, "base", None)
    return array is whole
