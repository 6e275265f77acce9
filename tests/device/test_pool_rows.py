"""Means along rows that lie innermost in memory are those of rows that lie otherwise (`device/kernels/pool_rows`)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels.pool_rows import AVERAGE_ALONG_ROWS, ROWS_INNERMOST
from nnc_func.errors import ShapeError

LAZY, EAGER = nnc.lazy(), nnc.eager()


@given(
    shape=st.tuples(*[st.integers(1, 5)] * 4),
    size=st.integers(1, 7),
    dilation=st.integers(1, 3),
    before=st.integers(0, 7),
    count_padding=st.booleans(),
    special=st.sampled_from([0.0, np.nan, np.inf]),
    seed=st.integers(0, 99),
)
def test_means_along_innermost_rows_are_the_same(
    shape: tuple[int, ...], size: int, dilation: int, before: int, count_padding: bool, special: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape).astype("float32")
    x.flat[random.integers(x.size)] = special
    before = min(before, dilation * (size - 1))
    params = {"window": (size, 1), "stride": (1, 1), "padding": ((before, dilation * (size - 1) - before), (0, 0)),
              "dilation": (dilation, 1), "count_padding": count_padding, "data_format": "NHWC"}  # fmt: skip
    try:
        wanted = EAGER.ops.average_pool2d(x, **params).numpy()
    except ShapeError:  # a window of padding only
        return
    laid = np.ascontiguousarray(x.transpose(ROWS_INNERMOST)).transpose(0, 3, 1, 2)
    assert AVERAGE_ALONG_ROWS.compute is not None
    found = AVERAGE_ALONG_ROWS.compute(np, laid, **params)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert found.transpose(ROWS_INNERMOST).flags.c_contiguous


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.75, 0.6, 1.0])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_responses_over_neighbours_by_roots_are_those_by_powers(beta: float, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 7, 3, 5)) * 10
    at = axis % 4
    widths = [(2, 2) if i == at else (0, 0) for i in range(4)]
    padded = np.pad(x**2, widths)
    mean = sum(np.take(padded, range(k, k + x.shape[at]), at) for k in range(5)) / 5
    wanted = x / (2.0 + 0.3 * mean) ** beta
    found = EAGER.ops.local_response_norm(x, alpha=0.3, bias=2.0, beta=beta, axis=axis)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13)


def test_normalised_by_neighbours_images_keep_their_layout() -> None:
    random = np.random.default_rng(0)
    kernels = [random.standard_normal((3, 3, 8, 8)).astype("float32") for _ in range(4)]
    x = LAZY.input("x", (1, 8, 16, 16), "float32")
    y = x
    for k in kernels:
        y = LAZY.ops.local_response_norm(LAZY.ops.conv2d(y, k, padding="SAME", data_format="NCHW"), axis=1)
    rounding = LAZY.swap(optimiser=LAZY.optimiser.with_numerics("rounding"))
    program = rounding.compile(inputs=[x], outputs=[y])
    made = [i.op.name for i in program.plan.instructions]
    assert made.count("relayout") == 2
    assert {i.kernel for i in program.plan.instructions if i.op.name == "average_pool2d"} == {"along rows"}
    given = random.standard_normal((1, 8, 16, 16)).astype("float32")
    plain = LAZY.compile(inputs=[x], outputs=[y])
    np.testing.assert_allclose(program(given)[0], plain(given)[0], rtol=1e-4, atol=1e-5)
