"""Shape rules of movement, indexing and creation; and Python's slices for the bounds that operators carry.

As in `nnc_func.facets.shapes`, extents are integers or symbolic dimensions.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known, same_extent
from nnc_func.facets.shapes import ShapeT, joined, normalise_axes, normalise_axis, reduced

PARTS = 1 << 20  # results of one split: what says more is no program, and would take all memory to infer


def no_fewer_than_one(*shapes: ShapeT, name: str) -> None:
    """Raise OperatorError where a variadic operator is given nothing."""
    if not shapes:
        raise OperatorError(f"{name} wants at least one tensor, given none")


def concatenated(*shapes: ShapeT, axis: int, **_: Any) -> ShapeT:
    """`joined`, of one tensor at least."""
    no_fewer_than_one(*shapes, name="concat")
    return joined(*shapes, axis=axis)


def stacked(*shapes: ShapeT, axis: int, **_: Any) -> ShapeT:
    """Of tensors of one shape, side by side along a new axis.

    Raises
    ------
    OperatorError
        There are none.
    ShapeError
        Their shapes differ.

    Examples
    --------
    >>> stacked((2, 3), (2, 3), axis=1)
    (2, 2, 3)
    """
    no_fewer_than_one(*shapes, name="stack")
    first = shapes[0]
    for s in shapes[1:]:
        if len(s) != len(first) or not all(map(same_extent, first, s)):
            raise ShapeError(f"stack wants tensors of one shape, given {first} and {s}; use concat or broadcast_to")
    at = normalise_axis(axis, len(first) + 1)
    return (*first[:at], len(shapes), *first[at:])


def broadcast_to(x: ShapeT, *, shape: ShapeT, **_: Any) -> ShapeT:
    """The wanted shape, to which that of the argument must broadcast.

    Raises
    ------
    ShapeError
        It does not.
    """
    aligned = zip(x[::-1], shape[::-1], strict=False)
    if len(x) > len(shape) or not all((known(m) and m == 1) or same_extent(m, n) for m, n in aligned):
        raise ShapeError(f"shape {x} does not broadcast to {shape}: each extent must be equal, or 1 in the former")
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ShapeError(f"a shape has no negative extents, given {shape}")
    return shape


def expanded(x: ShapeT, *, axis: Any, **_: Any) -> ShapeT:
    """With new axes of extent 1, at positions counted in the result."""
    rank = len(x) + (len(axis) if isinstance(axis, tuple) else 1)
    new = normalise_axes(axis, rank)
    rest = iter(x)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def squeezed(x: ShapeT, *, axis: Any, **_: Any) -> ShapeT:
    """Without those axes, each of extent 1.

    Raises
    ------
    ShapeError
        One has another extent.
    """
    gone = normalise_axes(axis, len(x))
    for i in gone:
        if not same_extent(x[i], 1):
            raise ShapeError(f"axis {i} of shape {x} has extent {x[i]}; squeeze removes axes of extent 1 only")
    return tuple(n for i, n in enumerate(x) if i not in gone)


def flipped(x: ShapeT, *, axis: Any, **_: Any) -> ShapeT:
    """That of the argument, whose axes must exist."""
    normalise_axes(axis, len(x))
    return x


def along(x: ShapeT, *, axis: int, **_: Any) -> ShapeT:
    """That of the argument, which must have that axis."""
    normalise_axis(axis, len(x))
    return x


def first_along(x: ShapeT, *, k: int, axis: int, **_: Any) -> ShapeT:
    """That of the argument, of which an axis keeps k elements.

    Raises
    ------
    ShapeError
        It has not as many.
    """
    at = normalise_axis(axis, len(x))
    n = x[at]
    if k < 0 or (known(n) and k > n):
        raise ShapeError(f"an axis of extent {n} has no {k} elements")
    return (*x[:at], k, *x[at + 1 :])


def ranked(x: ShapeT, *, k: int, axis: int, keepdims: bool = False, **_: Any) -> ShapeT:
    """That of the argument, of which an axis keeps the element at position k of its order.

    Raises
    ------
    ShapeError
        It has no such position.
    """
    n = x[normalise_axis(axis, len(x))]
    if known(n) and not -n <= k < n:
        raise ShapeError(f"an axis of extent {n} has no position {k}; wanted {-n} to {n - 1}")
    return reduced(x, axis=axis, keepdims=keepdims)


def tiled(x: ShapeT, *, repetitions: ShapeT, **_: Any) -> ShapeT:
    """Each extent times its repetitions; the shorter of the two is filled up with ones in front.

    Raises
    ------
    ShapeError
        A negative number of repetitions.
    """
    if any(isinstance(r, int) and r < 0 for r in repetitions):
        raise ShapeError(f"repetitions are not negative, given {repetitions}")
    return tuple(r * n for r, n in zip(*aligned_left(repetitions, x), strict=True))


def aligned_left(*shapes: ShapeT) -> tuple[ShapeT, ...]:
    """All with the rank of the longest, ones put in front."""
    rank = max(map(len, shapes))
    return tuple((1,) * (rank - len(s)) + s for s in shapes)


def part_count(sections: Any) -> int:
    """How many parts there are.

    Raises
    ------
    ShapeError
        More than anybody has results for.
    """
    count: int = len(sections) if isinstance(sections, tuple) else sections
    if count > PARTS:
        raise ShapeError(f"{count} parts of an axis; {PARTS} is the most")
    return count


def part_sizes(n: Extent, sections: Any) -> ShapeT:
    """Extents of the parts of an axis: so many equal ones, or those listed.

    Raises
    ------
    ShapeError
        They do not add up to the axis.

    Examples
    --------
    >>> part_sizes(6, 3), part_sizes(6, (1, 5))
    ((2, 2, 2), (1, 5))
    """
    if isinstance(sections, tuple):
        if not all(isinstance(m, Integral) or not known(m) for m in sections):
            raise ShapeError(f"parts of an axis are whole numbers, given {sections}")
        if any(known(m) and m < 0 for m in sections) or not same_extent(sum(sections), n):
            raise ShapeError(f"parts {sections} do not add up to an axis of extent {n}")
        return tuple(sections)
    if sections < 1 or (known(n) and n % sections):
        raise ShapeError(f"an axis of extent {n} has no {sections} equal parts; give the extents as a tuple")
    count = part_count(sections)
    return (n // count,) * count


def parts(x: ShapeT, *, sections: Any, axis: int, **_: Any) -> tuple[ShapeT, ...]:
    """Of each part of a split."""
    at = normalise_axis(axis, len(x))
    return tuple((*x[:at], n, *x[at + 1 :]) for n in part_sizes(x[at], sections))


def padded(x: ShapeT, *, widths: Any, **_: Any) -> ShapeT:
    """With elements put before and after, along each axis.

    Raises
    ------
    ShapeError
        Not one pair of widths for each axis, or a negative width.
    """
    if (
        not isinstance(widths, tuple)
        or len(widths) != len(x)
        or any(
            not isinstance(w, tuple) or len(w) != 2 or any(isinstance(n, float) or (known(n) and n < 0) for n in w)
            for w in widths
        )
    ):
        wanted = "a pair of whole widths (before, after), none negative, for each axis"
        raise ShapeError(f"pad of shape {x} wants {wanted}; given {widths}")
    return tuple(n + before + after for n, (before, after) in zip(x, widths, strict=True))


def sliced(x: ShapeT, *, starts: ShapeT, stops: ShapeT, steps: tuple[int, ...], **_: Any) -> ShapeT:
    """Of a strided part of each axis.

    Raises
    ------
    ShapeError
        Not one start, stop and step for each axis, a step of zero, or a bound outside of its axis.

    Examples
    --------
    >>> sliced((10, 4), starts=(1, 3), stops=(10, -1), steps=(3, -2))
    (3, 2)
    """
    if not len(x) == len(starts) == len(stops) == len(steps):
        given = f"{starts}, {stops}, {steps}"
        raise ShapeError(f"a slice of shape {x} wants {len(x)} starts, stops and steps; given {given}")
    return tuple(map(_steps_within, x, starts, stops, steps))


def _steps_within(n: Extent, start: Extent, stop: Extent, step: int) -> Extent:
    if step == 0:
        raise ShapeError("a slice has no step of 0")
    least = 0 if step > 0 else -1  # -1 stands before the first element
    for bound in (start, stop):
        if isinstance(bound, int) and (bound < least or (isinstance(n, int) and bound > n)):
            raise ShapeError(f"bound {bound} is outside of an axis of extent {n} (step {step}); wanted {least} to {n}")
    if step < 0 and isinstance(start, int) and isinstance(n, int) and start >= n and start != stop:
        raise ShapeError(f"start {start} is behind the last element of an axis of extent {n} (step {step})")
    distance = stop - start if step > 0 else start - stop
    count = (distance + (abs(step) - 1)) // abs(step)
    return max(count, 0) if isinstance(count, int) else count


def slices(starts: Any, stops: Any, steps: Any) -> tuple[slice, ...]:
    """Python's slices with that meaning.

    Examples
    --------
    >>> slices((4,), (-1,), (-2,))
    (slice(4, None, -2),)
    """
    return tuple(map(_python_slice, starts, stops, steps))


def _python_slice(start: int, stop: int, step: int) -> slice:
    if (stop <= start) if step > 0 else (stop >= start):
        return slice(0, 0, 1)  # a start of -1 would be the last element to Python
    return slice(start, None if stop < 0 else stop, step)


def updated(x: ShapeT, value: ShapeT, **bounds: Any) -> ShapeT:
    """That of the tensor into whose slice a value is put, which broadcasts to the slice."""
    broadcast_to(value, shape=sliced(x, **bounds))
    return x


def taken(x: ShapeT, indices: ShapeT, *, axis: int, **_: Any) -> ShapeT:
    """With one axis replaced by those of the indices.

    Examples
    --------
    >>> taken((4, 5, 6), (2, 3), axis=1)
    (4, 2, 3, 6)
    """
    at = normalise_axis(axis, len(x))
    return (*x[:at], *indices, *x[at + 1 :])


def taken_along(x: ShapeT, indices: ShapeT, *, axis: int, **_: Any) -> ShapeT:
    """That of the indices, which differ from the tensor along the axis only.

    Raises
    ------
    ShapeError
        They differ elsewhere.
    """
    at = normalise_axis(axis, len(x))
    others = [i for i in range(len(x)) if i != at]
    if len(x) != len(indices) or not all(same_extent(x[i], indices[i]) for i in others):
        raise ShapeError(f"indices {indices} must have the shape {x} except along axis {at}; use broadcast_to")
    return indices


def scattered(x: ShapeT, indices: ShapeT, updates: ShapeT, *, axis: int, **_: Any) -> ShapeT:
    """That of the first argument; the updates have the shape that `taken` gives."""
    return _accumulated(x, updates, taken(x, indices, axis=axis))


def scattered_along(x: ShapeT, indices: ShapeT, updates: ShapeT, *, axis: int, **_: Any) -> ShapeT:
    """That of the first argument; the updates have the shape of the indices."""
    return _accumulated(x, updates, taken_along(x, indices, axis=axis))


def _accumulated(x: ShapeT, updates: ShapeT, wanted: ShapeT) -> ShapeT:
    if len(updates) != len(wanted) or not all(map(same_extent, updates, wanted)):
        raise ShapeError(f"updates have shape {updates}, wanted {wanted}; use broadcast_to")
    return x


def with_depth(indices: ShapeT, *, depth: Extent, **_: Any) -> ShapeT:
    """That of the indices, and an axis behind them."""
    if known(depth) and depth < 0:
        raise ShapeError(f"a depth is not negative, given {depth}")
    return (*indices, depth)


def reduced_some(x: ShapeT, *, axis: Any, keepdims: bool = False, **_: Any) -> ShapeT:
    """`reduced`, for reductions that have no value for no elements.

    Raises
    ------
    ShapeError
        A reduced axis has extent 0.
    """
    if any(known(x[i]) and x[i] == 0 for i in normalise_axes(axis, len(x))):
        raise ShapeError(f"of no elements none is largest or smallest: shape {x} reduced over axis {axis}")
    return reduced(x, axis=axis, keepdims=keepdims)


def counted(*, start: Any, stop: Any, step: Any, **_: Any) -> ShapeT:
    """Of a range, end not included.

    Raises
    ------
    ShapeError
        A step of zero, or an end or a step that is not finite.

    Examples
    --------
    >>> counted(start=0, stop=1, step=0.25), counted(start=3, stop=0, step=1)
    ((4,), (0,))
    """
    if known(step) and step == 0:
        raise ShapeError("a range has no step of 0")
    distance = stop - start
    if known(distance) and known(step):
        if not (math.isfinite(distance) and math.isfinite(step)):
            raise ShapeError(f"a range has finite ends and steps, given start {start}, stop {stop} and step {step}")
        return (max(0, math.ceil(distance / step)),)
    if any(isinstance(n, (float, complex)) for n in (start, stop, step)):
        raise ShapeError(f"a range with unknown extents has whole numbers only, given {start}, {stop}, {step}")
    return (-(-distance // step),)
