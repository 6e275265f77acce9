"""Strided boxes of a tensor: where parts of it lie, whether two have an element in common, and what none covers.

Everything is decided exactly, by arithmetic progressions, one for each axis: boxes meet iff they meet on every axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Extent, known, product

MANY = 16  # boxes from which on those that may meet are looked up in a table

Progression = tuple[int, int, int]  # first, step (at least 1), how many


@frozen
class Box:
    """A strided part of a tensor.

    Attributes
    ----------
    starts
        Along each axis of the tensor, where the part's first element lies.
    extents
        How many elements there are; an extent may be symbolic.
    steps
        From one to the next: not zero, and negative where they lie in reverse.
    axes
        Axes of the tensor that the part has itself, in order; the others have extent 1. None: all.

    Examples
    --------
    >>> Box((1,), (3,), (2,)).common(Box((2,), (2,), (3,)))
    (5,)
    """

    starts: tuple[Any, ...]
    extents: tuple[Any, ...]
    steps: tuple[int, ...]
    axes: tuple[int, ...] | None = None

    @property
    def size(self) -> Any:
        """Number of elements."""
        return product(self.extents)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Of the part itself."""
        return self.extents if self.axes is None else tuple(self.extents[a] for a in self.axes)

    def window(self, offset: int, strides: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Where the part's first element lies, and its strides, in a tensor that lies so: in the unit of those."""
        if not self.size:
            return offset, (0,) * len(self.shape)
        at = offset + sum(start * stride for start, stride in zip(self.starts, strides, strict=True))
        axes = range(len(self.starts)) if self.axes is None else self.axes
        return at, tuple(self.steps[a] * strides[a] for a in axes)

    def bounds(self) -> tuple[tuple[Any, Any, int], ...]:
        """Start, stop and step along each axis, as `slice` takes them."""
        return tuple(map(_slice_bounds, self.starts, self.extents, self.steps))

    def common(self, other: Box) -> tuple[int, ...] | None:
        """An element that both have; None where there is none, or where symbolic extents leave that open."""
        found = []
        for mine, theirs in zip(self._progressions, other._progressions, strict=True):
            met = _met(mine, theirs)
            if met is None:
                return None
            found.append(met[0])
        return tuple(found)

    @property
    def _progressions(self) -> list[Progression]:
        return list(map(ascending, self.starts, self.extents, self.steps))

    def within(self, shape: Sequence[Extent], what: str) -> None:
        """Raise ShapeError unless it lies in a tensor of that shape."""
        if any(known(n) and n == 0 for n in self.extents):
            return
        for axis, (start, n, step, extent) in enumerate(zip(self.starts, self.extents, self.steps, shape, strict=True)):
            if step == 0:
                raise ShapeError(f"{what} has stride 0 along axis {axis}; wanted 1, or any other step but 0")
            for at in (start, start + (n - 1) * step):
                if (known(at) and at < 0) or (known(at - extent) and at - extent >= 0):
                    raise ShapeError(f"{what} has an element at {at} along axis {axis}, of extent {extent}")


def ascending(start: Any, n: Any, step: int) -> Any:
    """The same elements with a positive step."""
    return (start, step, n) if step > 0 else (start + (n - 1) * step, -step, n)


def _slice_bounds(start: Any, n: Any, step: int) -> tuple[Any, Any, int]:
    if known(n) and n == 0:
        return 0, 0, 1
    return start, start + (n - 1) * step + (1 if step > 0 else -1), step


def _met(a: Any, b: Any) -> Any:
    """The elements that two progressions share: the first, the step, how many; None for none, or if it is not known."""
    if not all(map(known, (*a, *b))):
        return _may_meet(a, b)
    (a0, s, n), (b0, t, m) = a, b
    if n <= 0 or m <= 0:
        return None
    divisor = math.gcd(s, t)
    if (b0 - a0) % divisor:
        return None
    step, cycle = s * t // divisor, t // divisor
    first = a0 + s * ((b0 - a0) // divisor * pow(s // divisor, -1, cycle) % cycle)
    lowest = max(a0, b0)
    if first < lowest:
        first += -(-(lowest - first) // step) * step
    last = min(a0 + (n - 1) * s, b0 + (m - 1) * t)
    return None if first > last else (first, step, (last - first) // step + 1)


def _may_meet(a: Any, b: Any) -> Any:
    """Of ranges whose bounds are symbolic: met where their differences prove it."""
    (a0, s, n), (b0, t, m) = a, b
    if s != 1 or t != 1:
        return None
    apart = (a0 + n - b0, b0 + m - a0)
    return (b0, 1, 1) if all(known(d) and d > 0 for d in apart) else None


def first_common(boxes: Sequence[Box]) -> tuple[int, int, tuple[int, ...]] | None:
    """Two boxes that have an element in common, by number, and the element; None where all are disjoint.

    Examples
    --------
    >>> first_common([Box((0,), (2,), (2,)), Box((1,), (2,), (2,)), Box((3,), (1,), (1,))])
    (1, 2, (3,))
    """
    table = _table(boxes) if len(boxes) > MANY else None
    for j, box in enumerate(boxes):
        for i in range(j) if table is None else _near(table, j):
            met = boxes[i].common(box)
            if met is not None:
                return int(i), j, met
    return None


def _table(boxes: Sequence[Box]) -> Any:
    """Lowest and highest element of each box along each axis; None where not all is known."""
    rows = [(first, first + (n - 1) * step) for box in boxes for first, step, n in box._progressions]
    if not rows or not all(known(low) and known(high) for low, high in rows):
        return None
    return np.array(rows, np.int64).reshape(len(boxes), -1, 2)


def _near(table: Any, j: int) -> Any:
    low, high = table[:j, :, 0], table[:j, :, 1]
    return np.flatnonzero(((low <= table[j, :, 1]) & (high >= table[j, :, 0])).all(axis=1))


def gaps(shape: tuple[int, ...], boxes: Sequence[Box], most: int) -> list[Box] | None:
    """What no box covers, as disjoint boxes; None if there are more than `most`.

    Examples
    --------
    >>> [(g.starts, g.extents, g.steps) for g in gaps((5,), [Box((0,), (3,), (2,))], 8)]
    [((1,), (2,), (2,))]
    """
    if not product(shape):
        return []
    rank = len(shape)
    found = [Box((0,) * rank, shape, (1,) * rank)]
    for box in boxes:
        if not box.size:
            continue
        found = [rest for piece in found for rest in _without(piece, box)]
        if len(found) > most:
            return None
    return found


def _without(piece: Box, box: Box) -> list[Box]:
    """The elements of the first that the second has not, axis by axis."""
    rank = len(piece.starts)
    shared = list(map(_met, piece._progressions, box._progressions))
    if None in shared:
        return [piece]
    found = []
    starts, extents, steps = list(piece.starts), list(piece.extents), list(piece.steps)
    for axis in range(rank):
        first, step, n = shared[axis]
        for start, stride, count in _rest(starts[axis], steps[axis], extents[axis], first, step, n):
            found.append(Box(*(
                (*fixed[:axis], own, *fixed[axis + 1 :])
                for fixed, own in ((starts, start), (extents, count), (steps, stride))
            )))  # fmt: skip
        starts[axis], extents[axis], steps[axis] = first, n, step
    return found


def _rest(start: int, step: int, n: int, first: int, stride: int, count: int) -> list[tuple[int, int, int]]:
    """A progression without one that lies in it: before, after, and the residues between."""
    last = first + (count - 1) * stride
    before, after = (first - start) // step, (start + (n - 1) * step - last) // step
    found = [(start, step, before), (last + step, step, after)]
    found += [(first + k * step, stride, count - 1) for k in range(1, stride // step if count > 1 else 1)]
    return [each for each in found if each[2]]


def assembled(
    *shapes: tuple[Extent, ...], shape: tuple[Extent, ...], offsets: Any, strides: Any = None, **_: Any
) -> tuple[Extent, ...]:
    """The shape of a tensor that is put together from parts, which must lie in it and must not overlap.

    Raises
    ------
    ShapeError
        A part has another rank, lies partly outside, or has an element in common with another: says which, and where.

    Examples
    --------
    >>> assembled((2,), (2,), shape=(4,), offsets=((0,), (2,)))
    (4,)
    """
    if any(known(n) and n < 0 for n in shape):
        raise ShapeError(f"a shape has no negative extents, given {shape}")
    boxes = part_boxes(*shapes, shape=shape, offsets=offsets, strides=strides)
    for i, box in enumerate(boxes):
        box.within(shape, f"part {i} of shape {shapes[i]} at {offsets[i]} in {shape}")
    met = first_common(boxes)
    if met is not None:
        i, j, at = met
        raise ShapeError(
            f"parts {i} and {j} overlap: both write element {list(at)}. {_told(boxes[i], i)}; {_told(boxes[j], j)}; "
            "each element is written once: give offsets apart, or add what should be accumulated"
        )
    return shape


def _told(box: Box, i: int) -> str:
    steps = "" if all(s == 1 for s in box.steps) else f" in steps of {box.steps}"
    return f"part {i} has shape {box.extents} at {box.starts}{steps}"


def part_boxes(
    *shapes: tuple[Extent, ...], shape: tuple[Extent, ...], offsets: Any, strides: Any = None, **_: Any
) -> list[Box]:
    """Where the parts lie."""
    rank = len(shape)
    listed = ((1,) * rank,) * len(shapes) if strides is None else strides
    for name, given in (("offsets", offsets), ("strides", listed)):
        if not isinstance(given, tuple) or len(given) != len(shapes):
            raise ShapeError(f"{len(shapes)} parts want {len(shapes)} {name}, a tuple for each; given {given}")
        if any(not isinstance(each, tuple) or len(each) != rank for each in given):
            raise ShapeError(f"{name} of parts of a tensor of shape {shape} have {rank} numbers each; given {given}")
    for i, each in enumerate(shapes):
        if len(each) != rank:
            raise ShapeError(f"part {i} has shape {each}; a part has the rank of the whole, {shape}: use reshape")
    return [Box(o, s, t) for s, o, t in zip(shapes, offsets, listed, strict=True)]
