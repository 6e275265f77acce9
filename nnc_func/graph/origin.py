"""Origins: the lines of user code that asked for a node, recorded cheaply and read when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
KEPT = 2  # user lines kept for a node: the caller, and the caller's caller

_inside: dict[CodeType, bool] = {}
Origin = tuple[Any, ...]  # flat: code, instruction offset, code, instruction offset …


def origin() -> Origin:
    """Where in user code we are: the innermost frames outside this package, up to where it calls into the package."""
    frame: Any = sys._getframe(1)
    found: tuple[Any, ...] = ()
    while frame is not None:
        code = frame.f_code
        inside = _inside.get(code)
        if inside is None:
            inside = _inside[code] = code.co_filename.startswith((PACKAGE, "<attrs", "<__array_function__"))
        if not inside:
            found += (code, frame.f_lasti)
            if len(found) == 2 * KEPT:
                break
        elif found:
            break
        frame = frame.f_back
    return found


def lines(where: Origin) -> Iterator[tuple[str, int, str]]:
    """(file, line number, function) of each recorded frame, innermost first.

    Examples
    --------
    >>> list(lines(()))
    []
    """
    for code, offset in zip(where[::2], where[1::2], strict=True):
        if isinstance(code, str):  # an origin that was read from a file
            name, _, line = code.rpartition(":")
            yield name, int(line), offset
            continue
        line = next((n for start, end, n in code.co_lines() if start <= offset < end and n), code.co_firstlineno)
        yield code.co_filename, line, code.co_name


def told(where: Origin) -> str:
    """As one reads it: ``model.py:12 in loss``; empty where nothing was recorded."""
    for file, line, function in lines(where):
        return f"{Path(file).name}:{line} in {function}"
    return ""
