"""What the fields of an allocation problem are made of: anything that is integers, as read-only arrays of 64 bits."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.errors import PlanError

Integers = NDArray[np.int64]


def integers(given: Any) -> Integers:
    """A read-only array of 64-bit integers with one axis.

    Raises
    ------
    PlanError
        Something else was given, or an integer that has no room in 64 bits.
    """
    found = np.asarray(given)
    if not found.size:
        found = found.astype(np.int64)
    fits = found.dtype.kind in "iu" and (found.dtype.kind == "i" or found.dtype.itemsize < 8 or not (found >> 63).any())
    if not fits or found.ndim != 1:
        wide = found.dtype == object and found.ndim == 1 and all(isinstance(v, int) for v in found)
        why = f"{max(found, key=abs)} has no room in 64 bits" if wide or found.dtype == np.uint64 else f"{given!r:.60}"
        raise PlanError(f"wanted integers below 2**63, one a buffer, given {why}")
    made = np.array(found, np.int64)
    made.setflags(write=False)
    return made


def optional_integers(given: Any) -> Integers | None:
    """None, or as `integers`."""
    return None if given is None else integers(given)


def alignments(given: Any) -> int | Integers:
    """One integer, or as `integers`."""
    try:
        return index(given)
    except TypeError:
        return integers(given)


def optional_integer(given: Any) -> int | None:
    """None, or one integer.

    Raises
    ------
    PlanError
        Something else was given.
    """
    try:
        return None if given is None else index(given)
    except TypeError:
        raise PlanError(f"wanted a capacity in whole bytes, given {given!r:.60}") from None


def words(given: Iterable[str]) -> tuple[str, ...]:
    """As a tuple.

    Raises
    ------
    PlanError
        Something else than names was given.
    """
    found = () if isinstance(given, str) else tuple(given)
    if isinstance(given, str) or not all(isinstance(name, str) for name in found):
        raise PlanError(f"wanted a name a buffer, each a string, given {given!r:.60}")
    return found
