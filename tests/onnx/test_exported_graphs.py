"""Graphs are written as ONNX models that a runtime computes, and come back as they were (`graph/onnx_export`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import GraphError, OnnxError
from nnc_func.graph.onnx_export.metadata import restored
from nnc_func.graph.text.parsing import parsed
from nnc_func.testing.programs import LARGEST, Program, programs
from nnc_func.tree import flatten
from tests.onnx.exported import run_model
from tests.summation import reordered

LAZY = nnc.lazy()
UNWRITTEN = ("cannot be written as ONNX", "has effects")


def outputs(model: Any) -> list[str]:
    return [each.name for each in model.graph.output]


def ran(model: Any, *feeds: Any) -> list[Any]:
    names = [each.name for each in model.graph.input]
    found = run_model(model, dict(zip(names, feeds, strict=False)))
    assert found is not None
    return found


def written(graph: Any) -> Any:
    """The model of a graph; None where it has an application without a form in ONNX."""
    try:
        return graph.to_onnx()
    except OnnxError as error:
        if not any(reason in str(error) for reason in UNWRITTEN):
            raise
        return None


# --- random programs --------------------------------------------------------------------------------------


def computes(program: Program, optimised: bool) -> None:
    """The model gives the program's outputs and the variables' next values; both forms of the graph do."""
    assume(all(op.name != "searchsorted" for op in program.operators))  # of what is not sorted it may say anything
    built = program.build(LAZY)
    model = written(built.program.graph if optimised else built.program.source)
    if model is None:
        return
    feeds = program.feeds()
    wanted, _, largest = program.run_numpy(feeds, [v.value() for v in program.variables])
    assume(largest < LARGEST)
    found = run_model(model, dict(zip((each.name for each in program.inputs), feeds, strict=True)))
    assume(found is not None)  # a kernel that onnxruntime lacks: operators one by one are compared by another test
    following = dict(program.updates)
    values = program.run_numpy(feeds, [v.value() for v in program.variables])[1]
    places = [i for i, leaf in enumerate(program.leaves) if leaf.kind == "variable"]
    wanted = [*wanted, *(values[places.index(v)] for v in following)]
    allowed = 512 * program.epsilon() * max(largest, 1.0)
    for one, other in zip(found, wanted, strict=True):  # type: ignore[arg-type]
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=0, atol=allowed)
        else:
            np.testing.assert_array_equal(one, other)


@settings(max_examples=25)
@given(programs())
def test_a_runtime_computes_random_programs(program: Program) -> None:
    computes(program, optimised=False)


@settings(max_examples=25)
@given(programs())
def test_a_runtime_computes_optimised_programs(program: Program) -> None:
    computes(program, optimised=True)


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [False, True])
@given(program=programs())
def test_a_runtime_computes_all_programs(program: Program, optimised: bool) -> None:
    computes(program, optimised)


# --- round trip -------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(programs())
def test_a_graph_comes_back_from_its_model(program: Program) -> None:
    graph = program.build(LAZY).program.source
    model = written(graph)
    if model is None:
        return
    found = restored(onnx.ModelProto.FromString(model.SerializeToString()), nnc.lazy())
    assert str(found) == str(graph)
    for mine, its in zip(graph.variables, found.variables, strict=True):
        np.testing.assert_array_equal(mine.data.copied(), its.data.copied())


def large() -> Any:
    """A graph with a constant and a variable that are larger than what its text holds."""
    x = LAZY.input("x", ("n", 40), "float32")
    w = LAZY.variable("w", np.linspace(-1, 1, 40 * 30, dtype="float32").reshape(40, 30))
    b = LAZY.asarray(np.linspace(0, 1, 300, dtype="float32"))
    y = LAZY.ops.tanh(x @ w + b[:30])
    return LAZY.compile([x], {"y": y}, [(w, w * 0.5)])


CHANGES = {
    "an operator": lambda model: setattr(model.graph.node[0], "op_type", "Max"),
    "a weight": lambda model: setattr(
        model.graph.initializer[0], "raw_data", bytes(len(model.graph.initializer[0].raw_data))
    ),
    "an output's name": lambda model: setattr(model.graph.output[0], "name", "z"),
    "the opset": lambda model: setattr(model.opset_import[0], "version", 19),
    "the text": lambda model: setattr(
        model.metadata_props[0], "value", model.metadata_props[0].value.replace("tanh", "sin")
    ),
    "the metadata": lambda model: model.metadata_props.pop(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_was_changed_is_not_taken_for_what_it_was(change: Any) -> None:
    model = large().source.to_onnx()
    assert restored(model, LAZY) is not None
    change(model)
    assert restored(model, LAZY) is None


# --- files ------------------------------------------------------------------------------------------------


def test_large_arrays_go_to_a_file_beside_the_model(tmp_path: Path) -> None:
    program = large()
    x = np.linspace(-1, 1, 80, dtype="float32").reshape(2, 40)
    program.source.to_onnx(tmp_path / "one.onnx")
    program.source.to_onnx(tmp_path / "two.onnx", external_above=1000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.onnx", "two.onnx", "two.onnx.data"]
    assert (tmp_path / "two.onnx").stat().st_size < 4000 < (tmp_path / "one.onnx").stat().st_size
    w = program.source.variables[0].data.copied()
    for name in ("one.onnx", "two.onnx"):
        session = onnxruntime.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"])
        (found,) = session.run(["y"], {"x": x, "w": w})
        np.testing.assert_allclose(
            found, np.tanh(x @ w + np.linspace(0, 1, 300, dtype="float32")[:30]), rtol=1e-5, atol=1e-6
        )
        assert str(restored(onnx.load(tmp_path / name), LAZY)) == str(program.source)


def test_a_model_in_memory_holds_its_arrays_whatever_the_limit() -> None:
    model = large().source.to_onnx(external_above=0)
    assert all(not tensor.external_data for tensor in model.graph.initializer)


@pytest.mark.slow
def test_more_than_two_gigabytes_are_written_checked_and_loaded(tmp_path: Path) -> None:
    """Three tables of which a few rows are used; asked to be in the model's own file, where they cannot be."""
    count, width = 180_000, 1024
    tables = [
        LAZY.variable(f"table_{i}", np.random.default_rng(i).standard_normal((count, width), "float32"))
        for i in range(3)
    ]
    x, o = LAZY.input("x", ("n",), "int64"), LAZY.ops
    y = sum(o.tanh(o.take(table, x, axis=0)) for table in tables)
    program, path = LAZY.compile([x], y), tmp_path / "large.onnx"
    text, rows = str(program.source), np.array([0, 7, count - 1])
    wanted = program(rows)
    program.source.to_onnx(path, external_above=1 << 40)
    del program, tables, y
    assert (tmp_path / "large.onnx.data").stat().st_size > 1 << 31
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": rows})[0], wanted, rtol=1e-5, atol=1e-6)
    del session
    found = nnc.from_onnx(path, LAZY)
    assert str(found.original) == text
    np.testing.assert_array_equal(found(rows), wanted)
    (tmp_path / "large.onnx.data").unlink()


@pytest.mark.parametrize("opset", range(18, 23))
def test_every_opset_that_is_offered(opset: int) -> None:
    program = large()
    model = program.source.to_onnx(opset=opset)
    assert model.opset_import[0].version == opset
    assert model.ir_version <= 10
    onnx.checker.check_model(model, full_check=True)
    x = np.ones((3, 40), "float32")
    terms = np.abs(np.linspace(-1, 1, 40 * 30).reshape(40, 30)).sum(axis=0) + np.linspace(0, 1, 300)[:30]
    apart = np.abs(ran(model, x)[0] - program(x)["y"])
    assert (apart <= reordered(41, terms) + 4 * np.finfo("float32").eps).all()  # of tanh, which is no steeper than 1


# --- unknown extents --------------------------------------------------------------------------------------


def test_unknown_extents_are_named_dimensions() -> None:
    x, y = LAZY.input("x", ("n", 4), "float32"), LAZY.input("y", (None, "2*m+1"), "float32")
    o = LAZY.ops
    rows, columns = x.shape[0], y.shape[1]
    flat = o.reshape(x, shape=(rows * 4,))
    made = {
        "flat": flat,
        "twice": o.concat(flat, flat),
        "count": o.full(shape=(), value=rows, dtype="int64"),
        "wide": o.broadcast_to(o.sum(y, axis=0), shape=(3, columns)),
        "mean": o.mean(y, axis=1),
        "half": o.full(shape=((columns - 1) // 2,), value=1.5, dtype="float32"),
    }
    program = LAZY.compile([x, y], made)
    model = program.source.to_onnx()
    dims = [d.dim_param or d.dim_value for i in model.graph.input for d in i.type.tensor_type.shape.dim]
    assert dims[0] == "n"
    assert dims[1] == 4
    assert dims[3] == "2*m+1"
    for n, k, m in ((2, 3, 1), (1, 1, 0), (5, 2, 4)):
        feeds = [np.random.default_rng(n).normal(size=s).astype("float32") for s in ((n, 4), (k, 2 * m + 1))]
        for one, other in zip(ran(model, *feeds), program(*feeds).values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


# --- training ---------------------------------------------------------------------------------------------


def trained(model: Any, x: Any, y: Any, update: Any, steps: int = 3) -> None:
    """Losses and all variables of a compiled step and of its model, fed back by hand, over a few steps."""
    step = nn.Step(LAZY, model, nn.softmax_cross_entropy, update, seed=3)
    graph = step.program(x, y).source
    exported = graph.to_onnx()
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {i.data: i.aval.dtype for i in graph.inputs}
    state = {v.data.name: v.data.copied() for v, _ in graph.updates}
    for number in range(steps):
        loss, _ = step(x, y, 0.01)
        feeds = {"x": x, "y": y, "iteration": number, "rate": 0.01}
        feeds = {name: np.asarray(value, given[name]) for name, value in feeds.items() if name in given}
        found = dict(zip(outputs(exported), session.run(None, {**feeds, **state}), strict=True))
        np.testing.assert_allclose(found[outputs(exported)[0]], step.ask([loss])[0], rtol=1e-4)
        state = {name: found[f"{name}.next"] for name in state}
        for variable, _ in graph.updates:
            np.testing.assert_allclose(
                state[variable.data.name], variable.data.copied(), rtol=1e-4, atol=1e-4, err_msg=variable.data.name
            )


def test_a_convolutional_networks_training_step() -> None:
    layers = [
        nn.Conv2D(4, 3, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Conv2D(6, 3), nn.relu, nn.AveragePool2D(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Dense(10),
    ]  # fmt: skip
    model = nn.Sequential(*layers).init(1, (None, 12, 12, 1))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(8, 12, 12, 1)).astype("float32"), random.integers(0, 10, 8)
    trained(model, x, y, nn.SGD(momentum=0.9))


def test_an_lstms_training_step() -> None:
    model = nn.Sequential(nn.Embedding(11, 6), nn.LSTM(8, sequences=False), nn.Dense(4)).init(2, (None, 5), "int64")
    random = np.random.default_rng(1)
    trained(model, random.integers(0, 11, (4, 5)), random.integers(0, 4, 4), nn.Adam())


# --- refusals ---------------------------------------------------------------------------------------------


def closed(x: Any, y: Any) -> Any:
    return LAZY.compile([x], y).source


def test_outputs_of_a_dictionary_stand_in_its_order() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (2,), "float32")
    program = stack.compile([x], {"second": x + 1, "first": {"z": x * 2, "a": x * 3}})
    v = np.float32([1, 2])
    assert list(program(v)) == ["second", "first"]
    out = [np.empty(2, "float32") for _ in range(3)]
    program(v, out=out)
    for found in (program.run([v]), out, flatten(program(v), by_insertion=True)[0]):
        np.testing.assert_array_equal(found, [v + 1, v * 2, v * 3])
    assert list(program(v)["first"]) == ["z", "a"]
    model = program.graph.to_onnx()
    assert [each.name for each in model.graph.output] == ["second", "first.z", "first.a"]
    wanted = [v + 1, v * 2, v * 3]
    again = nnc.from_onnx(model, stack)
    assert again.original is not None
    for found in (run_model(model, {"x": v}), again(v)):
        np.testing.assert_array_equal(found, wanted)
    text = str(program.graph)
    assert str(parsed(text, stack, {}, {})) == text


def test_refusals_name_the_operator_the_line_and_the_reason() -> None:
    x = LAZY.input("x", (3, 3), "float32")
    with pytest.raises(
        OnnxError, match=r"cholesky \(at test_exported_graphs.py:\d+ .*\) .*: ONNX has no decompositions"
    ):
        closed(x, LAZY.ops.cholesky(x)).to_onnx()
    z = LAZY.input("z", (3,), "complex64")
    with pytest.raises(OnnxError, match="made of complex numbers"):
        closed(z, LAZY.ops.exp(z)).to_onnx()
    with pytest.raises(OnnxError, match="18 to 22"):
        closed(x, x).to_onnx(opset=17)
    with pytest.raises(OnnxError, match="written to a path, or is returned where that is None; given 18"):
        closed(x, x).to_onnx(18)
    with pytest.raises(OnnxError, match=r"cannot be written to '/nowhere/x.onnx': No such file"):
        closed(x, x).to_onnx("/nowhere/x.onnx")
    with pytest.raises(OnnxError, match="has effects"):
        LAZY.compile([x], x, effects=[LAZY.ops.print(x, after=LAZY.token())]).source.to_onnx()
    assert issubclass(OnnxError, GraphError)


def test_all_refusals_are_told_at_once() -> None:
    x, z = LAZY.input("x", (3, 3), "float32"), LAZY.input("z", (3,), "complex64")
    o = LAZY.ops
    both = LAZY.compile([x, z], [o.exp(o.cholesky(x)), o.abs(o.exp(z)), o.inv(x + 1), o.tanh(x)]).source
    with pytest.raises(OnnxError) as found:
        both.to_onnx()
    told = str(found.value)
    assert [told.count(name) for name in ("cholesky", "inv (", "complex numbers", "tanh", "abs")] == [1, 1, 1, 0, 0]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnx.helper", None)
    x = LAZY.input("x", (2,), "float32")
    with pytest.raises(OnnxError, match=r"pip install 'nnc_func\[onnx\]'"):
        closed(x, LAZY.ops.full(shape=(2,), value=1, dtype="float32") + x).to_onnx()
