"""Modules of modules, tables used both ways, models without parameters (`nn/blocks`, `nn/sequences`, `nn/graphs`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import OperatorError, ShapeError


def test_what_does_not_fit_is_refused_with_both_shapes() -> None:
    with pytest.raises(ShapeError, match=r"adds .*, 3\) and .*, 4\): give it a shortcut"):
        nn.Residual(nn.Dense(3)).init(0, (None, 4))
    with pytest.raises(OperatorError, match="modules, functions and None, given 3"):
        nn.Concatenate(nn.tanh, 3)
    with pytest.raises(ShapeError, match="vectors of 4 positions"):
        nn.Positions(4).init(0, (None, 5, 2))


def test_a_residual_block_adds_its_input(stack: Any) -> None:
    x = np.float32([[-1, 2]])
    found = nn.Residual(nn.Activation(nn.relu))(stack.asarray(x))
    np.testing.assert_array_equal(found.numpy(), np.maximum(x, 0) + x)


def test_scores_of_a_table_are_products_with_its_entries(stack: Any) -> None:
    table = nn.Embedding(5, 3, initialiser=nn.Normal(0.5)).init(1, (None, 4), "int64")
    x = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    found = table.scores(stack.asarray(x))
    np.testing.assert_allclose(found.numpy(), x @ np.asarray(table.weight).T, rtol=1e-5)
    assert 0.2 < np.asarray(table.weight).std() < 0.8


def test_a_causal_block_does_not_look_ahead(stack: Any) -> None:
    block = nn.transformer_block(8, 2, causal=True).init(0, (None, 6, 8))
    x = np.random.default_rng(0).normal(size=(1, 6, 8)).astype("float32")
    changed = x.copy()
    changed[:, 4:] += 1
    one, other = (block(stack.asarray(each)).numpy() for each in (x, changed))
    np.testing.assert_allclose(one[:, :4], other[:, :4], rtol=1e-5, atol=1e-6)
    assert abs(one[:, 4:] - other[:, 4:]).max() > 0.1


def test_dropout_in_a_block_drops_in_training_only() -> None:
    block = nn.transformer_block(8, 2, dropout=0.5).init(0, (None, 6, 8))
    stack = nnc.eager()
    x = stack.asarray(np.random.default_rng(0).normal(size=(1, 6, 8)).astype("float32"))
    trained, _ = nn.apply(block, x, stack.key(1))
    assert not np.allclose(trained.numpy(), block(x).numpy())
    np.testing.assert_array_equal(block(x).numpy(), block(x).numpy())


def test_a_model_without_a_seed_has_shapes_and_no_memory() -> None:
    wide = nn.Sequential(nn.Dense(10**6), nn.LSTM(3), nn.Dense(2)).init(None, (None, 5, 10**5))
    drawn = nn.Sequential(nn.Dense(4), nn.LSTM(3), nn.Dense(2)).init(0, (None, 5, 6))
    assert wide[0].weight.shape == (10**5, 10**6)
    assert wide[0].weight.strides == (0, 0)
    assert [name for name, _ in nn.described(wide)] == [name for name, _ in nn.described(drawn)]
    plan = nnc.lazy(nnc.Null())
    program = plan.engine.compile(nn.inference_graph(plan, wide, (2, 5, 10**5)))
    assert program.plan.max_load > 2 * 5 * 10**6 * 4


def test_a_graph_of_a_model_computes_what_the_model_does(stack: Any) -> None:
    model = nn.Sequential(nn.Dense(4), nn.tanh, nn.Dropout(0.5), nn.Concatenate(None, nn.Dense(2))).init(0, (None, 3))
    graph = nn.inference_graph(stack, model, ("n", 3))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    found = stack.engine.compile(graph)(x)
    np.testing.assert_allclose(np.asarray(found), model(stack.asarray(x)).numpy(), rtol=1e-5)
    assert next(v.data.name for v in graph.variables) == "layers.0.weight"


def test_the_graph_of_a_step_is_what_the_step_compiles() -> None:
    step = nn.Step(nnc.lazy(), nn.Dense(1).init(0, (None, 2)), nn.quadratic, nn.SGD())
    x, y = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    assert str(step.graph(x, y)) == str(step.program(x, y).source)
