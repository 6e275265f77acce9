"""Calls one after another as one function: what a kernel of several small steps is bound to.

A loop over calls takes as long as a call on a small array. A function written out takes a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
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
    held: list[Any] = []
    pattern = []
    for _, operands in calls:
        named = []
        for each in operands:
            if not isinstance(each, int):
                held.append(each)
            named.append(f"a{each}" if isinstance(each, int) else f"h{len(held) - 1}")
        pattern.append(", ".join(named))
    made: Callable[..., None] = _maker(count, tuple(pattern), len(held))(*(f for f, _ in calls), *held)
    return made


@lru_cache(1024)
def _maker(count: int, pattern: tuple[str, ...], held: int) -> Callable[..., Any]:
    """What makes such a function of the functions and of the arrays that it holds."""
    given = [*(f"f{i}" for i in range(len(pattern))), *(f"h{i}" for i in range(held))]
    lines = [f"def make({', '.join(given)}):", f"  def run({', '.join(f'a{i}' for i in range(count))}):"]
    lines += [f"    f{i}({operands})" for i, operands in enumerate(pattern)]
    found: dict[str, Any] = {}
    exec("\n".join([*lines, "  return run"]), found)  # names of our own only
    return found["make"]  # type: ignore[no-any-return]
