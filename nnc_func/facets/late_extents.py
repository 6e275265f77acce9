"""Extents that a graph tells itself, while it runs: unknown ones, made where elements would have to be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attrs import define, field

from nnc_func.errors import UnboundError
from nnc_func.facets.dims import Dim
from nnc_func.override import Override


@define(eq=False)
class Late:
    """What is found out between the regions of a graph.

    Attributes
    ----------
    extents
        Unknown extents, and the number that tells each.
    loops
        Loops that are computed at once: each with what it is given, the leaves that stand for its results, and the
        symbols that these tell, with result and axis.
    """

    extents: list[tuple[Dim, Any]] = field(factory=list)
    loops: list[tuple[Any, list[Any], list[Any], dict[str, tuple[int, int]]]] = field(factory=list)


telling: ContextVar[Callable[[Any], Dim | None] | None] = ContextVar("telling", default=None)
"""What makes an extent of a number that a body computes, while one is traced that waits for it."""
_late: ContextVar[Late | None] = ContextVar("late", default=None)


@contextmanager
def late_extents() -> Iterator[Late]:
    """Within it extents may depend on elements that are not known yet: what will tell them is collected.

    Examples
    --------
    >>> with late_extents() as late:
    ...     n = late_extent("a count", UnboundError("it depends on an input"))
    >>> late.extents == [(n, "a count")], late_extent("a count", UnboundError("it depends on an input"))
    (True, None)
    """
    found = Late()
    with Override(_late, found):
        yield found


def late() -> Late | None:
    """What is collected here; None where extents must be known."""
    return _late.get()


def may_wait() -> bool:
    """Whether something waits for extents here, though not for each function in it.

    Examples
    --------
    >>> with late_extents():
    ...     print(may_wait())
    True
    """
    return telling.get() is not None or _late.get() is not None


def late_extent(count: Any, error: BaseException) -> Dim | None:
    """A new unknown extent, told by a number that depends on an input; None where there may be none.

    Parameters
    ----------
    error
        Why the number is not known: an UnboundError, or what was made of one.
    """
    tell = telling.get()
    told = None if tell is None else tell(count)
    if told is not None:
        return told
    collected, why = _late.get(), error if isinstance(error, UnboundError) else error.__context__
    if collected is None or not isinstance(why, UnboundError):
        return None
    found = Dim.fresh()
    collected.extents.append((found, count))
    return found
