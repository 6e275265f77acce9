"""Small convolutions by oneDNN: images that lie channel by channel, and signals (`device/kernels/onednn_conv`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import onednn_conv

EAGER, LAZY = nnc.eager(), nnc.lazy(nnc.CPU())
draw = np.random.default_rng(0)
WINDOWS = st.fixed_dictionaries({
    "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "padding": st.sampled_from(["VALID", "SAME", ((1, 0), (2, 1))]),
    "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
    "groups": st.sampled_from([1, 1, 2]),
})  # fmt: skip


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


def kernels(program: Any, name: str) -> list[str]:
    return [i.kernel for i in program.plan.instructions if i.op.name == name]


@given(st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(5, 9), st.integers(5, 9)), WINDOWS, st.booleans())
def test_images_that_lie_channel_by_channel(extents: Any, windows: Any, constant: bool) -> None:
    n, channels, height, width = extents
    groups = windows["groups"]
    x, w = some(n, channels * groups, height, width), some(3, 2, channels, 4 * groups)
    there = LAZY.input("x", x.shape, "float32")
    weights = LAZY.asarray(w) if constant else LAZY.input("w", w.shape, "float32")
    inputs = [there] if constant else [there, weights]
    program = LAZY.compile(inputs, LAZY.ops.conv2d(there, weights, data_format="NCHW", **windows))
    wanted = EAGER.ops.conv2d(x, w, data_format="NCHW", **windows).numpy()
    np.testing.assert_allclose(program(*([x] if constant else [x, w])), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        nnc.eager(nnc.CPU()).ops.conv2d(x, w, data_format="NCHW", **windows).numpy(), wanted, rtol=1e-4, atol=1e-5
    )


def test_the_library_takes_small_ones_only() -> None:
    for width, taken in ((8, True), (onednn_conv.FEW, False)):
        x = LAZY.input("x", (1, 16, 1, width), "float32")
        program = LAZY.compile([x], LAZY.ops.conv2d(x, LAZY.asarray(some(1, 3, 16, 8)), data_format="NCHW"))
        assert (kernels(program, "conv2d") == ["onednn, packed, by channel"]) == taken


def test_weights_of_signals_are_seen_to_be_constant() -> None:
    """They have an axis more as an image's, and are larger than what is folded always."""
    x, w = LAZY.input("x", (1, 64, 9), "float32"), some(5, 64, 128)
    program = LAZY.compile([x], LAZY.ops.conv1d(x, LAZY.asarray(w), data_format="NCW"))
    assert kernels(program, "conv2d") == ["onednn, packed, by channel"]
    array = some(1, 64, 9)
    wanted = EAGER.ops.conv1d(array, w, data_format="NCW").numpy()
    np.testing.assert_allclose(program(array), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "VALID"])
def test_signals_of_onnx_run_with_channels_innermost(auto_pad: str) -> None:
    """Convolutions of signals with biases and rectifiers are finished by the library, each where it is computed."""
    onnx = pytest.importorskip("onnx")
    helper, count = onnx.helper, 5
    weights = {f"w{k}": some(8, 8, 3) / 5 for k in range(count)} | {f"b{k}": some(8) for k in range(count)}
    nodes = []
    for k in range(count):
        pads = {"pads": [1, 1]} if auto_pad == "NOTSET" else {"auto_pad": auto_pad}
        dilations = {"dilations": [1 + k % 2]} if auto_pad != "SAME_UPPER" else {}
        nodes.append(helper.make_node("Conv", [f"x{k}", f"w{k}", f"b{k}"], [f"y{k}"], **pads, **dilations))
        nodes.append(helper.make_node("Relu", [f"y{k}"], [f"x{k + 1}"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "signals", [info("x0", 1, (2, 8, 40))], [info(f"x{count}", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    ours, theirs = nnc.from_onnx(model, LAZY), nnc.from_onnx(model, nnc.lazy())
    assert kernels(ours.program, "conv2d_blockwise") == ["onednn, packed"] * count
    apart = [i.op.name for i in ours.program.plan.instructions if i.op.name in ("add", "relu")]
    assert apart == ["relu"]  # the last one, behind which no image stands
    array = some(2, 8, 40)
    np.testing.assert_allclose(ours(array), theirs(array), rtol=1e-4, atol=1e-5)


def test_relayouts_that_move_nothing_stand_in_no_way() -> None:
    """Images of one pixel lie in both orders alike, so what asks for one of them between convolutions costs nothing."""
    x, array = LAZY.input("x", (1, 8, 1, 1), "float32"), some(1, 8, 1, 1)
    weights = [some(1, 1, 8, 8) for _ in range(5)]

    def computed(stack: Any, y: Any) -> Any:
        for w in weights:
            y = stack.ops.relu(stack.ops.conv2d(stack.ops.flip(y, axis=1), stack.asarray(w), data_format="NCHW"))
        return y

    program = LAZY.compile([x], computed(LAZY, x))
    assert kernels(program, "conv2d_blockwise") == ["onednn, packed"] * len(weights)
    np.testing.assert_allclose(program(array), computed(EAGER, EAGER.asarray(array)).numpy(), rtol=1e-4, atol=1e-4)


@given(st.integers(1, 3), st.integers(4, 20), WINDOWS, st.booleans(), st.data())
def test_images_one_element_wide_are_those_one_element_high(
    n: int, height: int, windows: Any, wide: bool, data: Any
) -> None:
    """Both forms of a signal, and their gradients, are computed as NumPy computes them."""
    padding = data.draw(st.sampled_from(["VALID", "SAME", ((2, 1), (0, 0))]))
    groups, swap = windows["groups"], (lambda pair: pair[::-1]) if wide else (lambda pair: pair)
    params = {name: swap(windows[name]) for name in ("stride", "dilation")} | {"groups": groups}
    params["padding"] = padding if isinstance(padding, str) else swap(padding)
    x, w = some(n, *swap((height, 1)), 3 * groups), some(*swap((2, 1)), 3, 4 * groups)
    stacks = nnc.eager(nnc.CPU()), EAGER
    found, wanted = (stack.ops.conv2d(x, w, **params).numpy() for stack in stacks)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    g = some(*wanted.shape)
    for name, first, shapes in (
        ("conv2d_input_gradient", (g, w), {"input_shape": x.shape}),
        ("conv2d_kernel_gradient", (x, g), {"kernel_shape": w.shape}),
    ):
        one, other = (getattr(stack.ops, name)(*first, **shapes, **params).numpy() for stack in stacks)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_heavy_convolution_alone_is_worth_two_relayouts() -> None:
    """By a library's kernel; NumPy's computes images in the order in which they come."""
    w = some(5, 1, 64, 256)
    for stack, moves in ((LAZY, 2), (nnc.lazy(), 0)):
        for channels, count in ((64, moves), (1, 0)):
            x = stack.input("x", (1, channels, 64, 1), "float32")
            program = stack.compile([x], stack.ops.conv2d(x, stack.asarray(w[:, :, :channels]), data_format="NCHW"))
            assert len(kernels(program, "relayout")) == count
            array = some(1, channels, 64, 1)
            wanted = EAGER.ops.conv2d(array, w[:, :, :channels], data_format="NCHW").numpy()
            np.testing.assert_allclose(program(array), wanted, rtol=1e-4, atol=1e-3)
