"""Where the commit section starts, and what is in it (`engine/planning/committing`, `engine/running/commit`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, example, given, settings

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import VARIABLE
from nnc_func.errors import CommitError, PlanError
from nnc_func.testing.programs import Program, programs
from tests.failures import Unreliable, check_failures, peak_bytes
from tests.squares import writing

LAZY = nnc.lazy()
APART = LAZY.swap(optimiser=LAZY.optimiser.up_to_phase("layout"))  # products and updates are operators of their own
UNSEARCHED = LAZY.swap(engine=LAZY.engine.with_orders("depth_first", "list_scheduling"))
STACKS = pytest.mark.parametrize("stack", [LAZY, APART], ids=["fused", "apart"])
TOLERATED = 1.1


def begun(plan: Plan) -> Plan:
    """The plan with a commit section from the first write to a variable on, whatever comes behind that."""
    variables = {n for n, b in enumerate(plan.buffers) if b.kind == VARIABLE}
    writes = (
        t for t, i in enumerate(plan.instructions)
        if not i.view and any(plan.slots[s].buffer in variables for s in i.results)
    )  # fmt: skip
    return evolve(plan, commit=next(writes, len(plan.instructions)))


def is_allowed(careless: Plan) -> bool:
    """Whether nothing behind the first write to a variable can fail."""
    try:
        begun(careless).verify()
    except PlanError as error:
        if "is in the commit section" not in str(error):
            raise
        return False
    return True


def layers(stack: Any, count: int, units: int, update: Any) -> Any:
    model = nn.Sequential(*[nn.Dense(units) for _ in range(count)]).init(1, (None, units))
    return nn.Step(stack, model, nn.quadratic, update)


# --- bytes -------------------------------------------------------------------------------------------------


def test_two_hundred_graphs_need_no_more_than_a_tenth_above_a_careless_plan() -> None:
    allowed = 0
    with np.errstate(all="ignore"):
        for drawn in writing(200):
            graph = drawn.build(LAZY).program.graph
            (careful, plan), (careless, other) = peak_bytes(LAZY, graph), peak_bytes(LAZY, graph, careless=True)
            plan.verify()
            assert plan.commit == begun(plan).commit
            assert careful <= TOLERATED * careless or not is_allowed(other), drawn
            assert careful <= TOLERATED * peak_bytes(UNSEARCHED, graph, careless=True)[0], drawn
            allowed += is_allowed(other)
    assert allowed > 150


CROSSED = next(p for p in writing(20) if len(p.updates) > 1)


@settings(suppress_health_check=list(HealthCheck))
@given(programs(most_steps=8))
@example(CROSSED)
def test_where_nothing_fails_behind_the_first_write_care_costs_a_tenth_at_most(drawn: Program) -> None:
    with np.errstate(all="ignore"):
        graph = drawn.build(LAZY).program.graph
    (careful, plan), (careless, other) = peak_bytes(LAZY, graph), peak_bytes(LAZY, graph, careless=True)
    plan.verify()
    if is_allowed(other):
        assert careful <= TOLERATED * careless


@pytest.mark.slow
def test_two_thousand_graphs_where_nothing_fails_behind_the_first_write() -> None:
    with np.errstate(all="ignore"):
        graphs = [drawn.build(LAZY).program.graph for drawn in writing(2000, most=40)]
    for graph in graphs:
        (careful, plan), (careless, other) = peak_bytes(LAZY, graph), peak_bytes(LAZY, graph, careless=True)
        plan.verify()
        assert careful <= TOLERATED * careless or not is_allowed(other)


@STACKS
@pytest.mark.parametrize("update", [nn.SGD(), nn.SGD(momentum=0.9), nn.Adagrad(epsilon=1e-7), nn.Adam()], ids=repr)
def test_gradients_of_many_layers_do_not_wait_for_each_other(update: Any, stack: Any) -> None:
    x = np.ones((4, 256), "float32")
    graph = layers(stack, 8, 256, update).program(x, x).graph
    careful, plan = peak_bytes(stack, graph)
    assert careful <= TOLERATED * peak_bytes(stack, graph, careless=True)[0]
    assert plan.commit < len(plan.instructions)
    assert stack is LAZY or "matmul" in {i.op.name for i in plan.instructions[plan.commit :]}


@STACKS
def test_what_is_summed_up_into_a_gradient_is_not_kept_until_the_variable_is_written(stack: Any) -> None:
    """One matrix used twenty times: the sum of its gradient's parts comes early, and the section is short."""
    w = stack.variable("w", np.eye(64, dtype="float32"))
    x = stack.input("x", (4, 64), "float32")

    def loss(w: Any) -> Any:
        h = x
        for _ in range(20):
            h = stack.ops.tanh(h @ w)
        return stack.ops.sum(h * h)

    value, gradient = stack.value_and_grad(loss)(w)
    program = stack.compile([x], value, [(w, w - 0.1 * gradient)])
    careful, plan = peak_bytes(stack, program.graph)
    assert careful <= TOLERATED * peak_bytes(stack, program.graph, careless=True)[0]
    assert (stack is APART) <= len(plan.instructions) - plan.commit < 5


# --- what may be in it -------------------------------------------------------------------------------------


def test_the_verifier_refuses_what_may_fail_behind_a_write_to_a_variable() -> None:
    w = LAZY.variable("w", np.arange(6.0))
    at = LAZY.input("at", (2,), "int64")
    program = LAZY.compile([at], LAZY.ops.take(w, at, axis=0) * 2, [(w, w + 1)])
    plan = program.plan
    plan.verify()
    assert [i.op.name for i in plan.instructions[plan.commit :]] == ["add"]
    v = LAZY.variable("v", np.arange(6.0))
    x = LAZY.input("x", (6,), "float64")
    careless = peak_bytes(LAZY, LAZY.compile([at, x], LAZY.ops.take(v + x, at, axis=0), [(v, v + x)]).graph, True)[1]
    damaged = begun(careless)
    assert [i.op.name for i in damaged.instructions[damaged.commit :]] == ["add", "take"]
    with pytest.raises(PlanError, match=r"\(take at .*\) is in the commit section, .* its kernel 'take' may fail: "):
        damaged.verify()


def test_the_verifier_refuses_a_kernel_in_the_section_that_makes_an_array_first() -> None:
    v, x = LAZY.variable("v", np.arange(6.0)), LAZY.input("x", (6,), "float64")
    plan = peak_bytes(LAZY, LAZY.compile([x], LAZY.ops.exp(v + x), [(v, v + x)]).graph, careless=True)[1]
    begun(plan).verify()
    made = [evolve(i, kernel="reference") if i.op.name == "exp" else i for i in plan.instructions]
    with pytest.raises(PlanError, match=r"\(exp at .*\) is in the commit section, .*'reference' may fail: "):
        begun(evolve(plan, instructions=tuple(made))).verify()


def test_a_product_of_what_is_not_contiguous_comes_before_the_section_and_is_refused_in_it() -> None:
    """NumPy takes memory to multiply a matrix whose rows are in reverse."""
    v, x = LAZY.variable("v", np.eye(3)), LAZY.input("x", (3, 3), "float64")
    graph = LAZY.compile([x], LAZY.ops.flip(v + x, axis=(0,)) @ x, [(v, v + x)]).graph
    plan = peak_bytes(LAZY, graph)[1]
    plan.verify()
    assert "matmul" not in {i.op.name for i in plan.instructions[plan.commit :]}
    with pytest.raises(PlanError, match=r"\(matmul at .* kernel 'blas' may fail, for slot \d+ is not contiguous"):
        begun(peak_bytes(LAZY, graph, careless=True)[1]).verify()


def test_an_input_with_gaps_is_copied_before_the_section_multiplies_it() -> None:
    def chained(stack: Any) -> tuple[Any, Any]:
        a, b = stack.variable("a", np.eye(64)), stack.variable("b", np.eye(64))
        x = stack.input("x", (64, 64), "float64")
        return stack.compile([x], [], [(a, a + x), (b, b + (a + x) @ x)]), b

    program, b = chained(APART)
    late = program.plan.instructions[program.plan.commit :]
    assert [i.op.name for i in late] == ["add", "matmul", "add"]
    data = np.random.default_rng(0).random((64, 128))[:, ::-2]
    seen: list[bool] = []
    for application in program.steps(data):
        if application.op.name == "matmul":
            seen += [a.flags.c_contiguous for a in application.arguments]
    assert seen == [True, True]
    np.testing.assert_allclose(b.numpy(), np.eye(64) + (np.eye(64) + data) @ data)
    program(data)
    np.testing.assert_allclose(b.numpy(), np.eye(64) + (np.eye(64) + data) @ data + (np.eye(64) + 2 * data) @ data)


# --- failures in a long one --------------------------------------------------------------------------------


@STACKS
def test_a_long_section_fails_everywhere_as_a_short_one_does(stack: Any) -> None:
    device = Unreliable()
    failing, twin = layers(stack.swap(device=device), 5, 64, nn.SGD()), layers(stack, 5, 64, nn.SGD())
    x = np.random.default_rng(0).random((2, 64), "float32")
    feeds = [x, x, np.array(0, np.int64), np.array(0.01, "float32")]
    program, right_program = failing.program(x, x), twin.program(x, x)

    def right() -> list[Any]:
        found = right_program.run(feeds)
        return [*found, *(v.value.array for v in twin.variables)]

    found = check_failures(device.trouble, program, feeds, right, lambda: [v.value for v in failing.variables])
    assert found.committing > (4 if stack is LAZY else 10)
    device.trouble.at_kernel(program.plan.kernels - 2)  # some are written, one is not
    with pytest.raises(CommitError) as caught:
        program.run(feeds)
    assert caught.value.written
    assert caught.value.kept
