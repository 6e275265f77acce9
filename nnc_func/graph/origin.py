"""Origins: the lines of user code that asked for a node, recorded cheaply and read when they are needed."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from itertools import islice
from typing import Any, TypeVar, cast

from nnc_func.errors import NncError
from nnc_func.override import Override

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
KEPT = 2  # user lines kept for a node: the caller, and the caller's caller
PARTS = 4  # user lines kept for a node that was made of several: one of each

MODELS = PACKAGE + "models" + os.sep  # networks are programs as users write them: their lines are told
NOBODYS = (PACKAGE, "<attrs", "<nnc_func ", "nnc_func rule ", "<__array_function__", "<frozen ")
"""Files that are no user's: ours, generated, Python's own start."""
SITES = 100_000  # lines that are told by numbers, at most
_LINE = re.compile(r" \(at [^()]+:\d+ in ")
F = TypeVar("F", bound=Callable[..., Any])
Origin = tuple[Any, ...]  # flat: code, instruction offset, code, instruction offset …


class _Inside(dict[str, bool]):
    """Names of files to whether what they hold is this package's, or Python's own start."""

    def __missing__(self, file: str) -> bool:
        found = self[file] = file.startswith(NOBODYS) and not file.startswith(MODELS)
        return found


_inside = _Inside()
_sites: dict[tuple[int, int], tuple[int, Any]] = {}  # by the identity of code, and an offset in it or -1 - line
_numbers = itertools.count(1)
_attributed: ContextVar[Sequence[Origin]] = ContextVar("attributed", default=((),))  # one, in a list if others follow


class attributed(Override):  # noqa: N801 - it reads as what it says of a block
    """What is built meanwhile is built for the sake of these lines, not of those that we are called from.

    Examples
    --------
    >>> with attributed(("model.py:12", "loss")):
    ...     print(describe(origin()))
    model.py:12 in loss
    """

    __slots__ = ()

    def __init__(self, where: Origin) -> None:
        super().__init__(_attributed, (where,))


@contextmanager
def attributing() -> Iterator[Callable[[Origin], None]]:
    """As `attributed`, to one after another: what it gives is called with lines; with none, those of before hold.

    Examples
    --------
    >>> with attributed(("model.py:12", "loss")), attributing() as attribute:
    ...     for where in (("model.py:13", "loss"), ()):
    ...         attribute(where)
    ...         print(describe(origin()))
    model.py:13 in loss
    model.py:12 in loss
    """
    before = _attributed.get()[0]
    current = [before]

    def attribute(where: Origin) -> None:
        current[0] = where or before

    with Override(_attributed, current):
        yield attribute


def merged(origins: Iterable[Origin]) -> Origin:
    """The origin of what is made of several: the innermost line of each, as many as are kept.

    Examples
    --------
    >>> merged([("a.py:1", "f", "b.py:2", "g"), ("a.py:1", "f"), (), ("c.py:3", "h")])
    ('a.py:1', 'f', 'c.py:3', 'h')
    """
    pairs = dict.fromkeys(each[:2] for each in origins if each)
    return tuple(x for pair in list(pairs)[:PARTS] for x in pair)


def origin(within: int = 0) -> Origin:
    """Where in user code we are: the innermost frames outside this package, up to where it calls into the package.

    So many frames `within` the package are not looked at: those by which whoever asks was called, if that is known.
    """
    attributed_to = _attributed.get()[0]
    if attributed_to:
        return attributed_to
    frame: Any = sys._getframe(1 + within)
    found: tuple[Any, ...] = ()
    while frame is not None:
        code = frame.f_code
        if not _inside[code.co_filename]:
            found += (code, frame.f_lasti)
            if len(found) == 2 * KEPT:
                break
        elif found:
            break
        frame = frame.f_back
    return found


def innermost() -> int:
    """A number of the innermost line of a user's that we are called from; 0 where there is none.

    Examples
    --------
    >>> exec(compile("found = [innermost() for _ in 'ab'] + [innermost()]", "model.py", "exec"))
    >>> found[0] == found[1] != 0
    True
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not _inside[code.co_filename]:
            found = _sites.get((id(code), frame.f_lasti))
            return _numbered(code, frame.f_lasti, frame.f_lineno) if found is None else found[0]
        frame = frame.f_back
    return 0


def _numbered(code: Any, offset: int, line: int) -> int:
    """The number of a line. One line has several offsets, the same call too: before and after Python specialises it."""
    if len(_sites) >= SITES:
        _sites.clear()
    key = (id(code), -1 - line)
    number, _ = _sites.setdefault(key, (next(_numbers), code))  # which keeps its identity from others
    _sites[id(code), offset] = number, code
    return number


def reached(error: BaseException) -> str:
    """The user's line that an exception passed last before it came into this package; empty where there is none.

    Examples
    --------
    >>> reached(ValueError("not raised"))
    ''
    """
    found = ""
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if not _inside[code.co_filename]:
            found = f"{os.path.basename(code.co_filename)}:{at.tb_lineno} in {code.co_name}"
        at = at.tb_next
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


def describe(where: Origin, most: int = 1) -> str:
    """As one reads it: ``model.py:12 in loss``, so many lines at most; empty where nothing was recorded."""
    found = [f"{os.path.basename(file)}:{line} in {function}" for file, line, function in islice(lines(where), most)]
    return ", ".join(found)


def with_line(message: str) -> str:
    """What an error says, with the user's line behind it unless a line is in it already."""
    where = "" if _LINE.search(message) else describe(origin())
    return f"{message} (at {where})" if where and where not in message else message


def name_line(error: NncError) -> None:
    """Have an error name the user's line, unless it names one already.

    Examples
    --------
    >>> error = NncError("it does not fit")
    >>> name_line(error)
    >>> str(error).startswith("it does not fit")
    True
    """
    error.args = (with_line(str(error)),)


def at_users_line(function: F) -> F:
    """A function whose errors name the user's line.

    Examples
    --------
    >>> at_users_line(abs)(-2)
    2
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NncError as error:
            name_line(error)
            raise

    return cast("F", call)
