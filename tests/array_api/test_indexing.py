"""Reading and writing by keys of the standard, of every dtype and rank (`array_api/indexing`, `facets/indexing`)."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import nnc_func as nnc
from tests.array_api.cases import ANY, array, narrowed
from tests.array_api.test_promotion import EVERY, PYTHONS, promoted

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
some = settings(max_examples=max(10, settings().max_examples))


def equal(found: Any, wanted: Any) -> None:
    value = found.numpy()
    assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(value, wanted, equal_nan=wanted.dtype.kind in "fc")


def as_of(stack: Any, key: Any) -> Any:
    """The key, NumPy's arrays in it as tensors."""
    if isinstance(key, tuple):
        return tuple(as_of(stack, k) for k in key)
    return stack.asarray(key) if isinstance(key, np.ndarray) else key


def masks(draw: Any, a: Any) -> Any:
    """Masks of all axes, of the leading ones, of none; and of extent 0 in any axis."""
    of = a.shape[: draw(st.integers(0, a.ndim))]
    kept = tuple(n if draw(st.integers(0, 5)) else 0 for n in of)
    return array(draw, "b", kept)


def integers(draw: Any, a: Any) -> Any:
    """An integer or an array of integers for each axis, at least one of them an array; they broadcast."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    arrays = {draw(st.integers(0, a.ndim - 1))} | draw(st.sets(st.integers(0, a.ndim - 1)))
    key: list[Any] = []
    for axis, n in enumerate(a.shape):
        if axis in arrays:
            pool = {"i": range(-n, n)}
            key.append(array(draw, "i", narrowed(draw, shape), pool, draw(st.sampled_from(["int8", "int32", "int64"]))))
        else:
            key.append(draw(st.integers(-n, n - 1)))
    return tuple(key)


def keys(draw: Any, a: Any, newaxis: bool = True) -> Any:
    kinds = ["basic", "mask"] + (["integers"] if a.ndim and 0 not in a.shape else [])
    match draw(st.sampled_from(kinds)):
        case "mask":
            return masks(draw, a)
        case "integers":
            return integers(draw, a)
    return draw(npst.basic_indices(a.shape, allow_newaxis=newaxis, allow_ellipsis=True))


@BOTH
@some
@given(data=st.data())
def test_reading(stack: Any, data: Any) -> None:
    a = array(data.draw, ANY)
    key = keys(data.draw, a)
    x = stack.asarray(a)
    equal(x[key], np.asarray(a[key]))
    equal(x[as_of(stack, key)], np.asarray(a[key]))


@BOTH
@some
@given(data=st.data())
def test_writing(stack: Any, data: Any) -> None:
    """Numbers, and arrays of dtypes that can be promoted to that which is written into, or shapes that broadcast."""
    a = array(data.draw, ANY)
    key = keys(data.draw, a, newaxis=False)
    dtype = data.draw(st.sampled_from([d for d in EVERY if promoted(d, a.dtype.name) == a.dtype.name]))
    shown = np.asarray(a[key])
    repeats = isinstance(key, tuple) and any(isinstance(k, np.ndarray) for k in key)  # the same place again
    if repeats or data.draw(st.booleans()):
        kind = {"u": "i"}.get(np.dtype(dtype).kind, np.dtype(dtype).kind)
        value: Any = data.draw(st.sampled_from(PYTHONS[kind]))
        if data.draw(st.booleans()):
            value = np.asarray(value, dtype)
    else:
        value = array(data.draw, ANY, narrowed(data.draw, shown.shape), dtype=dtype)
    wanted = a.copy()
    wanted[key] = value
    for given_key in (key, as_of(stack, key)):
        x = stack.asarray(a)
        old = x[...]
        x[given_key] = as_of(stack, value)
        equal(x, wanted)
        equal(old, a)
        equal(x[given_key], np.asarray(wanted[key]))


@BOTH
@some
@given(data=st.data())
def test_masks_that_do_not_fit_are_index_errors(stack: Any, data: Any) -> None:
    a = array(data.draw, ANY)
    mask = array(data.draw, "b", tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))))
    fits = mask.ndim <= a.ndim and all(m in (n, 0) for m, n in zip(mask.shape, a.shape, strict=False))
    x = stack.asarray(a)
    for key in (mask, stack.asarray(mask)):
        if fits:
            size = (int(mask.sum()), *a.shape[mask.ndim :])
            assert x[key].shape == size
        else:
            with pytest.raises(IndexError):
                x[key]
            with pytest.raises(IndexError):
                stack.asarray(a)[key] = PYTHONS[{"u": "i"}.get(a.dtype.kind, a.dtype.kind)][0]


@BOTH
@some
@given(data=st.data())
def test_keys_that_do_not_fit_are_index_errors(stack: Any, data: Any) -> None:
    a = array(data.draw, ANY)
    n = a.shape[0] if a.ndim else 0
    for key in (n, -n - 1, (..., n, *[0] * a.ndim), (0,) * (a.ndim + 1), (..., ...), (slice(None),) * (a.ndim + 1)):
        with pytest.raises(IndexError):
            stack.asarray(a)[key]
        with pytest.raises(IndexError):
            stack.asarray(a)[key] = True


# --- take, and what stands along an axis --------------------------------------------------------------------------


@BOTH
@some
@given(data=st.data())
def test_taking_by_indices_of_every_dtype(stack: Any, data: Any) -> None:
    xp, a = stack.array_api, array(data.draw, ANY, least=1, side=1)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = a.shape[axis]
    unsigned = data.draw(st.booleans())
    dtype = data.draw(
        st.sampled_from(["uint8", "uint16", "uint32"] if unsigned else ["int8", "int16", "int32", "int64"])
    )
    pool = {"i": range(-n, n), "u": range(n)}
    indices = array(data.draw, "iu", (data.draw(st.integers(0, 4)),), pool, dtype)
    equal(xp.take(xp.asarray(a), xp.asarray(indices), axis=axis), np.take(a, indices, axis=axis))
    if a.ndim == 1:
        equal(xp.take(xp.asarray(a), xp.asarray(indices)), np.take(a, indices, axis=0))
    shape = list(a.shape)
    shape[axis] = data.draw(st.integers(0, 2 * n))
    for k in range(a.ndim):
        if k != axis % a.ndim and data.draw(st.integers(0, 3)) == 0:
            shape[k] = 1  # broadcasts
    along = array(data.draw, "iu", tuple(shape), pool, dtype)
    equal(xp.take_along_axis(xp.asarray(a), xp.asarray(along), axis=axis), np.take_along_axis(a, along, axis=axis))
    if axis == -1:
        equal(xp.take_along_axis(xp.asarray(a), xp.asarray(along)), np.take_along_axis(a, along, axis=-1))


@BOTH
@pytest.mark.parametrize("dtype", EVERY)
def test_what_is_not_zero(stack: Any, dtype: str) -> None:
    """Positions and counts, along each axis and all; and the positions of the largest and the smallest."""
    xp, kind = stack.array_api, np.dtype(dtype).kind
    a = np.array([[0, 1, 0, 3], [2, 0, 0, 1]], dtype)
    x = xp.asarray(a)
    with pytest.raises(ValueError, match="rank"):
        xp.nonzero(xp.ones((), dtype=dtype))
    for found, wanted in zip(xp.nonzero(x), np.nonzero(a), strict=True):
        equal(found, wanted)
    names = ("count_nonzero", "any", "all") + (("argmax", "argmin", "max", "min") if kind in "iuf" else ())
    for name in names:
        axes = [None, 0, -1] + ([] if name.startswith("arg") else [(0, 1), (-1, 0), (1,)])
        for axis in axes:
            for keepdims in (False, True):
                found = getattr(xp, name)(x, axis=axis, keepdims=keepdims)
                wanted = getattr(strict, name)(strict.asarray(a), axis=axis, keepdims=keepdims)
                equal(found, np.asarray(wanted))


@BOTH
@pytest.mark.parametrize("dtype", [d for d in EVERY if np.dtype(d).kind in "iuf"])
def test_positions_in_sorted_vectors(stack: Any, dtype: str) -> None:
    """Of tensors of any rank, and of Python's numbers; with a sorter, from either side."""
    xp = stack.array_api
    a = np.array([3, 1, 7, 1, 100], dtype)
    order = np.argsort(a, kind="stable")
    asks = (
        [np.array(v, dtype) for v in ([0, 1, 2, 101], [[1], [7]], [], 3)]
        + [3, 1]
        + ([2.5] if a.dtype.kind == "f" else [])
    )
    for side in ("left", "right"):
        for ask in asks:
            wanted = np.asarray(np.searchsorted(a[order], ask, side=side)).astype("int64")
            equal(xp.searchsorted(xp.asarray(a[order]), as_of(stack, ask), side=side), wanted)
            equal(xp.searchsorted(xp.asarray(a), as_of(stack, ask), side=side, sorter=xp.asarray(order)), wanted)


@BOTH
@pytest.mark.parametrize("dtype", EVERY)
def test_what_is_among_others(stack: Any, dtype: str) -> None:
    """Tensors and Python's numbers, on either side."""
    xp, a = stack.array_api, np.array([[0, 1], [3, 1]], dtype)
    number = PYTHONS[{"u": "i"}.get(a.dtype.kind, a.dtype.kind)][0]
    for x1, x2 in ((a, number), (number, a), (a, a[0]), (a[0, 1:], a), (a, a[:0])):
        for invert in (False, True):
            found = xp.isin(as_of(stack, x1), as_of(stack, x2), invert=invert)
            equal(found, np.asarray(np.isin(x1, x2, invert=invert)))
