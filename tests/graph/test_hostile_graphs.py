"""Damaged graph files and texts: read or refused in words, within time and memory (`graph/text`, `archives`)."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.text.writing import parsed, printed
from nnc_func.tree import flatten
from tests.damage import damaged
from tests.hostile import Tally, attempted

MAX_BYTES = 1 << 28


def several() -> Any:
    """Symbols, unknown extents, several results, parameters of all kinds, constants of all dtypes, nested outputs."""
    lazy = nnc.lazy()
    ops = lazy.ops
    x, y = lazy.input("x", ("n", 8), "float32"), lazy.input("y", (None, "2*n + 1", 3), "complex64")
    w = lazy.variable("w", np.ones((8, 20), "float32"))
    flags = lazy.variable("flags", np.array([True, False]))
    large = lazy.asarray(np.arange(400, dtype="float32").reshape(20, 20))
    z = ops.tanh(x @ w + lazy.asarray(np.linspace(0, 1, 20, dtype="float32"))) @ large
    left, right = ops.split(z, sections=2, axis=1)
    key = lazy.key(7)
    draw = ops.random_uniform(key, shape=(2, 3))
    image = lazy.input("image", (2, 6, 6, 3), "float32")
    kernel = lazy.asarray(np.ones((3, 3, 3, 4), "float32"))
    outputs = {
        "z": [ops.concat(right, left * 2, axis=1), (ops.sum(y, axis=1, keepdims=True), None)],
        "draw": (draw, ops.cast(flags, dtype="int16")),
        "image": ops.conv2d(image, kernel, stride=(2, 1), padding="SAME"),
        "shape": ops.reshape(x, shape=(-1, 4, 2)),
        "unsigned": lazy.asarray(np.array([0, 2**64 - 1], "uint64")) + lazy.asarray(np.array([1, 2], "uint64")),
        "complex": y * lazy.asarray(np.complex64(1 - 2j)),
        "sorted": ops.sort(x, axis=1),
    }
    inputs = [x, y, image]
    leaves, structure = flatten(outputs)
    lift = lazy.operator.lift
    return lazy.graph.close(
        [i.value for i in inputs], [lift(o.value) for o in leaves], [(w.value, lift((w * 0.5).value))], "several",
        structure,
    )  # fmt: skip


def small() -> Any:
    lazy = nnc.lazy()
    x = lazy.input("x", (3,), "float32")
    return lazy.graph.close([x.value], [(x * 2).value], name="small")


@cache
def originals() -> tuple[bytes, ...]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.graph"
        for graph in (several(), small()):
            graph.save(path)
            found.append(path.read_bytes())
    return tuple(found)


def case(number: int) -> tuple[str, bytes]:
    random = Random(number)
    return damaged(originals()[0 if random.random() < 0.8 else 1], random)


def attempt(content: bytes) -> None:
    graph = nnc.load_graph(io.BytesIO(content), nnc.lazy(), max_bytes=MAX_BYTES)
    text = printed(graph)
    assert "sha256" in text or printed(parsed(text, nnc.lazy())) == text


def check(tally: Tally) -> None:
    assert not tally.faults, str(tally)
    assert tally.refused > 10 * tally.accepted > 0


def test_damaged_files_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(600)))


@pytest.mark.slow
def test_many_damaged_files_are_read_or_refused() -> None:
    check(attempted(case, attempt, range(600, 10_000)))
