"""Calls one after another as one function: what a kernel of several small steps is bound to.

A loop over calls takes as long as a call on a small array. A function written out takes a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

Calls = Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]
FILE = "<nnc_func unrolled>"  # where tracebacks say that what is written out lies: in no user's file


class Text:
    """A function that is written out: its lines, and the values that these name.

    Nothing that a user said is ever a part of the text: values are named `h0`, `h1` …, and attributes are not.

    Parameters
    ----------
    parameters
        The names of its parameters.

    Examples
    --------
    >>> import numpy as np
    >>> text = Text("x")
    >>> _ = text.line(f"y = {text.value(np.add)}(x, {text.value(1)})")
    >>> _ = text.line("return y")
    >>> text.function()(2)
    np.int64(3)
    """

    def __init__(self, *parameters: str) -> None:
        self._parameters = parameters
        self._lines: list[str] = []
        self._values: list[Any] = []
        self._names: dict[int, str] = {}
        self._count = 0

    def line(self, text: str) -> int:
        """Add a line; its number, as tracebacks have it."""
        self._lines.append(f"    {text}")
        return len(self._lines) + 2

    def value(self, value: Any) -> str:
        """What the lines call that value."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"h{len(self._values)}"
            self._values.append(value)
        return name

    def name(self) -> str:
        """A name that no other line has."""
        self._count += 1
        return f"v{self._count - 1}"

    def function(self) -> Callable[..., Any]:
        """The function of all lines so far."""
        given = ", ".join([f"h{i}" for i in range(len(self._values))])
        head = (f"def make({given}):", f"  def run({', '.join(self._parameters)}):")
        made: Callable[..., Any] = _written("\n".join((*head, *self._lines, "  return run")))(*self._values)
        return made


@lru_cache(1024)
def _written(text: str) -> Callable[..., Any]:
    """What the text defines as `make`; its names are our own only."""
    found: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), found)
    made: Callable[..., Any] = found["make"]
    return made


def unrolled(calls: Calls, count: int) -> Callable[..., None]:
    """A function of `count` arrays that makes these calls: an operand is the position of an array, or an array.

    Examples
    --------
    >>> import numpy as np
    >>> one, out = np.ones(()), np.empty(2)
    >>> complement = unrolled([(np.subtract, (one, 0, 1)), (np.multiply, (0, 1, 1))], count=2)
    >>> complement(np.array([0.5, 3.0]), out)
    >>> out
    array([ 0.25, -6.  ])
    """
    made: Callable[..., None] = maker(calls, count)()
    return made


def maker(calls: Calls, count: int, more: int = 0) -> Callable[..., Callable[..., None]]:
    """What makes such functions: of `more` arrays each, to which the positions from `count` on refer.

    Examples
    --------
    >>> import numpy as np
    >>> of = maker([(np.multiply, (0, 0, 2)), (np.add, (2, 0, 1))], count=2, more=1)
    >>> polynomial, out = of(np.empty(2)), np.empty(2)
    >>> polynomial(np.array([1.0, 3.0]), out)
    >>> out
    array([ 2., 12.])
    """
    pattern = tuple([tuple([each if isinstance(each, int) else None for each in at]) for _, at in calls])
    held = [each for _, at in calls for each in at if not isinstance(each, int)]
    return partial(_maker(count, more, pattern), *[f for f, _ in calls], *held)


@lru_cache(1024)
def _maker(count: int, more: int, pattern: tuple[tuple[int | None, ...], ...]) -> Callable[..., Any]:
    """What makes such a function of the functions, of the arrays that it holds, which are None here, and of more."""
    held = iter(range(sum(at.count(None) for at in pattern)))
    calls = [", ".join([f"h{next(held)}" if each is None else f"a{each:d}" for each in at]) for at in pattern]
    given = [f"f{i}" for i in range(len(pattern))] + [f"h{i}" for i in range(sum(at.count(None) for at in pattern))]
    given += [f"a{i}" for i in range(count, count + more)]
    lines = [f"def make({', '.join(given)}):", f"  def run({', '.join(f'a{i}' for i in range(count))}):"]
    lines += [f"    f{i}({operands})" for i, operands in enumerate(calls)]
    return _written("\n".join([*lines, "  return run"]))
