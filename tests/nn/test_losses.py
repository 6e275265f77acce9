"""Losses and metrics against NumPy; gradients by differences (`nn/losses`, `graph/composites/losses`, `autodiff`).

The gradients are of whole models, against central differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnc_func import nn
from nnc_func.errors import ShapeError
from tests.nn.models import images, leaves, small_cnn, stacks

STACKS = pytest.mark.parametrize("stack", stacks().values(), ids=stacks())
GENERATOR = np.random.default_rng(1)


@STACKS
def test_cross_entropy_of_class_numbers_and_of_probabilities(stack: Any) -> None:
    logits, labels = GENERATOR.normal(size=(6, 4)), GENERATOR.integers(0, 4, 6)
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    wanted = -np.log(chances[np.arange(6), labels]).mean()
    x = stack.asarray(logits)
    assert float(nn.softmax_cross_entropy(x, stack.asarray(labels))) == pytest.approx(wanted, rel=1e-12)
    assert float(nn.softmax_cross_entropy(x, stack.asarray(np.eye(4)[labels]))) == pytest.approx(wanted, rel=1e-12)


@STACKS
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_losses_of_whole_numbers_do_not_wrap(stack: Any, dtype: str) -> None:
    a, b = np.array([[1, 100], [0, 3]], dtype), np.array([[120, 2], [7, 3]], dtype)
    apart = a.astype(float) - b
    for name, wanted in {
        "l1_loss": np.abs(apart),
        "quadratic_loss": apart**2,
        "l2_loss": np.sqrt((apart**2).sum(-1)),
        "smooth_l1_loss": np.where(np.abs(apart) < 1, apart**2 / 2, np.abs(apart) - 0.5),
        "hinge_loss": np.maximum(0, 1 - a.astype(float) * b),
    }.items():
        found = getattr(stack.ops, name)(stack.asarray(a), stack.asarray(b), reduction="none").numpy()
        np.testing.assert_allclose(found, wanted, err_msg=name)
    distance = stack.ops.square_distance(stack.asarray(a), stack.asarray(b)).numpy()
    assert distance.tolist() == (apart**2).sum(-1).tolist()


@STACKS
def test_quadratic_and_accuracy(stack: Any) -> None:
    a, b = GENERATOR.normal(size=(6, 4)), GENERATOR.normal(size=(6, 4))
    labels = GENERATOR.integers(0, 4, 6)
    assert float(nn.quadratic(stack.asarray(a), stack.asarray(b))) == pytest.approx(((a - b) ** 2).mean())
    wanted = (a.argmax(-1) == labels).mean()
    assert float(nn.accuracy(stack.asarray(a), stack.asarray(labels))) == pytest.approx(wanted)
    assert float(nn.accuracy(stack.asarray(a), stack.asarray(np.eye(4)[labels]))) == pytest.approx(wanted)


def test_shapes_that_would_broadcast_are_refused(stack: Any) -> None:
    x = stack.asarray(np.ones((6, 4)))
    with pytest.raises(ShapeError, match="quadratic"):
        nn.quadratic(x, stack.asarray(np.ones((6, 1))))
    with pytest.raises(ShapeError, match="class numbers"):
        nn.softmax_cross_entropy(x, stack.asarray(np.ones((6, 1), "int64")))


@STACKS
def test_gradients_of_a_model_are_central_differences(stack: Any) -> None:
    model = small_cnn("float64", dropout=0.3)
    x, y = (stack.asarray(a) for a in images(8, "float64"))
    parameters, rest, merge = nn.partition(model)
    key = stack.asarray(nn.key_of(4))

    def loss(parameters: Any) -> Any:
        outputs, _ = nn.apply(merge(parameters, rest), x, key)
        return nn.softmax_cross_entropy(outputs, y)

    jitted = stack.jit(loss)
    found = leaves(stack.grad(loss)(parameters))
    for i, p in enumerate(parameters):
        for at in GENERATOR.integers(0, p.size, 2):
            values = []
            for h in (1e-5, -1e-5):
                moved = [q.copy() for q in parameters]
                moved[i].flat[at] += h
                values.append(float(jitted(moved)))
            slope = (values[0] - values[1]) / 2e-5
            assert found[i].flat[at] == pytest.approx(slope, rel=1e-5, abs=1e-8)
