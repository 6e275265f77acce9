"""Pooling of ONNX: channels first, windows that may stand over the end, positions of what was largest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known, product
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import Ints, Pairs, amounts_of, channels_first, spatial
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")

# --- geometry --------------------------------------------------------------------------------------------


class Windows:
    """The windows of a pooling node: parameters of our operators, from ONNX's attributes."""

    def __init__(
        self, x: Tensor, kernel_shape: Ints, auto_pad: str, pads: Ints | None, strides: Ints | None,
        dilations: Ints | None, ceil_mode: int,
    ) -> None:  # fmt: skip
        self.axes = spatial(x.shape, "pooling")
        self.window = tuple(kernel_shape)
        self.stride, self.dilation = tuple(strides or (1,) * self.axes), tuple(dilations or (1,) * self.axes)
        if not self.axes == len(self.window) == len(self.stride) == len(self.dilation):
            raise OperatorError(
                f"kernel_shape, strides and dilations have a number for each of {self.axes} axes of {x.shape}; given "
                f"{self.window}, {self.stride}, {self.dilation}"
            )
        self.padding = amounts_of(x.shape[2:], self.window, self.stride, self.dilation, auto_pad, pads)
        self.behind: tuple[int, ...] = (0,) * self.axes  # elements beyond the padding
        if ceil_mode and auto_pad == "NOTSET":
            self._reach_the_end(x.shape[2:])

    def _reach_the_end(self, extents: tuple[Extent, ...]) -> None:
        """One more window where elements are left, unless it would begin in the padding behind them."""
        around: Any = ((0, 0),) * self.axes if self.padding == "VALID" else self.padding
        found = []
        for n, k, s, d, (before, after) in zip(
            extents, self.window, self.stride, self.dilation, around, strict=True
        ):  # fmt: skip
            if not known(n):
                raise ShapeError(f"ceil_mode of an extent of {n} is not known; give the input's shape")
            span = d * (k - 1) + 1
            count = -(-(n + before + after - span) // s) + 1
            if (count - 1) * s >= n + before:
                count -= 1
            found.append(max((count - 1) * s + span - (n + before + after), 0))
        self.padding, self.behind = around, tuple(found)

    @property
    def together(self) -> str | Pairs:
        """The padding, with what stands beyond it."""
        if isinstance(self.padding, str):
            return self.padding
        return tuple((a, b + m) for (a, b), m in zip(self.padding, self.behind, strict=True))

    @property
    def narrow(self) -> bool:
        """Whether no window holds padding only, so far as our operators ask."""
        spans = [d * (k - 1) + 1 for k, d in zip(self.window, self.dilation, strict=True)]
        around = self.together
        return isinstance(around, str) or all(p < n for ps, n in zip(around, spans, strict=True) for p in ps)

    def params(self, padding: Any) -> dict[str, Any]:
        """Parameters of our operators of signals, images or volumes."""
        return {
            "window": self.window, "stride": self.stride, "padding": padding, "dilation": self.dilation,
            "data_format": channels_first(self.axes),
        }  # fmt: skip


def _padded(o: Context, x: Tensor, padding: Any, value: Any) -> Tensor:
    return o.pad(x, widths=((0, 0), (0, 0), *padding), value=value)


# --- largest ---------------------------------------------------------------------------------------------


def _least(dtype: Any) -> Any:
    return -np.inf if kind_of(dtype) == "f" else int(np.iinfo(dtype).min)


def _positions(o: Context, x: Tensor, storage_order: int) -> Tensor:
    """The position of each element in the whole tensor; within an image column by column if asked for."""
    n, channels, *extents = o.extents(x)
    o.sized((n, channels, *extents))
    within = np.arange(math.prod(extents), dtype=INT64)
    within = within.reshape(extents[::-1]).transpose() if storage_order else within.reshape(extents)
    images = np.arange(n * channels, dtype=INT64).reshape(n, channels, *(1,) * len(extents))
    return o.tensor(images * within.size + within)


def _largest(o: Context, x: Tensor, w: Windows, padding: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and where it was."""
    if w.axes == 3:
        return _largest_of_volumes(o, x, w, padding, positions)
    params = w.params(padding)
    y = getattr(o, f"max_pool{w.axes}d")(x, **params)
    if w.axes == 2:
        return y, o.max_pool2d_tangent(x, positions, **params)
    flat = {k: (1, *v) if isinstance(v, tuple) else v for k, v in params.items()}
    flat["padding"] = padding if isinstance(padding, str) else ((0, 0), *padding)
    flat["data_format"] = "NCHW"
    found = o.max_pool2d_tangent(o.expand_dims(x, axis=2), o.expand_dims(positions, axis=2), **flat)
    return y, o.squeeze(found, axis=2)


def _largest_of_volumes(o: Context, x: Tensor, w: Windows, padding: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Slice by slice, and then of slices."""
    n, channels, depth, height, width = x.shape

    def found(
        x: Tensor, positions: Tensor, shape: tuple[Extent, ...], axes: slice, *more: int
    ) -> tuple[Tensor, Tensor]:
        around = padding if isinstance(padding, str) else (*padding[axes], *((0, 0),) * len(more))
        params = {
            "window": (*w.window[axes], *more), "stride": (*w.stride[axes], *more), "padding": around,
            "dilation": (*w.dilation[axes], *more),
        }  # fmt: skip
        x, positions = o.reshape(x, shape=shape), o.reshape(positions, shape=shape)
        return o.max_pool2d(x, **params), o.max_pool2d_tangent(x, positions, **params)

    x, positions = found(x, positions, (n * channels * depth, height, width, 1), slice(1, 3))
    rows, columns = x.shape[1:3]
    x, positions = found(x, positions, (n * channels, depth, rows * columns, 1), slice(0, 1), 1)
    shape = (n, channels, x.shape[1], rows, columns)
    return o.reshape(x, shape=shape), o.reshape(positions, shape=shape)


@onnx_operator("MaxPool", since=(1, 8, 10, 11, 12, 22), multi_result=True)
def max_pool(
    o: Context, x: Tensor, /, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Ints | None = None, pads: Ints | None = None, storage_order: int = 0, strides: Ints | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The largest element of each window, and its position in the whole tensor."""
    w = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    padding = w.together
    narrow = w.narrow
    wide = x if narrow else _padded(o, x, padding, _least(x.dtype))
    y = getattr(o, f"max_pool{w.axes}d")(wide, **w.params(padding if narrow else "VALID"))
    if not o.wants(1):
        return (y,)
    positions = _positions(o, x, storage_order)
    positions = positions if narrow else _padded(o, positions, padding, -1)
    return y, _largest(o, wide, w, padding if narrow else "VALID", positions)[1]


@onnx_operator("MaxUnpool", since=(9, 11, 22), known=("output_shape",))
def max_unpool(
    o: Context, x: Tensor, positions: Tensor, output_shape: Any = None, /, *, kernel_shape: Ints,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Elements put back where they were largest, into zeros.

    Positions are those in a tensor of the extents that follow from the attributes; a larger ``output_shape`` adds zeros
    behind them.
    """
    axes = spatial(x.shape, "MaxUnpool")
    stride, around = strides or (1,) * axes, pads or (0,) * 2 * axes
    shape = (
        *x.shape[:2],
        *((n - 1) * s - around[i] - around[i + axes] + k
          for i, (n, s, k) in enumerate(zip(x.shape[2:], stride, kernel_shape, strict=True))),
    )  # fmt: skip
    count = product(shape)
    flat = o.scatter_set(
        o.full(shape=(count,), value=0, dtype=x.dtype), o.reshape(positions, shape=(product(x.shape),)),
        o.reshape(x, shape=(product(x.shape),)), axis=0,
    )  # fmt: skip
    y = o.reshape(flat, shape=shape)
    if output_shape is None:
        return y
    return o.pad(y, widths=tuple((0, int(m) - n) for m, n in zip(output_shape, shape, strict=True)))


# --- mean ------------------------------------------------------------------------------------------------


@onnx_operator("AveragePool", since=(1, 7, 10, 11, 19, 22))
def average_pool(
    o: Context, x: Tensor, /, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window, of the elements inside or with the padding as zeros."""
    w = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    return _mean(o, x, w, bool(count_include_pad))


def _mean(o: Context, x: Tensor, w: Windows, counted: bool) -> Tensor:
    pool = getattr(o, f"average_pool{w.axes}d")
    if w.narrow and not (counted and any(w.behind)):
        return pool(x, count_padding=counted, **w.params(w.together))
    ones = o.full(shape=(1, 1, *x.shape[2:]), value=1, dtype=x.dtype)
    if counted:
        ones = _padded(o, ones, w.padding, 1)
        ones = _padded(o, ones, tuple((0, n) for n in w.behind), 0)
    else:
        ones = _padded(o, ones, w.together, 0)
    sums = pool(_padded(o, x, w.together, 0), **w.params("VALID"))
    return o.divide(sums, pool(ones, **w.params("VALID")))


# --- norm ------------------------------------------------------------------------------------------------


@onnx_operator("LpPool", since=(1, 2, 11, 18, 22))
def lp_pool(
    o: Context, x: Tensor, /, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Ints | None = None, p: float = 2, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm of each window."""
    w = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    powers = _powers(o, x, p)
    if not w.narrow:
        powers, w.padding, w.behind = _padded(o, powers, w.together, 0), "VALID", (0,) * w.axes
    mean = getattr(o, f"average_pool{w.axes}d")(powers, count_padding=True, **w.params(w.together))
    return _root(o, o.multiply(mean, o.scalar(product(w.window), x)), p)


def _powers(o: Context, x: Tensor, p: float) -> Tensor:
    return o.square(x) if p == 2 else o.abs(x) if p == 1 else o.power(o.abs(x), o.scalar(p, x))


def _root(o: Context, x: Tensor, p: float) -> Tensor:
    return o.sqrt(x) if p == 2 else x if p == 1 else o.power(x, o.scalar(1.0 / p, x))


# --- everything ------------------------------------------------------------------------------------------


def _all(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, len(x.shape)))


@onnx_operator("GlobalAveragePool", since=(1, 22))
def global_average_pool(o: Context, x: Tensor, /) -> Tensor:
    """The mean of each channel."""
    return o.mean(x, axis=_all(x), keepdims=True)


@onnx_operator("GlobalMaxPool", since=(1, 22))
def global_max_pool(o: Context, x: Tensor, /) -> Tensor:
    """The largest element of each channel."""
    return o.max(x, axis=_all(x), keepdims=True)


@onnx_operator("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(o: Context, x: Tensor, /, *, p: float = 2) -> Tensor:
    """The p-norm of each channel."""
    return _root(o, o.sum(_powers(o, x, p), axis=_all(x), keepdims=True), p)
