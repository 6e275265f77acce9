"""Storage: memory for large results of what is computed ahead, used again when nobody shows it any more.

The C library gives large pieces of memory back to the system as soon as they are free, from the part that a thread of
its own has. The next result is then written to pages that the system has to provide one by one, which takes half as
long as the kernel. So memory that was large and is free is kept for the next result of about that size, while work is
ahead and a moment longer. It is `KEPT` bytes at most, with what arrays show that somebody holds: what is beyond is the
C library's affair.

Nothing here locks: queues are taken from in one step, as a finaliser may come in at any time.
"""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any
from weakref import ref

import numpy as np

FROM = 1 << 22  # bytes from which on an array is large
STEP = 1 << 16  # sizes are multiples of it
KEPT = 1 << 26  # bytes that are leased or free, at most
SPARE = 1.25  # of what is wanted a piece that is free may be as large


class Lease:
    """What arrays that show a piece of memory have as their base: once it is gone, nobody shows that any more."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__


class Weak(ref[Lease]):
    """A weak reference to a lease, which has the memory that was leased."""

    __slots__ = ("memory",)
    memory: Any


class Storage:
    """Memory that is leased, and that is free.

    Examples
    --------
    >>> storage, dtype = Storage(), np.dtype("float64")
    >>> x = storage.empty((1024, 512), dtype)
    >>> where, part = x.ctypes.data, x[1:]
    >>> del x
    >>> y = storage.empty((1024, 512), dtype)
    >>> y.ctypes.data == where  # a part of x is shown
    False
    >>> del part
    >>> storage.empty((1024, 512), dtype).ctypes.data == where
    True
    """

    def __init__(self) -> None:
        self._leased: set[Weak] = set()
        self._gone: deque[Weak] = deque()
        self._free: deque[Any] = deque()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array of that shape and dtype without gaps, whose elements are whatever was there.

        Raises
        ------
        MemoryError
            There is no memory for it.
        """
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < FROM:
            return np.empty(shape, dtype)
        self._settle()
        size = -(-nbytes // STEP) * STEP
        memory = self._taken(size)
        if memory is None:
            if not self._has_room(size):
                return np.empty(shape, dtype)
            memory = np.empty(size, np.uint8)
        lease = Lease(memory)
        weak = Weak(lease, self._gone.append)
        weak.memory = memory
        self._leased.add(weak)
        return np.asarray(lease)[:nbytes].view(dtype).reshape(shape)

    def clear(self) -> None:
        """Give back what is free, and let what is leased be given back as soon as it is."""
        self._leased.clear()
        self._gone.clear()
        self._free.clear()

    def _taken(self, size: int) -> Any:
        """A free piece of about that size, nobody else's now; None: there is none."""
        free = self._free
        for _ in range(len(free)):
            try:
                memory = free.pop()  # the last one is in the caches yet
            except IndexError:
                return None
            if size <= memory.size <= SPARE * size:
                return memory
            free.appendleft(memory)
        return None

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes more are within `KEPT`; what is free, and of other sizes, goes first."""
        leased = sum([weak.memory.size for weak in [*self._leased]])
        while self._free and leased + size + sum([memory.size for memory in [*self._free]]) > KEPT:
            try:
                self._free.popleft()
            except IndexError:
                break
        return bool(leased + size <= KEPT)

    def _settle(self) -> None:
        """Take account of what nobody shows any more."""
        gone, free = self._gone, self._free
        while gone:
            try:
                weak = gone.popleft()
            except IndexError:
                break
            if weak in self._leased:
                self._leased.discard(weak)
                free.append(weak.memory)


STORAGE = Storage()
