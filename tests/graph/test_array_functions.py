"""Operators and composites with a name in NumPy give what NumPy gives (`graph/composites`, `graph/ops`).

Arguments are drawn from their samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import ExtentError, OperatorError, RunError, ShapeError
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.samples import arguments

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(3, settings().max_examples // 3))


def _at(a: Any, axis: int, indices: Any) -> tuple[Any, ...]:
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


def _written(x: Any, key: Any, values: Any, mode: str) -> Any:
    found = x.copy()
    if mode == "set":
        found[key] = values
    else:
        ufunc = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[mode]
        ufunc.at(found, key, values)
    return found


def _descending(x: Any, axis: int) -> Any:
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def _recurrence(a: Any, b: Any, *, axis: int) -> Any:
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    found = [np.zeros(b.shape[1:], np.result_type(a, b))]
    for factor, term in zip(a, b, strict=True):
        found.append(factor * found[-1] + term)
    return np.moveaxis(np.stack(found)[1:], 0, axis).astype(np.result_type(a, b))


def _top(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    order = _descending(x, axis) if largest else np.argsort(x, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis=axis), order


def _few(found: Any, size: int, n: int) -> Any:
    return np.resize(found, size) if n else found[:size]


def _nonzero(x: Any, *, size: int) -> Any:
    found = [i[:size] for i in np.nonzero(x)]
    return tuple(np.concatenate([i, np.zeros(size - len(i), "int64")]) for i in found)


def _extract(x: Any, mask: Any, *, size: int) -> Any:
    found = x[mask][:size]
    return np.concatenate([found, np.zeros(size - len(found), x.dtype)])


def _wide(found: Any, like: Any) -> Any:
    return np.asarray(found, np.result_type(like, np.float64) if like.dtype.kind != "f" else like.dtype)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def found(x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
        count = x.size if axis is None else np.prod([x.shape[a] for a in np.atleast_1d(np.array(axis, int))])
        wanted = np.asarray(function(x, axis=axis, ddof=correction, keepdims=keepdims))
        return wanted if count > correction else np.full_like(wanted, np.nan)

    return found


def _quantile(x: Any, *, q: Any, axis: Any, keepdims: bool, method: str) -> Any:
    gone = tuple(range(x.ndim)) if axis is None else axis
    if (axis == () and x.ndim) or not x.size:
        count = int(np.prod([x.shape[a] for a in np.atleast_1d(np.array(gone, int))]))
        if axis == ():
            lead = np.broadcast_to(x, (*np.shape(q), *x.shape))
            return _wide(lead, x)
        shape = np.sum(x, axis=axis, keepdims=keepdims).shape
        return _wide(np.full((*np.shape(q), *shape), np.nan if count == 0 else 0.0), x)
    values = x if x.dtype.kind == "f" else x.astype("float64")
    return _wide(np.quantile(values, np.array(q), axis=axis, keepdims=keepdims, method=method), x)


def _repeat(x: Any, counts: Any = None, *, repeats: Any = None, axis: Any = None, size: Any = None) -> Any:
    if counts is None:
        return np.repeat(x, repeats, axis)
    order = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(99, len(counts) - 1)])[:size]
    return np.take(x, order, axis)


def _uniques(x: Any, *, size: int) -> Any:
    values, where, which, counts = np.unique(x, True, True, True)
    fill = max(size - len(values), 0) if x.size else 0
    last = max(len(values) - 1, 0)
    return (
        np.concatenate([values[:size], np.repeat(values[last:], fill)]),
        where[:size],
        which.reshape(x.shape),
        np.concatenate([counts[:size], np.zeros(fill, "int64")]),
    )


ORACLES: dict[str, Callable[..., Any]] = {
    "moveaxis": np.moveaxis,
    "swapaxes": lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2),
    "flatten": np.ravel,
    "broadcast_arrays": lambda *xs: tuple(np.broadcast_arrays(*xs)),
    "unstack": lambda x, axis: tuple(np.moveaxis(x, axis, 0)),
    "rot90": np.rot90,
    "roll": np.roll,
    "repeat": _repeat,
    "diff": lambda x, *ends, n, axis: np.diff(x, n, axis, *ends),
    "pad_mode": lambda x, widths, mode: np.pad(x, widths, mode) if x.ndim else x,
    "zeros": np.zeros,
    "ones": np.ones,
    "empty": np.zeros,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "empty_like": np.zeros_like,
    "full_like": lambda x, value: np.full_like(x, value),
    "linspace": np.linspace,
    "eye": lambda n_rows, n_cols, k, dtype: np.eye(n_rows, n_cols, k, dtype),
    "meshgrid": lambda *xs, indexing: tuple(np.meshgrid(*xs, indexing=indexing)),
    "tril": np.tril,
    "triu": np.triu,
    "diag": np.diag,
    "sort": lambda x, axis, descending: np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis),
    "argsort": lambda x, axis, descending: _descending(x, axis) if descending else np.argsort(x, axis, kind="stable"),
    "searchsorted": lambda x, values, side: np.asarray(np.searchsorted(x, values, side)),
    "count_nonzero": lambda x, **params: np.asarray(np.count_nonzero(x, **params)),
    "nonzero": _nonzero,
    "argwhere": lambda x, size: np.stack(_nonzero(x, size=size), axis=1),
    "extract": _extract,
    "top_k": _top,
    "kth_value": lambda x, k, axis, keepdims: np.take(np.sort(x, axis), [k] if keepdims else k, axis),
    "isin": lambda x, values, invert: np.isin(x, values, invert=invert),
    "unique_values": lambda x, size: _uniques(x, size=size)[0],
    "unique_counts": lambda x, size: _uniques(x, size=size)[::3],
    "unique_inverse": lambda x, size: _uniques(x, size=size)[:3:2],
    "take_along_axis": np.take_along_axis,
    "put_along_axis": lambda x, i, values, axis, mode: _written(x, _at(x, axis, i), values, mode),
    "gather_nd": lambda x, indices: x[tuple(np.moveaxis(indices, -1, 0))],
    "scatter_nd": lambda x, i, updates, mode: _written(x, tuple(np.moveaxis(i, -1, 0)), updates, mode),
    "ravel_multi_index": lambda *indices, shape: np.asarray(
        np.ravel_multi_index(tuple(i % n for i, n in zip(indices, shape, strict=True)), shape)
    ),
    "cumulative_sum": lambda x, axis: np.cumsum(x, axis),
    "cumulative_prod": lambda x, axis: np.cumprod(x, axis),
    "cumulative_max": np.maximum.accumulate,
    "cumulative_min": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
    "linear_recurrence": _recurrence,
    "var": _spread(np.var),
    "std": _spread(np.std),
    "median": lambda x, axis, keepdims: _quantile(x, q=0.5, axis=axis, keepdims=keepdims, method="linear"),
    "quantile": _quantile,
    "bincount": lambda x, weights=None, length=0: np.bincount(
        x.reshape(-1), None if weights is None else weights.reshape(-1), length
    ).astype("int64" if weights is None else weights.dtype),
    "histogram": lambda x, bins, range: np.histogram(x, bins, range),
}
ROUNDED = {"var", "std", "median", "quantile", "bincount", "cumulative_prod", "cumulative_sum", "logcumsumexp"}


def _results(found: Any) -> list[Any]:
    return [*found] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", ORACLES)
@FEW
@given(data=st.data())
def test_it_gives_what_numpy_gives(name: str, data: Any) -> None:
    declared = COMPOSITES.get(name) or CATALOGUE[name]
    arrays, params = data.draw(arguments(declared))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # NumPy's, of means of nothing
        wanted = _results(ORACLES[name](*arrays, **params))
    found = _results(getattr(EAGER.ops, name)(*map(EAGER.asarray, arrays), **params))
    for one, other in zip(found, wanted, strict=True):
        if name in ROUNDED or name == "linear_recurrence":
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            close = {"float16": 4e-3, "float32": 1e-4}.get(str(one.dtype), 1e-11)
            np.testing.assert_allclose(one.numpy(), other, close, close)
        else:
            np.testing.assert_array_equal(one.numpy(), np.asarray(other), strict=name != "histogram")


# --- what depends on elements -------------------------------------------------------------------------------

VALUES = np.array([[3.0, 0.0, 1.0], [3.0, np.nan, 0.0]])


def test_extents_that_depend_on_elements_are_computed_at_once(stack: Any) -> None:
    x, ops = stack.asarray(VALUES), stack.ops
    for found, wanted in zip(ops.nonzero(x), np.nonzero(VALUES), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(ops.argwhere(x).numpy(), np.argwhere(VALUES))
    np.testing.assert_array_equal(ops.extract(x, x > 0).numpy(), VALUES[VALUES > 0])
    found = [each.numpy() for each in ops.unique_all(x)]
    wanted = np.unique(VALUES, True, True, True, equal_nan=False)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other.reshape(one.shape))
    counts = stack.asarray([2, 0, 1])
    np.testing.assert_array_equal(ops.repeat(x, counts, axis=1).numpy(), np.repeat(VALUES, [2, 0, 1], 1))
    np.testing.assert_array_equal(ops.bincount(counts).numpy(), [1, 1, 1])
    found, edges = ops.histogram(stack.asarray([1.0, 2.0, 4.0]), bins=3)
    np.testing.assert_array_equal(found.numpy(), [1, 1, 1])
    np.testing.assert_array_equal(edges.numpy(), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("size", [2, 9])
def test_with_a_size_they_are_known_to_a_program(size: int) -> None:
    x = LAZY.input("x", (4,), "float64")
    outputs = [*LAZY.ops.unique_counts(x, size=size), *LAZY.ops.nonzero(x, size=size)]
    found = LAZY.compile([x], outputs)(np.array([2.0, 0.0, 2.0, 1.0]))
    np.testing.assert_array_equal(found[0], np.array([0, 1, 2, 2, 2, 2, 2, 2, 2])[:size])
    np.testing.assert_array_equal(found[1], np.array([1, 1, 2, 0, 0, 0, 0, 0, 0])[:size])
    np.testing.assert_array_equal(found[2], np.array([0, 2, 3, 0, 0, 0, 0, 0, 0])[:size])


def test_without_a_size_a_program_is_refused_in_words() -> None:
    x, ops = LAZY.input("x", (4,), "int64"), LAZY.ops
    asks: list[Callable[[], Any]] = [
        lambda: ops.nonzero(x), lambda: ops.unique_values(x), lambda: ops.extract(x, x > 0),
        lambda: ops.repeat(x, x, axis=0), lambda: ops.bincount(x), lambda: ops.histogram(x),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(ExtentError, match=r"depends on the elements.*give (size|length|range)="):
            ask()


def test_a_number_that_bincount_cannot_count_is_refused(stack: Any) -> None:
    for wrong in (-1, 3):
        with pytest.raises(RunError, match="index 3 is outside"):
            stack.ops.bincount(stack.asarray([0, wrong]), length=3).numpy()


def test_nan_is_sorted_last_and_makes_quantiles_nan(stack: Any) -> None:
    x = stack.asarray([1.0, np.nan, -1.0])
    np.testing.assert_array_equal(stack.ops.sort(x).numpy(), [-1.0, 1.0, np.nan])
    np.testing.assert_array_equal(stack.ops.sort(x, descending=True).numpy(), [np.nan, 1.0, -1.0])
    np.testing.assert_array_equal(stack.ops.median(x).numpy(), np.nan)
    np.testing.assert_array_equal(stack.ops.cumulative_max(x, axis=0).numpy(), [1.0, np.nan, np.nan])


def test_equal_elements_keep_their_order(stack: Any) -> None:
    x = stack.asarray([1, 0, 1, 0])
    np.testing.assert_array_equal(stack.ops.argsort(x).numpy(), [1, 3, 0, 2])
    np.testing.assert_array_equal(stack.ops.argsort(x, descending=True).numpy(), [0, 2, 1, 3])
    np.testing.assert_array_equal(stack.ops.top_k(x, k=2)[1].numpy(), [0, 2])


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2)])
def test_the_derivative_of_a_cumulative_product_is_right_at_zeros(stack: Any, zeros: tuple[int, ...]) -> None:
    x = np.array([2.0, 3.0, -1.5, 0.5])
    x[[*zeros]] = 0.0
    found = stack.jacobian(lambda t: stack.ops.cumulative_prod(t, axis=0))(x).numpy()
    wanted = [[np.prod(np.delete(x, j)[:i]) if j <= i else 0.0 for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_derivative_of_a_deviation_of_nothing_is_zero(stack: Any) -> None:
    np.testing.assert_array_equal(stack.grad(stack.ops.std)(np.ones(3)).numpy(), np.zeros(3))


def test_unknown_extents() -> None:
    x, ops = LAZY.input("x", (None, 3), "float64"), LAZY.ops
    outputs = [
        ops.roll(x, shift=2, axis=0), ops.tril(x), ops.var(x, axis=0), ops.sort(x, axis=0),
        ops.cumulative_prod(x, axis=0), ops.flatten(x), ops.repeat(x, repeats=2, axis=0), ops.diff(x, axis=0),
        ops.eye(n_rows=x.shape[0]),
    ]  # fmt: skip
    value = np.arange(12.0).reshape(4, 3) % 5
    wanted = [
        np.roll(value, 2, 0), np.tril(value), np.var(value, 0), np.sort(value, 0), np.cumprod(value, 0),
        value.ravel(), np.repeat(value, 2, 0), np.diff(value, axis=0), np.eye(4),
    ]  # fmt: skip
    for found, other in zip(LAZY.compile([x], outputs)(value), wanted, strict=True):
        np.testing.assert_allclose(found, other, 1e-12)


def test_refusals(stack: Any) -> None:
    x, ops = stack.asarray(np.ones((2, 3))), stack.ops
    asks: list[tuple[Any, str, Callable[[], Any]]] = [
        (ShapeError, "as many destinations", lambda: ops.moveaxis(x, source=(0, 1), destination=0)),
        (ShapeError, "one axis twice", lambda: ops.moveaxis(x, source=(0, 0), destination=(0, 1))),
        (ShapeError, "a shift for each axis", lambda: ops.roll(x, shift=(1, 2, 3), axis=(0, 1))),
        (ShapeError, "a number for each element", lambda: ops.repeat(x, repeats=(1, 2), axis=1)),
        (OperatorError, "either repeats=", lambda: ops.repeat(x)),
        (OperatorError, "is none of 'edge'", lambda: ops.pad_mode(x, widths=((0, 0), (1, 1)), mode="mean")),
        (ShapeError, "sorted vector", lambda: ops.searchsorted(x, 1.0)),
        (OperatorError, "'left' or 'right'", lambda: ops.searchsorted(stack.asarray([1.0]), 1.0, side="up")),
        (ShapeError, "has no 4 elements", lambda: ops.top_k(x, k=4)),
        (ShapeError, "has no position 3", lambda: ops.kth_value(x, k=3)),
        (OperatorError, "from 0 to 1", lambda: ops.quantile(x, q=1.5)),
        (OperatorError, "1 part or more", lambda: ops.histogram(x, bins=0)),
        (ShapeError, "wants matrices", lambda: ops.tril(stack.asarray([1.0]))),
        (ShapeError, "one shape", lambda: ops.linear_recurrence(x, stack.asarray([1.0]), axis=0)),
    ]  # fmt: skip
    for kind, words, ask in asks:
        with pytest.raises(kind, match=words):
            ask()
