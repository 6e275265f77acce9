"""NumPy's reductions that pass over NaN, on tensors: ``numpy.nanmean(t)`` and its like."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _missing(xp: ArrayNamespace, a: Any, dtype: Any) -> tuple[Any, Any]:
    """The tensor, and where it is NaN; integers and booleans are so nowhere."""
    x = xp.asarray(a) if dtype is None else xp.astype(a, dtype)
    return x, xp.isnan(x) if x.dtype.kind in "fc" else xp.zeros_like(x, dtype=xp.bool)


def _filled(name: str, fill: float) -> Callable[..., Any]:
    """A reduction with NaN replaced by what does not matter to it."""

    def reduced(xp: ArrayNamespace, *, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        x, missing = _missing(xp, a, dtype)
        given = xp.where(missing, x.dtype.type(fill).item(), x) if x.dtype.kind in "fc" else x
        return getattr(xp, name)(given, axis=axis, keepdims=keepdims)

    return reduced


def _extreme(name: str, fill: float) -> Callable[..., Any]:
    """As `_filled`; NaN where there is nothing else."""

    def reduced(xp: ArrayNamespace, *, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x, missing = _missing(xp, a, None)
        if x.dtype.kind not in "fc":
            return getattr(xp, name)(x, axis=axis, keepdims=keepdims)
        found = getattr(xp, name)(xp.where(missing, fill, x), axis=axis, keepdims=keepdims)
        return xp.where(xp.all(missing, axis=axis, keepdims=keepdims), xp.nan, found)

    return reduced


def _mean(xp: ArrayNamespace, *, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    x, missing = _missing(xp, a, dtype)
    total = xp.sum(xp.where(missing, 0, x), axis=axis, keepdims=keepdims)
    return xp.divide(total, _count(xp, missing, total, axis, keepdims))


def _count(xp: ArrayNamespace, missing: Any, like: Any, axis: Any, keepdims: bool) -> Any:
    count = xp.count_nonzero(xp.logical_not(missing), axis=axis, keepdims=keepdims)
    return xp.astype(count, like.dtype) if like.dtype.kind in "fc" else count


def _variance(
    xp: ArrayNamespace, *, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Any:
    x, missing = _missing(xp, a, dtype)
    apart = xp.abs(xp.subtract(x, _mean(xp, a=x, axis=axis, keepdims=True)))
    total = xp.sum(xp.where(missing, 0.0, xp.square(apart)), axis=axis, keepdims=keepdims)
    return xp.divide(total, xp.subtract(_count(xp, missing, total, axis, keepdims), ddof))


def _deviation(xp: ArrayNamespace, **params: Any) -> Any:
    return xp.sqrt(_variance(xp, **params))


NAN_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "nansum": _filled("sum", 0.0),
    "nanprod": _filled("prod", 1.0),
    "nanmax": _extreme("max", float("-inf")),
    "nanmin": _extreme("min", float("inf")),
    "nanmean": _mean,
    "nanvar": _variance,
    "nanstd": _deviation,
}
