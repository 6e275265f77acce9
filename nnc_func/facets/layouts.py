"""Layouts: in which order the axes of a tensor lie in memory. Shape and axes are logical, whatever the layout.

A layout is the axes, outermost first; None stands for row-major, the order in which they are counted. The second half
are layout rules: from the avals of an operator's arguments and the shape of a result to that result's layout.
"""

from __future__ import annotations

from typing import Any

from nnc_func.errors import ShapeError

Layout = tuple[int, ...] | None
ROW_MAJOR = "row-major"
NHWC, NCHW = "NHWC", "NCHW"


def permutation(layout: Any, rank: int, data_format: str = NHWC) -> Layout:
    """A layout by its name, or by the axes themselves.

    Parameters
    ----------
    layout
        None or ``"row-major"``; the letters of `data_format` in the order in which they lie in memory, outermost first
        (``"NCHW"``); or the axes so.
    rank
        Of the tensor.
    data_format
        What the axes of the tensor are, a letter each.

    Raises
    ------
    ShapeError
        The layout is not one of a tensor of that rank.

    Examples
    --------
    >>> permutation("NCHW", 4)
    (0, 3, 1, 2)
    >>> permutation("NHWC", 4), permutation((1, -2), 2)
    (None, (1, 0))
    >>> permutation("NHWC", 4, data_format="NCHW")
    (0, 2, 3, 1)
    """
    if layout is None or layout == ROW_MAJOR:
        return None
    found = layout
    if isinstance(layout, str) and len(set(layout)) == len(layout) and sorted(layout) == sorted(data_format):
        found = tuple(map(data_format.index, layout))
    whole = tuple(range(rank))
    if isinstance(found, (tuple, list)) and all(isinstance(a, int) and -rank <= a < rank for a in found):
        axes = tuple(a % rank for a in found)
        if tuple(sorted(axes)) == whole:
            return None if axes == whole else axes
    raise ShapeError(
        f"{layout!r} is no layout of a tensor of rank {rank}; wanted 'row-major', the letters of {data_format!r} in "
        f"another order (rank {len(data_format)}), or the axes {whole} in another order, outermost first"
    )


def strides(layout: Layout, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Bytes from one element to the next along each axis, without gaps; None for row-major.

    Examples
    --------
    >>> strides((1, 0), (2, 3), 4)
    (4, 8)
    """
    if layout is None:
        return None
    found, step = [0] * len(shape), itemsize
    for axis in reversed(layout):
        found[axis] = step
        step *= max(shape[axis], 1)
    return tuple(found)


CHANNELS_INNERMOST = (0, 2, 3, 1)
"""Of images of the format NCHW: their channels lie innermost, as those of the format NHWC do."""

# --- rules -----------------------------------------------------------------------------------------------


def row_major(avals: tuple[Any, ...], shape: Any, /, **_: Any) -> Layout:
    """Row-major, whatever the arguments are."""
    return None


def common(avals: tuple[Any, ...], shape: Any, /, **_: Any) -> Layout:
    """That of all arguments of the result's shape, if they have one; those that broadcast have no say. Elementwise."""
    found = {a.layout for a in avals if a.shape == shape}
    return found.pop() if len(found) == 1 else None


def shared(avals: tuple[Any, ...], shape: Any, /, **_: Any) -> Layout:
    """That of all arguments, if they have one: what is put together of them lies as they do."""
    found = {a.layout for a in avals}
    return found.pop() if len(found) == 1 and all(len(a.shape) == len(shape) for a in avals) else None


def first(avals: tuple[Any, ...], shape: Any, /, **_: Any) -> Layout:
    """That of the first argument: what becomes of images, whose axes stay what they are."""
    found: Layout = avals[0].layout
    return found


def permuted(avals: tuple[Any, ...], shape: Any, /, *, axes: Any, **_: Any) -> Layout:
    """That of the argument, its axes counted anew; what lies row by row is a view of no layout.

    Examples
    --------
    >>> from nnc_func.aval import Aval
    >>> images = Aval((1, 8, 5, 5), "float32", layout=CHANNELS_INNERMOST)
    >>> permuted((images,), (5, 1, 5, 8), axes=(2, 0, 3, 1))
    (1, 0, 2, 3)
    """
    layout: Layout = avals[0].layout
    if layout is None:
        return None
    rank = len(layout)
    order = [a % rank for a in axes] if axes is not None else list(range(rank))[::-1]
    return permutation(tuple(map(order.index, layout)), rank)


def reshaped(avals: tuple[Any, ...], shape: Any, /, **_: Any) -> Layout:
    """That in which an argument's memory may be seen in another shape; None where it has to be copied for that.

    Axes may be split, and those merged that lie next to each other in the order in which they are counted.

    Examples
    --------
    >>> from nnc_func.aval import Aval
    >>> images = Aval((2, 8, 5, 5), "float32", layout=CHANNELS_INNERMOST)
    >>> reshaped((images,), (2, 4, 2, 5, 5)), reshaped((images,), (2, 8, 25)), reshaped((images,), (2, 200))
    ((0, 3, 4, 1, 2), (0, 2, 1), None)
    """
    (x,) = avals
    groups = None if x.layout is None else _groups(x.shape, shape)
    if groups is None:
        return None
    lies = {axis: at for at, axis in enumerate(axis for axis in x.layout if x.shape[axis] != 1)}
    order = []
    for before, after in groups:
        places = [lies[axis] for axis in before if x.shape[axis] != 1]
        if places and places != list(range(places[0], places[0] + len(places))):
            return None
        order.append((places[0] if places else -1, after))  # of extent 1: it may stand anywhere
    return permutation(tuple(axis for _, after in sorted(order) for axis in after), len(shape))


def _groups(before: Any, after: Any) -> list[tuple[list[int], list[int]]] | None:
    """Axes of one shape, and those of another that they become: as few at a time as there can be.

    None where that is not known of extents that are symbols, and of a shape without elements.
    """
    found = []
    i = j = 0
    while i < len(before) and j < len(after):
        one, other, rows, columns = before[i], after[j], [i], [j]
        while one != other:
            if not (isinstance(one, int) and isinstance(other, int) and one and other):
                return None
            if one < other:
                rows.append(rows[-1] + 1)
                one *= before[rows[-1]]
            else:
                columns.append(columns[-1] + 1)
                other *= after[columns[-1]]
        if one == 0:
            return None
        found.append((rows, columns))
        i, j = rows[-1] + 1, columns[-1] + 1
    found += [([axis], []) for axis in range(i, len(before))] + [([], [axis]) for axis in range(j, len(after))]
    return found


def given(avals: tuple[Any, ...], shape: Any, /, *, layout: Any, data_format: str, **_: Any) -> Layout:
    """That of the parameter ``layout``."""
    return permutation(layout, len(shape), data_format)
