"""The zoo's networks as ONNX models: onnxruntime gives what the lazy stack gives, to 1e-4 of the largest element."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.tree import flatten
from tests.models.networks import networks

TOLERANCE = 1e-4


def _agrees(model: Any, batch: int) -> None:
    stack = nnc.lazy()
    x, _ = model.examples(batch, seed=1)
    graph = model.make(stack, batch, seed=1)
    wanted = [np.asarray(each) for each in flatten(stack.engine.compile(graph)(x))[0]]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        graph.to_onnx().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {session.get_inputs()[0].name: x})
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * max(float(abs(other).max()), 1e-6))


@networks()
def test_onnxruntime_agrees_on_a_reduced_network(name: str) -> None:
    _agrees(models.get(name).reduced(), batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in models.names() if not name.startswith("mask-rcnn")])
def test_onnxruntime_agrees_on_a_whole_network(name: str) -> None:
    _agrees(models.get(name), batch=1)


@pytest.mark.slow
def test_onnxruntime_agrees_on_a_whole_mask_rcnn_for_smaller_images() -> None:
    """Of a ResNet-101's depth; where scores are close both choose the same regions."""
    model = models.get("mask-rcnn").with_options(
        shape=(256, 256, 3), size=(256, 256), limit=600, regions=100, detections=20, confidence=0.0
    )
    _agrees(model, batch=1)
