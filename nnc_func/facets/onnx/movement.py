"""Shapes, joins and parts in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.facets.dims import known, product
from nnc_func.facets.movement import aligned_left, part_sizes, sliced
from nnc_func.facets.shapes import normalise_axes, normalise_axis

INT64 = np.dtype("int64")
BEFORE_ALL = int(np.iinfo(INT64).min)  # where a slice that runs backwards ends: before the first element


def _is_empty(shape: Any) -> bool:
    return any(known(n) and n == 0 for n in shape)


def reshape(g: Any, x: Any, *, shape: Any) -> Any:
    """In the shape of the result, of which one extent that is not known may be left open."""
    wanted = g.result.shape
    unknown = [i for i, n in enumerate(wanted) if not known(n)]
    if len(unknown) == 1:
        wanted = tuple(-1 if i in unknown else n for i, n in enumerate(wanted))
    return g.Reshape(x, g.extents(wanted), allowzero=int(len(unknown) > 1))


def permute_dims(g: Any, x: Any, *, axes: Any) -> Any:
    """The axes in another order."""
    rank = len(x.shape)
    order = range(rank)[::-1] if axes is None else [normalise_axis(a, rank) for a in axes]
    return x if tuple(order) == tuple(range(rank)) else g.Transpose(x, perm=tuple(order))


def broadcast_to(g: Any, x: Any, *, shape: Any) -> Any:
    """Expanded."""
    return x if x.shape == shape else g.Expand(x, g.extents(shape))


def expand_dims(g: Any, x: Any, *, axis: Any) -> Any:
    """New axes, counted in the result."""
    axes = tuple(sorted(normalise_axes(axis, len(g.result.shape))))
    return g.Unsqueeze(x, g.integers(axes)) if axes else x


def squeeze(g: Any, x: Any, *, axis: Any) -> Any:
    """Without those axes."""
    axes = tuple(sorted(normalise_axes(axis, len(x.shape))))
    return g.Squeeze(x, g.integers(axes)) if axes else x


def flip(g: Any, x: Any, *, axis: Any) -> Any:
    """A slice from the last element to the first."""
    axes = tuple(sorted(normalise_axes(axis, len(x.shape))))
    bounds = ((-1,) * len(axes), (BEFORE_ALL,) * len(axes), axes, (-1,) * len(axes))
    return g.Slice(x, *map(g.integers, bounds)) if axes else x


def tile(g: Any, x: Any, *, repetitions: Any) -> Any:
    """Copies side by side."""
    times, extents = aligned_left(repetitions, x.shape)
    if extents != x.shape:
        x = g.reshape(x, shape=extents)
    return g.Tile(x, g.extents(times)) if times else x


def concat(g: Any, *xs: Any, axis: int) -> Any:
    """In their common dtype; what has no elements is left out."""
    at = normalise_axis(axis, len(g.result.shape))
    some = [g.converted(x, g.result.dtype) for x in xs if not _is_empty((x.shape[at],))]
    return some[0] if len(some) == 1 else g.Concat(*some, axis=at)


def stack(g: Any, *xs: Any, axis: int) -> Any:
    """Along a new axis of extent 1 of each."""
    at = normalise_axis(axis, len(g.result.shape))
    return g.concat(*(g.expand_dims(x, axis=at) for x in xs), axis=at)


def split(g: Any, x: Any, *, sections: Any, axis: int) -> Any:
    """Parts of an axis."""
    at = normalise_axis(axis, len(x.shape))
    sizes = part_sizes(x.shape[at], sections)
    if len(sizes) == 1:
        return (x,)
    return g.Split(x, g.extents(sizes), axis=at, outputs=len(sizes))


def pad(g: Any, x: Any, *, widths: Any, value: Any) -> Any:
    """One number around."""
    if not widths:
        return x
    before, after = zip(*widths, strict=True)
    return g.Pad(x, g.extents((*before, *after)), g.scalar(value, x.dtype), mode="constant")


# --- slices -----------------------------------------------------------------------------------------------


def slice_(g: Any, x: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    """A strided part; axes that stay whole are not named."""
    if _is_empty(g.result.shape) or not starts:
        return x if not starts else g.full(shape=g.result.shape, value=0, dtype=x.dtype)
    bounds = [
        (start, BEFORE_ALL if step < 0 and known(stop) and stop == -1 else stop, axis, step)
        for axis, (start, stop, step, n) in enumerate(zip(starts, stops, steps, x.shape, strict=True))
        if (start, stop, step) != (0, n, 1)
    ]
    if not bounds:
        return x
    begins, ends, axes, strides = zip(*bounds, strict=True)
    return g.Slice(x, g.extents(begins), g.extents(ends), g.integers(axes), g.integers(strides))


def set_slice(g: Any, x: Any, value: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    """Where a mask says so the element of the value that lies there, found axis by axis; elsewhere the tensor's."""
    part = sliced(x.shape, starts=starts, stops=stops, steps=steps)
    if _is_empty(part):
        return x
    found = g.broadcast_to(g.cast(value, dtype=x.dtype), shape=part)
    inside, rank = None, len(x.shape)
    for axis in range(rank):
        start, step, n, count = starts[axis], steps[axis], x.shape[axis], part[axis]
        if (start, step, n) == (0, 1, count):
            continue
        source, mask = _covered(g, n, start, step, count)
        found = g.take(found, source, axis=axis)
        mask = g.reshape(mask, shape=(n, *(1,) * (rank - axis - 1)))
        inside = mask if inside is None else g.logical_and(inside, mask)
    return found if inside is None else g.where(inside, found, x)


def _covered(g: Any, n: Any, start: Any, step: int, count: Any) -> tuple[Any, Any]:
    """Of each place of an axis the number of the step that meets it, and whether one does."""
    if known(n) and known(start) and known(count):
        number, rest = np.divmod(np.arange(n) - start, step)
        mask = (rest == 0) & (number >= 0) & (number < count)
        return g.constant(np.where(mask, number, 0)), g.constant(mask)
    distance = g.subtract(g.arange(start=0, stop=n, dtype=INT64), start)
    number, rest = g.floor_divide(distance, step), g.remainder(distance, step)
    mask = g.logical_and(g.equal(rest, 0), g.logical_and(g.greater_equal(number, 0), g.less(number, count)))
    return g.where(mask, number, 0), mask


def assemble(g: Any, *parts: Any, shape: Any, offsets: Any, strides: Any, fill: Any) -> Any:
    """Padded, or joined, where parts lie so; else each written into what the others left."""
    rank = len(shape)
    strides = ((1,) * rank,) * len(parts) if strides is None else strides
    laid = [
        (g.cast(p, dtype=g.result.dtype), at, by)
        for p, at, by in zip(parts, offsets, strides, strict=True)
        if not _is_empty(p.shape)
    ]
    plain = all(step == 1 or n == 1 for p, _, by in laid for step, n in zip(by, p.shape, strict=True))
    if plain and len(laid) == 1:
        part, at, _ = laid[0]
        widths = tuple((o, whole - o - n) for o, whole, n in zip(at, shape, part.shape, strict=True))
        return part if part.shape == shape else g.pad(part, widths=widths, value=fill)
    axis = _joined_along(laid, shape) if plain else None
    if axis is not None:
        return g.concat(*(p for p, _, _ in sorted(laid, key=lambda each: each[1][axis])), axis=axis)
    found = g.full(shape=shape, value=fill, dtype=g.result.dtype)
    for part, at, by in laid:
        stops = tuple(o + (n - 1) * s + (1 if s > 0 else -1) for o, n, s in zip(at, part.shape, by, strict=True))
        found = g.set_slice(found, part, starts=at, stops=stops, steps=by)
    return found


def _joined_along(laid: Any, shape: Any) -> int | None:
    """The axis along which the parts lie one behind the other and cover everything, if there is one."""
    if not all(map(known, shape)) or any(not known(o) for _, at, _ in laid for o in at):
        return None
    if sum(product(p.shape) for p, _, _ in laid) != product(shape):
        return None
    for axis in range(len(shape)):
        if all(p.shape[i] == n for p, _, _ in laid for i, n in enumerate(shape) if i != axis):
            return axis
    return None
