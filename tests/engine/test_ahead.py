"""An asynchronous dynamic stack forms work ahead, and gives what the synchronous one does (`engine/dynamic/ahead`)."""

from __future__ import annotations

import gc
import sys
import threading
import time
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DerivativeError, NumericsError, PlanError, RunError, ShapeError
from nnc_func.graph.tensors.promise import Promise
from nnc_func.testing import strategies
from nnc_func.testing.program import Program
from tests.engine.dynamic_stacks import own_device
from tests.profiles import examples

SYNCHRONOUS = nnc.dynamic(own_device())
STACK = nnc.lazy(own_device()).swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
OPS = STACK.ops
NUMBERS = np.linspace(-1.0, 2.0, 6).reshape(2, 3)


@pytest.fixture(autouse=True)
def learned() -> None:
    """The first operator of a stack, and the first after a function was traced, are never formed ahead."""
    (STACK.asarray(1.0) * 1.0).item()


def is_promised(tensor: Any) -> bool:
    """Whether nobody has looked at it."""
    return type(tensor.hold) is Promise


class Gate:
    """A function of the host that waits until it is opened: what comes after it is ahead."""

    def __init__(self) -> None:
        self.event, self.calls = threading.Event(), 0

    def __call__(self, array: Any) -> Any:
        self.calls += 1
        assert self.event.wait(60)
        return np.array(array)

    def before(self, tensor: Any) -> Any:
        """The tensor, once the gate is open."""
        given = {"function": self, "shapes": (tensor.shape,), "dtypes": (tensor.dtype.name,), "pure": True}
        return tensor.stack.ops.callback(tensor, **given)[0]


# --- equality -----------------------------------------------------------------------------------------------


def slopes(program: Program, stack: Any, leaves: Any, by: Any) -> list[Any]:
    """Outputs, first and second derivatives, and what is alive."""
    tensors = [stack.variable(f"leaf {n}", leaf) if n in by else stack.asarray(leaf) for n, leaf in enumerate(leaves)]
    xs, ops, before = [tensors[n] for n in by], stack.ops, stack.live
    values = program.applied(stack, tensors)
    outputs = [values[o] for o in program.outputs]
    found, total = [*outputs], stack.asarray(np.float64(0))
    for each in outputs:
        if each.dtype.kind == "f":
            total = total + ops.sum(ops.square(ops.tanh(each)))
    if by:
        first = stack.gradients([total], xs)
        curved = stack.asarray(np.float64(0))
        for n, g in enumerate(first):
            curved = curved + ops.sum(ops.sin(g) * (n + 1.0))
        found += [*first, *stack.gradients([curved], xs)]
        del first, curved, g
    del values, tensors, xs, total, outputs, each
    after = stack.live
    alive = (after.symbols - before.symbols, after.nodes - before.nodes, after.saved - before.saved)
    return [*(each.numpy() for each in found), alive]


@examples(few=20, nightly=2000)
@given(st.one_of(strategies.programs(smooth=True), strategies.programs(smooth=True, control_flow=True)))
def test_values_gradients_and_what_lives_are_the_synchronous_stacks_to_the_bit(program: Program) -> None:
    leaves = [leaf.value() for leaf in program.leaves]
    by = tuple(n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f")
    with np.errstate(all="ignore"):
        gc.disable()  # what earlier programs left in cycles goes at another time
        try:
            found, wanted = (slopes(program, stack, leaves, by) for stack in (STACK, SYNCHRONOUS))
        finally:
            gc.enable()
    assert found[-1] == wanted[-1]
    for one, other in zip(found[:-1], wanted[:-1], strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@examples(few=20, nightly=2000)
@given(strategies.programs())
def test_avals_are_known_before_values_are(program: Program) -> None:
    tensors = [STACK.asarray(leaf.value()) for leaf in program.leaves]
    with np.errstate(all="ignore"):
        for each in program.applied(STACK, tensors):
            shape, dtype, aval = each.shape, each.dtype, each.aval
            array = each.numpy()
            assert (array.shape, array.dtype, each.aval) == (shape, dtype, aval)


def test_what_was_formed_before_sees_the_values_of_then() -> None:
    gate, given = Gate(), np.ones(3)
    w = STACK.variable("w", np.ones(3))
    late = gate.before(STACK.asarray(np.zeros(3)))
    y, z = late + w, OPS.add(late, given)
    given[:] = 7.0
    w.value.assign(np.full(3, 5.0))
    later = late + w
    assert [is_promised(y), is_promised(z)] == [True, True]
    gate.event.set()
    assert (y.numpy().tolist(), z.numpy().tolist(), later.numpy().tolist()) == ([1.0] * 3, [1.0] * 3, [5.0] * 3)


def test_writing_into_a_promised_tensor_gives_that_handle_another_value() -> None:
    y = STACK.asarray(NUMBERS) * 2.0
    z = y + 0.0
    y[0, 0] = 9.0
    assert (y.numpy()[0, 0], z.numpy()[0, 0]) == (9.0, -2.0)
    again, detached = +z, z.detach()
    again[0, 0] = 3.0
    assert (z.numpy()[0, 0], detached.numpy()[0, 0]) == (-2.0, -2.0)


# --- when, and in whose name --------------------------------------------------------------------------------


def test_small_operators_are_computed_at_once_and_long_ones_ahead_once_they_are_known() -> None:
    stack = nnc.dynamic(asynchronous=True)
    assert stack == nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True)) != nnc.dynamic()
    x, large = stack.asarray(NUMBERS), stack.asarray(np.linspace(0.0, 1.0, 400_000))
    for _ in range(3):
        assert not any(map(is_promised, (x * x, x + 1.0, stack.ops.sin(x))))
    first = stack.ops.erfinv(large)
    assert not is_promised(first)
    second = stack.ops.erfinv(large)
    assert is_promised(second)
    assert second.numpy().tobytes() == first.numpy().tobytes()
    assert not is_promised(second)


def test_small_operators_after_a_long_one_are_paid_for_by_it() -> None:
    stack = nnc.dynamic(asynchronous=True)
    x = stack.asarray(np.linspace(0.0, 1.0, 2_000_000))
    for _ in range(2):
        y = stack.ops.erfinv(x).sum()
        y = (y + 1.0).item()
    started = stack.ops.erfinv(x)
    y = started.sum()
    ahead = 0
    for _ in range(1000):
        y = y + 1.0
        ahead += is_promised(y)
    assert is_promised(started) or ahead == 0
    assert ahead < 300  # the long one takes 20 ms or more: a part of that, at 12 µs each, and no more than is under way
    assert y.item() == pytest.approx(stack.ops.erfinv(x).sum().item() + 1000.0)


def test_settings_are_checked() -> None:
    for wrong in (
        {"asynchronous": 1},
        {"ahead_from": -1.0},
        {"ahead_from": "now"},
        {"asynchronous": True, "memoise": True},
    ):
        with pytest.raises(PlanError):
            nnc.lazy().swap(engine=partial(nnc.Dynamic, **wrong))


def test_no_grad_lines_and_context_are_those_of_when_it_was_applied() -> None:
    gate, seen = Gate(), []
    mark: ContextVar[str] = ContextVar("mark", default="none")
    x = STACK.variable("x", NUMBERS)
    late = gate.before(x * 1.0)
    with STACK.no_grad():
        constant = x * 2.0
    taken = mark.set("inside")
    (noted,) = OPS.callback(
        late, function=lambda a: [seen.append(mark.get()), a][1], shapes=((2, 3),), dtypes=("float64",), pure=True
    )
    mark.reset(taken)
    y = x * 3.0  # this line
    gate.event.set()
    assert noted.shape == noted.numpy().shape == (2, 3)
    assert seen == ["inside"]
    with pytest.raises(DerivativeError, match="constant"):
        STACK.gradients([y.sum()], [constant])
    (slope,) = STACK.gradients([(y * constant).sum()], [x])
    np.testing.assert_allclose(slope.numpy(), 6.0 * NUMBERS)
    lines = [line for node in STACK.trace(y).nodes for line in (nnc.graph.origin.describe(node.origin),) if line]
    number = test_no_grad_lines_and_context_are_those_of_when_it_was_applied.__code__.co_firstlineno
    assert any("test_ahead.py" in line and int(line.split(":")[1].split()[0]) > number for line in lines)


def test_effects_happen_once_in_order_and_when_they_are_applied(capsys: Any) -> None:
    x, calls = STACK.asarray(2.0), []

    def note(array: Any) -> Any:
        calls.append(float(array))
        return array

    OPS.print(x * 3.0, text="first")
    for n in range(3):
        OPS.callback(x * float(n), function=note, shapes=((),), dtypes=("float64",))
    OPS.print(x * 4.0, text="second")
    assert calls == [0.0, 2.0, 4.0]
    assert capsys.readouterr().out.split() == ["first", "6.0", "second", "8.0"]


def test_what_is_dropped_before_it_was_computed_frees_what_it_was_made_of() -> None:
    x = STACK.variable("x", NUMBERS)
    kept = x * 1.0
    before = STACK.live
    for _ in range(20):
        y = OPS.sin(kept * 2.0)
        z = y * y
        del y, z
    assert STACK.live == before


def test_memory_that_is_ahead_is_bounded() -> None:
    gate = Gate()
    late = gate.before(STACK.asarray(np.zeros(1 << 20)))
    threading.Timer(0.3, gate.event.set).start()
    start = time.perf_counter()
    for _ in range(100):  # 16 MB each
        y = late + 1.0
    assert time.perf_counter() - start > 0.15, "what would hold more than 256 MB waits"
    assert y.numpy()[0] == 1.0


# --- errors -------------------------------------------------------------------------------------------------


def test_shapes_are_refused_at_once() -> None:
    x = STACK.asarray(NUMBERS) * 1.0
    with pytest.raises(ShapeError, match=r"test_ahead\.py"):
        x + STACK.asarray(np.ones(4))
    assert (x * 1.0).numpy().tolist() == NUMBERS.tolist()


def test_errors_of_values_surface_where_one_looks_and_name_the_line_that_caused_them() -> None:
    x = STACK.asarray(NUMBERS)
    taken = OPS.take(x * 1.0, STACK.asarray([7]) * 1)  # the line
    line = sys._getframe().f_lineno - 1
    after = OPS.tanh(taken) + 1.0
    fine = x * 2.0
    for each in (after, taken, after):
        for _ in range(2):
            with pytest.raises(RunError, match=f"test_ahead.py:{line}"):
                each.numpy()
    assert fine.numpy().tolist() == (NUMBERS * 2.0).tolist()
    with pytest.raises(RunError, match=f"test_ahead.py:{line}"):
        OPS.exp(after).item()


def test_checks_of_numerics_surface_where_one_looks() -> None:
    stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0, check_numerics=True))
    with np.errstate(all="ignore"):
        y = stack.ops.log(stack.asarray([-1.0, 1.0])) + 1.0
    assert is_promised(y)
    with pytest.raises(NumericsError, match=r"log.*test_ahead\.py"):
        y.numpy()


def test_errors_of_a_pure_function_of_the_host_name_its_line() -> None:
    def fail(array: Any) -> Any:
        raise ValueError("no such thing")

    given = {"function": fail, "shapes": ((2, 3),), "dtypes": ("float64",), "pure": True}
    (y,) = OPS.callback(STACK.asarray(NUMBERS), **given)
    line = sys._getframe().f_lineno - 1
    assert is_promised(y)
    with pytest.raises(Exception, match="no such thing") as caught:
        y.numpy()
    said = str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
    assert f"test_ahead.py:{line}" in said


def test_errors_hold_nothing_of_what_they_were_made_of() -> None:
    gc.collect()
    x = STACK.variable("x", NUMBERS)
    kept = +x
    before = STACK.live
    y = OPS.take(kept * 1.0, STACK.asarray([9]) * 1)
    with pytest.raises(RunError):
        y.numpy()
    del y
    gc.collect()  # what was raised refers to the frames that it came through
    assert STACK.live.nodes == before.nodes


def test_an_error_that_is_its_own_cause_is_told() -> None:
    """And a group of errors keeps nothing of what its parts held."""

    def caused(x: Any) -> Any:
        try:
            raise ValueError("mine")
        except ValueError as error:
            raise error from error

    def several(x: Any) -> Any:
        raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])

    for function in (caused, several):
        x = STACK.ops.sin(STACK.variable("x", np.arange(3.0)))
        (y,) = STACK.ops.callback(x, function=function, shapes=((3,),), dtypes=("float64",), pure=True)
        with pytest.raises(RunError, match="failed") as first:
            y.numpy()
        first.value.add_note("seen")
        with pytest.raises(RunError, match="failed") as second:
            y.numpy()
        assert "seen" not in second.value.__notes__
