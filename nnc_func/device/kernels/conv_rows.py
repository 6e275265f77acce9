"""Kernels of convolution by rows of windows, channels last: what fits in cache is gathered, multiplied, and finished.

A block is some rows of the windows of one image, or some whole images. Its windows become the columns of a matrix, one
product makes the block of the result, and elementwise steps that follow are done right there, before it leaves the
caches. Blocks are dealt out to as many threads as BLAS may use.

Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing", 2006 (im2col);
Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures", 2018 (fused steps).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device.kernels.blocks import in_turn
from nnc_func.device.kernels.columns import AGAIN
from nnc_func.device.kernels.linalg import Arrays, Scratch, Windows, allocating, last_channels, windows_of
from nnc_func.device.shared import workers
from nnc_func.device.shared.bounds import strided
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC
from nnc_func.facets.views import Cost
from nnc_func.locks import cached_property

LIMIT = 5 << 19  # bytes of columns and results at a time, of all threads: a few of them fit in the last cache
FEW = 1 << 19  # the same of a kernel that does with less
LONG = 16  # elements that are copied at once, at least: of shorter runs few are copied a second
THREADS = 8  # there is scratch for so many at most
WORTH = 1 << 24  # FLOPs of a block that another thread may take: it is some 100 µs
Finish = Callable[[Any, Any, list[Any]], None]  # (block of the result, where it is, registers)


@frozen
class Rows:
    """How a convolution goes over its windows: rows of windows, counted through all images, so many at a time.

    Attributes
    ----------
    over
        The windows over one image.
    images, channels, out, groups
        Their numbers.
    itemsize
        Of an element.
    held
        Rows for which there is scratch, for all threads together.
    """

    over: Windows
    images: int
    channels: int
    out: int
    groups: int
    itemsize: int
    held: int

    @cached_property
    def depth(self) -> int:
        """Elements of a window that one group sees."""
        return math.prod(self.over.size) * (self.channels // self.groups)

    @cached_property
    def direct(self) -> bool:
        """Windows of one element, each pixel once: images are their own columns."""
        return self.over.size == self.over.stride == (1, 1) and not self.pads and not self.by_channel

    @cached_property
    def by_channel(self) -> bool:
        """Each channel is a group of its own, with one result: there are no matrices to multiply."""
        return 1 < self.groups == self.channels == self.out

    @cached_property
    def pads(self) -> bool:
        """There is padding that a window sees."""
        return not (self.over.whole(0) and self.over.whole(1))

    @cached_property
    def columns(self) -> int:
        """Elements of the columns of a row of windows; channel by channel, of its products at one offset."""
        return (
            0 if self.direct else self.results if self.by_channel else self.over.outputs[1] * self.groups * self.depth
        )

    @cached_property
    def results(self) -> int:
        """Elements of a row of the result."""
        return self.over.outputs[1] * self.out

    def reach(self, rows: int) -> int:
        """Rows of an image that so many rows of windows see."""
        return (rows - 1) * self.over.stride[0] + self.over.dilation[0] * (self.over.size[0] - 1) + 1

    @cached_property
    def width(self) -> int:
        """Columns of an image that a row of windows sees."""
        over = self.over
        return (over.outputs[1] - 1) * over.stride[1] + over.dilation[1] * (over.size[1] - 1) + 1

    @cached_property
    def padding(self) -> int:
        """Elements of the padded images that blocks see, in all threads: each block sees more rows than it has."""
        step, high = self.over.stride[0], max(1, self.over.outputs[0])
        more = max(0, self.reach(1) - step) * (min(THREADS, self.held) + self.kept // high)
        return (self.kept * step + more) * self.width * self.channels

    @cached_property
    def kept(self) -> int:
        """Rows that scratch is made for: two threads may halve an odd number."""
        return self.held + (self.held > 1)

    @cached_property
    def most_threads(self) -> int:
        """How many threads may take part: each has work that is worth it."""
        work = 2 * self.images * self.over.outputs[0] * self.results * self.depth
        return max(1, min(THREADS, self.held, work // WORTH))

    def height(self, threads: int) -> int:
        """How many rows each of so many threads takes at a time; as many of an image, or whole images."""
        total, high = self.images * self.over.outputs[0], self.over.outputs[0]
        most = self.kept // threads if threads > 1 else self.held
        rounds = -(-total // (most * threads))
        rows = min(most, -(-total // (rounds * threads)))
        return rows if rows < high else rows // high * high

    def count(self, rows: int) -> int:
        """How many blocks of so many rows there are."""
        high = self.over.outputs[0]
        if rows >= high:
            return -(-self.images // (rows // high))
        return self.images * -(-high // rows)

    def block(self, rows: int, index: int) -> tuple[slice, slice]:
        """Images and rows of windows of one of the blocks of so many rows."""
        high = self.over.outputs[0]
        if rows >= high:
            first, step = index * (rows // high), rows // high
            return slice(first, min(first + step, self.images)), slice(0, high)
        image, band = divmod(index, -(-high // rows))
        return slice(image, image + 1), slice(band * rows, min(band * rows + rows, high))


@lru_cache(maxsize=4096)
def rows_of(
    limit: int, itemsize: int, x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any,
    groups: int, data_format: str,
) -> Rows:  # fmt: skip
    """The plan for images and a kernel of these shapes."""
    n, h, width, c = x if data_format == NHWC else (x[0], x[2], x[3], x[1])
    over = windows_of((h, width), w[:2], stride, padding, dilation)
    one = Rows(over, n, c, w[3], groups, itemsize, 1)
    row = max(1, (one.columns + one.results) * itemsize)
    total = max(1, n * over.outputs[0])
    limit = max(limit, min(2 * limit, math.prod(w) * itemsize))  # a large kernel is read again for each block
    return Rows(over, n, c, w[3], groups, itemsize, max(1, min(total, limit // row)))


def _dtype(avals: Arrays) -> Any:
    return np.result_type(avals[0].dtype, avals[1].dtype)


def planned(limit: int, avals: Arrays, **params: Any) -> Rows:
    """The plan for arguments of these avals, with so many bytes of columns and results."""
    return rows_of(limit, _dtype(avals).itemsize, avals[0].shape, avals[1].shape, **params)


def scratch(limit: int, avals: Arrays, registers: tuple[Any, ...] = (), **params: Any) -> Scratch:
    """Columns, padded images, and registers as large as a block of the result; for all threads together."""
    rows, dtype = planned(limit, avals, **params), _dtype(avals)
    found: list[tuple[tuple[int, ...], Any]] = []
    if not rows.direct:
        found.append(((rows.kept * rows.columns,), dtype))
    if rows.pads:
        found.append(((rows.padding,), dtype))
    found += [((rows.kept * rows.results,), register) for register in registers]
    return tuple(found)


def cost(limit: int, args: Arrays, results: Arrays, steps: int = 0, **params: Any) -> Cost:
    """Of columns and products, or of a product and a sum at each offset, and of steps that finish each block."""
    rows, itemsize = planned(limit, args[:2], **params), _dtype(args).itemsize
    over = rows.over
    blocks = max(1, -(-rows.images * over.outputs[0] // rows.height(1)))
    pixels = rows.images * math.prod(over.outputs)
    flops = 2 * pixels * rows.depth * rows.out
    if rows.by_channel:
        return Cost(flops, 0, launches=blocks * (4 + steps + 2 * math.prod(over.size)))
    columns = 0 if rows.direct else 2 * pixels * rows.groups * rows.depth * itemsize
    kernel = AGAIN * blocks * rows.depth * rows.out * itemsize
    return Cost(flops, columns + kernel, threaded=True, launches=blocks * (6 + steps))


# --- a block ------------------------------------------------------------------------------------------


def _seen(rows: Rows, x: Any, store: Any, images: slice, part: slice) -> Any:
    """The elements that a block's windows see, padded: a view of the images, or a copy in `store`."""
    over, count = rows.over, images.stop - images.start
    top = part.start * over.stride[0] - over.before[0]
    if not rows.pads:
        return x[images, top:]
    reach, left = rows.reach(part.stop - part.start), over.before[1]
    seen = store[: count * reach * rows.width * rows.channels].reshape(count, reach, rows.width, rows.channels)
    low, high = max(top, 0), min(top + reach, over.inputs[0])
    right = max(left, min(left + over.inputs[1], rows.width))
    seen[:, : low - top].fill(0)
    seen[:, max(high, low) - top :].fill(0)
    inside = seen[:, low - top : max(high, low) - top]
    inside[:, :, :left].fill(0)
    inside[:, :, right:].fill(0)
    np.copyto(inside[:, :, left:right], x[images, low : max(high, low), : right - left])
    return seen


def _gathered(rows: Rows, seen: Any, columns: Any, count: int, height: int) -> Any:
    """The windows of a block as matrices (groups, windows, elements), in `columns`."""
    over, g, c = rows.over, rows.groups, rows.channels // rows.groups
    (kh, kw), (sh, sw), (dh, dw), wide = over.size, over.stride, over.dilation, over.outputs[1]
    s_image, s_row, s_column, s_channel = seen.strides
    found = columns[: count * height * wide * g * rows.depth].reshape(g, count, height, wide, kh, kw, c)
    shifts = s_channel * c, s_image, s_row * sh, s_column * sw, s_row * dh, s_column * dw, s_channel
    np.copyto(found, strided(np, seen, found.shape, shifts))
    return found.reshape(g, count * height * wide, rows.depth)


def _matrices(rows: Rows, x: Any, images: slice, part: slice, work: list[Any]) -> Any:
    count, height = images.stop - images.start, part.stop - part.start
    if rows.direct:
        pixels = count * height * rows.over.outputs[1]
        return x[images, part].reshape(pixels, rows.groups, -1).transpose(1, 0, 2)
    columns, *store = work
    return _gathered(rows, _seen(rows, x, store[0] if store else None, images, part), columns, count, height)


def _by_channel(rows: Rows, seen: Any, w: Any, products: Any, block: Any) -> None:
    """The sum over offsets of elements times their weights."""
    (kh, kw), (sh, sw), (dh, dw) = rows.over.size, rows.over.stride, rows.over.dilation
    high, wide = (block.shape[1] - 1) * sh + 1, (block.shape[2] - 1) * sw + 1
    products = products[: block.size].reshape(block.shape)
    for i in range(kh):
        for j in range(kw):
            elements = seen[:, i * dh : i * dh + high : sh, j * dw : j * dw + wide : sw]
            np.multiply(elements, w[i, j, 0], products if i or j else block)
            if i or j:
                np.add(block, products, block)


def _product(rows: Rows, left: Any, kernel: Any, block: Any) -> None:
    """The products of a block; beside it, and then copied, where its pixels do not lie one after another."""
    beside = block.strides[-1] != block.itemsize  # BLAS wants a pixel's channels without gaps
    pixels = np.empty(block.shape, block.dtype) if beside else block
    found = pixels.reshape(-1, rows.out)
    if rows.groups == 1:
        np.matmul(left[0], kernel[0], found)
    else:
        np.matmul(left, kernel, out=found.reshape(-1, rows.groups, rows.out // rows.groups).transpose(1, 0, 2))
    if not np.may_share_memory(found, block):
        np.copyto(block, found.reshape(block.shape))


# --- the convolution ----------------------------------------------------------------------------------


def write(rows: Rows, x: Any, w: Any, out: Any, given: Arrays, finish: Finish | None = None) -> None:
    """The convolution of images into `out`, both with channels last; `finish` is called of each block.

    `given` is as `scratch` says. Results may lie in any strides; pixels one after another are written where they are.
    """
    if not out.size:
        return
    kernel = w.reshape(rows.depth, rows.groups, rows.out // rows.groups).transpose(1, 0, 2)
    threads = min(rows.most_threads, workers.spare()) if rows.most_threads > 1 else 1
    height = rows.height(threads)
    first = (not rows.direct) + rows.pads  # scratch of columns and padding, then registers
    per = [a.shape[0] // threads for a in given]

    def work(index: int, thread: int) -> None:
        mine = [a[thread * n : (thread + 1) * n] for a, n in zip(given, per, strict=True)]
        images, part = rows.block(height, index)
        block = out[images, part]
        if rows.by_channel:
            _by_channel(rows, _seen(rows, x, mine[1] if rows.pads else None, images, part), w, mine[0], block)
        else:
            _product(rows, _matrices(rows, x, images, part, mine[:first]), kernel, block)
        if finish is not None:
            finish(block, (images, part), [r[: block.size].reshape(block.shape) for r in mine[first:]])

    in_turn(range(rows.count(height)), threads, work)


def _into(limit: int, xp: Any, arrays: Arrays, outs: Arrays, given: Arrays, *, data_format: str, **params: Any) -> None:
    (x, w), (out,) = arrays, outs
    rows = planned(limit, (x, w), data_format=data_format, **params)
    write(rows, last_channels(x, data_format), w, last_channels(out, data_format), given)


def fits(avals: Arrays, *, groups: int, data_format: str, **params: Any) -> bool:
    """Whether images are floating, and channels lie in runs that are worth copying, or each is a group."""
    x, w = avals[:2]
    if x.dtype != w.dtype or x.dtype.kind != "f" or x.dtype.itemsize < 4 or len(x.shape) != 4:
        return False
    if not all(isinstance(n, int) for n in (*x.shape, *w.shape)):
        return False
    if 1 < groups == w.shape[-1]:
        return bool(w.shape[-2] == 1)
    return bool(w.shape[-2] * (w.shape[1] if groups == 1 else 1) >= LONG)


def in_rows(name: str, limit: int, result: Callable[..., Any]) -> Kernel:
    """Of `conv2d`, with so many bytes of columns and results at a time."""
    into, wants = partial(_into, limit), partial(scratch, limit)
    return Kernel(
        name, compute=allocating(into, result, wants), into=into, scratch=wants, cost=partial(cost, limit),
        accepts=_last, by_shape=True, layouts=("row-major",), namespaces=frozenset({"numpy"}), strided=True,
    )  # fmt: skip


def conv2d(result: Callable[..., Any]) -> tuple[Kernel, ...]:
    """Of `conv2d`; ``result(*arrays, **params)`` gives the result's shape and dtype."""
    return in_rows("rows of windows", LIMIT, result), in_rows("few rows of windows", FEW, result)


def _last(avals: Arrays, *, data_format: str, **params: Any) -> bool:
    return data_format == NHWC and fits(avals, data_format=data_format, **params)
