"""NumPy's indices as data: what each entry of a key does to the axes of a tensor, and where their axes end up.

A key is a tuple of whole numbers, slices, None, ``...`` and the word ``"array"``, which stands for an integer tensor
that is given beside it. What NumPy says of numbers among arrays and of arrays apart from each other is said here once.
"""

from __future__ import annotations

import operator as python
from functools import lru_cache
from typing import Any

from attrs import frozen

from nnc_func.errors import IndexingError, OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.facets.shapes import ShapeT

ARRAY = "array"
NUMBERS = frozenset((int,))
BOUNDS = frozenset((int, type(None)))
ENTRIES = frozenset((int, str, type(None), type(Ellipsis)))


@frozen
class Reading:
    """What a key does, in steps: slice, drop and add axes, bring the axes of arrays together, take along them.

    Attributes
    ----------
    starts, stops, steps
        Of the slice, one for each axis of the tensor.
    shape
        Of what is sliced, once axes of numbers are dropped and those of None are there.
    axes
        Of that shape: those that arrays count in.
    at
        Where the arrays' own axes stand in the result.

    Examples
    --------
    >>> read(("array", slice(1, None), 0), (4, 5, 6))
    Reading(starts=(0, 1, 0), stops=(4, 5, 1), steps=(1, 1, 1), shape=(4, 4), axes=(0,), at=0)
    """

    starts: tuple[Extent, ...]
    stops: tuple[Extent, ...]
    steps: tuple[int, ...]
    shape: ShapeT
    axes: tuple[int, ...]
    at: int

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of `shape`, with those of arrays together where they stand in the result."""
        rest = [i for i in range(len(self.shape)) if i not in self.axes]
        return (*rest[: self.at], *self.axes, *rest[self.at :])


def read(key: tuple[Any, ...], shape: ShapeT) -> Reading:
    """The meaning of a key for a tensor of that shape.

    Raises
    ------
    IndexingError
        Too many indices, two ``...``, an index out of range.
    ShapeError
        A step of 0.
    OperatorError
        An entry that is no index.
    """
    if not set(map(type, shape)) <= NUMBERS:
        return _read(key, shape)
    entries: list[Any] = []
    for entry in key:
        if type(entry) is slice:  # which has no hash
            entry = (entry.start, entry.stop, entry.step)
            if not set(map(type, entry)) <= BOUNDS:
                return _read(key, shape)
        elif type(entry) not in ENTRIES:
            return _read(key, shape)
        entries.append(entry)
    return _known(tuple(entries), shape)


@lru_cache(maxsize=4096)
def _known(entries: tuple[Any, ...], shape: tuple[int, ...]) -> Reading:
    return _read(tuple([slice(*entry) if type(entry) is tuple else entry for entry in entries]), shape)


def _read(key: tuple[Any, ...], shape: ShapeT) -> Reading:
    bounds: list[tuple[Extent, Extent, int]] = []
    kept: list[Extent] = []
    axes: list[int] = []
    advanced: list[tuple[int, int]] = []  # place in the key, axes of the result in front
    several = any(type(e) is str for e in key)
    for place, entry in enumerate(filled(key, shape)):
        if entry is None or entry is Ellipsis:
            kept += [1] * (entry is None)
            continue
        n = shape[len(bounds)]
        if isinstance(entry, slice):
            start, stop, step, size = slice_bounds(entry, n)
            kept.append(size)
        elif type(entry) is str and entry == ARRAY:
            advanced.append((place, len(kept) - len(axes)))
            axes.append(len(kept))
            kept.append(n)
            start, stop, step = 0, n, 1
        else:
            start = _one(entry, n, len(bounds), shape)
            stop, step = start + 1, 1
            if several:
                advanced.append((place, len(kept) - len(axes)))
        bounds.append((start, stop, step))
    places = [place for place, _ in advanced]
    apart = bool(places) and places != list(range(places[0], places[0] + len(places)))
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    return Reading(starts, stops, steps, tuple(kept), tuple(axes), 0 if apart or not advanced else advanced[0][1])


def filled(key: tuple[Any, ...], shape: ShapeT) -> list[Any]:
    """The key with ``...`` written out: an entry for each axis, those of None, and a ``...`` that stands for no axis.

    Raises
    ------
    IndexingError
        Too many indices, or two ``...``.
    """
    used = sum(entry is not None and entry is not Ellipsis for entry in key)
    if used > len(shape):
        raise IndexingError(f"{used} indices for a tensor of rank {len(shape)}, shape {shape}")
    dots = [i for i, entry in enumerate(key) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index has one ... at most")
    at = dots[0] if dots else len(key)
    missing = [slice(None)] * (len(shape) - used)
    return [*key[:at], *(missing or (dots and [Ellipsis])), *key[at + 1 :]]


def _one(entry: Any, n: Extent, axis: int, shape: ShapeT) -> Extent:
    """A whole number, counted from the front."""
    if known(entry):
        try:
            entry = python.index(entry)
        except TypeError:
            raise OperatorError(
                f"an index is made of whole numbers, slices, None, ... and integer or boolean tensors, given {entry!r}"
            ) from None
    if known(n) and known(entry) and not -n <= entry < n:
        raise IndexingError(f"index {entry} is outside of axis {axis} of shape {shape}; wanted {-n} to {n - 1}")
    return n + entry if known(entry) and entry < 0 else entry


def slice_bounds(part: slice, n: Extent) -> tuple[Extent, Extent, int, Extent]:
    """Start, stop, step and how many, of a slice of an axis: clipped, unless something is not known.

    Raises
    ------
    ShapeError
        A step of 0.

    Examples
    --------
    >>> slice_bounds(slice(None, None, -2), 5)
    (4, -1, -2, 3)
    """
    if part.start is None and part.stop is None and part.step is None:
        return 0, n, 1, n
    if not all(each is None or not known(each) or _is_index(each) for each in (part.start, part.stop, part.step)):
        raise IndexingError(f"a slice is made of whole numbers, given {part!r}")
    step = 1 if part.step is None else python.index(part.step)
    if step == 0:
        raise ShapeError("a slice has no step of 0")
    if known(n) and known(part.start) and known(part.stop):
        start, stop, step = part.indices(n)
        return start, stop, step, len(range(start, stop, step))
    begin = _bound(part.start, n, 0 if step > 0 else n - 1)
    end = _bound(part.stop, n, n if step > 0 else -1)  # -1 stands before the first element
    distance = end - begin if step > 0 else begin - end
    return begin, end, step, (distance + abs(step) - 1) // abs(step)


def _is_index(given: Any) -> bool:
    try:
        python.index(given)
    except TypeError:  # of an array with axes, or a class, which have the method too
        return False
    return True


def _bound(given: Any, n: Extent, otherwise: Extent) -> Extent:
    """A bound of a slice, which is taken to lie within the axis; a negative one counts from the end."""
    if given is None:
        return otherwise
    bound: Extent = python.index(given) if known(given) else given
    return n + bound if known(bound) and bound < 0 else bound
