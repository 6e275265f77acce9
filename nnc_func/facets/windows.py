"""Windows over images: which axes are what in a data format, padding, strides, and how many windows there are."""

from __future__ import annotations

from typing import Any

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.facets.shapes import ShapeT, windows

DATA_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}  # by number of spatial axes
Extents = tuple[Extent, ...]


# A data format says what axes are; their layout, how they lie in memory.


def image_axes(x: ShapeT, data_format: str, axes: int = 2) -> tuple[Extent, Extents, Extent]:
    """Number of images, spatial extents and channels of a tensor of that data format, with so many spatial axes.

    Raises
    ------
    ShapeError
        An unknown data format, or another rank.
    """
    last, first = DATA_FORMATS[axes]
    if data_format not in (last, first):
        raise ShapeError(f"the data format {data_format!r} is unknown; wanted one of {last}, {first}")
    if len(x) != axes + 2:
        raise ShapeError(
            f"wanted images of rank {axes + 2}, {data_format}, given shape {x}; use expand_dims or reshape"
        )
    return (x[0], x[1:-1], x[-1]) if data_format == last else (x[0], x[2:], x[1])


def image_shape(count: Extent, extents: Extents, channels: Extent, data_format: str) -> ShapeT:
    """The shape of images in that data format."""
    return (count, channels, *extents) if data_format[1] == "C" else (count, *extents, channels)


def numbers(name: str, value: Any, axes: int = 2, least: int = 1) -> tuple[int, ...]:
    """A parameter of all spatial axes, as a number for each.

    Raises
    ------
    ShapeError
        It is neither a number that is large enough nor one of them for each axis.
    """
    found = (value,) * axes if isinstance(value, int) else value
    if isinstance(found, tuple) and len(found) == axes and all(isinstance(n, int) and n >= least for n in found):
        return found
    wanted = {1: "one", 2: "a pair", 3: "a triple"}[axes]
    raise ShapeError(f"{name} is a number of at least {least} or {wanted} of them, given {value!r}")


def amounts(padding: Any, axes: int = 2) -> tuple[tuple[int, int], ...] | None:
    """Padding before and after each axis; None means SAME.

    Raises
    ------
    ShapeError
        It has another form.
    """
    if padding == "SAME":
        return None
    if padding == "VALID":
        return ((0, 0),) * axes
    if isinstance(padding, tuple) and len(padding) == axes and all(_is_pair(p) for p in padding):
        return padding
    form = {1: "((left, right),)", 2: "((top, bottom), (left, right))", 3: "a pair (before, after) for each axis"}[axes]
    raise ShapeError(f"padding is 'VALID', 'SAME' or {form} with no negative number, given {padding!r}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, int) and n >= 0 for n in value)


def window_extents(extents: Extents, window: Extents, stride: Any, padding: Any, dilation: Any = 1) -> Extents:
    """How many windows there are along each spatial axis.

    Raises
    ------
    ShapeError
        No window fits, or a parameter has the wrong form.
    """
    axes = len(extents)
    if not all(known(n) and n > 0 for n in window):
        raise ShapeError(f"the extents of a window are positive numbers, given {window}")
    strides, dilations = numbers("stride", stride, axes), numbers("dilation", dilation, axes)
    around = amounts(padding, axes)
    if around is None:
        return tuple((n + s - 1) // s for n, s in zip(extents, strides, strict=True))
    return tuple(
        windows(n, k, s, before, after, d)  # type: ignore[arg-type]
        for n, k, s, (before, after), d in zip(extents, window, strides, around, dilations, strict=True)
    )
