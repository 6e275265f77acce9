"""Models are read, bound to arguments, and compiled for what is known of them (`onnx/model`, `onnx/declarations`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnc_func as nnc
from nnc_func.errors import OnnxError, OnnxWarning
from nnc_func.onnx import OnnxOperator, table
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


def test_lists_and_numbers_are_arrays_of_the_inputs_dtype(stack: Any) -> None:
    model = nnc.from_onnx(
        parsed("f (float[n] x, int64 k) => (float[n] y) { c = Cast<to = 1>(k) y = Mul(x, c) }"), stack
    )
    np.testing.assert_array_equal(model([1, 2.5], 2), np.float32([2, 5]))
    with pytest.raises(OnnxError, match=r"'k' is int64.*given float64"):
        model([1.0], 2.5)
    with pytest.raises(OnnxError, match=r"'x' is float32.*given float64"):
        model(np.ones(2), 2)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("f (float[2] x) => (float[2] y) { y = Add(x) }", "wants 2 inputs, given 1"),
        ("f (float[2] x) => (double[2] y) { y = Abs(x) }", "output 'y' is float32, and the model says float64"),
    ],
)
def test_what_contradicts_itself_is_refused(body: str, told: str) -> None:
    with pytest.raises(OnnxError, match=told):
        nnc.from_onnx(parsed(body))


@pytest.mark.parametrize("said", ["[1, 2]", "[3]", "[2, n]"])
def test_a_wrong_shape_of_an_output_is_warned_of_once_before_anything_is_computed(said: str, stack: Any) -> None:
    with pytest.warns(OnnxWarning, match=r"output 'y' has shape \[2\], and the model says") as caught:
        model = nnc.from_onnx(parsed(f"f (float[2] x) => (float{said} y) {{ y = Abs(x) }}"), stack)
    assert [w.filename for w in caught] == [__file__]
    np.testing.assert_array_equal(model(np.float32([-1, 2])), [1, 2])  # a second warning would be an error
    np.testing.assert_array_equal(model(stack.asarray(np.float32([-1, 2]))).numpy(), [1, 2])


def test_a_signal_without_a_last_axis_is_real(stack: Any) -> None:
    body = """f (float[{shape}] x) => (float[a, b, c, 2] y) {{
        step = Constant<value_int=4>() length = Constant<value_int=8>() y = STFT(x, step, , length) }}"""
    x = np.random.default_rng(0).standard_normal((2, 32)).astype("float32")
    flat, deep = (nnc.from_onnx(parsed(body.format(shape=shape)), stack) for shape in ("2, 32", "2, 32, 1"))
    found = flat(x)
    np.testing.assert_array_equal(found, deep(x[..., None]))
    frames = np.stack([x[:, at : at + 8] for at in range(0, 25, 4)], 1)
    wanted = np.fft.rfft(frames.astype("float64"))
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, atol=1e-5)


def test_a_signal_of_another_rank_is_refused() -> None:
    body = """f (float[32] x) => (float[a, b, c] y) {
        step = Constant<value_int=4>() length = Constant<value_int=8>() y = STFT(x, step, , length) }"""
    with pytest.raises(OnnxError, match=r"axes batch, time and parts.* given \[32\]"):
        nnc.from_onnx(parsed(body))


def test_what_is_no_stack_is_told() -> None:
    for given in ("lazy", nnc.lazy):
        with pytest.raises(OnnxError, match=r"a model is read into a stack, such as nnc_func.lazy\(\), given"):
            nnc.from_onnx(parsed("f (float[2] x) => (float[2] y) { y = Abs(x) }"), given)


@pytest.mark.parametrize(
    ("name", "function", "several", "told"),
    [
        ("Two", lambda o, x: (x, x), False, "returns several results, which wants multi_result=True"),
        ("One", lambda o, x: x, True, "returns one result, and says multi_result=True"),
        ("Text", lambda o, x: "text", False, "returns 'text', which is no tensor"),
        ("Absent", lambda o, x: o.nothing(x), False, "no operator 'nothing'"),
    ],
)
def test_entries_that_are_wrong_are_told_when_a_model_is_read(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Any, several: bool, told: str
) -> None:
    entry = OnnxOperator(name, "example.org", (1,), function, multi_result=several)
    monkeypatch.setitem(table._ENTRIES, ("example.org", name), {1: entry})
    node = onnx.helper.make_node(name, ["x"], ["y"], domain="example.org")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy")
    versions = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("example.org", 1)]
    graph = onnx.helper.make_graph([node], "f", [x], [y])
    with pytest.raises(OnnxError, match=f"in {name} .*{told}"):
        nnc.from_onnx(onnx.helper.make_model(graph, opset_imports=versions, ir_version=10))


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    table._ENTRIES.pop(("com.example", "Scaled"))


def test_arguments_are_held_against_the_declarations_whatever_came_before() -> None:
    model = nnc.from_onnx(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> twice (float[n, 3] x) => (float[n, 3] y) { y = Add (x, x) }'
    ))  # fmt: skip
    for count in (1, 2, 1, 2):
        assert model(np.ones((count, 3), "float32")).sum() == 6 * count
        assert model([[1.0, 2, 3]]).tolist() == [[2, 4, 6]]
        for wrong in (np.ones((count, 4), "float32"), np.ones((count, 3)), np.ones(3, "float32")):
            with pytest.raises(OnnxError, match="input 'x' is float32"):
                model(wrong)
