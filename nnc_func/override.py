"""Context variables that have another value while a block is open."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

from nnc_func.garbage_collection import uncollected

IS_SAFE = sys.version_info >= (3, 12)


class Override:
    """While it is open a context variable has another value.

    An interrupt of entering or leaving, at whatever line, leaves the variable as it was: at once, or, where it comes as
    Python calls `__exit__`, when its traceback is gone and with that what would have been left.

    Parameters
    ----------
    variable
        Which one.
    value
        What it is meanwhile.

    Examples
    --------
    >>> depth = ContextVar("depth", default=0)
    >>> with Override(depth, 1):
    ...     print(depth.get())
    1
    >>> depth.get()
    0
    """

    __slots__ = ("_guard", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        guard = self._guard = _during(self._variable, self._value)
        next(guard)

    def __exit__(self, *error: object) -> None:
        next(self._guard, None)


def _during(variable: ContextVar[Any], value: Any) -> Generator[None, None, None]:
    """What Python closes where nobody leaves it, perhaps after what is around it was left."""
    before = variable.get()
    try:
        assign(variable, value)
        yield
        assign(variable, before)
    except GeneratorExit:
        if value is not None and variable.get() is value:  # None is what is there when all has been left
            assign(variable, before)
    except BaseException:  # an interrupt; at once, since another one may come with it
        variable.set(before)
        raise


def assign(variable: ContextVar[Any], value: Any) -> None:
    """Set a context variable, and let no finaliser come in.

    Before 3.12 Python's collector may run amid `ContextVar.set`, which crashes if a finaliser sets another variable.
    """
    if IS_SAFE:
        variable.set(value)
        return
    with uncollected():
        variable.set(value)
