"""Extents that a graph tells itself, while it runs: unknown ones, made where elements would have to be counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nnc_func.errors import UnboundError
from nnc_func.facets.dims import Dim

_late: ContextVar[list[tuple[Dim, Any]] | None] = ContextVar("late", default=None)


@contextmanager
def late_extents() -> Iterator[list[tuple[Dim, Any]]]:
    """Within it extents may depend on elements that are not known yet: a list of unknown extents, and what tells them.

    Examples
    --------
    >>> with late_extents() as told:
    ...     n = late_extent("a count", UnboundError("it depends on an input"))
    >>> told == [(n, "a count")], late_extent("a count", UnboundError("it depends on an input"))
    (True, None)
    """
    told: list[tuple[Dim, Any]] = []
    token = _late.set(told)
    try:
        yield told
    finally:
        _late.reset(token)


def late_extent(count: Any, error: BaseException) -> Dim | None:
    """A new unknown extent, told by a number that depends on an input; None where there may be none.

    Parameters
    ----------
    error
        Why the number is not known: an UnboundError, or what was made of one.
    """
    told, why = _late.get(), error if isinstance(error, UnboundError) else error.__context__
    if told is None or not isinstance(why, UnboundError):
        return None
    found = Dim.fresh()
    told.append((found, count))
    return found
