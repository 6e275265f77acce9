"""Equations between extents: what is assumed while shapes are inferred, and what follows from what is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Dim, Extent, known, substitute


class Equations:
    """Equations between extents, solved as far as they are linear in some symbol.

    Attributes
    ----------
    values
        What each solved symbol is: a number, or an expression in symbols that are not solved.

    Examples
    --------
    >>> found = Equations()
    >>> n, m = Dim.named("n"), Dim.named("m")
    >>> found.add(2 * n, 6)
    >>> found.add(m, n + 1)
    >>> found.values
    {'n': 3, 'm': 4}
    """

    __slots__ = ("_waiting", "values")

    def __init__(self) -> None:
        self.values: dict[str, Extent] = {}
        self._waiting: list[tuple[Extent, Extent]] = []  # not linear in any symbol, as far as is known

    def add(self, one: Extent, other: Extent) -> None:
        """Two extents are equal.

        Raises
        ------
        ShapeError
            They cannot be, with what is known already: says why.
        """
        pending = [(one, other)]
        while pending:
            left, right = pending.pop()
            found = _solved(substitute(left, self.values), substitute(right, self.values))
            if found is None:
                continue
            symbol, value = found
            if not symbol:
                self._waiting.append((left, right))
                continue
            self.values = {s: substitute(v, {symbol: value}) for s, v in self.values.items()} | {symbol: value}
            for s, v in self.values.items():
                _not_negative(s, v)
            pending += self._waiting
            self._waiting = []


def _solved(left: Extent, right: Extent) -> tuple[str, Extent] | None:
    """A symbol and what it must be; an empty name where none is told; None where they are equal anyway."""
    difference = left - right
    if known(difference):
        if difference:
            raise ShapeError(f"{left} against {right}")
        return None
    assert isinstance(difference, Dim)
    indivisible = False
    for symbol in sorted(_linear(difference), key=_last_first(difference)):
        coefficient = difference.terms[symbol,]
        rest = Dim({m: -c for m, c in difference.terms.items() if m != (symbol,)})
        if all(c % coefficient == 0 for c in rest.terms.values()):
            value: Extent = substitute(Dim({m: c // coefficient for m, c in rest.terms.items()}), {})
            _not_negative(symbol, value)
            return symbol, value
        indivisible = indivisible or not rest.symbols
    if indivisible:
        raise ShapeError(f"{left} = {right} holds for no whole {', '.join(sorted(difference.symbols))}")
    return "", 0


def _linear(extent: Dim) -> list[str]:
    """Symbols that stand alone in one term and in no other."""
    alone = [m[0] for m in extent.terms if len(m) == 1 and isinstance(m[0], str)]
    return [s for s in alone if not any(s in Dim({m: 1}).symbols for m in extent.terms if m != (s,))]


def _last_first(extent: Dim) -> Callable[[str], Any]:
    """Unknown extents without a name are solved for first, then names from the end of the alphabet."""

    def key(symbol: str) -> tuple[bool, bool, list[int]]:
        one = abs(extent.terms[symbol,]) == 1
        return not one, not symbol.startswith("?"), [-ord(c) for c in symbol]

    return key


def _not_negative(symbol: str, value: Extent) -> None:
    if known(value) and value < 0:
        raise ShapeError(f"{symbol} would be {value}, and an extent is not negative")
