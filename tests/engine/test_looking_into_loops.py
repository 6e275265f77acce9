"""Programs looked at within loops: each time by its number (`engine/inspecting`, `engine/running/loops`)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.running.checking_observers import Poison
from nnc_func.errors import CancelledError, CheckError, NumericsError

LAZY, EAGER = nnc.lazy(), nnc.eager()
XS = np.array([1.0, 2.0, -1.0, 3.0])


def logarithms(stack: Any) -> Any:
    """A program that sums logarithms up, and gives all sums: of a negative number it has none."""
    x = stack.input("x", (4,), "float64")
    total, sums = stack.scan(lambda s, v: (s * 2 + stack.ops.log(v), s), 0.0, x)
    return stack.compile([x], [total, sums.sum()])


def nested(stack: Any) -> Any:
    """A loop in a loop, beside another one."""
    x = stack.input("x", (3, 2), "float64")
    rows = stack.map(lambda row: stack.fold(lambda s, v: s + stack.ops.log(v), 0.0, row), x)
    return stack.compile([x], [rows, stack.fold(lambda s, row: s * 0.5 + row.sum(), 0.0, x)])


def test_steps_are_those_of_each_time() -> None:
    program = logarithms(LAZY)
    steps = program.steps(np.abs(XS))
    found = [*steps]
    names = [(each.op.name, each.times) for each in found]
    assert [times for name, times in names if name == "log"] == [(0,), (1,), (2,), (3,)]
    assert [name for name, times in names if not times] == ["loop", "sum"]
    logs = [each.results[0] for each in [*program.steps(np.abs(XS))] if each.op.name == "log"]
    assert len(logs) == 4
    np.testing.assert_allclose(steps.results, program(np.abs(XS)))
    assert "in time 2 of the loop" in repr(found[6])
    assert "test_looking_into_loops.py" in found[0].where


def test_a_walk_that_is_closed_amid_a_loop_leaves_the_program_as_it_was() -> None:
    program, wanted = logarithms(LAZY), logarithms(LAZY)(np.abs(XS))
    for stop in range(8):
        with program.steps(np.abs(XS)) as steps:
            for _ in range(stop):
                next(steps)
        for one, other in zip(program(np.abs(XS)), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_first_nan_is_of_a_time() -> None:
    found = logarithms(LAZY).first_nonfinite(XS)
    assert (found.name, found.times) == ("log", (2,))
    assert "-1 to -1" in repr(found.operands[0])
    assert "log in time 2 of the loop, built at" in repr(found)
    x = np.ones((3, 2))
    x[1, 1] = -1
    inner = nested(LAZY).first_nonfinite(x)
    assert (inner.name, inner.times) == ("log", (1, 1))
    assert "in time 1 of the loop in time 1 of the loop" in repr(inner)
    assert nested(LAZY).first_nonfinite(np.ones((3, 2))) is None


def test_what_is_given_without_a_time_is_of_the_loop() -> None:
    """A loop that goes no time gives what it is given."""
    x, s = LAZY.input("x", (None,), "float64"), LAZY.input("s", (), "float64")
    program = LAZY.compile([x, s], LAZY.fold(lambda s, v: s + v, s, x))
    found = program.first_nonfinite(np.zeros(0), np.array(np.nan))
    assert found.times == ()
    assert "input 's' holds one already" in repr(found)


def test_numerics_name_the_operator_and_the_time() -> None:
    stack = LAZY.swap(engine=LAZY.engine.checking_numerics())
    with pytest.raises(NumericsError, match=r"log in time 2 of the loop \(built at .*test_looking_into_loops.py"):
        logarithms(stack)(XS)
    np.testing.assert_allclose(logarithms(stack)(np.abs(XS)), logarithms(LAZY)(np.abs(XS)))


def test_profiles_have_loops_whole_and_each_time_besides() -> None:
    profile = logarithms(LAZY).profile(np.abs(XS), repeat=2)
    assert [each.name.split("(")[0] for each in profile.instructions] == ["loop", "sum"]
    assert [each.times for each in profile.within if each.name == "log"] == [(0,), (1,), (2,), (3,)]
    assert all(each.seconds > 0 for each in profile.within)


def test_statistics_are_of_each_time() -> None:
    found = [*logarithms(LAZY).statistics(np.abs(XS))]
    assert [step.times for step, _ in found if step.op.name == "log"] == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_failures_name_the_time(stack: Any) -> None:
    def f(x: Any) -> Any:
        return stack.fold(lambda s, v: (stack.ops.check(v > 0, v, text="{} is positive"), s + v)[1], 0.0, x)

    with pytest.raises(CheckError, match=r"-1.0 is positive.* in time 2 of the loop"):
        stack.jit(f)(XS)


def test_memory_of_a_body_is_poisoned_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that a body forgets are not there the next time: results do not change, and the poison was there."""
    filled: list[tuple[int, ...]] = []
    before = Poison.before

    def watched(self: Any, application: Any) -> None:
        filled.append(application.times)
        before(self, application)

    monkeypatch.setattr(Poison, "before", watched)
    wanted = [program(np.abs(x)) for program, x in ((logarithms(LAZY), XS), (nested(LAZY), np.ones((3, 2))))]
    monkeypatch.setattr(config, "spec", 3)
    for (make, x), each in zip(((logarithms, XS), (nested, np.ones((3, 2)))), wanted, strict=True):
        program = make(LAZY.swap(engine=LAZY.engine))
        filled.clear()
        for found, other in zip(program(np.abs(x)), each, strict=True):
            np.testing.assert_array_equal(found, other)
        assert any(filled), "no time of a loop was looked at"


def test_cancelling_names_the_time() -> None:
    cancellation, times = nnc.Cancellation(), [0]

    def count(_: Any) -> None:
        times[0] += 1
        if times[0] == 3:
            cancellation.cancel("enough")

    @LAZY.jit
    def f(x: Any) -> Any:
        return LAZY.fold(lambda s, v: (LAZY.ops.callback(v, function=count), s + v)[1], 0.0, x)

    with cancellation, pytest.raises(CancelledError, match=r"cancelled before time 3 of a loop: enough"):
        f(XS)
    assert times[0] == 3


def test_an_interrupt_between_times_ends_a_loop_and_the_program_runs_again() -> None:
    stop = threading.Event()

    def raised(v: Any) -> None:
        if float(v) < 0 and not stop.is_set():
            raise KeyboardInterrupt

    program = LAZY.jit(lambda x: LAZY.fold(lambda s, v: (LAZY.ops.callback(v, function=raised), s + v)[1], 0.0, x))
    with pytest.raises(KeyboardInterrupt):
        program(XS)
    stop.set()
    assert program(XS).item() == 5.0


def test_costs_of_an_unknown_number_of_times_say_that_they_are_estimates() -> None:
    x = LAZY.input("x", (), "float64")
    _, (last,), _ = LAZY.while_loop(lambda v: v < 100, lambda v: (None, (v * 2,)), (x,))
    profile = LAZY.compile([x], last).profile(np.array(1.0), repeat=1)
    assert [each.is_estimate for each in profile.instructions if each.name.startswith("loop")] == [True]
    assert "~" in repr(profile)
    assert "an estimate: how often a loop goes" in repr(profile)
    known = logarithms(LAZY).profile(np.abs(XS), repeat=1)
    assert not any(each.is_estimate for each in known.instructions)
    assert "estimate" not in repr(known)
    (flops,) = [each.flops for each in known.instructions if each.name.startswith("loop")]
    assert flops >= 4  # times


def test_each_application_has_its_own_number_in_branches_within_loops_too() -> None:
    x = LAZY.input("x", (5,), "float64")

    def body(v: Any, s: Any) -> Any:
        s = LAZY.cond(v > 0, lambda: LAZY.ops.tanh(s + v), lambda: LAZY.ops.exp(s))
        return s, s

    program = LAZY.compile([x], LAZY.foreach(body, x, LAZY.asarray(0.5))[0])
    walked = [(each.number, each.op.name, each.times) for each in program.walk([np.array([1.0, -1.0, 2.0, -2.0, 3.0])])]
    assert sorted(number for number, _, _ in walked) == [*range(len(walked))]
    assert [times for _, name, times in walked if name == "tanh"] == [(0,), (2,), (4,)]
    assert [times for _, name, times in walked if name == "exp"] == [(1,), (3,)]
