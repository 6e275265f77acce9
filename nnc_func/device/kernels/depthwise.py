"""Kernels of convolutions in which each channel is a group: nothing to multiply matrices of.

One product and one sum of all windows for each offset of the window, a few images at a time, so that they stay in
cache. For kernels with as many channels as the images. With channels first, columns are copied in long runs, which is
faster but for the gradient with respect to the images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import Arrays, Scratch, Windows, allocating, last_channels, spans, windows_of
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import Cost

LIMIT = 1 << 18  # bytes of products at a time
Offset = tuple[int, int, Any, Any]


def _windows(shape: tuple[int, ...], size: tuple[int, ...], params: Any) -> Windows:
    h, w = shape[1:3] if params["data_format"] == "NHWC" else shape[2:]
    return windows_of((h, w), size[:2], params["stride"], params["padding"], params["dilation"])


def _offsets(over: Windows) -> Iterator[Offset]:
    """Row and column in the window, which windows have an element there, and which elements these are."""
    for i, j, (rows, columns), (in_rows, in_columns) in over.offsets():
        yield i, j, (slice(None), rows, columns), (slice(None), in_rows, in_columns)


def _images(count: int, over: Windows, channels: int, itemsize: int) -> int:
    """How many images go at a time."""
    return max(1, min(count, LIMIT // max(1, math.prod(over.outputs) * channels * itemsize)))


def _product(x: tuple[int, ...], w: tuple[int, ...], dtype: Any, params: Any) -> Scratch:
    """The products of a block of images, in their data format."""
    over, channels = _windows(x, w, params), w[3]
    n = _images(x[0], over, channels, dtype.itemsize)
    last = params["data_format"] == "NHWC"
    return (((n, *over.outputs, channels) if last else (n, channels, *over.outputs), dtype),)


def _dtype(avals: Arrays) -> Any:
    return np.result_type(avals[0].dtype, avals[1].dtype)


def _cost(args: Arrays, results: Arrays, *, input_shape: Any = None, kernel_shape: Any = None, **params: Any) -> Cost:
    """A product and a sum of all windows at each offset."""
    x = args[0].shape if input_shape is None else input_shape
    w = args[1].shape if kernel_shape is None else kernel_shape
    over, itemsize = _windows(x, w, params), _dtype(args).itemsize
    elements = x[0] * math.prod(over.outputs) * w[3] * w[0] * w[1]
    blocks = -(-x[0] // _images(x[0], over, w[3], itemsize)) if x[0] else 0
    return Cost(2 * elements, 0, launches=2 * blocks * w[0] * w[1])


# --- the three convolutions --------------------------------------------------------------------------


def _conv_scratch(avals: Arrays, **params: Any) -> Scratch:
    return _product(avals[0].shape, avals[1].shape, _dtype(avals), params)


def _conv_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
    x, out, products = (last_channels(a, params["data_format"]) for a in (arrays[0], outs[0], scratch[0]))
    w, over = arrays[1], _windows(arrays[0].shape, arrays[1].shape, params)
    for span in spans(x.shape[0], products.shape[0]):
        total, seen = out[span], x[span]
        total.fill(0)
        for i, j, windows, elements in _offsets(over):
            part = total[windows]
            product = np.multiply(seen[elements], w[i, j, 0], out=products[: part.shape[0]][windows])
            np.add(part, product, out=part)


def _input_gradient_scratch(avals: Arrays, *, input_shape: tuple[int, ...], **params: Any) -> Scratch:
    return _product(input_shape, avals[1].shape, _dtype(avals), params)


def _input_gradient_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, input_shape: tuple[int, ...], **params: Any
) -> None:
    g, out, products = (last_channels(a, params["data_format"]) for a in (arrays[0], outs[0], scratch[0]))
    w, over = arrays[1], _windows(input_shape, arrays[1].shape, params)
    for span in spans(g.shape[0], products.shape[0]):
        total, given = out[span], g[span]
        total.fill(0)
        for i, j, windows, elements in _offsets(over):
            part = total[elements]
            product = np.multiply(given[windows], w[i, j, 0], out=products[: part.shape[0]][windows])
            np.add(part, product, out=part)


def _kernel_gradient_scratch(avals: Arrays, *, kernel_shape: tuple[int, ...], **params: Any) -> Scratch:
    return _product(avals[0].shape, kernel_shape, _dtype(avals), params)


def _kernel_gradient_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, kernel_shape: tuple[int, ...], **params: Any
) -> None:
    x, g, products = (last_channels(a, params["data_format"]) for a in (*arrays, scratch[0]))
    (out,), over = outs, _windows(arrays[0].shape, kernel_shape, params)
    out.fill(0)
    for span in spans(x.shape[0], products.shape[0]):
        seen, given = x[span], g[span]
        for i, j, windows, elements in _offsets(over):
            product = np.multiply(seen[elements], given[windows], out=products[: seen.shape[0]][windows])
            out[i, j, 0] += product.sum(axis=(0, 1, 2), dtype=out.dtype)


# --- kernels -----------------------------------------------------------------------------------------


def _kernel(into: Any, scratch: Any, result: Callable[..., Any], accepts: Callable[..., bool]) -> Kernel:
    return Kernel(
        "channel by channel", compute=allocating(into, result, scratch), into=into, scratch=scratch, accepts=accepts,
        cost=_cost,        by_shape=True, layouts=("row-major",), namespaces=frozenset({"numpy"}),
    )  # fmt: skip


def _of_kernel(avals: Arrays, *, groups: int, **_: Any) -> bool:
    return bool(1 < groups == avals[1].shape[-1] and avals[1].shape[-2] == 1)


def _of_last_channels(avals: Arrays, *, data_format: str, **params: Any) -> bool:
    return data_format == "NHWC" and _of_kernel(avals, **params)


def _of_kernel_shape(avals: Arrays, *, groups: int, kernel_shape: tuple[int, ...], data_format: str, **_: Any) -> bool:
    return data_format == "NHWC" and 1 < groups == kernel_shape[-1] and kernel_shape[-2] == 1


def conv2d(result: Callable[..., Any]) -> Kernel:
    """Of `conv2d`; ``result(*arrays, **params)`` gives the result's shape and dtype, here and below."""
    return _kernel(_conv_into, _conv_scratch, result, _of_last_channels)


def conv2d_input_gradient(result: Callable[..., Any]) -> Kernel:
    """Of `conv2d_input_gradient`."""
    return _kernel(_input_gradient_into, _input_gradient_scratch, result, _of_kernel)


def conv2d_kernel_gradient(result: Callable[..., Any]) -> Kernel:
    """Of `conv2d_kernel_gradient`."""
    return _kernel(_kernel_gradient_into, _kernel_gradient_scratch, result, _of_kernel_shape)
