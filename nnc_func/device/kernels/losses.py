"""Kernels of softmax, its logarithm and the cross-entropy from logits.

The planned forms work step by step in the result's own memory and in scratch, and allocate nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import NUMPY_LIKE, Arrays, Scratch, allocating
from nnc_func.device.kernels.move import converted, dtype_of
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


# --- softmax -----------------------------------------------------------------------------------------


def _softmax_scratch(avals: Arrays, *, axis: int) -> Scratch:
    return ((_kept(avals[0].shape, axis), _float_dtype(avals[0])),)


def _softmax_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (x,), (out,), (row,) = arrays, outs, scratch
    if not x.size:  # the largest of no elements is refused
        return
    xp.max(x, axis=axis, keepdims=True, out=row)
    xp.subtract(x, row, out=out)
    xp.exp(out, out=out)
    xp.sum(out, axis=axis, keepdims=True, out=row)
    xp.divide(out, row, out=out)


def _softmax_reference(xp: Any, x: Any, *, axis: int) -> Any:
    (x,) = _floats(xp, x)
    if 0 in x.shape:
        return x
    powers = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return powers / xp.sum(powers, axis=axis, keepdims=True)


SOFTMAX = (
    Kernel(
        "in place", compute=allocating(_softmax_into, _same, _softmax_scratch), into=_softmax_into,
        scratch=_softmax_scratch, namespaces=NUMPY_LIKE, overwrites=(0,), infallible=True, strided=True,
    ),
    reference(_softmax_reference),
)  # fmt: skip


# --- log_softmax -------------------------------------------------------------------------------------


def _log_softmax_scratch(avals: Arrays, *, axis: int) -> Scratch:
    dtype = _float_dtype(avals[0])
    return (_kept(avals[0].shape, axis), dtype), (avals[0].shape, dtype)


def _log_softmax_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (x,), (out,), (row, powers) = arrays, outs, scratch
    if not x.size:
        return
    xp.max(x, axis=axis, keepdims=True, out=row)
    xp.subtract(x, row, out=out)
    xp.exp(out, out=powers)
    xp.sum(powers, axis=axis, keepdims=True, out=row)
    xp.log(row, out=row)
    xp.subtract(out, row, out=out)


def _log_softmax_reference(xp: Any, x: Any, *, axis: int) -> Any:
    (x,) = _floats(xp, x)
    if 0 in x.shape:
        return x
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


LOG_SOFTMAX = (
    Kernel(
        "in place", compute=allocating(_log_softmax_into, _same, _log_softmax_scratch), into=_log_softmax_into,
        scratch=_log_softmax_scratch, namespaces=NUMPY_LIKE, overwrites=(0,), infallible=True, strided=True,
    ),
    reference(_log_softmax_reference),
)  # fmt: skip


# --- softmax_cross_entropy ---------------------------------------------------------------------------


def _cross_entropy_scratch(avals: Arrays, *, axis: int) -> Scratch:
    dtype, shape = _float_dtype(*avals), avals[0].shape
    return (_kept(shape, axis), dtype), (shape, dtype), (shape, dtype), (shape, np.dtype("bool"))


def _cross_entropy_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (logits, labels), (out,), (row, shifted, powers, silent) = arrays, outs, scratch
    xp.max(logits, axis=axis, keepdims=True, out=row)
    xp.subtract(logits, row, out=shifted)
    xp.exp(shifted, out=powers)
    xp.sum(powers, axis=axis, keepdims=True, out=row)
    xp.log(row, out=row)
    xp.subtract(row, shifted, out=shifted)
    xp.equal(labels, 0, out=silent)
    xp.copyto(shifted, 0, where=silent)  # a label of zero times an infinite loss is nothing
    xp.multiply(shifted, labels, out=shifted)
    xp.sum(shifted, axis=axis, out=out)


def _cross_entropy_reference(xp: Any, logits: Any, labels: Any, *, axis: int) -> Any:
    logits, labels = _floats(xp, logits, labels)
    shifted = logits - xp.max(logits, axis=axis, keepdims=True)
    losses = xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True)) - shifted
    return xp.sum(xp.where(labels == 0, xp.zeros_like(losses), losses) * labels, axis=axis)


SOFTMAX_CROSS_ENTROPY = (
    Kernel(
        "in scratch", compute=allocating(_cross_entropy_into, _per_example, _cross_entropy_scratch),
        into=_cross_entropy_into, scratch=_cross_entropy_scratch, namespaces=NUMPY_LIKE, infallible=True,
    ),
    reference(_cross_entropy_reference),
)  # fmt: skip


# --- its derivative ----------------------------------------------------------------------------------


def _both(logits: Any, labels: Any, *, axis: int) -> tuple[Any, Any]:
    return logits.shape, _float_dtype(logits, labels)


def _gradient_scratch(avals: Arrays, *, axis: int) -> Scratch:
    return ((_kept(avals[0].shape, axis), _float_dtype(*avals)),)


def _gradient_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, axis: int) -> None:
    (logits, labels), (out,), (row,) = arrays, outs, scratch
    _softmax_into(xp, (logits,), outs, scratch, axis=axis)
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
