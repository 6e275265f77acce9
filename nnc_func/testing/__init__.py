"""The public test kit: what the library tests itself with, for operators, rules and allocators of one's own.

It needs the extra ``testing``; nothing else in the library imports it.
"""

from __future__ import annotations

from typing import Any

_WHERE = {"check_gradients": "gradients", "check_operator": "operators"}  # imported when they are asked for


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has: {', '.join(_WHERE)}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
