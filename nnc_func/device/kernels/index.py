"""Kernels that gather and scatter. Indices are checked first: a device that wraps them quietly would be wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from sys import maxsize
from typing import Any

import numpy as np

from nnc_func.device.kernels.move import Arrays, converted, dtype_in, dtype_of
from nnc_func.facets.movement import slices
from nnc_func.facets.shapes import normalise_axis

INT64 = np.dtype("int64")
SMALL = 1 << 15  # bytes that are copied faster than the extremes of indices are found
LONG = 128  # elements of a row, from which on adding it costs more than Python's loop over rows
WIDE = 512  # elements of a row, from which on sorting rows gains nothing
MANY = 64  # rows from which on they are sorted by their index
FEW = 8  # indices whose sums are made one after the other
FEWEST = 4  # rows that are worth being added at once
TOGETHER = 1 << 10  # rows that are looked at
ROOM = 1 << 17  # bytes of rows that are brought together in planned memory
COPIED = 1 << 14  # bytes that are copied where there are gaps, or no memory is planned
PLACES = 1 << 11  # indices and places that are looked at together, where numbers are made of them


def extremes(xp: Any, indices: Any) -> tuple[int, int]:
    """The least and the greatest, of one index at least."""
    if indices.shape == ():
        return (int(indices),) * 2
    if xp is np:  # its functions take twice as long as its methods where there are few
        return int(indices.min()), int(indices.max())
    return int(xp.min(indices)), int(xp.max(indices))


def check_range(xp: Any, indices: Any, extent: int) -> None:
    """Raise IndexError unless every index lies within an axis of that extent, counted from either end."""
    if 0 in indices.shape:
        return
    low, high = extremes(xp, indices)
    if low < -extent or high >= extent:
        wrong = high if high >= extent else low
        raise IndexError(f"index {wrong} is outside of an axis of extent {extent}; wanted {-extent} to {extent - 1}")


def from_front(xp: Any, indices: Any, extent: int) -> Any:
    """Checked, as int64, and counted from the front."""
    check_range(xp, indices, extent)
    found = converted(xp, indices, INT64)
    return xp.where(found < 0, found + extent, found)


# --- slices ----------------------------------------------------------------------------------------------


def slice_view(xp: Any, x: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    """A view."""
    return x[(*slices(starts, stops, steps), ...)]


def set_slice(xp: Any, x: Any, value: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    """In any namespace."""
    out = xp.asarray(x, copy=True)
    out[(*slices(starts, stops, steps), ...)] = converted(xp, value, dtype_of(x))
    return out


def set_slice_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, starts: Any, stops: Any, steps: Any
) -> None:
    """Of `set_slice`."""
    keep(xp, arrays[0], outs[0])
    outs[0][(*slices(starts, stops, steps), ...)] = arrays[1]


def keep(xp: Any, x: Any, out: Any) -> None:
    """Copy what is not there already: a result written over its argument is left as it is."""
    if out is not x:
        xp.copyto(out, x)


# --- gathers ---------------------------------------------------------------------------------------------


def take(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """In any namespace: the standard takes flat indices, none negative."""
    at = normalise_axis(axis, x.ndim)
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    flat = xp.reshape(from_front(xp, indices, x.shape[at]), (-1,))
    return xp.reshape(xp.take(x, flat, axis=at), shape)


def take_numpy(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """By NumPy's own."""
    check_range(xp, indices, x.shape[axis])
    return xp.asarray(xp.take(x, indices, axis=axis))


def take_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """Of `take`; NumPy checks indices itself where the result is small, but then puts it into a buffer first."""
    (x, indices), (out,) = arrays, outs
    if xp is np and 0 < out.nbytes <= SMALL:
        try:
            x.take(indices, axis, out)
        except IndexError:
            check_range(xp, indices, x.shape[axis])
            raise
        return
    check_range(xp, indices, x.shape[axis])
    if out.size:
        xp.take(x, indices, axis=axis, out=out, **({"mode": "wrap"} if xp is np else {}))


def take_along_axis(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """In any namespace."""
    at = normalise_axis(axis, x.ndim)
    return xp.take_along_axis(x, from_front(xp, indices, x.shape[at]), axis=at)


def take_along_axis_private(avals: Arrays, **_: Any) -> int:
    """The result, indices that are counted from the front, and where they are not."""
    x, indices = avals
    count = math.prod(indices.shape)
    return int(count * (x.dtype.itemsize + INT64.itemsize + 1))


# --- scatters --------------------------------------------------------------------------------------------


def scatter_add(xp: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """In any namespace: one addition an index, since the standard has no accumulating assignment."""
    at = normalise_axis(axis, x.ndim)
    out = xp.asarray(x, copy=True)
    flat = xp.reshape(from_front(xp, indices, x.shape[at]), (-1,))
    rows = xp.reshape(converted(xp, updates, dtype_of(x)), (*x.shape[:at], flat.shape[0], *x.shape[at + 1 :]))
    front = (slice(None),) * at
    for i in range(flat.shape[0]):
        where = (*front, int(flat[i]), ...)
        out[where] = out[where] + rows[(*front, i, ...)]
    return out


def scatter_add_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """On the flattened axis, brought to the front: row by row on NumPy where rows are long, else with ``add.at``."""
    (x, indices, updates), (out,) = arrays, outs
    at = normalise_axis(axis, x.ndim)
    check_range(xp, indices, x.shape[at])
    keep(xp, x, out)
    front = (at, *(i for i in range(x.ndim) if i != at))
    target = out.transpose(front)
    for where, some in _flattened(indices, updates, at) if xp is np else ((indices, updates),):
        rows = some.reshape(*x.shape[:at], where.size, *x.shape[at + 1 :]).transpose(front)
        if xp is np and rows.size >= LONG * max(where.size, 1):
            add_rows(target, where.reshape(-1), rows, scratch)
        else:
            add_at(xp, target, where.reshape(-1), rows)


def _flattened(indices: Any, updates: Any, at: int) -> Iterator[tuple[Any, Any]]:
    """Indices and their updates in parts, in order, that can be flattened: with gaps they are copied for that."""
    if indices.ndim < 2 or updates.flags.c_contiguous or updates.nbytes <= COPIED:
        yield indices, updates
        return
    count, axis = len(indices), (slice(None),) * at
    some = COPIED * count // updates.nbytes
    for first in range(0, count, max(some, 1)):
        if some:
            part = slice(first, first + some)
            yield indices[part], updates[(*axis, part)]
        else:
            yield from _flattened(indices[first], updates[(*axis, first)], at)


def scatter_add_scratch(avals: Arrays, *, axis: int) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Room for sums, and for rows, where several are added at once; each has a row more for a sum before rows."""
    x, indices, updates = avals
    count, width = math.prod(indices.shape), math.prod(x.shape[1:])
    if normalise_axis(axis, len(x.shape)) or x.dtype != updates.dtype or count < MANY or not LONG <= width < WIDE:
        return ()
    rows = 1 + min(count, TOGETHER, max(1, ROOM // (width * x.dtype.itemsize)))
    return (((rows, width), x.dtype),) * 2


def add_rows(out: Any, where: Any, rows: Any, scratch: Arrays = ()) -> None:
    """``np.add.at`` of long rows: bit by bit the same, several times as fast.

    Few rows, and wide ones, are added one after the other. Of others the first rows of all indices are added at once,
    then the second ones of those that have any; and when few indices have more, the sums of each are made by a
    reduction, which adds row after row. Rows are brought together in memory that is planned; where there is none, or
    they lie with gaps, a few at a time.
    """
    sums = room = None
    together, some = TOGETHER // 2, COPIED * where.size // max(rows.nbytes, 1)
    if scratch and out.flags.c_contiguous and (rows.ndim == 2 or rows.flags.c_contiguous):
        out, rows, sums = out.reshape(len(out), -1), rows.reshape(len(rows), -1), scratch[0]
        some = min(2 * some, len(sums) - 1)
        if rows.flags.c_contiguous:
            room, together, some = scratch[1], TOGETHER, len(sums) - 1
    is_worth_it = where.size >= MANY and rows.size < WIDE * where.size and some >= FEWEST
    for first in range(0, where.size, together):
        part = slice(first, first + together)
        if is_worth_it:
            _add_some(out, where[part], rows[part], some, sums, room)
        else:
            for i, row in zip(where[part].tolist(), rows[part], strict=True):
                np.add(out[i], row, out=out[i])


def _add_some(out: Any, where: Any, rows: Any, some: int, sums: Any, room: Any) -> None:
    """Add rows in an order that is as good as theirs, so many at a time, with room for sums, and for rows."""
    where = np.where(where < 0, where + out.shape[0], where)
    order = np.argsort(where, kind="stable")
    where = where[order]
    begins = np.flatnonzero(np.concatenate(([True], where[1:] != where[:-1])))
    counts, done = np.diff(np.append(begins, where.size)), 0
    while begins.size > FEW:
        for first in range(0, begins.size, some):
            part = begins[first : first + some]
            at = where[part]
            found = _gathered(out, at, sums)
            found += _gathered(rows, order[part + done], room)
            out[at] = found
        done += 1
        begins, counts = begins[counts > done], counts[counts > done]
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        there, end = out[where[begin]], begin + count
        for first in range(begin + done, end, some):
            at = order[first : min(first + some, end)]
            if sums is None:
                group = np.concatenate((there[None], rows[at]))
            else:
                group = sums[: at.size + 1]
                group[0] = there
                if room is None:
                    group[1:] = rows[at]
                else:
                    rows.take(at, 0, group[1:], "clip")
            np.add.reduce(group, axis=0, dtype=out.dtype, out=there)


def _gathered(rows: Any, at: Any, room: Any) -> Any:
    """The rows at indices that are known to be there, in that room."""
    return rows[at] if room is None else rows.take(at, 0, room[: at.size], "clip")


def put_along_axis_add(xp: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """In any namespace: one comparison of the whole axis for each index along it."""
    at = normalise_axis(axis, x.ndim)
    found = from_front(xp, indices, x.shape[at])
    updates = converted(xp, updates, dtype_of(x))
    places = xp.arange(x.shape[at], dtype=dtype_in(xp, INT64))
    places = xp.reshape(places, (*(1,) * at, -1, *(1,) * (x.ndim - at - 1)))
    out = xp.asarray(x, copy=True)
    for j in range(indices.shape[at]):
        one = (*(slice(None),) * at, slice(j, j + 1), ...)
        out = xp.where(places == found[one], out + updates[one], out)
    return out


def put_along_axis_add_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """With ``add.at`` and an open grid for the other axes; on NumPy of some indices at a time, in their order."""
    (x, indices, updates), (out,) = arrays, outs
    at = normalise_axis(axis, x.ndim)
    check_range(xp, indices, x.shape[at])
    keep(xp, x, out)
    _add_along(xp, out, indices, updates, at)


def _add_along(xp: Any, out: Any, indices: Any, updates: Any, at: int) -> None:
    """Numbers of the other axes are made for each index, which nobody plans."""
    if xp is np and indices.size > PLACES:
        axis = max(range(indices.ndim), key=indices.shape.__getitem__)
        half = indices.shape[axis] // 2
        for part in (slice(half), slice(half, None)):
            some = (*(slice(None),) * axis, part)
            _add_along(xp, out if axis == at else out[some], indices[some], updates[some], at)
        return
    grid = [
        indices if i == at else xp.arange(n).reshape(*(1,) * i, -1, *(1,) * (out.ndim - i - 1))
        for i, n in enumerate(out.shape)
    ]
    add_at(xp, out, tuple(grid), updates)


def atomic(avals: Any, **_: Any) -> bool:
    """Whether CuPy adds at indices in the dtype of the first argument: CUDA's atomic additions are few."""
    return avals[0].dtype.name in ("int32", "uint32", "int64", "uint64", "float32", "float64")


def add_at(xp: Any, out: Any, where: Any, updates: Any) -> None:
    """``add.at``; CuPy has none for int64, whose sums have the bits of uint64's."""
    if xp is not np and out.dtype == INT64:
        out, updates = out.view(np.uint64), updates.astype(INT64).view(np.uint64)
    xp.add.at(out, where, updates)


def first_copied(into: Any) -> Any:
    """The `compute` that goes with an `into` whose result has the aval of its first argument."""

    def compute(xp: Any, x: Any, *others: Any, **params: Any) -> Any:
        out = xp.array(x, order="C")
        into(xp, (out, *others), (out,), (), **params)
        return out

    return compute


# --- one-hot ---------------------------------------------------------------------------------------------


def one_hot(xp: Any, indices: Any, *, depth: int, dtype: Any, checked: bool) -> Any:
    """In any namespace: each index compared with every place."""
    if checked:
        _check_classes(xp, indices, depth)
    if depth > maxsize:  # NumPy's range of them would be empty
        raise MemoryError(f"{depth} classes are more than can be addressed")
    places = xp.arange(depth, dtype=dtype_in(xp, INT64))
    return converted(xp, converted(xp, indices, INT64)[..., None] == places, dtype)


def _check_classes(xp: Any, indices: Any, depth: int) -> None:
    """Raise IndexError unless every index is the number of a class."""
    if 0 not in indices.shape:
        low, high = extremes(xp, indices)
        if low < 0 or high >= depth:
            raise IndexError(f"number {low if low < 0 else high} is none of {depth} classes, 0 to {depth - 1}")


def one_hot_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, depth: int, dtype: Any, checked: bool
) -> None:
    """Compared into the result's dtype, some places at a time: numbers of all of them would be in no plan."""
    if checked:
        _check_classes(xp, arrays[0], depth)
    indices = arrays[0][..., None]
    for first in range(0, depth, PLACES):
        places = xp.arange(first, min(first + PLACES, depth))
        some = outs[0][..., first : first + PLACES]
        if outs[0].dtype.kind == "b" or xp is np:
            xp.equal(indices, places, some, casting="unsafe")
        else:
            some[...] = indices == places
