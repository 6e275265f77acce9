"""What a model asks for is counted before it is computed: numbers in a file allocate nothing (`onnx/allowance`)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import nnc_func as nnc
from nnc_func.errors import OnnxError
from nnc_func.onnx.allowance import Allowance
from tests.onnx.models import parsed

MEBIBYTE = 1 << 20
HUGE = {
    "Tile": "c = Constant<value_ints = [10000, 16000]>() y = Tile(x, c)",
    "Tile of numbers": "t = Constant<value_floats = [1.0]>() c = Constant<value_ints = [1000000000]>() y = Tile(t, c)",
    "Expand": "c = Constant<value_ints = [10000, 16000, 2, 3]>() y = Expand(x, c)",
    "ConstantOfShape": "c = Constant<value_ints = [100000, 10000]>() y = ConstantOfShape(c)",
    "Range": "a = Constant<value_int = 0>() b = Constant<value_int = 1000000000>() d = Constant<value_int = 1>()"
    " y = Range(a, b, d)",
    "Pad": "c = Constant<value_ints = [0, 0, 30000, 30000]>() y = Pad(x, c)",
    "Pad by reflection": 'c = Constant<value_ints = [0, 0, 30000, 30000]>() y = Pad<mode = "wrap">(x, c)',
    "OneHot": "d = Constant<value_int = 150000000>() v = Constant<value_floats = [0.0, 1.0]>() i = Cast<to = 7>(x)"
    " y = OneHot(i, d, v)",
    "Resize": "s = Constant<value_ints = [30000, 30000]>() y = Resize(x, , , s)",
    "Resize by scales": "s = Constant<value_floats = [14000.0, 10000.0]>() y = Resize(x, , s)",
    "an empty Resize": "e = ConstantOfShape(n) s = Constant<value_ints = [1, 3000000000]>() y = Resize(x, , , s)",
    "RandomUniform": "y = RandomUniform<shape = [100000, 10000]>()",
    "Multinomial": "y = Multinomial<sample_size = 500000000>(x)",
    "AffineGrid": "s = Constant<value_ints = [1, 1, 30000, 30000]>() t = ConstantOfShape(m) y = AffineGrid(t, s)",
    "EyeLike": "c = Constant<value_ints = [30000, 30000]>() t = ConstantOfShape(c) y = EyeLike(t)",
    "HannWindow": "s = Constant<value_int = 1000000000>() y = HannWindow(s)",
    "DFT": "s = Constant<value_int = 150000000>() z = Unsqueeze(x, one) y = DFT(z, s)",
    "MelWeightMatrix": "b = Constant<value_int = 30000>() l = Constant<value_int = 80000>()"
    " r = Constant<value_int = 8>()"
    " f = Constant<value_float = 1.0>() g = Constant<value_float = 4.0>() y = MelWeightMatrix(b, l, r, f, g)",
    "squares": "c = Constant<value_ints = [30000, 1]>() u = ConstantOfShape(c) v = Transpose(u) y = MatMul(u, v)",
    "CenterCropPad": "c = Constant<value_ints = [30000, 30000]>() y = CenterCropPad(x, c)",
    "Trilu": "c = Constant<value_ints = [30000, 30000]>() t = ConstantOfShape(c) y = Trilu(t)",
}
"""A gigabyte or more each, of a few numbers."""
START = "<int64[0] n = {}, int64[3] m = {1, 2, 3}, int64[1] one = {-1}>"


def model(nodes: str) -> Any:
    found = parsed(f"f (float[2, 3] x) => (float y) {START} {{ {nodes} }}", opset=20)
    found.graph.output[0].ClearField("type")
    return found


@pytest.mark.parametrize("nodes", HUGE.values(), ids=HUGE)
def test_a_few_numbers_do_not_ask_for_gigabytes(nodes: str, stack: Any) -> None:
    proto = model(nodes)
    tracemalloc.start()
    try:
        with pytest.raises(
            OnnxError, match=r"would take \d+ bytes.*, more than max_bytes=1073741824: give from_onnx a l"
        ):
            nnc.from_onnx(proto, stack)
        assert tracemalloc.get_traced_memory()[1] < 64 * MEBIBYTE
    finally:
        tracemalloc.stop()


def test_the_same_is_read_where_it_is_allowed() -> None:
    nodes = "c = Constant<value_ints = [1000, 1000]>() y = ConstantOfShape(c)"
    with pytest.raises(OnnxError, match=r"would take \d+ bytes"):
        nnc.from_onnx(model(nodes), max_bytes=MEBIBYTE)
    assert nnc.from_onnx(model(nodes), max_bytes=16 * MEBIBYTE)(np.ones((2, 3), "float32")).shape == (1000, 1000)
    with pytest.raises(OnnxError, match="max_bytes is a number of bytes, given '1GB'"):
        nnc.from_onnx(model(nodes), max_bytes="1GB")


def test_many_of_moderate_size_are_too_many(stack: Any) -> None:
    nodes = "c = Constant<value_ints = [3000, 3000]>() a0 = ConstantOfShape(c) "
    nodes += " ".join(f"a{i + 1} = Exp(a{i})" for i in range(40)) + " y = Identity(a40)"
    with pytest.raises(OnnxError, match=r"the result of exp .* would take 36000000 bytes beside \d+ others"):
        nnc.from_onnx(model(nodes), stack)


def test_what_is_in_a_model_allows_for_what_is_computed_from_it(stack: Any) -> None:
    """Weights that are brought to another dtype and order are larger than a small allowance, and are read."""
    proto = model("a = Cast<to = 11>(w) b = Transpose(a) y = ReduceSum(b)")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((500, 500), "float32"), "w"))
    assert nnc.from_onnx(proto, stack, max_bytes=10_000)(np.ones((2, 3), "float32")).item() == 250_000


def test_what_depends_on_an_input_is_bounded_by_itself() -> None:
    """A call may need as much as it needs, all together."""
    nodes = "a0 = Identity(x) " + " ".join(f"a{i + 1} = Exp(a{i})" for i in range(40)) + " y = Identity(a40)"
    found = nnc.from_onnx(model(nodes), nnc.eager(), max_bytes=30)
    assert found(np.zeros((2, 3), "float32")).shape == (2, 3)


def test_products_of_extents_are_bounded() -> None:
    squares = " ".join(f"s{i + 1} = Mul(s{i}, s{i})" for i in range(40))
    text = f"f (float[a, b] x) => (float y) {{ h = Shape(x) s0 = ReduceProd<keepdims = 1>(h) {squares}"
    proto = parsed(text + " y = Reshape(x, s40) }")
    with pytest.raises(OnnxError, match="a product of extents would have more than 1024 terms or 64 factors"):
        nnc.from_onnx(proto).specialised(shapes={"x": ("a", "b")})


def test_many_names_are_compared_once() -> None:
    """The square of 60,000 comparisons took minutes."""
    proto = model("y = Neg(x)")
    for at in range(60_000):
        proto.graph.input.append(helper.make_tensor_value_info(f"more{at}", TensorProto.FLOAT, [1]))
    proto.graph.input.append(proto.graph.input[0])
    with pytest.raises(OnnxError, match="inputs have names, each its own, given 'x'"):
        nnc.from_onnx(proto)


def test_a_number_is_no_allowance() -> None:
    allowance = Allowance(100)
    with pytest.raises(OnnxError, match="extents are from 0 on"):
        allowance.check((3, -1), 8, "an array")
    with pytest.raises(OnnxError, match=r"an array of shape \(0, 13\) would take 104 bytes"):
        allowance.check((0, 13), 8, "an array")
    allowance.add(1)
    allowance.check((0, 13), 8, "an array")


# --- external data ------------------------------------------------------------------------------------------


def outside(count: int, size: int) -> Any:
    """A model of several tensors, all in one place of one file."""
    proto = model("y = Sum(" + ", ".join(f"w{i}" for i in range(count)) + ")")
    for at in range(count):
        tensor = proto.graph.initializer.add(name=f"w{at}", data_type=TensorProto.FLOAT, dims=[size])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    return proto


def test_one_file_shown_by_many_tensors_is_no_multiple_of_it(tmp_path: Path, stack: Any) -> None:
    (tmp_path / "weights.bin").write_bytes(np.ones(1000, "float32").tobytes())
    (tmp_path / "model.onnx").write_bytes(outside(100, 1000).SerializeToString())
    with pytest.raises(OnnxError, match=r"tensor 'w\d+' of shape \(1000,\) would take 4000 bytes beside"):
        nnc.from_onnx(tmp_path / "model.onnx", stack, max_bytes=100_000)
    (tmp_path / "model.onnx").write_bytes(outside(2, 1000).SerializeToString())
    found = nnc.from_onnx(tmp_path / "model.onnx", stack, max_bytes=10_000)
    assert found(np.ones((2, 3), "float32")).tolist() == [2.0] * 1000


def cache(tmp_path: Path) -> Path:
    """The folder of a model as hubs keep it: names are links to contents by their digests."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1a2b"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "aa").write_bytes(outside(1, 1000).SerializeToString())
    (blobs / "bb").write_bytes(np.ones(1000, "float32").tobytes())
    (snapshot / "model.onnx").symlink_to("../../blobs/aa")
    (snapshot / "weights.bin").symlink_to("../../blobs/bb")
    return snapshot


def test_links_inside_the_cache_of_a_model_are_followed(tmp_path: Path, stack: Any) -> None:
    found = nnc.from_onnx(cache(tmp_path) / "model.onnx", stack)
    assert found(np.ones((2, 3), "float32")).shape == (1000,)


def test_links_out_of_the_cache_are_not(tmp_path: Path) -> None:
    snapshot = cache(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(4000))
    for target in ("../../secret.bin", "/etc/passwd"):
        (snapshot / "weights.bin").unlink()
        (snapshot / "weights.bin").symlink_to(target)
        with pytest.raises(OnnxError, match=r"'weights\.bin', outside of the model's directory"):
            nnc.from_onnx(snapshot / "model.onnx")
    (snapshot / "weights.bin").unlink()
    (snapshot / "weights.bin").symlink_to("weights.bin")
    with pytest.raises(OnnxError, match=r"'weights\.bin', (which is no file|which cannot be read|outside)"):
        nnc.from_onnx(snapshot / "model.onnx")


def test_more_axes_than_arrays_have_are_refused() -> None:
    proto = model("y = Add(x, w)")
    proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1] * 65, float_data=[1.0])
    with pytest.raises(OnnxError, match="tensor 'w': a tensor of 65 axes: 64 is the most"):
        nnc.from_onnx(proto)
    proto = model("y = Neg(x)")
    for _ in range(63):
        proto.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1)
    with pytest.raises(OnnxError, match="'x': it has 65 axes: 64 is the most"):
        nnc.from_onnx(proto)


def test_a_tensor_in_a_loop_is_made_no_thousand_times() -> None:
    """A megabyte at each of ten thousand steps took minutes: where steps are written out, since the carry grows."""
    proto = model(
        "trips = Constant<value_int = 9000>() yes = Constant<value = bool {1}>()"
        " y = Loop (trips, yes, x) <body = b (int64 i, bool c, float[2, k] v) => (bool d, float[2, m] u)"
        " { d = Identity(c) w = Constant<value = float {1.0}>() z = Size(w)"
        " s = Cast<to = 1>(z) t = Add(x, s) u = Concat<axis = 1>(v, t) }>"
    )
    tensor = proto.graph.node[-1].attribute[0].g.node[1].attribute[0].t
    del tensor.dims[:]
    tensor.dims.append(1 << 18)
    tensor.ClearField("raw_data")
    tensor.float_data[:] = [1.0] * (1 << 18)
    with pytest.raises(OnnxError, match=r"would take 1048576 bytes beside \d+ others, more than max_bytes=10000000"):
        nnc.from_onnx(proto, nnc.eager(), max_bytes=10_000_000)
