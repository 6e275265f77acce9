"""What an operator's arguments may look like, as plain data that `testing` turns into Hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import field, frozen

FLOATS = ("float32", "float64", "float16")
COMPLEX = ("complex64", "complex128")
INEXACT = FLOATS + COMPLEX
INTEGERS = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
REALS = FLOATS + INTEGERS
NUMBERS = REALS + COMPLEX
ANY = (*NUMBERS, "bool")


def _tuple(cases: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(cases)


@frozen
class Samples:
    """Ranges, dtypes and relations of an operator's arguments.

    Attributes
    ----------
    relation
        How the shapes go together: ``"broadcast"`` (mutually broadcastable; also for one argument),
        ``"equal"`` (all the same), or ``"cases"`` (only `cases` are used).
    domain
        Interval ``(low, high)`` from which floating elements, and both parts of complex ones, are drawn: one for all
        arguments or a tuple of one each. Both ends are included; points where a derivative does not exist are kept
        away from by `avoid`.
    avoid
        Elements at which the operator has a kink or a pole: no element is within 0.05 of one of these.
        For ``distinct=True`` elements also differ pairwise by at least 0.05 (max, sorting).
    dtypes
        Dtypes of the arguments, by name; those that the operator's dtype rule refuses are not drawn.
    params
        ``(shapes, draw) -> dict``: parameters that fit the shapes, where ``draw(sequence)`` picks one element
        of a non-empty sequence. None: the operator has no required parameter.
    cases
        Fixed argument lists, for operators whose arguments must fit each other: a tuple of
        ``(specs, params)``; a spec is a shape, or (shape, dtype name), or (shape, dtype name, (low, high)).
    distinct
        Elements of an argument differ pairwise.
    min_rank
        Least rank of the shapes drawn.
    prepare
        ``prepare(*arrays)``: the list of arrays that the operator is given, made of those that were drawn, where it
        does not take any elements: matrices that have an inverse. None: as they are drawn.
    """

    relation: str = "broadcast"
    domain: Any = (-3.0, 3.0)
    avoid: tuple[float, ...] = ()
    dtypes: tuple[str, ...] = INEXACT
    params: Callable[..., dict[str, Any]] | None = None
    cases: tuple[tuple[Any, dict[str, Any]], ...] = field(default=(), converter=_tuple)
    distinct: bool = False
    min_rank: int = 0
    prepare: Callable[..., list[Any]] | None = None


@frozen
class Tolerance:
    """How far a device may be from the NumPy reference: units in the last place of the largest operand.

    Attributes
    ----------
    ulps
        Units in the last place of the result's dtype, relative to the largest magnitude in the result.
    """

    ulps: float = 4.0


EXACT = Tolerance(0.0)


@frozen
class Refused:
    """An interchange format has no such operator, for the stated reason."""

    why: str
