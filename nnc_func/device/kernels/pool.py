"""Kernels of pooling, one spatial axis after the other.

A window is a product of two intervals, so maxima, sums and the routing by the first maximum all separate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import (
    Arrays,
    Scratch,
    Windows,
    allocating,
    from_nhwc,
    last_channels,
    nhwc,
    pair,
    spans,
    windows_of,
    zeros,
)
from nnc_func.facets.kernels import Kernel, reference

# --- along one axis ----------------------------------------------------------------------------------


def _at(axis: int, where: slice) -> tuple[Any, ...]:
    """An index into images with channels last."""
    return (slice(None), where, ...) if axis == 1 else (slice(None), slice(None), where, ...)


def _windows(shape: tuple[int, ...], window: Any, stride: Any, padding: Any, data_format: str) -> Windows:
    """The windows over images of that shape."""
    h, w = shape[1:3] if data_format == "NHWC" else shape[2:]
    return windows_of((h, w), pair(window), window if stride is None else stride, padding)


def _like(x: tuple[int, ...], rows: int, columns: int, data_format: str) -> tuple[int, ...]:
    """The shape of images with other spatial extents."""
    return (x[0], rows, columns, x[3]) if data_format == "NHWC" else (x[0], x[1], rows, columns)


def _pooled(x: Any, *, window: Any, stride: Any, padding: Any, data_format: str) -> tuple[int, ...]:
    return _like(x.shape, *_windows(x.shape, window, stride, padding, data_format).outputs, data_format)


# --- reference ---------------------------------------------------------------------------------------


def _largest(xp: Any, x: Any, over: Windows, axis: int) -> Any:
    """The maximum of every window along one axis."""
    shape = (*x.shape[:axis], over.outputs[axis - 1], *x.shape[axis + 1 :])
    lowest = -math.inf if xp.isdtype(x.dtype, "real floating") else xp.iinfo(x.dtype).min
    found = zeros(xp, shape, x) + lowest
    for _, windows, elements in over.along(axis - 1):
        found[_at(axis, windows)] = xp.maximum(found[_at(axis, windows)], x[_at(axis, elements)])
    return found


def _max_reference(xp: Any, x: Any, *, window: Any, stride: Any, padding: Any, data_format: str) -> Any:
    over = _windows(x.shape, window, stride, padding, data_format)
    return from_nhwc(xp, _largest(xp, _largest(xp, nhwc(xp, x, data_format), over, 1), over, 2), data_format)


def _choices(xp: Any, x: Any, best: Any, over: Windows, axis: int) -> Iterator[tuple[Any, Any, Any]]:
    """Index of windows, index of elements, and where those are the first largest: along one axis."""
    free = xp.astype(zeros(xp, best.shape, best), xp.bool) | True
    for _, windows, elements in over.along(axis - 1):
        here, there = _at(axis, windows), _at(axis, elements)
        chosen = free[here] & ~(x[there] < best[here])
        free[here] = free[here] & ~chosen
        yield here, there, chosen


def _routing_reference(back: bool) -> Any:
    """Gradient (`back`) or tangent of the maximum, one axis after the other."""

    def compute(xp: Any, x: Any, routed: Any, *, window: Any, stride: Any, padding: Any, data_format: str) -> Any:
        over = _windows(x.shape, window, stride, padding, data_format)
        x, routed = nhwc(xp, x, data_format), nhwc(xp, routed, data_format)
        across = _largest(xp, x, over, 2)
        steps = (across, _largest(xp, across, over, 1), 1), (x, across, 2)
        for values, best, axis in steps if back else steps[::-1]:
            found = zeros(xp, (values if back else best).shape, routed)
            for here, there, chosen in _choices(xp, values, best, over, axis):
                source, target = (here, there) if back else (there, here)
                found[target] += xp.where(chosen, routed[source], zeros(xp, chosen.shape, routed))
            routed = found
        return from_nhwc(xp, routed, data_format)

    return compute


def _counts(xp: Any, like: Any, over: Windows) -> Any:
    """How many elements of the images each window has, to go with images whose channels are last."""
    found = []
    for axis in (1, 2):
        shape = (1, over.outputs[0], 1, 1) if axis == 1 else (1, 1, over.outputs[1], 1)
        counts = zeros(xp, shape, like)
        for _, windows, _elements in over.along(axis - 1):
            counts[_at(axis, windows)] += 1
        found.append(counts)
    return found[0] * found[1]


def _floating(xp: Any, x: Any) -> Any:
    return x if xp.isdtype(x.dtype, ("real floating", "complex floating")) else xp.astype(x, xp.float64)


def _average_reference(xp: Any, x: Any, *, window: Any, stride: Any, padding: Any, data_format: str) -> Any:
    over = _windows(x.shape, window, stride, padding, data_format)
    x = nhwc(xp, _floating(xp, x), data_format)
    total = zeros(xp, (x.shape[0], *over.outputs, x.shape[3]), x)
    for _i, _j, (rows, columns), (in_rows, in_columns) in over.offsets():
        total[:, rows, columns, :] += x[:, in_rows, in_columns, :]
    return from_nhwc(xp, total / _counts(xp, total, over), data_format)


def _average_gradient_reference(
    xp: Any, g: Any, *, input_shape: tuple[int, ...], window: Any, stride: Any, padding: Any, data_format: str
) -> Any:
    over = _windows(input_shape, window, stride, padding, data_format)
    g = nhwc(xp, _floating(xp, g), data_format)
    g = g / _counts(xp, g, over)
    out = zeros(xp, (g.shape[0], *over.inputs, g.shape[3]), g)
    for _i, _j, (rows, columns), (in_rows, in_columns) in over.offsets():
        out[:, in_rows, in_columns, :] += g[:, rows, columns, :]
    return from_nhwc(xp, out, data_format)


# --- NumPy: blocks of images that stay in cache ------------------------------------------------------

BLOCK = 1 << 19  # bytes of images at a time


def _block(x: tuple[int, ...], itemsize: int) -> int:
    """How many images are pooled at a time."""
    return max(1, min(x[0], BLOCK // max(1, math.prod(x[1:]) * itemsize)))


def _reduce(function: Any, x: Any, out: Any, over: Windows, axis: int, start: Any) -> None:
    """A ufunc over the elements of every window along one axis, into `out`."""
    parts, kind = over.along(axis - 1), out.dtype
    if over.whole(axis - 1) and len(parts) > 1:
        (_, _, first), (_, _, second), *parts = parts
        function(x[_at(axis, first)], x[_at(axis, second)], out=out, dtype=kind)
    else:
        out.fill(start)
    for _, windows, elements in parts:
        target = out[_at(axis, windows)]
        function(target, x[_at(axis, elements)], out=target, dtype=kind)


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _average_dtype(x: Any) -> Any:
    return x.dtype if x.dtype.kind in "fc" else np.dtype("float64")


def _pool_scratch(avals: Arrays, *, data_format: str, **params: Any) -> Scratch:
    """What a block of images is once its rows are pooled."""
    x = avals[0]
    over = _windows(x.shape, data_format=data_format, **params)
    block = _block(x.shape, x.dtype.itemsize), *x.shape[1:]
    return ((_like(block, over.outputs[0], over.inputs[1], data_format), x.dtype),)


def _average_scratch(avals: Arrays, **params: Any) -> Scratch:
    ((shape, _),) = _pool_scratch(avals, **params)
    return ((shape, _average_dtype(avals[0])),)


def _pool_into(
    average: bool, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, data_format: str, **params: Any
) -> None:
    over = _windows(arrays[0].shape, data_format=data_format, **params)
    x, out, down = (last_channels(a, data_format) for a in (*arrays, *outs, *scratch))
    function, start = (np.add, 0) if average else (np.maximum, _lowest(out.dtype))
    for span in spans(x.shape[0], down.shape[0]):
        part, result = down[: span.stop - span.start], out[span]
        _reduce(function, x[span], part, over, 1, start)  # rows first: their runs are long
        _reduce(function, part, result, over, 2, start)
        if average:
            np.divide(result, _divisor(over, out.dtype), out=result)


@lru_cache(maxsize=256)
def _divisor(over: Windows, dtype: Any) -> Any:
    """The number of elements of every window; one number where all windows are whole."""
    return math.prod(over.size) if over.whole(0) and over.whole(1) else _counts(np, np.empty(0, dtype), over)


# --- NumPy: routing by the first maximum -------------------------------------------------------------


def _integers(dtype: Any) -> Any:
    """The integers as wide as a number: cotangents are chosen by their bits, so that infinities stay where they are."""
    return np.dtype(f"i{dtype.itemsize}")


def _routable(avals: Arrays, **_: Any) -> bool:
    x, routed = avals
    return x.dtype.kind in "fiu" and routed.dtype.itemsize in (1, 2, 4, 8)


def _routing_scratch(avals: Arrays, *, data_format: str, **params: Any) -> Scratch:
    """The maxima across and of whole windows, values on their way, and for each step what lost, masks, leftovers."""
    x, routed = avals
    over, bits = _windows(x.shape, data_format=data_format, **params), _integers(routed.dtype)
    block = _block(x.shape, x.dtype.itemsize), *x.shape[1:]
    across = _like(block, over.inputs[0], over.outputs[1], data_format)
    whole = _like(block, *over.outputs, data_format)
    most = (max(math.prod(across), math.prod(whole)),)
    values = (across, x.dtype), (whole, x.dtype), (across, routed.dtype)
    return *values, (most, np.dtype("bool")), (most, bits), (most, bits)


def _chosen(x: Any, best: Any, lost: Any, masks: Any) -> None:
    """Masks, all bits set where x is not below the best: so it is at a NaN, too."""
    np.less(x, best, out=lost)
    small = lost.view(np.int8)
    np.subtract(small, 1, out=small)
    np.copyto(masks, small)  # widens with the sign; faster than a ufunc that casts


def _cut(flat: Any, like: Any, data_format: str) -> Any:
    """As much of flat scratch as images with channels last need, in their data format."""
    n, h, w, c = like.shape
    found = flat[: n * h * w * c]
    return last_channels(found.reshape((n, h, w, c) if data_format == "NHWC" else (n, c, h, w)), data_format)


def _route(x: Any, best: Any, g: Any, out: Any, over: Windows, axis: int, work: Arrays) -> None:
    """What windows along one axis send to their first largest element."""
    lost, masks, left = work
    tiles, parts, rest = over.tiles(axis - 1), over.along(axis - 1), g.view(left.dtype)
    if not tiles:
        out.fill(0)
        np.copyto(left, rest)
        rest = left
    for k, windows, elements in parts:
        here, target = _at(axis, windows), out[_at(axis, elements)]
        if tiles and k == parts[-1][0]:  # nobody else took it
            np.copyto(target.view(left.dtype), rest)
            break
        mask = masks[here]
        _chosen(x[_at(axis, elements)], best[here], lost[here], mask)
        np.bitwise_and(rest[here], mask, out=mask)
        np.bitwise_xor(rest[here], mask, out=left[here])
        rest = left
        if tiles:
            np.copyto(target.view(left.dtype), mask)
        else:
            np.add(target, mask.view(out.dtype), out=target)


def _pick(x: Any, best: Any, t: Any, out: Any, over: Windows, axis: int, work: Arrays) -> None:
    """What stands at the first largest element of windows along one axis."""
    lost, masks, left = work
    left.fill(-1)
    out.fill(0)
    found = out.view(left.dtype)
    for _, windows, elements in over.along(axis - 1):
        here, there = _at(axis, windows), _at(axis, elements)
        mask, rest = masks[here], left[here]
        _chosen(x[there], best[here], lost[here], mask)
        np.bitwise_and(mask, rest, out=mask)
        np.bitwise_xor(rest, mask, out=rest)
        np.bitwise_and(mask, t[there].view(left.dtype), out=mask)
        np.bitwise_or(found[here], mask, out=found[here])


def _routing_into(step: Any) -> Any:
    """The planned kernel that goes over blocks of images and routes both axes by `step`."""

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, data_format: str, **params: Any) -> None:
        over, lowest = _windows(arrays[0].shape, data_format=data_format, **params), _lowest(arrays[0].dtype)
        x, routed, out = (last_channels(a, data_format) for a in (*arrays, *outs))
        across, whole, between = (last_channels(a, data_format) for a in scratch[:3])
        for span in spans(x.shape[0], across.shape[0]):
            n = span.stop - span.start
            row_best, best = across[:n], whole[:n]
            _reduce(np.maximum, x[span], row_best, over, 2, lowest)
            _reduce(np.maximum, row_best, best, over, 1, lowest)
            by_row = row_best, best, over, 1, tuple(_cut(s, best, data_format) for s in scratch[3:])
            by_column = x[span], row_best, over, 2, tuple(_cut(s, row_best, data_format) for s in scratch[3:])
            order = (by_row, by_column) if step is _route else (by_column, by_row)
            source = routed[span]
            for target, (values, largest, *rest) in zip((between[:n], out[span]), order, strict=True):
                step(values, largest, source, target, *rest)
                source = target

    return into


# --- NumPy: the adjoint of averages -------------------------------------------------------------------


def _spread(g: Any, out: Any, over: Windows, axis: int) -> None:
    """Add to each element what the windows along one axis give."""
    tiles = over.tiles(axis - 1)
    if not tiles:
        out.fill(0)
    for _, windows, elements in over.along(axis - 1):
        target, given = out[_at(axis, elements)], g[_at(axis, windows)]
        if tiles:
            np.copyto(target, given)
        else:
            np.add(target, given, out=target)


def _average_gradient_scratch(
    avals: Arrays, *, input_shape: tuple[int, ...], data_format: str, **params: Any
) -> Scratch:
    dtype = _average_dtype(avals[0])
    over = _windows(input_shape, data_format=data_format, **params)
    block = _block(input_shape, dtype.itemsize), *input_shape[1:]
    return (_like(block, *over.outputs, data_format), dtype), (
        _like(block, over.outputs[0], over.inputs[1], data_format),
        dtype,
    )


def _average_gradient_into(
    xp: Any,
    arrays: Arrays,
    outs: Arrays,
    scratch: Arrays,
    *,
    input_shape: tuple[int, ...],
    data_format: str,
    **params: Any,
) -> None:
    over = _windows(input_shape, data_format=data_format, **params)
    g, out, shares, across = (last_channels(a, data_format) for a in (*arrays, *outs, *scratch))
    divisor = _divisor(over, out.dtype)
    for span in spans(g.shape[0], shares.shape[0]):
        n = span.stop - span.start
        np.divide(g[span], divisor, out=shares[:n])
        _spread(shares[:n], across[:n], over, 2)
        _spread(across[:n], out[span], over, 1)


# --- kernels -----------------------------------------------------------------------------------------


def _kernels(into: Any, scratch: Any, result: Any, fallback: Any, **facts: Any) -> tuple[Kernel, ...]:
    """Axis by axis on NumPy, by array arithmetic anywhere."""
    fast = Kernel(
        "axis by axis", compute=allocating(into, result, scratch), into=into, scratch=scratch,
        namespaces=frozenset({"numpy"}), **facts,
    )  # fmt: skip
    return fast, reference(fallback)


MAX_POOL2D = _kernels(
    partial(_pool_into, False), _pool_scratch, lambda x, **p: (_pooled(x, **p), x.dtype), _max_reference
)
MAX_POOL2D_GRADIENT = _kernels(
    _routing_into(_route), _routing_scratch, lambda x, g, **_: (x.shape, g.dtype), _routing_reference(back=True),
    accepts=_routable,
)  # fmt: skip
MAX_POOL2D_TANGENT = _kernels(
    _routing_into(_pick), _routing_scratch, lambda x, t, **p: (_pooled(x, **p), t.dtype),
    _routing_reference(back=False), accepts=_routable,
)  # fmt: skip
AVERAGE_POOL2D = _kernels(
    partial(_pool_into, True), _average_scratch, lambda x, **p: (_pooled(x, **p), _average_dtype(x)),
    _average_reference,
)  # fmt: skip
AVERAGE_POOL2D_GRADIENT = _kernels(
    _average_gradient_into, _average_gradient_scratch,
    lambda g, *, input_shape, **_: (input_shape, _average_dtype(g)), _average_gradient_reference,
)  # fmt: skip
