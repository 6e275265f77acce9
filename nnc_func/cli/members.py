"""What a user has written himself, named as ``module:name`` or ``file.py:name``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from nnc_func.errors import RuleError

SUFFIX = ".py"
SHOWN = 8  # names that are listed where none is close


def is_named_so(words: str) -> bool:
    """Whether that names a member of a module or of a file.

    Examples
    --------
    >>> is_named_so("my_rules:cancel"), is_named_so("rules/mine.py:cancel"), is_named_so("drop_cast")
    (True, True, False)
    """
    return ":" in words or words.endswith(SUFFIX)


def member(words: str, kind: Any, what: str, advice: str) -> Any:
    """The member of that kind.

    Parameters
    ----------
    words
        ``module:name``, of a module that Python finds from here, or ``file.py:name``.
    kind, what, advice
        Its class or classes, what they are called in messages, and how one makes such a thing.

    Raises
    ------
    RuleError
        There is no such module, file or member, importing it fails, or the member is of another kind.

    Examples
    --------
    >>> from nnc_func.graph.rules import Rule
    >>> member("nnc_func.graph.rules.move:drop_broadcast", Rule, "rule", "decorate a function with nnc.rule").name
    'drop_broadcast'
    """
    home, _, name = (words, "", "") if words.endswith(SUFFIX) else words.rpartition(":")
    if not home:
        raise RuleError(f"{words!r} names no module: wanted module:NAME or file.py:NAME")
    found = vars(_file(Path(home)) if home.endswith(SUFFIX) else _module(home))
    known = [each for each, value in found.items() if isinstance(value, kind)]
    if name not in found:
        said = f"there is no {name!r} in {home}" if name else f"{home} alone names no {what}: wanted {home}:NAME"
        raise RuleError(f"{said}; {_hint(name, known, what)}")
    if not isinstance(found[name], kind):
        raise RuleError(f"{words} is no {what}, but {_told(found[name])}; {advice}; {_hint('', known, what)}")
    return found[name]


def _hint(name: str, known: list[str], what: str) -> str:
    close = difflib.get_close_matches(name, known)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = " …" if len(known) > SHOWN else ""
    return f"its {what}s are: {', '.join(known[:SHOWN])}{more}" if known else f"it has no {what}s"


def _told(value: Any) -> str:
    kind = type(value).__name__
    return "a function" if kind == "function" else f"of type {kind}"


def _module(name: str) -> ModuleType:
    try:
        with redirect_stdout(sys.stderr):  # what it prints is no part of the answer
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error  # it is there, and imports what is not
        hint = "" if not Path(f"{name}{SUFFIX}").exists() else f"; the file is {name}{SUFFIX}:NAME"
        raise RuleError(f"there is no module {error.name!r} in {Path.cwd()} or where else Python looks{hint}") from None
    except Exception as error:
        raise _failed(name, error) from error


def _file(path: Path) -> ModuleType:
    """A file as the module of its name; what lies beside it can be imported, as where Python runs a file."""
    if not path.is_file():
        raise RuleError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    made = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    registered = sys.modules.setdefault(path.stem, made)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(made)
    except Exception as error:
        if registered is made:
            del sys.modules[path.stem]
        raise _failed(str(path), error) from error
    return made


def _failed(home: str, error: Exception) -> RuleError:
    return RuleError(f"{home} cannot be imported: {type(error).__name__}: {error}; --traceback shows where")
