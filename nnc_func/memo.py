"""What is remembered of functions of the user's: little, since a function holds whatever it was made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

FEW = 16
"""Entries of a memo whose keys hold functions of the user's."""
P = ParamSpec("P")
R = TypeVar("R")


class Few:
    """The last keys of a memo that hold functions of the user's; what is older goes.

    Parameters
    ----------
    memo
        Whatever is remembered, by key.

    Examples
    --------
    >>> memo = {}
    >>> few = Few(memo)
    >>> for n in range(100):
    ...     memo[n] = n
    ...     gone = few.note(n)
    >>> len(memo) == FEW, min(memo)
    (True, 84)
    """

    __slots__ = ("_keys", "_memo")

    def __init__(self, memo: MutableMapping[Any, Any]) -> None:
        self._memo = memo
        self._keys: deque[Any] = deque()

    def note(self, key: Any) -> Any:
        """Such a key is in the memo now; what goes for it, or None."""
        self._keys.append(key)
        return self._memo.pop(self._keys.popleft(), None) if len(self._keys) > FEW else None


def cached_by_body(limit: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function, the first of whose arguments is a body, that remembers so many results.

    What it finds of a body that holds functions of the user's is remembered by that body, and goes with it.

    Examples
    --------
    >>> from nnc_func.body import Body
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> length = cached_by_body(100)(lambda body: len(body.applications))
    >>> length(Body.of(1, (OPS["tanh"], 0)))
    1
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        remembered = lru_cache(limit)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            body: Any = args[0]
            if not body.holds_functions:
                return remembered(*args, **kwargs)  # type: ignore[arg-type]
            key = (function, args[1:], *kwargs.items())
            if key not in body.found:
                body.found[key] = function(*args, **kwargs)
            return body.found[key]  # type: ignore[no-any-return]

        return call

    return decorate
