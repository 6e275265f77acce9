"""A program run one application at a time gives what a call gives, and may end early (`engine/running/program`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import nnc_func as nnc
from nnc_func.errors import OperatorError, RunError
from nnc_func.testing.programs import Program, programs

LAZY = nnc.lazy()


def training(stack: Any) -> tuple[Any, Any, Any]:
    """Two variables: one written over in its own memory, one exchanged."""
    x = stack.input("x", (3,), "float64")
    w, m = stack.variable("w", np.ones(3)), stack.variable("m", np.eye(3) * 2)
    loss = stack.ops.sum(stack.ops.square(w - x))
    return stack.compile([x], loss, [(w, w * 0.5 + stack.ops.sum(x)), (m, m @ m)]), w, m


@given(programs() | programs(control_flow=True))
def test_all_steps_together_are_a_call(drawn: Program) -> None:
    stepped, called = drawn.build(LAZY), drawn.build(LAZY)
    for seed in (0, 1):
        feeds = drawn.feeds(seed)
        steps = stepped.program.steps(*feeds)
        made = list(steps)
        assert sum(not each.depth for each in made) == stepped.program.plan.kernels  # and what loops compute within
        assert [each.number for each in sorted(made, key=lambda each: each.number)] == [*range(len(made))]
        for one, other in zip(steps.results, called(*feeds), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
        for one, other in zip(stepped.state(), called.state(), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_steps_that_end_early_leave_variables_as_they_were(make: Any) -> None:
    program, w, m = training(make())
    given = np.array([1.0, 2.0, 3.0])
    whole = len(list(program.steps(given)))
    before = w.numpy(), m.numpy(), w.value.version, m.value.version
    for count in range(whole + 1):
        with program.steps(given) as steps:
            for _ in range(count):
                next(steps)
        np.testing.assert_array_equal(w.numpy(), before[0])
        np.testing.assert_array_equal(m.numpy(), before[1])
        assert (w.value.version, m.value.version) == before[2:]
        assert steps.results is None
    program(given)
    np.testing.assert_array_equal(w.numpy(), before[0] * 0.5 + 6)
    np.testing.assert_array_equal(m.numpy(), before[1] @ before[1])


def test_steps_let_go_give_their_memory_back() -> None:
    program, w, _ = training(LAZY)
    steps = program.steps(np.ones(3))
    next(steps)
    del steps
    program(np.ones(3))
    np.testing.assert_array_equal(w.numpy(), 3.5)


def test_while_steps_are_under_way_no_other_run_of_the_thread_writes_their_variables() -> None:
    program, w, _ = training(LAZY)
    reading = LAZY.compile([], w + 1)
    with program.steps(np.ones(3)) as steps:
        next(steps)
        with pytest.raises(RunError, match=r"variable 'w' is to be written while another run of this thread uses it"):
            program(np.ones(3))
        with pytest.raises(RunError, match=r"'w' is assigned amid a run that updates it"):
            w.value.assign(np.zeros(3))
        np.testing.assert_array_equal(reading(), 2.0)  # what was there before
    program(np.ones(3))
    np.testing.assert_array_equal(w.numpy(), 3.5)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_step_tells_what_it_is(make: Any) -> None:
    stack = make()
    x = stack.input("x", (2, 3), "float32")
    program = stack.compile([x], stack.ops.sum(stack.ops.exp(x), axis=1))
    first, second = list(program.steps(np.zeros((2, 3), "float32")))
    assert (first.op.name, second.op.name) == ("exp", "sum")
    assert dict(second.items)["axis"] == 1
    assert first.where.startswith("test_steps.py:")
    assert first.lines[0][2] == "test_a_step_tells_what_it_is"
    assert second.seconds > 0
    assert repr(first).startswith("<0: exp(float32[2, 3]) at test_steps.py:")


def test_what_a_step_shows_cannot_be_written() -> None:
    x = LAZY.input("x", (2,), "float32")
    (step,) = LAZY.compile([x], x + 1).steps(np.ones(2, "float32"))
    np.testing.assert_array_equal(step.operands[0], [1, 1])
    with pytest.raises(ValueError, match="read-only"):
        step.results[0][...] = 3


def test_bytes_alive_are_the_plans() -> None:
    x = LAZY.input("x", (1000,), "float32")
    program = LAZY.compile([x], LAZY.ops.sum(LAZY.ops.cumulative_sum(LAZY.ops.exp(x), axis=0)))
    alive = [s.bytes_alive for s in program.steps(np.zeros(1000, "float32"))]
    assert alive == [4004, 8004, 4004]


def test_bad_inputs_are_refused_at_the_first_step() -> None:
    program, _, _ = training(LAZY)
    with pytest.raises(OperatorError, match="takes 1 inputs"):
        next(program.steps())


def test_on_a_device_without_elements_steps_are_shown_without() -> None:
    stack = LAZY.swap(device=nnc.Null())
    x = stack.input("x", (2,), "float32")
    (step,) = stack.compile([x], x + 1).steps(stack.device.empty((2,), "float32"))
    assert step.results == [None]
