"""Reference kernels of pooling, in any array namespace, one spatial axis after the other; and the windows' geometry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nnc_func.device.kernels.linalg import Windows, from_nhwc, nhwc, pair, windows_of, zeros

# --- along one axis ----------------------------------------------------------------------------------


def at(axis: int, where: slice) -> tuple[Any, ...]:
    """An index into images with channels last."""
    return (slice(None), where, ...) if axis == 1 else (slice(None), slice(None), where, ...)


def windows_in(
    shape: tuple[int, ...], window: Any, stride: Any, padding: Any, dilation: Any, data_format: str, **_: Any
) -> Windows:  # fmt: skip
    """The windows over images of that shape."""
    h, w = shape[1:3] if data_format == "NHWC" else shape[2:]
    return windows_of((h, w), pair(window), window if stride is None else stride, padding, dilation)


def resized(x: tuple[int, ...], rows: int, columns: int, data_format: str) -> tuple[int, ...]:
    """The shape of images with other spatial extents."""
    return (x[0], rows, columns, x[3]) if data_format == "NHWC" else (x[0], x[1], rows, columns)


def pooled(x: Any, *, data_format: str, **params: Any) -> tuple[int, ...]:
    """The shape of pooled images."""
    return resized(x.shape, *windows_in(x.shape, data_format=data_format, **params).outputs, data_format)


# --- kernels -----------------------------------------------------------------------------------------


def largest(xp: Any, x: Any, over: Windows, axis: int) -> Any:
    """The maximum of every window along one axis."""
    shape = (*x.shape[:axis], over.outputs[axis - 1], *x.shape[axis + 1 :])
    lowest = -math.inf if xp.isdtype(x.dtype, "real floating") else xp.iinfo(x.dtype).min
    found = zeros(xp, shape, x) + lowest
    for _, windows, elements in over.along(axis - 1):
        found[at(axis, windows)] = xp.maximum(found[at(axis, windows)], x[at(axis, elements)])
    return found


def maximum(xp: Any, x: Any, *, data_format: str, **params: Any) -> Any:
    """Of `max_pool2d`."""
    over = windows_in(x.shape, data_format=data_format, **params)
    return from_nhwc(xp, largest(xp, largest(xp, nhwc(xp, x, data_format), over, 1), over, 2), data_format)


def _choices(xp: Any, x: Any, best: Any, over: Windows, axis: int) -> Iterator[tuple[Any, Any, Any]]:
    """Index of windows, index of elements, and where those are the first largest or the first NaN: along one axis."""
    free = xp.astype(zeros(xp, best.shape, best), xp.bool) | True
    for _, windows, elements in over.along(axis - 1):
        here, there = at(axis, windows), at(axis, elements)
        chosen = free[here] & ((x[there] == best[here]) | (x[there] != x[there]))
        free[here] = free[here] & ~chosen
        yield here, there, chosen


def routing(back: bool) -> Any:
    """Gradient (`back`) or tangent of the maximum, one axis after the other."""

    def compute(xp: Any, x: Any, routed: Any, *, data_format: str, **params: Any) -> Any:
        over = windows_in(x.shape, data_format=data_format, **params)
        x, routed = nhwc(xp, x, data_format), nhwc(xp, routed, data_format)
        across = largest(xp, x, over, 2)
        steps = (across, largest(xp, across, over, 1), 1), (x, across, 2)
        for values, best, axis in steps if back else steps[::-1]:
            found = zeros(xp, (values if back else best).shape, routed)
            for here, there, chosen in _choices(xp, values, best, over, axis):
                source, target = (here, there) if back else (there, here)
                found[target] += xp.where(chosen, routed[source], zeros(xp, chosen.shape, routed))
            routed = found
        return from_nhwc(xp, routed, data_format)

    return compute


def counts(xp: Any, like: Any, over: Windows, with_padding: bool) -> Any:
    """How many elements each window has, those of padding too or not, to go with images whose channels are last."""
    if with_padding:
        return zeros(xp, (1, 1, 1, 1), like) + math.prod(over.size)
    found = []
    for axis in (1, 2):
        shape = (1, over.outputs[0], 1, 1) if axis == 1 else (1, 1, over.outputs[1], 1)
        along = zeros(xp, shape, like)
        for _, windows, _elements in over.along(axis - 1):
            along[at(axis, windows)] += 1
        found.append(along)
    return found[0] * found[1]


def _floating(xp: Any, x: Any) -> Any:
    return x if xp.isdtype(x.dtype, ("real floating", "complex floating")) else xp.astype(x, xp.float64)


def average(xp: Any, x: Any, *, count_padding: bool, data_format: str, **params: Any) -> Any:
    """Of `average_pool2d`."""
    over = windows_in(x.shape, data_format=data_format, **params)
    x = nhwc(xp, _floating(xp, x), data_format)
    total = zeros(xp, (x.shape[0], *over.outputs, x.shape[3]), x)
    for _i, _j, (rows, columns), (in_rows, in_columns) in over.offsets():
        total[:, rows, columns, :] += x[:, in_rows, in_columns, :]
    return from_nhwc(xp, total / counts(xp, total, over, count_padding), data_format)


def average_gradient(
    xp: Any, g: Any, *, input_shape: tuple[int, ...], count_padding: bool, data_format: str, **params: Any
) -> Any:
    """Of `average_pool2d_gradient`."""
    over = windows_in(input_shape, data_format=data_format, **params)
    g = nhwc(xp, _floating(xp, g), data_format)
    g = g / counts(xp, g, over, count_padding)
    out = zeros(xp, (g.shape[0], *over.inputs, g.shape[3]), g)
    for _i, _j, (rows, columns), (in_rows, in_columns) in over.offsets():
        out[:, in_rows, in_columns, :] += g[:, rows, columns, :]
    return from_nhwc(xp, out, data_format)
