"""What is done when another package is imported, whether that is before or after this one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class Arrival:
    """Finds one module as Python does, and calls a function with it once it has been executed.

    Attributes
    ----------
    name
        The module's.
    welcome
        What is called with it.

    Examples
    --------
    >>> Arrival("no_such_module", print).find_spec("another_module") is None
    True
    """

    def __init__(self, name: str, welcome: Callable[[ModuleType], Any]) -> None:
        self.name = name
        self.welcome = welcome

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Of the module alone that is waited for."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self.name else None
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return None
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            self.welcome(module)

        loader.exec_module = executed
        return spec


def on_arrival(name: str, welcome: Callable[[ModuleType], Any]) -> None:
    """Call a function with a module: at once if that has been imported, else when it is.

    Examples
    --------
    >>> on_arrival("json", lambda module: print(module.__name__)) if "json" in sys.modules else print("json")
    json
    """
    if name in sys.modules:
        welcome(sys.modules[name])
    else:
        sys.meta_path.insert(0, Arrival(name, welcome))


def einops(backends: ModuleType) -> None:
    """Tell einops of tensors: it finds what works on a type among the classes that derive from its own."""
    from nnc_func.array_api.einops_backend import backend_of

    backend_of(backends)
