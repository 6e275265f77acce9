"""Where a rule is written: what goes wrong in it is told with its name and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from nnc_func.errors import RuleError, line_of


def raised_in(function: Any, trace: TracebackType | None) -> str:
    """File and line of a function where an error passed through it; empty where it did not.

    Examples
    --------
    >>> def divide():
    ...     return 1 / 0
    >>> try:
    ...     divide()
    ... except ZeroDivisionError as error:
    ...     raised_in(divide, error.__traceback__).endswith(":2"), raised_in(line_of, error.__traceback__)
    (True, '')
    """
    found, code = "", getattr(function, "__code__", None)
    while trace is not None:
        if code is not None and trace.tb_frame.f_code is code:
            found = line_of(function, trace.tb_lineno)
        trace = trace.tb_next
    return found


def placed(name: str, function: Any, why: str, line: str = "") -> RuleError:
    """The error of a rule that is not well written."""
    where = line or line_of(function)
    return RuleError(f"rule {name}{f', {where}' if where else ''}: {why}")


def written_by(function: Callable[..., Any], name: str, *args: Any, **params: Any) -> Any:
    """What a rule's function returns for its variables.

    Raises
    ------
    RuleError
        It raises something itself: told with the line.
    """
    try:
        return function(*args, **params)
    except Exception as error:
        said = error.args[0] if isinstance(error, KeyError) and error.args else error
        kind = "" if type(error).__module__.startswith("nnc_func") else f"{type(error).__name__}: "
        raise placed(name, function, f"{kind}{said}", raised_in(function, error.__traceback__)) from error
