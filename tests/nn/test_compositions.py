"""Every legal composition of device and engine runs the same 20 training steps (`device`, `engine`, `graph/transfer`).

Graphs move between stacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import GraphError, OperatorError

STEPS = 20
DEVICES = {
    "NumPy": nnc.NumPy,
    "Strict": nnc.Strict,
    "an eager stack": nnc.eager,
    "a lazy stack": nnc.lazy,
    "a lazy stack on Strict": lambda: nnc.lazy(nnc.Strict()),
    "a stack over a stack": lambda: nnc.eager(nnc.lazy()),
}
ENGINES = {"eager": nnc.eager, "lazy": nnc.lazy}


def model() -> Any:
    parts = (nn.Conv2D(4, 3, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(5))
    return nn.Sequential(*parts).init(seed=3, shape=(None, 6, 6, 1))


def losses(stack: Any) -> Any:
    rng = np.random.default_rng(0)
    step = nn.Step(stack, model(), nn.softmax_cross_entropy, nn.SGD(momentum=0.9))
    found = []
    for _ in range(STEPS):
        x, y = rng.normal(size=(8, 6, 6, 1)).astype("float32"), rng.integers(0, 5, 8)
        found.append(step(x, y, 0.05)[0])
    return np.array([float(np.asarray(v)) for v in step.ask(found)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("device", DEVICES)
def test_every_composition_trains_alike(device: str, engine: str) -> None:
    np.testing.assert_allclose(losses(ENGINES[engine](DEVICES[device]())), losses(nnc.eager()), rtol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_without_elements_as_many_steps_are_counted(engine: str) -> None:
    device = nnc.Null()
    step = nn.Step(ENGINES[engine](device), model(), nn.softmax_cross_entropy, nn.SGD(momentum=0.9))
    x, y = np.zeros((8, 6, 6, 1), "float32"), np.zeros(8, "int64")
    step(x, y, 0.05)
    once = device.counts.applications
    for _ in range(STEPS - 1):
        step(x, y, 0.05)
    assert once > 0
    assert device.counts.applications >= once + (STEPS - 1) * 10


def traced(stack: nnc.Stack) -> Any:
    x, w = stack.input("x", ("n", 3), "float32"), stack.variable("w", np.ones((3, 2), "float32"))
    return stack.compile(inputs=[x], outputs=[stack.ops.tanh(x @ w) + 1]).source


@pytest.mark.parametrize(
    "to",
    [nnc.eager(), nnc.lazy(nnc.Strict()), nnc.lazy().swap(optimiser=nnc.lazy().optimiser.without_rules("drop_unit"))],
)
def test_a_graph_moves_to_another_stack(to: nnc.Stack) -> None:
    graph = traced(nnc.lazy())
    moved = graph.to(to)
    x = np.float32([[1, 2, 3], [0, 1, 0]])
    found = to.engine.compile(moved)(x)[0]
    np.testing.assert_allclose(to.device.to_numpy(found), np.tanh(x @ np.ones((3, 2), "float32")) + 1, rtol=1e-6)
    assert str(moved) == str(graph)


def test_a_graph_does_not_move_to_a_stack_that_lacks_its_operators() -> None:
    lazy = nnc.lazy()
    small = nnc.Catalogue(tuple(op for op in lazy.type.ops.values() if op.name != "tanh"))
    lacking = nnc.lazy().swap(type=lambda device: type(lazy.type)(device, ops=small))
    with pytest.raises(OperatorError, match="tanh is not an operator of this stack"):
        traced(lazy).to(lacking)


def test_nodes_of_another_stack_are_refused() -> None:
    strict, lazy = nnc.lazy(nnc.Strict()), nnc.lazy()
    x = strict.input("x", (3,), "float32")
    with pytest.raises(GraphError, match="another stack"):
        lazy.ops.add(x, 1)
