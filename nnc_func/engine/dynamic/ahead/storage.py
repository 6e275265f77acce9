"""Storage: memory for large results of what is computed ahead, used again when nobody shows it any more.

The C library gives large pieces of memory back to the system as soon as they are free, from the part that a thread of
its own has. The next result is then written to pages that the system has to provide one by one, which takes half as
long as the kernel. So memory that was large and is free is kept for the next result of about that size, while work is
ahead and a moment longer. It is `KEPT` bytes at most, with what was leased meanwhile to arrays that somebody holds:
what is beyond is the C library's affair.

Nobody waits here: a finaliser may come in at any time, and look at what another thread computes. Who finds somebody
else amid it takes memory of the C library's.
"""

from __future__ import annotations

import threading
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


class _Pieces:
    """Pieces of memory that are leased, and that are free. One thread at a time looks after them."""

    __slots__ = ("_free", "_gone", "_leased", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._leased: dict[int, Weak] = {}  # by identity
        self._gone: deque[Weak] = deque()
        self._free: list[Any] = []

    def leased(self, size: int) -> Lease | None:
        """A piece of that size or a little more, of which nobody else has a lease; None: there is no room for one."""
        self._settle()
        memory = self._taken(size)
        if memory is None:
            if not self._has_room(size):
                return None
            memory = self._new(size)
        lease = Lease(memory)
        weak = Weak(lease, self._gone.append)
        weak.memory = memory
        self._leased[id(weak)] = weak
        return lease

    @property
    def nbytes(self) -> int:
        """Bytes that are leased, or free."""
        return self._leased_bytes() + sum([int(memory.size) for memory in [*self._free]])

    def _leased_bytes(self) -> int:
        return sum([int(weak.memory.size) for weak in [*self._leased.values()]])

    def _taken(self, size: int) -> Any:
        for n in reversed(range(len(self._free))):  # the last one is in the caches yet
            if size <= self._free[n].size <= SPARE * size:
                return self._free.pop(n)
        return None

    def _new(self, size: int) -> Any:
        try:
            return np.empty(size, np.uint8)
        except MemoryError:  # which what is free may mend
            self._free.clear()
            return np.empty(size, np.uint8)

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes more are within `KEPT`; what is free, and of other sizes, goes first."""
        if self._leased_bytes() + size > KEPT:
            return False
        while self._free and self.nbytes + size > KEPT:
            del self._free[0]
        return True

    def _settle(self) -> None:
        """Take account of what nobody shows any more; after an interrupt at any line no piece is there twice."""
        gone = self._gone
        while gone:
            weak = gone[0]
            if self._leased.pop(id(weak), None) is weak:
                self._free.append(weak.memory)
            gone.popleft()


class Storage:
    """Memory for results, while it is open.

    Examples
    --------
    >>> storage, dtype = Storage(), np.dtype("float64")
    >>> storage.open()
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

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: _Pieces | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are leased, or free."""
        return 0 if self._pieces is None else self._pieces.nbytes

    def open(self) -> None:
        """Keep memory from now on."""
        if self._pieces is None:
            self._pieces = _Pieces()

    def close(self) -> None:
        """Give back what is free, and let what is leased be given back as soon as nobody shows it."""
        self._pieces = None  # who is amid a lease goes on with what was there, and that goes with him

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array of that shape and dtype without gaps, whose elements are whatever was there.

        Raises
        ------
        MemoryError
            There is no memory for it.
        """
        nbytes, pieces = prod(shape) * dtype.itemsize, self._pieces
        if nbytes < FROM or pieces is None or not pieces.lock.acquire(blocking=False):
            return np.empty(shape, dtype)
        try:  # an interrupt just before it leaves these alone until it is closed
            lease = pieces.leased(-(-nbytes // STEP) * STEP)
        finally:
            pieces.lock.release()
        return np.empty(shape, dtype) if lease is None else np.asarray(lease)[:nbytes].view(dtype).reshape(shape)


STORAGE = Storage()
