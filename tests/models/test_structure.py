"""The networks' graphs: published counts of arithmetic, and their plans on the device Null (`models`)."""

from __future__ import annotations

import time
from typing import Any

import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.errors import OperatorError
from tests.models.networks import networks

# Multiplications of one inference, as the papers or the best-known implementations tell, in 10⁹.
PUBLISHED = {
    "vgg-16": 15.47,
    "vgg-19": 19.63,
    "resnet-18": 1.814,
    "resnet-50": 4.089,
    "inception-v3": 5.713,
    "densenet-121": 2.834,
    "mobilenet-v2": 0.301,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n == "mask-rcnn-768" else []) for n in models.names()],
)
def test_a_network_is_built_and_planned_within_seconds(name: str) -> None:
    start = time.process_time()
    found = models.summary(name)
    assert time.process_time() - start < 20  # a hang, not a measurement
    assert found.parameters == models.get(name).parameters
    assert found.weight_bytes >= 4 * found.parameters
    assert found.max_load_bytes <= found.arena_bytes <= 1.5 * found.max_load_bytes
    assert found.flops >= 2 * found.multiply_adds > 0
    assert 0 < found.kernels <= found.applications
    assert found.as_dict()["name"] == name
    assert found.applications >= 4000 or not name.startswith("mask-rcnn"), "as many nodes as in Owl's article"
    if name in PUBLISHED:
        assert found.multiply_adds / 1e9 == pytest.approx(PUBLISHED[name], rel=0.005)


@networks()
def test_a_training_step_is_built_and_planned(name: str) -> None:
    model = models.get(name).reduced()
    if not model.trains:
        with pytest.raises(OperatorError, match="inference only"):
            models.summary(model, training=True)
        return
    forward, step = models.summary(model, 2), models.summary(model, 2, training=True)
    assert step.multiply_adds > 1.9 * forward.multiply_adds
    assert step.nodes > forward.nodes


@networks(trains=True)
def test_a_batch_of_an_unknown_number_is_a_batch_of_that_number(name: str) -> None:
    model = models.get(name).reduced()
    stack = nnc.lazy(nnc.Null())
    graph = model.make(stack, batch="n", seed=None)
    assert graph.symbols == {"n"}
    assert str(graph.outputs[0].aval.shape[0]) == "n"
    known: Any = graph.with_shapes({"x": (3, *model.shape)})
    assert known.outputs[0].aval == model.make(stack, batch=3, seed=None).outputs[0].aval
    assert known.statistics == graph.statistics
