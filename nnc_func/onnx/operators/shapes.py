"""Shapes: what they are, and tensors in other ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.facets.dims import known
from nnc_func.onnx.extents import shape_array
from nnc_func.onnx.table import onnx_operator

IDENTITY = (1, 13, 14, 16, 19, 21, 23, 24, 25)
NEWEST = (13, 19, 21, 23, 24, 25)


@onnx_operator("Identity", since=IDENTITY, raw=True)
def identity(o: Any, x: Any) -> Any:
    """The same."""
    return x


@onnx_operator("Shape", since=(1, *NEWEST, 15), raw=True)
def shape(o: Any, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """The extents of some axes."""
    return shape_array(tuple(x.shape[slice(start, end)]))


@onnx_operator("Size", since=(1, *NEWEST), raw=True)
def size(o: Any, x: Any) -> Any:
    """The number of elements."""
    return shape_array((math.prod(x.shape),)).reshape(())


@onnx_operator("Reshape", since=(5, 14, *NEWEST), known=("shape",))
def reshape(o: Any, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """In another shape; 0 keeps an extent, unless `allowzero`, and -1 is computed."""
    wanted = list(o.integers(shape))
    if shape.ndim != 1:
        raise OnnxError(f"a shape is a vector, given one of rank {shape.ndim}")
    for i, n in enumerate(wanted):
        if known(n) and n == 0 and not allowzero:
            if i >= len(x.shape):
                raise OnnxError(f"shape {tuple(wanted)} keeps extent {i} of {tuple(x.shape)}")
            wanted[i] = x.shape[i]
    return o.reshape(x, shape=tuple(wanted))


@onnx_operator("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(o: Any, x: Any, *, axis: int = 1) -> Any:
    """As a matrix: the axes before one are its rows."""
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise OnnxError(f"axis {axis} of a tensor of rank {rank}")
    at = axis + rank if axis < 0 else axis
    return o.reshape(x, shape=(math.prod(x.shape[:at]), math.prod(x.shape[at:])))


def _squeezed(o: Any, x: Any, axes: Any) -> Any:
    if axes is None:
        listed = tuple(i for i, n in enumerate(o.extents(x)) if n == 1)
    else:
        listed = o.axes(axes, len(x.shape))
    return o.squeeze(x, axis=listed) if listed else x


@onnx_operator("Squeeze", since=(1, 11))
def squeeze_by_attribute(o: Any, x: Any, *, axes: tuple[int, ...] | None = None) -> Any:
    """Without axes of extent 1."""
    return _squeezed(o, x, axes)


@onnx_operator("Squeeze", since=(13, 21, 23, 24, 25), known=("axes",))
def squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    """Without axes of extent 1."""
    return _squeezed(o, x, axes)


def _unsqueezed(o: Any, x: Any, axes: Sequence[int]) -> Any:
    return o.expand_dims(x, axis=o.axes(axes, len(x.shape) + len(axes))) if len(axes) else x


@onnx_operator("Unsqueeze", since=(1, 11))
def unsqueeze_by_attribute(o: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    """With more axes of extent 1."""
    return _unsqueezed(o, x, axes)


@onnx_operator("Unsqueeze", since=(13, 21, 23, 24, 25), known=("axes",))
def unsqueeze(o: Any, x: Any, axes: Any) -> Any:
    """With more axes of extent 1."""
    return _unsqueezed(o, x, o.integers(axes))


@onnx_operator("Transpose", since=(1, 13, 21, 23, 24, 25))
def transpose(o: Any, x: Any, *, perm: tuple[int, ...] | None = None) -> Any:
    """Axes in another order; by default reversed."""
    rank = len(x.shape)
    axes = tuple(range(rank))[::-1] if perm is None else o.axes(perm, rank)
    return o.permute_dims(x, axes=axes)


@onnx_operator("Expand", since=(8, 13), known=("shape",))
def expand(o: Any, x: Any, shape: Any) -> Any:
    """Broadcast with a shape."""
    return o.broadcast_to(x, shape=o.sized(_broadcast(tuple(x.shape), o.sized(shape))))


def _broadcast(mine: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(len(mine), len(other))
    padded = [(1,) * (rank - len(s)) + s for s in (mine, other)]
    return tuple(n if known(m) and m == 1 else m for m, n in zip(*reversed(padded), strict=True))


@onnx_operator("Tile", since=(6, 13), known=("repeats",))
def tile(o: Any, x: Any, repeats: Any) -> Any:
    """Copies side by side."""
    counts = o.integers(repeats)
    if len(counts) != len(x.shape):
        raise OnnxError(f"repeats {counts} of a tensor of rank {len(x.shape)}")
    o.sized([n * m for n, m in zip(x.shape, o.sized(counts), strict=True)])
    return o.tile(x, repetitions=counts)


@onnx_operator("Concat", since=(4, 11, 13))
def concat(o: Any, *xs: Any, axis: int) -> Any:
    """One after another."""
    return o.concat(*xs, axis=o.axis(axis, len(xs[0].shape)))


def _parts(o: Any, x: Any, axis: int, sizes: Sequence[Any] | None, count: int) -> tuple[Any, ...]:
    """Parts of those sizes, or as many as are wanted, of equal ones; the last may be smaller."""
    at = o.axis(axis, len(x.shape))
    if sizes is None:
        extent = x.shape[at]
        each = -(-extent // count) if known(extent) else extent // count
        sizes = [each] * count
        if known(extent):
            sizes = [max(0, min(each, extent - each * i)) for i in range(count)]
    found: tuple[Any, ...] = o.split(x, sections=tuple(sizes), axis=at)
    return found


@onnx_operator("Split", since=(2, 11), multi_result=True)
def split_by_attribute(o: Any, x: Any, *, axis: int = 0, split: tuple[int, ...] | None = None) -> Any:
    """Parts of an axis."""
    return _parts(o, x, axis, split, o.results)


@onnx_operator("Split", since=(13, 18), known=("split",), multi_result=True)
def split(o: Any, x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None) -> Any:
    """Parts of an axis."""
    if num_outputs is not None and (split is not None or num_outputs < 1):
        raise OnnxError(f"num_outputs={num_outputs} and split={split}: one of them says how many parts there are")
    if num_outputs is not None and num_outputs != o.results:
        raise OnnxError(f"num_outputs={num_outputs}, and {o.results} results are named")
    return _parts(o, x, axis, None if split is None else o.integers(split), o.results)


@onnx_operator("ReverseSequence", since=(10, 28))
def reverse_sequence(o: Any, x: Any, sequence_lens: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first elements of each sequence in reverse order."""
    rank = len(x.shape)
    if {batch_axis, time_axis} != {0, 1} or rank < 2:
        raise OnnxError(f"batch_axis={batch_axis}, time_axis={time_axis}: one is 0 and the other 1, of rank 2 or more")
    steps = o.arange(start=0, stop=x.shape[time_axis])
    steps = o.reshape(steps, shape=(-1, 1) if time_axis == 0 else (1, -1))
    lengths = o.reshape(sequence_lens, shape=(1, -1) if time_axis == 0 else (-1, 1))
    places = o.where(o.less(steps, lengths), o.subtract(o.subtract(lengths, 1), steps), steps)
    places = o.reshape(places, shape=(*places.shape, *(1,) * (rank - 2)))
    return o.take_along_axis(x, o.broadcast_to(places, shape=x.shape), axis=time_axis)


@onnx_operator("Constant", since=(1, 9, 11, 12, *NEWEST))
def constant(
    o: Any, *, value: Any = None, sparse_value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None, value_strings: Any = None,
) -> Any:  # fmt: skip
    """An attribute as a tensor."""
    if value_string is not None or value_strings is not None:
        raise OnnxError("tensors of strings are not supported")
    floats, integers = (value_float, value_floats), (value_int, value_ints)
    listed = [value, sparse_value, *(None if v is None else np.array(v, np.float32) for v in floats)]
    listed += [None if v is None else np.array(v, np.int64) for v in integers]
    given = [v for v in listed if v is not None]
    if len(given) != 1:
        raise OnnxError(f"one attribute has the value, given {len(given)}")
    return given[0]
