"""Neighbours by bits, which a GPU computes, are NumPy's (`device/kernels/neighbours`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnc_func.device.kernels.neighbours import next_after

EDGES = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 5e-324, 3.4e38, 6e-8, 65504.0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_they_are_numpys_at_the_edges(dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.float64(EDGES).astype(dtype)
        wanted = np.nextafter(x[:, None], x)
    wanted = np.where(x[:, None] == x, x, wanted)  # of zeros of float16 NumPy gives the first, the standard the second
    assert_same(next_after(np, x[:, None], x), wanted)


@given(st.floats(width=32), st.floats(width=32))
@example(-1e-45, 1.0)  # to the zero below
def test_they_are_numpys(a: float, b: float) -> None:
    x, y = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        assert_same(next_after(np, np.asarray(x), np.asarray(y)), np.asarray(np.nextafter(x, y)))


def test_arguments_of_several_dtypes_and_layouts() -> None:
    a, b = np.arange(12, dtype="float32").reshape(3, 4).T, np.arange(3, dtype="int8")[::-1]
    with np.errstate(all="ignore"):
        assert_same(next_after(np, a, b), np.nextafter(a, b.astype("float32"), dtype="float32"))


def assert_same(found: Any, wanted: Any) -> None:
    """The same numbers, signs of zeros too; any NaN is the same."""
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])
