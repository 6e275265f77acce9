"""The examples of loops, as ONNX models: a runtime gives what they give (`facets/onnx/control`, `graph/onnx_export`).

That they give what plain Python does they say themselves, and `test_documents` runs them.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from tests.onnx.exported import run_model
from tests.onnx.test_control_flow import nodes, several

LAZY = nnc.lazy()
ROOT = Path(__file__).parent.parent.parent / "examples"


@cache
def example(name: str) -> Mapping[str, Any]:
    return runpy.run_path(str(ROOT / f"{name}.py"))


def agree(inputs: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Sequence[Any]], loops: int) -> None:
    """A runtime, and the model that is read again, give what the program gives, of each of several arguments."""
    program = LAZY.compile(inputs, list(outputs))
    assert sum(node.op.name == "loop" for node in program.graph.nodes) == loops  # rolled, whatever the extents
    model = LAZY.graph.close([x.value for x in inputs], [y.value for y in outputs]).to_onnx(opset=18)
    del model.metadata_props[:]
    assert sum(name in ("Loop", "Scan") for name in nodes(model.graph)) >= loops
    again = nnc.from_onnx(model, LAZY)
    for arrays in arguments:
        wanted = program(*arrays)
        found = run_model(model, {x.value.node.data: a for x, a in zip(inputs, arrays, strict=True)})
        assert found is not None
        for one, other, third in zip(found, several(again(*arrays)), several(wanted), strict=True):
            assert (one.shape, one.dtype) == (third.shape, third.dtype)
            np.testing.assert_allclose(one, third, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(other, third, rtol=1e-5, atol=1e-6)


def test_beam_search() -> None:
    of = example("beam_search")
    start = LAZY.input("start", (of["UNITS"],), "float64")
    found = of["search"](LAZY, of["drawn"](0), start)
    agree([start], found, [[np.random.default_rng(seed).normal(size=of["UNITS"])] for seed in range(8)], 1)


def test_a_sequence_decoder() -> None:
    of = example("sequence_decoder")
    letters = LAZY.input("letters", ("n",), "int64")
    words = [[np.random.default_rng(n).integers(3, of["LETTERS"], n)] for n in range(1, 9)]
    agree([letters], of["told"](LAZY, of["drawn"](4), letters), words, 2)


def test_masked_recurrence() -> None:
    of = example("masked_recurrence")
    x, lengths = LAZY.input("x", ("n", "t", of["INPUTS"]), "float32"), LAZY.input("lengths", ("n",), "int64")
    batches = [of["batch"](n, n, t) for n, t in ((2, 5), (7, 3), (1, 1))]
    agree([x, lengths], of["masked"](LAZY, of["made"](), x, lengths), batches, 1)


def test_lanes() -> None:
    """The same by the layer: with symbolic extents it wants to know how many lanes there are."""
    of = example("masked_recurrence")
    x, lengths = LAZY.input("x", (4, 6, of["INPUTS"]), "float32"), LAZY.input("lengths", (4,), "int64")
    found = of["made"]().run(x, of["UNITS"], lengths=lengths, lanes=2)
    agree([x, lengths], found, [of["batch"](seed, 4, 6) for seed in range(4)], 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_characters_that_are_sampled(seed: int) -> None:
    """A runtime draws the same random numbers."""
    of = example("characters")
    first, key = LAZY.input("first", (), "int64"), LAZY.input("key", (2,), "uint64")
    agree([first, key], [of["sampled"](LAZY, of["made"](), first, key)],
          [[np.array(3), np.array([seed, 0], np.uint64)]], 1)  # fmt: skip


def test_a_training_step_over_characters() -> None:
    of = example("characters")
    model = of["made"]()
    weights, rest, merge = nnc.nn.partition(model)
    given, wanted = of["pairs"]()
    inputs = [LAZY.input(name, (None, of["WINDOW"]), "int64") for name in ("given", "wanted")]
    inputs += [LAZY.input(f"w{n}", w.shape, w.dtype) for n, w in enumerate(weights)]
    slopes = LAZY.grad(
        lambda *w: of["loss"](LAZY, merge(w, rest), *inputs[:2]), argnums=tuple(range(len(weights)))
    )(*inputs[2:])  # fmt: skip
    agree(inputs, slopes, [[given[:n], wanted[:n], *weights] for n in (1, 6)], 2)
