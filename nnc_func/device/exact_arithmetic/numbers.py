"""Numbers that round nothing: rationals are Python's, residues are integers modulo a prime.

Nothing here knows of arrays or operators.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Any, NoReturn

import numpy as np

from nnc_func.errors import DeviceError
from nnc_func.facets.dtypes import limits_of

PRIME = (1 << 63) - 4569
"""So large that no false identity is met by chance; its half is prime too, so that no small power of two is one."""
DENOMINATORS = tuple(10**k for k in range(7))
POWERS = 1 << 16  # exponents of residues, at most: a fraction is a larger residue
DIGITS = 1 << 22  # binary ones of a power of a rational, at most
FLOAT64 = np.dtype("float64")
OPAQUE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip


class InexactError(DeviceError):
    """What was asked for has no exact answer, or none that is known here."""


class NoOrderError(TypeError):
    """Which of two residues is larger was asked for, or how far one is from zero."""


# --- what a floating number stands for -----------------------------------------------------------------


@lru_cache(4096)
def fraction_of(number: float, dtype: Any = FLOAT64) -> Fraction:
    """The simplest fraction that rounds to it in that dtype, since 0.1 stands for a tenth; else the number itself.

    Examples
    --------
    >>> fraction_of(0.1), fraction_of(float(np.float32(1 / 3)), np.dtype("float32"))
    (Fraction(1, 10), Fraction(1, 3))
    >>> fraction_of(1234567 + 1 / 64)
    Fraction(79012289, 64)
    """
    wanted = dtype.type(number)
    return _simplest(number, lambda found: bool(dtype.type(float(found)) == wanted))


@lru_cache(4096)
def fraction_near(number: float, dtype: Any) -> Fraction:
    """As `fraction_of`, of a number that was rounded more than once.

    Examples
    --------
    >>> product = float(np.float32(0.37) * np.float32(0.59))
    >>> fraction_near(product, np.dtype("float32"))
    Fraction(2183, 10000)
    """
    near = 2 * Fraction(float(limits_of(dtype).eps))
    exact = Fraction(number)
    return _simplest(number, lambda found: abs(found - exact) <= near * abs(exact))


def _simplest(number: float, stands: Callable[[Fraction], bool]) -> Fraction:
    exact = Fraction(number)
    found = (exact.limit_denominator(denominator) for denominator in DENOMINATORS)
    return next(filter(stands, found), exact)


# --- residues ------------------------------------------------------------------------------------------


def residue_of(exact: Fraction) -> int:
    """A fraction modulo the prime.

    Raises
    ------
    ZeroDivisionError
        The prime divides its denominator.
    """
    return exact.numerator * _inverse(exact.denominator) % PRIME


def _inverse(value: int) -> int:
    if not value % PRIME:
        raise ZeroDivisionError("division by zero, modulo a prime")
    return pow(value, -1, PRIME)


class Residue:
    """An integer modulo a prime; it has no order, and functions that are not rational are not known of it."""

    __slots__ = ("opaque", "value")

    def __init__(self, value: int, opaque: bool) -> None:
        self.value = value % PRIME
        self.opaque = opaque

    def _of(self, other: Any) -> int:
        if isinstance(other, Residue):
            return other.value
        if isinstance(other, (int, np.integer)):
            return int(other)
        return residue_of(other if isinstance(other, Fraction) else fraction_of(float(other)))

    def _made(self, value: int) -> Residue:
        return Residue(value, self.opaque)

    def __add__(self, other: Any) -> Residue:
        return self._made(self.value + self._of(other))

    def __sub__(self, other: Any) -> Residue:
        return self._made(self.value - self._of(other))

    def __rsub__(self, other: Any) -> Residue:
        return self._made(self._of(other) - self.value)

    def __mul__(self, other: Any) -> Residue:
        return self._made(self.value * self._of(other))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Residue:
        return self._made(self.value * _inverse(self._of(other)))

    def __rtruediv__(self, other: Any) -> Residue:
        return self._made(self._of(other) * _inverse(self.value))

    def __pow__(self, other: Any) -> Residue:
        exponent = self._of(other)
        exponent -= PRIME * (exponent > PRIME // 2)
        if abs(exponent) > POWERS:
            raise InexactError(f"exponents of integers modulo a prime are whole numbers from {-POWERS} to {POWERS}")
        return self._made(pow(self.value if exponent >= 0 else _inverse(self.value), abs(exponent), PRIME))

    def __neg__(self) -> Residue:
        return self._made(-self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object) -> bool:
        return bool(self.value == self._of(other) % PRIME)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Any) -> bool:
        if not self.opaque:
            self._unordered()
        return bool(self.value < self._of(other) % PRIME)

    def __gt__(self, other: Any) -> bool:
        return not (self < other or self == other)

    def __le__(self, other: Any) -> bool:
        return bool(self < other or self == other)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def _unordered(self, *_: Any) -> NoReturn:
        raise NoOrderError("integers modulo a prime have no order, sign or whole part; rationals have: Exact()")

    __abs__ = __floor__ = __ceil__ = __trunc__ = __round__ = _unordered
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _unordered

    def __repr__(self) -> str:
        return f"{self.value} mod p"

    def __getattr__(self, name: str) -> Any:
        """NumPy asks an object for a function by its name: an unknown one, equal at equal arguments."""
        if name not in OPAQUE or not self.opaque:
            raise AttributeError(f"{name} of an exact number is not known")
        return lambda: self._made(Random(f"{name} {self.value}").randrange(PRIME))


# --- functions that NumPy has not, or another one ------------------------------------------------------


def raised(base: Any, exponent: Any) -> Any:
    """A power: of a rational, where the exponent is a whole number.

    Raises
    ------
    InexactError
        It is not rational, or has too many digits.

    Examples
    --------
    >>> raised(Fraction(2, 3), Fraction(-2))
    Fraction(9, 4)
    """
    if isinstance(base, Residue) or isinstance(exponent, Residue):
        return base**exponent
    power = Fraction(exponent)
    if power.denominator != 1:
        raise InexactError(f"{base} to the power of {power} is not rational: a root, or a power with a broken exponent")
    digits = max(abs(base.numerator).bit_length(), base.denominator.bit_length()) * abs(power.numerator)
    if digits > DIGITS and abs(base) != 1:
        raise InexactError(f"a power of {digits} binary digits; at most {DIGITS} are computed")
    return base**power.numerator


def rounded(number: Any) -> Any:
    """To the nearest whole number, halves to the even one.

    Examples
    --------
    >>> rounded(Fraction(5, 2)), rounded(Fraction(7, 2))
    (Fraction(2, 1), Fraction(4, 1))
    """
    return Fraction(round(number))


FUNCTIONS = {"power": np.frompyfunc(raised, 2, 1), "pow": np.frompyfunc(raised, 2, 1)}
FUNCTIONS |= dict.fromkeys(("round", "rint"), np.frompyfunc(rounded, 1, 1))
"""Of exact elements, by their names in NumPy."""
