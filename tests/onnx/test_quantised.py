"""Products of bytes in programs: those of integers to the bit, by floats where these hold sums (`onnx`, `graph`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import nnc_func as nnc
from nnc_func.device.onednn.integer import is_exact
from nnc_func.device.onednn.library import present

BYTES = bool(nnc.CPU().libraries) and is_exact(present())  # whether this processor multiplies bytes
STACKS = {"numpy": nnc.lazy(), "cpu": nnc.lazy(nnc.CPU()), "fast": nnc.lazy(nnc.CPU(fast_math=True))}
EAGER = nnc.eager()


def built(nodes: str, **weights: Any) -> onnx.ModelProto:
    """A model of that text, with weights as initialisers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> m {nodes}')
    model.graph.initializer.extend([onnx.numpy_helper.from_array(a, name) for name, a in weights.items()])
    return model


def extreme(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Bytes, many of which are the least or the largest."""
    random, info = np.random.default_rng(seed), np.iinfo(dtype)
    drawn = random.integers(info.min, info.max, shape, endpoint=True)
    ends = random.choice([info.min, info.max], shape)
    return np.where(random.random(shape) < 0.5, drawn, ends).astype(dtype)


def operators(program: Any) -> set[tuple[str, str]]:
    """Names of products, with the dtypes of what they multiply."""
    found = program.graph.nodes
    return {(n.op.name, n.args[0].dtype.name) for n in found if n.op.name.startswith(("conv2d", "matmul"))}


def multiplied(on: str, name: str, given: str, otherwise: str) -> set[tuple[str, str]]:
    """The operators of a product of bytes on a stack: of these, or of floats where these hold its sums."""
    is_one = otherwise != "float32" or (BYTES and on != "numpy")
    return {(f"{name}_integer", given)} if is_one else {(name, otherwise)}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("on", STACKS)
@pytest.mark.parametrize(("channels", "dtype"), [(16, "float32"), (700, "int32")])
def test_a_convolution_of_bytes(on: str, kind: str, channels: int, dtype: str) -> None:
    """Of 700 channels sums may be larger than the whole numbers of a float32."""
    x, z = extreme(0, (1, channels, 4, 3), kind), extreme(1, (), kind)
    w, v = extreme(2, (8, channels, 3, 3), "int8"), np.int8(-3)
    text = f"""({kind}[1, {channels}, 4, 3] x, {kind} z) => (int32[a, b, c, d] y) {{
        y = ConvInteger <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, z, v)
    }}"""
    model = built(text, w=w, v=np.array(v))
    found = nnc.from_onnx(model, STACKS[on])
    np.testing.assert_array_equal(found(x, z), nnc.from_onnx(model, EAGER)(x, z))
    assert operators(found.program) == multiplied(on, "conv2d", kind, dtype)


@pytest.mark.parametrize("on", STACKS)
@pytest.mark.parametrize(("depth", "dtype"), [(100, "float32"), (3000, "int32")])
def test_a_product_of_bytes(on: str, depth: int, dtype: str) -> None:
    a, w = extreme(0, (7, depth), "uint8"), np.full((depth, 5), -128, "int8")
    text = f"(uint8[7, {depth}] a, uint8 z) => (int32[m, n] y) {{ y = MatMulInteger (a, w, z) }}"
    model = built(text, w=w)
    found = nnc.from_onnx(model, STACKS[on])
    for zero in (0, 128, 255):
        given = a, np.uint8(zero)
        np.testing.assert_array_equal(found(*given), nnc.from_onnx(model, EAGER)(*given))
    assert operators(found.program) == multiplied(on, "matmul", "uint8", dtype)


@pytest.mark.parametrize("on", ["numpy", "cpu"])
def test_a_network_of_bytes_by_the_range_of_what_it_is_given(on: str) -> None:
    """Quantised by the range of the elements, multiplied, and biased by integers, as quantisers write it."""
    random = np.random.default_rng(0)
    weights = {
        "w1": extreme(3, (8, 3, 3, 3), "uint8"), "w2": extreme(4, (4, 8, 1, 1), "uint8"), "v": np.array(121, "uint8"),
        "b1": random.integers(-9999, 9999, (1, 8, 1, 1)).astype("int32"), "s": np.array(0.01, "float32"),
    }  # fmt: skip
    model = built("""(float[1, 3, 8, 8] x) => (float[a, b, c, d] y) {
        q, t, z = DynamicQuantizeLinear (x)
        i = ConvInteger <pads = [1, 1, 1, 1]> (q, w1, z, v)
        j = Add (i, b1)
        f = Cast <to = 1> (j)
        u = Mul (t, s)
        g = Mul (f, u)
        h = Relu (g)
        q2, t2, z2 = DynamicQuantizeLinear (h)
        k = ConvInteger (q2, w2, z2, v)
        l = Cast <to = 1> (k)
        y = Mul (l, t2)
    }""", **weights)  # fmt: skip
    found, eager = nnc.from_onnx(model, STACKS[on]), nnc.from_onnx(model, EAGER)
    for scale in (1e-3, 1.0, 1e4):
        x = (scale * random.standard_normal((1, 3, 8, 8))).astype("float32")
        np.testing.assert_array_equal(found(x), eager(x))
    names = [n.op.name for n in found.graph.nodes]
    assert names.count("conv2d") + names.count("conv2d_integer") == 2
    assert operators(found.program) <= {("conv2d_integer", "uint8"), ("conv2d", "float32")}


@pytest.mark.parametrize("on", STACKS)
def test_a_quantised_convolution(on: str) -> None:
    x, w = extreme(0, (1, 4, 6, 6), "uint8"), extreme(1, (3, 4, 2, 2), "int8")
    scales = {"xs": np.float32(0.02), "ws": np.float32([0.1, 0.2, 0.3]), "ys": np.float32(4)}
    zeros = {"xz": np.uint8(7), "wz": np.zeros(3, "int8"), "yz": np.uint8(100), "b": np.array([5, -700, 90], "int32")}
    text = """(uint8[1, 4, 6, 6] x) => (uint8[a, b, c, d] y) {
        y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b)
    }"""
    model = built(text, w=w, **{k: np.asarray(v) for k, v in (scales | zeros).items()})
    found = nnc.from_onnx(model, STACKS[on])
    np.testing.assert_array_equal(found(x), nnc.from_onnx(model, EAGER)(x))
    assert operators(found.program) == multiplied(on, "conv2d", "uint8", "float32")


@pytest.mark.parametrize("zero", [None, 3])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("on", STACKS)
def test_a_quantisation_is_one_operator(on: str, kind: str, zero: int | None) -> None:
    """Halves, what is beyond the bounds, infinities and NaN; and elements that all lie within the bounds."""
    lazy = STACKS[on].swap(optimiser=STACKS[on].optimiser.with_numerics("rounding"))
    x, scale = lazy.input("x", (2, 8)), lazy.input("scale", ())
    shift = [] if zero is None else [np.array(zero, kind)]
    wide = lazy.ops.cast(lazy.ops.quantize_linear(x, scale, *shift, dtype=kind), dtype="float32")
    program = lazy.compile([x, scale], [wide])
    assert {n.op.name for n in program.graph.nodes} & {"round", "isnan", "clip", "quantize"} == {"quantize"}
    row = np.array([0.25, 0.75, -0.25, 1e9, -1e9, np.inf, -np.inf, np.nan], "float32")
    for given in (np.stack([row, -row]), np.full((2, 8), 1.25, "float32")):
        for by in (0.5, 2.0):
            moved = np.rint(given / np.float32(by)) + (zero or 0)
            bounds = np.iinfo(kind)
            wanted = np.clip(np.where(np.isnan(moved), 0, moved), bounds.min, bounds.max)
            np.testing.assert_array_equal(program(given, np.float32(by))[0], wanted)


@pytest.mark.parametrize("on", ["numpy", "cpu"])
@pytest.mark.parametrize(
    ("left", "right"), [((4,), (4, 3)), ((2, 4), (4,)), ((4,), (4,)), ((2, 5, 4), (4,)), ((4,), (2, 4, 3))]
)
def test_vectors_are_rows_and_columns(on: str, left: Any, right: Any) -> None:
    """As NumPy's product has them; met from outside, where onnxruntime computed what was refused."""
    a, b = extreme(0, left, "uint8"), extreme(1, right, "int8")
    shapes = [", ".join(map(str, shape)) for shape in (left, right)]
    for constant in (True, False):
        inputs = f"uint8[{shapes[0]}] a" + (f", int8[{shapes[1]}] b" if not constant else "")
        model = built(f"({inputs}) => (int32 y) {{ y = MatMulInteger (a, b, z) }}", z=np.array(9, "uint8"),
                      **({"b": b} if constant else {}))  # fmt: skip
        found = nnc.from_onnx(model, STACKS[on])(*([a] if constant else [a, b]))
        np.testing.assert_array_equal(found, (a.astype("int32") - 9) @ b.astype("int32"))
