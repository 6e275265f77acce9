"""What the standard says of NaN, of zeros and of no elements, in functions that are not elementwise (`array_api`)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

NAN, INF = math.nan, math.inf
STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
pytestmark = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
of_floats = pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])

OF_NOTHING = {"sum": 0, "prod": 1, "mean": NAN, "std": NAN, "var": NAN, "any": False, "all": True, "count_nonzero": 0}
REAL_ONLY = ("std", "var", "max", "min")


def taken(names: Any) -> Any:
    """Functions, each with the dtypes that the standard gives it."""
    given = [(n, d) for n in names for d in (FLOATS if n in REAL_ONLY else (*FLOATS, *COMPLEX))]
    return pytest.mark.parametrize(("name", "dtype"), given)


@taken(OF_NOTHING)
def test_reductions_of_nothing(stack: nnc.Stack, name: str, dtype: str) -> None:
    function = getattr(stack.array_api, name)
    for shape, axis in (((0,), None), ((2, 0), 1), ((0, 3), 0), ((2, 0, 3), (1, 2)), ((0,), 0)):
        found = function(stack.asarray(np.zeros(shape, dtype)), axis=axis).numpy()
        parts = (found.real, found.imag) if found.dtype.kind == "c" and name == "mean" else (found,)
        for part in parts:
            assert np.array_equal(part, np.full(part.shape, OF_NOTHING[name]), equal_nan=True)


@pytest.mark.parametrize("name", ["std", "var"])
def test_no_degrees_of_freedom_are_nan(stack: nnc.Stack, name: str) -> None:
    x = stack.asarray(np.ones((2, 3)))
    for axis, correction in ((None, 6), (None, 7.5), (0, 2), (1, 3), (1, 4)):
        found = getattr(stack.array_api, name)(x, axis=axis, correction=correction).numpy()
        assert np.isnan(found).all(), (axis, correction)


@taken(["sum", "prod", "mean", "std", "var", "max", "min", "cumulative_sum", "cumulative_prod"])
def test_nan_goes_through(stack: nnc.Stack, name: str, dtype: str) -> None:
    """Wherever it stands, beside infinities too; of running sums from there on."""
    function = getattr(stack.array_api, name)
    for at, other in itertools.product(range(5), (1.0, INF, -INF, 0.0)):
        x = np.full(5, other, dtype)
        x[at] = NAN
        with np.errstate(all="ignore"):
            found = function(stack.asarray(x), axis=0).numpy()
        assert np.isnan(found[at:] if name.startswith("cumulative") else found).all(), x


@of_floats
def test_nan_and_infinity_are_true(stack: nnc.Stack, dtype: str) -> None:
    for value in (NAN, INF, -INF):
        x = stack.asarray(np.array([value, 1], dtype))
        assert bool(stack.array_api.all(x))
        assert bool(stack.array_api.any(x[:1]))
        assert int(stack.array_api.count_nonzero(x)) == 2
        assert bool(stack.array_api.astype(x, "bool")[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_and_numbers_that_are_nan(stack: nnc.Stack, dtype: str) -> None:
    xp, x = stack.array_api, np.array([NAN, -INF, 0, INF], dtype)
    nan = np.array(NAN, dtype)
    assert np.array_equal(xp.clip(x, -1, 1).numpy(), np.array([NAN, -1, 0, 1], dtype), equal_nan=True)
    for low, high in ((nan, 1), (-1, nan), (nan, nan), (nan, None), (None, nan)):
        low, high = (xp.asarray(v) if v is nan else v for v in (low, high))
        assert np.isnan(xp.clip(x, low, high).numpy()).all()


@of_floats
def test_zeros_are_one_and_nans_are_many(stack: nnc.Stack, dtype: str) -> None:
    xp, x = stack.array_api, np.array([0.0, NAN, -0.0, NAN, 1.0, 0.0], dtype)
    values, counts = xp.unique_counts(x)
    assert counts.numpy().sum() == 6
    assert sorted(c for v, c in zip(values.numpy(), counts.numpy(), strict=True) if v == v) == [1, 3]
    assert int(xp.count_nonzero(xp.isnan(values))) == 2
    assert xp.unique_values(x).shape == (4,)
    assert xp.unique_inverse(x).values.shape == (4,)
    found = xp.unique_all(x)
    assert np.array_equal(found.values.numpy()[found.inverse_indices.numpy()], x, equal_nan=True)


def test_an_array_of_rank_zero_has_no_positions(stack: nnc.Stack) -> None:
    with pytest.raises(ValueError, match=r"nonzero|rank|axes"):
        stack.array_api.nonzero(stack.asarray(1.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_infinities_and_zeros(stack: nnc.Stack, dtype: str) -> None:
    xp, x = stack.array_api, stack.asarray(np.array([-INF, 0.0, INF, -0.0], dtype))
    assert (float(xp.max(x)), float(xp.min(x))) == (INF, -INF)
    assert (int(xp.argmax(x)), int(xp.argmin(x))) == (2, 0)
    assert np.array_equal(xp.sort(x).numpy(), [-INF, 0, 0, INF])
    assert np.array_equal(xp.argsort(x, stable=True).numpy(), [0, 1, 3, 2])
    assert np.array_equal(xp.argsort(x, stable=True, descending=True).numpy(), [2, 1, 3, 0])
    for empty in (xp.max, xp.min, xp.argmax, xp.argmin):
        with pytest.raises(ValueError, match=r"no elements|of none|nothing|empty|extent 0"):
            empty(xp.zeros((0,)))


@of_floats
def test_norms_of_what_is_not_finite(stack: nnc.Stack, dtype: str) -> None:
    xp = stack.array_api
    for order in (0, 1, 2, 3.5, -1, INF, -INF):
        x = np.array([1, INF, -2], dtype)
        with np.errstate(all="ignore"):
            found = xp.linalg.vector_norm(stack.asarray(x), ord=order).numpy()
            wanted = np.linalg.norm(x, ord=order)
        assert np.array_equal(found, wanted.astype(found.dtype), equal_nan=True), order
        assert found.dtype.kind == "f"
        if order != 0:
            x[2] = NAN
            with np.errstate(all="ignore"):
                assert np.isnan(xp.linalg.vector_norm(stack.asarray(x), ord=order).numpy()), order
    assert float(xp.linalg.vector_norm(stack.asarray(np.zeros(0, dtype)))) == 0


def test_matrices_of_no_elements(stack: nnc.Stack) -> None:
    xp, none = stack.array_api, stack.asarray(np.zeros((0, 0)))
    assert float(xp.linalg.det(none)) == 1
    sign, logarithm = xp.linalg.slogdet(none)
    assert (float(sign), float(logarithm)) == (1, 0)
    assert xp.linalg.inv(none).shape == (0, 0)
    assert float(xp.linalg.trace(none)) == 0
    assert np.array_equal(xp.matmul(xp.zeros((2, 0)), xp.zeros((0, 3))).numpy(), np.zeros((2, 3)))
    singular = stack.asarray(np.zeros((2, 2)))
    sign, logarithm = xp.linalg.slogdet(singular)
    assert (float(sign), float(logarithm)) == (0, -INF)
    assert float(xp.linalg.det(singular)) == 0


def test_ranges_have_the_extent_that_their_bounds_say(stack: nnc.Stack) -> None:
    xp = stack.array_api
    for bounds in ((0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (0.0, 1.0, 0.25), (1, 0, 1), (0, 1, 0.3)):
        start, stop, step = bounds
        assert xp.arange(*bounds).shape == (max(0, math.ceil((stop - start) / step)),)
    assert xp.linspace(0, 1, 0).shape == (0,)
    assert xp.linspace(2, 5, 1).numpy().tolist() == [2.0]
    for endpoint in (True, False):
        found = xp.linspace(-1.5, 3, 7, endpoint=endpoint).numpy()
        assert found[0] == -1.5
        assert bool(found[-1] == 3) is endpoint
