"""check_stack passes what is right, and refutes a wrong allocator, rule, kernel or layer (`testing/stacks`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.errors import DeviceError, OperatorError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.layer import PassThrough, layer
from nnc_func.nn import NN
from nnc_func.testing import agreement, check_stack, differential, strategies, variations
from nnc_func.testing import stacks as checking
from nnc_func.testing.agreement import drawn

EAGER, LAZY = nnc.eager(), nnc.lazy()
NAMES = ("add", "multiply", "negative", "tanh", "sum", "exp", "subtract", "full", "reshape")
FEW = type(CATALOGUE)([CATALOGUE[name] for name in NAMES])


def small(stack: Any) -> Any:
    """The same stack of few operators: what is wrong with it is wrong with them."""
    return stack.swap(type=type(stack.type)(stack.device, FEW))


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    few = checking.Profile(arguments=3, programs=40, gradients=5, graphs=60, everything=False)
    monkeypatch.setitem(checking.PROFILES, "quick", few)


# --- what is right ---------------------------------------------------------------------------------------


@pytest.mark.draws
@pytest.mark.parametrize("stack", [EAGER, LAZY, EAGER.swap(device=LAZY)], ids=["eager", "lazy", "eager over lazy"])
def test_stacks_of_the_library_hold(stack: Any) -> None:
    found = check_stack(small(stack))
    assert [law.split(":")[0] for law in found.laws[:7]] == [
        "stack", "device", "type", "shape", "symbol", "operator", "optimiser",
    ]  # fmt: skip
    assert any("40 programs" in law for law in found.laws)
    assert any(what.startswith("gradients: there is no") for what in found.left_out)


def test_what_has_no_elements_or_no_engine_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "values: the device computes nothing" in check_stack(small(nnc.lazy(nnc.Null()))).left_out
    bare = nnc.Stack(NN(Autodiff(nnc.NumPy())))
    monkeypatch.setattr(checking, "CATALOGUE", FEW)
    assert any("no engine layer" in what for what in check_stack(bare).left_out)


@layer()
class Meagre(nnc.NumPy):
    """A device that has no exponential function."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        """As NumPy's, but for exp."""
        if op.name == "exp":
            raise DeviceError("exp is not for this device")
        return nnc.NumPy.bind(self, op, *args, **params)


def test_what_a_device_has_not_is_left_out_by_name() -> None:
    found = check_stack(small(nnc.eager(Meagre())))
    assert "exp: the device refuses it: exp is not for this device" in found.left_out


def test_gradients_that_take_what_a_device_has_not_are_left_out() -> None:
    gradients = checking._Checking(small(EAGER), checking.PROFILES["quick"])
    assert not gradients.asked("autodiff", "gradients", _no_exponential)
    assert gradients.left_out == ["gradients: the device refuses what it takes: exp is not for this device"]


def _no_exponential() -> None:
    try:
        Meagre().bind(CATALOGUE["exp"], 1.0)
    except DeviceError as error:
        raise AssertionError("differentiated") from error


def test_a_profile_is_quick_or_full() -> None:
    with pytest.raises(OperatorError, match="'quick' or 'full', given 'slow'"):
        check_stack(LAZY, profile="slow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "stack",
    [EAGER, LAZY, LAZY.swap(engine=LAZY.engine.with_streams(2)), EAGER.swap(device=LAZY)],
    ids=["eager", "lazy", "two streams", "eager over lazy"],
)
def test_stacks_of_the_library_hold_in_full(stack: Any) -> None:
    found = check_stack(stack, profile="full")
    assert any("500 programs" in law for law in found.laws)
    assert any("200 programs" in law for law in found.laws)


# --- what is wrong ---------------------------------------------------------------------------------------


def all_at_once(problem: Any) -> list[int]:
    """An allocator that puts every buffer in the same place."""
    return [0] * len(problem)


def refuted(stack: Any, *said: str) -> str:
    with pytest.raises(AssertionError) as caught:
        check_stack(stack)
    for words in said:
        assert words in str(caught.value), str(caught.value)
    return str(caught.value)


def steps(message: str) -> int:
    return message.count("= ops.")


def test_an_allocator_that_overlaps_buffers() -> None:
    wrong = small(LAZY.swap(engine=LAZY.engine.with_allocator(all_at_once)))
    assert steps(refuted(wrong, "engine:", "overlap", "program = stack.compile")) <= 3


def test_a_rule_that_changes_values() -> None:
    @nnc.rule
    def drop_sum(x, y):  # type: ignore[no-untyped-def]
        """A sum is its first operand."""
        return nnc.rewrite(x + y).to(x)

    refuted(small(LAZY.swap(optimiser=LAZY.optimiser.with_rules(drop_sum))), "optimiser: drop_sum", "not sound", "add(")


@layer()
class Askew(nnc.NumPy):
    """A device whose tanh is wrong."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        """As NumPy's, but for tanh."""
        found = nnc.NumPy.bind(self, op, *args, **params)
        return found + 1 if op.name == "tanh" else found


def test_a_kernel_that_is_wrong_when_it_is_bound() -> None:
    refuted(small(nnc.eager(Askew())), "device: the device gives", "the call: ops.tanh(")


@layer()
class AskewInPrograms(nnc.NumPy):
    """A device whose tanh is wrong in compiled programs."""

    def writing(self, op: Any, kernel: Any, items: Any, outs: int, scratch: Any) -> Any:
        """As NumPy's, but for tanh."""
        call = nnc.NumPy.writing(self, op, kernel, items, outs, scratch)

        def wrong(*arrays: Any) -> None:
            call(*arrays)
            if op.name == "tanh":
                arrays[-1][...] += 1

        return wrong


def test_a_kernel_that_is_wrong_in_programs() -> None:
    assert steps(refuted(small(nnc.lazy(AskewInPrograms())), "engine: ", "output 0 is", "ops.tanh")) == 1


@layer()
class AskewInOneDtype(nnc.NumPy):
    """A device whose subtraction is wrong in compiled programs, of float32 alone."""

    def writing(self, op: Any, kernel: Any, items: Any, outs: int, scratch: Any) -> Any:
        """As NumPy's, but for subtract."""
        call = nnc.NumPy.writing(self, op, kernel, items, outs, scratch)

        def wrong(*arrays: Any) -> None:
            call(*arrays)
            if op.name == "subtract" and arrays[-1].dtype == np.float32:
                arrays[-1][...] *= -1

        return wrong


def test_a_kernel_that_is_wrong_in_programs_of_one_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking._Checking, "programs", lambda self: None)  # they may not meet it
    refuted(small(nnc.lazy(AskewInOneDtype())), "engine: compiled it is", "the call: ops.subtract(", "float32")


@layer(on="engine")
class Forgetful(PassThrough):
    """An engine above another that multiplies when it is told to add."""

    engine: Any

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        """As the engine's, but for add."""
        return self.engine.bind(CATALOGUE["multiply"] if op.name == "add" else op, *args, **params)


def test_a_layer_that_binds_another_operator() -> None:
    refuted(small(EAGER.insert(Forgetful)), "engine: ", "ops.add")


# --- differential testing --------------------------------------------------------------------------------


def test_one_program_on_many_stacks() -> None:
    program = strategies.programs()
    assert differential(program, variations(LAZY), examples=10) == 10
    assert differential(strategies.programs(smooth=True, most_steps=3), [EAGER, LAZY], examples=3, gradients=True) == 3


def test_programs_take_turns_on_the_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[str] = []
    monkeypatch.setattr(agreement, "_on_all", lambda program, stacks, runs, spec: met.extend(stacks))
    assert differential(strategies.programs(), dict.fromkeys("abc", LAZY), examples=3, at_a_time=2) == 3
    assert met == ["a", "b", "c", "a", "b", "c"]


def test_a_stack_that_differs_is_found_in_its_turn() -> None:
    wrong = LAZY.swap(engine=LAZY.engine.with_allocator(all_at_once))
    stacks = {"first": LAZY, "second": EAGER, "wrong": wrong}
    with pytest.raises(AssertionError, match=r"(?s)^wrong: compiled, PlanError: .*the program:\nimport nnc_func"):
        differential(strategies.programs(operators=FEW), stacks, at_a_time=1)


def test_the_stack_that_differs_is_named() -> None:
    wrong = LAZY.swap(engine=LAZY.engine.with_allocator(all_at_once))
    with pytest.raises(AssertionError, match=r"(?s)^wrong: compiled, PlanError: .*the program:\nimport nnc_func"):
        differential(strategies.programs(operators=FEW), {"right": LAZY, "wrong": wrong})


def test_what_is_drawn_is_always_the_same() -> None:
    listed: list[list[int]] = [[], []]
    for found in listed:
        drawn(st.integers(0, 10**9), found.append, 20)
    assert listed[0] == listed[1]
    assert len(set(listed[0])) > 5


def test_a_failure_that_is_an_error_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        drawn(st.just(np.zeros(())), lambda x: 1 / int(x), 3)
