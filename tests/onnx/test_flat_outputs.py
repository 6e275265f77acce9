"""Closed graphs whose outputs nobody has nested: exported all the same (`graph/onnx_export/graphs`)."""

from __future__ import annotations

import numpy as np
import pytest

import nnc_func as nnc

RUNTIME = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_closed_graph_of_two_outputs_is_exported(make: object) -> None:
    stack = make()  # type: ignore[operator]
    x = stack.input("x", (2, 3), "float32")
    graph = stack.graph.close([x.value], [(x * 2).value, (x + 1).value])
    model = graph.to_onnx()
    session = RUNTIME.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = np.arange(6, dtype="float32").reshape(2, 3)
    double, more = session.run(None, {"x": given})
    np.testing.assert_array_equal(double, given * 2)
    np.testing.assert_array_equal(more, given + 1)
    assert len({o.name for o in session.get_outputs()}) == 2
