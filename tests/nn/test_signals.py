"""Windows, quantisation, remainders, depthwise convolution (`graph/composites/signals`, `device/kernels/depthwise`).

Beside SciPy, NumPy and onnxruntime; remainders are truncated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nnc_func as nnc
from nnc_func.errors import DTypeError, OperatorError, ShapeError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
EAGER = STACKS["eager"]
stacks = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


@pytest.mark.parametrize("kind", ["hann", "hamming", "blackman", "boxcar"])
@given(size=st.integers(0, 40), periodic=st.booleans())
def test_windows_are_those_of_scipy(kind: str, size: int, periodic: bool) -> None:
    found = EAGER.ops.window(size=size, kind=kind, periodic=periodic).numpy()
    wanted = scipy.signal.get_window(kind, size, fftbins=periodic) if size else np.zeros(0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-15)


def run(name: str, given: dict[str, np.ndarray], kind: Any, **attributes: Any) -> np.ndarray:
    """One operator by onnxruntime."""
    kinds = {n: onnx.helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in given.items()}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(name, [*given], ["y"], **attributes)], "g",
        [onnx.helper.make_tensor_value_info(n, kinds[n], v.shape) for n, v in given.items()],
        [onnx.helper.make_tensor_value_info("y", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0]


@stacks
@settings(max_examples=8)  # each makes two sessions
@given(
    x=arrays(np.float32, (2, 3), elements=st.floats(-300, 300, width=16)),
    scale=arrays(np.float32, (3,), elements=st.sampled_from([0.25, 0.5, 1.0, 3.0])),
    zero=arrays(np.int64, (3,), elements=st.integers(0, 100)),
    dtype=st.sampled_from(["uint8", "int8"]),
)
def test_quantisation_is_that_of_onnxruntime(stack: Any, x: Any, scale: Any, zero: Any, dtype: str) -> None:
    zero, ops = zero.astype(dtype), stack.ops
    wanted = run("QuantizeLinear", {"x": x, "scale": scale, "zero": zero}, dtype, axis=1)
    found = ops.quantize_linear(*map(stack.asarray, (x, scale, zero)), dtype=dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), wanted)
    back = run("DequantizeLinear", {"x": wanted, "scale": scale, "zero": zero}, "float32", axis=1)
    given = ops.dequantize_linear(*map(stack.asarray, (wanted, scale, zero)))
    np.testing.assert_array_equal(given.numpy(), back)


def test_scales_of_blocks_broadcast_from_rank_2_on() -> None:
    x, scale = EAGER.asarray(np.arange(12.0).reshape(2, 3, 2) * 10), np.array([[1.0], [2.0], [4.0]])
    found = EAGER.ops.quantize_linear(x, EAGER.asarray(scale), dtype="uint8")
    np.testing.assert_array_equal(found.numpy(), np.round(x.numpy() / scale))
    np.testing.assert_array_equal(
        EAGER.ops.dequantize_linear(found, EAGER.asarray(scale)).numpy(), found.numpy() * scale
    )
    with pytest.raises(ShapeError, match="of rank 2 or more that broadcasts"):
        EAGER.ops.quantize_linear(x, EAGER.asarray(np.ones((2, 2))))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int32"])
def test_what_is_beyond_integers_is_their_end(dtype: str) -> None:
    x, ends = np.array([-np.inf, -3e38, 3e38, np.inf, np.nan], "float32"), np.iinfo(dtype)
    found = EAGER.ops.quantize_linear(EAGER.asarray(x), np.float32(0.5), np.array(3, dtype), dtype=dtype)
    assert found.numpy().tolist() == [ends.min, ends.min, ends.max, ends.max, 0]
    back = EAGER.ops.dequantize_linear(found, np.float32(0.5), np.array(3, dtype))
    np.testing.assert_allclose(back.numpy()[:4], (found.numpy()[:4].astype("int64") - 3) * 0.5, rtol=1e-6)


@given(x=arrays(np.float64, (4,), elements=st.floats(allow_nan=True)), y=arrays(np.float64, (4,), elements=st.floats()))
def test_fmod_is_that_of_numpy(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_array_equal(EAGER.ops.fmod(EAGER.asarray(x), EAGER.asarray(y)).numpy(), np.fmod(x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@given(data=st.data())
def test_fmod_of_integers_is_that_of_numpy(dtype: str, data: Any) -> None:
    x = data.draw(arrays(dtype, (6,)))
    y = data.draw(arrays(dtype, (6,)).filter(lambda y: bool((y != 0).all())))
    found = EAGER.ops.fmod(EAGER.asarray(x), EAGER.asarray(y))
    np.testing.assert_array_equal(found.numpy(), np.fmod(x, y))


@stacks
@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_depthwise_convolution_with_several_kernels_a_channel(stack: Any, multiplier: int) -> None:
    """As many groups as channels, and a multiple of outputs: channel c has the outputs from c * multiplier on."""
    random = np.random.default_rng(multiplier)
    x, w = random.normal(size=(2, 6, 5, 4)), random.normal(size=(3, 3, 1, 4 * multiplier))
    found = stack.ops.conv2d(stack.asarray(x), stack.asarray(w), groups=4, padding="VALID").numpy()
    for n in range(2):
        for out in range(4 * multiplier):
            plane = scipy.signal.correlate2d(x[n, :, :, out // multiplier], w[:, :, 0, out], mode="valid")
            np.testing.assert_allclose(found[n, :, :, out], plane, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (OperatorError, "a window is one of hann", lambda o, x: o.window(size=3, kind="kaiser")),
        (ShapeError, "0 elements or more", lambda o, x: o.window(size=-1)),
        (DTypeError, "integers of at most 32 bits", lambda o, x: o.quantize_linear(x, 0.5, dtype="float32")),
        (DTypeError, "integers of at most 32 bits", lambda o, x: o.dequantize_linear(x, 0.5)),
        (ShapeError, "one for each place of axis -1", lambda o, x: o.quantize_linear(x, np.ones(2))),
        (DTypeError, "a scale is a floating number", lambda o, x: o.quantize_linear(x, np.ones(3, int))),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, words: str, call: Any) -> None:
    with pytest.raises(kind, match=words):
        call(EAGER.ops, EAGER.asarray(np.ones((2, 3))))
