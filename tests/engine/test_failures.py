"""Runs that fail, at each instruction and allocation: nothing has changed, the next run is right (`engine/running`)."""

from __future__ import annotations

import gc
import random
import signal
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import nnc_func as nnc
from nnc_func import nn
from nnc_func.body import Application as Step
from nnc_func.body import Body
from nnc_func.engine.running.observers import Application, Observer, drained
from nnc_func.errors import AllocationError, CommitError, NncError, OperatorError, RunError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import operator
from nnc_func.testing.programs import Program, programs
from tests.failures import Failures, Snapshot, Unreliable, check_failures
from tests.squares import writing

LAZY = nnc.lazy()
ADD = CATALOGUE["add"]


def unreliable(make: Any = nnc.lazy) -> tuple[Any, Any]:
    """A stack on a device where things go wrong, and its trouble."""
    device = Unreliable()
    return make(device), device.trouble


FAILING, TROUBLE = unreliable()


def checked(drawn: Program) -> Failures:
    """A drawn program, failed wherever it can."""
    stack, trouble = FAILING, TROUBLE
    failing, twin = drawn.build(stack), drawn.build(LAZY)
    feeds = drawn.feeds()

    def right() -> list[Any]:
        found = twin.program.run(feeds)
        return [*found, *(v.value.array for v in twin.variables)]

    return check_failures(trouble, failing.program, feeds, right, lambda: [v.value for v in failing.variables])


@settings(max_examples=200)
@given(programs(most_steps=8))
def test_random_programs_fail_at_every_instruction_and_change_nothing(drawn: Program) -> None:
    with np.errstate(all="ignore"):
        checked(drawn)


def test_two_hundred_graphs_that_write_variables_fail_at_every_instruction_and_change_nothing() -> None:
    """All different; in more than half of them kernels write over variables, often with much else behind that."""
    with np.errstate(all="ignore"):
        found = [checked(graph) for graph in writing(200)]
    assert len(found) == 200
    assert sum(f.kernels for f in found) > 900
    assert sum(f.committing > 0 for f in found) > 80
    assert max(f.committing for f in found) > 5


def test_a_loop_fails_at_each_kernel_of_each_time() -> None:
    """One instruction, many kernels: none is in the commit section."""

    def build(stack: Any) -> tuple[Any, Any]:
        w, x = stack.variable("w", np.array([0.09375, 1.5625])), stack.input("x", (2,), "float64")
        rows = stack.ops.loop(x, x, constants=0, carries=2, length=4, body=Body(2, [Step(ADD, (0, 1))], (1, 2, 2)))
        return stack.compile([x], [stack.ops.tanh(w), *rows], [(w, stack.ops.tanh(w))]), w

    stack, trouble = unreliable()
    (program, w), (twin, same) = build(stack), build(LAZY)
    feeds = [np.array([0.25, 3.0])]
    found = check_failures(trouble, program, feeds, lambda: [*twin.run(feeds), same.value.array], lambda: [w.value])
    assert found.kernels == found.interrupts >= 6  # tanh, four sums, the copy of the next value


def network(channels: int = 4, units: int = 16) -> Any:
    """The main job's network, with fewer channels."""
    layers = [nn.Conv2D(channels, 5, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(units), nn.relu]
    return nn.Sequential(*layers, nn.Dense(10)).init(seed=1, shape=(None, 28, 28, 1))


UPDATES = [nn.Adagrad(epsilon=1e-7), nn.Adam(), nn.SGD(momentum=0.9)]


@pytest.mark.parametrize("update", UPDATES, ids=lambda u: type(u).__name__)
def test_the_mnist_step_fails_at_every_instruction_and_changes_nothing(update: Any) -> None:
    fails_everywhere(update, network, 8)


@pytest.mark.slow
def test_the_mnist_step_at_its_real_size_does_so_too() -> None:
    """A hundred images, 32 channels and 1024 units: it has fused groups, which the small one has not."""
    program = fails_everywhere(UPDATES[0], lambda: network(32, 1024), 100)
    assert "blockwise" in {i.op.name for i in program.plan.instructions}


def fails_everywhere(update: Any, network: Any, batch: int) -> Any:
    stack, trouble = unreliable()
    random_numbers = np.random.default_rng(0)
    x, y = random_numbers.random((batch, 28, 28, 1), "float32"), random_numbers.integers(0, 10, batch)
    failing = nn.Step(stack, network(), nn.softmax_cross_entropy, update, metrics={"accuracy": nn.accuracy})
    twin = nn.Step(LAZY, network(), nn.softmax_cross_entropy, update, metrics={"accuracy": nn.accuracy})
    feeds = [x, y, np.array(3, np.int64), np.array(0.01, "float32")]
    right_program = twin.program(x, y)

    def right() -> list[Any]:
        found = right_program.run(feeds)
        return [*found, *(v.value.array for v in twin.variables)]

    program = failing.program(x, y)
    found = check_failures(trouble, program, feeds, right, lambda: [v.value for v in failing.variables])
    assert found.kernels > 20
    assert found.kernels + found.committing == found.interrupts == program.plan.kernels
    assert found.allocations >= 2
    return program


# --- the commit section ------------------------------------------------------------------------------------


def two_updates(stack: Any) -> tuple[Any, Any, Any]:
    a, b = stack.variable("a", np.ones(3)), stack.variable("b", np.full(3, 2.0))
    return stack.compile([], stack.ops.sum(a * b), [(a, a + 1), (b, b * 3)]), a, b


def test_a_kernel_that_fails_though_it_must_not_is_told_with_what_was_written() -> None:
    stack, trouble = unreliable()
    program, a, b = two_updates(stack)
    late = program.plan.kernels - 1
    trouble.at_kernel(late)
    with pytest.raises(CommitError, match=r"failed while it wrote its variables: 'a', 'b' have been written") as caught:
        program()
    assert caught.value.written == ("a", "b")
    assert caught.value.kept == ()
    assert (a.value.version, b.value.version) == (1, 1)
    trouble.at_kernel(late - 1)
    with pytest.raises(CommitError, match=r"'a' has been written, wholly or in part, 'b' not") as caught:
        program()
    assert caught.value.kept == ("b",)
    assert b.value.version == 1
    trouble.nothing()
    a.value.assign(np.ones(3))
    b.value.assign(np.ones(3))
    np.testing.assert_array_equal(program(), 3.0)
    np.testing.assert_array_equal(b.numpy(), 3.0)


def test_what_is_exchanged_was_not_written_when_the_commit_section_failed() -> None:
    """One variable is written over, one gets another array: that one is as before."""
    stack, trouble = unreliable()
    a, m = stack.variable("a", np.ones(3)), stack.variable("m", np.eye(3) * 2)
    program = stack.compile([], [], [(m, m @ m), (a, a + 1)])
    trouble.at_kernel(program.plan.kernels - 1)
    with pytest.raises(CommitError) as caught:
        program()
    assert (caught.value.written, caught.value.kept) == (("a",), ("m",))
    np.testing.assert_array_equal(m.numpy(), np.eye(3) * 2)


def test_in_an_observed_run_even_the_commit_section_is_put_back() -> None:
    stack, trouble = unreliable()
    program, a, b = two_updates(stack)
    for number in range(program.plan.kernels):
        before = Snapshot([a.value, b.value])
        trouble.at_kernel(number)
        with pytest.raises(RunError, match="on purpose"):
            list(program.steps())
        before.check()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
def test_signals_that_raise_wait_for_the_commit_section(signal_number: Any) -> None:
    class TooLongError(BaseException):
        pass

    def handler(*_: Any) -> None:
        raise TooLongError

    stack, trouble = unreliable()
    program, a, b = two_updates(stack)
    previous = signal.signal(signal_number, handler)
    try:
        for number in range(program.plan.kernels):
            trouble.at_kernel(number, lambda: signal.raise_signal(signal_number))
            with pytest.raises(TooLongError):
                program()
            assert a.value.version == b.value.version
            np.testing.assert_array_equal(a.numpy(), 1.0 + a.value.version)
            np.testing.assert_array_equal(b.numpy(), 2.0 * 3.0**b.value.version)
            assert signal.getsignal(signal_number) is handler
    finally:
        signal.signal(signal_number, previous)


def test_interrupts_at_any_time_come_before_or_after_all_updates() -> None:
    """A timer interrupts, at random; what the variables hold belongs to one version."""
    program, a, b = two_updates(LAZY)
    numbers = random.Random(0)
    interrupted = 0
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    control_c = signal.getsignal(signal.SIGINT)
    gc.disable()  # what is raised amid a callback of the collector is lost
    try:
        for _ in range(400):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, numbers.random() * 5e-4 + 1e-6)
                    for _ in range(20):
                        program()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            np.testing.assert_array_equal(a.value.array - a.value.array[0], 0.0)
            assert a.value.version == b.value.version
            a.value.assign(np.ones(3))
            b.value.assign(np.ones(3))
            a.value.version = b.value.version = 0
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, previous)
    assert interrupted > 100
    assert signal.getsignal(signal.SIGINT) is control_c


# --- what is not a program's call --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_operators_and_forced_values_that_fail_leave_what_is_held(make: Any) -> None:
    stack, trouble = unreliable(make)
    x = stack.asarray(np.linspace(0, 1, 500))
    held = (x + 1).numpy()
    before = Snapshot([], [held])
    trouble.at_kernel(0)
    with pytest.raises(RunError, match=r"exp\(float64\[500\]\) failed.*test_failures.py:\d+"):
        stack.ops.exp(x).numpy()
    trouble.nothing()
    before.check()
    np.testing.assert_array_equal(stack.ops.exp(x).numpy(), np.exp(np.linspace(0, 1, 500)))


def test_a_forced_value_that_failed_can_be_forced_again() -> None:
    stack, trouble = unreliable()
    x = stack.asarray(np.linspace(0, 1, 500))
    y = stack.ops.exp(stack.ops.sin(x))
    for number in range(2):
        trouble.at_kernel(number)
        with pytest.raises(RunError):
            y.numpy()
    trouble.nothing()
    np.testing.assert_array_equal(y.numpy(), np.exp(np.sin(np.linspace(0, 1, 500))))


def test_a_jitted_function_that_failed_runs_again() -> None:
    stack, trouble = unreliable()
    f = stack.jit(lambda x: stack.ops.exp(x) * 2)
    x = np.linspace(0, 1, 500)
    f(x)
    for number in range(2):
        trouble.at_kernel(number)
        with pytest.raises(RunError):
            f(x)
        trouble.nothing()
        np.testing.assert_array_equal(f(x).numpy(), np.exp(x) * 2)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_training_that_failed_goes_on_from_the_last_whole_step(make: Any) -> None:
    stack, trouble = unreliable(make)
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(32, 1)
    step = nn.Step(stack, nn.Dense(1).init(0, (None, 1)), nn.quadratic, nn.Adam())
    twin = nn.Step(make(), nn.Dense(1).init(0, (None, 1)), nn.quadratic, nn.Adam())
    for _ in range(2):
        trouble.nothing()
        wanted = twin(x, 2 * x, 0.1)[0]
        assert step(x, 2 * x, 0.1)[0] == wanted
    plan = step.program(x, 2 * x).plan
    fallible = trouble.kernels if plan is None else sum(not i.view for i in plan.instructions[: plan.commit])
    for number in range(0, fallible, 3):
        trouble.at_kernel(number)
        with pytest.raises(NncError):
            step(x, 2 * x, 0.1)
        trouble.nothing()
        assert step.iteration == twin.iteration
        wanted = twin(x, 2 * x, 0.1)[0]
        assert step(x, 2 * x, 0.1)[0] == wanted
    np.testing.assert_array_equal(step.state.model.weight, twin.state.model.weight)


class Allocated(Observer):
    """Bytes that each application allocated while it ran, at most."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}
        self._before = 0

    def before(self, application: Application) -> None:
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]

    def after(self, application: Application) -> None:
        self.found[application.instruction] = tracemalloc.get_traced_memory()[1] - self._before


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("update", UPDATES, ids=lambda u: type(u).__name__)
def test_what_writes_variables_needs_no_memory(update: Any, layers: int) -> None:
    """Of several layers the section is long: gradients are multiplied in it, without fusion."""
    plain = LAZY.swap(optimiser=LAZY.optimiser.up_to_phase("layout"))
    model = nn.Sequential(*[nn.Dense(500) for _ in range(layers)]).init(1, (None, 500))
    step = nn.Step(plain, model, nn.quadratic, update)
    x = np.ones((4, 500), "float32")
    program = step.program(x, x)
    feeds = [x, x, np.array(3, np.int64), np.array(0.01, "float32")]
    allocated = Allocated()
    tracemalloc.start()
    try:
        for _ in range(2):
            drained(program.walk(feeds, watching=[allocated]))
    finally:
        tracemalloc.stop()
    late = {t: n for t, n in allocated.found.items() if t >= program.plan.commit}
    assert late
    assert ("matmul" in {program.plan.instructions[t].op.name for t in late}) == (layers > 1)
    assert max(late.values()) < 100_000, late  # a parameter is 1 MB; NumPy's casting buffers are small


def test_a_kernel_that_makes_an_array_first_is_not_in_the_commit_section() -> None:
    kernel = Kernel("making", compute=lambda xp, x: x + 1, infallible=True)

    @operator(shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=kernel)
    def making(x: Any, /) -> Any:
        """One more."""

    stack = LAZY.swap(type=LAZY.type.with_ops(making))
    w = stack.variable("w", np.zeros(3))
    plan = stack.compile([], [], [(w, making(w))]).plan
    assert plan.commit == len(plan.instructions)


# --- memory ------------------------------------------------------------------------------------------------


def test_memory_that_cannot_be_had_is_told_with_what_it_was_for() -> None:
    stack, trouble = unreliable()
    x = stack.input("x", (1000,), "float32")
    ops = stack.ops
    program = stack.compile([x], [ops.cumulative_sum(ops.cumulative_sum(x, axis=0), axis=0)])
    trouble.at_allocation(0)
    with pytest.raises(AllocationError, match=r"4032 bytes for the arena of 'program' cannot be had: .*on purpose"):
        program(np.ones(1000, "float32"))
    trouble.nothing()
    kept = program(np.ones(1000, "float32"))
    trouble.at_allocation(0)
    with pytest.raises(AllocationError, match=r"4000 bytes for a result, float32\[1000\], cannot be had"):
        program(np.ones(1000, "float32"))
    with pytest.raises(AllocationError, match=r"4000 bytes for a copy of input 'x' cannot be had"):
        program([1.0] * 1000)
    trouble.nothing()
    np.testing.assert_array_equal(program([1.0] * 1000)[0], kept[0])


def test_a_kernel_without_memory_is_an_allocation_error() -> None:
    stack, trouble = unreliable()

    def no_memory() -> None:
        raise MemoryError("none left")

    x = stack.input("x", (2,), "float32")
    program = stack.compile([x], stack.ops.exp(x))
    trouble.at_kernel(0, no_memory)
    with pytest.raises(AllocationError, match=r"exp\(float32\[2\]\) failed.*none left"):
        program([1, 2])


def test_a_result_that_cannot_be_written_is_refused_before_the_run() -> None:
    w = LAZY.variable("w", np.zeros(3))
    program = LAZY.compile([], w + 1, [(w, w + 1)])
    out = np.zeros(3)
    out.flags.writeable = False
    with pytest.raises(OperatorError, match=r"out\[0\] is read-only"):
        program(out=out)
    assert w.value.version == 0
