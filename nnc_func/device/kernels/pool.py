"""Kernels of pooling on NumPy: in steps over shifted views, a block of images at a time, in threads that share blocks.

A step is an offset in the window, with the windows that have an element there, and these elements. Either the offsets
along one axis are gone through and then those along the other, for a window is a product of two intervals, and so
maxima, sums and the routing by the first maximum all separate; or all offsets at once, which needs less scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from nnc_func.device.kernels import blocks, pool_reference
from nnc_func.device.kernels.linalg import Arrays, Scratch, Windows, allocating, last_channels, spans
from nnc_func.device.kernels.onednn_pool import LIBRARY_MAXIMUM, LIBRARY_MEAN
from nnc_func.device.kernels.pool_reference import at, counts, pooled, resized, windows_in
from nnc_func.device.kernels.pool_rows import AVERAGE_ALONG_ROWS
from nnc_func.device.kernels.reordered import with_reordered
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.views import Cost

BLOCK = 1 << 21  # bytes of images at a time, of all threads: shorter calls leave threads waiting for each other
ALONE = 4  # one thread takes this part of it: so many bytes stay in its cache
Step = tuple[Any, Any]  # index of windows, index of elements


def _block(x: tuple[int, ...], itemsize: int) -> int:
    """How many images all threads together pool at a time."""
    return max(1, min(x[0], BLOCK // max(1, math.prod(x[1:]) * itemsize)))


def _along(over: Windows, axis: int) -> list[Step]:
    """Steps along one axis of images with channels last."""
    return [(at(axis, windows), at(axis, elements)) for _, windows, elements in over.along(axis - 1)]


def _all(over: Windows) -> list[Step]:
    """Steps through the whole window, row by row."""
    return [
        ((slice(None), rows, columns), (slice(None), in_rows, in_columns))
        for _, _, (rows, columns), (in_rows, in_columns) in over.offsets()
    ]


def _by_blocks(images: int, block: int, amount: int, given: Sequence[Any], pool: Callable[..., None]) -> None:
    """Call `pool` with a few images after the other, and with what its thread has of scratch memory.

    `amount` is of elements times operations on each: so many threads share the images as that is worth. The scratch
    memory is for a block, as runs along the first axis, of which each thread has a part.
    """
    threads = blocks.threads_worth(amount, block)
    step = block // threads if threads > 1 else -(-block // ALONE)
    per = [len(a) // threads for a in given]

    def work(span: slice, thread: int) -> None:
        pool(span, tuple([a[thread * n : (thread + 1) * n] for a, n in zip(given, per, strict=True)]))

    blocks.in_turn([*spans(images, step)], threads, work)


def _tiled(over: Windows) -> bool:
    return over.tiles(0) and over.tiles(1)


def _unpadded(over: Windows) -> bool:
    return over.whole(0) and over.whole(1)


# --- maxima and means --------------------------------------------------------------------------------


def _reduce(function: Any, x: Any, out: Any, steps: list[Step], whole: bool, start: Any) -> None:
    """A ufunc over the elements of every window, into `out`; whole windows have an element at each step."""
    kind = out.dtype
    if whole and len(steps) > 1:
        (_, first), (_, second), *steps = steps
        function(x[first], x[second], out=out, dtype=kind)
    else:
        out.fill(start)
    for windows, elements in steps:
        target = out[windows]
        function(target, x[elements], out=target, dtype=kind)


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _average_dtype(x: Any) -> Any:
    return x.dtype if x.dtype.kind in "fc" else np.dtype("float64")


def _pool_scratch(avals: Arrays, *, data_format: str, **params: Any) -> Scratch:
    """What a block of images is once its rows are pooled."""
    x = avals[0]
    over = windows_in(x.shape, data_format=data_format, **params)
    block = _block(x.shape, x.dtype.itemsize), *x.shape[1:]
    return ((resized(block, over.outputs[0], over.inputs[1], data_format), x.dtype),)


def _average_scratch(avals: Arrays, **params: Any) -> Scratch:
    ((shape, _),) = _pool_scratch(avals, **params)
    return ((shape, _average_dtype(avals[0])),)


def _pool_into(
    average: bool, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, data_format: str,
    count_padding: bool = False, **params: Any,
) -> None:  # fmt: skip
    """With scratch axis by axis, else offset by offset."""
    over = windows_in(arrays[0].shape, data_format=data_format, **params)
    x, out, *down = (last_channels(a, data_format) for a in (*arrays, *outs, *scratch))
    function, start = (np.add, 0) if average else (np.maximum, _lowest(out.dtype))

    def pool(span: slice, down: Arrays) -> None:
        result = out[span]
        if down:
            part = down[0][: span.stop - span.start]
            _reduce(function, x[span], part, _along(over, 1), over.whole(0), start)  # rows first: their runs are long
            _reduce(function, part, result, _along(over, 2), over.whole(1), start)
        else:
            _reduce(function, x[span], result, _all(over), _unpadded(over), start)
        if average:
            np.divide(result, _divisor(over, out.dtype, count_padding), out=result)

    _by_blocks(len(x), _block(x.shape, x.dtype.itemsize), x.size * sum(over.size), down, pool)


@lru_cache(maxsize=256)
def _divisor(over: Windows, dtype: Any, count_padding: bool) -> Any:
    """The number of elements of every window; one number where all windows count as whole."""
    return math.prod(over.size) if count_padding or _unpadded(over) else counts(np, np.empty(0, dtype), over, False)


# --- routing by the first maximum --------------------------------------------------------------------


def _integers(dtype: Any) -> Any:
    """The integers as wide as a number: cotangents are chosen by their bits, so that infinities stay where they are."""
    return np.dtype(f"i{dtype.itemsize}")


def _routable(avals: Arrays, **_: Any) -> bool:
    x, routed = avals
    return x.dtype.kind in "fiu" and routed.dtype.itemsize in (1, 2, 4, 8)


def _routing_scratch(separate: bool, avals: Arrays, *, data_format: str, **params: Any) -> Scratch:
    """The maxima of whole windows, and for each step what lost, masks, leftovers; with separate axes also the maxima
    across, and values on their way."""
    x, routed = avals
    over, bits = windows_in(x.shape, data_format=data_format, **params), _integers(routed.dtype)
    block = _block(x.shape, x.dtype.itemsize), *x.shape[1:]
    across = resized(block, over.inputs[0], over.outputs[1], data_format)
    whole = resized(block, *over.outputs, data_format)
    most = (max(math.prod(across) if separate else 0, math.prod(whole)),)
    work = (whole, x.dtype), (most, np.dtype("bool")), (most, bits), (most, bits)
    return (*work, (across, x.dtype), (across, routed.dtype)) if separate else work


def _chosen(x: Any, best: Any, lost: Any, masks: Any, nans: bool) -> None:
    """Masks, all bits set where x is the best, or a NaN, which only a window has whose best is one."""
    np.not_equal(x, best, out=lost)
    if nans:
        np.copyto(lost, False, where=np.isnan(x))
    small = lost.view(np.int8)
    np.subtract(small, 1, out=small)
    np.copyto(masks, small)  # widens with the sign; faster than a ufunc that casts


def _cut(flat: Any, like: Any, data_format: str) -> Any:
    """As much of flat scratch as images with channels last need, in their data format."""
    n, h, w, c = like.shape
    found = flat[: n * h * w * c]
    return last_channels(found.reshape((n, h, w, c) if data_format == "NHWC" else (n, c, h, w)), data_format)


def _route(x: Any, best: Any, g: Any, out: Any, steps: list[Step], tiled: bool, nans: bool, work: Arrays) -> None:
    """What windows send to their first largest element."""
    lost, masks, left = work
    rest = g.view(left.dtype)
    if not tiled:
        out.fill(0)
        np.copyto(left, rest)
        rest = left
    for number, (here, there) in enumerate(steps, start=1):
        target = out[there]
        if tiled and number == len(steps):  # nobody else took it
            np.copyto(target.view(left.dtype), rest)
            break
        mask = masks[here]
        _chosen(x[there], best[here], lost[here], mask, nans)
        np.bitwise_and(rest[here], mask, out=mask)
        np.bitwise_xor(rest[here], mask, out=left[here])
        rest = left
        if tiled:
            np.copyto(target.view(left.dtype), mask)
        else:
            np.add(target, mask.view(out.dtype), out=target)


def _pick(x: Any, best: Any, t: Any, out: Any, steps: list[Step], tiled: bool, nans: bool, work: Arrays) -> None:
    """What stands at the first largest element of windows."""
    lost, masks, left = work
    left.fill(-1)
    out.fill(0)
    found = out.view(left.dtype)
    for here, there in steps:
        mask, rest = masks[here], left[here]
        _chosen(x[there], best[here], lost[here], mask, nans)
        np.bitwise_and(mask, rest, out=mask)
        np.bitwise_xor(rest, mask, out=rest)
        np.bitwise_and(mask, t[there].view(left.dtype), out=mask)
        np.bitwise_or(found[here], mask, out=found[here])


def _has_nan(best: Any) -> bool:
    return best.dtype.kind == "f" and bool(best.size) and bool(np.isnan(best.max()))


def _routing_into(step: Any) -> Any:
    """The planned kernel that goes over blocks of images and routes by `step`: axis by axis if it has the scratch."""

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, data_format: str, **params: Any) -> None:
        over, lowest = windows_in(arrays[0].shape, data_format=data_format, **params), _lowest(arrays[0].dtype)
        x, routed, out = (last_channels(a, data_format) for a in (*arrays, *outs))

        def route(span: slice, scratch: Arrays) -> None:
            work = scratch[1:4]
            best, *rest = (last_channels(a[: span.stop - span.start], data_format) for a in (scratch[0], *scratch[4:]))
            by_window = tuple(_cut(s, best, data_format) for s in work)
            if not rest:
                _reduce(np.maximum, x[span], best, _all(over), _unpadded(over), lowest)
                step(x[span], best, routed[span], out[span], _all(over), _tiled(over), _has_nan(best), by_window)
                return
            across, moving = rest
            _reduce(np.maximum, x[span], across, _along(over, 2), over.whole(1), lowest)
            _reduce(np.maximum, across, best, _along(over, 1), over.whole(0), lowest)
            nans = _has_nan(best)
            by_row = across, best, _along(over, 1), over.tiles(0), nans, by_window
            by_column_work = tuple(_cut(s, across, data_format) for s in work)
            by_column = x[span], across, _along(over, 2), over.tiles(1), nans, by_column_work
            order = (by_row, by_column) if step is _route else (by_column, by_row)
            source = routed[span]
            for target, (values, largest, *how) in zip((moving, out[span]), order, strict=True):
                step(values, largest, source, target, *how)
                source = target

        _by_blocks(len(x), len(scratch[0]), 6 * x.size * sum(over.size), scratch, route)

    return into


# --- the adjoint of averages -------------------------------------------------------------------------


def _spread(g: Any, out: Any, steps: list[Step], tiled: bool) -> None:
    """Add to each element what its windows give."""
    if not tiled:
        out.fill(0)
    for windows, elements in steps:
        target, given = out[elements], g[windows]
        if tiled:
            np.copyto(target, given)
        else:
            np.add(target, given, out=target)


def _average_gradient_scratch(
    separate: bool, avals: Arrays, *, input_shape: tuple[int, ...], data_format: str, **params: Any
) -> Scratch:
    """Each window's share for an element, and with separate axes what is spread along one of them."""
    dtype = _average_dtype(avals[0])
    over = windows_in(input_shape, data_format=data_format, **params)
    block = _block(input_shape, dtype.itemsize), *input_shape[1:]
    shares = resized(block, *over.outputs, data_format), dtype
    across = resized(block, over.outputs[0], over.inputs[1], data_format), dtype
    return (shares, across) if separate else (shares,)


def _average_gradient_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, input_shape: tuple[int, ...], data_format: str,
    count_padding: bool, **params: Any,
) -> None:  # fmt: skip
    over = windows_in(input_shape, data_format=data_format, **params)
    g, out, *given = (last_channels(a, data_format) for a in (*arrays, *outs, *scratch))
    divisor = _divisor(over, out.dtype, count_padding)

    def spread(span: slice, scratch: Arrays) -> None:
        share, *across = (a[: span.stop - span.start] for a in scratch)
        np.divide(g[span], divisor, out=share)
        if across:
            _spread(share, across[0], _along(over, 2), over.tiles(1))
            _spread(across[0], out[span], _along(over, 1), over.tiles(0))
        else:
            _spread(share, out[span], _all(over), _tiled(over))

    _by_blocks(len(g), len(given[0]), out.size * sum(over.size), given, spread)


# --- what they cost ----------------------------------------------------------------------------------

STRIDED = 1.4  # time of an element that is read with a stride along each axis / with one along one of them


def _cost(
    separate: bool, operations: int, args: Arrays, results: Arrays, *, data_format: str, input_shape: Any = None,
    count_padding: bool = False, **params: Any,
) -> Cost:  # fmt: skip
    """So many operations for each element of each step: of each offset in the window, or along one axis, then one."""
    shape = args[0].shape if input_shape is None else input_shape
    over, itemsize = windows_in(shape, data_format=data_format, **params), args[0].dtype.itemsize
    (kh, kw), (oh, ow), images = over.size, over.outputs, shape[0]
    channels = shape[-1] if data_format == "NHWC" else shape[1]
    elements = kh * oh * over.inputs[1] + kw * oh * ow if separate else STRIDED * kh * kw * oh * ow
    seen, blocks = round(images * channels * elements), -(-images // max(1, _block(shape, itemsize)))
    steps = kh + kw if separate else kh * kw
    return Cost(operations * seen, seen * itemsize, launches=max(1, blocks * steps * operations))


# --- kernels -----------------------------------------------------------------------------------------


def _kernels(
    into: Any, by_axis: Any, by_offset: Any, result: Any, fallback: Any, operands: int = 1, operations: int = 1,
    **facts: Any,
) -> tuple[Kernel, ...]:  # fmt: skip
    """Axis by axis and offset by offset on NumPy, told apart by their scratch; by array arithmetic anywhere."""
    fast = [
        Kernel(
            name, compute=allocating(into, result, scratch), into=into, scratch=scratch,
            cost=partial(_cost, name == "axis by axis", operations), layouts=("row-major",),
            namespaces=frozenset({"numpy"}), strided=True, **facts,
        )
        for name, scratch in (("axis by axis", by_axis), ("offset by offset", by_offset))
    ]  # fmt: skip
    return with_reordered((*fast, reference(fallback)), (True,) * (operands + 1))


MAX_POOL2D = (
    LIBRARY_MAXIMUM,
    *_kernels(
        partial(_pool_into, False), _pool_scratch, None, lambda x, **p: (pooled(x, **p), x.dtype),
        pool_reference.maximum,
    ),
)  # fmt: skip
MAX_POOL2D_GRADIENT = _kernels(
    _routing_into(_route), partial(_routing_scratch, True), partial(_routing_scratch, False),
    lambda x, g, **_: (x.shape, g.dtype), pool_reference.routing(back=True), operands=2, operations=6,
    accepts=_routable,
)  # fmt: skip
MAX_POOL2D_TANGENT = _kernels(
    _routing_into(_pick), partial(_routing_scratch, True), partial(_routing_scratch, False),
    lambda x, t, **p: (pooled(x, **p), t.dtype), pool_reference.routing(back=False), operands=2, operations=6,
    accepts=_routable,
)  # fmt: skip

AVERAGE_POOL2D = (
    AVERAGE_ALONG_ROWS,
    LIBRARY_MEAN,
    *_kernels(
        partial(_pool_into, True), _average_scratch, None, lambda x, **p: (pooled(x, **p), _average_dtype(x)),
        pool_reference.average,
    ),
)  # fmt: skip
AVERAGE_POOL2D_GRADIENT = _kernels(
    _average_gradient_into, partial(_average_gradient_scratch, True), partial(_average_gradient_scratch, False),
    lambda g, *, input_shape, **_: (input_shape, _average_dtype(g)), pool_reference.average_gradient,
)  # fmt: skip
