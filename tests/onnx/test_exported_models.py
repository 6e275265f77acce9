"""The zoo as ONNX models: onnxruntime agrees; they are read by their nodes (`graph/onnx_export`, `models`, `onnx`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.errors import OnnxError
from nnc_func.graph.onnx_export.metadata import restored
from nnc_func.testing.programs import LARGEST, Program, programs
from nnc_func.tree import flatten
from tests.models.networks import networks
from tests.onnx.exported import run_model

LAZY = nnc.lazy()
NAMES = models.names()


def agrees(model: Any, batch: Any, count: int) -> None:
    graph, (x, _) = model.inference(LAZY, batch=batch, seed=1), model.examples(batch=count, seed=1)
    wanted, _ = flatten(LAZY.engine.compile(graph)(x), by_insertion=True)
    found = run_model(graph.to_onnx(), {graph.inputs[0].data: x})
    assert found is not None
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@networks()
def test_a_runtime_agrees_on_a_reduced_network(name: str) -> None:
    model = models.get(name).reduced()
    agrees(model, "n" if model.trains else 2, count=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if models.get(name).trains])
def test_a_runtime_agrees_on_a_network(name: str) -> None:
    agrees(models.get(name), 1, count=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not models.get(name).trains])
def test_a_runtime_detects_the_same(name: str) -> None:
    """All detections, in their order: of noise and random weights none is probable, so the least probable is shown.

    Regions are chosen by comparing scores, which rounding may turn round. These weights and this image are such that it
    does not: the 1000 proposals and the 100 detections are the same ones, and nothing is left out of the comparison.
    """
    model = models.get(name).with_options(confidence=0.0)
    graph = model.inference(LAZY, seed=1)
    scores = LAZY.engine.compile(graph)(model.examples(seed=1)[0])["scores"]
    assert (np.asarray(scores) > 0.01).all()
    agrees(model, 1, count=1)


ROUNDING = np.float32(2**-23)  # relative: what an image may be off by
TRAINED = [name for name in NAMES if models.get(name).trains]


def stepped(model: Any, feeds: dict[str, Any]) -> list[Any]:
    """The outputs of a step of the stack, and the values that the variables have after it."""
    graph = model.training(LAZY, batch=8, seed=1)
    found = flatten(LAZY.engine.compile(graph)(*feeds.values()))[0]
    return [*found, *(variable.data.copied() for variable, _ in graph.updates)]


def trains(model: Any) -> None:
    """A training step, forward, backward and update: as near to the stack's as steps from nearly equal inputs are.

    Each element is nearly equal by itself: a factor common to all of an image is what batch norms take out.
    """
    x, y = model.examples(batch=8, seed=2)  # few examples normalise badly: their variance is rounding
    graph = model.training(LAZY, batch=8, seed=1)
    given = {"x": x, "y": y, "iteration": 0, "rate": 0.01}
    feeds = {i.data: np.asarray(given[i.data], i.aval.dtype) for i in graph.inputs}
    found = run_model(graph.to_onnx(), feeds)
    assert found is not None
    wanted, random = stepped(model, feeds), np.random.default_rng(0)
    signs = [random.choice(np.array([-1, 1], np.float32), x.shape) for _ in range(3)] if x.dtype.kind == "f" else []
    near = [stepped(model, {**feeds, "x": x + x * ROUNDING * sign}) for sign in signs]
    for one, other, *beside in zip(found, wanted, *near, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if other.dtype.kind == "f":
            scale = float(np.abs(other).max()) + 1e-2
            moved = max((float(np.abs(other - each).max()) for each in beside), default=0.0)
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * scale + 10 * moved)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "lenet-5" else pytest.mark.slow) for n in TRAINED])
def test_a_runtime_trains_a_reduced_network(name: str) -> None:
    trains(models.get(name).reduced())


# --- read back --------------------------------------------------------------------------------------------


def stripped(model: Any) -> Any:
    """The model without its graph's text: as of another program."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.metadata_props[:]
    return found


def reads(program: Program) -> None:
    """The nodes of a model, read as any other's, compute what the graph computed."""
    assume(all(step.op.name != "searchsorted" for step in program.steps))  # of what is not sorted it may say anything
    graph = program.build(LAZY).program.source
    assume(not graph.updates)
    feeds = program.feeds()
    wanted, _, largest = program.run_numpy(feeds, [v.value() for v in program.variables])
    assume(largest < LARGEST)
    try:
        model = stripped(graph.to_onnx())
    except OnnxError:
        return
    found = nnc.from_onnx(model, LAZY)(**{leaf.name: x for leaf, x in zip(program.inputs, feeds, strict=True)})
    allowed = 512 * program.epsilon() * max(largest, 1.0)
    for one, other in zip(found if len(wanted) > 1 else [found], wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one.astype("float64"), other.astype("float64"), rtol=0, atol=allowed)


@pytest.mark.parametrize("other", ["uint8", "int32", "float32", "float64"])
@pytest.mark.parametrize("first", ["uint8", "int8", "int64", "float32"])
@pytest.mark.parametrize("name", ["sigmoid_gradient", "tanh_gradient", "relu_gradient", "adaptive_update"])
def test_gradients_of_mixed_dtypes_are_computed_in_that_of_the_result(name: str, first: str, other: str) -> None:
    # a fresh seed found: the gradient of a sigmoid of uint8 and float64 was exported as one that wraps
    draw = np.random.default_rng(0)
    dtypes = [first, other] if name != "adaptive_update" else [first, other, other, first, other]
    dtypes += [other] * name.startswith(("sigmoid", "tanh"))
    arrays = [draw.integers(5, 120, 4).astype(dtype) for dtype in dtypes]
    inputs = [LAZY.input(f"x{n}", (4,), dtype) for n, dtype in enumerate(dtypes)]
    program = LAZY.compile(inputs, getattr(LAZY.ops, name)(*inputs))
    found = nnc.from_onnx(stripped(program.source.to_onnx()), LAZY)
    names = {f"x{n}": array for n, array in enumerate(arrays)}
    np.testing.assert_allclose(found(**names), program(*arrays), rtol=1e-6)


@settings(max_examples=15)
@given(programs(most_steps=6))
def test_a_models_nodes_are_read_back(program: Program) -> None:
    reads(program)


@pytest.mark.slow
@given(programs())
def test_all_models_nodes_are_read_back(program: Program) -> None:
    reads(program)


def test_a_network_is_read_back_from_its_file(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2D(4, 3), nn.relu, nn.Flatten(), nn.Dense(3)).init(0, (None, 6, 6, 1))
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 1)).astype("float32")
    image = LAZY.input("image", ("n", 6, 6, 1))
    program = LAZY.compile([image], {"scores": model(image)})
    program.source.to_onnx(tmp_path / "net.onnx", external_above=1000)
    found = nnc.from_onnx(tmp_path / "net.onnx", LAZY)
    assert str(found.original) == str(program.source)
    by_nodes = nnc.from_onnx(stripped(onnx.load(tmp_path / "net.onnx")), LAZY)
    assert by_nodes.original is None
    for read in (found, by_nodes):
        np.testing.assert_allclose(read(x), program(x)["scores"], rtol=1e-5, atol=1e-6)


def test_a_training_step_comes_back_with_its_updates() -> None:
    w = LAZY.variable("w", np.float32([1, 2]))
    x = LAZY.input("x", (2,))
    graph = LAZY.compile([x], x * w, [(w, w + x)]).source
    found = nnc.from_onnx(graph.to_onnx(), LAZY).original
    assert str(found) == str(graph)
    program = LAZY.engine.compile(found)
    np.testing.assert_array_equal(program(np.ones(2, "float32")), [1, 2])
    np.testing.assert_array_equal(program(np.ones(2, "float32")), [2, 3])
    np.testing.assert_array_equal(w.numpy(), [1, 2])
    assert restored(graph.to_onnx(), LAZY) is not found
