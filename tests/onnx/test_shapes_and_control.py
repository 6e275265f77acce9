"""What decides shapes is computed while a model is traced (`onnx/tracing`, `onnx/symbolic`, `onnx/operators/control`).

Symbolic extents, elements of inputs, branches and loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import nnc_func as nnc
from nnc_func.errors import OnnxError
from nnc_func.onnx import tracing
from tests.onnx.models import parsed

FLATTEN = """f (float[n, c, 2] x) => (float[n, m] y) {
    shape = Shape(x)
    zero = Constant<value_ints = [0]>()
    n = Gather(shape, zero)
    rest = Constant<value_ints = [-1]>()
    wanted = Concat<axis = 0>(n, rest)
    y = Reshape(x, wanted)
}"""


def test_shapes_are_symbolic_where_extents_are(stack: Any) -> None:
    model = nnc.from_onnx(parsed(FLATTEN), stack)
    assert str(model.graph.outputs[0].aval.shape) == str(stack.input("x", ("n", "2*c")).shape)
    for shape in ((2, 3, 2), (1, 5, 2)):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(model(x), x.reshape(shape[0], -1))


@pytest.mark.parametrize("given", ["scales", "sizes"])
def test_images_of_unknown_extents_become_whole_times_as_large(stack: Any, given: str) -> None:
    body = """f (float[n, 2, h, w] x) => (float[n, 2, a, b] y) {
        scales = Constant<value_floats = [1.0, 1.0, 2.0, 3.0]>()
        factors = Constant<value_ints = [1, 1, 2, 3]>()
        shape = Shape(x)
        sizes = Mul(shape, factors)
        y = Resize<mode = "nearest">(x, , GIVEN)
    }"""
    model = nnc.from_onnx(parsed(body.replace("GIVEN", "scales" if given == "scales" else ", sizes")), stack)
    assert str(model.graph.outputs[0].aval.shape) == str(stack.input("x", ("n", 2, "2*h", "3*w")).shape)
    x = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    np.testing.assert_array_equal(model(x), x.repeat(2, 2).repeat(3, 3))


def test_an_extent_as_a_number_is_that_of_the_call(stack: Any) -> None:
    body = """f (float[n] x) => (float y) {
        shape = Shape(x)
        count = Cast<to = 1>(shape)
        total = ReduceSum<keepdims = 0>(x)
        one = Squeeze(count)
        y = Div(total, one)
    }"""
    model = nnc.from_onnx(parsed(body), stack)
    for n in (1, 4):
        np.testing.assert_allclose(model(np.arange(n, dtype="float32")), (n - 1) / 2)


def test_elements_of_inputs_decide_shapes(stack: Any) -> None:
    body = "f (float[2, 3] x, int64[1] axes) => (y) { y = ReduceSum<keepdims = 0>(x, axes) }"
    proto = parsed(body.replace("(y)", "(float[k] y)"))
    model = nnc.from_onnx(proto, stack)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(model(x, np.array([axis])), x.sum(axis))
    with pytest.raises(OnnxError, match=r"no one program.*depend on 'axes'"):
        model.graph  # noqa: B018 - looking it up is what raises


def test_large_inputs_may_decide_shapes_too(stack: Any) -> None:
    model = nnc.from_onnx(parsed("f (float[n] x) => (int64[1, k] y) { z = Relu(x) y = NonZero(z) }"), stack)
    for x in (np.linspace(-1, 1, 101, dtype="float32"), np.zeros(200, "float32")):
        np.testing.assert_array_equal(model(x), [np.flatnonzero(np.maximum(x, 0))])


def branching(condition: str) -> Any:
    return parsed(f"""f (float[n] x, bool b) => (float[n] y) {{
        {condition}
        y = If (c) <
            then_branch = yes () => (float[n] u) {{ u = Exp(x) }},
            else_branch = no () => (float[n] v) {{ v = Neg(x) }}
        >
    }}""")


def test_branches_of_constants_are_taken_while_tracing(stack: Any) -> None:
    model = nnc.from_onnx(branching("c = Constant<value = bool {1}>()"), stack)
    assert [n.op.name for n in model.graph.nodes if n.args] == ["exp"]


def test_branches_of_inputs_are_taken_at_each_call(stack: Any) -> None:
    model = nnc.from_onnx(branching("c = Identity(b)"), stack)
    x = np.float32([0.0, 1.0])
    np.testing.assert_allclose(model(x, np.array(True)), np.exp(x))
    np.testing.assert_allclose(model(x, np.array(False)), -x)


def looping(trips: Any) -> Any:
    """x doubled until it is larger than 100, or for as many trips; and what it was at each step."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Less", ["w", "limit"], ["go"]),
            helper.make_node("Identity", ["w"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, []),
        ],
    )
    limit = helper.make_tensor("limit", TensorProto.FLOAT, [], [100.0])
    count = [] if trips is None else [helper.make_tensor("trips", TensorProto.INT64, [], [trips])]
    node = helper.make_node("Loop", ["trips" if count else "", "", "x"], ["y", "rows"], "loop", body=body)
    graph = helper.make_graph(
        [node], "looping",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("y", []), ("rows", ["k"]))],
        [limit, *count],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("trips", [None, 3, 0])
def test_loops_run_until_their_condition_is_false(stack: Any, trips: int | None) -> None:
    model = nnc.from_onnx(looping(trips), stack)
    value, rows = np.float32(3.0), []
    while trips is None or len(rows) < trips:
        value = value + value
        rows.append(value)
        if value >= 100:
            break
    found = model(np.float32(3.0))
    np.testing.assert_allclose(found[0], value)
    np.testing.assert_allclose(found[1], np.array(rows, "float32"))


def test_a_loop_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "LONGEST", 100)
    model = nnc.from_onnx(looping(None), nnc.eager())
    with pytest.raises(OnnxError, match=r"Loop .*node 'loop': loops of more than 100 steps"):
        model(np.float32(0.0))


FUNCTION = """<domain: "local", opset_import: ["": 18]> scaled<by: float = 3.0>(x) => (y) {
    factor = Constant<value_float: float = @by>()
    y = Mul(x, factor)
}"""


@pytest.mark.parametrize(("given", "factor"), [("", 3.0), ("<by = 0.5>", 0.5)])
def test_functions_of_the_model_are_inlined(stack: Any, given: str, factor: float) -> None:
    proto = parsed(f"f (float[n] x) => (float[n] y) {{ y = local.scaled{given}(x) }}", functions=FUNCTION)
    model = nnc.from_onnx(proto, stack)
    np.testing.assert_allclose(model(np.float32([1.0, 2.0])), np.float32([1.0, 2.0]) * np.float32(factor))
    assert [n.op.name for n in model.graph.nodes if n.args] == ["multiply"]


def test_functions_that_call_themselves_are_refused() -> None:
    own = '<domain: "local", opset_import: ["": 18, "local": 1]> again(x) => (y) { y = local.again(x) }'
    with pytest.raises(OnnxError, match="one calls itself"):
        nnc.from_onnx(parsed("f (float[2] x) => (float[2] y) { y = local.again(x) }", functions=own))


def test_functions_of_schemas_stand_for_what_has_no_entry(stack: Any) -> None:
    model = nnc.from_onnx(parsed("f (int32 n) => (float[m] y) { y = HannWindow(n) }"), stack)
    np.testing.assert_allclose(model(np.int32(8)), np.hanning(9)[:-1], atol=1e-6)


def test_initialisers_may_be_variables(stack: Any) -> None:
    proto = parsed("f (float[n, 2] x) => (float[n, 3] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> { y = MatMul(x, w) }")
    model = nnc.from_onnx(proto, stack, variables=True)
    w = model.variables["w"]
    np.testing.assert_array_equal(model(np.float32([[1, 0]])), [[1, 2, 3]])
    gradient = stack.grad(lambda w: (w * w).sum())(w)
    assert gradient.shape == (2, 3)
    assert [v.data.name for v in model.graph.variables] == ["w"]


def test_initialisers_of_old_models_are_among_the_inputs(stack: Any) -> None:
    proto = parsed("f (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    proto.ir_version = 3
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1, 2]), "w"))
    model = nnc.from_onnx(proto, stack)
    np.testing.assert_array_equal(model(np.float32([1, 1])), [2, 3])
