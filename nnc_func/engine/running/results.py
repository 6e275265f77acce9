"""Result buffers: each call gets fresh arrays, recycled once nobody holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sys import getrefcount, maxsize
from typing import Any

from nnc_func.engine.running import located
from nnc_func.errors import AllocationError

KEPT = 2  # buffers remembered for each result


class Recycled:
    """Buffers of one shape and dtype. A buffer is taken again only where nobody else refers to it.

    Whether anybody does is read from CPython's reference count, and compared with that of a buffer that nobody
    has been given, counted on the same path.
    """

    __slots__ = ("_alone", "_buffers", "_make")

    def __init__(self, make: Any) -> None:
        self._make = make
        self._buffers: list[Any] = [make()]
        self._alone = 0
        buffer = self._buffers.pop()  # counted just as `take` counts: held by one variable
        self._alone = getrefcount(buffer)
        self._buffers.append(buffer)

    def take(self) -> Any:
        """An array that nobody else holds. Safe among threads: a buffer is off the list while it is looked at."""
        buffers = self._buffers
        for _ in range(len(buffers)):
            try:
                buffer = buffers.pop()
            except IndexError:  # another thread looks at it
                break
            if getrefcount(buffer) <= self._alone:
                buffers.append(buffer)
                return buffer
            buffers.insert(0, buffer)
        made = self._make()
        buffers.append(made)
        del buffers[:-KEPT]
        return made


def recycled(device: Any, aval: Any, what: str) -> Recycled:
    """Buffers of that shape and dtype; `what` says what they are for, should there be no memory."""

    def make() -> Any:
        with memory(aval.nbytes, f"{what}, {aval!r},"):
            return located.empty(device, aval)

    return Recycled(make)


@contextmanager
def memory(nbytes: int, what: str) -> Iterator[None]:
    """Say what it was for if memory cannot be had.

    Raises
    ------
    AllocationError
        So many bytes could not be had.
    """
    if nbytes > maxsize:  # NumPy would call it a wrong value
        raise AllocationError(f"{nbytes} bytes for {what} cannot be had: more than can be addressed")
    try:
        yield
    except MemoryError as error:
        raise AllocationError(f"{nbytes} bytes for {what} cannot be had: {error}") from error
