"""The nine networks that the onnx package ships, with the results it ships for them (`onnx`, `graph`, `engine`)."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest

import nnc_func as nnc

FOLDER = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data", "light")
QUICK = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet")
SENSITIVE = "squeezenet"
LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")  # half a gigabyte of weights


def scored(name: str, dtype: str, stack: Any) -> Any:
    """The model as a function whose results are its probabilities and the scores that these are made of."""
    proto = onnx.load(os.path.join(FOLDER, f"light_{name}.onnx"))
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = proto.graph
    fills = [node.attribute[0].t for node in graph.node if node.op_type == "ConstantOfShape"]
    for tensor in (*graph.initializer, *fills):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            elements = onnx.numpy_helper.to_array(tensor).astype(dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(elements, tensor.name))
    for each in (*graph.input, *graph.output):
        if each.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            each.type.tensor_type.elem_type = kind
    assert graph.node[-1].op_type == "Softmax"
    graph.output.append(onnx.helper.make_tensor_value_info(graph.node[-1].input[0], kind, None))
    return nnc.from_onnx(proto, stack)


def shapes_of_weights(name: str) -> list[Any]:
    """Of each convolution: how many channels come out, how many go in, and the window."""
    graph = onnx.load(os.path.join(FOLDER, f"light_{name}.onnx")).graph
    made = {node.input[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    return [s for t in graph.initializer if t.name in made and len(s := onnx.numpy_helper.to_array(t)) == 4]


def shipped(name: str) -> Any:
    """What the package says the model gives."""
    return onnx.numpy_helper.to_array(onnx.load_tensor(os.path.join(FOLDER, f"light_{name}_output_0.pb")))


def rising(model: Any, dtype: str) -> Any:
    """What the package computed its results of."""
    (shape,) = (i.shape for i in model.inputs)
    count = math.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype("float32").astype(dtype)


def agrees(name: str, stack: Any) -> None:
    """The model gives what the package says of an input that rises from 0 to 1."""
    model = nnc.from_onnx(os.path.join(FOLDER, f"light_{name}.onnx"), stack)
    found, wanted = model(rising(model, "float32")), shipped(name)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", [n for n in QUICK if n != SENSITIVE])
def test_a_network_gives_what_is_shipped(name: str) -> None:
    agrees(name, nnc.lazy())


@pytest.mark.parametrize(
    "stack", [nnc.lazy(), pytest.param(nnc.eager(), marks=pytest.mark.slow)], ids=["lazy", "eager"]
)
def test_a_network_whose_softmax_tells_the_order_of_sums_gives_scores_within_their_rounding(stack: Any) -> None:
    """SqueezeNet's weights are all 0.02, so that its thousand scores are one number, 9.5e9, at which float32 steps by
    1024: the last bit, which the order of summation decides, makes a probability 0. So the scores are compared.

    No term of its sums is negative. Hence a layer adds at most n·eps/2 to the relative error, n being the products in
    one of its sums and the bias, in whatever order they are summed (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd edition, 4.2); the average at the end, of 13 × 13 numbers, is such a sum too.
    """
    narrow, wide = (scored(SENSITIVE, dtype, stack) for dtype in ("float32", "float64"))
    found, scores = narrow(rising(narrow, "float32"))
    _, exact = wide(rising(wide, "float64"))
    sums = [math.prod(shape[1:]) + 1 for shape in shapes_of_weights(SENSITIVE)]
    assert len(sums) == 26
    np.testing.assert_allclose(scores, exact, rtol=(sum(sums) + 13 * 13) * np.finfo("float32").eps / 2)
    of_scores = np.exp(scores - scores.max(), dtype="float64")
    np.testing.assert_allclose(found, of_scores / of_scores.sum(), rtol=1e-3, atol=1e-7)
    same = np.exp(exact - exact.max())  # what is shipped is what scores are that differ no more than these
    np.testing.assert_allclose(shipped(SENSITIVE), same / same.sum(), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_network_gives_what_is_shipped(name: str) -> None:
    agrees(name, nnc.lazy())


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in QUICK + LARGE if n != SENSITIVE])
def test_a_network_gives_it_at_once(name: str) -> None:
    agrees(name, nnc.eager())


def test_none_is_left_out() -> None:
    assert {f"light_{n}.onnx" for n in QUICK + LARGE} == {f for f in os.listdir(FOLDER) if f.endswith(".onnx")}
