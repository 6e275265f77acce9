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


def given(avals: tuple[Any, ...], shape: Any, /, *, layout: Any, data_format: str, **_: Any) -> Layout:
    """That of the parameter ``layout``."""
    return permutation(layout, len(shape), data_format)
