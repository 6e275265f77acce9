"""Laws that an operator declares, for the Optimiser's rules to quantify over."""

from __future__ import annotations

from attrs import frozen


@frozen
class Law:
    """An algebraic fact about an operator.

    Attributes
    ----------
    name
        ``"commutative"``, ``"associative"``, ``"idempotent"``, ``"involution"``, ``"unit"``,
        ``"absorbs"`` or ``"inverse_of"``.
    value
        The number of ``unit`` and ``absorbs``; the operator's name for ``inverse_of``.
    side
        Where that number stands: ``"both"``, ``"left"`` or ``"right"``.

    Examples
    --------
    >>> str(unit(0))
    'unit(0)'
    """

    name: str
    value: float | str | None = None
    side: str = "both"

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        inside = self.value if isinstance(self.value, str) else f"{self.value:g}"
        return f"{self.name}({inside})" if self.side == "both" else f"{self.name}({inside}, {self.side})"


commutative = Law("commutative")  # f(a, b) == f(b, a)
associative = Law("associative")  # f(f(a, b), c) == f(a, f(b, c)), up to rounding for floats
idempotent = Law("idempotent")  # unary: f(f(x)) == f(x); binary: f(x, x) == x
involution = Law("involution")  # f(f(x)) == x


def unit(value: float, side: str = "both") -> Law:
    """``f(x, value) == x`` (and ``f(value, x) == x`` unless it holds on one side only)."""
    return Law("unit", value, side)


def absorbs(value: float, side: str = "both") -> Law:
    """``f(x, value) == value`` for every finite x."""
    return Law("absorbs", value, side)


def inverse_of(name: str) -> Law:
    """``f(g(x)) == x`` up to rounding, where `name` names g, for x in g's domain."""
    return Law("inverse_of", name)
