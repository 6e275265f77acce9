"""Profiles, traces, statistics and the first NaN are true, and change nothing (`engine/inspecting`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import NumericsError, OperatorError
from tests.failures import Snapshot

LAZY = nnc.lazy()
STACKS = {"eager": nnc.eager(), "lazy": LAZY}


def step_of(stack: Any) -> tuple[Any, list[Any]]:
    """A training step with two layers, and what it is called with."""
    model = nn.Sequential(nn.Dense(8), nn.relu, nn.Dense(3)).init(1, (None, 4))
    step = nn.Step(stack, model, nn.softmax_cross_entropy, nn.Adagrad())
    x, y = np.ones((5, 4), "float32"), np.zeros(5, "int64")
    return step, [x, y, np.array(0, np.int64), np.array(0.1, "float32")]


# --- profiles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STACKS)
def test_a_profile_times_every_instruction_and_changes_nothing(name: str) -> None:
    step, feeds = step_of(STACKS[name])
    program = step.program(*feeds[:2])
    before = Snapshot([v.value for v in step.variables])
    profile = program.profile(*feeds, repeat=3)
    assert [(v.value.array.tobytes(), v.value.version) for v in step.variables] == [
        (bits, version) for _, _, bits, version in before._variables
    ]
    applications = list(program.steps(*feeds))
    assert [i.name.partition("(")[0] for i in profile.instructions] == [a.op.name for a in applications]
    assert all(i.seconds > 0 and i.nbytes > 0 for i in profile.instructions)
    assert profile.repeat == 3
    assert sum(r["calls"] for r in profile.by_operator) == len(profile.instructions)
    np.testing.assert_allclose(sum(r["share"] for r in profile.by_operator), 1)
    np.testing.assert_allclose(sum(i.seconds for i in profile.slowest(10**6)), profile.seconds)
    assert str(profile).splitlines()[1].split() == ["operator", "calls", "µs", "%", "GFLOP/s", "GB/s"]
    assert "matmul" in str(profile)


def test_a_fused_group_shows_its_steps_and_the_lines_of_all() -> None:
    x = LAZY.input("x", (1 << 20,), "float32")
    y = LAZY.ops.exp(x)
    y = y * 3
    y = LAZY.ops.tanh(y)
    (timed,) = LAZY.compile([x], y).profile(np.zeros(1 << 20, "float32"), repeat=1).instructions
    assert timed.name == "blockwise(exp, multiply, tanh)"
    assert timed.flops > 2 * (1 << 20)
    numbers = [line for _, line, _ in timed.lines]
    assert len(set(numbers)) == 3
    assert max(numbers) - min(numbers) == 2


def test_a_profile_of_nothing_is_refused() -> None:
    x = LAZY.input("x", (2,), "float32")
    with pytest.raises(OperatorError, match="repeat to be 1 or more, given 0"):
        LAZY.compile([x], x).profile(np.ones(2, "float32"), repeat=0)


def test_the_trace_is_what_the_trace_event_format_asks_for(tmp_path: Path) -> None:
    """Each event has its phase's required fields; times are microseconds; spans of a stream do not overlap."""
    step, feeds = step_of(LAZY)
    program = step.program(*feeds[:2])
    profile = program.profile(*feeds, repeat=2)
    profile.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    phases = {"M": {"name", "pid", "tid", "args"}, "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}}
    phases["C"] = {"name", "pid", "ts", "args"}
    for event in events:
        assert phases[event["ph"]] <= set(event), event
        assert all(isinstance(event[key], (int, float)) and event[key] >= 0 for key in ("ts", "dur") if key in event)
        assert isinstance(event["pid"], int)
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"stream 0"}
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["args"]["instruction"] for e in spans] == [i.instruction for i in profile.instructions]
    last = [e["ts"] + e["dur"] for e in spans][-1]
    np.testing.assert_allclose([e["dur"] for e in spans], [i.seconds * 1e6 for i in profile.instructions])
    assert last == profile.instructions[-1].started * 1e6 + profile.instructions[-1].seconds * 1e6
    assert any("test_inspection.py" in line for e in spans for line in e["args"]["lines"])
    counts = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert counts[:-1] == [i.bytes_alive for i in profile.instructions]
    assert counts[-1] == 0
    one = program.profile(*feeds, repeat=1)
    for before, after in zip(one.instructions, one.instructions[1:], strict=False):
        assert before.started + before.seconds <= after.started


def test_a_trace_has_a_span_in_the_lane_of_each_stream(tmp_path: Path) -> None:
    stack = LAZY.swap(engine=LAZY.engine.with_streams(2))
    x = stack.input("x", (1 << 17,), "float64")
    program = stack.compile([x], [stack.ops.cumulative_sum(y, axis=0) for y in (x, x * 2)])
    wanted = [(i.op.name, i.stream) for i in program.plan.instructions]
    assert {stream for _, stream in wanted} == {0, 1}
    program.profile(np.ones(1 << 17), repeat=1).to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sorted((e["name"], e["tid"]) for e in events if e["ph"] == "X") == sorted(wanted)
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert lanes == {0: "stream 0", 1: "stream 1"}


# --- statistics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STACKS)
def test_statistics_are_numpys(name: str) -> None:
    stack = STACKS[name]
    x = stack.input("x", (4,), "float64")
    given = np.array([0.0, 1.0, -1.0, np.inf])
    (first, (doubled,)), (second, (logged,)) = stack.compile([x], stack.ops.log(x * 2)).statistics(given)
    assert (first.op.name, second.op.name) == ("multiply", "log")
    assert (doubled.minimum, doubled.maximum, doubled.mean, doubled.zeros) == (-2, 2, 0, 1)
    np.testing.assert_allclose(doubled.deviation, np.std([0, 2, -2]))
    assert (doubled.infinities, doubled.nans) == (1, 0)
    assert (logged.nans, logged.infinities) == (1, 2)
    assert not logged.is_finite


@pytest.mark.parametrize("name", STACKS)
def test_statistics_leave_variables_as_they_were(name: str) -> None:
    stack = STACKS[name]
    w = stack.variable("w", np.ones(3))
    program = stack.compile([], [], [(w, stack.ops.exp(w))])
    assert len(list(program.statistics())) == 1
    assert (w.value.version, w.numpy().tolist()) == (0, [1, 1, 1])


def test_statistics_of_what_has_no_numbers() -> None:
    x = LAZY.input("x", (0, 3), "float32")
    ((_, (found,)),) = LAZY.compile([x], x + 1).statistics(np.zeros((0, 3), "float32"))
    assert repr(found) == "float32[0, 3]: no elements"


# --- the first NaN -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checking", [False, True])
@pytest.mark.parametrize("name", STACKS)
def test_the_first_nan_is_found_where_it_was_made(name: str, checking: bool) -> None:
    stack = STACKS[name].swap(engine=STACKS[name].engine.checking_numerics(checking))
    x = stack.input("x", (3,), "float64")
    w = stack.variable("w", np.ones(3))
    y = stack.ops.exp(x)
    z = stack.ops.log(y - 1)
    program = stack.compile([x], stack.ops.sum(z * w), [(w, w + z)])
    found = program.first_nonfinite(np.array([0.0, 1.0, -1.0]))
    assert found.name == "log"
    assert found.where.startswith("test_inspection.py:")
    assert (found.results[0].nans, found.results[0].infinities) == (1, 1)
    assert found.operands[0].zeros == 1
    assert found.given == {}
    assert "operand 0: float64[3]: -0.6321 to 1.718" in str(found)
    np.testing.assert_array_equal(w.numpy(), 1.0)
    assert program.first_nonfinite(np.array([1.0, 2.0, 3.0])) is None
    if checking:
        with pytest.raises(NumericsError, match="log"):
            program(np.array([0.0, 1.0, -1.0]))


@pytest.mark.parametrize("name", STACKS)
def test_a_program_of_unknown_extents_is_looked_at_as_others_are(name: str) -> None:
    stack = STACKS[name]
    x = stack.input("x", ("n",), "float64")
    program = stack.compile([x], stack.ops.log(x))
    found = program.first_nonfinite(np.array([1.0, -1.0, 0.0]))
    assert (found.name, found.given) == ("log", {})
    assert [i.name for i in program.profile(np.ones(5), repeat=1).instructions] == ["log"]
    ((_, (summary,)),) = program.statistics(np.ones(4))
    assert summary.zeros == 4


@pytest.mark.parametrize("name", STACKS)
def test_what_was_given_already_is_said(name: str) -> None:
    stack = STACKS[name]
    x = stack.input("x", (3,), "float64")
    w = stack.variable("w", np.array([1.0, np.inf, 2.0]))
    found = stack.compile([x], x + w).first_nonfinite(np.array([np.nan, 0.0, 0.0]))
    assert sorted(found.given) == ["input 'x'", "variable 'w'"]
    assert "input 'x' holds one already: float64[3]: 0 to 0, mean 0, deviation 0, 2 zeros, 1 NaN" in str(found)


def test_in_a_fused_group_the_step_is_named() -> None:
    x = LAZY.input("x", (1 << 20,), "float32")
    program = LAZY.compile([x], LAZY.ops.exp(LAZY.ops.log(x * 2) * 3))
    assert program.plan.kernels == 1
    given = np.ones(1 << 20, "float32")
    given[5] = -1
    found = program.first_nonfinite(given)
    assert (found.name, found.step) == ("blockwise(multiply, log, multiply, exp)", "log")
    assert found.operands[0].minimum == -1
    assert "in its step log" in str(found)
