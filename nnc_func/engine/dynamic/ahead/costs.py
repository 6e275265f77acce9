"""Costs: what operators give, which is known before they are computed, and what they were seen to take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.aval import Aval
from nnc_func.memo import Few

MOST = 20_000  # costs that are remembered


class Cost:
    """Of an operator on operands of some avals.

    Attributes
    ----------
    avals
        Of its results.
    seconds
        The least that it was seen to take; None before it was computed.
    """

    __slots__ = ("avals", "seconds")

    def __init__(self, avals: tuple[Aval, ...]) -> None:
        self.avals = avals
        self.seconds: float | None = None

    def saw(self, seconds: float) -> None:
        """Note what it took now: whatever else the machine did meanwhile only made it longer."""
        if self.seconds is None or seconds < self.seconds:
            self.seconds = seconds


class Costs:
    """Costs by what they depend on.

    Examples
    --------
    >>> costs = Costs()
    >>> made = costs.of("add", lambda: (Aval((), "float32"),))
    >>> made.saw(2.0), made.saw(1.0), costs.of("add", None).seconds
    (None, None, 1.0)
    """

    __slots__ = ("_few", "_known")

    def __init__(self) -> None:
        self._known: dict[Any, Cost] = {}
        self._few = Few(self._known)

    def of(self, key: Any, avals: Callable[[], tuple[Aval, ...]], holds_functions: bool = False) -> Cost:
        """What is known under that key; the avals of results are asked for where nothing is.

        Of keys that hold functions of the user's, which may be new ones each time, few are remembered.
        """
        found = self._known.get(key)
        if found is None:
            found = Cost(avals())
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = found
            if holds_functions:
                self._few.note(key)
        return found
