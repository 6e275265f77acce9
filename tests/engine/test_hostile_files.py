"""Program files written to do harm are refused, whatever they say of themselves (`engine/files`, `engine/verifying`).

Each file is one that `save` wrote, with numbers changed as somebody would who knows the format: digests are forged too.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.errors import DeviceError, FileFormatError, PlanError
from nnc_func.op import operator
from tests.engine import mutated_programs
from tests.engine.guarded import GUARDS, guarded, leaves_its_memory
from tests.hostile import Tally, attempted
from tests.members import content, rewritten

ROOT = Path(__file__).resolve().parents[2]
LAZY = nnc.lazy()
PLAN, ABOUT, GRAPH = "plans/0.json", "about.json", "graph.txt"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.program"


def network(stack: Any = LAZY) -> Any:
    """Views, parts, lent memory, a large constant, and a commit section."""
    ops, draw = stack.ops, np.random.default_rng(0)
    x = stack.input("x", (4, 8), "float32")
    w = stack.variable("w", draw.normal(size=(8, 6)).astype("float32"))
    y = ops.tanh(x @ w) @ stack.asarray(draw.normal(size=(6, 20)).astype("float32"))
    left, right = ops.split(y, sections=2, axis=1)
    return stack.compile([x], [ops.concat(right, left * 2, axis=1), ops.softmax(y)], [(w, w * 0.5)])


X = np.arange(32, dtype="float32").reshape(4, 8) / 9


def crafted(path: Path, change: Callable[[Any], Any], made: Any = None) -> Path:
    """A file with another plan, which says of itself that it was verified."""
    (network() if made is None else made).save(path)
    members = content(path)
    plan, about = json.loads(members[PLAN]), json.loads(members[ABOUT])
    change(plan)
    plan["representatives"] = []
    written = json.dumps(plan).encode()
    about["plans"][0]["verified"] = hashlib.sha256(written).hexdigest()
    return rewritten(path, members | {PLAN: written, ABOUT: json.dumps(about).encode()})


def slot(plan: Any, aval: str, buffer: int, strides: Any = None, offset: int = 0) -> int:
    """One slot more; its number."""
    at = len(plan["slots"]["buffer"])
    plan["slots"]["buffer"].append(buffer)
    plan["slots"]["aval"].append(len(plan["avals"]))
    plan["avals"].append(aval)
    if strides is not None:
        plan["slots"]["strides"].append([at, strides])
    if offset:
        plan["slots"]["offset"].append([at, offset])
    return at


def call(plan: Any, name: str) -> Any:
    """The first application of an operator."""
    return next(c for c in plan["calls"] if c[0] == name)


def with_body(plan: Any, text: str) -> None:
    """The first product that is finished as another body says, which a file writes as text."""
    call(plan, "matmul_blockwise")[7] = f"body={text}, transpose_a=False, transpose_b=False"


def arena(plan: Any) -> int:
    return int(plan["buffers"]["kind"].index("arena"))


def buffer(plan: Any, **fields: Any) -> int:
    """One buffer more; its number."""
    row = {"kind": "arena", "nbytes": 64, "lower": 0, "upper": 1, "offset": 0, "source": -1} | fields
    for key, value in row.items():
        plan["buffers"][key].append(value)
    return len(plan["buffers"]["kind"]) - 1


def reshaped(plan: Any, kind: str, **fields: Any) -> None:
    """Another number for each buffer of a kind."""
    for at, found in enumerate(plan["buffers"]["kind"]):
        if found == kind:
            for key, value in fields.items():
                plan["buffers"][key][at] = value


def strided(*strides: int) -> Any:
    """Other strides for what the sine of `CHAIN` is written to."""
    return lambda plan: plan["slots"]["strides"].append([plan["instructions"]["slots"][1], [*strides]])


ATTACKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an unused slot whose strides wrap": (
        lambda p: slot(p, f"uint8[{2**56 + 1}, 64]", arena(p), [768, 1]),
        r"slot \d+ is uint8\[72057594037927937, 64\]: extents are from 0 on, and so many bytes that 62 bits tell",
    ),
    "an unused slot whose strides nearly wrap": (
        lambda p: slot(p, f"uint8[{2**54 + 1}, 64]", arena(p), [768, 1]),
        r"slot \d+ is uint8\[18014398509481985, 64\], \d+ bytes in \[0, 13835058055282163776\), but buffer \d+ has",
    ),
    "an unused slot that is too large": (lambda p: slot(p, "uint8[100000]", arena(p)), r"but buffer \d+ has"),
    "an unused slot that fits": (lambda p: slot(p, "uint8[1]", arena(p)), r"slot \d+ is used by nothing"),
    "an unused slot before the buffer": (lambda p: slot(p, "uint8[2]", arena(p), [-1]), r"it begins at -1"),
    "an unused buffer": (lambda p: buffer(p, offset=0, lower=0, upper=0), r"is alive in \[0, 0\)|is used by no slot"),
    "an unused output": (lambda p: buffer(p, kind="output", source=9, upper=0), r"buffer \d+ is used by no slot"),
    "an empty slot with wild strides": (lambda p: slot(p, "uint8[0, 2]", arena(p), [1, 2**61]), r"but buffer \d+ has"),
    "an empty slot with a wild extent": (lambda p: slot(p, f"uint8[0, {2**62}]", arena(p)), r"is no extent"),
    "many axes": (lambda p: slot(p, f"uint8[{'1, ' * 64}1]", arena(p)), r"has 65 axes; 64 is the most"),
    "an offset that wraps": (lambda p: slot(p, "uint8[1]", arena(p), None, 2**64 - 64), r"is no integer below 2"),
    "a view with a place of its own": (
        lambda p: p["slots"]["offset"].append([p["slots"]["view"][0], 8]),
        r"is a view, which lies where its base does",
    ),
    "a buffer larger than what lies in it": (
        lambda p: reshaped(p, "output", nbytes=2**40),
        r"slot \d+, 320 bytes, comes from outside or goes there; buffer \d+ \(output 0\).* has 1099511627776",
    ),
    "a buffer in an arena larger than what lies in it": (
        lambda p: [reshaped(p, "arena", nbytes=480), p.update(arena_bytes=2**20)],
        r"arena of|overlap|of which|what lies in it",
    ),
    "no power of two": (lambda p: p.update(alignment=3), r"aligned to 3: wanted a power of two"),
    "a large alignment": (lambda p: p.update(alignment=2**17), r"aligned to 131072 bytes.*65536 and 256 are the most"),
    "an arena larger than its buffers": (lambda p: p.update(arena_bytes=2**40), r"for buffers that take \d+"),
    "buffers in one place": (lambda p: reshaped(p, "arena", offset=0), r"overlap|written over"),
    "an input that is a view": (
        lambda p: p["slots"]["view"].append(p["inputs"][0]),
        r"slot 0 is a view, but comes from outside",
    ),
    "an output in an arena": (lambda p: reshaped(p, "output", offset=64), r"has no place in an arena"),
    "a constant that lives": (lambda p: reshaped(p, "constant", upper=3), r"has no place in an arena"),
    "a million threads": (lambda p: p["instructions"]["stream"].append([0, 10**6]), r"1000001 streams, each a thread"),
    "a truth value for a number": (lambda p: p["slots"]["buffer"].__setitem__(0, True), r"a column of integers"),
    "too many parts": (
        lambda p: call(p, "split")[7].update(sections=10**9),
        r"is refused: split.*1000000000 parts of an axis; 1048576 is the most",
    ),
    "a body that reads what comes later": (
        lambda p: with_body(p, "(%0) { %1 = tanh(%1); return %1 }"), r"%1 is not defined above, in its body"
    ),
    "a body with an effect": (
        lambda p: with_body(p, '(%0) { %1 = print(%0, label=""); return %1 }'), r"it applies 'print', which does more"
    ),
    "a body with a product": (
        lambda p: with_body(p, "(%0) { %1 = matmul(%0, %0); return %1 }"),
        r"matmul cannot stand in the body of matmul_blockwise: it takes elementwise operators and reductions",
    ),
    "a body that is none": (
        lambda p: call(p, "matmul_blockwise").__setitem__(7, {"body": [["tanh", 0]]}), r"wanted a Body"
    ),
    "bodies within each other": (
        lambda p: with_body(p, "(%0) { %1 = blockwise(%0, body=" * 100), r"more than 64 brackets inside each other"
    ),
}  # fmt: skip


IN_ONE = r"elements of it lie in one place"
STRIDES = {(4, 4): IN_ONE, (0, 0): IN_ONE, (8, 4): IN_ONE, (32, 2): IN_ONE, (2**40, 4): r"but buffer \d+ has 128",
           (-32, 4): r"in \[-96, 32\), but buffer \d+ has 128", (32,): r"with strides \(32,\)"}  # fmt: skip


@pytest.mark.parametrize("strides", STRIDES)
def test_strides_of_a_result_are_its_own_places_within_its_buffer(strides: Any, path: Path) -> None:
    x = LAZY.input("x", (4, 8), "float32")
    crafted(path, strided(*strides), LAZY.compile([x], [LAZY.ops.cumulative_sum(LAZY.ops.sin(x), axis=0)]))
    with pytest.raises(FileFormatError, match=STRIDES[strides]):
        nnc.load_program(path)


@pytest.mark.parametrize("life", [{"upper": 2**61}, {"lower": -1}])
def test_a_buffer_lives_within_its_plan(life: dict[str, int], path: Path) -> None:
    """Else what is told of the plan, its load for instance, counts to there."""
    x = LAZY.input("x", (4, 8), "float32")
    program = LAZY.compile([x], [LAZY.ops.cumulative_sum(LAZY.ops.sin(x), axis=0)])
    crafted(path, lambda plan: reshaped(plan, "arena", **life), program)
    with pytest.raises(FileFormatError, match=r"is alive in \[-?\d+, \d+\), in a plan of 2 instructions"):
        nnc.load_program(path)


WINDOWS: tuple[dict[str, Any], ...] = (
    {"stride": [0, 1]}, {"stride": [-1, 1]}, {"stride": [2**40, 1]}, {"stride": 0.5}, {"dilation": [-1, 1]},
    {"dilation": [0, 1]}, {"dilation": [3, 1]}, {"dilation": [2**62, 1]}, {"padding": [[-1, 0], [0, 0]]},
    {"padding": [[2**62, 0], [0, 0]]}, {"padding": "WIDE"}, {"groups": 0}, {"groups": -1}, {"data_format": "NCHW"},
)  # fmt: skip


@pytest.mark.parametrize("params", WINDOWS, ids=str)
def test_windows_are_inferred_again(params: dict[str, Any], path: Path) -> None:
    """Before a kernel cuts any out of memory; and where it does, it counts itself (`device.shared.bounds.strided`)."""
    x, w = LAZY.input("x", (1, 9, 8, 2), "float32"), LAZY.asarray(np.ones((3, 2, 2, 4), "float32"))
    program = LAZY.compile([x], [LAZY.ops.conv2d(x, w, padding=((1, 1), (0, 0)))])
    crafted(path, lambda plan: call(plan, "conv2d")[7].update(params), program)
    with pytest.raises(FileFormatError, match=r"conv2d|is no extent|wants|column"):
        nnc.load_program(path)


def test_scratch_lies_as_kernels_take_it(path: Path) -> None:
    """They reshape it, which would be a copy."""
    program = LAZY.compile([x := LAZY.input("x", (4, 8), "float32")], [LAZY.ops.erf(x)])
    (instruction,) = [i for i in program.plan.instructions if i.scratch]
    aval = program.plan.slots[instruction.scratch[0]].aval
    assert aval.shape == (4, 8), aval
    crafted(path, lambda plan: plan["slots"]["strides"].append([instruction.scratch[0], [4, 16]]), program)
    with pytest.raises(FileFormatError, match="is scratch, which lies row by row"):
        nnc.load_program(path)


def test_results_lie_in_the_order_that_their_layout_says(path: Path) -> None:
    """Kernels that reshape what they write would write a copy: here a product, whose rows are to lie as columns."""
    x = LAZY.input("x", (4, 4), "float32")
    program = LAZY.compile([x], [LAZY.ops.cumulative_sum(LAZY.ops.tanh(x @ x), axis=0)])
    at = program.plan.instructions[0].results[0]
    crafted(path, lambda plan: plan["slots"]["strides"].append([at, [4, 16]]), program)
    with pytest.raises(FileFormatError, match="writes slot 1 in strides, which kernel 'in blocks' cannot"):
        nnc.load_program(path)


@pytest.mark.parametrize("kind", ["input", "output", "variable"])
def test_what_comes_from_outside_lies_row_by_row(kind: str, path: Path) -> None:
    """Arrays of callers are what they are, whatever strides a plan says."""
    x, w = LAZY.input("x", (4, 4), "float32"), LAZY.variable("w", X[:, :4])
    program = LAZY.compile([x], [LAZY.ops.sin(x) + w])
    at = {"input": program.plan.inputs, "output": program.plan.outputs, "variable": program.plan.variables}[kind][0]
    crafted(path, lambda plan: plan["slots"]["strides"].append([at, [4, 16]]), program)
    with pytest.raises(FileFormatError, match=rf"{kind} 0 is slot {at}, which is a part of buffer|in another order"):
        nnc.load_program(path)


def test_two_buffers_are_not_one_variable(path: Path) -> None:
    """Else what one writes the other shows, and no overlap is seen."""
    w = LAZY.variable("w", X[:, :4])
    program = LAZY.compile([], [LAZY.ops.sin(w)], {w: w * 2})
    slot_ = program.plan.updates[0][1]
    assert program.plan.buffers[program.plan.slots[slot_].buffer].kind == "variable"

    def apart(plan: Any) -> None:
        plan["slots"]["buffer"][slot_] = buffer(plan, kind="variable", source=0, upper=0)

    crafted(path, apart, program)
    with pytest.raises(FileFormatError, match=r"buffers \d+ and \d+ are both variable 0"):
        nnc.load_program(path)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_crafted_plan_is_refused(name: str, path: Path) -> None:
    change, words = ATTACKS[name]
    crafted(path, change)
    with pytest.raises(FileFormatError, match=words):
        nnc.load_program(path)


def test_what_a_file_says_of_itself_is_not_read(path: Path) -> None:
    """Forged digests shorten nothing; and those of older files do no harm."""
    crafted(path, lambda plan: None)
    assert nnc.load_program(path)(X)[0].shape == (4, 20)


def test_constants_are_the_programs_own_and_nobody_writes_them(path: Path) -> None:
    x = LAZY.input("x", (100,), "float32")
    LAZY.compile([x], [x + LAZY.asarray(np.ones(100, "float32"))]).save(path)
    (array,) = nnc.load_program(path)._constants
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2


def test_constants_of_one_name_are_arrays_of_their_own(path: Path) -> None:
    x = LAZY.input("x", (100,), "float32")
    both = [LAZY.asarray(np.arange(100, dtype="float32") + n) for n in (0, 1)]
    LAZY.compile([x], [x * both[0], x - both[1]]).save(path)
    members = content(path)
    about = json.loads(members[ABOUT])
    about["plans"][0]["constants"] = about["plans"][0]["constants"][:1] * 2
    one, other = nnc.load_program(rewritten(path, members | {ABOUT: json.dumps(about).encode()}))._constants
    assert one.tolist() == other.tolist()
    assert not np.shares_memory(one, other)
    assert not one.flags.writeable
    assert not other.flags.writeable


@pytest.mark.parametrize("member", ["variables/0.npy", "constants/"])
def test_truth_values_that_are_neither_are_refused(member: str, path: Path) -> None:
    x, flags = LAZY.input("x", (100,), "bool"), np.ones(100, "bool")
    w = LAZY.variable("w", ~flags)
    LAZY.compile([x], [LAZY.ops.logical_and(x, LAZY.asarray(np.arange(100) % 3 == 0)), w]).save(path)
    members = content(path)
    at = next(name for name in sorted(members, reverse=True) if name.startswith(member))
    rewritten(path, members | {at: members[at][:-1] + b"\x07"})
    with pytest.raises(FileFormatError, match="neither False nor True"):
        nnc.load_program(path)


def test_constants_of_other_sizes_are_refused(path: Path) -> None:
    x = LAZY.input("x", (100,), "float32")
    LAZY.compile([x], [x + LAZY.asarray(np.arange(100, dtype="float32"))]).save(path)
    members = content(path)
    at = next(name for name in members if name.startswith("constants/"))
    other = path.with_name("other.npy")
    for wrong in (np.ones(99, "float32"), np.ones(101, "float32"), np.ones((), "float64")):
        np.save(other, wrong)
        with pytest.raises(FileFormatError):
            nnc.load_program(rewritten(path, members | {at: other.read_bytes()}))


# --- bounds of memory and time, digests ---------------------------------------------------------------------


def test_memory_is_counted_before_it_is_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = LAZY.input("x", (1 << 20,), "float32")
    LAZY.compile([x], [LAZY.ops.cumulative_sum(LAZY.ops.exp(x) * 2, axis=0)]).save(path)
    assert path.stat().st_size < 10_000
    assert nnc.load_program(path, max_bytes=1 << 26)(np.zeros(1 << 20, "float32"))[0][1] == 4
    monkeypatch.setattr(nnc.NumPy, "arena", None)
    monkeypatch.setattr(nnc.NumPy, "empty", None)
    with pytest.raises(FileFormatError, match=r"arenas and results would take \d+ bytes.*max_bytes=1000000"):
        nnc.load_program(path, max_bytes=1_000_000)


def test_the_digest_of_the_file(path: Path) -> None:
    network().save(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert nnc.load_program(path, sha256=digest)(X)[0].shape == (4, 20)
    with pytest.raises(FileFormatError, match="it is another file"):
        nnc.load_program(path, sha256="0" * 64)
    crafted(path, lambda plan: plan.update(alignment=3))
    with pytest.raises(FileFormatError, match="aligned to 3"):  # who vouches for a file vouches for no plan
        nnc.load_program(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def test_a_plan_that_takes_long_to_verify_is_refused() -> None:
    """Parts in strides that share no byte, each held against each: no plan of a planner's has many of them."""
    rows, count = [f'plan "slow" arena {64 * 60000} align 64', f"@0 = arena at 0 : {64 * 60000} bytes"], 3000
    rows += [f"%{n} = fill(shape=(2,), starts=({n},), steps=(7,), value=0, dtype=uint8) [fill] : uint8[2] in @0 offset "
             f"{n} strides ({9 * count + 11 * n},)" for n in range(count)]  # fmt: skip
    plan = Plan.parse("\n".join([*rows, "return []"]))
    begun = time.perf_counter()
    with pytest.raises(PlanError, match=r"takes more than \d+ steps to verify"):
        plan.verify()
    assert time.perf_counter() - begun < 30


# --- operators ----------------------------------------------------------------------------------------------


@operator(shape=lambda x: x, dtype=lambda x: x, kernels=nnc.facets.kernels.reference(lambda xp, x: x + 1),
          derivative=nnc.facets.derivatives.NOT_DIFFERENTIABLE("a test"))  # fmt: skip
def one_more(x: Any, /) -> Any:
    """One more."""


def test_what_does_more_than_compute_is_refused_unless_it_is_allowed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stack in (LAZY, nnc.eager()):
        x = stack.input("x", (2,), "float32")
        stack.compile([x], [x * 2], effects=[stack.ops.print(x, after=stack.token(), text="seen")]).save(path)
        with pytest.raises(FileFormatError, match=r"applies 'print', which does more than compute.*allow=\('print',\)"):
            nnc.load_program(path, stack)
        nnc.load_program(path, stack, allow=("print",))(np.zeros(2, "float32"))
        assert "seen" in capsys.readouterr().out


def test_operators_of_others_are_refused_unless_they_are_allowed(path: Path) -> None:
    stack = LAZY.swap(type=LAZY.type.with_ops(one_more))
    x = stack.input("x", (2,), "float32")
    stack.compile([x], [one_more(x)]).save(path)
    with pytest.raises(FileFormatError, match=r"applies 'one_more', which is no operator of this library.*allow="):
        nnc.load_program(path, stack)
    assert nnc.load_program(path, stack, allow="one_more")(np.zeros(2, "float32"))[0].tolist() == [1, 1]
    with pytest.raises(FileFormatError, match="allow= wants names of operators"):
        nnc.load_program(path, stack, allow=[one_more])


# --- the graph ----------------------------------------------------------------------------------------------


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "another operator": lambda p: call(p, "multiply").__setitem__(slice(0, 2), ["add", "add"]),
    "another parameter": lambda p: with_body(p, "(%0) { %1 = cos(%0); return %1 }"),
    "another order of operands": lambda p: p["instructions"]["slots"].__setitem__(
        slice(0, 2), p["instructions"]["slots"][1::-1]
    ),
    "another name": lambda p: p.update(input_names=["z"]),
    "another structure": lambda p: p.update(nesting='{"a": %0, "b": %1}'),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_plan_of_another_function_is_told_from_its_graph(name: str, path: Path) -> None:
    x = LAZY.input("x", (4, 4), "float32")
    w = LAZY.variable("w", X[:, :4])
    crafted(path, FUNCTIONS[name], LAZY.compile([x], [LAZY.ops.sin(x @ w), x * 2], {w: w * 0.5}))
    program = nnc.load_program(path)
    program(X[:, :4])
    with pytest.raises(FileFormatError, match="does not compute what its graph says"):
        print(program.graph)


def test_another_constant_is_told_from_the_graph(path: Path) -> None:
    x = LAZY.input("x", (100,), "float32")
    LAZY.compile([x], [x + LAZY.asarray(np.arange(100, dtype="float32")), x * 2]).save(path)
    members = content(path)
    at = next(n for n in members if n.startswith("constants/") and len(members[n]) > 300)
    rewritten(path, members | {at: members[at][:-1] + b"\x41"})
    with pytest.raises(FileFormatError, match=r"has other elements|does not compute what its graph says"):
        print(nnc.load_program(path).graph)


# --- unknown extents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", [None, "n", "2*n + 1"])
def test_unknown_extents_come_back_after_a_call(extent: Any, path: Path) -> None:
    x = LAZY.input("x", (extent, 3), "float32")
    program = LAZY.compile([x], [LAZY.ops.sum(x * 2, axis=0)])
    wanted = [program(np.full((n, 3), 0.5, "float32"))[0].tolist() for n in (3, 7)]
    program.save(path)
    again = nnc.load_program(path)
    assert len(again.programs) == 2
    assert [again(np.full((n, 3), 0.5, "float32"))[0].tolist() for n in (3, 7)] == wanted
    assert again(np.ones((5, 3), "float32"))[0].tolist() == [10, 10, 10]
    again.save(path.with_name("again"))
    assert len(nnc.load_program(path.with_name("again")).programs) == 3


def test_a_plan_for_some_extents_is_held_against_the_graph(path: Path) -> None:
    x = LAZY.input("x", (None, 3), "float32")
    program = LAZY.compile([x], [LAZY.ops.exp(x)])
    program(np.ones((2, 3), "float32"))
    crafted(path, lambda p: p["calls"][0].__setitem__(slice(0, 2), ["sin", "sin"]), program)
    with pytest.raises(FileFormatError, match="does not compute what its graph says"):
        nnc.load_program(path)
    crafted(path, lambda p: p.update(avals=["float32[2, 4]"]), program)
    with pytest.raises(FileFormatError, match=r"32 bytes, but buffer 0 \(input 0\) has 24"):
        nnc.load_program(path)


def test_a_commit_section_that_commits_nothing_is_refused(path: Path) -> None:
    """It would not be run: outputs would be whatever was in memory."""
    x = LAZY.input("x", (4, 8), "float32")
    crafted(path, lambda plan: plan.update(commit=0), LAZY.compile([x], [LAZY.ops.sin(x)]))
    with pytest.raises(FileFormatError, match="is in a commit section, but no variable has an update"):
        nnc.load_program(path)


# --- the door -----------------------------------------------------------------------------------------------


def test_memory_that_is_lent_has_the_bounds_of_the_array_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What verification would let pass the door does not: an output's array is smaller than the plan thinks."""
    x = LAZY.input("x", (1 << 16,), "float64")
    sums = [LAZY.ops.cumulative_sum(x * n, axis=0) for n in (1, 2)]
    program = LAZY.compile([x], [*sums, sums[0] * sums[1]])
    assert "lent" in {b.kind for b in program.plan.buffers}
    monkeypatch.setattr(
        program, "_results", [(s, type(b)(lambda: np.empty(3, "float32"))) for s, b in program._results]
    )
    with pytest.raises(DeviceError, match="outside of 12 bytes"):
        program(np.zeros(1 << 16))


# --- mutations ----------------------------------------------------------------------------------------------


def test_harm_is_seen() -> None:
    """What mutations are tried with tells what it is there to tell."""
    memory = guarded(10)
    guard = GUARDS[-1]
    memory[...] = 0
    assert guard.is_intact
    beyond = np.lib.stride_tricks.as_strided(memory, (11,), (1,))
    assert leaves_its_memory(beyond)
    assert not leaves_its_memory(memory[::-2])
    beyond[10] = 0
    assert not guard.is_intact
    code = (
        "import numpy as np; from tests.engine.guarded import Guard; a = Guard(64).array;"
        "print(a[63]); print(np.lib.stride_tricks.as_strided(a, (65,), (1,))[64])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.stdout.split() == ["165"], ended
    assert ended.returncode == -signal.SIGSEGV


def tried(numbers: range) -> Tally:
    for which in range(len(mutated_programs.PROGRAMS)):
        mutated_programs.right(which)  # before processes are made, for all of them
    return attempted(mutated_programs.case, mutated_programs.attempt, numbers, memory=mutated_programs.MEMORY)


def test_mutated_files_do_no_harm() -> None:
    tally = tried(range(400))
    assert not tally.faults, str(tally)
    assert tally.refused > 100
    assert tally.outcomes["the same"] > 10


@pytest.mark.slow
def test_twenty_thousand_mutated_files_do_no_harm() -> None:
    tally = tried(range(20_000))
    assert not tally.faults, str(tally)
