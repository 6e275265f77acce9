"""Models are read, bound to arguments, and compiled for what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OnnxError
from nnc_func.tree import flatten
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


def test_extents_that_are_cast_still_decide_shapes(stack: Any) -> None:
    body = """f (float[n, m] x) => (float[a, b, c] y) {
        whole = Shape(x) narrow = Cast<to=6>(whole) first = Constant<value_ints=[0]>()
        rows = Gather(narrow, first) last = Constant<value_ints=[-1]>() more = Cast<to=6>(last)
        one = Constant<value_ints=[1]>() single = Cast<to=6>(one)
        wanted = Concat<axis=0>(rows, single, more) shape = Cast<to=7>(wanted) y = Reshape(x, shape)
    }"""
    model = nnc.from_onnx(parsed(body), stack)
    assert model.program is not None
    assert [model(np.ones(s, "float32")).shape for s in ((2, 3), (4, 5))] == [(2, 1, 3), (4, 1, 5)]


def test_what_does_not_hold_of_all_extents_is_compiled_by_shape(stack: Any) -> None:
    body = """f (float[n] x) => (float[m] y) {
        from = Constant<value_ints=[1]>() to = Constant<value_ints=[4]>() y = Slice(x, from, to)
    }"""
    model = nnc.from_onnx(parsed(body), stack)
    assert [model(np.zeros(n, "float32")).shape for n in (6, 3, 1, 5)] == [(3,), (2,), (0,), (3,)]


def test_a_question_mark_is_no_name_of_an_extent(stack: Any) -> None:
    model = parsed("f (float[n, m] x) => (float[n, m] y) { y = Abs(x) }")
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = "?"
    assert nnc.from_onnx(model, stack)(np.ones((2, 3), "float32")).shape == (2, 3)


def test_a_graph_for_what_is_known_of_inputs(stack: Any) -> None:
    body = "f (float[n, m] x, int64[1] axis) => (float[k] y) { y = ReduceSum <keepdims = 0> (x, axis) }"
    model = nnc.from_onnx(parsed(body), stack)
    assert not model.has_program
    graph = model.specialised({"axis": np.array([1])}, {"x": ("n", 3)})
    assert [i.data for i in graph.inputs] == ["x"]
    assert str(graph.outputs[0].aval) == "float32[n]"
    (found,) = flatten(stack.engine.compile(graph)(np.ones((2, 3), "float32")))[0]
    np.testing.assert_array_equal(found, [3, 3])
    for elements, shapes, told in (
        ({"axis": np.array([1], "int32")}, {}, r"input 'axis' is int64\[1\], given int32"),
        ({"axes": np.array([1])}, {}, "'axes' is none of them"),
        ({"axis": np.array([1])}, {"x": (3,)}, r"input 'x' has shape \[n, m\], given \[3\]"),
        ({"axis": np.array([5])}, {}, "axis 5"),
        ({}, {}, "decide a shape"),
    ):
        with pytest.raises(OnnxError, match=told):
            model.specialised(elements, shapes)
