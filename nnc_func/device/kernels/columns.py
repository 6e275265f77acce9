"""Columns of convolutions: windows laid out as matrices, a few images or a few rows of windows at a time.

Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing", 2006 (im2col).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from nnc_func.device.kernels.linalg import (
    Arrays,
    Pair,
    Scratch,
    Windows,
    blas_ready,
    last_channels,
    pair,
    spans,
    windows_of,
)
from nnc_func.device.shared.bounds import strided
from nnc_func.facets.views import Cost
from nnc_func.locks import cached_property

HOST_COLUMNS = 1 << 22  # bytes of columns at a time, of whole images: fewer products, and still in cache
DEVICE_COLUMNS = 1 << 28  # a GPU wants few large products
FEW_COLUMNS = 1 << 18
PARTIAL = 1 << 18  # elements of a product that is added to a sum, at a time
LEAST = 64  # rows of such a product, at least: of fewer it is slow
AGAIN = 8  # times the bytes of a kernel that each product costs: BLAS lays it out anew, and few rows are slow


@frozen
class Block:
    """Some images and some rows of their windows, and which rows of the images these windows see.

    Attributes
    ----------
    images, windows, elements
        Where it is: along the images, along rows of windows, and along rows of elements.
    is_first
        It has the first rows of its images.
    plan
        Of images of so many rows as it sees.
    """

    images: slice
    windows: slice
    elements: slice
    is_first: bool
    plan: Blocks


@frozen
class Blocks:
    """How a convolution goes over its images: `images` at a time, their windows laid out as columns of a matrix.

    With channels last, columns are stored either window by window (``by_window``: each window's elements side by side),
    or element by element (each element's windows side by side): whichever has the longer runs to copy. BLAS reads
    both. With channels first it is always element by element, image by image.

    Attributes
    ----------
    over
        The windows over one image.
    images, height
        How many images at a time, and how many rows of their windows.
    channels, out, groups, data_format
        Of images, of results, and of the operator.
    """

    over: Windows
    images: int
    height: int
    channels: int
    out: int
    groups: int
    data_format: str
    by_window: bool

    @property
    def pixels(self) -> int:
        """Windows in one image."""
        return math.prod(self.over.outputs)

    @property
    def depth(self) -> int:
        """Elements of a window that one group sees."""
        return math.prod(self.over.size) * (self.channels // self.groups)

    @property
    def direct(self) -> bool:
        """Windows of one element, each pixel once: images are their own columns, and nothing is copied."""
        return self.over.size == self.over.stride == (1, 1) and not self.pads

    def blocks(self, images: int) -> Iterator[Block]:
        """The blocks of so many images, from the first to the last."""
        if self.height >= self.over.outputs[0]:
            for span in spans(images, self.images):
                yield Block(span, slice(None), slice(None), True, self)
        else:
            for image in range(images):
                for each in self.bands:
                    yield evolve(each, images=slice(image, image + 1))

    def cost(self, images: int, itemsize: int, sums: int = 0) -> Cost:
        """What the products of so many images cost, with so many sums of a block's columns besides."""
        (kh, kw), pixels = self.over.size, images * self.pixels
        kernel = self.groups * self.depth * (self.out // self.groups) * itemsize
        high = self.over.outputs[0]
        blocks = -(-images // self.images) if self.height >= high else images * -(-high // self.height)
        columns = 0 if self.direct else 2 * pixels * self.groups * self.depth * itemsize
        flops = 2 * pixels * self.depth * self.out
        return Cost(flops, columns + AGAIN * blocks * kernel, threaded=True, launches=blocks * (4 + sums * kh * kw))

    @cached_property
    def bands(self) -> tuple[Block, ...]:
        """The blocks of one image."""
        over, found = self.over, []
        (high, wide), (step, _), inputs = over.outputs, over.stride, over.inputs[0]
        reach = over.dilation[0] * (over.size[0] - 1) + 1
        for top in range(0, high, self.height):
            count = min(self.height, high - top)
            first = top * step - over.before[0]
            last = first + (count - 1) * step + reach
            low, high_end = max(0, first), min(inputs, last)
            if low >= high_end:  # they see nothing but padding
                low = high_end = 0
                first, last = first - last, 0
            band = evolve(
                over, inputs=(high_end - low, over.inputs[1]), outputs=(count, wide),
                before=(low - first, over.before[1]), after=(last - high_end, over.after[1]),
            )  # fmt: skip
            plan = evolve(self, over=band, images=1, height=count)
            found.append(Block(slice(0, 1), slice(top, top + count), slice(low, high_end), top == 0, plan))
        return tuple(found)

    @property
    def padded(self) -> Pair:
        """Extents of an image with its padding, or as far as windows reach."""
        h, w = (n + a + b for n, a, b in zip(self.over.inputs, self.over.before, self.over.after, strict=True))
        return h, w

    @property
    def pads(self) -> bool:
        """There is padding."""
        return self.padded != self.over.inputs

    def padded_shape(self, images: int) -> tuple[int, ...]:
        """Of padded images, in their own data format."""
        if self.data_format == "NHWC":
            return (images, *self.padded, self.channels)
        return (images, self.channels, *self.padded)

    @property
    def padded_size(self) -> int:
        """Elements of the part of a padded image that a block sees, the largest one."""
        over = self.over
        if self.height >= over.outputs[0]:
            return math.prod(self.padded) * self.channels
        reach = (self.height - 1) * over.stride[0] + over.dilation[0] * (over.size[0] - 1) + 1
        return reach * self.padded[1] * self.channels

    def clear_around(self, padded: Any) -> None:
        """Zeros where padded images have none of their elements; channels last."""
        for each in self.around(padded):
            each.fill(0)

    def around(self, padded: Any) -> tuple[Any, ...]:
        """What padded images have besides their elements; channels last."""
        (top, left), (h, w) = self.over.before, self.over.inputs
        inner = padded[:, top : top + h]
        return padded[:, :top], padded[:, top + h :], inner[:, :, :left], inner[:, :, left + w :]

    def inside(self, padded: Any) -> Any:
        """The images within padded ones; channels last in both."""
        (top, left), (h, w) = self.over.before, self.over.inputs
        return padded[:, top : top + h, left : left + w]

    def columns(self, flat: Any, images: int) -> tuple[Any, Any]:
        """Columns in flat memory, twice: as (images, rows, columns, window rows, window columns, groups, channels),
        and as matrices (…, pixels, elements), one a group, with channels first also one an image."""
        (kh, kw), (oh, ow), g, c = self.over.size, self.over.outputs, self.groups, self.channels // self.groups
        flat = flat[: images * self.pixels * self.groups * self.depth]
        if self.data_format == "NCHW":
            whole = flat.reshape(images, g, kh, kw, c, oh, ow).transpose(0, 5, 6, 2, 3, 1, 4)
            return whole, flat.reshape(images, g, self.depth, self.pixels).swapaxes(2, 3)
        if self.by_window:
            whole = flat.reshape(g, images, oh, ow, kh, kw, c).transpose(1, 2, 3, 4, 5, 0, 6)
            return whole, flat.reshape(g, images * self.pixels, self.depth)
        whole = flat.reshape(g, kh, kw, c, images, oh, ow).transpose(4, 5, 6, 1, 2, 0, 3)
        return whole, flat.reshape(g, self.depth, images * self.pixels).swapaxes(1, 2)

    def seen(self, xp: Any, x: Any) -> Any:
        """The windows of images (padded already, channels last) as a view in the order of `columns`."""
        return strided(xp, x, *self.window_view(x))

    def window_view(self, x: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and the strides of `seen`."""
        n, (s_image, s_row, s_column, s_channel) = x.shape[0], x.strides
        c = self.channels // self.groups
        (sh, sw), (dh, dw) = self.over.stride, self.over.dilation
        strides = s_image, s_row * sh, s_column * sw, s_row * dh, s_column * dw, s_channel * c, s_channel
        return (n, *self.over.outputs, *self.over.size, self.groups, c), strides

    def kernel(self, w: Any) -> Any:
        """A kernel as matrices (groups, elements, channels of a group): a view of a contiguous one."""
        return w.reshape(self.depth, self.groups, self.out // self.groups).transpose(1, 0, 2)

    def pixels_of(self, y: Any, channels: int) -> Any:
        """Results or cotangents as matrices that go with those of `columns`: views of contiguous ones."""
        n, g = y.shape[0], self.groups
        if self.data_format == "NCHW":
            return y.reshape(n, g, channels // g, self.pixels).swapaxes(2, 3)
        return y.reshape(n * self.pixels, g, channels // g).transpose(1, 0, 2)


def part(array: Any, images: slice, rows: slice, data_format: str) -> Any:
    """Some rows of some images."""
    return array[images, rows] if data_format == "NHWC" else array[images, :, rows]


@lru_cache(maxsize=4096)
def planned(
    limit: int, itemsize: int, x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any,
    groups: int, data_format: str,
) -> Blocks:  # fmt: skip
    """The plan for images and a kernel of these shapes, with columns of so many bytes; of a part of an image, of twice
    as many, or as many as the kernel has; or of one row of its windows."""
    n, h, width, c = x if data_format == "NHWC" else (x[0], x[2], x[3], x[1])
    over = windows_of((h, width), w[:2], stride, padding, dilation)
    image = max(1, math.prod(over.outputs) * math.prod(w[:2]) * c * itemsize)
    run = c // groups * (w[1] if groups == 1 and pair(dilation)[1] == 1 else 1)
    by_window, high = run >= min(over.outputs[1], 48), over.outputs[0]
    whole = Blocks(over, max(1, min(n, limit // image)), high, c, w[3], groups, data_format, by_window)
    most = max(2 * limit, math.prod(w) * itemsize)  # a large kernel is read again for each block
    if whole.direct or image <= most:
        return whole
    return evolve(whole, height=-(-high // -(-image // most)))  # all of one size


def swapped(matrices: Any) -> Any:
    """The matrices transposed."""
    return matrices.swapaxes(-1, -2)


def fill_columns(xp: Any, plan: Blocks, block: Any, scratch: Arrays) -> Any:
    """The windows of a block of images as matrices."""
    if plan.direct:
        return blas_ready(xp, plan.pixels_of(block, plan.channels))
    columns, *padded = scratch
    count, block = block.shape[0], last_channels(block, plan.data_format)
    whole, matrices = plan.columns(columns, count)
    if plan.pads:
        shape = plan.padded_shape(count)
        store = last_channels(padded[0][: math.prod(shape)].reshape(shape), plan.data_format)
        plan.clear_around(store)
        xp.copyto(plan.inside(store), block)
        block = store
    xp.copyto(whole, plan.seen(xp, block))
    return matrices


def times(xp: Any, plan: Blocks, left: Any, right: Any, out: Any) -> None:
    """A product into results as `Blocks.pixels_of` gives them."""
    if plan.data_format == "NCHW":  # their memory has channels as rows
        xp.matmul(swapped(right), swapped(left), out=swapped(out))
    else:
        xp.matmul(left, right, out=out)


def columns_scratch(plan: Blocks, dtype: Any) -> Scratch:
    """Columns of a block, and padded images, where there is padding."""
    if plan.direct:
        return ()
    columns = ((plan.images * plan.height * plan.over.outputs[1] * plan.groups * plan.depth,), dtype)
    return (columns, ((plan.images * plan.padded_size,), dtype)) if plan.pads else (columns,)


def spread(xp: Any, plan: Blocks, cotangents: Any, w: Any, flat: Any, images: int) -> Any:
    """What each window's cotangent sends to each of its elements, in the order of `Blocks.columns`."""
    channels = plan.channels // plan.groups
    if plan.data_format == "NHWC" and channels >= 8:  # offset by offset: long runs of channels to add up
        (kh, kw), (oh, ow), g = plan.over.size, plan.over.outputs, plan.groups
        flat = flat[: images * plan.pixels * g * plan.depth]
        kernels = w.reshape(kh, kw, channels, g, plan.out // g).transpose(0, 1, 3, 4, 2)
        xp.matmul(
            cotangents, blas_ready(xp, kernels),
            out=flat.reshape(kh, kw, images * plan.pixels, g, channels).transpose(0, 1, 3, 2, 4),
        )  # fmt: skip
        return flat.reshape(kh, kw, images, oh, ow, g, channels).transpose(2, 3, 4, 0, 1, 5, 6)
    plan = evolve(plan, by_window=False)
    whole, matrices = plan.columns(flat, images)
    xp.matmul(blas_ready(xp, plan.kernel(w)), swapped(cotangents), out=swapped(matrices))
    return whole
