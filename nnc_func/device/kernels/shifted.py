"""Kernels of convolution without columns: a matrix product for each offset of the window, of images that lie flat.

Rows of padded images follow each other in memory, so a step down or right in all windows at once is a step along one
matrix: the windows that wrap from one row to the next are computed too, and left out at the end. Scratch is a few
images, whatever the window's size; one product an offset reads the images where they lie. For strides of 1.

Vasudevan, Anderson, Gregg, "Parallel multi channel convolution using general matrix multiplication", 2017 (kn2row).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device.kernels.columns import AGAIN
from nnc_func.device.kernels.linalg import (
    Arrays,
    Pair,
    Scratch,
    Windows,
    allocating,
    blas_ready,
    last_channels,
    pair,
    spans,
    windows_of,
)
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import Cost

LIMIT = 1 << 21  # bytes of images, sums and products at a time: they stay in cache


@frozen
class Flat:
    """How a convolution goes over its images: `images` at a time, padded, as matrices of pixels by channels."""

    over: Windows
    images: int
    channels: int
    out: int
    groups: int
    data_format: str

    @property
    def padded(self) -> Pair:
        """Extents of an image with its padding."""
        h, w = (n + a + b for n, a, b in zip(self.over.inputs, self.over.before, self.over.after, strict=True))
        return h, w

    def stored(self, channels: int) -> tuple[int, ...]:
        """The shape of a block of padded images, or of what lies beside them."""
        return (
            (self.images, *self.padded, channels)
            if self.data_format == "NHWC"
            else (self.images, channels, *self.padded)
        )

    def offsets(self) -> Iterator[tuple[int, int, int]]:
        """Row and column in the window, and how far along a matrix that is."""
        (kh, kw), (down, right) = self.over.size, self.over.dilation
        for i in range(kh):
            for j in range(kw):
                yield i, j, i * down * self.padded[1] + j * right

    def reached(self, images: int) -> int:
        """How many pixels of a matrix have the whole window ahead of them, those that wrap included."""
        (kh, kw), (down, right) = self.over.size, self.over.dilation
        count = math.prod(self.padded) * (images if self.data_format == "NHWC" else 1)
        return count - (kh - 1) * down * self.padded[1] - (kw - 1) * right

    def matrices(self, flat: Any) -> Any:
        """Stored images as matrices (…, groups, pixels, channels of a group); with channels first one an image."""
        n, g, pixels = flat.shape[0], self.groups, math.prod(self.padded)
        if self.data_format == "NCHW":
            return flat.reshape(n, g, flat.shape[1] // g, pixels).swapaxes(2, 3)
        return flat.reshape(n * pixels, g, flat.shape[3] // g).transpose(1, 0, 2)

    def kernel(self, w: Any, i: int, j: int) -> Any:
        """A kernel at one offset as matrices (groups, channels of a group, results of a group)."""
        return w[i, j].reshape(w.shape[2], self.groups, self.out // self.groups).transpose(1, 0, 2)

    def inside(self, stored: Any) -> Any:
        """The images within stored ones; channels last."""
        (top, left), (h, w) = self.over.before, self.over.inputs
        return last_channels(stored, self.data_format)[:, top : top + h, left : left + w]

    def firsts(self, stored: Any) -> Any:
        """Where the windows start, one for each pixel of a result; channels last."""
        h, w = self.over.outputs
        return last_channels(stored, self.data_format)[:, :h, :w]

    def times(self, left: Any, right: Any, out: Any) -> None:
        """A product into matrices as `matrices` gives them: those of channels first have channels as rows."""
        if self.data_format == "NCHW":
            np.matmul(right.swapaxes(-1, -2), left.swapaxes(-1, -2), out=out.swapaxes(-1, -2))
        else:
            np.matmul(left, right, out=out)


@lru_cache(maxsize=4096)
def _flat(
    itemsize: int, x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int,
    data_format: str,
) -> Flat:  # fmt: skip
    n, h, width, c = x if data_format == "NHWC" else (x[0], x[2], x[3], x[1])
    over = windows_of((h, width), w[:2], stride, padding, dilation)
    found = Flat(over, 1, c, w[3], groups, data_format)
    image = max(1, math.prod(found.padded) * (c + 2 * w[3]) * itemsize)
    return Flat(over, max(1, min(n, LIMIT // image)), c, w[3], groups, data_format)


def _plan(x: tuple[int, ...], w: tuple[int, ...], dtype: Any, params: Any) -> Flat:
    return _flat(dtype.itemsize, x, w, **params)


def _dtype(avals: Arrays) -> Any:
    return np.result_type(avals[0].dtype, avals[1].dtype)


def _fitting(avals: Arrays, *, stride: Any, **_: Any) -> bool:
    return pair(stride) == (1, 1) and all(a.dtype.kind == "f" for a in avals)


def _finite(x: Any) -> bool:
    """Zeros may stand between its rows: they times an infinity would be no zeros."""
    return not x.size or bool(np.isfinite(x.max()) and np.isfinite(x.min()))


def _cost(args: Arrays, results: Arrays, *, input_shape: Any = None, kernel_shape: Any = None, **params: Any) -> Cost:
    """Products at each offset, of what wraps too; each is added to sums of as many elements, or to its part of them."""
    x = args[0].shape if input_shape is None else input_shape
    w = args[1].shape if kernel_shape is None else kernel_shape
    itemsize = _dtype(args).itemsize
    flat = _plan(x, w, _dtype(args), params)
    offsets, blocks = w[0] * w[1], -(-x[0] // flat.images)
    pixels = x[0] * math.prod(flat.padded)
    summed = (
        blocks * w[2] * flat.out
        if kernel_shape is not None
        else pixels * (w[2] * flat.groups if input_shape is not None else flat.out)
    )
    moved = 3 * offsets * summed + pixels * (flat.channels + flat.out) + blocks * AGAIN * offsets * w[2] * flat.out
    return Cost(
        2 * offsets * pixels * w[2] * flat.out, moved * itemsize, threaded=True, launches=blocks * (4 + 3 * offsets)
    )


# --- the three convolutions --------------------------------------------------------------------------


def _conv_scratch(avals: Arrays, **params: Any) -> Scratch:
    x, w = avals
    flat, dtype = _plan(x.shape, w.shape, _dtype(avals), params), _dtype(avals)
    return tuple((flat.stored(channels), dtype) for channels in (flat.channels, flat.out, flat.out))


def _conv_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **params: Any) -> None:
    (x, w), (out,), (images, sums, _) = arrays, outs, scratch
    flat = _plan(x.shape, w.shape, out.dtype, params)
    images.fill(0)
    for span in spans(x.shape[0], flat.images):
        n = span.stop - span.start
        np.copyto(flat.inside(images[:n]), last_channels(x[span], flat.data_format))
        seen, total, product = (flat.matrices(a[:n]) for a in scratch)
        count = flat.reached(n)
        for i, j, shift in flat.offsets():
            target = product if i or j else total
            right = blas_ready(np, flat.kernel(w, i, j))
            flat.times(seen[..., shift : shift + count, :], right, target[..., :count, :])
            if i or j:
                np.add(total[..., :count, :], product[..., :count, :], out=total[..., :count, :])
        np.copyto(last_channels(out[span], flat.data_format), flat.firsts(sums[:n]))


def _input_gradient_scratch(avals: Arrays, *, input_shape: tuple[int, ...], **params: Any) -> Scratch:
    w, dtype = avals[1], _dtype(avals)
    flat = _plan(input_shape, w.shape, dtype, params)
    return tuple((flat.stored(channels), dtype) for channels in (flat.out, flat.channels, flat.channels))


def _input_gradient_into(fallback: Any) -> Any:
    def into(
        xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, input_shape: tuple[int, ...], **params: Any
    ) -> None:
        (g, w), (out,), (cotangents, sums, _) = arrays, outs, scratch
        if not _finite(w):
            out[...] = fallback(xp, g, w, input_shape=input_shape, **params)
            return
        flat = _plan(input_shape, w.shape, out.dtype, params)
        cotangents.fill(0)
        for span in spans(g.shape[0], flat.images):
            n = span.stop - span.start
            np.copyto(flat.firsts(cotangents[:n]), last_channels(g[span], flat.data_format))
            sums.fill(0)
            given, total, product = (flat.matrices(a[:n]) for a in scratch)
            count = flat.reached(n)
            for i, j, shift in flat.offsets():
                right = blas_ready(np, flat.kernel(w, i, j)).swapaxes(-1, -2)
                flat.times(given[..., :count, :], right, product[..., :count, :])
                part = total[..., shift : shift + count, :]
                np.add(part, product[..., :count, :], out=part)
            np.copyto(last_channels(out[span], flat.data_format), flat.inside(sums[:n]))

    return into


def _kernel_gradient_scratch(avals: Arrays, *, kernel_shape: tuple[int, ...], **params: Any) -> Scratch:
    x, dtype = avals[0], _dtype(avals)
    flat = _plan(x.shape, kernel_shape, dtype, params)
    product = (flat.groups, kernel_shape[2], flat.out // flat.groups)
    return (flat.stored(flat.channels), dtype), (flat.stored(flat.out), dtype), (product, dtype)


def _kernel_gradient_into(fallback: Any) -> Any:
    def into(
        xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, kernel_shape: tuple[int, ...], **params: Any
    ) -> None:
        (x, g), (out,), (images, cotangents, product) = arrays, outs, scratch
        if not _finite(x):
            out[...] = fallback(xp, x, g, kernel_shape=kernel_shape, **params)
            return
        flat = _plan(x.shape, kernel_shape, out.dtype, params)
        for each in (images, cotangents, out):
            each.fill(0)
        for span in spans(x.shape[0], flat.images):
            n = span.stop - span.start
            np.copyto(flat.inside(images[:n]), last_channels(x[span], flat.data_format))
            np.copyto(flat.firsts(cotangents[:n]), last_channels(g[span], flat.data_format))
            seen, given = flat.matrices(images[:n]), flat.matrices(cotangents[:n])
            pairs = list(zip(seen, given, strict=True)) if flat.data_format == "NCHW" else [(seen, given)]
            count = flat.reached(n)
            for i, j, shift in flat.offsets():
                total = flat.kernel(out, i, j)
                for left, right in pairs:
                    left = left[..., shift : shift + count, :].swapaxes(-1, -2)
                    np.matmul(left, right[..., :count, :], out=product)
                    np.add(total, product, out=total)

    return into


# --- kernels -----------------------------------------------------------------------------------------


def _shifted(into: Any, scratch: Any, result: Callable[..., Any]) -> Kernel:
    return Kernel(
        "shifted products", compute=allocating(into, result, scratch), into=into, scratch=scratch, accepts=_fitting,
        cost=_cost,        layouts=("row-major",), namespaces=frozenset({"numpy"}),
    )  # fmt: skip


def conv2d(result: Callable[..., Any]) -> Kernel:
    """Of `conv2d`; ``result(*arrays, **params)`` gives the result's shape and dtype, here and below."""
    return _shifted(_conv_into, _conv_scratch, result)


def conv2d_input_gradient(result: Callable[..., Any], fallback: Callable[..., Any]) -> Kernel:
    """Of `conv2d_input_gradient`; what has an infinity is computed by the fallback, here and below."""
    return _shifted(_input_gradient_into(fallback), _input_gradient_scratch, result)


def conv2d_kernel_gradient(result: Callable[..., Any], fallback: Callable[..., Any]) -> Kernel:
    """Of `conv2d_kernel_gradient`."""
    return _shifted(_kernel_gradient_into(fallback), _kernel_gradient_scratch, result)
