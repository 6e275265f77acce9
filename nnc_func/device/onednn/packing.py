"""Arrays that stay the same, put once into the order in which a primitive wants them.

What was put into order is kept as long as the array that it was made of, for all that are bound to that one. Of arrays
whose elements may change between runs somebody says so, each time (`note_version`): what was made of them is made anew
when it is wanted.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from nnc_func.device.onednn.handles import Handle, Pair, same
from nnc_func.device.onednn.primitives import ALIGNMENT, Packing, Primitive


class Seen(list[Any]):
    """Of each array of a function, what gives the one that it was called with last, or `unseen`."""

    __slots__ = ("__weakref__",)


def unseen() -> None:
    """Stands where no array has been yet: equal to none."""


class Packed:
    """An array in the order of a primitive.

    Attributes
    ----------
    packing, memory
        How it was put into order, and where it is: a run of bytes.
    is_fresh
        Whether it has the elements of now.
    """

    __slots__ = ("_users", "is_fresh", "memory", "packing")

    def __init__(self, packing: Packing, memory: Any) -> None:
        self.packing, self.memory, self.is_fresh = packing, memory, True
        self._users: list[tuple[weakref.ref[Seen], int]] = []

    def used(self, seen: Seen, position: int) -> None:
        """Somebody reads it, and has seen the array that it was made of."""
        if not any(at == position and each() is seen for each, at in self._users):
            self._users = [user for user in self._users if user[0]() is not None]
            self._users.append((weakref.ref(seen), position))

    def end(self) -> None:
        """The array has other elements: nobody has seen it."""
        self.is_fresh = False
        for each, position in self._users:
            seen = each()
            if seen is not None:
                seen[position] = unseen
        self._users = []


class _Known:
    """An array, by a weak reference, what was made of it, and of which version its elements are."""

    __slots__ = ("array", "found", "kept", "version")

    def __init__(self, array: Any, version: Hashable = None) -> None:
        key = id(array)
        self.array = weakref.ref(array, lambda ended: _forget(key, ended))
        self.kept: list[Packed] = []
        self.found: Any = None  # of its elements, see `remembered`
        self.version = version


_known: dict[int, _Known] = {}
_latest: dict[Hashable, weakref.ref[Any]] = {}  # the array of an owner
_lock = threading.RLock()  # a weak reference may end while it is held


def _run_of_bytes(count: int) -> Any:
    """So many bytes, from a multiple of the alignment on."""
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + count]


def packed(primitive: Primitive, position: int, array: Any, into: Any = None) -> Any:
    """A row-major array in the order of a primitive, as a run of bytes: `into` one, or fresh.

    Raises
    ------
    AllocationError, DeviceError
        The library fails.
    """
    library, packing = primitive.library, primitive.packings[position]
    found, scratch = _run_of_bytes(packing.nbytes) if into is None else into, _run_of_bytes(packing.scratch)
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


def shared(primitive: Primitive, position: int, owner: Any, array: Any, seen: Seen) -> Any:
    """As `packed`, of the owner's elements: found again while the owner is there, and as it was.

    Parameters
    ----------
    owner
        The array as a program has it.
    array
        The same elements, row-major.
    seen
        Where it is forgotten that the array has been seen, when it gets other elements.
    """
    packing: Packing = primitive.packings[position]
    with _lock:
        known = _of(owner)
        found = next((each for each in known.kept if _alike(primitive, each.packing, packing)), None)
        if found is None:
            found = Packed(packing, packed(primitive, position, array))
            known.kept.append(found)
        elif not found.is_fresh:
            packed(primitive, position, array, found.memory)
            found.is_fresh = True
        found.used(seen, position)
        return found.memory


def remembered(array: Any, find: Callable[[], Any]) -> Any:
    """What `find` found of the array's elements: it is asked once while they are the same, as those of `shared`."""
    known = _known.get(id(array))
    found = known.found if known is not None and known.array() is array else None
    if found is None:
        with _lock:
            found = _of(array).found = find()
    return found


def note_version(array: Any, owner: Hashable, version: Hashable) -> None:
    """An array's elements are those of that version of its owner's, and no one changes them while runs read them.

    What was made of another version is stale from now on, and what was made of the array that the owner had before is
    let go: whoever reads that still has it.
    """
    known, now = _known.get(id(array)), (owner, version)
    if known is not None and known.version == now and known.array() is array:
        return
    with _lock:
        known = _of(array)
        if known.version != now:
            for each in known.kept:
                each.end()
            known.version, known.found = now, None
        before = _latest.get(owner)
        if before is not None and before() is not array:
            former = _known.get(id(before()))
            if former is not None and former.array() is before():
                for each in former.kept:
                    each.end()  # the array may be the owner's again, with other elements
                former.kept, former.found = [], None
        _latest[owner] = weakref.ref(array, lambda ended: _leave(owner, ended))


def _of(array: Any) -> _Known:
    known = _known.get(id(array))
    if known is None or known.array() is not array:
        known = _known[id(array)] = _Known(array)
    return known


def _leave(owner: Hashable, ended: Any) -> None:
    with _lock:
        if _latest.get(owner) is ended:
            del _latest[owner]


def _alike(primitive: Primitive, one: Packing, other: Packing) -> bool:
    """Whether they read an array alike, and put it into the same order: a square matrix is read in two ways."""
    pairs = zip(one.arguments[:2], other.arguments[:2], strict=True)
    return all(same(primitive.library, a.description, b.description) for a, b in pairs)


def _forget(key: int, ended: Any) -> None:
    """Let go what was made of an array that is no more, unless another one has its number by now."""
    with _lock:
        known = _known.get(key)
        if known is not None and known.array is ended:
            del _known[key]
