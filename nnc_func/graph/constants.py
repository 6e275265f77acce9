"""Large constants that are one node: found by a few of their elements, and compared byte by byte.

So an array that is used twice is one constant, and one that was changed in between is another. Comparing reads what
copying would read, and writes nothing; of most arrays that are not equal, the few elements tell.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from nnc_func.facets.places import Place
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import InternTable, Node

GLANCE = 64  # elements that are looked at to find what may be equal
ALIKE = 8  # constants that agree in these; further ones are not merged
BLOCK = 1 << 15  # words compared at a time: what comes of comparing stays in the first cache


def is_fixed(array: Any) -> bool:
    """Whether nobody can write to an array: it shows read-only memory that is no array's own.

    An array that owns its memory is made writable again as easily as it was made read-only.

    Examples
    --------
    >>> owner = np.ones(2)
    >>> owner.flags.writeable = False
    >>> is_fixed(owner), is_fixed(np.frombuffer(bytes(8)))
    (False, True)
    """
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    try:
        return array is not None and memoryview(array).readonly
    except TypeError:  # it does not say what it is
        return False


def dense(array: Any) -> Any:
    """The array, or a copy, without gaps between its elements; and all of them in one row, as they lie."""
    flat = array.ravel(order="K")
    if np.may_share_memory(flat, array):
        return array, flat
    array = np.array(array)
    return array, array.ravel(order="K")


class Large:
    """An array that is to be a constant.

    Parameters
    ----------
    array
        On the host, without gaps.
    flat
        Its elements in one row.
    place
        Where it is to be.
    """

    def __init__(self, array: Any, flat: Any, place: Place) -> None:
        self.flat = flat
        glance = flat[:: -(-flat.size // GLANCE)].tobytes() + flat[-1:].tobytes()
        self.key = (CONSTANT, array.dtype, array.shape, array.strides, glance, place)
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """What tells its bytes from others, for a device whose arrays are not on the host."""
        if self._digest is None:
            from hashlib import blake2b  # OpenSSL comes with it, and few arrays are told apart so

            self._digest = blake2b(self.flat.view(np.uint8), digest_size=32).digest()
        return self._digest

    def slots(self) -> list[Hashable]:
        """The keys under which constants that may be equal to it are known."""
        return [(*self.key, i) for i in range(ALIKE)]

    def is_shown_by(self, node: Node, table: InternTable) -> bool:
        """Whether a constant has the same bytes."""
        found = node.data
        if not isinstance(found, np.ndarray):
            return table.digests.get(node) == self.digest
        return _same_bits(found.ravel(order="K"), self.flat)


def _same_bits(a: Any, b: Any) -> bool:
    word = np.uint8 if a.nbytes % 8 else np.uint64
    a, b = a.view(word), b.view(word)
    return all(bool((a[i : i + BLOCK] == b[i : i + BLOCK]).all()) for i in range(0, a.size, BLOCK))
