"""Loops while a condition holds, as often as it does (`control_flow/while_loops`, `engine/running/loops`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError, RunError, ShapeError, UnboundError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy() if hasattr(found, "numpy") else found, wanted, rtol=rtol, atol=1e-12)


# --- results -------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("limit", [None, 0, 1, 4, 5, 9])
@pytest.mark.parametrize("start", [0, 3, 7])
def test_rows_variables_and_how_many_times(stack: Any, start: int, limit: int | None) -> None:
    for exact in (False, True):
        rows, (i, x), n = stack.while_loop(
            lambda i, x: i < 5, lambda i, x: ({"x": x, "i": [i]}, (i + 1, x * 2)), (start, np.ones(2)), limit,
            exact=exact,
        )  # fmt: skip
        times = min(max(0, 5 - start), 99 if limit is None else limit)
        padded = times if exact or limit is None else limit
        assert n.dtype == np.int64
        close(n, times)
        close(i, start + times)
        close(x, [2.0**times] * 2)
        wanted = np.zeros((padded, 2))
        wanted[:times] = 2.0 ** np.arange(times)[:, None]
        close(rows["x"], wanted)
        close(rows["i"][0], np.pad(np.arange(start, start + times), (0, padded - times)))
        assert rows["i"][0].dtype == np.int64


@every
def test_variables_are_given_one_by_one_or_as_the_tree_they_are(stack: Any) -> None:
    _, found, _ = stack.while_loop(
        lambda d: d["i"] < 2, lambda d: (None, {"i": d["i"] + 1, "n": None}), {"i": 0, "n": None}
    )
    assert {*found} == {"i", "n"}
    for start in ([0], (0,)):
        _, found, _ = stack.while_loop(lambda i: i < 2, lambda i: (None, i + 1), start)
        assert type(found) is type(start)
        close(found[0], 2)
    _, found, _ = stack.while_loop(lambda i: i < 2, lambda i: (None, [i + 1]), 0)
    close(found, 2)
    rows, found, n = stack.while_loop(lambda: False, lambda: ([], []), [])
    assert (rows, found, n.item()) == ([], [], 0)


@every
def test_a_condition_of_any_number(stack: Any) -> None:
    for condition in (lambda i: 3 - i, lambda i: (3 - i) * 0.5, lambda i: i != 3):
        close(stack.while_loop(condition, lambda i: (None, i + 1), 0)[1], 3)
    close(stack.while_loop(lambda i: True, lambda i: (None, i + 1), 0, 3)[1], 3)
    close(stack.while_loop(lambda i: float("nan"), lambda i: (None, i + 1), 0, 3)[1], 3)  # as in Python


@every
def test_at_the_limit_it_stops_or_raises(stack: Any) -> None:
    def run(most: int, **how: Any) -> Any:
        return stack.while_loop(lambda i: i < 3, lambda i: (i, i + 1), 0, most, **how)

    close(run(2)[2], 2)
    close(run(3, on_limit="raise")[2], 3)
    close(run(9, on_limit="raise")[2], 3)
    with pytest.raises(RunError, match="still holds after max_iterations=2"):
        run(2, on_limit="raise")
    with pytest.raises(RunError, match="still holds after max_iterations=0"):
        run(0, on_limit="raise")


@every
def test_the_last_condition_counts_values_of_that_time(stack: Any) -> None:
    """What a condition reads is computed neither too early nor too late."""
    x = stack.asarray(np.array([4.0, 3.0, 1.0, 0.0, 5.0]))
    _, (i, total), n = stack.while_loop(lambda i, s: x[i] > 0, lambda i, s: (None, (i + 1, s + x[i])), (0, 0.0))
    assert (i.item(), total.item(), n.item()) == (3, 8.0, 3)


@every
def test_a_loop_without_bound_that_goes_often_or_not_at_all(stack: Any) -> None:
    close(stack.while_loop(lambda i: i < 30_000, lambda i: (None, i + 1), 0)[1], 30_000)
    rows, x, n = stack.while_loop(lambda x: x.sum() < 0, lambda x: (x, x + 1), np.ones((2, 0)))
    assert (rows.shape, x.shape, n.item()) == ((0, 2, 0), (2, 0), 0)


@every
@pytest.mark.parametrize(
    ("cond", "body", "start", "said"),
    [
        (lambda i: "yes", lambda i: (None, i), 0, "one truth value, given a str"),
        (lambda i: i < 2, lambda i: i + 1, 0, "returns a pair"),
        (lambda i, x: i < 2, lambda i, x: (None, (i + 1,)), (0, 1.0), "keeps its structure"),
        (lambda i, x: i < 2, lambda i, x: (None, (i + 1, x[:1])), (0, np.ones(2)), r"shape: variable at 1 is \(2,\)"),
        (lambda i, x: i < 2, lambda i, x: (None, (i + 1, x > 0)), (0, np.ones(2)), "dtype: variable at 1 is float64"),
        (lambda i: i < 2, lambda i: (None, i + 1), "a", "variable is a str"),
    ],
)
def test_what_is_no_loop_is_refused_in_words(stack: Any, cond: Any, body: Any, start: Any, said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        stack.while_loop(cond, body, start, 5)


@every
@pytest.mark.parametrize("several", [lambda i: np.array([True]), lambda i: [True]])
def test_a_condition_of_several_truth_values_is_refused(stack: Any, several: Any) -> None:
    with pytest.raises(ShapeError, match=r"condition of while_loop is one truth value, given shape \(1,\); take all"):
        stack.while_loop(several, lambda i: (None, i), 0, 5)


@every
def test_limits_that_are_none_are_refused(stack: Any) -> None:
    for most, said in ((-1, "not negative"), (stack.asarray(3), "belongs into the condition")):
        with pytest.raises(OperatorError, match=said):
            stack.while_loop(lambda i: i < 2, lambda i: (None, i + 1), 0, most)
    with pytest.raises(OperatorError, match="on_limit="):
        stack.while_loop(lambda i: i < 2, lambda i: (None, i + 1), 0, on_limit="warn")


@every
def test_traces_are_three_at_most(stack: Any) -> None:
    traces = []

    def body(*v: Any) -> Any:
        traces.append(1)
        return v[0], (*v[1:], v[0] + 1.5)

    rows, found, n = stack.while_loop(lambda *v: v[-1] < 100, body, (0,) * 5, 10_000)
    assert {each.dtype.name for each in (rows, *found)} == {"float64"}
    assert len(traces) <= 3
    assert n.item() > 5


def test_what_has_no_value_yet_bounds_no_rows() -> None:
    x = LAZY.input("x", (), "float64")
    with pytest.raises(UnboundError, match="say max_iterations="):
        LAZY.while_loop(lambda c: c < 9, lambda c: (c, c * 2), x)
    _, last, n = LAZY.while_loop(lambda c: c < 9, lambda c: (None, c * 2), x)
    slope = LAZY.grad(lambda x: LAZY.while_loop(lambda c: c < 9, lambda c: (None, c * 2), x)[1])(x)
    program = LAZY.compile([x], [last, n, slope])
    for start in (1.0, 9.0, 0.1):
        wanted, times = start, 0
        while wanted < 9:
            wanted, times = wanted * 2, times + 1
        found = program(np.float64(start))
        assert (float(found[0]), int(found[1]), float(found[2])) == (wanted, times, 2.0**times)


def test_a_symbolic_limit() -> None:
    x = LAZY.input("x", ("n",), "float64")
    rows, (_, total), n = LAZY.while_loop(lambda i, s: i < 5, lambda i, s: (s, (i + 1, s + x[i])), (0, 0.0), x.shape[0])
    program = LAZY.compile([x], [rows, total, n])
    for extent in (0, 3, 8):
        found = program(np.ones(extent))
        times = min(5, extent)
        np.testing.assert_array_equal(found[0], np.pad(np.arange(float(times)), (0, extent - times)))
        assert (float(found[1]), int(found[2])) == (times, times)


# --- derivatives ---------------------------------------------------------------------------------------------


def until(stack: Any, limit: int | None, how: str) -> Any:
    """A function of two numbers by a loop that ends where a value says so."""

    def f(x: Any, w: Any) -> Any:
        rows, (i, c), _ = stack.while_loop(
            lambda i, c: c < 50, lambda i, c: (None if how == "carry" else c * c * w, (i + 1, c * w + x)), (0, x), limit
        )
        return c * i.astype("float64") + (0.0 if how == "carry" else rows.sum() * 0.01)

    return f


def by_hand(x: float, w: float, limit: int | None, how: str) -> float:
    i, c, rows = 0, x, 0.0
    while c < 50 and (limit is None or i < limit):
        rows += c * c * w
        i, c = i + 1, c * w + x
    return c * i + (0.0 if how == "carry" else rows * 0.01)


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("how", ["carry", "rows"])
@pytest.mark.parametrize("limit", [None, 0, 1, 3, 40])
@pytest.mark.parametrize("start", [1.3, 99.0])
def test_derivatives_of_every_kind(stack: Any, start: float, limit: int | None, how: str) -> None:
    f, w, step = until(stack, limit, how), 1.4, 1e-5
    close(f(stack.asarray(start), stack.asarray(w)), by_hand(start, w, limit, how))
    first = [
        (by_hand(start + a, w + b, limit, how) - by_hand(start - a, w - b, limit, how)) / (2 * step)
        for a, b in ((step, 0), (0, step))
    ]
    found = stack.grad(f, argnums=(0, 1))(start, w)
    for one, other in zip(found, first, strict=True):
        close(one, other, 1e-6)
    close(stack.jvp(f, (start, w), (0.3, -0.7))[1], 0.3 * found[0].item() - 0.7 * found[1].item(), 1e-10)
    gradient = stack.grad(f, argnums=(0, 1))
    sides = [gradient(start + h * 0.3, w - h * 0.7) for h in (step, -step)]
    second = [(a.item() - b.item()) / (2 * step) for a, b in zip(*sides, strict=True)]
    for way in (stack.hvp(f, (start, w), (0.3, -0.7)), stack.jvp(gradient, (start, w), (0.3, -0.7))[1]):
        for one, other in zip(way, second, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@every
def test_one_in_another_and_in_a_scan(stack: Any) -> None:
    x = np.array([0.5, 1.5, -0.25])

    def f(x: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            _, (_, c), n = stack.while_loop(
                lambda j, d: j < i, lambda j, d: (None, (j + 1, d * x[j] + 1)), (0, c), max_iterations=3
            )
            return n, (i + 1, c)

        _, (_, c), _ = stack.while_loop(lambda i, c: i < 4, outer, (0, x[0]), max_iterations=9)
        d, _ = stack.scan(
            lambda c, i: (
                stack.while_loop(lambda k, d: k < i, lambda k, d: (None, (k + 1, d * x[1])), (0, c), 5)[1][1], c,
            ),
            c, np.arange(3),
        )  # fmt: skip
        return c + d

    def plain(x: Any) -> Any:
        c = x[0]
        for i in range(4):
            for j in range(min(i, 3)):
                c = c * x[j] + 1
        d = c
        for i in range(3):
            for _ in range(i):
                d = d * x[1]
        return c + d

    close(f(stack.asarray(x)), plain(x))
    close(stack.grad(f)(x), np.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in np.eye(3) * 1e-6]), 1e-7)


@every
def test_rows_of_times_that_did_not_happen_take_no_cotangent(stack: Any) -> None:
    """Not even one that is no number."""
    _, pull = stack.vjp(lambda x: stack.while_loop(lambda c: c < 10, lambda c: (c * c, c * 2), x, 6)[0], 3.0)
    cotangent = np.full(6, np.nan)
    cotangent[:2] = 1.0
    close(pull(stack.asarray(cotangent))[0], 2 * 3.0 + 2 * 6.0 * 2)
