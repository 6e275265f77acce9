"""The command line, in this process: what each command prints, its JSON, its files, its exit codes (`cli`)."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import nnc_func as nnc
from nnc_func import models
from nnc_func.archives.archive import ABOUT, write_archive
from nnc_func.cli import main


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    """A command's standard output, after a success."""

    def asked(*argv: str) -> str:
        code = main(argv)
        found = capsys.readouterr()
        assert code == 0, found.err
        assert not found.err
        return found.out

    return asked


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Any:
    """A command's standard error, after a failure that is told."""

    def asked(*argv: str) -> str:
        code = main(argv)
        found = capsys.readouterr()
        assert code == 1
        assert not found.out
        return found.err

    return asked


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file: y = relu(reshape(x @ w)) for a number of rows that is not known, in a shape that is computed of it."""
    w = onnx.numpy_helper.from_array(np.eye(3, dtype="float32") - 0.5, "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Constant", [], ["rest"], value_ints=[-1, 3]),
        helper.make_node("Neg", ["rest"], ["against"]),
        helper.make_node("Neg", ["against"], ["shape"]),
        helper.make_node("Reshape", ["h", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [w],
    )  # fmt: skip
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


CHOOSES = """<ir_version: 10, opset_import: ["": 18]> chooses (float[?, 3] x, int64 rate) => (float[k, 3] y) {
    one = Constant <value_int = 1> ()
    known = Equal(rate, one)
    y = If (known) <then_branch = yes () => (float[m, 3] a) { a = Neg(x) },
                    else_branch = no () => (float[n, 3] b) { b = Concat <axis = 0> (x, x) }>
}"""


@pytest.fixture
def chooses(tmp_path: Path) -> str:
    """A file of which a scalar input decides what is computed, and of which an extent has no name."""
    onnx.save(onnx.parser.parse_model(CHOOSES), tmp_path / "chooses.onnx")
    return str(tmp_path / "chooses.onnx")


COMMANDS = [["info"], ["models", "lenet-5"], ["show", "lenet-5"], ["run", "lenet-5"], ["plan", "lenet-5"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_text_and_json_tell_the_same(answer: Any, command: list[str]) -> None:
    assert answer(*command).strip()
    found = json.loads(answer(*command, "--json"))
    assert found


def test_info_tells_versions_and_devices(answer: Any) -> None:
    found = json.loads(answer("info", "--json"))
    assert found["version"] == nnc.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["devices"]["NumPy"] == "available"
    assert "ml_dtypes" in answer("info")


def test_models_lists_what_the_zoo_counts(answer: Any) -> None:
    (found,) = json.loads(answer("models", "lenet-5", "--batch", "10", "--json"))
    counted = models.summary("lenet-5", 10).as_dict()
    assert {name: found[name] for name in counted} == counted
    text = answer("models", "lenet-5", "mnist", "--training")
    assert "61,706" in text
    assert "mnist" in text


def test_show_writes_each_form(answer: Any, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"graph.{kind}" for kind in ("svg", "html", "dot")}
    answer("show", "lenet-5", *(part for kind, path in files.items() for part in (f"--{kind}", str(path))))
    begins = {kind: path.read_text(encoding="utf-8")[:8] for kind, path in files.items()}
    assert begins["svg"].startswith("<svg ")
    assert begins["html"] == "<!doctyp"
    assert begins["dot"].startswith("digraph ")


def test_show_prints_a_form_on_standard_output(answer: Any) -> None:
    assert answer("show", "lenet-5", "--dot", "-").startswith("digraph ")


def test_show_reads_back_as_the_graph(answer: Any) -> None:
    found = json.loads(answer("show", "lenet-5", "--json"))
    graph = models.get("lenet-5").make(nnc.lazy(nnc.Null()), seed=None)
    assert found["text"] == str(graph)
    assert found["nodes"] == len(graph.nodes)
    optimised = json.loads(answer("show", "lenet-5", "--training", "--optimised", "--json"))
    assert optimised["nodes"] < json.loads(answer("show", "lenet-5", "--training", "--json"))["nodes"]


def test_a_file_is_shown_run_and_planned(answer: Any, model: Path, tmp_path: Path) -> None:
    assert "matmul" in answer("show", str(model))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    answer("run", str(model), "--dim", "n=2", "--inputs", str(tmp_path / "in.npz"), "--save", str(tmp_path / "out.npz"))
    wanted = np.maximum(x @ (np.eye(3, dtype="float32") - 0.5), 0)
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output_0"], wanted, rtol=1e-6)
    assert json.loads(answer("plan", str(model), "--dim", "n=1000", "--json"))["kernels"] <= 2


def test_an_input_that_decides_is_given_as_an_option(answer: Any, chooses: str, tmp_path: Path) -> None:
    assert "negative" in answer("show", chooses, "--value", "rate=1")
    assert json.loads(answer("plan", chooses, "--value", "rate=2", "--dim", "x.0=4", "--json"))["kernels"] == 1
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), "float32"))
    given = ("--inputs", str(tmp_path / "in.npz"), "--save", str(tmp_path / "out.npz"))
    for rate, wanted in ((1, np.full((2, 3), -1)), (5, np.ones((4, 3)))):
        answer("run", chooses, "--value", f"rate={rate}", "--dim", "x.0=2", *given)
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output_0"], wanted)


def test_what_is_wanted_of_such_a_file_is_told(refusal: Any, chooses: str) -> None:
    assert "depend on 'rate'; say --value rate=N" in refusal("show", chooses)
    assert "say --dim x.0=N" in refusal("plan", chooses, "--value", "rate=1")
    assert "has no unknown extent 'y.0'; it has: x.0" in refusal("plan", chooses, "--value", "rate=1", "--dim", "y.0=2")
    assert "no input 'rte'; it has: x, rate" in refusal("show", chooses, "--value", "rte=1")
    assert "'rate' is of int64, given 1.5" in refusal("show", chooses, "--value", "rate=1.5")
    assert "'rate' is int64[], given int64[2]" in refusal("show", chooses, "--value", "rate=1,2")
    assert "--value is for models in files" in refusal("show", "lenet-5", "--value", "x=1")


def test_an_extent_without_a_name_is_that_of_an_input(answer: Any, refusal: Any, tmp_path: Path) -> None:
    head = '<ir_version: 10, opset_import: ["": 18]> f (float[?, 3] x) => (float[?, 3] y)'
    onnx.save(onnx.parser.parse_model(head + "{ y = Abs(x) }"), tmp_path / "f.onnx")
    assert "say --dim x.0=N" in refusal("plan", str(tmp_path / "f.onnx"))
    assert json.loads(answer("plan", str(tmp_path / "f.onnx"), "--dim", "x.0=5", "--json"))["kernels"] == 1


def saved(folder: Path, extent: Any) -> tuple[Path, Path, Any]:
    """Files of a program and of its graph, and the program."""
    stack = nnc.lazy()
    x = stack.input("x", (extent, 3), "float32")
    program = stack.compile([x], {"y": stack.ops.softmax(x @ stack.variable("w", np.eye(3, dtype="float32")))})
    program(np.ones((2, 3), "float32"))
    program.save(folder / "some.program")
    program.graph.save(folder / "some.graph")
    return folder / "some.program", folder / "some.graph", program


def test_what_the_library_saved_is_shown_run_and_planned(
    answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *files, program = saved(tmp_path, 2)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    for file in files:
        assert "softmax" in answer("show", str(file))
        answer("run", str(file), "--inputs", str(tmp_path / "in.npz"), "--save", str(tmp_path / "out.npz"))
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output_0"], program(x)["y"])
        planned = json.loads(answer("plan", str(file), "--json"))
        assert (planned["arena_bytes"], planned["kernels"]) == (program.plan.arena_bytes, program.plan.kernels)
    wasteful = json.loads(answer("plan", str(files[0]), "--allocator", "no_reuse", "--json"))
    assert wasteful["arena_bytes"] == wasteful["bytes_without_sharing"]
    monkeypatch.chdir(tmp_path)
    assert "softmax" in answer("show", "some.graph")  # a file needs no slash in its name


def test_a_saved_program_of_unknown_extents_is_run_for_some(answer: Any, refusal: Any, tmp_path: Path) -> None:
    for file in saved(tmp_path, None)[:2]:
        assert "say --dim x.0=N" in refusal("plan", str(file))
        found = json.loads(answer("run", str(file), "--dim", "x.0=4", "--json"))
        assert found["outputs"]["output_0"].startswith("float32[4, 3]")
        planned = json.loads(answer("plan", str(file), "--dim", "x.0=4", "--json"))
        assert planned["arena_bytes"] == found["arena_bytes"]


def test_effects_of_a_saved_file_are_allowed_by_name(answer: Any, refusal: Any, tmp_path: Path) -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (2,), "float32")
    program = lazy.compile([x], [x * 2], effects=[lazy.ops.print(x, after=lazy.token(), text="seen")])
    for name, each in (("some.program", program), ("some.graph", program.source)):
        path = str(tmp_path / name)
        each.save(path)
        for command in ("run", "show", "plan"):
            assert "'print', which does more than compute" in (said := refusal(command, path))
            assert said.rstrip().endswith("; here, by --allow")
        assert "print" in answer("show", path, "--allow", "print")
        assert answer("run", path, "--allow", "print", "--repeat", "1")
    assert "--allow is for models in files" in refusal("show", "mnist", "--allow", "print")


@pytest.mark.parametrize("content", [b"PK\3\4 half of one", b"hello", b'plan "p" arena 0 align 64'])
def test_what_is_no_model_of_any_kind_is_told(refusal: Any, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.program"
    path.write_bytes(content)
    for command in ("run", "show", "plan"):
        assert "it is no graph or program that this library saved" in refusal(command, str(path))
    np.savez(tmp_path / "arrays.npz", x=np.ones(2))
    assert "names a format of this library" in refusal("show", str(tmp_path / "arrays.npz"))


def test_files_of_the_library_that_are_no_models_are_refused(refusal: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "state.zip")
    write_archive(path, [(ABOUT, b'{"format": "nnc_func training state", "version": 1}')])
    assert "is a training state; wanted a graph, a program, or an .onnx file" in refusal("show", path)
    write_archive(path, [("other", b"")])
    assert "about.json" in refusal("show", path)
    write_archive(path, [(ABOUT, b"[]")])
    assert "names a format of this library" in refusal("show", path)
    assert "--value is for .onnx files" in refusal("show", str(saved(tmp_path, 2)[1]), "--value", "x=1")


def test_a_plan_is_that_of_the_stack(answer: Any) -> None:
    stack = nnc.lazy(nnc.Null())
    plan = stack.engine.compile(models.get("lenet-5").make(stack, 4, seed=None)).plan
    found = json.loads(answer("plan", "lenet-5", "--batch", "4", "--top", "3", "--json"))
    assert (found["arena_bytes"], found["max_load_bytes"]) == (plan.arena_bytes, plan.max_load)
    assert len(found["largest"]) == 3
    unshared = json.loads(answer("plan", "lenet-5", "--batch", "4", "--allocator", "no_reuse", "--json"))
    assert unshared["arena_bytes"] == unshared["bytes_without_sharing"] > found["arena_bytes"]


def test_a_plan_is_written(answer: Any, tmp_path: Path) -> None:
    found = json.loads(answer("plan", "lenet-5", "--html", str(tmp_path / "plan.html"), "--json"))
    assert found["files"] == {"html": str(tmp_path / "plan.html")}
    assert found["arena_bytes"] > 0
    assert any(row["is_scratch"] for row in found["largest"])
    text = answer("plan", "lenet-5", "--html", str(tmp_path / "plan.html"))
    assert "arena bytes" in text
    assert "conv2d (scratch)" in text
    assert "largest buffers" in (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert answer("plan", "lenet-5", "--csv", "-").startswith("id,lower,upper,size,offset")


def test_a_training_step_runs(answer: Any) -> None:
    found = json.loads(answer("run", "lenet-5", "--training", "--repeat", "1", "--profile", "--json"))
    assert found["outputs"]["output_0"].startswith("float32[]")
    assert any(row["operator"] == "conv2d" for row in found["profile"])
    assert all(name.isidentifier() for row in found["profile"] for name in row)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["show", "lenet5"], "did you mean lenet-5"),
        (["models", "lenet5"], "did you mean lenet-5"),
        (["run", "absent.onnx"], "absent.onnx"),
        (["run", "lenet-5", "--dim", "n=3"], "takes --batch"),
        (["run", "lenet-5", "--inputs", "absent.npz"], "absent.npz"),
    ],
    ids=lambda c: "-".join(c) if isinstance(c, list) else None,
)
def test_refusals_say_what_is_wanted(refusal: Any, command: list[str], words: str) -> None:
    assert words in refusal(*command)
    assert words in json.loads(refusal(*command, "--json"))["message"]


def test_refusals_about_files(refusal: Any, model: Path, tmp_path: Path) -> None:
    assert "--dim n=N" in refusal("run", str(model))
    assert "no unknown extent 'm'" in refusal("run", str(model), "--dim", "m=3")
    assert "set by --dim" in refusal("plan", str(model), "--batch", "3")
    (tmp_path / "torn.onnx").write_bytes(model.read_bytes()[:40])
    assert "torn.onnx" in refusal("show", str(tmp_path / "torn.onnx"))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name, content in (("text.npz", b"nothing"), ("empty.npz", b""), ("torn.npz", b"PK\x03\x04torn")):
        (tmp_path / name).write_bytes(content)
    for name in ("text.npz", "empty.npz", "torn.npz", "array.npy"):
        assert name in refusal("run", str(model), "--dim", "n=2", "--inputs", str(tmp_path / name))
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    assert "no input 'x'" in refusal("run", str(model), "--dim", "n=2", "--inputs", str(tmp_path / "other.npz"))


@pytest.mark.parametrize("command", ["plan --help", "rules --help", "bench --help", "rules unit", "models lenet-5"])
def test_an_output_without_our_characters_is_no_error(command: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "nnc_func", *command.split()], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as found:
        main(["--version"])
    assert found.value.code == 0
    assert capsys.readouterr().out == f"nnc_func {nnc.__version__}\n"


def test_a_long_bench_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no tqdm
    clock = itertools.count()
    monkeypatch.setattr("nnc_func.progress.time.perf_counter", lambda: float(next(clock)))  # each look takes a second
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,64\n")
    assert main(["bench", "allocators", str(tmp_path), "--allocator", "best_fit", "--progress"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[:2] for line in told] == [
        ["trial 0/2", "best_fit on one"],
        ["trial 1/2", "best_fit on two"],
    ]


WRONG = [
    [], ["nothing"], ["plan"], ["run", "lenet-5", "--repeat", "0"], ["run", "lenet-5", "--seed", "-1"],
    ["show", "a", "--dim", "n"],
]  # fmt: skip


@pytest.mark.parametrize("argv", WRONG, ids=" ".join)
def test_a_wrong_command_line_is_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as found:
        main(argv)
    assert found.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "nnc_func", "show", "vgg-16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
