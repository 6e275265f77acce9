"""Programs in files compute the same, bit for bit, with nothing optimised or planned again (`engine/files`)."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device import NumPy
from nnc_func.engine.interpreted import Interpreted
from nnc_func.engine.plan import Plan
from nnc_func.errors import FileFormatError, GraphError, NncError
from nnc_func.testing.programs import Program, programs
from tests.members import content, rewritten

EAGER, LAZY = nnc.eager(), nnc.lazy()
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "net.program"


def network(stack: Any = LAZY) -> Any:
    """Views, several results, a large constant, parts, a commit section, and nested outputs."""
    ops, draw = stack.ops, np.random.default_rng(0)
    x, rate = stack.input("x", (4, 8), "float32"), stack.input("rate", (), "float32")
    w = stack.variable("w", draw.normal(size=(8, 6)).astype("float32"))
    seen = stack.variable("seen", np.float32(0))
    y = ops.tanh(x @ w + stack.asarray(draw.normal(size=(6,)).astype("float32")))
    y = y @ stack.asarray(draw.normal(size=(6, 20)).astype("float32"))
    left, right = ops.split(y, sections=2, axis=1)
    both = ops.concat(right, left * 2, axis=1)
    return stack.compile([x, rate], {"y": both, "s": [ops.softmax(y), None]}, [(w, w - rate * w), (seen, seen + 1)])


def feeds() -> list[Any]:
    return [np.arange(32, dtype="float32").reshape(4, 8) / 9, np.float32(0.1)]


def bits(arrays: Any) -> list[bytes]:
    return [np.asarray(a).tobytes() for a in arrays]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs())
def test_a_program_is_read_back_and_computes_the_same(tmp_path: Path, drawn: Program) -> None:
    file, other = tmp_path / "drawn.program", tmp_path / "again.program"
    program = drawn.build(LAZY).program
    program.save(file)
    read = nnc.load_program(file)
    assert read.plan == program.plan
    read.save(other)
    assert other.read_bytes() == file.read_bytes()
    for seed in (0, 1, 0):
        with np.errstate(all="ignore"):
            assert bits(read.run(drawn.feeds(seed))) == bits(program.run(drawn.feeds(seed)))
        states = [[v.array for v in p.variables.values()] for p in (read, program)]
        assert bits(states[0]) == bits(states[1])
    assert str(read.graph) == str(program.graph)


def test_nothing_is_optimised_planned_or_chosen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network().save(path)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a file needs none of this")

    monkeypatch.setattr("nnc_func.engine.lazy.arranged", never)
    monkeypatch.setattr("nnc_func.graph.optimiser.Optimiser.optimise", never)
    monkeypatch.setattr("nnc_func.device.shared.base.ArrayDevice.choose", never)
    program = nnc.load_program(path)
    assert isinstance(program.plan, Plan)
    assert program(*feeds())["y"].shape == (4, 20)


def test_structure_names_variables_and_lines_come_back(path: Path) -> None:
    program = network()
    program.save(path)
    read = nnc.load_program(path, EAGER)
    assert repr(read) == repr(program)
    first, second = read(*feeds()), program(*feeds())
    assert [*first] == [*second] == ["y", "s"]  # as they were given
    assert first["s"][1] is None
    assert bits([read.variables["seen"].array]) == bits([np.float32(1)])
    assert read.variables["w"] is not program.variables["w"]
    with pytest.raises(NncError, match=r"input 'x' wants shape \(4, 8\), given \(2,\)"):
        read(np.float32([1, 2]), 0.1)
    files = {i.origin[0].rpartition(":")[0] for i in read.plan.instructions}
    assert files == {"test_program_files.py"}
    assert str(read.graph) == str(program.graph) == str(read.source)
    assert read.graph.variables[0].data in read.variables.values()


CODE = """
import sys, numpy as np, nnc_func as nnc
sys.path.insert(0, sys.argv[2])
from test_program_files import feeds, network
if sys.argv[3] == "save":
    network().save(sys.argv[1])
else:
    program = nnc.load_program(sys.argv[1])
    print(*[a.tobytes().hex() for _ in range(2) for a in program.run(feeds())])
"""


def other_process(path: Path, what: str, seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", CODE, str(path), str(Path(__file__).parent), what],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
    ).stdout  # fmt: skip


def test_another_process_computes_the_same(path: Path) -> None:
    program = network()
    program.save(path)
    wanted = [a.tobytes().hex() for _ in range(2) for a in program.run(feeds())]
    assert other_process(path, "load", "1").split() == wanted


def test_the_same_program_gives_the_same_bytes_whatever_the_seed_of_hashes(path: Path, tmp_path: Path) -> None:
    for seed in ("0", "1", "77"):
        other_process(tmp_path / seed, "save", seed)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes() == (tmp_path / "77").read_bytes()


def test_constants_of_equal_bytes_stay_what_they_are(path: Path) -> None:
    zeros = [LAZY.asarray(np.zeros(shape, d)) for shape, d in (((100,), "float32"), ((4, 25), "int32"))]
    program = LAZY.compile([], [zeros[0] + 1, zeros[1] + 1, zeros[0], zeros[1]])
    plain = LAZY.swap(optimiser=LAZY.optimiser.without_rules(*(r.name for r in LAZY.optimiser.rules)))
    kept = plain.engine.compile(program.source.to(plain))
    kept.save(path)
    read = nnc.load_program(path)
    assert [(a.dtype, a.shape) for a in read.run(())] == [(a.dtype, a.shape) for a in kept.run(())]
    assert str(read.graph) == str(kept.graph)


def test_a_program_made_of_a_plan_alone_has_no_graph_in_its_file_either(path: Path) -> None:
    made = network()
    alone = LAZY.program(made.plan, made._constants, made.variables)
    alone.save(path)
    read = nnc.load_program(path)
    assert read.graph is None
    assert bits(read.run(feeds())) == bits(made.run(feeds()))


# --- other kinds -------------------------------------------------------------------------------------------


def test_unknown_extents_come_back_with_the_bindings_that_were_met(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = LAZY.input("x", ("n", 3), "float32")
    w = LAZY.variable("w", np.ones((3, 2), "float32"))
    program = LAZY.compile([x], LAZY.ops.tanh(x @ w), {w: w * 0.5})
    given_ = [np.full((n, 3), 0.3, "float32") for n in (2, 5)]
    for a in given_:
        program(a)
    program.save(path)
    read = nnc.load_program(path)
    assert list(read.programs) == list(program.programs)
    with monkeypatch.context() as patch:
        patch.setattr("nnc_func.engine.lazy.arranged", None)
        assert bits([read(a) for a in given_]) == bits([program(a) for a in given_])
    more = np.ones((7, 3), "float32")  # a binding that is planned here
    assert bits([read(more)]) == bits([program(more)])
    with pytest.raises(FileFormatError, match=r"unknown extents, which Eager.* cannot plan: load it in a lazy stack"):
        nnc.load_program(path, EAGER)


def test_an_interpreted_program_is_its_graph(path: Path) -> None:
    program = network(EAGER)
    program.save(path)
    read = nnc.load_program(path, EAGER)
    assert isinstance(read, Interpreted)
    for _ in range(2):
        assert bits(read.run(feeds())) == bits(program.run(feeds()))


def test_what_retains_values_and_what_runs_in_streams(path: Path) -> None:
    x = LAZY.input("x", (64,), "float64")
    w = LAZY.variable("w", np.arange(64.0))
    keeping = LAZY.compile([x], [LAZY.ops.exp(w) + x], retain="all")
    with pytest.raises(GraphError, match="keeps values from run to run, and is not written: save what is compiled"):
        keeping.save(path)
    wide = LAZY.swap(engine=LAZY.engine.with_streams(2))
    y = wide.input("y", (1 << 17,), "float64")
    program = wide.compile([y], [wide.ops.cumulative_sum(y, axis=0), wide.ops.cumulative_sum(y * 2, axis=0)])
    program.save(path)
    read = nnc.load_program(path)
    assert read.plan == program.plan
    assert read.plan.streams == 2
    assert bits(read.run([np.ones(1 << 17)])) == bits(program.run([np.ones(1 << 17)]))


def test_on_a_device_without_elements(path: Path) -> None:
    null = LAZY.swap(device=nnc.Null())
    with pytest.raises(GraphError, match=r"Null\(\) has no elements of"):
        network(null).save(path)
    assert not path.exists()
    network().save(path)
    assert nnc.load_program(path, null)(*feeds())["y"].shape == (4, 20)
    with pytest.raises(FileFormatError, match="has no memory to plan in"):
        nnc.load_program(path, LAZY.swap(device=nnc.Strict()))


# --- refused -----------------------------------------------------------------------------------------------


def changed(path: Path, member: str, change: Any) -> None:
    members = content(path)
    data = json.loads(members[member])
    change(data)
    rewritten(path, members | {member: json.dumps(data).encode()})


def test_a_newer_version_is_refused(path: Path) -> None:
    network().save(path)
    changed(path, "about.json", lambda about: about.update(version=2))
    with pytest.raises(
        FileFormatError, match=r"written in version 2 of the format; this reads versions up to 1: update"
    ):
        nnc.load_program(path)


def test_what_is_no_program_is_refused(path: Path) -> None:
    path.write_bytes(b"\x89PNG and so on")
    with pytest.raises(FileFormatError, match=r"is no program, or is damaged or cut short"):
        nnc.load_program(path)
    network().graph.save(path)
    with pytest.raises(FileFormatError, match=r"but no program: about.json does not say 'nnc_func program'"):
        nnc.load_program(path)
    with pytest.raises(FileNotFoundError):
        nnc.load_program(path.with_name("nowhere"))


PLAN = "plans/0.json"
HOSTILE: dict[str, tuple[str, Any, str]] = {
    "no such operator": (PLAN, lambda p: p["calls"][0].__setitem__(0, "__import__"), r"no operator '__import__'"),
    "no such kernel": (PLAN, lambda p: p["calls"][0].__setitem__(1, "rm"), r"has no kernel 'rm'"),
    "an offset outside": (
        PLAN,
        lambda p: p["buffers"]["offset"].__setitem__(-1, 1 << 40),
        r"is damaged|takes bytes|lives",
    ),
    "an arena too small": (PLAN, lambda p: p.update(arena_bytes=8), r"of an arena of 8"),
    "an arena too large": (
        PLAN,
        lambda p: p.update(arena_bytes=1 << 60),
        r"an arena of \d+ bytes for buffers that take 768",
    ),
    "a slot that is not there": (PLAN, lambda p: p["instructions"]["slots"].__setitem__(0, 10**9), r"names slot"),
    "a fraction": (PLAN, lambda p: p["instructions"]["slots"].__setitem__(0, 0.5), r"a column of integers is wanted"),
    "a negative number": (PLAN, lambda p: p["instructions"]["slots"].__setitem__(0, -3), r"-3 is below 0"),
    "another shape": (PLAN, lambda p: p["avals"].__setitem__(0, "float32[9999, 9999]"), r"bytes|gives|fit|wants"),
    "no dtype": (PLAN, lambda p: p["avals"].__setitem__(0, "object[3]"), r"'object' is no dtype of numbers"),
    "a missing column": (PLAN, lambda p: p["slots"].pop("aval"), r"'aval'"),
    "a short column": (PLAN, lambda p: p["buffers"]["lower"].pop(), r"columns of 15, 15, 14, 15, 15, 15 rows"),
    "no column": (PLAN, lambda p: p["slots"].update(aval={}), r"a column of integers is wanted, found {}"),
    "no table": (PLAN, lambda p: p.update(slots=7), r"an object is wanted, found 7"),
    "no pairs": (PLAN, lambda p: p["slots"].update(offset=[[1, 2, 3]]), r"a list of lists of 2 is wanted"),
    "no aval": (PLAN, lambda p: p["slots"]["aval"].__setitem__(0, 99), r"99 is no place in a table of \d+ rows"),
    "no instruction": (PLAN, lambda p: p["instructions"]["waits"].append([99, []]), r"99 is no place in a table"),
    "no line": (PLAN, lambda p: p["origins"].__setitem__(0, [["x:1"]]), r"a list of lists of 2 is wanted"),
    "no call": (PLAN, lambda p: p["calls"].__setitem__(0, ["add"]), r"a list of lists of 8 is wanted"),
    "no constants": ("about.json", lambda a: a.update(plans=[{}]), r"'constants' is missing"),
    "no plans": ("about.json", lambda a: a.update(plans=None), r"a list is wanted, found None"),
    "no slot of a constant": (PLAN, lambda p: p["constants"].__setitem__(0, 99), r"slots, and uses slot 99"),
    "outputs that are not there": (PLAN, lambda p: p.update(nesting="[%0, %7]"), r"2 outputs are nested"),
    "no variable": ("about.json", lambda a: a.update(variables=["w"]), r"it has no values of the variables \['seen'\]"),
    "no kind": ("about.json", lambda a: a.update(kind="pickle"), r"of kind 'pickle'; kinds are planned"),
    "no plan": ("about.json", lambda a: a.update(plans=[]), r"it has 0 plans, where one is wanted"),
    "code for a parameter": (PLAN, lambda p: p["calls"][0].__setitem__(7, "axis=open('x')"), r"line 1|no parameter"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name: str, path: Path) -> None:
    member, change, words = HOSTILE[name]
    network().save(path)
    changed(path, member, change)
    with pytest.raises(FileFormatError, match=words):
        nnc.load_program(path)


def test_sizes_that_are_not_so_are_refused(path: Path) -> None:
    network().save(path)
    members = content(path)
    at = next(n for n in members if n.startswith("variables/"))
    claimed = members[at].replace(b"(8, 6)", b"(8, 6" + b"0" * 9 + b")").replace(b"(),", b"(1" + b"0" * 9 + b",),")
    with pytest.raises(FileFormatError, match=r"is no array of numbers|damaged"):
        nnc.load_program(rewritten(path, members | {at: claimed}))
    rewritten(path, members | {PLAN: b" " * ((1 << 28) + 1)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(FileFormatError, match=r"unpacks to 268435457 bytes, more than 67108864"):
        nnc.load_program(path)


SAVED: dict[str, Any] = {}


def saved() -> tuple[dict[str, bytes], bytes]:
    """The file of the network, made once."""
    if not SAVED:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "net.program"
            network().save(file)
            SAVED["members"], SAVED["bytes"] = content(file), file.read_bytes()
    return SAVED["members"], SAVED["bytes"]


def survives(path: Path) -> None:
    """It is refused in our words, or it is a verified plan that runs."""
    try:
        program = nnc.load_program(path)
        program.plan.verify()
        inputs = [
            np.ones(program.plan.slots[s].aval.shape, program.plan.slots[s].aval.dtype) for s in program.plan.inputs
        ]
        with np.errstate(all="ignore"):
            program.run(inputs)
    except NncError:
        return


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0), st.integers(1, 255))
def test_a_flipped_byte_never_crashes(tmp_path: Path, at: int, flip: int) -> None:
    file, (_, whole) = tmp_path / "flipped", saved()
    at %= len(whole)
    file.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
    survives(file)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Where something may be exchanged: containers and keys."""
    found: list[tuple[Any, Any]] = []
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in rows:
        found.append((value, key))
        if isinstance(inner, (dict, list)):
            found += places(inner)
    return found


OTHER = st.one_of(st.integers(-2, 40), st.sampled_from([None, True, 0.5, "", "view", "add", [], {}, 1 << 70, "%0"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=4 * settings().max_examples)
@given(
    st.sampled_from([PLAN, PLAN, PLAN, "about.json"]), st.integers(0), st.one_of(st.none(), OTHER), st.integers(1, 3)
)
def test_an_exchanged_value_never_crashes(tmp_path: Path, member: str, at: int, other: Any, times: int) -> None:
    members, _ = saved()
    data = json.loads(members[member])
    for n in range(times):
        where = places(data)
        holder, key = where[(at + n * 7919) % len(where)]
        if other is None and at % 2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(other)
    survives(rewritten(tmp_path / "exchanged", members | {member: json.dumps(data).encode()}))


def test_every_prefix_is_refused(tmp_path: Path) -> None:
    _, whole = saved()
    file = tmp_path / "short"
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            nnc.load_program(file)
    assert isinstance(LAZY.device, NumPy)


def test_a_plan_that_was_changed_is_verified_again(path: Path) -> None:
    """Whatever it says of itself: here two buffers overlap."""
    network().save(path)
    offsets = json.loads(content(path)[PLAN])["buffers"]["offset"]
    assert len(set(offsets)) > 1
    changed(path, PLAN, lambda plan: plan["buffers"].update(offset=[0] * len(offsets)))
    with pytest.raises(FileFormatError, match=r"overlap|written over"):
        nnc.load_program(path)
