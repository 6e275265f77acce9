"""Incremental programs watched as they run, or stopped half way (`engine/incremental`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.engine.running.program import Program
from nnc_func.errors import CancelledError, GraphError, PlanError, RunError
from nnc_func.testing.programs import programs
from tests.engine.changing import Counting
from tests.squares import random_program

LAZY = nnc.lazy(Counting())
COUNTING = LAZY.device
STACKS = [nnc.eager(), LAZY]
X = np.linspace(-1, 1, 6)


def chain(stack: Any, retain: Any = "all") -> tuple[Any, Any]:
    """Four running sums, of which two depend on y only, and a variable that becomes the last one."""
    o = stack.ops
    x, y, w = stack.input("x", (6,), "float64"), stack.input("y", (6,), "float64"), stack.variable("w", np.zeros(6))
    a = o.cumulative_sum(o.cumulative_sum(y, axis=0), axis=0)
    b = o.cumulative_sum(o.cumulative_sum(a + x, axis=0), axis=0)
    return stack.compile([x, y], b, [(w, b)], retain=retain), w


def wanted(x: Any, y: Any) -> Any:
    return np.cumsum(np.cumsum(np.cumsum(np.cumsum(y)) + x))


@pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
def test_steps_show_what_runs_again_only(stack: Any) -> None:
    program, w = chain(stack)
    assert len(list(program.steps(X, X))) == 5
    steps = program.steps(X + 1, X)
    assert [s.op.name for s in steps] == ["add", "cumulative_sum", "cumulative_sum"]
    np.testing.assert_allclose(steps.results, wanted(X + 1, X))
    np.testing.assert_allclose(w.numpy(), wanted(X + 1, X))
    assert list(program.steps(X + 1, X)) == []


@pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
def test_steps_of_a_program_of_unknown_extents(stack: Any) -> None:
    x, y = stack.input("x", ("n",), "float64"), stack.input("y", (), "float64")
    program = stack.compile([x, y], stack.ops.cumulative_sum(x, axis=0) * y, retain="all")
    one, two = np.float64(1), np.float64(2)
    assert [s.op.name for s in program.steps(X, one)] == ["cumulative_sum", "multiply"]
    steps = program.steps(X, two)
    assert [s.op.name for s in steps] == ["multiply"]
    np.testing.assert_allclose(steps.results, np.cumsum(X) * 2)
    assert len(list(program.steps(X[1:], two))) == 2
    assert len(list(program.steps(X, two))) == 2  # x was assigned since


@pytest.mark.parametrize("after", range(1, 6))
@pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
def test_steps_that_are_left_half_way(stack: Any, after: int) -> None:
    program, w = chain(stack)
    program(X, X)
    steps = program.steps(X + 1, X * 2)
    for _ in range(after):
        next(steps)
    with pytest.raises(RunError, match="close its steps"):
        program.evaluate()
    steps.close()
    np.testing.assert_allclose(w.numpy(), wanted(X, X))
    assert w.value.version == 1
    np.testing.assert_allclose(program(X + 1, X * 3), wanted(X + 1, X * 3))
    np.testing.assert_allclose(program(X + 1, X * 2), wanted(X + 1, X * 2))


class _Stopping(nnc.Cancellation):
    """A cancellation that comes when it has been looked at so many times."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def check(self, before: str) -> None:
        self.left -= 1
        if self.left < 0:
            self.cancel("now")
        super().check(before)


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
def test_a_run_that_is_cancelled(stack: Any, after: int) -> None:
    program, w = chain(stack)
    program(X, X)
    with pytest.raises(CancelledError), _Stopping(after):
        program(X + 1, X * 2)
    np.testing.assert_allclose(w.numpy(), wanted(X, X))
    np.testing.assert_allclose(program.evaluate(), wanted(X + 1, X * 2))
    np.testing.assert_allclose(w.numpy(), wanted(X + 1, X * 2))


@pytest.mark.parametrize("at", range(5))
def test_an_interrupt_in_a_kernel(at: int) -> None:
    program, w = chain(LAZY)
    program(X, X)
    COUNTING.counted()
    COUNTING.pressing.append(at)
    with pytest.raises(KeyboardInterrupt):
        program(X + 1, X * 2)
    COUNTING.pressing.clear()
    np.testing.assert_allclose(w.numpy(), wanted(X, X))
    np.testing.assert_allclose(program.evaluate(), wanted(X + 1, X * 2))
    assert program.evaluation.kernels == 5 - at


@pytest.mark.parametrize("retain", ["all", "frontier", []])
def test_a_plan_that_retains_is_read_back_from_its_text(retain: Any) -> None:
    for seed in range(30):
        plan = random_program(np.random.default_rng([seed, 6])).build(LAZY, retain).program.plan
        assert Plan.parse(plan.text()) == plan.verify()


@given(programs(), st.sampled_from(["all", "frontier"]))
def test_plans_over_the_catalogue_that_retain_verify(program: Any, retain: str) -> None:
    plan = program.build(nnc.lazy(), retain).program.plan
    assert Plan.parse(plan.verify().text()) == plan


def test_text_that_retains_what_there_is_not_is_refused() -> None:
    plan = chain(LAZY)[0].plan
    with pytest.raises(GraphError, match="no buffer @99"):
        Plan.parse(plan.text().replace("retain @", "retain @99, @"))


def test_such_a_plan_is_no_plain_program() -> None:
    program, _ = chain(LAZY)
    with pytest.raises(PlanError, match="compile its graph with retain="):
        Program(program.plan, LAZY.device, [], [])
