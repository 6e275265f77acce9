"""Whatever differentiation, rewriting and fusion make of a program names the user's lines (`graph/origin`)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func
import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import RunError
from nnc_func.graph.leaves import CONSTANT, LEAVES
from nnc_func.graph.ops.fused import blockwise
from nnc_func.graph.origin import lines
from tests.failures import Unreliable

PACKAGE = str(Path(nnc_func.__file__).parent)


def line_of(function: Any, text: str) -> int:
    """The number of the line of a function's source that holds this text."""
    source, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(source) if text in line)


def loss_of(stack: Any, x: Any) -> Any:
    ops = stack.ops

    def loss(w: Any) -> Any:
        z = x @ w
        y = ops.tanh(z)
        return ops.mean(ops.square(y))

    return loss


def test_backward_nodes_name_the_line_of_what_they_are_the_derivative_of() -> None:
    stack = nnc.lazy()
    x, w = stack.input("x", (5, 4), "float64"), stack.variable("w", np.ones((4, 3)))
    gradient = stack.grad(loss_of(stack, x))(w)
    program = stack.compile([x], gradient)
    found = {n.op.name: next(lines(n.origin))[1] for n in program.source.nodes if n.op not in LEAVES}
    assert found["matmul"] == line_of(loss_of, "x @ w")
    assert found["tanh"] == line_of(loss_of, "ops.tanh")
    last = next(lines(gradient.value.node.origin))
    assert (last[1], last[2]) == (line_of(loss_of, "x @ w"), "loss")


def model_of(x: Any) -> Any:
    return nn.Sequential(
        nn.Conv2D(4, 5, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(300), nn.relu, nn.Dense(10)
    ).init(seed=1, shape=x)


@pytest.mark.parametrize("batch", [8, 2000])
def test_every_node_of_an_optimised_training_step_names_a_line_of_the_users(batch: int) -> None:
    """With a large batch there are fused groups."""
    stack = nnc.lazy()
    step = nn.Step(stack, model_of((None, 28, 28, 1)), nn.softmax_cross_entropy, nn.Adagrad())
    program = step.program(np.empty((batch, 28, 28, 1), "float32"), np.empty(batch, "int64"))
    nodes = [n for n in program.graph.nodes if n.op not in LEAVES]
    assert len(nodes) > 30
    assert any(n.op is blockwise for n in nodes) == (batch == 2000)
    for node in program.graph.nodes:
        found = list(lines(node.origin))
        assert found, node
        if node.op is not CONSTANT:  # all programs share a number's node, which names the line of the first of them
            assert not any(file.startswith(PACKAGE) for file, _, _ in found), (node, found)
        if node.args:  # an equal constant may have been asked for elsewhere before
            assert any(file == __file__ for file, _, _ in found), (node, found)
    assert all(list(lines(i.origin)) for i in program.plan.instructions)


def test_a_fused_group_that_fails_names_the_lines_of_its_steps() -> None:
    device = Unreliable()
    stack = nnc.lazy(device)
    x = stack.input("x", (1 << 20,), "float32")
    y = stack.ops.exp(x)
    z = stack.ops.tanh(y) * 2
    program = stack.compile([x], z)
    assert [i.op for i in program.plan.instructions] == [blockwise]
    device.trouble.at_kernel(0)
    first = line_of(test_a_fused_group_that_fails_names_the_lines_of_its_steps, "ops.exp")
    with pytest.raises(RunError, match=rf"test_origins.py:{first} in .*, test_origins.py:{first + 1} in "):
        program(np.ones(1 << 20, "float32"))
