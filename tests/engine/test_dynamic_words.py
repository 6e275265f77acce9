"""What dynamic stacks say of gradients that are none, and what a number that changes costs them (`autodiff/values`)."""

from __future__ import annotations

import gc
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.device.shared import base, dispatch
from nnc_func.engine.dynamic.replay import follower
from nnc_func.errors import DerivativeError, GradientWarning, GraphError, NncError, PlanError

SETTINGS: list[dict[str, Any]] = [
    {}, {"replay_after": 9}, {"memoise": True}, {"memory_limit": 0}, {"asynchronous": True}, {"budget": "1 MiB"}
]  # fmt: skip


@pytest.fixture(params=SETTINGS, ids=str)
def stack(request: pytest.FixtureRequest) -> nnc.Stack:
    return nnc.dynamic(**request.param)


# --- words ------------------------------------------------------------------------------------------------


def test_what_has_no_derivative_is_refused_with_the_line_where_it_was_applied(stack: nnc.Stack) -> None:
    w = +stack.variable("w", [1.0, 2.0])
    first = stack.ops.nextafter(stack.ops.floor(w), w)  # gradients flow through the second argument
    with pytest.raises(DerivativeError, match=r"nextafter has no derivative \(applied at test_dynamic_words\.py:33 in"):
        stack.gradients([(first * w).sum()], [w])


def test_gradients_of_what_nothing_was_recorded_of_are_zero_and_it_is_said(stack: nnc.Stack) -> None:
    w = +stack.variable("w", [1.0, 2.0])
    with stack.no_grad():
        paused = (w * w).sum()
    for y in (paused, (w * w).sum().detach(), pickle.loads(pickle.dumps((w * w).sum())), stack.asarray(1.0)):
        with pytest.warns(GradientWarning, match="zero: it is made of constants only, or was computed") as said:
            (found,) = stack.gradients([y], [w])
        assert [each.filename for each in said] == [__file__]
        np.testing.assert_array_equal(found.numpy(), 0)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(5):
            stack.gradients([paused], [w])
    assert len(shown) == 1  # for a line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = stack.gradients([paused], [w], into=[[3.0, 4.0]])
        np.testing.assert_array_equal(found.numpy(), [3, 4])
        stack.gradients([paused], [w], cotangents=[2.0])
        stack.gradients([paused], [])
        (found,) = stack.gradients([paused, (w * w).sum()], [w])  # of one of them something was
        np.testing.assert_array_equal(found.numpy(), [2, 4])
        stack.gradients([(w * w).sum()], [w])
        stack.gradients([], [w])


def test_a_budget_is_of_programs() -> None:
    stack = nnc.dynamic(budget="1 MiB")
    assert stack.engine.budget == nnc.lazy().engine.with_memory_budget("1 MiB").budget
    with pytest.raises(PlanError):
        nnc.dynamic(budget="much")
    w = +stack.variable("w", np.eye(200))
    with pytest.raises(PlanError, match="budget"):
        stack.gradients([(stack.ops.tanh(w @ w) @ w).sum()], [w])[0].numpy()
    x = +stack.variable("x", np.eye(20))
    np.testing.assert_allclose(stack.gradients([(x @ x).sum()], [x])[0].numpy(), 2)


# --- numbers that change ----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"replay_after": 3}, {"memoise": "1 MB"}], ids=str)
def test_a_rate_that_changes_leaves_next_to_nothing(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was remembered for each operator that met it, up to 50,000 of them."""
    monkeypatch.setattr(dispatch, "MOST_NUMBERS", 64)
    monkeypatch.setattr(base, "MOST_NUMBERS", 64)
    monkeypatch.setattr(follower, "REMEMBERED", 200)
    stack = nnc.dynamic(**settings)
    w, x = +stack.variable("w", np.eye(3)), stack.asarray(np.ones((2, 3)))
    step = 0

    def steps(count: int) -> int:
        nonlocal w, step
        for _ in range(count):
            step += 1
            (g,) = stack.gradients([(stack.ops.tanh(x @ w) ** 2).sum()], [w])
            w = w - (0.1 / step) * g
            w.numpy()
        gc.collect()
        return len(gc.get_objects())

    before = steps(300)
    assert max(steps(70) for _ in range(5)) - before < 1500


def test_a_number_that_changes_forgets_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "REMEMBERED", 60)
    stack = nnc.dynamic(replay_after=3)
    w = +stack.variable("w", np.ones(3))
    for step in range(400):
        y = stack.ops.exp(stack.ops.sin(w) * 0.5).sum()
        y.item()
        (w * (1.0 + step)).numpy()  # another place each time
        if step == 20:
            before = stack.replays
    now = stack.replays
    assert now.programs == before.programs
    assert now.prefixes - before.prefixes >= 379
    assert stack._before._here.mine._size <= 60 + 5


@pytest.mark.parametrize("replay_after", [None, 1])
def test_lists_of_values_may_be_read_once(replay_after: int | None) -> None:
    stack = nnc.dynamic(replay_after=replay_after)
    x = stack.variable("x", np.array([1.0, 2.0]))
    for _ in range(4):
        y = x * x
        (found,) = stack.gradients((each for each in [y]), (each for each in [x]), (each for each in [np.ones(2)]))
        assert found.numpy().tolist() == [2.0, 4.0]
        (found,) = stack.gradients(iter([y]), iter([x]), into=iter([np.ones(2)]))
        assert found.numpy().tolist() == [3.0, 5.0]


def test_what_another_stack_has_recorded_is_no_constant_here() -> None:
    """Its gradient would be lost without a word."""
    stack, other = nnc.dynamic(), nnc.dynamic(replay_after=2)
    x, z = stack.variable("x", np.ones(2)), other.variable("z", np.ones(2)) * 3
    for given in ({"into": [z]}, {"cotangents": [z]}):
        with pytest.raises(GraphError, match="belongs to another stack; move its graph here"):
            stack.gradients([x * x], [x], **given)  # type: ignore[arg-type]
    for constant in (nnc.eager().asarray(np.ones(2)), np.ones(2), [1.0, 1.0]):
        (found,) = stack.gradients([x * x], [x], cotangents=[constant])
        assert found.numpy().tolist() == [2.0, 2.0]


def test_what_is_wrong_with_gradients_names_the_line() -> None:
    stack = nnc.dynamic()
    x = stack.variable("x", np.ones(2))
    endless: list[Any] = []
    endless.append(endless)
    lazy = nnc.lazy().asarray(np.ones(2)) * 2
    for ys, xs, cotangents in (
        ([x * x], [x], [np.ones(3)]), ([x * x], [x], [1.0, 2.0]), ([x * x], [x], [None, None]), ([x * x], [x], ["abc"]),
        ([x * x], [x], [endless]), ([x * x], [x], [lazy]), ([lazy], [x], None), (x * x, [x], None), (list, [x], None),
        ("y", [x], None), ([x * x], 3, None),
    ):  # fmt: skip
        with pytest.raises(NncError, match=r"\(at test_dynamic_words.py:\d+ in test_what_is_wrong"):
            stack.gradients(ys, xs, cotangents)  # type: ignore[arg-type]
    with pytest.raises(NncError, match=r"gradients of values.*\(at test_dynamic_words.py:\d+ in test_what_is_wrong"):
        nnc.eager().gradients([x], [x])
