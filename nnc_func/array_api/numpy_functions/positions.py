"""NumPy's functions of positions: taking, choosing, ordering, indices of shapes."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.shapes import normalise_axis

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _take(xp: ArrayNamespace, /, *, a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    x, indices = xp.asarray(a) if axis is not None else flat(xp, a), xp.asarray(indices)
    at = normalise_axis(axis or 0, x.ndim)
    if mode == "wrap":
        indices = xp.remainder(indices, x.shape[at])
    elif mode == "clip":
        indices = xp.ops.clip(indices, min=0, max=x.shape[at] - 1)
    elif mode != "raise":
        raise OperatorError(f"take: mode is 'raise', 'wrap' or 'clip', given {mode!r}")
    return xp.ops.take(x, indices, axis=at)


def _where(xp: ArrayNamespace, /, *, condition: Any, **choices: Any) -> Any:
    return xp.where(condition, choices["x"], choices["y"]) if choices else xp.nonzero(condition)


def _flatnonzero(xp: ArrayNamespace, /, *, a: Any) -> Any:
    return xp.nonzero(flat(xp, a))[0]


def _extract(xp: ArrayNamespace, /, *, condition: Any, arr: Any) -> Any:
    return flat(xp, arr)[xp.not_equal(flat(xp, condition), 0)]


def _compress(xp: ArrayNamespace, /, *, condition: Any, a: Any, axis: int | None = None) -> Any:
    x = xp.asarray(a) if axis is not None else flat(xp, a)
    return xp.take(x, _flatnonzero(xp, a=condition), axis=normalise_axis(axis or 0, x.ndim))


def _choose(xp: ArrayNamespace, /, *, a: Any, choices: Any) -> Any:
    numbers, *some = xp.broadcast_arrays(xp.asarray(a), *map(xp.asarray, choices))
    return xp.take_along_axis(xp.stack(some), xp.expand_dims(numbers, 0), axis=0)[0]


def _select(xp: ArrayNamespace, /, *, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(f"select wants a choice for each condition, given {len(choicelist)} for {len(condlist)}")
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = xp.where(condition, choice, found)
    return found


# --- order ----------------------------------------------------------------------------------------------------


def _sorted(name: str) -> Callable[..., Any]:
    """``sort`` or ``argsort``, of the flattened tensor where the axis is None; always stable, whatever the kind."""

    def ordered(
        xp: ArrayNamespace, /, *, a: Any, axis: int | None = -1, kind: str | None = None, stable: bool = True
    ) -> Any:
        return getattr(xp, name)(flat(xp, a) if axis is None else a, axis=-1 if axis is None else axis)

    return ordered


def _partitioned(name: str) -> Callable[..., Any]:
    """``partition`` or ``argpartition``: what is sorted is partitioned at every position."""
    ordered = _sorted(name)

    def partitioned(xp: ArrayNamespace, /, *, a: Any, kth: Any, axis: int | None = -1) -> Any:
        return ordered(xp, a=a, axis=axis)

    return partitioned


def _lexsort(xp: ArrayNamespace, /, *, keys: Any, axis: int = -1) -> Any:
    first, *others = [xp.asarray(key) for key in keys]
    order = xp.argsort(first, axis=axis)
    for key in others:
        step = xp.argsort(xp.take_along_axis(key, order, axis=axis), axis=axis)
        order = xp.take_along_axis(order, step, axis=axis)
    return order


def _digitize(xp: ArrayNamespace, /, *, x: Any, bins: Any, right: bool = False) -> Any:
    edges, side = np.asarray(bins), "left" if right else "right"
    steps = np.diff(edges)
    if not ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError("bins must be monotonically increasing or decreasing")
    if (steps >= 0).all():
        return xp.searchsorted(edges, x, side=side)
    return xp.subtract(len(edges), xp.searchsorted(edges[::-1].copy(), x, side=side))


# --- indices --------------------------------------------------------------------------------------------------


def _ravel_multi_index(xp: ArrayNamespace, /, *, multi_index: Any, dims: Any) -> Any:
    return xp.ops.ravel_multi_index(*multi_index, shape=tuple(dims) if np.ndim(dims) else (dims,))


def _unravel_index(xp: ArrayNamespace, /, *, indices: Any, shape: Any) -> Any:
    found, rest = [], xp.asarray(indices)
    for extent in reversed((shape,) if isinstance(shape, int) else tuple(shape)):
        found.append(xp.remainder(rest, extent))
        rest = xp.floor_divide(rest, extent)
    return tuple(reversed(found))


def _of_shape(name: str, rank: int | None = 2) -> Callable[..., Any]:
    """``tril_indices_from`` and its like: indices that the shape alone decides."""

    def indices(xp: ArrayNamespace, /, *, arr: Any, **params: Any) -> Any:
        shape = tuple(arr.shape)
        if rank not in (None, len(shape)):
            raise ShapeError(f"{name}_from wants a matrix, given shape {shape}")
        if rank is None and (len(shape) < 2 or len({*shape}) > 1):
            raise ShapeError(f"{name}_from wants equal extents along two axes or more, given shape {shape}")
        given = (shape[0], len(shape)) if rank is None else (shape[0],)
        columns = {} if rank is None else {"m": shape[1]}
        return tuple(map(xp.asarray, getattr(np, name)(*given, **params, **columns)))

    return indices


def _ix(xp: ArrayNamespace, /, *args: Any) -> Any:
    found = []
    for i, given in enumerate(args):
        x = xp.asarray(given)
        x = xp.nonzero(x)[0] if x.dtype.kind == "b" else x
        found.append(xp.reshape(x, (*(1,) * i, -1, *(1,) * (len(args) - i - 1))))
    return tuple(found)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "take": _take, "where": _where, "flatnonzero": _flatnonzero, "extract": _extract, "compress": _compress,
    "choose": _choose, "select": _select, "sort": _sorted("sort"), "argsort": _sorted("argsort"),
    "partition": _partitioned("sort"), "argpartition": _partitioned("argsort"), "lexsort": _lexsort,
    "digitize": _digitize, "ravel_multi_index": _ravel_multi_index, "unravel_index": _unravel_index, "ix_": _ix,
    "tril_indices_from": _of_shape("tril_indices"), "triu_indices_from": _of_shape("triu_indices"),
    "diag_indices_from": _of_shape("diag_indices", None),
}  # fmt: skip
