"""Lowerings say what kernels compute, on all samples (`facets/lowering`, `graph/ops/lowering`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import nnc_func as nnc
from nnc_func.facets.lowering import LoweringError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.proofs.arrays import lowered
from nnc_func.testing.samples import arguments

LOWERED = [op for op in CATALOGUE.values() if op.lowering is not None]
DEVICE = nnc.NumPy()


@pytest.mark.parametrize("op", LOWERED, ids=lambda op: op.name)
def test_a_lowering_says_what_kernels_compute(op: Op) -> None:
    @given(arguments(op))
    def agrees(drawn: Any) -> None:
        arrays, params = drawn
        check(op, arrays, dict(op.canonical(params)))

    agrees()


def check(op: Op, arrays: list[Any], params: dict[str, Any]) -> None:
    if "shape" in params:
        params["shape"] = op.shape(*(x.shape for x in arrays), **params)  # without -1
    try:
        found = lowered(op, arrays, params)
    except LoweringError:
        assume(False)
    wanted = np.asarray(DEVICE.bind(op, *arrays, **params))
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f" and not getattr(op.lowering, "either_zero", False):
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])
