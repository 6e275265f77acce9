"""Carries that grow, and shrink (`control_flow/growing`, `control_flow/growing_derivative`, `engine/growing`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError, NumericsError, OperatorError, RunError, ShapeError, TracingError, UnboundError

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
draw = np.random.default_rng(7)


def appended(stack: Any, x: Any, most: int) -> Any:
    """Case 33: twice the last element behind it, until it is that long."""
    _, (x,), n = stack.while_loop(
        lambda x: x.shape[0] < most, lambda x: (None, [stack.ops.concat(x, 2 * x[-1:], axis=0)]), [x], dynamic=True
    )
    return x, n


@STACKS
def test_until_it_is_so_long(stack: Any, memory: None) -> None:
    x, n = appended(stack, stack.asarray([1.0, 3.0]), 40)
    assert n.item() == 38
    assert x.numpy().tolist() == [1.0, *(3.0 * 2**i for i in range(39))]
    slope = stack.grad(lambda x: appended(stack, x, 40)[0].sum())(stack.asarray([1.0, 3.0]))
    assert slope.numpy().tolist() == [1, 2**39 - 1]


def test_over_a_stack() -> None:
    stack = EAGER.swap(device=LAZY)
    x, n = appended(stack, stack.asarray([1.0, 3.0]), 5)
    assert (x.numpy().tolist(), n.item()) == ([1, 3, 6, 12, 24], 3)
    outs = stack.while_loop(
        lambda x: x.shape[0] < 4, lambda x: (x[-1], stack.ops.concat(x, x[-1:] * x[-1:], axis=0)),
        stack.asarray([1.0, 3.0]), dynamic=True,
    )[0]  # fmt: skip
    assert outs.numpy().tolist() == [3, 9]
    slope = stack.grad(lambda x: appended(stack, x, 5)[0].sum())(stack.asarray([1.0, 3.0]))
    assert slope.numpy().tolist() == [1, 15]
    none = stack.while_loop(
        lambda x: x.shape[0] < 1, lambda x: (x, stack.ops.concat(x, x, axis=0)), stack.asarray([1.0]), dynamic=True
    )
    assert none[2].item() == 0


def decoded(stack: Any, queries: Any, w: Any, v: Any, start: int) -> Any:
    """Attention with two caches, of which one holds the other's rows twice; and a carry that keeps its shape."""
    ops = stack.ops

    def body(q: Any, state: Any) -> Any:
        keys, values, total = state
        keys = ops.concat(keys, (q @ w)[None, None], axis=1)
        row = ops.tanh(q @ v)[:, None]
        values = ops.concat(values, row, row * total.sum(), axis=1)
        weights = ops.softmax(keys[0] @ q, axis=0)
        found = ops.concat(weights, weights, axis=0)[: values.shape[1]]
        return (weights, found.sum() * values.sum(axis=1)), (keys, values, total * 0.5 + weights.sum() * q)

    caches = (stack.asarray(np.zeros((1, start, 3))), stack.asarray(np.ones((3, 2 * start))))
    return stack.foreach(body, queries, (*caches, queries[0] * 0), dynamic=True)


def by_hand(stack: Any, queries: Any, w: Any, v: Any, start: int) -> Any:
    """The same, one time after the other."""
    ops = stack.ops
    keys = stack.asarray(np.zeros((1, start, 3))) if start else None
    values = stack.asarray(np.ones((3, 2 * start))) if start else None
    total, outs = queries[0] * 0, []
    for i in range(queries.shape[0]):
        q = queries[i]
        new = (q @ w)[None, None]
        row = ops.tanh(q @ v)[:, None]
        rows = [row, row * total.sum()]
        keys = new if keys is None else ops.concat(keys, new, axis=1)
        values = ops.concat(*([] if values is None else [values]), *rows, axis=1)
        weights = ops.softmax(keys[0] @ q, axis=0)
        outs.append((weights, ops.concat(weights, weights, axis=0).sum() * values.sum(axis=1)))
        total = total * 0.5 + weights.sum() * q
    return ([w for w, _ in outs], ops.stack(*(o for _, o in outs), axis=0)), (keys, values, total)


def loss_of(f: Callable[..., Any], stack: Any, start: int) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        (rows, outs), (keys, values, total) = f(stack, *args, start)
        more = sum((row * row).sum() * (i + 1) for i, row in enumerate(rows))
        return more + (outs * outs).sum() + (keys**3).sum() + stack.ops.sin(values).sum() + total.sum()

    return loss


@STACKS
@pytest.mark.parametrize("start", [0, 1, 2, 15])
def test_several_carries_with_extents_of_their_own(stack: Any, start: int, memory: None) -> None:
    given = [stack.asarray(draw.normal(size=shape) / 2) for shape in ((20, 3), (3, 3), (3, 3))]
    (rows, outs), last = decoded(stack, *given, start)
    (rows_by_hand, outs_by_hand), last_by_hand = by_hand(EAGER, *(EAGER.asarray(x.numpy()) for x in given), start)
    assert [row.shape for row in rows] == [(start + i + 1,) for i in range(20)]
    for found, wanted in zip((*rows, outs, *last), (*rows_by_hand, outs_by_hand, *last_by_hand), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


@STACKS
@pytest.mark.parametrize("start", [0, 2])
def test_gradients_are_those_of_plain_python(stack: Any, start: int, memory: None) -> None:
    given = [draw.normal(size=shape) / 2 for shape in ((19, 3), (3, 3), (3, 3))]
    value, found = stack.value_and_grad(loss_of(decoded, stack, start), argnums=(0, 1, 2))(*map(stack.asarray, given))
    wanted_value, wanted = EAGER.value_and_grad(loss_of(by_hand, EAGER, start), argnums=(0, 1, 2))(
        *map(EAGER.asarray, given)
    )
    np.testing.assert_allclose(value.numpy(), wanted_value.numpy(), rtol=1e-9)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@STACKS
def test_forward_mode_and_second_derivatives(stack: Any) -> None:
    given = [draw.normal(size=shape) / 2 for shape in ((5, 3), (3, 3), (3, 3))]
    directions = [draw.normal(size=x.shape) for x in given]

    def on(each: Any, f: Any, what: str) -> Any:
        loss = loss_of(f, each, 1)
        found = getattr(each, what)(loss, [*map(each.asarray, given)], [*map(each.asarray, directions)])
        return [x.numpy() for x in found]

    for what in ("jvp", "hvp"):
        for found, wanted in zip(on(stack, decoded, what), on(EAGER, by_hand, what), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@STACKS
def test_a_carry_that_shrinks(stack: Any) -> None:
    def halved(x: Any) -> Any:
        outs, x, n = stack.while_loop(
            lambda x: x.shape[0] > 1, lambda x: (x[::2].sum(), x[: x.shape[0] // 2] * 2), x, dynamic=True
        )
        return outs, x, n

    outs, x, n = halved(stack.asarray(np.arange(1.0, 17.0)))
    assert (x.numpy().tolist(), n.item(), outs.shape) == ([16.0], 4, (4,))
    assert outs.numpy().tolist() == [64, 32, 16, 8]
    slope = stack.grad(lambda x: halved(x)[0].sum() + halved(x)[1].sum())(stack.asarray(np.arange(1.0, 17.0)))
    assert slope.numpy()[:4].tolist() == [1 + 2 + 4 + 8 + 16, 0, 1 + 2, 0] or slope.numpy()[0] == 31


@STACKS
def test_what_is_made_of_extents_is_of_each_time(stack: Any) -> None:
    def body(x: Any) -> Any:
        n = x.shape[0]
        ones = stack.ops.full(shape=(n,), value=1.0, dtype="float64")
        more = (
            (stack.ops.cumulative_sum(ones, axis=0) - 1).sum()
            + stack.asarray(1.0) * n
            + stack.ops.full(shape=(n,), value=1.0, dtype="float64").sum()
        )
        return more, stack.ops.concat(x, more.reshape((1,)), axis=0)

    outs, x, _ = stack.while_loop(lambda x: x.shape[0] <= 20, body, stack.asarray(np.zeros(0)), dynamic=True)
    wanted = [n * (n - 1) / 2 + 2 * n for n in range(21)]
    assert x.numpy().tolist() == outs.numpy().tolist() == wanted


@STACKS
def test_a_carry_that_takes_on_the_shape_of_another(stack: Any) -> None:
    def body(x: Any, before: Any) -> Any:
        return before.sum(), (stack.ops.concat(x, x[-1:] + 1, axis=0), x)

    outs, (x, before), n = stack.while_loop(
        lambda x, before: x.shape[0] < 30, body, (np.array([1.0, 2.0]), np.array([5.0, 6.0])), dynamic=True
    )
    assert (x.shape, before.shape, n.item()) == ((30,), (29,), 28)
    assert outs.numpy()[:3].tolist() == [11, 3, 6]


@STACKS
def test_no_time(stack: Any) -> None:
    x = stack.asarray(np.ones((7, 2)))
    outs, found, n = stack.while_loop(
        lambda x: x.shape[0] < 3, lambda x: ((x.sum(axis=0), x), stack.ops.concat(x, x, axis=0)), x, dynamic=True
    )
    assert (outs[0].shape, outs[1], n.item()) == ((0, 2), [], 0)
    assert found.numpy().tolist() == x.numpy().tolist()
    slope = stack.grad(
        lambda x: stack.while_loop(
            lambda x: x.shape[0] < 3, lambda x: (None, stack.ops.concat(x, x, axis=0)), x, dynamic=True
        )[1].sum()
    )(x)
    assert slope.numpy().tolist() == [[1, 1]] * 7
    (rows, kept), _ = stack.foreach(
        lambda v, s: ((v, s), stack.ops.concat(s, s, axis=0)), np.ones((0, 2)), np.ones(1), dynamic=True
    )
    assert (rows.shape, kept) == ((0, 2), [])


@STACKS
def test_rows_are_padded_where_a_number_bounds_them(stack: Any) -> None:
    def run(**how: Any) -> Any:
        return stack.while_loop(
            lambda x: x.shape[0] < 4, lambda x: (x.sum(), stack.ops.concat(x, x[:1], axis=0)), np.ones(1), dynamic=True,
            **how,
        )  # fmt: skip

    assert run()[0].numpy().tolist() == [1, 2, 3]
    assert run(max_iterations=5)[0].numpy().tolist() == [1, 2, 3, 0, 0]
    assert run(max_iterations=5, exact=True)[0].numpy().tolist() == [1, 2, 3]
    outs, x, n = run(max_iterations=2)
    assert (outs.numpy().tolist(), x.shape, n.item()) == ([1, 2], (3,), 2)
    with pytest.raises(RunError, match="still holds after max_iterations=2"):
        run(max_iterations=2, on_limit="raise")


@STACKS
def test_scans_go_backwards_and_so_often(stack: Any) -> None:
    xs = np.arange(1.0, 6.0)
    for reverse in (False, True):
        for count in (0, 3, 9):
            carry, sums = stack.scan(
                lambda c, x: (stack.ops.concat(c, x.reshape((1,)), axis=0), c.sum() + x), stack.asarray([0.5]), xs,
                dynamic=True, reverse=reverse, length=stack.asarray(np.int64(count)),
            )  # fmt: skip
            rows = [*range(min(count, 5))]
            rows = rows[::-1] if reverse else rows
            assert carry.numpy().tolist() == [0.5, *xs[rows]]
            wanted = np.zeros(5)
            wanted[rows] = 0.5 + np.cumsum(xs[rows])
            np.testing.assert_allclose(sums.numpy(), wanted)


def test_plans_are_made_for_capacities_and_serve_other_lengths() -> None:
    lazy = nnc.lazy()

    def run(start: int, times: int) -> None:
        _, x, n = lazy.while_loop(
            lambda x: x.sum() < 1e6, lambda x: (None, lazy.ops.concat(x, 2 * x[-1:] - x[:1], axis=0)), np.ones(start),
            max_iterations=times, dynamic=True,
        )  # fmt: skip
        assert (x.shape, n.item()) == ((start + times,), times)

    run(1, 299)
    (step,) = lazy.engine.growing.values()
    assert step.plans <= 6  # of 16, 32, … 512
    made = step.plans
    for start, times in ((2, 98), (200, 90), (1, 299)):
        run(start, times)
    assert (step.plans, len(lazy.engine.growing)) == (made, 1)
    run(1, 599)
    assert step.plans == made + 1
    step.planned.capacity.plan.verify()


def test_a_body_is_traced_three_times_at_most() -> None:
    for stack in (EAGER, LAZY):
        traces = []

        def body(x: Any, n: Any, traces: list[int] = traces, stack: Any = stack) -> Any:
            traces.append(1)
            return None, (stack.ops.concat(x, x[:1], axis=0), n + 1.5)

        stack.while_loop(lambda x, n: x.shape[0] < 200, body, (np.ones(1), 0), dynamic=True)
        assert len(traces) <= 3


@STACKS
def test_what_may_not_change(stack: Any) -> None:
    concat = stack.ops.concat

    cases: list[tuple[Any, str]] = [
        (lambda x: x[None], r"variable at a is \(2,\), and \(1, 2\) after the body; reshape"),
        (lambda x: concat(x, x, axis=0).astype("float32"), "variable at a is float64, and float32 after the body"),
    ]
    for body, message in cases:
        with pytest.raises(OperatorError, match=message):
            stack.while_loop(
                lambda v: v["a"].shape[0] < 9, lambda v, f=body: (None, {"a": f(v["a"])}), {"a": np.ones(2)},
                dynamic=True,
            )  # fmt: skip
    with pytest.raises(OperatorError, match=r"variable at a is \(2,\), and \(4,\) after the body.*dynamic=True"):
        stack.while_loop(
            lambda v: v["a"].sum() < 9, lambda v: (None, {"a": concat(v["a"], v["a"], axis=0)}), {"a": np.ones(2)}
        )
    with pytest.raises(OperatorError, match="checkpoint= is for loops whose carries keep"):
        stack.foreach(lambda x, s: (None, s), np.ones(3), np.ones(1), dynamic=True, checkpoint="sqrt")
    with pytest.raises(OperatorError, match="ends nowhere"):
        stack.while_loop(
            lambda x: x.shape[0] != 9, lambda x: (None, concat(x, x[:1], axis=0)), np.ones(3), dynamic=True
        )


@STACKS
def test_extents_that_meet_must_be_equal_each_time(stack: Any) -> None:
    with pytest.raises(ShapeError, match=r"n0 = 1|must be equal"):
        stack.while_loop(
            lambda x: x.shape[0] < 9, lambda x: ((x * np.ones(3)).sum(), stack.ops.concat(x, x[:1], axis=0)),
            stack.asarray([1.0]), dynamic=True,
        )  # fmt: skip


@STACKS
def test_what_is_not_known_yet_is_told(stack: Any) -> None:
    with pytest.raises((TracingError, UnboundError), match="dynamic=True computes how often"):
        stack.jit(lambda x: appended(stack, x, 5)[0])(np.ones(2))
    with pytest.raises(UnboundError, match="outside of jit"):
        appended(stack, stack.input("x", (2,), "float64"), 5)


@STACKS
def test_rows_of_a_vmap_are_computed_one_by_one(stack: Any) -> None:
    rows = stack.asarray([[1.0, 2.0], [0.5, 1.0], [2.0, 3.0]])
    wanted = [appended(stack, x, 5)[0].numpy() for x in rows]
    np.testing.assert_allclose(stack.vmap(lambda x: appended(stack, x, 5)[0])(rows).numpy(), wanted)
    slope = stack.grad(lambda x: appended(stack, x, 5)[0].sum())
    np.testing.assert_allclose(stack.vmap(slope)(rows).numpy(), [slope(x).numpy() for x in rows])


def test_numbers_are_checked() -> None:
    lazy = nnc.lazy()
    checked = lazy.swap(engine=lazy.engine.checking_numerics())
    with pytest.raises(NumericsError, match="log"):
        checked.while_loop(
            lambda x: x.shape[0] < 40, lambda x: (None, checked.ops.concat(x, checked.ops.log(x[:1] - 1), axis=0)),
            checked.asarray([1.0]), dynamic=True,
        )  # fmt: skip


@STACKS
def test_failures_name_the_line(stack: Any) -> None:
    def body(x: Any) -> Any:
        return stack.ops.take(x, x.astype("int64")[:1] * 5, axis=0), stack.ops.concat(x, x[:1], axis=0)

    with pytest.raises(NncError, match=r"take.*test_growing.py"):
        stack.while_loop(lambda x: x.shape[0] < 40, body, stack.asarray([1.0]), dynamic=True)


@STACKS
def test_results_are_the_users_own(stack: Any) -> None:
    x = np.ones(3)
    found, _ = appended(stack, stack.asarray(x), 20)
    again, _ = appended(stack, found[:10], 20)
    assert found.numpy()[10:].tolist() == [2.0**i for i in range(8, 18)]
    assert again.shape == (20,)
    assert x.tolist() == [1, 1, 1]
