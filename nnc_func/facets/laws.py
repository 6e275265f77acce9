"""Laws that an operator declares, for the Optimiser's rules to quantify over."""

from __future__ import annotations

from attrs import evolve, frozen

EVERY = "biufc"  # kinds of dtype: booleans, integers, unsigned ones, floating ones (bfloat16 too), complex ones
DISCRETE = "biu"
REAL = "biuf"


@frozen
class Law:
    """An algebraic fact about an operator.

    Attributes
    ----------
    name
        ``"commutative"``, ``"unit"``…: that of the function below that makes it.
    value
        The number of ``unit``, ``absorbs``, ``cancels`` and ``always``; of laws about two operators the other's name,
        or the names of the others.
    side
        Where that number stands: ``"both"``, ``"left"`` or ``"right"``.
    kinds
        Kinds of dtype of the arguments for which it holds of every number, NaN and infinities too.
    nearly
        Kinds for which it holds where all that is computed is finite, and up to rounding.
    rounds
        It holds up to rounding only, of NaN and infinities too: what kernels do with -x is not their -f(x) bit by bit.

    Examples
    --------
    >>> str(unit(0)), str(opposite("less"))
    ('unit(0)', 'opposite(less)')
    >>> absorbs(0).of("biu", nearly="fc").nearly
    'fc'
    """

    name: str
    value: float | str | tuple[str, ...] | None = None
    side: str = "both"
    kinds: str = EVERY
    nearly: str = ""
    rounds: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        inside = ", ".join(self.value) if isinstance(self.value, tuple) else self.value
        told = f"{inside:g}" if isinstance(inside, (int, float)) else inside
        return f"{self.name}({told})" if self.side == "both" else f"{self.name}({told}, {self.side})"

    def of(self, kinds: str, nearly: str = "") -> Law:
        """The law for these kinds of dtype."""
        return evolve(self, kinds=kinds, nearly=nearly)

    @property
    def rounded(self) -> Law:
        """The law up to rounding."""
        return evolve(self, rounds=True)


commutative = Law("commutative")  # f(a, b) == f(b, a)
associative = Law("associative")  # f(f(a, b), c) == f(a, f(b, c))
idempotent = Law("idempotent")  # unary: f(f(x)) == f(x); binary: f(x, x) == x
involution = Law("involution")  # f(f(x)) == x
identity = Law("identity")  # f(x) == x
odd = Law("odd", kinds="fc")  # f(-x) == -f(x), of several arguments in each
whole = Law("whole")  # f(x) is a whole number, and f(x) == x if x is
nonnegative = Law("nonnegative", kinds="f")  # f(x) >= 0, or NaN
keeps_nonnegative = Law("keeps_nonnegative", kinds="f")  # f(x, ...) is not negative unless an argument is
increasing = Law("increasing", kinds="f")  # x <= y gives f(x) <= f(y), and only NaN gives NaN


def unit(value: float, side: str = "both") -> Law:
    """``f(x, value) == x`` (and ``f(value, x) == x`` unless it holds on one side only)."""
    return Law("unit", value, side)


def absorbs(value: float, side: str = "both") -> Law:
    """``f(x, value) == value``."""
    return Law("absorbs", value, side)


def cancels(value: float) -> Law:
    """``f(x, x) == value``."""
    return Law("cancels", value)


def always(value: float) -> Law:
    """``f(x) == value``."""
    return Law("always", value)


def inverse_of(name: str) -> Law:
    """``f(g(x)) == x`` up to rounding, where `name` names g, for x in g's domain."""
    return Law("inverse_of", name, kinds="", nearly="fc")


def undone_by(name: str) -> Law:
    """``g(f(x, y), y) == x``, where `name` names g."""
    return Law("undone_by", name, kinds=DISCRETE, nearly="fc")


def ignores(name: str) -> Law:
    """``f(g(x)) == f(x)``, where `name` names g; of several arguments in each."""
    return Law("ignores", name)


def opposite(name: str) -> Law:
    """``f(x, y) == not g(x, y)``, where `name` names g."""
    return Law("opposite", name)


def dual(name: str, through: str) -> Law:
    """``f(n(x), n(y)) == n(g(x, y))``, where `name` names g, and `through` n: De Morgan's law."""
    return Law("dual", (name, through))


def complements(value: float, through: str) -> Law:
    """``f(x, n(x)) == value``, where `through` names n."""
    return Law("complements", (f"{value:g}", through))


def absorption(name: str) -> Law:
    """``f(x, g(x, y)) == x``, where `name` names g."""
    return Law("absorption", name)


def distributes_over(name: str, side: str = "both") -> Law:
    """``f(x, g(y, z)) == g(f(x, y), f(x, z))``, where `name` names g, and `side` the argument that is taken apart."""
    return Law("distributes_over", name, side)


def turns(inner: str, outer: str) -> Law:
    """``f(inner(x, y)) == outer(f(x), f(y))``: a homomorphism, as exp turns sums into products."""
    return Law("turns", (inner, outer), kinds="", nearly="fc")


def boolean_algebra(other: str, through: str, neutral: float, zero: float) -> tuple[Law, ...]:
    """What holds of the one of ``and`` and ``or``, where `other` names the other, and `through` names ``not``."""
    return (
        *(commutative, associative, idempotent, absorption(other), distributes_over(other), dual(other, through)),
        *(unit(neutral), absorbs(zero), complements(zero, through)),
    )
