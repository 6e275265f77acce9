"""Runs cancelled from another thread end before an instruction and change nothing (`engine/running/cancelling`)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import CancelledError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.kernels import reference
from nnc_func.op import operator


def calling(action: Any) -> Any:
    """An operator that does something and gives its operand back."""

    def compute(xp: Any, x: Any) -> Any:
        action()
        return x + 0

    @operator(shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=reference(compute))
    def called(x: Any, /) -> Any:
        """The same."""

    return called


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_run_ends_before_its_next_instruction(make: Any) -> None:
    started, ended = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert ended.wait(20)

    called = calling(wait)
    stack = make()
    stack = stack.swap(type=stack.type.with_ops(called))
    x = stack.input("x", (3,), "float64")
    w = stack.variable("w", np.ones(3))
    program = stack.compile([x], stack.ops.exp(called(x)), [(w, w + 1)])
    cancellation = nnc.Cancellation()
    found: list[BaseException] = []

    def run() -> None:
        try:
            with cancellation:
                program(np.zeros(3))
        except CancelledError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(20)
    cancellation.cancel("no longer wanted")
    ended.set()
    thread.join(20)
    assert str(found[0]).startswith("cancelled before ")
    assert str(found[0]).endswith(": no longer wanted")
    np.testing.assert_array_equal(w.numpy(), 1.0)
    np.testing.assert_array_equal(program(np.zeros(3)), 1.0)
    np.testing.assert_array_equal(w.numpy(), 2.0)


def test_what_writes_variables_is_not_cancelled_amid_it() -> None:
    """Cancelled in the commit section: the variables are put back, all of them."""
    cancellation = nnc.Cancellation()
    stack = nnc.lazy()
    a, b = stack.variable("a", np.ones(3)), stack.variable("b", np.ones(3))
    program = stack.compile([], [], [(a, a + 1), (b, b + 1)])
    assert program.plan.commit == 0
    with cancellation:
        steps = program.steps()
        next(steps)
        cancellation.cancel()
        with pytest.raises(CancelledError):
            next(steps)
    np.testing.assert_array_equal(a.numpy(), 1.0)
    np.testing.assert_array_equal(b.numpy(), 1.0)


def test_forced_values_and_jitted_functions_are_cancelled_too() -> None:
    cancellation = nnc.Cancellation()
    stack = nnc.lazy()
    x = stack.asarray(np.linspace(0, 1, 1000))
    double = stack.jit(lambda x: x * 2)
    double(x)
    cancellation.cancel()
    with cancellation:
        with pytest.raises(CancelledError, match="before exp"):
            stack.ops.exp(x).numpy()
        with pytest.raises(CancelledError, match="before multiply"):
            double(x)
    np.testing.assert_array_equal(double(x).numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(stack.ops.exp(x).numpy(), np.exp(x.numpy()))


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_training_is_cancelled_between_whole_steps(make: Any) -> None:
    cancellation = nnc.Cancellation()
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(32, 1)
    model = nn.Dense(1).init(0, (None, 1))
    seen: list[float] = []

    def stop(step: int, loss: float, _: Any) -> bool:
        seen.append(loss)
        if step == 5:
            cancellation.cancel()
        return False

    with cancellation, pytest.raises(CancelledError):
        nn.train(
            make(), model, nn.quadratic, nn.SGD(), nn.Batches(x, 2 * x, size=8), rate=0.1, epochs=10, progress=False,
            stop=stop,
        )  # fmt: skip
    assert len(seen) == 5


def test_a_cancellation_counts_for_the_thread_that_entered_it() -> None:
    cancellation = nnc.Cancellation()
    cancellation.cancel()
    found = []
    stack = nnc.lazy()
    with cancellation:
        thread = threading.Thread(target=lambda: found.append((stack.asarray([1.0]) + 1).numpy()))
        thread.start()
        thread.join(20)
    np.testing.assert_array_equal(found[0], [2.0])
    assert repr(cancellation) == "<cancellation, cancelled>"
