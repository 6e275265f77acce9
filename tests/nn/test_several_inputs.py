"""Models of several inputs take them as a tree; and what Sequential takes (`nn/inputs`, `nn/step`, `nn/layers`).

The tree is as `forward` takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.composites import COMPOSITES

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((16, 3)).astype("float32"), RNG.integers(0, 5, 16)
Y = RNG.standard_normal((16, 1)).astype("float32")
STACKS = {"eager": nnc.eager, "lazy": nnc.lazy, "over": lambda: nnc.eager().swap(device=nnc.lazy())}
each_stack = pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)


@nn.module
class Towers(nn.Module):
    """Two towers under one head."""

    left: nn.Module
    right: nn.Module
    head: nn.Module

    def forward(self, x: Any, context: Any = None) -> Any:
        a, b = x
        both = a.stack.ops.concat(self.left(a, context), self.right(b, context), axis=1)
        return self.head(both, context)


@nn.module
class Weighted(nn.Module):
    """Two inputs by name, and a tensor of its own that is made for both."""

    scale: Any = nn.parameter(default=None)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        return {"scale": np.ones(aval["right"].shape[-1], aval["left"].dtype)}

    def forward(self, x: Any, context: Any = None) -> Any:
        return x["left"] + x["right"] * self.scale


def towers() -> Any:
    model = Towers(nn.Dense(4), nn.Embedding(5, 6), nn.Dense(1))
    return model.init(0, ((None, 3), (None,)), ("float32", "int64"))


@each_stack
def test_a_model_of_two_inputs_is_made_and_applied(make: Any) -> None:
    stack, model = make(), towers()
    assert [leaf.shape for leaf in nn.partition(model)[0]] == [(3, 4), (4,), (5, 6), (10, 1), (1,)]
    found = model((stack.asarray(A), stack.asarray(B)))
    assert found.shape == (16, 1)
    by_name = Weighted().init(0, {"left": (None, 3), "right": (None, 3)})
    np.testing.assert_allclose(by_name({"left": stack.asarray(A), "right": stack.asarray(A)}).numpy(), 2 * A)


@each_stack
def test_it_is_trained(make: Any) -> None:
    stack = make()
    step = nn.Step(stack, towers(), nn.quadratic, nn.SGD())
    oracle = nn.ImmediateStep(nnc.eager(), towers(), nn.quadratic, nn.SGD())
    losses = [float(np.asarray(step((A, B), Y, 0.1)[0])) for _ in range(5)]
    wanted = [float(np.asarray(oracle((A, B), Y, 0.1)[0])) for _ in range(5)]
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert losses[-1] < losses[0]
    names = [i.data for i in step.graph((A, B), Y).inputs]
    assert names == ["x.0", "x.1", "y", "iteration", "rate"]


def test_batches_training_and_judging_take_it() -> None:
    batches = nn.Batches((A, B), Y, size=4)
    done = nn.train(nnc.lazy(), towers(), nn.quadratic, nn.SGD(), batches, rate=0.05, epochs=3, progress=False)
    assert len(done.losses) == 12
    judge = nn.Evaluator(nnc.lazy(), {"loss": nn.quadratic}, size=5)
    found = judge(done.model, (A, B), Y)["loss"]
    assert np.isfinite(found)
    wanted = nn.Evaluator(nnc.eager(), {"loss": nn.quadratic}, size=16)(done.model, (A, B), Y)["loss"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    named = nn.Batches({"left": A, "right": A}, Y, size=4, shuffle=False)
    np.testing.assert_array_equal(named.at(1)[0]["right"], A[4:8])
    with pytest.raises(ShapeError, match=r"as many targets as examples, given arrays of \[16, 3, 16\]"):
        nn.Batches((A, B[:3]), Y, size=4)


def test_its_inference_graph_names_inputs() -> None:
    from nnc_func.nn.graphs import inference_graph

    graph = inference_graph(nnc.lazy(), towers(), (("n", 3), ("n",)), ("float32", "int64"))
    assert [i.data for i in graph.inputs] == ["x.0", "x.1"]
    assert str(graph.outputs[0].aval) == "float32[n, 1]"


def test_shapes_that_are_none_are_told() -> None:
    with pytest.raises(ShapeError, match=r"tuple of extents, such as \(None, 3\).*given \(\(None, 3\), 'a'\)"):
        towers().init(0, ((None, 3), "a"))
    with pytest.raises(ShapeError, match=r"2 inputs.*3 dtypes"):
        towers().init(0, ((None, 3), (None,)), ("float32",) * 3)


@each_stack
def test_sequential_takes_operators_and_composites(make: Any) -> None:
    stack, other = make(), nnc.lazy()
    x = stack.asarray(A)
    for relu in (stack.ops.relu, other.ops.relu, other.type.ops["relu"], nn.relu):
        for tanh in (stack.ops.tanh, other.ops.tanh, other.type.ops["tanh"]):
            model = nn.Sequential(nn.Dense(4), relu, tanh).init(0, (None, 3))
            assert "relu" in repr(model)
            dense = model[0](x).numpy()
            np.testing.assert_allclose(model(x).numpy(), np.tanh(np.maximum(dense, 0)), rtol=1e-6)
            loss, _ = nn.Step(stack, model, nn.quadratic, nn.SGD())(A, np.zeros((16, 4), "float32"), 0.1)
            assert np.isfinite(np.asarray(loss))


@each_stack
def test_sequential_takes_composites(make: Any) -> None:
    stack, other = make(), nnc.lazy()
    x = stack.asarray(A)
    for gelu in (stack.ops.hard_swish, other.ops.hard_swish, COMPOSITES["hard_swish"]):
        model = nn.Sequential(nn.Dense(4), gelu).init(0, (None, 3))
        assert repr(model).endswith("Activation(function=hard_swish))")
        np.testing.assert_array_equal(model(x).numpy(), stack.ops.hard_swish(model[0](x)).numpy())


def test_sequential_refuses_a_class_in_words() -> None:
    with pytest.raises(OperatorError, match="given the class Dense: make one of it first"):
        nn.Sequential(nn.Dense)


@each_stack
def test_a_step_goes_through_inputs_in_the_order_that_they_have(make: Any) -> None:
    """As it would without being compiled: dicts of another order are another program."""

    @nn.module
    class First(nn.Module):
        scale: Any = nn.parameter(default=None)

        def create(self, key: Any, aval: Any) -> dict[str, Any]:
            return {"scale": np.float32(1)}

        def forward(self, x: Any, context: Any = None) -> Any:
            return next(iter(x.values())) * self.scale

    shapes = {"one": (None, 1), "two": (None, 1)}
    step = nn.Step(make(), First().init(0, shapes), nn.quadratic, nn.SGD())
    one, two = np.full((4, 1), 3, "float32"), np.full((4, 1), 5, "float32")
    losses = [step(x, one, 0.0)[0] for x in ({"one": one, "two": two}, {"two": two, "one": one})]
    assert float(np.asarray(losses[0])) == 0
    assert float(np.asarray(losses[1])) > 0
