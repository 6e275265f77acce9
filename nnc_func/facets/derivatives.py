"""Derivatives of operators, as data that Autodiff reads: both modes, from one formula where that is possible.

Formulas are written against ``o``, the operators of whichever interpretation is being differentiated
(``o.multiply(g, x)``), and on raw carriers: whatever has a ``shape``. They therefore work on arrays, on graph
nodes and under further differentiation alike. ``y`` is the result, ``g`` its cotangent, ``t`` a tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import field, frozen

Formula = Callable[..., Any]
ONE = 1  # a partial derivative that is one everywhere: nothing is multiplied


def _formulas(given: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(given)  # not `tuple` itself: attrs would look for its signature in its docstring


@frozen
class Partials:
    """An elementwise operator, by its partial derivatives, one formula ``(o, y, *xs, **params)`` an argument.

    Attributes
    ----------
    of
        The formulas. One is None where the operator does not depend smoothly on the argument; a formula that *is*
        ``ONE`` (not a function) is the constant one.
    singular
        They are infinite where arguments may well be (sqrt at 0): a zero tangent or cotangent times that is zero.
    """

    of: tuple[Any, ...] = field(converter=_formulas)
    singular: bool = False


def partials(*of: Any, singular: bool = False) -> Partials:
    """`Partials` from its formulas: ``partials(lambda o, y, a, b: b, lambda o, y, a, b: a)``."""
    return Partials(of, singular)


@frozen
class Linear:
    """An operator that is linear, jointly, in some arguments: it is its own derivative.

    Attributes
    ----------
    transpose
        ``(o, g, *xs, **params)`` gives one cotangent, or a tuple with one for each argument in `arguments`: where it
        is a function without arguments it is called only if that cotangent is wanted.
        Only shapes and dtypes of the arguments in which it is linear may be used.
    arguments
        Positions in which the operator is linear; None means all.
    homogeneous
        ``homogeneous(**params)`` gives the parameters of the linear part of an operator that adds a constant.
    chooses
        Whether the first argument says, element by element, which of the other two the result is.
    by_element
        Whether each element of the result is made of one of each argument, as `elementwise` says it.
    accumulate
        ``accumulate(o, total, g, *xs, **params)``: `total` and the cotangent of the first argument, the only one in
        which it is linear, where that takes less than to make the cotangent: few elements of it are not zero.
    """

    transpose: Formula
    arguments: tuple[int, ...] | None = None
    homogeneous: Formula | None = None
    chooses: bool = False
    by_element: bool = False
    accumulate: Formula | None = None


@frozen
class Bilinear:
    """An operator linear in each of its two arguments: matrix products, convolutions.

    Attributes
    ----------
    left, right
        ``(o, g, a, b, **params)`` gives the cotangent of a, of b.
    """

    left: Formula
    right: Formula


@frozen
class Custom:
    """Anything else.

    Attributes
    ----------
    jvp
        ``(o, ts, y, *xs, **params)``: the tangent of the result; ``ts[i]`` is None where it is zero.
    vjp
        One formula ``(o, g, y, *xs, **params)`` an argument, or None for an argument without derivative.
        With several results g and y are tuples, ``g[i]`` being None where nothing flows back.
    by_element
        As of `Linear`.
    """

    jvp: Formula
    vjp: tuple[Any, ...]
    by_element: bool = False


@frozen
class OfBodies:
    """An operator that applies bodies: its derivative is made of theirs, which Autodiff gives.

    Attributes
    ----------
    jvp
        ``(op, derive, o, ts, xs, params)`` gives the results and their tangents, None for zero; ``ts[i]`` is None where
        it is zero. `derive` gives derivatives of bodies, see `autodiff.bodies`.
    linearize
        ``(op, derive, o, moving, xs, params)`` gives the results, and two functions: from tangents of the operands to
        those of the results, and from cotangents of the results to those of the operands; None is zero. `moving` has
        the positions of operands whose cotangents may be wanted.
    known
        ``(op, derive, o, moving, ys, xs, params)`` gives these two functions where the results are there already; None
        where that is of no use, since it takes more than these.
    """

    jvp: Formula
    linearize: Formula
    known: Formula | None = None


@frozen
class OfParameters:
    """An operator whose parameters bring its derivative, of all operands and results together, or bring none.

    Attributes
    ----------
    refusal
        ``refusal(**params)`` says why there is none, as a `Refusal`; None where there is one.
    push
        ``(o, ts, y, *xs, **params)`` gives a tangent for each result, of those of the operands; None is zero.
    pull
        ``(o, gs, y, *xs, **params)`` gives a cotangent for each operand, of those of the results; None is zero.
    """

    refusal: Formula
    push: Formula
    pull: Formula


@frozen
class Constant:
    """The derivative is zero wherever it exists (rounding, sign, comparisons), for the stated reason."""

    why: str


@frozen
class Refusal:
    """There is none, for the stated reason."""

    why: str


def NOT_DIFFERENTIABLE(why: str) -> Refusal:  # noqa: N802 - a constant in spirit, spelt as the design spells it
    """A derivative that does not exist, and why."""
    return Refusal(why)


Derivative = Partials | Linear | Bilinear | Custom | OfBodies | OfParameters | Constant | Refusal
