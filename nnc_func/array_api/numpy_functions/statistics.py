"""NumPy's statistics: quantiles, weighted means, covariances, histograms, running sums."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import normalise_axis

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _running(name: str) -> Callable[..., Any]:
    def running(xp: ArrayNamespace, /, *, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        return getattr(xp, name)(flat(xp, a) if axis is None else a, axis=0 if axis is None else axis, dtype=dtype)

    return running


def _ptp(xp: ArrayNamespace, /, *, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return xp.subtract(xp.max(a, axis=axis, keepdims=keepdims), xp.min(a, axis=axis, keepdims=keepdims))


def fractions(q: Any, whole: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Parts of one in the place of parts of a whole, in C order, and the shape that they had.

    Examples
    --------
    >>> fractions([25, 50], 100)
    ((0.25, 0.5), (2,))
    """
    given = np.asarray(q, np.float64) / whole
    return tuple(given.ravel().tolist()), given.shape


def _quantiles(whole: float) -> Callable[..., Any]:
    """``quantile``, or ``percentile`` as parts of a hundred; several of them lie along new first axes."""

    def quantile(
        xp: ArrayNamespace, /, *, a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
    ) -> Any:
        parts, shape = fractions(q, whole)
        given = parts if shape else parts[0]
        found = xp.ops.quantile(a, q=given, axis=axis, method=method, keepdims=keepdims)
        return xp.reshape(found, (*shape, *found.shape[1:])) if len(shape) > 1 else found

    return quantile


def _average(
    xp: ArrayNamespace, /, *, a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    x = xp.asarray(a)
    x = x if kind_of(x.dtype) in "fc" else xp.astype(x, np.float64)
    if weights is None:
        found = xp.mean(x, axis=axis, keepdims=keepdims)
        count = x.size // found.size if found.size else 0
        return (found, xp.full_like(found, count)) if returned else found
    w = _weights(xp, x, axis, xp.asarray(weights))
    total = xp.sum(xp.broadcast_to(w, x.shape), axis=axis, keepdims=keepdims)
    found = xp.divide(xp.sum(xp.multiply(x, w), axis=axis, keepdims=keepdims), total)
    return (found, xp.astype(total, found.dtype)) if returned else found


def _weights(xp: ArrayNamespace, x: Any, axis: Any, weights: Any) -> Any:
    """Weights of axes, with ones for the other axes."""
    axes = [normalise_axis(i, x.ndim) for i in (axis if isinstance(axis, tuple) else (axis or 0,))]
    if tuple(weights.shape) == tuple(x.shape):
        return weights
    if axis is None or tuple(weights.shape) != tuple(x.shape[i] for i in axes):
        raise ShapeError(f"average: weights of shape {weights.shape} do not fit axes {axis} of shape {x.shape}")
    ordered = xp.permute_dims(weights, tuple(int(i) for i in np.argsort(axes)))
    return xp.reshape(ordered, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


def _cov(
    xp: ArrayNamespace, /, *, m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    rows = [_variables(xp, each, rowvar, dtype) for each in (m, y) if each is not None]
    x = xp.concat(rows, axis=0) if len(rows) > 1 else rows[0]
    x = xp.subtract(x, xp.mean(x, axis=1, keepdims=True))
    free = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    product = xp.matmul(x, xp.matrix_transpose(xp.conj(x) if x.dtype.kind == "c" else x))
    found = xp.divide(product, float(free)) if free > 0 else xp.full_like(product, np.nan)
    return xp.reshape(found, ()) if found.shape == (1, 1) else found


def _variables(xp: ArrayNamespace, m: Any, rowvar: bool, dtype: Any) -> Any:
    x = xp.asarray(m)
    if x.ndim > 2:
        raise ShapeError(f"covariances are of vectors and matrices, given shape {x.shape}")
    x = xp.astype(x, np.result_type(x.dtype, np.float64) if dtype is None else dtype)
    if x.ndim < 2:
        return xp.reshape(x, (1, -1))
    return x if rowvar else xp.matrix_transpose(x)


def _corrcoef(xp: ArrayNamespace, /, *, x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    c = _cov(xp, m=x, y=y, rowvar=rowvar, dtype=dtype)
    if c.ndim == 0:
        return xp.divide(c, c)
    spread = xp.sqrt(xp.real(xp.linalg.diagonal(c)))
    found = xp.divide(xp.divide(c, spread[:, None]), spread[None, :])
    if found.dtype.kind == "c":
        return found
    return xp.ops.clip(found, min=-1, max=1)


# --- counts ---------------------------------------------------------------------------------------------------


def _bincount(xp: ArrayNamespace, /, *, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    given = (x,) if weights is None else (x, xp.astype(xp.asarray(weights), np.float64))
    found = xp.ops.bincount(*given)
    missing = minlength - found.shape[0]
    return found if missing <= 0 else xp.ops.pad(found, widths=((0, missing),))


def _histogram(
    xp: ArrayNamespace, /, *, a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    if isinstance(bins, str):
        raise OperatorError(f"numpy.histogram with bins={bins!r} does not work on tensors; say how many, or the edges")
    if np.ndim(bins) == 0:
        given = (flat(xp, a),) if weights is None else (flat(xp, a), flat(xp, weights))
        counts, edges = xp.ops.histogram(*given, bins=int(bins), range=range)
    else:
        edges = xp.asarray(bins)
        counts = _between(xp, flat(xp, a), edges, weights)
    if density:
        counts = xp.astype(counts, np.float64)
        counts = xp.divide(xp.divide(counts, xp.diff(edges)), xp.sum(counts))
    return counts, edges


def _between(xp: ArrayNamespace, x: Any, edges: Any, weights: Any) -> Any:
    """How many elements lie between neighbouring edges, or the sum of their weights; the last edge is inside."""
    order = xp.argsort(x)
    ordered = xp.take(x, order, axis=0)
    ends = [xp.searchsorted(ordered, edges[:-1], side="left"), xp.searchsorted(ordered, edges[-1:], side="right")]
    below = xp.concat(ends, axis=0)
    if weights is None:
        return xp.diff(below)
    sums = xp.cumulative_sum(xp.take(flat(xp, weights), order, axis=0), include_initial=True)
    return xp.diff(xp.take(sums, below, axis=0))


def _bin_edges(xp: ArrayNamespace, /, *, a: Any, **params: Any) -> Any:
    return _histogram(xp, a=a, **params)[1]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cumsum": _running("cumulative_sum"), "cumprod": _running("cumulative_prod"), "ptp": _ptp,
    "quantile": _quantiles(1.0), "percentile": _quantiles(100.0), "average": _average, "cov": _cov,
    "corrcoef": _corrcoef, "bincount": _bincount, "histogram": _histogram, "histogram_bin_edges": _bin_edges,
}  # fmt: skip
