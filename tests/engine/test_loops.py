"""Counted loops run as their steps do (`graph/ops/loop`, `engine/planning/loops`, `engine/running/loops`)."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given

import nnc_func as nnc
from nnc_func.body import Application, Body
from nnc_func.engine.loop_instruction import Address
from nnc_func.engine.plan import Plan
from nnc_func.errors import CancelledError, DTypeError, NncError, OperatorError, PlanError, ShapeError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.loop import DEEPEST
from tests.engine.drawn_loops import (
    ADD,
    ALL,
    BEFORE,
    CELL,
    DECAY,
    DELAYED,
    EAGER,
    EXACT,
    INTO_A_CIRCLE,
    LAZY,
    LOOP,
    MULTIPLY,
    POWERS,
    SCALAR,
    SHAPE,
    TANH,
    TURNED,
    Drawn,
    agree,
    compiled,
    loops,
    nested,
    over,
    planned,
    step_by_step,
)

# --- values --------------------------------------------------------------------------------------------------


@given(loops())
@example(evolve(CELL, count=0))
@example(evolve(DELAYED, count=1))
@example(evolve(INTO_A_CIRCLE, count=8))
@example(over(1, results=(0,), constants=1, carries=0, count=4, sliced=False, times=2))  # nothing is carried
@example(over(1, results=(0,), carries=0, count=4, sliced=True, times=2, reverse=True))
def test_a_loop_is_its_steps_on_every_engine(drawn: Drawn) -> None:
    arrays = drawn.arrays()
    wanted = step_by_step(drawn, arrays)
    agree([t.numpy() for t in EAGER.ops.loop(*map(EAGER.asarray, arrays), **drawn.params)], wanted)
    program = compiled(drawn)
    program.plan.verify()
    for _ in range(3):  # the third call is written out
        agree(program(*arrays), wanted)
    outs = [np.full_like(each, np.nan if each.dtype.kind == "f" else 1) for each in wanted]
    program(*arrays, out=outs)  # every element of what it gives is written
    agree(outs, wanted)
    agree(program.plan.verify() and program(*drawn.arrays(1)), step_by_step(drawn, drawn.arrays(1)))


@pytest.mark.parametrize("count", range(9))
@pytest.mark.parametrize("drawn", ALL)
def test_any_count(drawn: Drawn, count: int) -> None:
    drawn = evolve(drawn, count=count)
    arrays = drawn.arrays()
    agree(compiled(drawn)(*arrays), step_by_step(drawn, arrays))


def test_what_is_around_it_is_fused_and_in_place_too() -> None:
    drawn = evolve(DECAY, count=3)
    x, c = LAZY.input("x", SHAPE, "float64"), LAZY.input("c", SHAPE, "float64")
    (y,) = LAZY.ops.loop(c, LAZY.ops.sort(x), **drawn.params)
    program = LAZY.compile([x, c], LAZY.ops.sort(y))
    assert program.plan.verify().arena_bytes == 128  # of 72 bytes: the loop is written over what it starts with
    array = np.linspace(-1, 1, 9).reshape(SHAPE)
    found = np.sort(array)
    for _ in range(3):
        found = np.tanh(found * 0.5)
    np.testing.assert_array_equal(program(array, np.full(SHAPE, 0.5)), np.sort(found))


def test_loops_within_loops() -> None:
    inner = Application(LOOP, (0, 1), {"body": DECAY.body, "constants": 1, "carries": 1, "length": 3})
    drawn = Drawn(Body(3, [inner, Application(ADD, (3, 2))], (4, 3)), 1, 1, 4, True)
    arrays = drawn.arrays()
    program = compiled(drawn)
    agree(program(*arrays), step_by_step(drawn, arrays))
    assert any(i.loops for i in planned(program).plan.instructions)
    assert Plan.parse(program.plan.text()) == program.plan.verify()


def test_numbers_in_a_body_are_constants_of_its_plan() -> None:
    x = LAZY.input("x", (4,), "float32")
    body, captured = LAZY.body(lambda x: LAZY.ops.tanh(x) * 0.5 + 1, nnc.Aval((4,), "float32"))
    assert not captured
    program = LAZY.compile([x], LAZY.ops.loop(x, body=body, carries=1, length=10)[0])
    assert [dict(items)["value"] for items in planned(program).literals] == [0.5, 1.0]
    found = np.linspace(-2, 2, 4, dtype="float32")
    wanted = found
    for _ in range(10):
        wanted = np.tanh(wanted) * np.float32(0.5) + np.float32(1)
    np.testing.assert_allclose(program(found), wanted, rtol=1e-6)


def test_a_body_is_rewritten_for_what_it_is_given() -> None:
    negative = OPS["negative"]
    drawn = over(1, (negative, 0), (negative, 1), (TANH, 2), carries=1, sliced=False)
    program = compiled(drawn)
    assert [i.op.name for i in planned(program).plan.instructions] == ["tanh"]
    large = nnc.Aval((1 << 20,), "float32")
    body, _ = LAZY.body(lambda x: LAZY.ops.tanh(x * 2) + 1, large)
    x = LAZY.input("x", large.shape, "float32")
    program = LAZY.compile([x], LAZY.ops.loop(x, body=body, carries=1, length=2)[0])
    assert [i.op.name for i in planned(program).plan.instructions] == ["blockwise"]


@pytest.mark.parametrize("stack", [EAGER, EXACT])
def test_rows_without_axes(stack: Any) -> None:
    body = Body.of(2, (ADD, 0, 1), (MULTIPLY, 0, 1), results=(2, 2, 3))
    xs = np.arange(1.0, 6.0)
    h, x = (stack.asarray(0.0), stack.asarray(xs)) if stack is EAGER else (stack.input("h", ()), stack.input("x", (5,)))
    found = stack.ops.loop(h, x, body=body, carries=1)
    if stack is EXACT:
        program = stack.compile([h, x], list(found))
        found = [stack.asarray(each) for each in program(np.float32(0), xs.astype("float32"))]
    agree([each.numpy() for each in found], [15.0, np.cumsum(xs), [0, 2, 9, 24, 50]])


def test_a_body_of_nothing_but_numbers() -> None:
    drawn = over(
        0, (OPS["full"], SCALAR), (OPS["full"], {**SCALAR, "shape": SHAPE}), (ADD, 0, 1), carries=0, sliced=False
    )
    for stack in (EAGER, EXACT):
        (found,) = stack.ops.loop(**drawn.params)
        agree([found.numpy()], step_by_step(drawn, []))


def test_a_layout_within_the_body_is_not_that_of_what_it_gives() -> None:
    turned = over(1, (OPS["relayout"], 0, {"layout": (1, 0)}), (TANH, 1), results=(2, 1), carries=1, sliced=False)
    arrays = turned.arrays()
    program = compiled(turned)
    program.plan.verify()
    agree(program(*arrays), step_by_step(turned, arrays))


def test_a_loop_in_a_commit_section_is_refused() -> None:
    w = LAZY.variable("w", np.zeros(SHAPE))
    x = LAZY.input("x", SHAPE, "float64")
    (y,) = LAZY.ops.loop(x, w, **DECAY.params)
    plan = LAZY.compile([x], [x + 1], [(w, y)]).plan
    at = next(t for t, i in enumerate(plan.instructions) if i.loops)
    with pytest.raises(PlanError, match="may fail"):
        evolve(plan, commit=at).verify()


def test_extents_that_are_known_late() -> None:
    x, h = LAZY.input("x", ("n", 3), "float64"), LAZY.input("h", (3,), "float64")
    body, _ = LAZY.body(lambda h, x: [h * x, h * x], *[nnc.Aval((3,), "float64")] * 2)
    program = LAZY.compile([h, x], list(LAZY.ops.loop(h, x, body=body, carries=1)))
    for n in (0, 1, 5):
        array = np.full((n, 3), 2.0)
        last, rows = program(np.ones(3), array)
        np.testing.assert_array_equal(last, np.full(3, 2.0**n))
        np.testing.assert_array_equal(rows, np.cumprod(array, axis=0))


@pytest.mark.parametrize("stack", [EAGER, LAZY])
def test_bfloat16_is_rounded_after_each_operator(stack: Any) -> None:
    body = Body.of(1, (MULTIPLY, 0, 0), (MULTIPLY, 1, 0), (TANH, 2))
    start = EAGER.ops.cast(EAGER.asarray(np.float32([1.1, 2.3, 0.7])), dtype="bfloat16")
    wanted = start
    for _ in range(2):
        wanted = EAGER.ops.tanh(EAGER.ops.multiply(EAGER.ops.multiply(wanted, wanted), wanted))
    given = start if stack is EAGER else stack.input("x", (3,), "bfloat16")
    (found,) = stack.ops.loop(given, body=body, carries=1, length=2)
    array = found.numpy() if stack is EAGER else stack.compile([given], found)(start.numpy())
    np.testing.assert_array_equal(array.astype("float32"), wanted.numpy().astype("float32"))


def test_eager_memory_does_not_grow_where_nothing_is_stacked() -> None:
    x = EAGER.asarray(np.ones(2))
    peaks = []
    for count in (1000, 20_000):
        tracemalloc.start()
        EAGER.ops.loop(x, body=Body.of(1, (TANH, 0)), carries=1, length=count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 100_000


def test_operands_of_any_layout() -> None:
    for drawn in (CELL, DECAY, TURNED):
        arrays = drawn.arrays()
        inputs = [LAZY.input(f"x{n}", shape, "float64") for n, shape in enumerate(drawn.shapes())]
        turned = [
            LAZY.ops.relayout(x, layout=(*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)) for x in inputs
        ]
        program = LAZY.compile(inputs, list(LAZY.ops.loop(*turned, **drawn.params)))
        program.plan.verify()
        for _ in range(3):
            agree(program(*arrays), step_by_step(drawn, arrays))


def test_on_a_device_without_elements_its_kernels_are_counted() -> None:
    null = nnc.lazy(nnc.Null())
    x = null.input("x", (1 << 10, 1 << 10), "float32")
    program = null.compile([x], null.ops.loop(x, x, body=POWERS.body, constants=1, carries=1, length=7)[0])
    program(null.device.empty((1 << 10, 1 << 10), "float32"))
    assert null.device.counts.by_operator["matmul"] == 7


def test_in_another_place() -> None:
    two = nnc.lazy(nnc.Places(one=nnc.NumPy(), other=nnc.NumPy()))
    x = two.input("x", SHAPE, "float64", place="other")
    program = two.compile([x], two.ops.loop(x, x, body=POWERS.body, constants=1, carries=1, length=4)[0])
    array = np.linspace(-1, 1, 9).reshape(SHAPE)
    np.testing.assert_array_equal(program(array), compiled(evolve(POWERS, count=4))(array, array)[0])


def test_a_layer_that_changes_bind_is_asked_for_the_loop() -> None:
    class Counting(nnc.NumPy):
        calls = 0

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            Counting.calls += op is LOOP
            return super().bind(op, *args, **params)

    stack = nnc.lazy(Counting())
    x = stack.input("x", SHAPE, "float64")
    program = stack.compile([x], stack.ops.loop(x, x, **evolve(DECAY, count=2).params)[0])
    array = np.linspace(-1, 1, 9).reshape(SHAPE)
    np.testing.assert_array_equal(program(array), compiled(evolve(DECAY, count=2))(array, array)[0])
    assert Counting.calls == 1


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drawn", [CELL, DECAY, POWERS, DELAYED, BEFORE])
def test_no_carry_is_copied_and_memory_does_not_grow(drawn: Drawn) -> None:
    few, many = (planned(compiled(evolve(drawn, count=n))) for n in (12, 1200))
    assert not [i for i in many.plan.instructions if i.op.name == "copy"]
    assert few.plan == many.plan
    one, other = (compiled(evolve(drawn, count=n)).plan for n in (12, 1200))
    assert one.arena_bytes == other.arena_bytes
    passed_on = {DELAYED: 3, POWERS: 2}.get(drawn)  # arrays that are taken by turns, the result among them
    if passed_on:
        assert one.arena_bytes <= 128 * passed_on
    assert len(many.copies) <= sum(bool(a.step) for a in many.reads)  # once, of what lies in rows


def test_a_carry_in_place_takes_no_memory() -> None:
    program = compiled(DECAY)
    assert program.plan.arena_bytes == 0
    assert planned(program).reads[1] == Address((2,), first=(1,))
    assert planned(program).writes == (Address((2,)),)
    assert not planned(program).copies


def test_what_a_carry_starts_with_is_not_written() -> None:
    arrays = DECAY.arrays()
    before = [a.copy() for a in arrays]
    compiled(DECAY)(*arrays)
    agree(arrays, before)


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [EAGER, LAZY])
@pytest.mark.parametrize(
    ("shapes", "params", "error", "said"),
    [
        ([(3,)], {"body": Body.of(1, (TANH, 0)), "carries": 1}, OperatorError, "length="),
        ([(3,)], {"body": Body.of(1, (TANH, 0)), "carries": 1, "length": -1}, ShapeError, "not negative"),
        ([(3,)], {"body": Body.of(2, (ADD, 0, 1)), "carries": 1, "length": 2}, OperatorError, "body of 2 parameters"),
        ([(3,)], {"body": Body(1, (), ()), "length": 2}, OperatorError, "which is nothing"),
        ([(3,)], {"body": Body.of(1, (TANH, 0)), "carries": 2, "length": 2}, OperatorError, "2 carries among 1"),
        ([()], {"body": Body.of(1, (TANH, 0))}, ShapeError, "has no axis"),
        ([(2, 3), (4, 3)], {"body": Body.of(2, (ADD, 0, 1))}, ShapeError, "goes 2 times"),
        ([(3,), (2, 3)], {"body": Body.of(2, (OPS["sum"], 0)), "carries": 1}, ShapeError, r"carry 0 .*\(3,\).*\(\)"),
        (
            [(3,)], {"body": Body.of(1, (OPS["cast"], 0, {"dtype": "float32"})), "carries": 1, "length": 1}, DTypeError,
            "carry 0 .* float64, and float32",
        ),
    ],
)  # fmt: skip
def test_what_is_no_loop_is_refused_in_words(stack: Any, shapes: Any, params: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        stack.ops.loop(*[stack.asarray(np.zeros(shape)) for shape in shapes], **params)


@pytest.mark.parametrize("stack", [EAGER, LAZY])
def test_loops_within_too_many_loops_are_refused(stack: Any) -> None:
    with pytest.raises(OperatorError, match=f"{DEEPEST} deep"):
        stack.ops.loop(stack.asarray(np.zeros(2)), body=nested(Body.of(1, (TANH, 0)), 300), carries=1, length=1)


@pytest.mark.parametrize("stack", [EAGER, LAZY])
def test_fused_groups_are_no_loops_within_loops(stack: Any) -> None:
    """The innermost of as many loops as there may be computes a fused group."""
    fused = Body.of(1, (OPS["blockwise"], 0, {"body": Body.of(1, (TANH, 0), (OPS["negative"], 1))}))
    x = stack.asarray(np.full(2, 0.5))
    found = stack.ops.loop(x, body=nested(fused, DEEPEST - 1), carries=1, length=1)[0]
    np.testing.assert_array_equal(found.numpy(), -np.tanh(x.numpy()))


def test_a_loop_is_cancelled_between_two_times() -> None:
    x = LAZY.input("x", SHAPE, "float64")
    program = LAZY.compile([x], LAZY.ops.loop(x, x, body=DECAY.body, constants=1, carries=1, length=10**8)[0])
    cancellation = nnc.Cancellation()
    threading.Timer(0.1, cancellation.cancel, ("enough",)).start()
    with cancellation, pytest.raises(CancelledError, match="loop: enough"):
        program(np.ones(SHAPE))


def test_a_kernel_that_fails_names_the_line_and_its_operator() -> None:
    x, body = LAZY.input("x", (2, 2), "float64"), Body.of(1, (OPS["inv"], 0))
    program = LAZY.compile([x], LAZY.ops.loop(x, body=body, carries=1, length=3)[0])
    with pytest.raises(NncError, match=r"inv\(.*test_loops\.py"):
        program(np.zeros((2, 2)))
