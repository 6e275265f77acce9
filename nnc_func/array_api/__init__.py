"""The Python array API standard on tensors: of the default eager stack here, of any other as ``stack.array_api``.

Its names are those of the standard, 2024.12, and what 2025.12 adds to them, made when they are first asked for.

Examples
--------
>>> import nnc_func.array_api as xp
>>> xp.sum(xp.asarray([1, 2, 3])).item()
6
>>> xp.linalg.det(xp.eye(2)).item()
1.0
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _default() -> Any:
    from nnc_func.stacks import eager

    return eager().array_api


def __getattr__(name: str) -> Any:
    if name.startswith("__") and not name.startswith("__array"):
        raise AttributeError(name)
    return getattr(_default(), name)


def __dir__() -> list[str]:
    return dir(_default())
