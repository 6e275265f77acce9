"""Functions of NumPy's whose parameters mean something else than those of the standard's: `OWN`, by name."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nnc_func.array_api.nan_functions import NAN_FUNCTIONS
from nnc_func.errors import ShapeError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _reshape(xp: ArrayNamespace, *, a: Any, shape: Any) -> Any:
    return xp.reshape(a, shape)


def _ravel(xp: ArrayNamespace, *, a: Any) -> Any:
    return xp.reshape(a, (-1,))


def _transpose(xp: ArrayNamespace, *, a: Any, axes: Any = None) -> Any:
    return xp.ops.permute_dims(a, axes=axes)


def _swapaxes(xp: ArrayNamespace, *, a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return xp.permute_dims(a, order)


def _squeeze(xp: ArrayNamespace, *, a: Any, axis: Any = None) -> Any:
    return xp.squeeze(a, tuple(i for i, n in enumerate(a.shape) if n == 1) if axis is None else axis)


def _take(xp: ArrayNamespace, *, a: Any, indices: Any, axis: int | None = None) -> Any:
    return xp.take(_ravel(xp, a=a), indices, axis=0) if axis is None else xp.take(a, indices, axis=axis)


def _where(xp: ArrayNamespace, *, condition: Any, **choices: Any) -> Any:
    return xp.where(condition, choices["x"], choices["y"]) if choices else xp.nonzero(condition)


def _clip(xp: ArrayNamespace, *, a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> Any:
    low, high = (first if second is None else second for first, second in ((a_min, min), (a_max, max)))
    found = xp.asarray(a)
    found = found if low is None else xp.maximum(found, low)
    return found if high is None else xp.minimum(found, high)


def _round(xp: ArrayNamespace, *, a: Any, decimals: int = 0) -> Any:
    found, scale = xp.asarray(a), 10.0**decimals
    if found.dtype.kind in "iu":
        tens = 10 ** max(-decimals, 0)
        return found if tens == 1 else xp.astype(xp.round(found / tens), found.dtype) * tens
    return xp.round(a) if decimals == 0 else xp.divide(xp.round(xp.multiply(a, scale)), scale)


def _dot(xp: ArrayNamespace, *, a: Any, b: Any) -> Any:
    a, b = map(xp.asarray, (a, b))
    if a.ndim == 0 or b.ndim == 0:
        return xp.multiply(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return xp.matmul(a, b)
    return xp.tensordot(a, b, axes=((-1,), (-2 if b.ndim > 1 else -1,)))


def _inner(xp: ArrayNamespace, *, a: Any, b: Any) -> Any:
    a, b = map(xp.asarray, (a, b))
    return xp.multiply(a, b) if a.ndim == 0 or b.ndim == 0 else xp.tensordot(a, b, axes=((-1,), (-1,)))


def _vdot(xp: ArrayNamespace, *, a: Any, b: Any) -> Any:
    return xp.vecdot(xp.reshape(xp.asarray(a), (-1,)), xp.reshape(xp.asarray(b), (-1,)))


def _outer(xp: ArrayNamespace, *, a: Any, b: Any) -> Any:
    return xp.linalg.outer(*(xp.reshape(xp.asarray(x), (-1,)) for x in (a, b)))


def _running(name: str) -> Callable[..., Any]:
    def running(xp: ArrayNamespace, *, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x = xp.asarray(a)
        return getattr(xp, name)(xp.reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)

    return running


def _stacked(axis: int, least: int) -> Callable[..., Any]:
    """``hstack`` and ``vstack``: vectors are rows of a matrix that is stacked, or joined end to end."""

    def stacked(xp: ArrayNamespace, *, tup: Any) -> Any:
        found = [xp.asarray(x) for x in tup]
        found = [xp.reshape(x, (*(1,) * (least - x.ndim), *x.shape)) if x.ndim < least else x for x in found]
        return xp.concat(found, axis=0 if found[0].ndim == 1 else axis)

    return stacked


def _sorted(name: str) -> Callable[..., Any]:
    """``sort`` or ``argsort``, of the flattened tensor where the axis is None."""

    def ordered(xp: ArrayNamespace, *, a: Any, axis: int | None = -1, stable: bool = True) -> Any:
        x = xp.asarray(a)
        flat = axis is None
        return getattr(xp, name)(xp.reshape(x, (-1,)) if flat else x, axis=-1 if flat else axis, stable=stable)

    return ordered


def _diagonal(xp: ArrayNamespace, *, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return xp.linalg.diagonal(xp.moveaxis(xp.asarray(a), (axis1, axis2), (-2, -1)), offset=offset)


def _trace(xp: ArrayNamespace, *, a: Any, dtype: Any = None, **which: int) -> Any:
    return xp.sum(_diagonal(xp, a=a, **which), axis=-1, dtype=dtype)


def _norm(xp: ArrayNamespace, *, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = xp.asarray(x)
    over = tuple(range(x.ndim)) if axis is None else axis
    if ord is not None and isinstance(over, tuple) and len(over) == 2:
        moved = xp.moveaxis(x, over, (-2, -1))
        found = xp.linalg.matrix_norm(moved, ord=ord, keepdims=keepdims)
        return xp.moveaxis(found, (-2, -1), over) if keepdims else found
    if ord is not None and axis is None and x.ndim > 2:
        raise ShapeError(f"norm with ord={ord!r} wants a vector or a matrix, given shape {x.shape}")
    return xp.linalg.vector_norm(x, axis=over, keepdims=keepdims, ord=2 if ord is None else ord)


OWN: Mapping[str, Callable[..., Any]] = {
    **NAN_FUNCTIONS,
    "reshape": _reshape, "ravel": _ravel, "transpose": _transpose, "swapaxes": _swapaxes, "squeeze": _squeeze,
    "take": _take, "where": _where, "clip": _clip, "round": _round, "dot": _dot, "inner": _inner, "vdot": _vdot,
    "outer": _outer, "cumsum": _running("cumulative_sum"), "cumprod": _running("cumulative_prod"),
    "hstack": _stacked(1, 1), "vstack": _stacked(0, 2), "linalg.norm": _norm,
    "shape": lambda xp, *, a: a.shape, "ndim": lambda xp, *, a: a.ndim,
    "size": lambda xp, *, a, axis=None: a.size if axis is None else a.shape[axis],
    "diagonal": _diagonal, "trace": _trace, "sort": _sorted("sort"), "argsort": _sorted("argsort"),
}  # fmt: skip
