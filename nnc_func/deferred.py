"""Names of a package whose modules are imported when somebody asks for them: what few need costs others nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

from nnc_func.garbage_collection import long_lived

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Members of a package by name, each of the module of that name, which is imported when it is asked for.

    Parameters
    ----------
    package
        Its name.
    members
        What each module shows: a member by its name, or a class, of which the member is an instance by default.
        ``"module.name"`` where the module has another name than the member of the registry.
    first
        Members of another registry that come before these.

    Examples
    --------
    >>> found = Registry("nnc_func.engine.orders", {"post_order": "depth_first.post_order", "exact": "Exact"})
    >>> found["exact"], "nothing" in found, [*found]
    (Exact(states=100000), False, ['post_order', 'exact'])
    """

    def __init__(self, package: str, members: Mapping[str, str], first: Mapping[str, T] | None = None) -> None:
        self._package, self._members, self._first = package, dict(members), first or {}
        self._found: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._first:
            return self._first[name]
        if name not in self._found:
            module, _, member = self._members[name].rpartition(".")
            found: Any = getattr(importlib.import_module(f"{self._package}.{module or name}"), member)
            self._found[name] = found() if isinstance(found, type) else found
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._first, *self._members))

    def __len__(self) -> int:
        return len(self._first) + len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._first or name in self._members


class LateMethod:
    """A method that is a function of another module, which is imported when somebody first asks for the method.

    Parameters
    ----------
    module
        Its name.
    name
        Of the function in it.

    Examples
    --------
    >>> class Number(int):
    ...     halves = LateMethod("operator", "truediv")
    >>> type(vars(Number)["halves"]).__name__, Number.halves(Number(3), 2), type(vars(Number)["halves"]).__name__
    ('LateMethod', 1.5, 'builtin_function_or_method')
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._as = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        found = getattr(importlib.import_module(self._module), self._name)
        setattr(self._owner, self._as, found)
        return getattr(owner if instance is None else instance, self._as)


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
        with long_lived():  # what modules define stays: searching it for cycles takes an eighth of the time
            found = getattr(importlib.import_module(members[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *members})

    return find, names


def _has_module(package: str, name: str) -> bool:
    return hasattr(sys.modules[package], "__path__") and find_spec(f"{package}.{name}") is not None
