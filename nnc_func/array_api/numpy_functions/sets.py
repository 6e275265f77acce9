"""NumPy's sets: sorted vectors of distinct elements. Their shapes depend on the elements, which must be known."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.facets.dtypes import kind_of

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _unique(
    xp: ArrayNamespace, /, *, ar: Any, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    values, indices, inverse, counts = xp.unique_all(ar)
    missing = int(xp.count_nonzero(xp.isnan(values))) if kind_of(values.dtype) in "fc" and equal_nan else 0
    if missing > 1:  # they are last, and one for NumPy
        kept = values.shape[0] - missing + 1
        values, indices = values[:kept], indices[:kept]
        inverse = xp.minimum(inverse, kept - 1)
        counts = xp.concat([counts[: kept - 1], xp.sum(counts[kept - 1 :], keepdims=True)], axis=0)
    some = [
        each for each, wanted in ((indices, return_index), (inverse, return_inverse), (counts, return_counts)) if wanted
    ]
    return (values, *some) if some else values


def _sorted_union(xp: ArrayNamespace, first: Any, second: Any, unique: bool) -> Any:
    """The elements of two sets, in order: what is in both stands there twice."""
    some = [flat(xp, x) if unique else _unique(xp, ar=x) for x in (first, second)]
    return xp.sort(xp.concat(some, axis=0))


def _intersect1d(xp: ArrayNamespace, /, *, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    both = _sorted_union(xp, ar1, ar2, assume_unique)
    return both[:-1][xp.equal(both[1:], both[:-1])]


def _union1d(xp: ArrayNamespace, /, *, ar1: Any, ar2: Any) -> Any:
    return _unique(xp, ar=xp.concat([xp.asarray(ar1), xp.asarray(ar2)], axis=None))


def _setdiff1d(xp: ArrayNamespace, /, *, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    first = flat(xp, ar1) if assume_unique else _unique(xp, ar=ar1)
    return first[xp.isin(first, ar2, invert=True)]


def _setxor1d(xp: ArrayNamespace, /, *, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    both = _sorted_union(xp, ar1, ar2, assume_unique)
    end = xp.ones((1,), dtype=xp.bool)
    differs = xp.concat([end, xp.not_equal(both[1:], both[:-1]), end] if both.shape[0] else [end[:0], end], axis=0)
    return both[xp.logical_and(differs[1:], differs[:-1])]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "unique": _unique, "intersect1d": _intersect1d, "union1d": _union1d, "setdiff1d": _setdiff1d,
    "setxor1d": _setxor1d,
}  # fmt: skip
