"""Which code is a user's: neither this library's, nor Python's own, nor an installed package's."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, ModuleType

from nnc_func.graph.origin import PACKAGE, lines, origin

_LIBRARIES = tuple(
    {
        os.path.realpath(p) + os.sep
        for n in ("stdlib", "platstdlib", "purelib", "platlib")
        if (p := sysconfig.get_path(n))
    }
    | {PACKAGE}
)


def users_line() -> str:
    """Where the user's code stands that has called what is here: the file, and the line."""
    return next((f"{file}:{line}" for file, line, _ in lines(origin())), "code")


def is_users(code: CodeType) -> bool:
    """Whether a function is a user's.

    Examples
    --------
    >>> is_users(os.path.join.__code__)
    False
    """
    return _is_users_file(code.co_filename)


def is_users_class(kind: type) -> bool:
    """Whether a class is a user's, and none of what it inherits from is this library's.

    One of a module without a file is, if the module is none of Python's own: code that is run by `exec` makes such.

    Examples
    --------
    >>> from nnc_func.nn import Dense
    >>> is_users_class(dict), is_users_class(type("Mine", (Dense,), {"__module__": "__main__"}))
    (False, False)
    """
    if any(each.__module__.split(".")[0] == __name__.split(".")[0] for each in kind.__mro__):
        return False
    return _is_users_module(kind.__module__, sys.modules.get(kind.__module__))


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is a user's.

    Examples
    --------
    >>> is_users_module(os), is_users_module(ModuleType("mine"))
    (False, True)
    """
    return _is_users_module(module.__name__, module)


def _is_users_module(name: str, module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return name.split(".")[0] not in sys.stdlib_module_names if file is None else _is_users_file(file)


def _is_users_file(file: str) -> bool:
    if file.startswith("<") and not file.startswith(("<doctest", "<ipython", "<stdin", "<string")):
        return False
    found = os.path.realpath(file)
    inside = found.startswith(_LIBRARIES) or f"{os.sep}site-packages{os.sep}" in found
    return not inside and f"{os.sep}dist-packages{os.sep}" not in found
