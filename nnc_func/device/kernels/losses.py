"""Kernels of softmax, its logarithm and the cross-entropy from logits.

The planned forms work step by step in the result's own memory and in scratch, and allocate nothing. What is as large
as the logits goes part by part through scratch that stays in cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from nnc_func.device.kernels.blocks import Grid, grid, in_turn, threads_worth
from nnc_func.device.kernels.linalg import NUMPY_LIKE, Arrays, Scratch, allocating
from nnc_func.device.kernels.move import converted, dtype_of
from nnc_func.device.kernels.onednn_rows import softmax_kernel
from nnc_func.facets.kernels import Kernel, reference


def _kept(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape after a reduction along an axis that is kept as 1."""
    at = axis % len(shape)
    return (*shape[:at], 1, *shape[at + 1 :])


def _float_dtype(*arrays: Any) -> np.dtype[Any]:
    found = np.result_type(*map(dtype_of, arrays))
    return found if found.kind in "fc" else np.dtype("float64")


def _same(x: Any, *, axis: int) -> tuple[Any, Any]:
    return x.shape, _float_dtype(x)


def _per_example(logits: Any, labels: Any, *, axis: int) -> tuple[Any, Any]:
    at = axis % logits.ndim
    return logits.shape[:at] + logits.shape[at + 1 :], _float_dtype(logits, labels)


def _floats(xp: Any, *arrays: Any) -> Arrays:
    """The arrays in a common floating dtype; integers become float64."""
    dtype = _float_dtype(*arrays)
    return tuple(converted(xp, a, dtype) for a in arrays)


# --- parts of what is kept beside results ------------------------------------------------------------


def _shape_before(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """The axes before the one that is summed over, of which there is at least one, and how many elements each has."""
    at = axis % len(shape)
    return shape[:at] or (1,), math.prod(shape[at:])


def _grid(limit: int, shape: tuple[int, ...], axis: int) -> Grid:
    """The axes before that one, cut so that there are so many elements in a part, or one row."""
    before, row = _shape_before(shape, axis)
    return grid(before, max(1, limit // max(1, row)), len(before))


def _block(limit: int, shape: tuple[int, ...], axis: int) -> int:
    """Elements of the largest part."""
    if not all(isinstance(n, int) for n in shape):
        return math.prod(shape)
    return _grid(limit, shape, axis).largest * _shape_before(shape, axis)[1] if 0 not in shape else 0


def _parts(limit: int, shape: tuple[int, ...], axis: int) -> Iterator[tuple[slice, ...]]:
    """Where each part is."""
    whole = (slice(None),) * (len(shape) - axis % len(shape))
    for where in _grid(limit, shape, axis).blocks():
        yield (*where, *whole) if axis % len(shape) else whole


def _cut(flat: Any, shape: tuple[int, ...]) -> Any:
    """An array in the first elements of flat scratch."""
    return flat[: math.prod(shape)].reshape(shape)


PART = 1 << 18  # elements at a time: they stay in cache
STEPS = 8  # an element of softmax takes as long as one of so many sums
WHOLE = 1 << 62  # a GPU wants large kernels


def _by_parts(name: str, into: Any, result: Any, scratch: Any, **facts: Any) -> Iterator[Kernel]:
    """On the host part by part; on a GPU all at once."""
    for label, on, limit in ((name, "numpy", PART), (f"{name} on cupy", "cupy", WHOLE)):
        write, wants = partial(into, limit), partial(scratch, limit)
        yield Kernel(
            label, compute=allocating(write, result, wants), into=write, scratch=wants, namespaces=frozenset({on}),
            infallible=True, **facts,
        )  # fmt: skip


# --- softmax -----------------------------------------------------------------------------------------


def _softmax_scratch(avals: Arrays, *, axis: int) -> Scratch:
    return ((_kept(avals[0].shape, axis), _float_dtype(avals[0])),)


def softmax_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    """Of softmax, with scratch for a number a row; the result may lie over the operand."""
    (x,), (out,), (row,) = arrays, outs, scratch
    if not x.size:  # the largest of no elements is refused
        return

    def part(where: Any, thread: int) -> None:
        given, found, kept = x[where], out[where], row[where]
        xp.max(given, axis=at, keepdims=True, out=kept)
        xp.subtract(given, kept, out=found)
        xp.exp(found, out=found)
        xp.sum(found, axis=at, keepdims=True, out=kept)
        xp.divide(found, kept, out=found)

    at = axis % x.ndim - x.ndim  # counted from the last one: a part has all axes
    if xp is not np or x.size <= PART:
        part(..., 0)
        return
    places = [*_parts(PART, x.shape, axis)]
    in_turn(places, threads_worth(STEPS * x.size, len(places)), part)


def _softmax_reference(xp: Any, x: Any, *, axis: int) -> Any:
    (x,) = _floats(xp, x)
    if 0 in x.shape:
        return x
    powers = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return powers / xp.sum(powers, axis=axis, keepdims=True)


SOFTMAX = (
    softmax_kernel("softmax"),
    Kernel(
        "in place", compute=allocating(softmax_into, _same, _softmax_scratch), into=softmax_into,
        scratch=_softmax_scratch, namespaces=NUMPY_LIKE, overwrites=(0,), infallible=True, strided=True,
    ),
    reference(_softmax_reference),
)  # fmt: skip


# --- log_softmax -------------------------------------------------------------------------------------


def _log_softmax_scratch(limit: int, avals: Arrays, *, axis: int) -> Scratch:
    dtype, size = _float_dtype(avals[0]), _block(limit, avals[0].shape, axis)
    return (_kept(avals[0].shape, axis), dtype), ((size,), dtype)


def _log_softmax_into(limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (x,), (out,), (row, powers) = arrays, outs, scratch
    if not x.size:
        return
    xp.max(x, axis=axis, keepdims=True, out=row)
    xp.subtract(x, row, out=out)
    for where in _parts(limit, x.shape, axis):
        part = out[where]
        xp.sum(xp.exp(part, out=_cut(powers, part.shape)), axis=axis, keepdims=True, out=row[where])
    xp.log(row, out=row)
    xp.subtract(out, row, out=out)


def _log_softmax_reference(xp: Any, x: Any, *, axis: int) -> Any:
    (x,) = _floats(xp, x)
    if 0 in x.shape:
        return x
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


LOG_SOFTMAX = (
    softmax_kernel("log_softmax"),
    *_by_parts("in place", _log_softmax_into, _same, _log_softmax_scratch, overwrites=(0,), strided=True),
    reference(_log_softmax_reference),
)  # fmt: skip


# --- softmax_cross_entropy ---------------------------------------------------------------------------


def _cross_entropy_scratch(limit: int, avals: Arrays, *, axis: int) -> Scratch:
    dtype, shape = _float_dtype(*avals), avals[0].shape
    size = _block(limit, shape, axis)
    return (_kept(shape, axis), dtype), ((size,), dtype), ((size,), dtype), ((size,), np.dtype("bool"))


def _cross_entropy_into(limit: int, xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (logits, labels), (out,), (whole, *rest) = arrays, outs, scratch
    xp.max(logits, axis=axis, keepdims=True, out=whole)
    at = axis % logits.ndim
    for where in _parts(limit, logits.shape, axis):
        row, part = whole[where], logits[where]
        shifted, powers, silent = (_cut(a, part.shape) for a in rest)
        xp.subtract(part, row, out=shifted)
        xp.exp(shifted, out=powers)
        xp.sum(powers, axis=axis, keepdims=True, out=row)
        xp.log(row, out=row)
        xp.subtract(row, shifted, out=shifted)
        xp.equal(labels[where], 0, out=silent)
        xp.copyto(shifted, 0, where=silent)  # a label of zero times an infinite loss is nothing
        xp.multiply(shifted, labels[where], out=shifted)
        xp.sum(shifted, axis=axis, out=out[(*where[:at], *where[at + 1 :], ...)])


def _cross_entropy_reference(xp: Any, logits: Any, labels: Any, *, axis: int) -> Any:
    logits, labels = _floats(xp, logits, labels)
    shifted = logits - xp.max(logits, axis=axis, keepdims=True)
    losses = xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True)) - shifted
    return xp.sum(xp.where(labels == 0, xp.zeros_like(losses), losses) * labels, axis=axis)


SOFTMAX_CROSS_ENTROPY = (
    *_by_parts("in scratch", _cross_entropy_into, _per_example, _cross_entropy_scratch),
    reference(_cross_entropy_reference),
)  # fmt: skip


# --- its derivative ----------------------------------------------------------------------------------


def _both(logits: Any, labels: Any, *, axis: int) -> tuple[Any, Any]:
    return logits.shape, _float_dtype(logits, labels)


def _gradient_scratch(avals: Arrays, *, axis: int) -> Scratch:
    return ((_kept(avals[0].shape, axis), _float_dtype(*avals)),)


def _gradient_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (logits, labels), (out,), (row,) = arrays, outs, scratch
    softmax_into(xp, (logits,), outs, scratch, axis=axis)
    xp.sum(labels, axis=axis, keepdims=True, out=row)
    xp.multiply(out, row, out=out)
    xp.subtract(out, labels, out=out)


def _gradient_reference(xp: Any, logits: Any, labels: Any, *, axis: int) -> Any:
    logits, labels = _floats(xp, logits, labels)
    total = xp.sum(labels, axis=axis, keepdims=True)
    return _softmax_reference(xp, logits, axis=axis) * total - labels


CROSS_ENTROPY_GRADIENT = (
    Kernel(
        "in place", compute=allocating(_gradient_into, _both, _gradient_scratch), into=_gradient_into,
        scratch=_gradient_scratch, namespaces=NUMPY_LIKE, overwrites=(0,), infallible=True, strided=True,
    ),
    reference(_gradient_reference),
)  # fmt: skip
