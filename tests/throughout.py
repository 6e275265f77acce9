"""One test of many things: all that fail are named, and a thousand of them cost no thousand tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def throughout(things: Iterable[Any], check: Callable[[Any], None]) -> None:
    """Raise AssertionError with every thing for which the check fails, and how."""
    found = []
    for each in things:
        try:
            check(each)
        except Exception as error:
            found.append(f"{each}: {error if isinstance(error, AssertionError) else repr(error)}")
    if found:
        raise AssertionError("\n".join([f"{len(found)} of them:", *found]))
