"""What an operator computes, as data that others interpret: a scalar expression, or a map of indices.

An elementwise operator is one expression of the elements of its operands (`Expression`); an operator that moves
elements says which element of which operand each element of its result is (`IndexMap`). Both are written once, over an
algebra that is given: NumPy's arrays are one, with which the test kit compares them with kernels on every sample; the
terms of a theorem prover are another, with which it proves rules. An operator without either is a black box: equal
operands give equal results, and nothing else is known of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attrs import frozen

from nnc_func.errors import NncError
from nnc_func.facets.dtypes import BOOL, DType, floating, promote
from nnc_func.facets.movement import aligned_left
from nnc_func.facets.shapes import normalise_axes, normalise_axis

Element = Any  # of an algebra: it has a `dtype`
Whole = Any  # an index or an extent of an algebra: it has Python's arithmetic and comparisons
Index = Sequence[Whole]


class LoweringError(NncError):
    """An expression does not say what an operator computes of elements of these dtypes."""


class Algebra(Protocol):
    """What expressions and index maps are made of. Elements that meet have one dtype: `cast` and `promoted` see to it.

    Integers wrap around; an integer divided by zero gives 0; a shift by as many bits as there are, or more, leaves
    zero, or the sign; booleans have no arithmetic, and their bits are their truth.
    """

    def number(self, value: Any, dtype: DType) -> Element: ...
    def cast(self, x: Element, dtype: DType) -> Element: ...
    def add(self, a: Element, b: Element) -> Element: ...
    def subtract(self, a: Element, b: Element) -> Element: ...
    def multiply(self, a: Element, b: Element) -> Element: ...
    def divide(self, a: Element, b: Element) -> Element: ...
    def floor_divide(self, a: Element, b: Element) -> Element: ...
    def remainder(self, a: Element, b: Element) -> Element: ...
    def power(self, a: Element, b: Element) -> Element: ...
    def negative(self, x: Element) -> Element: ...
    def absolute(self, x: Element) -> Element: ...
    def sqrt(self, x: Element) -> Element: ...
    def rounded(self, x: Element, way: str) -> Element: ...
    def less(self, a: Element, b: Element) -> Element: ...
    def equal(self, a: Element, b: Element) -> Element: ...
    def is_nan(self, x: Element) -> Element: ...
    def bit_and(self, a: Element, b: Element) -> Element: ...
    def bit_or(self, a: Element, b: Element) -> Element: ...
    def bit_xor(self, a: Element, b: Element) -> Element: ...
    def bit_not(self, x: Element) -> Element: ...
    def left_shift(self, a: Element, b: Element) -> Element: ...
    def right_shift(self, a: Element, b: Element) -> Element: ...
    def select(self, condition: Element, a: Element, b: Element) -> Element: ...

    def whole(self, x: Element) -> Whole:
        """An integer element as an index."""
        ...

    def either(self, condition: Any, a: Whole, b: Whole) -> Whole:
        """One of two indices, as a comparison of indices says."""
        ...

    def branch(self, condition: Any, a: Callable[[], Element], b: Callable[[], Element]) -> Element:
        """One of two elements, as a comparison of indices says; only that one need exist."""
        ...


class Operand(Protocol):
    """A tensor as an index map sees it: ``x(index)`` is an element, ``x.flat(position)`` one in row-major order."""

    shape: tuple[Whole, ...]
    dtype: DType

    def __call__(self, index: Index) -> Element: ...
    def flat(self, position: Whole) -> Element: ...


@frozen(eq=False)
class Expression:
    """An elementwise operator: ``function(algebra, *elements, **params)`` is an element of its result.

    Attributes
    ----------
    function
        Of the algebra.
    either_zero
        Of 0.0 and -0.0 a kernel may take either, whatever the function says.

    Examples
    --------
    >>> double = Expression(lambda s, x: s.add(x, x))
    """

    function: Callable[..., Element]
    either_zero: bool = False


@frozen(eq=False)
class IndexMap:
    """An operator that moves elements: ``function(algebra, operands, extents, index, **params)`` is one of its result.

    Attributes
    ----------
    function
        `extents` is the shape of the result.
    keeps_order
        The result has the operand's elements in their row-major order: it is another shape for them.

    Examples
    --------
    >>> transpose = IndexMap(lambda s, xs, extents, index: xs[0](index[::-1]))
    """

    function: Callable[..., Element]
    keeps_order: bool = False


Lowering = Expression | IndexMap


# --- scalar expressions ----------------------------------------------------------------------------------


def promoted(s: Algebra, *elements: Element) -> list[Element]:
    """The elements in their common dtype."""
    common = promote(*(x.dtype for x in elements))
    return [s.cast(x, common) for x in elements]


def primitive(name: str) -> Expression:
    """The algebra's own operation of that name, of elements in their common dtype."""
    return Expression(lambda s, *xs: getattr(s, name)(*promoted(s, *xs)))


def in_floats(name: str) -> Expression:
    """The algebra's own operation of that name, of floating elements: integers become float64."""

    def function(s: Algebra, *xs: Element) -> Element:
        common = floating(*(x.dtype for x in xs))
        return getattr(s, name)(*(s.cast(x, common) for x in xs))

    return Expression(function)


def of_reals(function: Callable[..., Element]) -> Expression:
    """An expression that holds of elements that are not complex; of complex ones nothing is said."""

    def checked(s: Algebra, *xs: Element, **params: Any) -> Element:
        if any(x.dtype.kind == "c" for x in xs):
            raise LoweringError("it is modelled for real numbers only")
        return function(s, *xs, **params)

    return Expression(checked)


def inverse(s: Algebra, x: Element) -> Element:
    """One over it; of an integer a float64."""
    x = s.cast(x, floating(x.dtype))
    return s.divide(s.number(1, x.dtype), x)


def is_infinite(s: Algebra, x: Element) -> Element:
    """Whether it is infinite: no integer is."""
    if x.dtype.kind in "biu":
        return s.number(False, BOOL)
    return s.equal(s.absolute(x), s.number(math.inf, x.dtype))


def is_finite(s: Algebra, x: Element) -> Element:
    """Whether it is neither infinite nor NaN."""
    return s.bit_not(s.bit_or(is_infinite(s, x), s.is_nan(x)))


def masked(s: Algebra, x: Element, chosen: Element) -> Element:
    """The element where it is chosen, else zero."""
    return s.select(chosen, x, s.number(0, x.dtype))


def multiplied_unless_zero(s: Algebra, a: Element, b: Element) -> Element:
    """The product, and zero where the second factor is zero."""
    a, b = promoted(s, a, b)
    zero = s.number(0, a.dtype)
    return s.select(s.equal(b, zero), zero, s.multiply(a, b))


def is_less(s: Algebra, a: Element, b: Element) -> Element:
    """Whether one element is less than another."""
    return s.less(*promoted(s, a, b))


def is_equal(s: Algebra, a: Element, b: Element) -> Element:
    """Whether two elements are equal."""
    return s.equal(*promoted(s, a, b))


def is_at_most(s: Algebra, a: Element, b: Element) -> Element:
    """Whether one element is less than another, or equal."""
    return s.bit_or(is_less(s, a, b), is_equal(s, a, b))


def larger(s: Algebra, a: Element, b: Element) -> Element:
    """The larger of two elements, or NaN."""
    a, b = promoted(s, a, b)
    return s.select(s.bit_or(s.is_nan(a), s.less(b, a)), a, b)


def smaller(s: Algebra, a: Element, b: Element) -> Element:
    """The smaller of two elements, or NaN."""
    a, b = promoted(s, a, b)
    return s.select(s.bit_or(s.is_nan(a), s.less(a, b)), a, b)


def bounded(s: Algebra, x: Element, *, min: Any, max: Any) -> Element:
    """Not below the one and not above the other."""
    if min is not None:
        x = larger(s, x, s.number(min, x.dtype))
    return x if max is None else smaller(s, x, s.number(max, x.dtype))


def quantized(s: Algebra, x: Element, scale: Element, zero: Element, *, min: Any, max: Any) -> Element:
    """Rounded, moved, and bounded; zero where it is no number."""
    found = s.add(s.rounded(s.divide(x, scale), "rint"), zero)
    found = s.select(s.is_nan(found), s.number(0, found.dtype), found)
    return bounded(s, found, min=min, max=max)


def sign_of(s: Algebra, x: Element) -> Element:
    """-1, 0 or 1, or NaN."""
    zero, one = (s.number(n, x.dtype) for n in (0, 1))
    below = zero if x.dtype.kind == "u" else s.select(s.less(x, zero), s.negative(one), zero)
    return s.select(s.is_nan(x), x, s.select(s.less(zero, x), one, below))


def kept(s: Algebra, chosen: Element, x: Element, otherwise: Element) -> Element:
    """The one or the other, in their common dtype."""
    return s.select(chosen, *promoted(s, x, otherwise))


def multiplied_and_added(s: Algebra, a: Element, b: Element, c: Element) -> Element:
    """a b + c, rounded twice."""
    return s.add(*promoted(s, s.multiply(*promoted(s, a, b)), c))


# --- index maps ------------------------------------------------------------------------------------------


def position(index: Index, shape: tuple[Whole, ...]) -> Whole:
    """Where an element is in row-major order.

    Examples
    --------
    >>> position((1, 2), (3, 4))
    6
    """
    found: Whole = 0
    for i, n in zip(index, shape, strict=True):
        found = found * n + i
    return found


IN_ORDER = IndexMap(lambda s, xs, extents, index, **_: xs[0].flat(position(index, extents)), keeps_order=True)
UNMOVED = IndexMap(lambda s, xs, extents, index, **_: xs[0](index))


def filled(s: Algebra, xs: Any, extents: Any, index: Index, *, value: Any, dtype: Any, **_: Any) -> Element:
    """One number everywhere."""
    return s.number(value, dtype)


def permuted(s: Algebra, xs: Any, extents: Any, index: Index, *, axes: Any) -> Element:
    """Axis i of the result is axis ``axes[i]``."""
    rank = len(index)
    order = range(rank)[::-1] if axes is None else [normalise_axis(a, rank) for a in axes]
    found = dict(zip(order, index, strict=True))
    return xs[0]([found[i] for i in range(rank)])


def broadcast(s: Algebra, x: Operand, index: Index) -> Element:
    """The element of an operand that stands at an index of a shape to which it broadcasts."""
    last = index[len(index) - len(x.shape) :]
    return x([s.either(n == 1, 0, i) for n, i in zip(x.shape, last, strict=True)])


def reversed_along(s: Algebra, xs: Any, extents: Any, index: Index, *, axis: Any) -> Element:
    """From the end, along those axes."""
    axes = normalise_axes(axis, len(index))
    return xs[0]([n - 1 - i if k in axes else i for k, (i, n) in enumerate(zip(index, extents, strict=True))])


def tiled(s: Algebra, xs: Any, extents: Any, index: Index, *, repetitions: Any) -> Element:
    """Again from the start after each copy; axes that the operand lacks are in front."""
    whole, _ = aligned_left(xs[0].shape, tuple(repetitions))
    within = [i % n for i, n in zip(index, whole, strict=True)]
    return xs[0](within[len(within) - len(xs[0].shape) :])


def joined(s: Algebra, xs: Any, extents: Any, index: Index, *, axis: int) -> Element:
    """In the first part that reaches so far."""
    at = normalise_axis(axis, len(index))
    common = promote(*(x.dtype for x in xs))

    def of(k: int, start: Whole) -> Element:
        x, i = xs[k], index[at]
        end = start + x.shape[at]

        def here() -> Element:
            return s.cast(x([*index[:at], i - start, *index[at + 1 :]]), common)

        return here() if k == len(xs) - 1 else s.branch(i < end, here, lambda: of(k + 1, end))

    return of(0, 0)


def stacked(s: Algebra, xs: Any, extents: Any, index: Index, *, axis: int) -> Element:
    """In the part that the new axis names."""
    at = normalise_axis(axis, len(index))
    rest = [*index[:at], *index[at + 1 :]]
    common = promote(*(x.dtype for x in xs))

    def of(k: int) -> Element:
        def here() -> Element:
            return s.cast(xs[k](rest), common)

        return here() if k == len(xs) - 1 else s.branch(index[at] == k, here, lambda: of(k + 1))

    return of(0)


def padded(s: Algebra, xs: Any, extents: Any, index: Index, *, widths: Any, value: Any) -> Element:
    """Inside of the borders the operand, on them the number."""
    x, inside = xs[0], True
    for i, n, (before, _) in zip(index, x.shape, widths, strict=True):
        inside = inside & (i >= before) & (i < before + n)
    moved = [i - before for i, (before, _) in zip(index, widths, strict=True)]
    return s.branch(inside, lambda: x(moved), lambda: s.number(value, x.dtype))


def sliced(s: Algebra, xs: Any, extents: Any, index: Index, *, starts: Any, stops: Any, steps: Any) -> Element:
    """From each start, by each step."""
    return xs[0]([start + i * step for i, start, step in zip(index, starts, steps, strict=True)])


def taken(s: Algebra, xs: Any, extents: Any, index: Index, *, axis: int) -> Element:
    """Along an axis where an index says, negative ones from the end."""
    x, indices = xs
    at = normalise_axis(axis, len(x.shape))
    stop = at + len(indices.shape)
    return x([*index[:at], _from_front(s, indices(index[at:stop]), x.shape[at]), *index[stop:]])


def taken_along(s: Algebra, xs: Any, extents: Any, index: Index, *, axis: int) -> Element:
    """At its own place, but for an axis, where an index says."""
    x, indices = xs
    at = normalise_axis(axis, len(x.shape))
    return x([*index[:at], _from_front(s, broadcast(s, indices, index), x.shape[at]), *index[at + 1 :]])


def _from_front(s: Algebra, found: Element, n: Whole) -> Whole:
    i = s.whole(found)
    return s.either(i < 0, i + n, i)
