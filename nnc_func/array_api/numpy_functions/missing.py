"""NumPy's functions that pass over NaN: ``numpy.nanmean(t)`` and its like."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.array_api.numpy_functions.statistics import fractions
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import normalise_axes, reduced

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _missing(xp: ArrayNamespace, a: Any, dtype: Any) -> tuple[Any, Any]:
    """The tensor, and where it is NaN; integers and booleans are so nowhere."""
    x = xp.asarray(a) if dtype is None else xp.astype(a, dtype)
    return x, xp.isnan(x) if kind_of(x.dtype) in "fc" else xp.zeros_like(x, dtype=xp.bool)


def _filled(name: str, fill: float) -> Callable[..., Any]:
    """A reduction with NaN replaced by what does not matter to it."""

    def reduced(xp: ArrayNamespace, /, *, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        x, missing = _missing(xp, a, dtype)
        given = xp.where(missing, x.dtype.type(fill).item(), x) if kind_of(x.dtype) in "fc" else x
        return getattr(xp, name)(given, axis=axis, keepdims=keepdims)

    return reduced


def _extreme(name: str, fill: float) -> Callable[..., Any]:
    """As `_filled`; NaN where there is nothing else."""

    def reduced(xp: ArrayNamespace, /, *, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x, missing = _missing(xp, a, None)
        if kind_of(x.dtype) not in "fc":
            return getattr(xp, name)(x, axis=axis, keepdims=keepdims)
        found = getattr(xp, name)(xp.where(missing, fill, x), axis=axis, keepdims=keepdims)
        return xp.where(xp.all(missing, axis=axis, keepdims=keepdims), xp.nan, found)

    return reduced


def _mean(xp: ArrayNamespace, /, *, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    x, missing = _missing(xp, a, dtype)
    total = xp.sum(xp.where(missing, 0, x), axis=axis, keepdims=keepdims)
    return xp.divide(total, _count(xp, missing, total, axis, keepdims))


def _count(xp: ArrayNamespace, missing: Any, like: Any, axis: Any, keepdims: bool) -> Any:
    count = xp.count_nonzero(xp.logical_not(missing), axis=axis, keepdims=keepdims)
    return xp.astype(count, like.dtype) if kind_of(like.dtype) in "fc" else count


def _variance(
    xp: ArrayNamespace, /, *, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Any:
    x, missing = _missing(xp, a, dtype)
    apart = xp.abs(xp.subtract(x, _mean(xp, a=x, axis=axis, keepdims=True)))
    total = xp.sum(xp.where(missing, 0.0, xp.square(apart)), axis=axis, keepdims=keepdims)
    return xp.divide(total, xp.subtract(_count(xp, missing, total, axis, keepdims), ddof))


def _deviation(xp: ArrayNamespace, /, **params: Any) -> Any:
    return xp.sqrt(_variance(xp, **params))


def _running(name: str, fill: float) -> Callable[..., Any]:
    def running(xp: ArrayNamespace, /, *, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x, missing = _missing(xp, a, dtype)
        given = xp.where(missing, x.dtype.type(fill).item(), x) if kind_of(x.dtype) in "fc" else x
        return getattr(xp, name)(flat(xp, given) if axis is None else given, axis=0 if axis is None else axis)

    return running


def _position(name: str, fill: float) -> Callable[..., Any]:
    """Where the extreme is. Nothing but NaN raises where its elements are known, and gives 0 in a graph."""

    def position(xp: ArrayNamespace, /, *, a: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        x, missing = _missing(xp, a, None)
        if kind_of(x.dtype) == "f":
            empty = xp.any(xp.all(missing, axis=axis))
            if xp.owner.concrete(empty) is not None and bool(empty):
                raise ValueError("All-NaN slice encountered")
            x = xp.where(missing, fill, x)
        return getattr(xp, name)(x, axis=axis, keepdims=keepdims)

    return position


# --- order statistics -----------------------------------------------------------------------------------------


def _quantiles(whole: float) -> Callable[..., Any]:
    """As ``quantile``; NaN where there is nothing else."""

    def quantile(
        xp: ArrayNamespace, /, *, a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
    ) -> Any:
        x = xp.asarray(a)
        parts, shape = fractions(q, whole)
        if kind_of(x.dtype) != "f" or not known(x.size) or not x.size:
            found = [xp.ops.quantile(x, q=each, axis=axis, method=method, keepdims=keepdims) for each in parts]
        else:
            found = _ordered_parts(xp, x, axis, parts, method)
            last = reduced(tuple(x.shape), axis=axis, keepdims=keepdims)
            found = [xp.reshape(each, last) for each in found]
        whole_shape = (*shape, *found[0].shape) if found else (*shape,)
        return xp.reshape(xp.stack(found), whole_shape) if shape else found[0]

    return quantile


def _ordered_parts(xp: ArrayNamespace, x: Any, axis: Any, parts: Any, method: str) -> list[Any]:
    """Quantiles along axes, by how many numbers there are beside NaN, which is last when sorted."""
    gone = normalise_axes(axis, x.ndim)
    kept = tuple(i for i in range(x.ndim) if i not in gone)
    flattened = xp.reshape(xp.permute_dims(x, (*kept, *gone)), (*(x.shape[i] for i in kept), -1))
    ordered = xp.sort(flattened, axis=-1)
    count = xp.count_nonzero(xp.logical_not(xp.isnan(flattened)), axis=-1, keepdims=True)
    return [_part(xp, ordered, xp.astype(xp.maximum(count, 1), x.dtype), each, method) for each in parts]


def _part(xp: ArrayNamespace, ordered: Any, count: Any, q: float, method: str) -> Any:
    if not 0 <= q <= 1:
        raise OperatorError(f"a quantile is a number from 0 to 1, given {q}")
    position = xp.multiply(xp.subtract(count, 1), q)
    low = xp.floor(position)
    beyond = xp.subtract(position, low)
    if method != "linear":
        some = {"lower": lambda: 0.0 * beyond, "higher": lambda: xp.ceil(beyond),
                "midpoint": lambda: 0.5 * xp.ceil(beyond), "nearest": lambda: xp.round(position) - low}  # fmt: skip
        if method not in some:
            raise OperatorError(f"method={method!r} is none of 'linear', {', '.join(map(repr, some))}")
        beyond = some[method]()
    first, second = (
        xp.take_along_axis(ordered, xp.astype(at, np.int64), axis=-1)
        for at in (low, xp.minimum(xp.add(low, 1), xp.subtract(count, 1)))
    )
    return xp.where(xp.equal(beyond, 0), first, xp.add(first, xp.multiply(xp.subtract(second, first), beyond)))


def _median(xp: ArrayNamespace, /, *, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _quantiles(1.0)(xp, a=a, q=0.5, axis=axis, keepdims=keepdims)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "nansum": _filled("sum", 0.0), "nanprod": _filled("prod", 1.0), "nanmax": _extreme("max", float("-inf")),
    "nanmin": _extreme("min", float("inf")), "nanmean": _mean, "nanvar": _variance, "nanstd": _deviation,
    "nancumsum": _running("cumulative_sum", 0.0), "nancumprod": _running("cumulative_prod", 1.0),
    "nanargmax": _position("argmax", float("-inf")), "nanargmin": _position("argmin", float("inf")),
    "nanmedian": _median, "nanquantile": _quantiles(1.0), "nanpercentile": _quantiles(100.0),
}  # fmt: skip
