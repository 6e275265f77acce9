"""Names of a package whose modules are imported when somebody asks for them: what few need costs others nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def deferred(package: str, members: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__`` (PEP 562), from the names that it shows and their modules.

    The package's own modules are found too, whether or not somebody has imported them.

    Examples
    --------
    >>> find, names = deferred("nnc_func.device", {"Null": "nnc_func.device.null"})
    >>> find("Null"), "Null" in names()
    (<class 'nnc_func.device.null.Null'>, True)
    """

    def find(name: str) -> Any:
        if name not in members:
            if name.startswith("_") or not _has_module(package, name):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return importlib.import_module(f"{package}.{name}")
        found = getattr(importlib.import_module(members[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *members})

    return find, names


def _has_module(package: str, name: str) -> bool:
    return hasattr(sys.modules[package], "__path__") and find_spec(f"{package}.{name}") is not None
