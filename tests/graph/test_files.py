"""Graphs in files: all comes back, equal ones give equal bytes, none is half read (`graph/text/files`, `archives`)."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import reference
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.text.files import load, load_graph, save
from nnc_func.graph.text.writing import printed
from nnc_func.op import operator
from tests.members import content, rewritten

LAZY = nnc.lazy()


def network() -> ComputationGraph:
    draw = np.random.default_rng(0)
    x = LAZY.input("x", ("n", 8), "float32")
    w = LAZY.variable("w", draw.normal(size=(8, 20)).astype("float32"))
    scale = LAZY.variable("scale", np.float32(0.5))
    y = LAZY.ops.tanh(x @ w + LAZY.asarray(draw.normal(size=(20,)).astype("float32")))
    y = y @ LAZY.asarray(draw.normal(size=(20, 20)).astype("float32")) * scale
    lift = LAZY.operator.lift
    pairs = [(w.value, lift((w * 0.5).value))]
    found = LAZY.graph.close([x.value], [y.value], pairs, "net")
    assert isinstance(found, ComputationGraph)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "net.graph"


def rewrite(path: Path, **changed: bytes | None) -> None:
    """The archive with some members replaced, or left out; ``_`` stands for a dot, ``__`` for a slash."""
    members = content(path) | {k.replace("__", "/").replace("_", "."): v for k, v in changed.items()}
    rewritten(path, {name: value for name, value in members.items() if value is not None})


def test_all_of_it_comes_back(path: Path) -> None:
    graph = network()
    graph.save(path)
    read = load_graph(path, LAZY)
    assert printed(read) == printed(graph)
    for one, other in zip(graph.variables, read.variables, strict=True):
        assert one.data is not other.data
        assert np.array_equal(one.data.array, other.data.array)
    value = np.random.default_rng(1).normal(size=(5, 8)).astype("float32")
    first, second = (LAZY.engine.compile(g)(value) for g in (graph, read))
    assert np.array_equal(first, second)


def test_another_stack_reads_it(path: Path) -> None:
    save(network(), path)
    read = load(path, nnc.eager())
    assert printed(read) == printed(network())


def test_the_lines_of_the_user_come_back(path: Path) -> None:
    graph = network()
    save(graph, path)
    read = load_graph(path, LAZY)
    assert "test_files.py:" in printed(read, origins=True)
    assert "in network" in printed(read, origins=True)
    written = content(path)["origins.json"].decode()
    assert "test_files.py:" in written
    assert str(Path(__file__).parent) not in written  # the file's name alone: not whose machine it was


def test_the_same_graph_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for each in (path, tmp_path / "again.graph"):  # one line of code, for lines are in it
        save(network(), each)
    assert path.read_bytes() == (tmp_path / "again.graph").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.graph", "net.graph"]


def test_what_is_inside(path: Path) -> None:
    save(network(), path)
    found = content(path)
    constants = [name for name in found if name.startswith("constants/")]
    assert len(constants) == 1  # the small one is in the text
    assert {*found} == {"about.json", "graph.txt", "origins.json", "variables/0.npy", "variables/1.npy", *constants}
    assert found["graph.txt"].decode().rstrip("\n") == printed(network())
    assert np.array_equal(np.load(io.BytesIO(found[constants[0]])).shape, (20, 20))


def test_a_failed_save_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(network(), path)
    before = path.read_bytes()

    def broken(*_: Any) -> bytes:
        raise OSError("no space")

    monkeypatch.setattr("nnc_func.graph.text.files.array_bytes", broken)
    with pytest.raises(OSError, match="no space"):
        save(network(), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["net.graph"]


# --- what is refused ----------------------------------------------------------------------------------------


def test_no_graph_at_all(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"\x89PNG and so on")
    with pytest.raises(GraphError, match="is no graph, or is damaged or cut short"):
        load_graph(path, LAZY)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "dear reader")
    with pytest.raises(GraphError, match=r"is a zip archive, but no graph: it has no about\.json"):
        load_graph(path, LAZY)
    with pytest.raises(FileNotFoundError):
        load_graph(tmp_path / "nothing", LAZY)


@pytest.mark.parametrize("about", [{"format": "other", "version": 1}, {"format": "nnc_func graph"}, [], 7])
def test_a_file_of_another_kind(path: Path, about: Any) -> None:
    save(network(), path)
    rewrite(path, about_json=json.dumps(about).encode())
    with pytest.raises(GraphError, match=r"but no graph: about\.json does not say"):
        load_graph(path, LAZY)


def test_a_newer_version(path: Path) -> None:
    save(network(), path)
    about = json.loads(content(path)["about.json"])
    rewrite(path, about_json=json.dumps({**about, "version": 2}).encode())
    with pytest.raises(GraphError, match=r"version 2 of the format; this reads versions up to 1: update nnc_func"):
        load_graph(path, LAZY)


@pytest.mark.parametrize("cut", [0.02, 0.3, 0.7, 0.99])
def test_cut_short(path: Path, cut: float) -> None:
    save(network(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(GraphError, match="damaged or cut short"):
        load_graph(path, LAZY)


def test_any_flipped_byte_is_refused_or_harmless(path: Path) -> None:
    save(network(), path)
    whole, text = path.read_bytes(), printed(network())
    weights = network().variables[0].data.array
    for at in range(0, len(whole), 61):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read = load_graph(path, LAZY)
        except GraphError:
            continue
        assert printed(read) == text
        assert np.array_equal(read.variables[0].data.array, weights)


@pytest.mark.parametrize("name", ["graph_txt", "origins_json", "variables__1_npy"])
def test_a_member_is_missing(path: Path, name: str) -> None:
    save(network(), path)
    rewrite(path, **{name: None})
    with pytest.raises(GraphError, match="damaged or cut short: it has no"):
        load_graph(path, LAZY)


def test_a_pickle_is_not_executed(path: Path) -> None:
    save(network(), path)
    into = io.BytesIO()
    np.save(into, np.array([print], dtype=object), allow_pickle=True)
    for array in (into.getvalue(), pickle.dumps(print), b""):
        rewrite(path, variables__1_npy=array)
        with pytest.raises(GraphError, match=r"damaged: variables/1\.npy is no array of numbers"):
            load_graph(path, LAZY)


@pytest.mark.parametrize(
    "origins", [b"[]", b"{", b'{"0": 3}', b'{"0": [["x", "f"]]}', b'{"x": []}', b'{"0": [["a:1", 2]]}']
)
def test_origins_that_are_none(path: Path, origins: bytes) -> None:
    save(network(), path)
    rewrite(path, origins_json=origins)
    with pytest.raises(GraphError, match="damaged"):
        load_graph(path, LAZY)


def test_errors_in_the_text_name_file_and_line(path: Path) -> None:
    save(network(), path)
    text = content(path)["graph.txt"].replace(b"tanh", b"tango")
    rewrite(path, graph_txt=text)
    with pytest.raises(GraphError, match=r"net\.graph, graph\.txt: line \d+: no operator 'tango' in this stack"):
        load_graph(path, LAZY)


def test_outputs_that_are_nested_too_deeply_are_not_written(path: Path) -> None:
    """Nobody could read them back."""
    x = LAZY.input("x", (2,), "float32")
    outputs: Any = x * 2
    for _ in range(64):
        outputs = [outputs]
    program = LAZY.compile([x], outputs)
    program.graph.save(path)
    assert printed(load_graph(path, LAZY)) == printed(program.graph)
    program = LAZY.compile([x], [outputs])
    for save_it in (program.graph.save, program.save):
        with pytest.raises(GraphError, match="outputs nested 65 deep are not written to a file: 64 is the most"):
            save_it(path)


def test_what_does_more_than_compute_is_refused_unless_it_is_allowed(path: Path) -> None:
    x = LAZY.input("x", (2,), "float32")
    seen = LAZY.ops.print(x, after=LAZY.token(), text="seen")
    save(LAZY.compile([x], [x * 2], effects=[seen]).source, path)
    with pytest.raises(GraphError, match=r"applies 'print', which does more than compute.*allow=\('print',\)"):
        load_graph(path, LAZY)
    for allow in ("print", ("check", "print"), {"print"}):
        assert "print" in str(load_graph(path, LAZY, allow=allow))
    for allow in (LAZY.type.ops["print"], 3, [print]):
        with pytest.raises(GraphError, match="allow= wants names of operators"):
            load_graph(path, LAZY, allow=allow)


def test_operators_of_others_are_refused_before_anything_of_them_runs(path: Path) -> None:
    asked = []

    def shape(x: Any) -> Any:
        asked.append(x)
        return x

    one_more = operator(shape=shape, dtype=lambda x: x, kernels=reference(lambda xp, x: x + 1),
                        derivative=NOT_DIFFERENTIABLE("a test"))(_one_more)  # fmt: skip
    stack = LAZY.swap(type=LAZY.type.with_ops(one_more))
    x = stack.input("x", (2,), "float32")
    save(stack.compile([x], [one_more(x)]).source, path)
    asked.clear()
    with pytest.raises(GraphError, match=r"graph\.txt: line \d+.*'_one_more', which is no operator of this library"):
        load_graph(path, stack)
    assert not asked
    assert "_one_more" in str(load_graph(path, stack, allow="_one_more"))


def _one_more(x: Any, /) -> Any:
    """One more."""
