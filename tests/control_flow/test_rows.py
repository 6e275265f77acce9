"""Rows of times of a loop that did not happen are zeros, whatever it carries (`engine/running/loops`)."""

from __future__ import annotations

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.graph.ops import CATALOGUE as OPS


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_a_counted_loop_that_carries_nothing(times: int, reverse: bool) -> None:
    x = 1.0 + np.arange(6.0).reshape(3, 2)
    body = Body.of(1, (OPS["tanh"], 0))
    wanted = np.where(np.arange(3)[:, None] < times, np.tanh(x), 0.0)
    for stack in (nnc.eager(), nnc.lazy()):
        (found,) = stack.ops.loop(
            stack.asarray(x), stack.asarray(np.int64(times)), body=body, counted=True, reverse=reverse
        )
        np.testing.assert_allclose(found.numpy(), wanted)
