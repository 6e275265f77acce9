"""The nine networks that the onnx package ships, with the results it ships for them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.graph.rules.rule import EXACT

FOLDER = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data", "light")
QUICK = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet")
LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")  # half a gigabyte of weights


def agrees(name: str, stack: Any) -> None:
    """The model gives what the package says of an input that rises from 0 to 1."""
    path = os.path.join(FOLDER, f"light_{name}")
    model = nnc.from_onnx(f"{path}.onnx", stack)
    (shape,) = (i.shape for i in model.inputs)
    count = math.prod(shape)
    found = model((np.arange(count).reshape(shape) / count).astype("float32"))
    wanted = onnx.numpy_helper.to_array(onnx.load_tensor(f"{path}_output_0.pb"))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", QUICK)
def test_a_network_gives_what_is_shipped(name: str) -> None:
    """SqueezeNet's scores are about 1.6e10, where float32 steps by 1024: with another order of summation its softmax
    is another. So it is asked of a stack that keeps every bit of what is written."""
    lazy = nnc.lazy()
    agrees(name, lazy if name != "squeezenet" else lazy.swap(optimiser=evolve(lazy.optimiser, numerics=EXACT)))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_network_gives_what_is_shipped(name: str) -> None:
    agrees(name, nnc.lazy())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK + LARGE)
def test_a_network_gives_it_at_once(name: str) -> None:
    agrees(name, nnc.eager())


def test_none_is_left_out() -> None:
    assert {f"light_{n}.onnx" for n in QUICK + LARGE} == {f for f in os.listdir(FOLDER) if f.endswith(".onnx")}
