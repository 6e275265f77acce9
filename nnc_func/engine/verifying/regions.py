"""Regions of a buffer: bytes that a strided array takes, and whether two of them meet, decided exactly.

It is no part of the planner, and shares no code with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import frozen

from nnc_func.engine.verifying.work import free

STEPS = 100_000  # of the search; after so many two regions are taken to meet


@frozen
class Region:
    """Where an array's elements lie.

    Attributes
    ----------
    offset
        Bytes from the start of the buffer to the first element.
    axes
        Extent and stride, in bytes, of each axis with more than one element.
    itemsize
        Bytes of an element.
    low, high
        The bytes from the first to the last that it takes are ``[low, high)``.
    is_compact, is_dense
        Row-major without gaps; without gaps in some order of its axes.

    Examples
    --------
    >>> columns = Region.of(0, (2, 3), (32, 8), 8)
    >>> columns.low, columns.high, columns.meets(Region.of(24, (2,), (32,), 8))
    (0, 56, False)
    """

    offset: int
    axes: tuple[tuple[int, int], ...]
    itemsize: int
    low: int
    high: int
    is_compact: bool
    is_dense: bool

    @staticmethod
    def of(offset: int, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> Region:
        """The region of an array; strides None: row-major, without gaps."""
        strides = compact(shape, itemsize) if strides is None else strides
        axes = tuple((n, s) for n, s in zip(shape, strides, strict=True) if n != 1)
        if any(n == 0 for n, _ in axes):
            return Region(offset, (), itemsize, offset, offset, True, True)
        low = offset + sum(min(0, (n - 1) * s) for n, s in axes)
        high = offset + sum(max(0, (n - 1) * s) for n, s in axes) + itemsize
        plain = _without_gaps(axes, itemsize)
        dense = plain or _without_gaps(sorted(axes, key=lambda axis: -abs(axis[1])), itemsize)
        return Region(offset, axes, itemsize, low, high, plain, dense)

    def same(self, other: Region) -> bool:
        """Whether they have the same elements in the same order."""
        if self.is_compact and other.is_compact:
            return (self.low, self.high) == (other.low, other.high)
        return self == other

    def meets(self, other: Region, spend: Callable[[int], None] = free) -> bool:
        """Whether they have a byte in common; `spend` is told how many steps it takes to decide that."""
        if self.low >= other.high or other.low >= self.high or self.low == self.high or other.low == other.high:
            return False
        if self.is_dense and other.is_dense:
            return True
        return _solvable(self, other, spend)


def _without_gaps(axes: Sequence[tuple[int, int]], itemsize: int) -> bool:
    return tuple(s for _, s in axes) == compact([n for n, _ in axes], itemsize)


def compact(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes, row-major and without gaps."""
    found = [itemsize]
    for n in shape[:0:-1]:
        found.append(found[-1] * n)
    return tuple(reversed(found)) if shape else ()


def _solvable(one: Region, other: Region, spend: Callable[[int], None]) -> bool:
    """Whether a byte of one is a byte of the other: a linear equation in bounded integers.

    With i and j the indices, every stride s made positive, and e the byte of an element:
    ``sum(s_k * i_k) + sum(t_k * (m_k - 1 - j_k)) + e == target``.
    """
    bounds: dict[int, int] = {}
    for region in (one, other):
        for n, s in region.axes:
            bounds[abs(s)] = bounds.get(abs(s), 0) + n - 1
    bounds[1] = bounds.get(1, 0) + one.itemsize + other.itemsize - 2
    bounds.pop(0, None)
    unit = math.gcd(one.itemsize, *(s for r in (one, other) for _, s in r.axes), one.low - other.low)
    if unit == one.itemsize == other.itemsize:  # elements meet as a whole, or not at all
        bounds[1] -= 2 * unit - 2
        bounds = {s // unit: n for s, n in bounds.items() if n}
    else:
        unit = 1
    target = (other.high - unit - one.low) // unit  # its last byte, from which the other is counted down
    return _search(sorted(bounds.items(), reverse=True), target, spend)


def _search(terms: list[tuple[int, int]], target: int, spend: Callable[[int], None]) -> bool:
    """Whether ``sum(s * x) == target`` has a solution with ``0 <= x <= n`` for each (s, n), the largest s first."""
    most, divisor = [0], [0]
    for s, n in reversed(terms):
        most.append(most[-1] + s * n)
        divisor.append(math.gcd(divisor[-1], s))
    most.reverse()
    divisor.reverse()
    stack, steps = [(0, target)], 0
    while stack:
        at, left = stack.pop()
        if left == 0:
            return True
        if at == len(terms) or left > most[at] or left % divisor[at]:
            continue
        s, n = terms[at]
        lowest, highest = max(0, -(-(left - most[at + 1]) // s)), min(n, left // s)
        more = max(1, highest + 1 - lowest)
        steps += more
        if steps > STEPS:
            return True
        spend(more)
        stack += [(at + 1, left - s * x) for x in range(lowest, highest + 1)]
    return False
