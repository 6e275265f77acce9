"""Models are read, bound to arguments, and compiled for what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OnnxError
from tests.onnx.models import parsed


def test_one_program_serves_all_extents(stack: Any) -> None:
    model = nnc.from_onnx(parsed("f (float[n, 3] x) => (float[n, 3] y) { z = Abs(x) y = Exp(z) }"), stack)
    for n in (1, 4):
        x = np.full((n, 3), -1.0, "float32")
        np.testing.assert_allclose(model(x), np.exp(np.abs(x)), rtol=1e-6)
    assert model.program is model.program
    assert [i.data for i in model.graph.inputs] == ["x"]


def test_a_tensor_gives_a_tensor(stack: Any) -> None:
    model = nnc.from_onnx(parsed("f (float[n] x) => (float[n] y) { y = Exp(x) }"), stack)
    gradient = stack.grad(lambda x: model(x).sum())(stack.asarray(np.float32([0.0, 1.0])))
    np.testing.assert_allclose(gradient.numpy(), np.exp(np.float32([0.0, 1.0])), rtol=1e-6)


def test_all_nodes_without_an_entry_are_named_at_once() -> None:
    body = "f (float[n] x) => (float[n] y) { [first] z = Foo(x) [second] y = Bar(z) }"
    with pytest.raises(OnnxError, match=r"Foo \(domain ai.onnx, opset 18\), node 'first'; Bar .* node 'second'"):
        nnc.from_onnx(parsed(body))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([np.ones(3, "float64")], "input 'x' is float32.*given float64"),
        ([np.ones((3, 1), "float32")], r"input 'x' is float32\[n\], given float32\[3, 1\]"),
        ([], "'x' is missing"),
        ([np.ones(3, "float32")] * 2, "given 2 arrays"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: list[Any], told: str) -> None:
    model = nnc.from_onnx(parsed("f (float[n] x) => (float[n] y) { y = Exp(x) }"))
    with pytest.raises(OnnxError, match=told):
        model(*given)
