"""Calls one after another as one function: what a kernel of several small steps is bound to.

A loop over calls takes as long as a call on a small array. A function written out takes a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

Calls = Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]


def straight(calls: Calls, count: int) -> Callable[..., None]:
    """A function of `count` arrays that makes these calls: an operand is the position of an array, or an array.

    Examples
    --------
    >>> import numpy as np
    >>> one, out = np.ones(()), np.empty(2)
    >>> complement = straight([(np.subtract, (one, 0, 1)), (np.multiply, (0, 1, 1))], count=2)
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
    found: dict[str, Any] = {}
    exec("\n".join([*lines, "  return run"]), found)  # names of our own only
    return found["make"]  # type: ignore[no-any-return]
