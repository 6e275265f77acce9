"""Symbolic dimensions: integer polynomials in named or fresh symbols, compared exactly.

An extent is an ``int`` or a `Dim`. Equality that can be proved is decided; what cannot be proved is assumed
and checked when the numbers are known (a program checks again for every distinct binding).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from numbers import Integral, Number
from typing import Any, TypeGuard, Union, cast

from nnc_func.errors import ShapeError
from nnc_func.override import Override

_fresh = itertools.count()
_compute: ContextVar[Callable[[str, Any, Any], Any] | None] = ContextVar("compute", default=None)
_assumed: ContextVar[list[tuple[Extent, Extent]] | None] = ContextVar("assumed", default=None)
AS_TENSOR = "bind the input first, or compute with a tensor of it, stack.asarray(x.shape[0])"
SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
}  # fmt: skip
MOST_TERMS, MOST_FACTORS = 1024, 64  # of an extent: one that is squared again and again doubles them each time
Monomial = tuple[Any, ...]  # atoms, sorted by their text; an atom is a name or a Quotient


class Quotient:
    """The atom ``numerator // divisor`` that does not divide evenly for all bindings."""

    __slots__ = ("divisor", "numerator")

    def __init__(self, numerator: Dim, divisor: Extent) -> None:
        self.numerator = numerator
        self.divisor = divisor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and (self.numerator, self.divisor) == (other.numerator, other.divisor)

    def __hash__(self) -> int:
        return hash((self.numerator, self.divisor))

    def __str__(self) -> str:
        return f"({_grouped(self.numerator)} // {_grouped(self.divisor)})"


def _grouped(extent: Extent) -> str:
    text = str(extent)
    return f"({text})" if set(text) & set("+-*") else text


class Dim:
    """A symbolic extent.

    Examples
    --------
    >>> n = Dim.named("n")
    >>> 2 * n + n == 3 * n, str(n * 4 // 2), (n + 1).substitute({"n": 7})
    (True, '2*n', 8)
    """

    __slots__ = ("_hash", "terms")
    is_symbolic = True

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}
        self._hash = hash(frozenset(self.terms.items()))

    @staticmethod
    def named(name: str) -> Dim:
        """The dimension of that name: the same one wherever it is named."""
        return Dim({(name,): 1})

    @staticmethod
    def fresh() -> Dim:
        """A dimension that equals no other."""
        return Dim({(f"?{next(_fresh)}",): 1})

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in it."""
        found: set[str] = set()
        for monomial in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else symbols_of((atom.numerator, atom.divisor))
        return frozenset(found)

    def substitute(self, values: Mapping[str, Extent]) -> Extent:
        """With those symbols replaced: an ``int`` once none is left."""
        total: Extent = 0
        for monomial, coefficient in self.terms.items():
            term: Extent = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    term = term * values.get(atom, Dim({(atom,): 1}))
                else:
                    term = term * (substitute(atom.numerator, values) // substitute(atom.divisor, values))
            total = total + term
        return total

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.terms == other.terms
        return NotImplemented  # a tensor is compared element by element

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return _computed("add", self, other)
        terms = dict(self.terms)
        for m, c in _terms(other).items():
            terms[m] = terms.get(m, 0) + c
        return _simple(terms)

    __radd__ = __add__

    def __neg__(self) -> Extent:
        return _simple({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Extent) -> Extent:
        return self + -other if _is_extent(other) else _computed("subtract", self, other)

    def __rsub__(self, other: Extent) -> Extent:
        return -self + other if _is_extent(other) else _computed("subtract", other, self)

    def __mul__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return _computed("multiply", self, other)
        terms: dict[Monomial, int] = {}
        others = _terms(other)
        if len(self.terms) * len(others) > MOST_TERMS or _degree(self.terms) + _degree(others) > MOST_FACTORS:
            raise ShapeError(
                f"a product of extents would have more than {MOST_TERMS} terms or {MOST_FACTORS} factors: "
                f"({self!s:.60}) * ({other!s:.60})"
            )
        for (m, c), (n, d) in itertools.product(self.terms.items(), others.items()):
            both = tuple(sorted((*m, *n), key=str))
            terms[both] = terms.get(both, 0) + c * d
        return _simple(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return _computed("floor_divide", self, other)
        if self == other:
            return 1
        if not isinstance(other, Dim):
            if other == 0:
                raise ShapeError(f"{self} // 0")
            if all(c % other == 0 for c in self.terms.values()):
                return _simple({m: c // other for m, c in self.terms.items()})
        elif len(other.terms) == 1:
            (monomial, coefficient) = next(iter(other.terms.items()))
            shared = {m: _without(m, monomial) for m in self.terms}
            if all(rest is not None and self.terms[m] % coefficient == 0 for m, rest in shared.items()):
                return _simple({rest: self.terms[m] // coefficient for m, rest in shared.items() if rest is not None})
        return Dim({(Quotient(self, other),): 1})

    def __rfloordiv__(self, other: int) -> Extent:
        if not _is_extent(other):
            return _computed("floor_divide", other, self)
        return 0 if other == 0 else Dim({(Quotient(Dim({(): other}), self),): 1})

    def __str__(self) -> str:
        parts = []
        for m, c in sorted(self.terms.items(), key=lambda item: (-len(item[0]), str(item[0]))):
            factors = [str(a) for a in m]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            parts.append(("-" if c < 0 else "+") + "*".join(factors))
        return "".join(parts).removeprefix("+")

    __repr__ = __str__

    def __truediv__(self, other: Any) -> Any:
        return _computed("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _computed("divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other if _is_extent(other) else _computed("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self if _is_extent(other) else _computed("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= MOST_FACTORS:
            return math.prod([self] * other)
        return _computed("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _computed("power", other, self)

    def __lt__(self, other: Any) -> Any:
        return _computed("less", self, other)

    def __le__(self, other: Any) -> Any:
        return _computed("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _computed("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _computed("greater_equal", self, other)

    def __index__(self) -> int:
        raise ShapeError(f"the extent {self} is not known yet, and Python wanted a number: {AS_TENSOR}")

    __float__ = __int__ = __index__

    def sqrt(self) -> Any:
        """As NumPy asks for it."""
        return self**0.5


def _is_extent(value: Any) -> bool:
    return isinstance(value, (int, Dim, Integral))


def _computed(name: str, a: Any, b: Any) -> Dim:
    """What is no extent, where it can be a tensor; what is left to another operand, which may be one."""
    if not (isinstance(a, (Number, Dim)) and isinstance(b, (Number, Dim))):
        return NotImplemented  # type: ignore[no-any-return]
    compute = _compute.get()
    if compute is not None:
        return cast("Dim", compute(name, a, b))
    shown = f"{a} {SIGNS[name]} {b}"
    if SIGNS[name][0] in "<>":
        raise ShapeError(f"whether {shown} is not known yet; {AS_TENSOR}")
    raise ShapeError(f"{shown} is no extent: {'use // for one, ' if name == 'divide' else ''}{AS_TENSOR}")


def computing(compute: Callable[[str, Any, Any], Any]) -> Override:
    """Within it comparisons of unknown extents have a value, and what is computed of them that is no extent.

    Parameters
    ----------
    compute
        Of the name of an operator, such as ``"less"`` or ``"divide"``, and two extents or numbers.

    Examples
    --------
    >>> with computing(lambda name, a, b: f"{a} {name} {b}"):
    ...     print(Dim.named("n") < 5)
    n less 5
    """
    return Override(_compute, compute)


def is_computing() -> bool:
    """Whether extents differ from time to time here: what is computed of them is a tensor.

    Examples
    --------
    >>> is_computing()
    False
    """
    return _compute.get() is not None


class Extents(tuple[Any, ...]):
    """Extents of a shape, of which at least one is a symbol: ``None in shape``, as the array API's standard has it.

    It is equal to the tuple of the same extents, and its elements are those: a symbol can be passed on, as None cannot.

    Examples
    --------
    >>> shape = Extents((Dim.named("n"), 3))
    >>> None in shape, shape.count(None), shape == (Dim.named("n"), 3), shape[0]
    (True, 1, True, n)
    """

    __slots__ = ()

    def __contains__(self, extent: object) -> bool:
        return extent is None or tuple.__contains__(self, extent)

    def count(self, extent: Any) -> int:
        """How often an extent is among them; None counts those that are not known."""
        return sum(type(n) is Dim for n in self) if extent is None else super().count(extent)


Extent = Union[int, Dim]


def _degree(terms: Mapping[Monomial, int]) -> int:
    return max(map(len, terms), default=0)


def _terms(value: Extent) -> Mapping[Monomial, int]:
    return value.terms if isinstance(value, Dim) else {(): int(value)}


def _simple(terms: Mapping[Monomial, int]) -> Extent:
    left = {m: c for m, c in terms.items() if c}
    if not left:
        return 0
    return left[()] if set(left) == {()} else Dim(left)


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def known(extent: Extent) -> TypeGuard[int]:
    """Whether it is a number."""
    return not isinstance(extent, Dim)


DEEPEST = 64  # lists within lists, as an array has at most so many axes: a list may contain itself
PLAIN = frozenset((int, bool, float, complex, str, type(None)))  # what has nothing inside, as most parameters
NOTHING: frozenset[str] = frozenset()


class Compound(ABC):
    """A parameter that has others inside, such as a body: what is asked of extents is asked of these, too.

    Attributes
    ----------
    symbols
        Names of the symbols in it, found once, when it is made: what is nested deeply is not walked for each question.
    """

    __slots__ = ()
    symbols: frozenset[str]

    @property
    @abstractmethod
    def inside(self) -> tuple[Any, ...]:
        """Its parameters, in a nest of tuples."""

    @abstractmethod
    def having(self, inside: tuple[Any, ...]) -> Any:
        """It with others, in the same nest."""


def substitute(value: Any, values: Mapping[str, Extent]) -> Any:
    """An extent, or a nest of tuples with extents in it, with symbols replaced."""
    if isinstance(value, Dim):
        return value.substitute(values)
    if isinstance(value, tuple):
        return tuple(substitute(v, values) for v in value)
    if isinstance(value, Compound):
        return value.having(substitute(value.inside, values)) if value.symbols else value
    return value


def symbols_of(value: Any) -> frozenset[str]:
    """Names of all symbols in an extent or a nest of tuples."""
    if isinstance(value, tuple):
        return NOTHING.union(*[symbols_of(v) for v in value if type(v) not in PLAIN])
    return value.symbols if type(value) not in PLAIN and isinstance(value, (Dim, Compound)) else NOTHING


def mentions_unknown(value: Any, depth: int = 0) -> bool:
    """Whether it is an unknown extent, or a nest of tuples or lists with one in it: at most `DEEPEST` of them deep.

    Examples
    --------
    >>> mentions_unknown((2, (Dim.named("n"), 3))), mentions_unknown("n")
    (True, False)
    """
    if isinstance(value, (tuple, list)):
        return depth < DEEPEST and any(map(mentions_unknown, value, itertools.repeat(depth + 1)))
    return bool(value.symbols) if isinstance(value, Compound) else type(value) is Dim


def product(shape: tuple[Extent, ...]) -> Extent:
    """Number of elements.

    Examples
    --------
    >>> product((2, 3)), product(())
    (6, 1)
    """
    if all(isinstance(n, int) for n in shape):
        return math.prod(shape)
    total: Extent = 1
    for n in shape:
        total = total * n
    return total


def same_extent(a: Extent, b: Extent) -> bool:
    """Whether two extents may be equal: two unequal numbers may not; what cannot be proved is assumed."""
    if a == b:
        return True
    if known(a - b):
        return False
    assume(a, b)
    return True


def assume(a: Extent, b: Extent) -> None:
    """Two extents are taken to be equal, without proof: `assumptions` hears of it."""
    heard = _assumed.get()
    if heard is not None:
        heard.append((a, b))


def assumptions(rule: Callable[..., Any], *args: Any, **params: Any) -> list[tuple[Extent, Extent]]:
    """The pairs of extents that a shape rule takes to be equal for these arguments.

    Examples
    --------
    >>> from nnc_func.facets.shapes import broadcast
    >>> assumptions(broadcast, (Dim.named("n"), 3), (Dim.named("m"), 3))
    [(n, m)]
    """
    heard: list[tuple[Extent, Extent]] = []
    with Override(_assumed, heard):
        rule(*args, **params)
    return heard


def broadcast_extents(column: tuple[Extent, ...]) -> Extent:
    """The extent that these broadcast to.

    Beside a one any extent stays. A symbolic extent beside a number above one is assumed to be that number, and
    beside another symbolic one to be equal: broadcasting over an axis wants its extent to be 1 when it is written.

    Raises
    ------
    ShapeError
        Two numbers differ and neither is one.
    """
    found: Extent = 1
    for n in column:
        if n == found or (known(n) and n == 1):
            continue
        if known(found) and found == 1:
            found = n
        elif not same_extent(found, n):
            raise ShapeError(f"{found} against {n}")
        elif known(n):
            found = n
    return found
