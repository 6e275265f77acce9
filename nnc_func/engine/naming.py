"""What functions of users are called, and what is said of a name that nobody has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any


def name_of(asked: Any) -> str:
    """What to call a function, or what is called like one: its own name, or that of its class.

    Examples
    --------
    >>> name_of(max), name_of(partial(max, key=len)), name_of(3)
    ('max', 'max', 'int')
    """
    while isinstance(asked, partial):
        asked = asked.func
    return getattr(asked, "__name__", None) or type(asked).__name__


def unknown(name: str, what: str, known: Iterable[str]) -> str:
    """What to say of a name that nobody has: all names, and the nearest ones.

    Examples
    --------
    >>> unknown("bestfit", "allocator", ["best_fit", "no_reuse"])
    "no allocator named 'bestfit'; there are: best_fit, no_reuse; did you mean best_fit?"
    """
    import difflib  # it takes a millisecond, and is for what goes wrong

    names = list(known)
    close = difflib.get_close_matches(name, names)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no {what} named {name!r}; there are: {', '.join(names) or 'none'}{hint}"
