"""Functions that call themselves where a tensor decides are traced without end: they are refused, with line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from nnc_func.errors import ControlFlowError
from nnc_func.override import Override

DEEP = 24  # loops at one place within each other: each level is traced more than once, so that no more would ever end
_loops: ContextVar[Mapping[str, int]] = ContextVar("loops", default=MappingProxyType({}))  # traced now, by place


class EndlessError(ControlFlowError):
    """To trace something again would not end either."""


def _endless(what: str) -> EndlessError:
    return EndlessError(
        f"{what}, which a tensor decides, is traced within itself without end: all of it is, whatever the tensor says, "
        "so that a function which calls itself there never ends; write a loop, `while`, or let a Python number decide"
    )


@contextmanager
def branch_that_ends(where: Any) -> Iterator[None]:
    """Trace a branch, of a statement or of an expression.

    Raises
    ------
    EndlessError
        It is traced within itself, as deep as Python goes.
    """
    try:
        yield
    except RecursionError:
        raise _endless(f"the branch at {where}") from None


@contextmanager
def loop_that_ends(where: Any) -> Iterator[None]:
    """Trace a loop.

    Raises
    ------
    EndlessError
        It is traced within itself, `DEEP` times or as deep as Python goes.
    """
    within, place = _loops.get(), str(where)
    count = within.get(place, 0) + 1
    if count > DEEP:
        raise _endless(f"the loop at {where}")
    try:
        with Override(_loops, {**within, place: count}):
            yield
    except RecursionError:
        raise _endless(f"the loop at {where}") from None
