"""Arrays that stay the same, put once into the order in which a primitive wants them.

What was put into order is kept as long as the array that it was made of, for all that are bound to that one.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import numpy as np

from nnc_func.device.onednn.handles import Handle, Pair, same
from nnc_func.device.onednn.primitives import ALIGNMENT, Packing, Primitive

_known: dict[int, tuple[weakref.ref[Any], list[tuple[Packing, Any]]]] = {}
_lock = threading.RLock()  # a weak reference may end while it is held


def _run_of_bytes(count: int) -> Any:
    """So many bytes, from a multiple of the alignment on."""
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + count]


def packed(primitive: Primitive, position: int, array: Any) -> Any:
    """A row-major array in the order of a primitive, as a run of bytes.

    Raises
    ------
    AllocationError, DeviceError
        The library fails.
    """
    library, packing = primitive.library, primitive.packings[position]
    found, scratch = _run_of_bytes(packing.nbytes), _run_of_bytes(packing.scratch)
    places = [each.__array_interface__["data"][0] for each in (array, found)]
    beside = scratch.__array_interface__["data"][0]
    pairs = (Pair * len(packing.arguments))()
    memories = []
    for pair, argument in zip(pairs, packing.arguments, strict=True):
        place = beside + argument.offset if argument.array is None else places[argument.array]
        made = library.made("memory_create", argument.description, library.engine, ctypes.c_void_p(place))
        memories.append(Handle(library, "memory", made))
        pair.number, pair.memory = argument.number, memories[-1].pointer.value
    stream = Handle(library, "stream", library.made("stream_create", library.engine, 1))
    library.call("primitive_execute", packing.reorder, stream, len(pairs), pairs)
    return found


def shared(primitive: Primitive, position: int, owner: Any, array: Any) -> Any:
    """As `packed`, of the owner's elements, which nobody changes: found again while the owner is there.

    Parameters
    ----------
    owner
        The array as a program has it.
    array
        The same elements, row-major.
    """
    packing: Packing = primitive.packings[position]
    key = id(owner)
    with _lock:
        known = _known.get(key)
        if known is None or known[0]() is not owner:
            known = _known[key] = weakref.ref(owner, lambda ended: _forget(key, ended)), []
        for other, found in known[1]:
            if _alike(primitive, other, packing):
                return found
        found = packed(primitive, position, array)
        known[1].append((packing, found))
        return found


def _alike(primitive: Primitive, one: Packing, other: Packing) -> bool:
    """Whether they read an array alike, and put it into the same order: a square matrix is read in two ways."""
    pairs = zip(one.arguments[:2], other.arguments[:2], strict=True)
    return all(same(primitive.library, a.description, b.description) for a, b in pairs)


def _forget(key: int, ended: Any) -> None:
    """Let go what was made of an array that is no more, unless another one has its number by now."""
    with _lock:
        known = _known.get(key)
        if known is not None and known[0] is ended:
            del _known[key]
