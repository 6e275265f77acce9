"""Checkpoints: whole or not there, read only where they fit, refused in words where damaged (`nn/step`, `archives`)."""

from __future__ import annotations

import hashlib
import io
import tempfile
import tracemalloc
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from nnc_func import nn
from nnc_func.errors import FileFormatError, GraphError, ShapeError
from nnc_func.tree import flatten
from tests.damage import damaged, unzipped, zipped
from tests.hostile import Tally, attempted


def start(width: int = 4) -> nn.TrainingState:
    model = nn.Sequential(nn.Dense(width), nn.BatchNorm(), nn.relu, nn.Dense(2)).init(0, (None, 3))
    return nn.TrainingState.start(model, nn.Adam())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.npz"


def bits(state: Any) -> list[tuple[Any, ...]]:
    return [(np.asarray(a).dtype, np.shape(a), np.asarray(a).tobytes()) for a in flatten(state)[0]]


def test_a_state_comes_back_and_numpy_reads_it(path: Path) -> None:
    state = start()
    state.save(path)
    assert bits(start().load(path)) == bits(state)
    with path.open("rb") as file:
        assert bits(start().load(file)) == bits(state)
    with np.load(path) as found:
        assert found["model.layers.0.weight"].shape == (3, 4)
    np.savez(path, **{name.removesuffix(".npy"): np.load(io.BytesIO(c)) for name, c in unzipped(path.read_bytes())})
    assert bits(start().load(path)) == bits(state)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert bits(start().load(path, sha256=digest)) == bits(state)
    with pytest.raises(FileFormatError, match="it is another file"):
        start().load(path, sha256="0" * 64)


def test_bfloat16_comes_back(path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    state = nn.TrainingState({"w": np.ones(3, "bfloat16")}, {}, np.zeros(2, "uint64"), np.int64(0))
    state.save(path)
    assert bits(state.load(path)) == bits(state)


def test_a_failed_save_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start().save(path)
    before = path.read_bytes()

    def broken(*_: Any) -> bytes:
        raise OSError("no space")

    monkeypatch.setattr("nnc_func.nn.step.array_bytes", broken)
    with pytest.raises(OSError, match="no space"):
        start().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["state.npz"]


def test_two_arrays_of_one_name_are_not_saved(path: Path) -> None:
    model = {"a.b": np.ones(2), "a": {"b": np.zeros(2)}}
    with pytest.raises(
        GraphError, match=r"two arrays of the state would be model\.a\.b\.npy: give a key without a dot"
    ):
        nn.TrainingState(model, {}, np.zeros(2, "uint64"), np.int64(0)).save(path)


def test_another_model_is_refused_before_its_arrays_are_read(path: Path) -> None:
    """Arrays of 100 MB each, that deflate to a megabyte: it was unpacked before anybody looked at shapes."""
    state = start()
    state.save(path)
    large = io.BytesIO()
    np.lib.format.write_array(large, np.zeros((200, 1 << 16), "float64"))
    members = [(name, large.getvalue() if "weight" in name else c) for name, c in unzipped(path.read_bytes())]
    path.write_bytes(zipped(members, zipfile.ZIP_DEFLATED))
    del large, members
    tracemalloc.start()
    try:
        with pytest.raises(ShapeError, match=r"weight is float64\[200, 65536\], the model wants float32\[3, 4\]"):
            start().load(path)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_differences_are_named(path: Path) -> None:
    start(5).save(path)
    with pytest.raises(ShapeError, match=r"weight is float32\[3, 5\], the model wants float32\[3, 4\]"):
        start().load(path)
    members = unzipped(path.read_bytes())
    path.write_bytes(zipped(members[1:]))
    with pytest.raises(ShapeError, match=r"holds the state of another model or update: it differs in model\.layers\.0"):
        start(5).load(path)


def test_a_step_before_the_first_is_refused(path: Path) -> None:
    state = start()
    nn.TrainingState(state.model, state.slots, state.key, np.int64(-3)).save(path)
    with pytest.raises(FileFormatError, match=r"state\.npz is damaged: it was saved after -3 steps"):
        state.load(path)


# --- damaged files ------------------------------------------------------------------------------------------


@cache
def original() -> tuple[bytes, nn.TrainingState]:
    """A file of a state, and a state to which it fits."""
    state = start()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        state.save(path)
        return path.read_bytes(), state


def case(number: int) -> tuple[str, bytes]:
    return damaged(original()[0], Random(number))


def attempt(content: bytes) -> None:
    state = original()[1]
    found = state.load(io.BytesIO(content))
    assert [(a.dtype, a.shape) for a in flatten(found)[0]] == [
        (np.asarray(a).dtype, np.shape(a)) for a in flatten(state)[0]
    ]


def check(tally: Tally) -> None:
    assert not tally.faults, str(tally)
    assert tally.refused > tally.accepted > 0


def test_damaged_checkpoints_are_read_or_refused() -> None:
    original()
    check(attempted(case, attempt, range(600)))


@pytest.mark.slow
def test_many_damaged_checkpoints_are_read_or_refused() -> None:
    original()
    check(attempted(case, attempt, range(600, 10_000)))
