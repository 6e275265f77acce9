"""Convolution by rows of windows gives the reference's result for any geometry (`device/kernels/conv_rows`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device.kernels import conv_rows
from nnc_func.device.kernels.conv import conv_result
from nnc_func.device.shared import workers
from nnc_func.graph.ops import CATALOGUE, conv_fused
from nnc_func.testing.laws import equal

CONV2D, FUSED = CATALOGUE["conv2d"], CATALOGUE["conv2d_blockwise"]
NAMED = {name: CATALOGUE[name] for name in ("subtract", "sigmoid", "multiply", "add")}
BODY = Body.of(3, (NAMED["subtract"], 0, 1), (NAMED["sigmoid"], 3), (NAMED["multiply"], 3, 4), (NAMED["add"], 5, 2))
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))
PADDING = st.sampled_from(["SAME", "VALID", ((1, 1), (1, 1)), ((0, 2), (3, 1)), ((9, 0), (0, 9))])


@st.composite
def convolutions(draw: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Images, a kernel and parameters that the kernel by rows accepts."""
    groups = draw(st.sampled_from([1, 1, 2]))
    size = draw(st.sampled_from([(1, 1), (3, 3), (2, 3), (5, 1), (7, 7)]))
    channels, out = groups * draw(st.sampled_from([16, 17])), groups * draw(st.integers(min(groups, 2), 4))
    if draw(st.integers(0, 3)) == 0:  # each channel is a group
        groups = channels = out = draw(st.sampled_from([2, 5]))
    extents = draw(st.integers(1, 11)), draw(st.integers(1, 11))
    params = {
        "stride": draw(PAIRS), "padding": draw(PADDING), "dilation": draw(PAIRS), "groups": groups,
        "data_format": "NHWC",
    }  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    x = rng.standard_normal((draw(st.sampled_from([1, 2, 5, 0])), *extents, channels)).astype("float32")
    return x, rng.standard_normal((*size, channels // groups, out)).astype("float32"), params


def written(kernel: Any, args: Any, items: Any, shape: Any) -> Any:
    """What the planned kernel writes, in memory that held NaN."""
    avals, params = tuple(Aval(a.shape, a.dtype) for a in args), dict(items)
    assert kernel.accepts(avals, **params)
    out = np.full(shape, np.nan, "float32")
    scratch = tuple(np.full(s, np.nan, d) for s, d in kernel.scratch(avals, **params))
    kernel.into(np, args, (out,), scratch, **params)
    return out


@pytest.mark.parametrize("limit", [1, 20_000, 1 << 21])
@pytest.mark.parametrize("threads", [1, 2, 5])
@given(drawn=convolutions())
def test_rows_equal_the_reference(limit: int, threads: int, drawn: Any) -> None:
    x, w, params = drawn
    items = CONV2D.canonical(params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv_rows, "WORTH", 1)
        patch.setattr(workers, "spare", lambda: threads)
        conv_rows.rows_of.cache_clear()
        try:
            shape, _ = conv_result(x, w, **dict(items))
            if min(shape[1:]) < 1:
                return
            wanted = CONV2D.kernels[-1].compute(np, x, w, **dict(items))  # type: ignore[misc]
            kernel = conv_rows.in_rows("rows", limit, conv_result)
            equal(written(kernel, (x, w), items, shape), wanted, 512, "conv2d")
            mean = np.random.default_rng(1).standard_normal(shape[-1]).astype("float32")
            beside = np.random.default_rng(2).standard_normal(shape).astype("float32")
            items = FUSED.canonical({**params, "body": BODY})
            fused = written(conv_fused.in_rows("rows", limit), (x, w, mean, beside), items, shape)
            centred = wanted - mean
            equal(fused, centred / (1 + np.exp(-centred)) + beside, 1024, "conv2d_blockwise")
        finally:
            conv_rows.rows_of.cache_clear()


def test_a_thread_that_fails_is_told_and_threads_are_given_back() -> None:
    def work(thread: int) -> None:
        if thread:
            raise ArithmeticError(thread)

    before = workers.spare()
    with pytest.raises(ArithmeticError):
        workers.side_by_side(work, 2)
    assert workers.spare() == before
    assert workers.spare() >= 1


def test_a_kernel_within_streams_uses_no_more_threads() -> None:
    with workers.shared(2):
        assert workers.spare() == 1
