"""Memory where harm is seen: between closed pages, with an oracle of what each array may show.

Harm is a byte written beside an array's memory, and an array given to a kernel that leaves its memory by the count of
Python's integers. A read or write behind the memory itself ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from attrs import define, field

import nnc_func as nnc
from nnc_func.layer import layer

PAGE, CLOSED, CANARY = mmap.PAGESIZE, 0, 0xA5  # PROT_NONE


# --- memory between closed pages ----------------------------------------------------------------------------


@define(eq=False)
class Guard:
    """Bytes that end where a closed page begins, after another one; what is left over of their pages is marked."""

    nbytes: int
    array: Any = field(init=False)
    _pages: Any = field(init=False)
    _start: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        room = -(-max(self.nbytes, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, room + 2 * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (address, address + PAGE + room):
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), CLOSED):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._pages = np.frombuffer(memory, np.uint8, room, PAGE)
        self._pages[...] = CANARY
        self._start = (room - self.nbytes) // 64 * 64
        self.array = self._pages[self._start : self._start + self.nbytes]

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside the bytes."""
        before, after = self._pages[: self._start], self._pages[self._start + self.nbytes :]
        return bool((before == CANARY).all() and (after == CANARY).all())


GUARDS: list[Guard] = []


def guarded(nbytes: int) -> Any:
    """Memory of so many bytes, looked after until `GUARDS` is cleared."""
    GUARDS.append(Guard(nbytes))
    return GUARDS[-1].array


def copied(array: Any) -> Any:
    """The same elements between closed pages."""
    found = np.ndarray(array.shape, array.dtype, guarded(array.nbytes))
    found[...] = array
    return found


@layer()
class Guarded(nnc.NumPy):
    """NumPy, with each arena, result, constant and variable between closed pages."""

    def arena(self, nbytes: int) -> Any:
        """See `NumPy.arena`."""
        return guarded(nbytes)

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Any:
        """See `NumPy.empty`."""
        like = np.ndarray(shape, dtype, strides=strides)
        return np.ndarray(shape, dtype, guarded(like.nbytes), strides=strides)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """See `NumPy.asarray`; a copy, always."""
        return copied(super().asarray(value, dtype))


# --- the oracle ---------------------------------------------------------------------------------------------


def spread(array: Any) -> tuple[int, int]:
    """The addresses from the first byte of an array to the one after its last, in Python's integers."""
    start, size = int(array.__array_interface__["data"][0]), int(array.itemsize)
    if 0 in array.shape:
        return start, start
    steps = [(int(n) - 1) * int(s) for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0) + size


def leaves_its_memory(array: Any) -> bool:
    """Whether an array shows a byte that is not of the array that owns its memory: a guard's, or what has no base."""
    if not isinstance(array, np.ndarray) or array.size == 0:
        return False
    own = {id(guard.array) for guard in GUARDS}
    owner = base = array
    while base is not None and id(owner) not in own:
        owner = base if isinstance(base, np.ndarray) else owner  # what `as_strided` puts between them is none
        base = getattr(base, "base", None)
    (low, high), (first, last) = spread(array), spread(owner)
    return not first <= low <= high <= last


class HarmError(Exception):
    """What a file must not do."""


def run(program: Any, inputs: list[Any]) -> list[bytes]:
    """Outputs and variables after two calls, the second of which is looked at kernel by kernel."""
    found = [np.asarray(a).tobytes() for a in program.run([copied(x) for x in inputs])]
    for application in program.walk([copied(x) for x in inputs]):
        for array in (*application.arguments, *application.outs):
            if leaves_its_memory(array):
                raise HarmError(f"instruction {application.instruction} is given an array outside of its memory")
    found += [np.asarray(v.array).tobytes() for v in program.variables.values()]
    if not all(guard.is_intact for guard in GUARDS):
        raise HarmError("bytes were written beside an array")
    return found
