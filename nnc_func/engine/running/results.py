"""Result buffers: each call gets fresh arrays, recycled once nobody holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sys import getrefcount, maxsize
from typing import Any

from nnc_func.engine.plan import Plan
from nnc_func.engine.running import array_views
from nnc_func.errors import AllocationError

KEPT = 2  # buffers remembered for each result


class Recycled:
    """Buffers of one shape and dtype. A buffer is given again only where nobody else refers to it.

    Whether anybody does is read from CPython's reference count, and compared with that of a buffer that nobody
    has been given, counted on the same path. Safe among threads: one who looks at a buffer refers to it, so that of two
    who look at once neither finds it alone.

    Attributes
    ----------
    buffers
        Those that there are, one at least: always the same list.
    """

    __slots__ = ("_make", "buffers")

    def __init__(self, make: Any) -> None:
        self._make = make
        self.buffers: list[Any] = [make()]

    def take(self) -> Any:
        """An array that nobody else holds."""
        buffers = self.buffers
        for at in range(len(buffers)):
            buffer = buffers[at]
            if getrefcount(buffer) <= ALONE:
                return buffer
        made = self._make()
        buffers[:] = [made, *buffers[: KEPT - 1]]
        return made


def _references() -> int:
    """How many references one counts to what a list and a variable hold: it depends on the version of Python."""
    buffers = [object()]
    buffer = buffers[0]
    return getrefcount(buffer)


ALONE = _references()


def recycled(device: Any, aval: Any, what: str) -> Recycled:
    """Buffers of that shape and dtype; `what` says what they are for, should there be no memory."""

    def make() -> Any:
        with memory(aval.nbytes, f"{what}, {aval!r},"):
            return array_views.empty(device, aval)

    return Recycled(make)


def lodgers(plan: Plan, kind: str) -> dict[int, list[int]]:
    """The slots that live in what changes hands: in outputs before they are written, in inputs that were given up.

    Parameters
    ----------
    kind
        LENT: by output. DONATED: by input, itself among them.
    """
    found: dict[int, list[int]] = {}
    buffers = {n: b.source for n, b in enumerate(plan.buffers) if b.kind == kind}
    for i, s in enumerate(plan.slots if buffers else ()):
        if s.buffer in buffers and not s.is_view:
            found.setdefault(buffers[s.buffer], []).append(i)
    return found


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
    except ValueError as error:  # no array has as many axes, or one as long, whatever the others are
        raise AllocationError(f"there is no array for {what}: {error}") from None
