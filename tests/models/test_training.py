"""What is different in training: dropped elements, statistics of batches, inner classifiers (`models`, `nn`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.tree import flatten

DROPPING = ("vgg-16", "mobilenet-v2", "u-net", "transformer-encoder", "gpt-2", "inception-v3")


def _operators(graph: Any) -> set[str]:
    return {node.op.name for node in graph.nodes}


@pytest.mark.parametrize("name", DROPPING)
def test_elements_are_dropped_in_training_only(name: str) -> None:
    model, stack = models.get(name).reduced(), nnc.lazy(nnc.Null())
    assert "random_bernoulli" in _operators(model.training(stack, 2, seed=None))
    assert "random_bernoulli" not in _operators(model.inference(stack, 2, seed=None))


@pytest.mark.parametrize("name", ["resnet-18", "densenet-121"])
def test_running_statistics_are_variables_that_training_updates(name: str) -> None:
    model = models.get(name).reduced()
    graph = model.training(nnc.lazy(nnc.Null()), 2, seed=None)
    network = model.network(None)
    kept = {f"model.{place}" for place, kind in nn.described(network) if kind == "state"}
    assert len(kept) > 4
    assert kept <= {variable.data.name for variable, _ in graph.updates}
    step = model.step(nnc.lazy())
    step(*model.examples(batch=4), rate=0.0)  # parameters stay
    before, after = (flatten(each)[0] for each in (model.network(0), step.state.model))
    for (_, kind), one, other in zip(nn.described(network), before, after, strict=True):
        assert np.array_equal(one, other) == (kind == "parameter")


def test_scores_from_the_middle_are_for_training() -> None:
    model = models.get("inception-v3").with_options(auxiliary=True)
    assert model.parameters == 27_161_264
    small = model.with_options(shape=(139, 139, 3), classes=5, thinner=16, window=1, blocks=(1, 1, 1))
    stack = nnc.lazy(nnc.Null())
    assert len(small.inference(stack, 2, seed=None).outputs) == 1
    step = small.training(stack, 2, seed=None)
    heads = [v.data.name for v, _ in step.updates if "auxiliary" in v.data.name]
    assert heads
    assert _operators(step) > {"softmax_cross_entropy", "conv2d_kernel_gradient"}


def test_an_update_may_be_chosen() -> None:
    model = models.get("lenet-5")
    plain, adam = (model.training(nnc.lazy(nnc.Null()), seed=None, update=u) for u in (nn.SGD(), nn.Adam()))
    assert len(adam.updates) == 3 * len(plain.updates)
