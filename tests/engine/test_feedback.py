"""Variables are updated after a call, in place where that can be, all of them or none (`engine/running/commit`)."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DTypeError, GraphError, NumericsError, RunError, ShapeError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.op import operator

LAZY = nnc.lazy()
OPS = LAZY.ops


def address(variable: Any) -> int:
    return int(variable.value.array.__array_interface__["data"][0])


def copies(program: Any) -> int:
    return sum(i.op.name == "copy" for i in program.plan.instructions)


def sgd(size: int = 100) -> tuple[Any, Any, Any]:
    x = LAZY.input("x", (size,), "float64")
    w, v = LAZY.variable("w", np.ones(size)), LAZY.variable("v", np.zeros(size))
    speed = v * 0.9 + (w - x) * 0.1
    program = LAZY.compile([x], OPS.sum(OPS.square(w - x)), [(v, speed), (w, w - speed)])
    return program, w, v


def test_a_step_is_right_and_copies_nothing() -> None:
    program, w, v = sgd()
    x, wanted_w, wanted_v = np.linspace(0, 1, 100), np.ones(100), np.zeros(100)
    assert copies(program) == 0
    for _ in range(50):
        loss = program(x)
        np.testing.assert_allclose(loss, np.sum((wanted_w - x) ** 2), rtol=1e-12)
        wanted_v = wanted_v * 0.9 + (wanted_w - x) * 0.1
        wanted_w = wanted_w - wanted_v
        np.testing.assert_allclose(w.numpy(), wanted_w, rtol=0, atol=1e-12)  # it comes near zero
        np.testing.assert_allclose(v.numpy(), wanted_v, rtol=0, atol=1e-12)


def test_a_variable_is_updated_in_its_own_memory() -> None:
    w = LAZY.variable("w", np.ones(100))
    program = LAZY.compile([], [], [(w, w * 0.5)])
    place = address(w)
    for _ in range(10):
        program()
        assert address(w) == place
    np.testing.assert_array_equal(w.numpy(), 0.5**10)
    assert not program.plan.planned


def test_where_it_cannot_be_in_place_two_buffers_take_turns() -> None:
    w = LAZY.variable("w", np.eye(3) * 2)
    program = LAZY.compile([], [], [(w, w @ w)])
    seen = set()
    for _ in range(6):
        program()
        seen.add(address(w))
    assert len(seen) <= 3
    np.testing.assert_array_equal(w.numpy(), np.eye(3) * 2.0**64)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_swapped_variables(make: Any) -> None:
    stack = make()
    a, b = stack.variable("a", np.zeros(3)), stack.variable("b", np.ones(3))
    program = stack.compile([], [a, b], [(a, b), (b, a)])
    for i in range(4):
        first, second = program()
        np.testing.assert_array_equal(first, float(i % 2))
        np.testing.assert_array_equal(second, float(1 - i % 2))
    np.testing.assert_array_equal(a.numpy(), 0.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_updates_read_what_was_there_before(make: Any) -> None:
    """Fibonacci: each new value is of both old ones."""
    stack = make()
    a, b = stack.variable("a", np.float64(0)), stack.variable("b", np.float64(1))
    program = stack.compile([], [], [(a, b), (b, a + b)])
    for _ in range(20):
        program()
    assert (a.numpy(), b.numpy()) == (6765, 10946)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_what_is_given_stays_the_callers(make: Any) -> None:
    stack = make()
    x = stack.input("x", (3,), "float64")
    w, u = stack.variable("w", np.zeros(3)), stack.variable("u", np.zeros(3))
    keep = stack.compile([x], [w, x], [(w, x), (u, x)])
    step = stack.compile([], [], [(w, w + 1)])
    given = np.ones(3)
    _, same = keep(given)
    step()
    np.testing.assert_array_equal(given, 1.0)
    given[:] = 7
    same[:] = 9
    np.testing.assert_array_equal(w.numpy(), 2.0)
    np.testing.assert_array_equal(u.numpy(), 1.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_an_assigned_value_is_copied(make: Any) -> None:
    stack = make()
    w = stack.variable("w", np.zeros(3))
    value = np.ones(3)
    w.value.assign(value)
    stack.compile([], [], [(w, w + 1)])()
    np.testing.assert_array_equal(value, 1.0)
    value[:] = 7
    np.testing.assert_array_equal(w.numpy(), 2.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
@pytest.mark.parametrize("other", [nnc.eager, nnc.lazy, nnc.dynamic])
def test_a_tensor_is_assigned_also_one_of_another_stack(make: Any, other: Any) -> None:
    stack = make()
    w, source = stack.variable("w", np.zeros(3)), other().variable("v", np.ones(3))
    w.value.assign(source * 2.0)
    w.value.assign(w + source.numpy())
    np.testing.assert_array_equal(w.numpy(), 3.0)
    with pytest.raises(ShapeError, match=r"'w' has shape \(3,\), given a value of \(2,\)"):
        w.value.assign(source[:2])
    with pytest.raises(DTypeError, match="'w' is float64, given complex128"):
        w.value.assign(source * 1j)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_an_update_that_is_an_output_too(make: Any) -> None:
    stack = make()
    w = stack.variable("w", np.zeros(3))
    after = w + 1
    program = stack.compile([], [after, w, after], [(w, after)])
    first, before, second = program()
    first[:] = 50
    np.testing.assert_array_equal(w.numpy(), 1.0)
    np.testing.assert_array_equal(second, 1.0)
    np.testing.assert_array_equal(before, 0.0)
    program()
    np.testing.assert_array_equal(first, 50.0)


# --- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_failing_kernel_leaves_every_variable_as_it_was(make: Any) -> None:
    stack = make()
    i = stack.input("i", (1,), "int64")
    w, v = stack.variable("w", np.ones(3)), stack.variable("v", np.zeros(3))
    taken = stack.ops.take(w, i)
    program = stack.compile([i], taken, [(w, w * 2), (v, v + stack.ops.sum(taken))])
    program(np.array([1]))
    with pytest.raises(RunError, match=r"take.*index 9"):
        program(np.array([9]))
    np.testing.assert_array_equal(w.numpy(), 2.0)
    np.testing.assert_array_equal(v.numpy(), 1.0)
    assert (w.value.version, v.value.version) == (1, 1)
    np.testing.assert_array_equal(program(np.array([2])), 2.0)  # and it can be called again


def interrupting() -> Any:
    """An operator that adds one, and Control-C is pressed while it does."""

    def into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        xp.add(arrays[0], 1, outs[0])

    kernel = Kernel("interrupted", compute=lambda xp, x: x + 1, into=into, overwrites=ALL, infallible=True)

    @operator(shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=kernel)
    def interrupted(x: Any, /) -> Any:
        """One more."""

    return interrupted


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_interrupt_while_variables_are_written_comes_before_or_after_all_of_them(first: int) -> None:
    interrupted = interrupting()
    stack = LAZY.swap(type=LAZY.type.with_ops(interrupted))
    variables = [stack.variable(f"w{i}", np.zeros(3)) for i in range(3)]
    updates = [(w, interrupted(w) if i == first else w + 1) for i, w in enumerate(variables)]
    program = stack.compile([], [], updates)
    with pytest.raises(KeyboardInterrupt):
        program()
    values = {float(x) for w in variables for x in w.numpy()}
    assert len(values) == 1
    assert len({w.value.version for w in variables}) == 1
    assert values == {float(variables[0].value.version)}


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_failed_check_of_numerics_leaves_every_variable_as_it_was(make: Any) -> None:
    stack = make()
    stack = stack.swap(engine=stack.engine.checking_numerics())
    w, v = stack.variable("w", np.ones(3)), stack.variable("v", np.full(3, -1.0))
    program = stack.compile([], [], [(w, w + 1), (v, stack.ops.log(v))])
    with pytest.raises(NumericsError, match=r"log.*test_feedback.py:\d+.*gave nan at \[0\], 3 of 3"):
        program()
    np.testing.assert_array_equal(w.numpy(), 1.0)
    np.testing.assert_array_equal(v.numpy(), -1.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_what_does_not_fit_a_variable_is_refused(make: Any) -> None:
    stack = make()
    w = stack.variable("w", np.zeros(3))
    x = stack.input("x", (3,), "float64")
    with pytest.raises(GraphError, match=r"variable 'w' is float64\[3\] and its update is float64\[\]"):
        stack.compile([], [], [(w, stack.ops.sum(w))])
    with pytest.raises(GraphError, match=r"'x'.*is no variable"):
        stack.compile([x], [], [(x, x + 1)])
    with pytest.raises(GraphError, match="updated twice"):
        stack.compile([], [], [(w, w + 1), (w, w + 2)])
