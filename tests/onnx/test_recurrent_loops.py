"""ONNX's recurrent operators as loops: extents, gradients, out again (`onnx/operators/recurrent`, `onnx/rolling`).

Values of single layers, with every attribute, are compared in test_against_onnxruntime and test_node_suite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import nnc_func as nnc
from tests.onnx.exported import run_model

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
HIDDEN, WIDTH = 3, 2
EAGER = nnc.eager()
NAMES = ("x", "w", "r", "b", "lengths")


def model_of(op: str, steps: Any, samples: Any, direction: str = "bidirectional", lengths: bool = True) -> Any:
    """A model of one layer, of extents that are numbers or names, whose weights are inputs."""
    d, gates = 1 + (direction == "bidirectional"), GATES[op]
    shapes: dict[str, Any] = {
        "x": (steps, samples, WIDTH), "w": (d, gates * HIDDEN, WIDTH), "r": (d, gates * HIDDEN, HIDDEN),
        "b": (d, 2 * gates * HIDDEN),
    }  # fmt: skip
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    if lengths:
        infos.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, (samples,)))
    node = helper.make_node(
        op, [*shapes, "lengths" if lengths else ""], ["y", "h"], hidden_size=HIDDEN, direction=direction
    )
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "h")]
    graph = helper.make_graph([node], op, infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def arrays_of(op: str, steps: int, samples: int, directions: int = 2) -> list[Any]:
    draw, gates = np.random.default_rng(steps), GATES[op]
    shapes = (
        (steps, samples, WIDTH), (directions, gates * HIDDEN, WIDTH), (directions, gates * HIDDEN, HIDDEN),
        (directions, 2 * gates * HIDDEN),
    )  # fmt: skip
    found = [draw.uniform(-1, 1, s).astype("float32") for s in shapes]
    return [*found, draw.integers(min(1, steps), steps + 1, samples).astype("int32")]


@pytest.mark.parametrize("op", GATES)
def test_the_graph_does_not_grow_with_steps(op: str) -> None:
    counts = []
    for steps in (3, 2_000):
        graph = nnc.from_onnx(model_of(op, steps, 4)).graph
        counts.append(len(graph.nodes))
        assert [node.op.name for node in graph.nodes].count("loop") == 2
    assert counts[0] == counts[1]


@pytest.mark.parametrize("op", GATES)
def test_one_program_for_all_lengths(op: str) -> None:
    proto = model_of(op, "steps", "samples")
    model = nnc.from_onnx(proto, nnc.lazy())
    for steps, samples in ((1, 2), (7, 1), (4, 3)):
        arrays = arrays_of(op, steps, samples)
        wanted = run_model(proto, dict(zip(NAMES, arrays, strict=True)))
        assert wanted is not None
        for ours, theirs in zip(model(*arrays), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert "steps" in str(model.graph.inputs[0].aval)


def test_no_step(stack: Any) -> None:
    """A runtime refuses that; ours is what a loop gives of no time: no outputs, and the first state."""
    y, h = nnc.from_onnx(model_of("GRU", "steps", 3), stack)(*arrays_of("GRU", 0, 3))
    assert y.shape == (0, 2, 3, HIDDEN)
    assert not h.any()


@pytest.mark.parametrize("op", GATES)
def test_out_again(op: str) -> None:
    """What is read is written as Scans, which a runtime computes alike."""
    proto, arrays = model_of(op, 5, 3), arrays_of(op, 5, 3)
    named = dict(zip(NAMES, arrays, strict=True))
    again = nnc.from_onnx(proto).graph.to_onnx(opset=18)
    assert [node.op_type for node in again.graph.node].count("Scan") == 2
    for one, other in zip(run_model(again, named) or (), run_model(proto, named) or (), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# --- gradients ---------------------------------------------------------------------------------------------------


def by_steps(op: str, x: Any, w: Any, r: Any, b: Any, lengths: Any) -> Any:
    """One direction forward, step by step and formula by formula, as the standard has them; a loss of its results."""
    ops, gates, outputs = EAGER.ops, GATES[op], []
    h = c = EAGER.asarray(np.zeros((x.shape[1], HIDDEN)))
    given, kept = ops.split(b[0], sections=2, axis=0)

    def parts(y: Any) -> Any:
        return ops.split(y, sections=gates, axis=-1)

    for t in range(x.shape[0]):
        inputs, state = x[t] @ ops.matrix_transpose(w[0]) + given, h @ ops.matrix_transpose(r[0]) + kept
        if op == "RNN":
            after, cell = ops.tanh(inputs + state), c
        elif op == "LSTM":
            i, o, f, g = parts(inputs + state)
            cell = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            after = ops.sigmoid(o) * ops.tanh(cell)
        else:  # the reset gate before the product
            z, reset, n = parts(inputs)
            hz, hr, _ = parts(state)
            z, reset = ops.sigmoid(z + hz), ops.sigmoid(reset + hr)
            _, _, weight = ops.split(r[0], sections=3, axis=0)
            bias = ops.split(kept, sections=3, axis=0)[2]
            new = ops.tanh(n + (reset * h) @ ops.matrix_transpose(weight) + bias)
            after, cell = (1 - z) * new + z * h, c
        on = np.array(lengths)[:, None] > t
        h, c = ops.where(on, after, h), ops.where(on, cell, c)
        outputs.append(ops.where(on, after, 0.0))
    return loss(ops.stack(*outputs, axis=0), h)


def loss(y: Any, h: Any) -> Any:
    return (y * y * y).sum() + (h * h).sum()


@pytest.mark.parametrize("op", GATES)
def test_gradients_are_those_of_the_steps(stack: Any, op: str) -> None:
    model = nnc.from_onnx(model_of(op, 5, 3, "forward"), stack)
    arrays = arrays_of(op, 5, 3, 1)
    *smooth, lengths = arrays

    def whole(*given: Any) -> Any:
        y, h = model.apply(*given, stack.asarray(lengths))
        return loss(y, h)

    found = stack.grad(whole, argnums=(0, 1, 2, 3))(*smooth)
    double = [x.astype("float64") for x in smooth]
    wanted = EAGER.grad(lambda *given: by_steps(op, *given, lengths), argnums=(0, 1, 2, 3))(*double)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
