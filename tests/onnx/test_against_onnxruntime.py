"""Single nodes with drawn parameters, by our operators and by onnxruntime, which share no code (`onnx/operators`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import nnc_func as nnc

EXAMPLES = settings(max_examples=20 if settings.default.max_examples <= 50 else 300)
STACKS = st.sampled_from((nnc.eager(), nnc.lazy()))
DTYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32}
KINDS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
# What the package infers of windows, which these models then declare of their outputs, is wrong at times.
pytestmark = pytest.mark.filterwarnings("ignore:output '.*' has shape:nnc_func.errors.OnnxWarning")


def model_of(
    op: str, inputs: list[Any], attributes: dict[str, Any], *, results: int = 1, opset: int = 18, constant: Any = ()
) -> bytes:
    """A model of one node, whose inputs are constants where that is said."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(results)], name="tested", **attributes)
    given = [(n, x) for i, (n, x) in enumerate(zip(names, inputs, strict=True)) if n and i not in constant]
    fixed = [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in constant if inputs[i] is not None]
    infos = [helper.make_tensor_value_info(n, DTYPES[x.dtype.name], x.shape) for n, x in given]
    graph = helper.make_graph([node], op, infos, [onnx.ValueInfoProto(name=n) for n in node.output], fixed)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


def by_runtime(model: bytes, arrays: list[Any]) -> list[Any]:
    """The results by onnxruntime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), arrays, strict=True)))


def check(stack: Any, op: str, inputs: list[Any], attributes: dict[str, Any], rtol: float = 1e-4, **facts: Any) -> None:
    """Our results are those of onnxruntime."""
    model = model_of(op, inputs, attributes, **facts)
    arrays = [x for i, x in enumerate(inputs) if x is not None and i not in facts.get("constant", ())]
    wanted = by_runtime(model, arrays)
    found = nnc.from_onnx(model, stack)(*arrays)
    found = [found] if len(wanted) == 1 else found
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * max(1.0, float(np.abs(theirs).max(initial=0))))


def numbers(seed: int, *shape: int) -> Any:
    """Elements that are all different."""
    generator = np.random.default_rng(seed)
    return generator.permuted(np.linspace(-2, 2, math.prod(shape))).astype("float32").reshape(shape)


@st.composite
def windows(draw: Any, *, dilated: bool = True) -> Any:
    """Spatial extents, and the attributes of windows that fit."""
    axes = draw(st.integers(1, 3))
    each = st.lists(st.integers(1, 3), min_size=axes, max_size=axes)
    kernel, strides = draw(each), draw(each)
    dilations = draw(st.lists(st.integers(1, 2), min_size=axes, max_size=axes)) if dilated else [1] * axes
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    extents = [s + draw(st.integers(0, 4)) for s in spans]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if dilated:
        attributes["dilations"] = dilations
    return extents, spans, attributes


def padded(draw: Any, spans: list[int], strides: list[int] | None = None) -> dict[str, Any]:
    """Padding of one kind or another, narrower than the windows."""
    kind = draw(st.sampled_from(KINDS))
    if kind != "NOTSET":
        within = strides is None or all(s <= n for s, n in zip(strides, spans, strict=True))
        return {"auto_pad": kind if within else "VALID"}  # there onnxruntime pads with less than nothing
    return {"pads": [draw(st.integers(0, s - 1)) for s in spans + spans]}


@EXAMPLES
@given(st.data(), STACKS)
def test_convolution(data: Any, stack: Any) -> None:
    extents, spans, attributes = data.draw(windows())
    attributes |= padded(data.draw, spans)
    if attributes.get("auto_pad", "")[:4] == "SAME":
        attributes.pop("dilations")  # onnxruntime refuses both
    groups, inputs, outputs = (data.draw(st.integers(1, 3)) for _ in range(3))
    x = numbers(0, data.draw(st.integers(1, 2)), groups * inputs, *extents)
    w = numbers(1, groups * outputs, inputs, *attributes["kernel_shape"])
    b = numbers(2, groups * outputs) if data.draw(st.booleans()) else None
    check(stack, "Conv", [x, w, b], {**attributes, "group": groups}, constant=data.draw(st.sampled_from(((), (1, 2)))))


@EXAMPLES
@given(st.data(), STACKS)
def test_transposed_convolution(data: Any, stack: Any) -> None:
    extents, spans, attributes = data.draw(windows())
    strides = attributes["strides"]
    attributes |= {"pads": [data.draw(st.integers(0, (s - 1) // 2)) for s in spans] * 2}
    attributes["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    groups, inputs, outputs = (data.draw(st.integers(1, 2)) for _ in range(3))
    x = numbers(0, data.draw(st.integers(1, 2)), groups * inputs, *extents)
    w = numbers(1, groups * inputs, outputs, *attributes["kernel_shape"])
    b = numbers(2, groups * outputs) if data.draw(st.booleans()) else None
    check(stack, "ConvTranspose", [x, w, b], {**attributes, "group": groups})


@EXAMPLES
@given(st.data(), STACKS)
def test_largest_of_windows(data: Any, stack: Any) -> None:
    extents, _, attributes = data.draw(windows())
    attributes |= padded(data.draw, attributes["kernel_shape"], attributes["strides"])
    if "auto_pad" not in attributes:
        attributes["ceil_mode"] = data.draw(st.integers(0, 1))
    elif attributes["auto_pad"] != "VALID":
        attributes.pop("dilations")
    x = numbers(0, data.draw(st.integers(1, 2)), 2, *extents)
    results = data.draw(st.integers(1, 2))
    if results == 2:
        attributes["storage_order"] = data.draw(st.integers(0, 1))
    check(stack, "MaxPool", [x], attributes, results=results)


@EXAMPLES
@given(st.data(), STACKS)
def test_mean_of_windows(data: Any, stack: Any) -> None:
    extents, _, attributes = data.draw(windows(dilated=False))
    attributes |= padded(data.draw, attributes["kernel_shape"], attributes["strides"])
    attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    if "auto_pad" not in attributes:
        attributes["ceil_mode"] = data.draw(st.integers(0, 1))
    check(stack, "AveragePool", [numbers(0, 1, 2, *extents)], attributes, opset=19)


@EXAMPLES
@given(st.data(), STACKS)
def test_norm_of_windows(data: Any, stack: Any) -> None:
    extents, _, attributes = data.draw(windows(dilated=False))
    attributes |= padded(data.draw, attributes["kernel_shape"], attributes["strides"])
    attributes["p"] = data.draw(st.integers(1, 3))
    check(stack, "LpPool", [numbers(0, 2, 2, *extents)], attributes)


@EXAMPLES
@given(st.data(), STACKS)
def test_resize(data: Any, stack: Any) -> None:
    axes = data.draw(st.integers(1, 3))
    mode = data.draw(st.sampled_from(("nearest", "linear", "cubic")))
    axes = 2 if mode == "cubic" else axes
    extents = [data.draw(st.integers(2, 6)) for _ in range(axes)]
    places = data.draw(st.sampled_from(("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")))
    attributes = {"mode": mode, "coordinate_transformation_mode": places}
    if mode == "nearest":
        roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = data.draw(st.sampled_from(roundings))
    elif mode == "cubic":
        attributes |= {
            "exclude_outside": data.draw(st.integers(0, 1)),
            "cubic_coeff_a": data.draw(st.sampled_from((-0.5, -0.75))),
        }
    x = numbers(0, 1, 2, *extents)
    sizes = np.array([1, 2, *(n * data.draw(st.sampled_from((1, 2, 4))) // 2 for n in extents)], "int64")
    check(stack, "Resize", [x, None, None, sizes], attributes, constant=(3,))


def activations(data: Any, count: int) -> dict[str, Any]:
    """So many functions, with parameters of their own where they take some."""
    kinds = ("Tanh", "Sigmoid", "Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "ScaledTanh")
    names = [data.draw(st.sampled_from(kinds)) for _ in range(count)]
    alphas = [0.3 for name in names if name in ("LeakyRelu", "HardSigmoid", "Elu", "ScaledTanh")]
    betas = [0.4 for name in names if name in ("HardSigmoid", "ScaledTanh")]
    return {"activations": names, **{n: v for n, v in (("activation_alpha", alphas), ("activation_beta", betas)) if v}}


@EXAMPLES
@given(st.data(), STACKS)
def test_recurrent_layers(data: Any, stack: Any) -> None:
    op, gates = data.draw(st.sampled_from((("RNN", 1), ("LSTM", 4), ("GRU", 3))))
    direction = data.draw(st.sampled_from(("forward", "reverse", "bidirectional")))
    directions, hidden, width = 1 + (direction == "bidirectional"), data.draw(st.integers(1, 3)), 2
    steps, samples = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    x = numbers(0, steps, samples, width)
    w, r = numbers(1, directions, gates * hidden, width), numbers(2, directions, gates * hidden, hidden)
    b = numbers(3, directions, 2 * gates * hidden) if data.draw(st.booleans()) else None
    lengths = None
    if data.draw(st.booleans()):
        lengths = np.array([data.draw(st.integers(1, steps)) for _ in range(samples)], "int32")
    state = numbers(4, directions, samples, hidden) if data.draw(st.booleans()) else None
    inputs = [x, w, r, b, lengths, state]
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op == "LSTM":
        inputs += [None, numbers(5, directions, 3 * hidden) if data.draw(st.booleans()) else None]
        attributes["input_forget"] = data.draw(st.integers(0, 1))
    if op == "GRU":
        attributes["linear_before_reset"] = data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        attributes["clip"] = 0.7
    if data.draw(st.booleans()):
        attributes |= activations(data, directions * {"RNN": 1, "LSTM": 3, "GRU": 2}[op])
    check(stack, op, inputs, attributes, results=3 if op == "LSTM" else 2, opset=14)


@EXAMPLES
@given(st.data(), STACKS)
def test_grids(data: Any, stack: Any) -> None:
    mode = data.draw(st.sampled_from(("linear", "nearest", "cubic")))
    extents = [data.draw(st.integers(1, 4)) for _ in range(2)]
    grid = numbers(1, 2, 3, 2, 2) * np.float32(0.8)
    attributes = {
        "mode": mode,
        "align_corners": data.draw(st.integers(0, 1)),
        "padding_mode": data.draw(st.sampled_from(("zeros", "border", "reflection"))),
    }
    check(stack, "GridSample", [numbers(0, 2, 3, *extents), grid], attributes, opset=20, rtol=1e-3)


@EXAMPLES
@given(st.data(), STACKS)
def test_features_of_boxes(data: Any, stack: Any) -> None:
    corners = np.sort(np.random.default_rng(data.draw(st.integers(0, 99))).uniform(0, 6, (3, 2, 2)), axis=1)
    boxes = corners.reshape(3, 4).astype("float32")
    images = np.array([0, 1, 0], "int64")
    attributes = {
        "output_height": data.draw(st.integers(1, 3)),
        "output_width": data.draw(st.integers(1, 3)),
        "sampling_ratio": data.draw(st.integers(0, 3)),
        "spatial_scale": data.draw(st.sampled_from((1.0, 0.5))),
        "coordinate_transformation_mode": data.draw(st.sampled_from(("half_pixel", "output_half_pixel"))),
        "mode": data.draw(st.sampled_from(("avg", "max"))),
    }
    check(stack, "RoiAlign", [numbers(0, 2, 2, 5, 6), boxes, images], attributes, constant=(1,))


@EXAMPLES
@given(st.data(), STACKS)
def test_which_boxes_are_kept(data: Any, stack: Any) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    boxes = generator.uniform(0, 2, (2, 6, 4)).astype("float32")
    scores = generator.uniform(0, 1, (2, 2, 6)).astype("float32")
    limits = [
        np.array([n], d)
        for n, d in (
            (data.draw(st.integers(1, 7)), "int64"),
            (data.draw(st.sampled_from((0.1, 0.5))), "float32"),
            (data.draw(st.sampled_from((0.0, 0.4))), "float32"),
        )
    ]
    attributes = {"center_point_box": data.draw(st.integers(0, 1))}
    check(stack, "NonMaxSuppression", [boxes, scores, *limits], attributes, constant=(2, 3, 4))


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("momentum", [None, 0.5])
def test_batch_normalisation_is_that_of_inference(opset: int, momentum: float | None) -> None:
    x = numbers(0, 2, 3, 4)
    inputs = [x, numbers(1, 3), numbers(2, 3), numbers(3, 3), np.abs(numbers(4, 3)) + 1]
    attributes = {} if momentum is None else {"momentum": momentum}
    for stack in (nnc.eager(), nnc.lazy()):
        check(stack, "BatchNormalization", inputs, attributes, opset=opset, constant=(1, 2, 3, 4))
