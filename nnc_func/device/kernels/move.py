"""Kernels that move elements: casts, joins, tiles, padding; and the dtypes of an array namespace."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.effects import host
from nnc_func.facets.boxes import part_boxes
from nnc_func.facets.dtypes import floating, scalar
from nnc_func.facets.layouts import permutation
from nnc_func.facets.movement import aligned_left, padded, part_sizes, slices
from nnc_func.facets.shapes import normalise_axes, normalise_axis

NUMPY = frozenset({"numpy", "cupy"})  # namespaces with `out=`, `copyto` and NumPy's dtypes

Arrays = tuple[Any, ...]


# --- dtypes ----------------------------------------------------------------------------------------------


def dtype_in(xp: Any, dtype: Any) -> Any:
    """The namespace's own object for a NumPy dtype.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_in(np, np.dtype("float32"))
    dtype('float32')
    """
    return dtype if xp.__name__ in NUMPY else getattr(xp, dtype.name)


def dtype_of(x: Any) -> np.dtype[Any]:
    """The NumPy dtype of an array of any namespace."""
    dtype = x.dtype
    return dtype if isinstance(dtype, np.dtype) else np.dtype(str(dtype).rsplit(".", 1)[-1])


def converted(xp: Any, x: Any, dtype: Any) -> Any:
    """The array in that NumPy dtype: itself where it has it already."""
    return x if dtype_of(x) == dtype else cast(xp, x, dtype=dtype)


def cast(xp: Any, x: Any, *, dtype: Any) -> Any:
    """A new array in that dtype."""
    if xp.__name__ in NUMPY:
        return x.astype(dtype)
    if dtype_of(x).kind == "c" and np.dtype(dtype).kind == "b":
        return x != 0  # the standard casts no complex number
    return xp.astype(x, dtype_in(xp, dtype))


def cast_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, dtype: Any) -> None:
    """Of `cast`."""
    xp.copyto(outs[0], arrays[0], casting="unsafe")


def bit_cast(xp: Any, x: Any, *, dtype: Any) -> Any:
    """A copy, seen in another dtype: on the host, where a namespace has no views of that kind."""
    if xp.__name__ in NUMPY:
        return x.copy().view(dtype)
    return xp.asarray(host(x).copy().view(dtype), device=x.device)


def bit_cast_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, dtype: Any) -> None:
    """The result is seen in the argument's dtype."""
    xp.copyto(outs[0].view(arrays[0].dtype), arrays[0])


def of_parts(xp: Any, real: Any, imag: Any) -> Any:
    """Complex numbers of two parts, bit by bit: on the host, where a namespace makes them by arithmetic only."""
    dtype = np.result_type(floating(dtype_of(real), dtype_of(imag)), np.complex64)
    if xp.__name__ in NUMPY:
        out = xp.empty(np.broadcast_shapes(real.shape, imag.shape), dtype)
        of_parts_into(xp, (real, imag), (out,), ())
        return out
    return xp.asarray(of_parts(np, host(real), host(imag)), device=real.device)


def of_parts_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    """Of `of_parts`."""
    for part, array in zip((outs[0].real, outs[0].imag), arrays, strict=True):
        xp.copyto(part, array)


# --- views -----------------------------------------------------------------------------------------------


def reshape(xp: Any, x: Any, *, shape: Any) -> Any:
    """A view of a contiguous array, a copy of another."""
    return xp.reshape(x, shape)


def reshape_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: Any) -> None:
    """The result is seen in the argument's shape, so that any strides are copied without a temporary."""
    xp.copyto(outs[0].reshape(arrays[0].shape), arrays[0])


def permute_dims(xp: Any, x: Any, *, axes: Any) -> Any:
    """A view."""
    order = tuple(range(x.ndim))[::-1] if axes is None else axes
    return x.transpose(order) if xp.__name__ in NUMPY else xp.permute_dims(x, order)


def broadcast_to(xp: Any, x: Any, *, shape: Any) -> Any:
    """A view, read-only on NumPy."""
    return xp.broadcast_to(x, shape)


def expand_dims(xp: Any, x: Any, *, axis: Any) -> Any:
    """A view."""
    rank = x.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    new = normalise_axes(axis, rank)
    return x[(*(None if i in new else slice(None) for i in range(rank)), ...)]  # the dots: no scalar comes out


def squeeze(xp: Any, x: Any, *, axis: Any) -> Any:
    """A view."""
    return xp.squeeze(x, axis=axis)


def flip(xp: Any, x: Any, *, axis: Any) -> Any:
    """A view, with negative strides."""
    gone = normalise_axes(axis, x.ndim)
    if xp.__name__ in NUMPY:
        return x[(*(slice(None, None, -1) if i in gone else slice(None) for i in range(x.ndim)), ...)]
    return xp.flip(x, axis=gone) if gone else x


def whole(xp: Any, x: Any) -> Any:
    """All of it, as a view."""
    return x[...]


# --- copies ----------------------------------------------------------------------------------------------


def tile(xp: Any, x: Any, *, repetitions: Any) -> Any:
    """Reference."""
    return xp.tile(x, repetitions)


def tile_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, repetitions: Any) -> None:
    """One broadcasting copy: the result is seen as (repetition, extent) for every axis."""
    times, extents = aligned_left(repetitions, arrays[0].shape)
    pairs = tuple(n for pair in zip(times, extents, strict=True) for n in pair)
    source = tuple(n for extent in extents for n in (1, extent))
    xp.copyto(outs[0].reshape(pairs), arrays[0].reshape(source))


def concat(xp: Any, *xs: Any, axis: int) -> Any:
    """Reference."""
    return xp.concat(_alike(xp, xs), axis=axis)


def concatenate(xp: Any, *xs: Any, axis: int) -> Any:
    """By NumPy's own name, which promotes."""
    return xp.concatenate(xs, axis=axis)


def concatenate_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """Of `concatenate`."""
    xp.concatenate(arrays, axis=axis, out=outs[0])


def stack(xp: Any, *xs: Any, axis: int) -> Any:
    """Reference."""
    return xp.stack(_alike(xp, xs), axis=axis)


def stack_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """Each into its place."""
    front = (slice(None),) * normalise_axis(axis, outs[0].ndim)
    for i, x in enumerate(arrays):
        outs[0][(*front, i, ...)] = x


def _alike(xp: Any, xs: Arrays) -> list[Any]:
    common = np.result_type(*map(dtype_of, xs))
    return [converted(xp, x, common) for x in xs]


def _part_slices(x: Any, sections: Any, axis: int) -> list[tuple[slice, ...]]:
    at = normalise_axis(axis, x.ndim)
    found = []
    begin: Any = 0
    for n in part_sizes(x.shape[at], sections):
        found.append((*(slice(None),) * at, slice(begin, begin + n)))
        begin += n
    return found


def split(xp: Any, x: Any, *, sections: Any, axis: int) -> Arrays:
    """Views, in any namespace."""
    return tuple([x[(*part, ...)] for part in _part_slices(x, sections, axis)])


def split_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, sections: Any, axis: int) -> None:
    """Of `split`."""
    for out, part in zip(outs, _part_slices(arrays[0], sections, axis), strict=True):
        xp.copyto(out, arrays[0][part])


def pad(xp: Any, x: Any, *, widths: Any, value: Any) -> Any:
    """In any namespace: filled, then the middle is put in."""
    dtype = dtype_of(x)
    shape = padded(x.shape, widths=widths)
    out = xp.full(shape, scalar(value, dtype).item(), dtype=dtype_in(xp, dtype))
    out[_middle(x, widths)] = x
    return out


def pad_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, widths: Any, value: Any) -> None:
    """Of `pad`; only the borders are filled."""
    x, out = arrays[0], outs[0]
    inner, filler = out, scalar(value, out.dtype).item()
    for axis, (before, _) in enumerate(widths):
        front = (slice(None),) * axis
        inner[(*front, slice(0, before))] = filler
        inner[(*front, slice(before + x.shape[axis], None))] = filler
        inner = inner[(*front, slice(before, before + x.shape[axis]))]
    inner[...] = x


def assemble(xp: Any, *xs: Any, shape: Any, offsets: Any, strides: Any, fill: Any) -> Any:
    """In any namespace: filled, then each part is put in."""
    dtype = np.result_type(*map(dtype_of, xs))
    out = xp.full(shape, scalar(fill, dtype).item(), dtype=dtype_in(xp, dtype))
    for x, place in zip(xs, _places(xs, shape, offsets, strides), strict=True):
        out[place] = converted(xp, x, dtype)
    return out


def assemble_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: Any, offsets: Any, strides: Any, fill: Any
) -> None:
    """Of `assemble`; it is filled only where the parts do not cover it."""
    out = outs[0]
    if sum(x.size for x in arrays) < out.size:
        out.fill(scalar(fill, out.dtype).item())
    for x, place in zip(arrays, _places(arrays, shape, offsets, strides), strict=True):
        out[place] = x


def _places(xs: Any, shape: Any, offsets: Any, strides: Any) -> list[tuple[Any, ...]]:
    boxes = part_boxes(*(x.shape for x in xs), shape=shape, offsets=offsets, strides=strides)
    return [(*slices(*zip(*box.bounds(), strict=True)), ...) if shape else (...,) for box in boxes]


def _middle(x: Any, widths: Any) -> tuple[Any, ...]:
    spans = (slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))
    return (*spans, ...)


# --- creation --------------------------------------------------------------------------------------------


def full(xp: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    """In any namespace."""
    return xp.full(shape, scalar(value, dtype).item(), dtype=dtype_in(xp, dtype))


def full_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: Any, value: Any, dtype: Any) -> None:
    """Of `full`."""
    outs[0].fill(scalar(value, outs[0].dtype).item())


def arange(xp: Any, *, start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    """In any namespace."""
    return xp.arange(start, stop, step, dtype=dtype_in(xp, dtype))


# --- in memory ----------------------------------------------------------------------------------------------


def memory_order(x: Any) -> tuple[int, ...]:
    """The axes of an array without gaps in the order in which they lie in memory, outermost first."""
    return tuple(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))


def relayout(xp: Any, x: Any, *, layout: Any, data_format: str) -> Any:
    """A copy in that layout; arrays of a namespace that knows no strides have none."""
    order = permutation(layout, x.ndim, data_format) or tuple(range(x.ndim))
    if xp.__name__ not in NUMPY:
        return xp.asarray(x, copy=True)
    back = tuple(map(order.index, range(x.ndim)))
    return xp.array(x.transpose(order), order="C").transpose(back)


def copied(xp: Any, x: Any, **_: Any) -> Any:
    """A copy."""
    return xp.asarray(x, copy=True)


def copied_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, **_: Any) -> None:
    """Of `relayout` and `copied`: the result's own strides say how it lies."""
    xp.copyto(outs[0], arrays[0])
