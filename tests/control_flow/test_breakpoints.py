"""Loops that end in the middle of their body are Python loops with a break (`control_flow/breakpoints`)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError, ShapeError, UnboundError
from tests.control_flow.files import same_from_a_file

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def close(found: Any, wanted: Any, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy() if hasattr(found, "numpy") else found, wanted, rtol=rtol, atol=atol)


def plain(segments: Any, carry: Any, xs: Any, most: int | None) -> tuple[Any, Any, list[Any], int, int]:
    """The loop in Python: outputs of each segment as lists, the carry, mids, times, exit."""
    outputs: list[list[Any]] = [[] for _ in segments[::2]]
    mids: list[Any] = [None] * len(segments[1::2])
    times = 0
    for i in itertools.count():
        if i == most or (xs is not None and i == len(xs)):
            return outputs, carry, mids, times, -1
        state, x = carry, i if xs is None else xs[i]
        for k in range(len(segments)):
            if k % 2:
                mids[k // 2] = state
                if bool(segments[k](state)):
                    return outputs, carry, mids, times, k // 2
            else:
                state, y = segments[k](state, x)
                outputs[k // 2].append(y)
        carry, times = state, times + 1
    raise AssertionError


def padded(rows: list[Any], count: int, like: Any) -> Any:
    """Rows, and zeros after them."""
    return np.array([*rows, *[np.zeros(np.shape(like))] * (count - len(rows))]).reshape((count, *np.shape(like)))


# --- one exit --------------------------------------------------------------------------------------------------


def doubling(limit: float) -> Any:
    return [lambda c, x: (c * 2 + x, c), lambda mid: mid > limit, lambda mid, x: (mid - x / 2, mid * x)]


XS = np.array([0.5, 1.0, 0.25, 2.0, 0.125, 1.0])


@every
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("most", [None, 0, 2, 9])
@pytest.mark.parametrize("limit", [1.0, 5.0, 1e9])
def test_rows_carry_mid_times_and_exit(stack: Any, limit: float, most: int | None, exact: bool) -> None:
    for xs in (XS, None, XS[:0]):
        if xs is None and most is None and limit == 1e9:
            continue  # it ends where numbers do
        rows, carry, mids, times, exit_ = plain(doubling(limit), 1.0, xs, most)
        found = stack.loop_until(doubling(limit), 1.0, xs, max_iterations=most, exact=exact)
        close(found.carry, carry)
        close(found.mids[0], 0.0 if mids[0] is None else mids[0])
        assert (found.times.item(), found.exit.item()) == (times, exit_)
        assert found.times.dtype == found.exit.dtype == np.int64
        bounds = [n for n in (most, None if xs is None else len(xs)) if n is not None]
        for one, other in zip(found.outputs, rows, strict=True):
            count = min(bounds) if bounds and not exact else len(other)
            close(one, padded(other, count, 0.0))
        if exact and exit_ == 0:
            assert [y.shape for y in found.outputs] == [(times + 1,), (times,)]


@every
def test_trees_and_what_is_none(stack: Any) -> None:
    def before(c: Any, x: Any) -> Any:
        return {"sum": c["a"] + x["k"], "b": [c["b"]]}, None

    def after(mid: Any, x: Any) -> Any:
        return {"a": mid["sum"], "b": mid["b"][0] * 2}, ({"y": mid["sum"] * x["k"]}, [1.0, 2.0])

    init, xs = {"a": 0, "b": np.ones(2, "float32")}, {"k": np.arange(6.0)}
    found = stack.loop_until([before, lambda mid: mid["sum"] > 5, after], init, xs, exact=True)
    assert found.outputs[0] is None
    close(found.outputs[1][0]["y"], [0.0, 1.0, 6.0])
    close(found.outputs[1][1], [[1.0, 2.0]] * 3)
    close(found.carry["a"], 3.0)
    close(found.carry["b"], [8.0, 8.0])
    assert found.carry["b"].dtype == np.float32
    close(found.mids[0]["sum"], 6.0)
    close(found.mids[0]["b"][0], [8.0, 8.0])


@every
def test_the_counter_and_conditions_that_are_numbers(stack: Any) -> None:
    found = stack.loop_until([lambda c, i: ((c, i), None), lambda m: m[1] == 4, lambda m, i: (m[0] + i, i)], 0)
    assert (found.carry.item(), found.times.item()) == (6, 4)
    assert found.outputs[1].numpy().tolist() == [0, 1, 2, 3]
    never = stack.loop_until([lambda c, i: (c, None), lambda m: False, lambda m, i: (m + 1, None)], 0, max_iterations=3)
    assert (never.carry.item(), never.times.item(), never.exit.item()) == (3, 3, -1)
    always = stack.loop_until([lambda c, i: (c, c), lambda m: 1, lambda m, i: (m + 1, m)], 7, max_iterations=3)
    assert (always.carry.item(), always.times.item(), always.exit.item()) == (7, 0, 0)
    close(always.outputs[0], [7, 0, 0])
    close(always.outputs[1], [0, 0, 0])


@every
def test_what_stands_behind_the_exit_is_not_computed(stack: Any) -> None:
    """It would be no number, and would leave none in the gradient."""

    def f(x: Any) -> Any:
        found = stack.loop_until(
            [lambda c, i: (c - 1, None), lambda mid: mid <= 0, lambda mid, i: (mid, stack.ops.log(mid))], x,
            max_iterations=9,
        )  # fmt: skip
        return found.outputs[1].sum() + found.mids[0]

    close(f(stack.asarray(3.0)), np.log(2.0))
    close(stack.grad(f)(3.0), 1 / 2 + 1 / 1 + 1)


# --- several exits ---------------------------------------------------------------------------------------------


def two_exits(a: float, b: float) -> Any:
    return [
        lambda c, x: ((c * x, c), c + x), lambda mid: mid[0] > a,
        lambda mid, x: (mid[0] + mid[1], {"twice": mid[0] * 2}), lambda mid: mid > b,
        lambda mid, x: (mid / 2 + x, mid * x),
    ]  # fmt: skip


@every
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("a", "b", "wanted"), [(4.0, 99.0, 0), (99.0, 4.0, 1), (99.0, 99.0, -1), (0.1, 0.1, 0)])
def test_exits_by_turns(stack: Any, a: float, b: float, wanted: int, exact: bool) -> None:
    xs = np.array([1.0, 1.5, 2.0, 2.5, 1.0])
    rows, carry, mids, times, exit_ = plain(two_exits(a, b), 1.0, xs, None)
    assert exit_ == wanted
    found = stack.loop_until(two_exits(a, b), 1.0, xs, exact=exact)
    assert (found.times.item(), found.exit.item()) == (times, exit_)
    close(found.carry, carry)
    for one, other in zip(found.mids[0], mids[0], strict=True):
        close(one, other)
    close(found.mids[1], 0.0 if exit_ == 0 else mids[1])
    columns = [rows[0], [r["twice"] for r in rows[1]], rows[2]]
    leaves = [found.outputs[0], found.outputs[1]["twice"], found.outputs[2]]
    for one, other in zip(leaves, columns, strict=True):
        close(one, padded(other, len(other) if exact else len(xs), 0.0))


# --- derivatives -----------------------------------------------------------------------------------------------


def loss_of(found: Any) -> Any:
    leaves = [found.outputs[0], found.outputs[1]["twice"], found.outputs[2]]
    return sum((leaf * leaf).sum() for leaf in leaves) + found.carry + found.mids[0][0] * 3 + found.mids[1]


@every
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("a", "b"), [(4.0, 99.0), (99.0, 4.0), (99.0, 99.0), (0.1, 0.1)])
def test_reverse_begins_with_the_segments_that_ran(stack: Any, a: float, b: float, exact: bool) -> None:
    xs, w = np.array([1.0, 1.5, 2.0, 2.5, 1.0]), 1.1

    def segments(w: Any) -> Any:
        first, one, second, other, last = two_exits(a, b)
        return [
            lambda c, x: first(c * w, x), one, lambda m, x: second((m[0], m[1] * w), x), other,
            lambda m, x: last(m * w, x),
        ]  # fmt: skip

    def f(c: Any, xs: Any, w: Any) -> Any:
        return loss_of(stack.loop_until(segments(w), c, xs, exact=exact))

    def by_hand(c: float, xs: Any, w: float) -> float:
        rows, carry, mids, _, exit_ = plain(segments(w), c, xs, None)
        flat = [*rows[0], *(r["twice"] for r in rows[1]), *rows[2]]
        return float(sum(y * y for y in flat) + carry + mids[0][0] * 3 + (0 if exit_ == 0 else mids[1]))

    given, h = (1.0, xs, w), 1e-6
    close(f(*map(stack.asarray, given)), by_hand(*given))
    found = stack.grad(f, argnums=(0, 1, 2))(*given)
    close(found[0], (by_hand(1 + h, xs, w) - by_hand(1 - h, xs, w)) / (2 * h), 1e-7, 1e-7)
    close(found[2], (by_hand(1.0, xs, w + h) - by_hand(1.0, xs, w - h)) / (2 * h), 1e-7, 1e-7)
    sides = [(by_hand(1.0, xs + d, w) - by_hand(1.0, xs - d, w)) / (2 * h) for d in np.eye(len(xs)) * h]
    close(found[1], sides, 1e-6, 1e-7)
    tangents = (0.3, np.linspace(-1, 1, 5), -0.7)
    along = sum((g.numpy() * t).sum() for g, t in zip(found, map(np.asarray, tangents), strict=True))
    close(stack.jvp(f, given, tangents)[1], along, 1e-10)
    slope = stack.grad(f, argnums=2)
    second = (slope(1.0, xs, w + 1e-5).item() - slope(1.0, xs, w - 1e-5).item()) / 2e-5
    close(stack.grad(slope, argnums=2)(*given), second, 1e-6, 1e-6)


@every
def test_a_gradient_without_a_bound(stack: Any) -> None:
    def segments(w: Any) -> Any:
        return [lambda c, i: (c * w, None), lambda m: m > 9, lambda m, i: (m + w, None)]

    def by_hand(w: float) -> float:
        _, carry, mids, _, _ = plain(segments(w), 1.0, None, None)
        return carry + mids[0]

    def f(w: Any) -> Any:
        found = stack.loop_until(segments(w), 1.0)
        return found.carry + found.mids[0]

    close(stack.grad(f)(1.3), (by_hand(1.3 + 1e-6) - by_hand(1.3 - 1e-6)) / 2e-6, 1e-7)


# --- within other things -----------------------------------------------------------------------------------------


@every
def test_rows_of_a_vmap_that_end_differently(stack: Any) -> None:
    starts = np.array([-20.0, 1.0, 3.0, 100.0])
    xs = np.array([1.0, 1.5, 2.0, 2.5, 1.0])

    def f(c: Any) -> Any:
        found = stack.loop_until(two_exits(12.0, 9.0), c, xs)
        return loss_of(found), found.times, found.exit

    together = stack.vmap(f)(stack.asarray(starts))
    for one, other in zip(zip(*(t.numpy() for t in together), strict=True), starts, strict=True):
        for found, wanted in zip(one, f(stack.asarray(other)), strict=True):
            close(found, wanted.numpy())
    assert len({*together[2].numpy().tolist()}) == 3
    slopes = stack.vmap(stack.grad(lambda c: f(c)[0]))(stack.asarray(starts))
    close(slopes, [stack.grad(lambda c: f(c)[0])(s).item() for s in starts])


@every
def test_in_a_loop_and_in_a_branch(stack: Any) -> None:
    def step(c: Any, x: Any) -> Any:
        found = stack.cond(x > 0, lambda: stack.loop_until(doubling(9.0), c, XS).mids[0], lambda: c * x)
        return found / 8, found

    def by_hand(c: float) -> float:
        for x in (1.0, -0.5, 2.0):
            c = (plain(doubling(9.0), c, XS, None)[2][0] if x > 0 else c * x) / 8
        return c

    f = lambda c: stack.scan(step, c, np.array([1.0, -0.5, 2.0]))[0]  # noqa: E731
    close(f(stack.asarray(1.0)), by_hand(1.0))
    close(stack.grad(f)(1.0), (by_hand(1 + 1e-6) - by_hand(1 - 1e-6)) / 2e-6, 1e-7)


def test_as_a_program_of_any_extent_and_from_a_file(tmp_path: Any) -> None:
    xs, c = LAZY.input("xs", ("n",), "float64"), LAZY.input("c", (), "float64")
    found = LAZY.loop_until(doubling(5.0), c, xs)
    slope = LAZY.grad(lambda c: LAZY.loop_until(doubling(5.0), c, xs).outputs[1].sum())(c)
    outputs = [*found.outputs, found.carry, found.mids[0], found.times, found.exit, slope]
    program = LAZY.compile([xs, c], outputs)
    for n in (0, 1, 3, 6):
        rows, carry, mids, times, exit_ = plain(doubling(5.0), 1.0, XS[:n], None)
        values = program(XS[:n], np.float64(1.0))
        close(values[0], padded(rows[0], n, 0.0))
        close(values[1], padded(rows[1], n, 0.0))
        assert [float(v) for v in values[2:6]] == [carry, 0.0 if not n else mids[0], times, exit_]
        sides = [sum(plain(doubling(5.0), 1 + h, XS[:n], None)[0][1]) for h in (1e-6, -1e-6)]
        close(values[6], (sides[0] - sides[1]) / 2e-6, 1e-7)
    same_from_a_file(LAZY, [xs, c], outputs, [XS, np.float64(1.0)], tmp_path)
    with pytest.raises(UnboundError, match="how many rows the outputs of loop_until have"):
        LAZY.loop_until(doubling(5.0), c, xs, exact=True)


@every
def test_functions_are_traced_three_times_at_most(stack: Any) -> None:
    calls = []

    def before(c: Any, x: Any) -> Any:
        calls.append(1)
        return c * 1.5, c

    stack.loop_until([before, lambda m: m > 1e6, lambda m, x: (m, None)], 1, max_iterations=1000)
    assert len(calls) <= 3


@every
@pytest.mark.parametrize(
    ("segments", "init", "error", "said"),
    [
        ([lambda c, x: (c, None)], 0, OperatorError, r"\[before, until, after\] .* odd number; given 1 of them"),
        ([lambda c, x: (c, None)] * 4, 0, OperatorError, "given 4 of them"),
        (None, 0, OperatorError, "given a NoneType"),
        ([lambda c, x: (c, None), None, lambda c, x: (c, None)], 0, OperatorError, "loop_until"),
        ([lambda c, x: c, lambda m: m > 0, lambda m, x: (m, None)], 0.0, OperatorError, "segment 0 of loop_until"),
        ([lambda c, x: (c, 1), lambda m: m > 0, lambda m, x: m], 0.0, OperatorError, "segment 1 .*: the next carry"),
        (
            [lambda c, x: (c, 1), lambda m: m > 0, lambda m, x: (m, 1)], np.ones(2), ShapeError,
            r"condition of exit 0 of loop_until is one truth value, given shape \(2,\)",
        ),
        ([lambda c, x: (c, 1), lambda m: "no", lambda m, x: (m, 1)], 0.0, OperatorError, "truth value, given a str"),
        ([lambda c, x: (c, 1), lambda m: m > 0, lambda m, x: ((m, m), 1)], 0.0, OperatorError, "keeps its structure"),
    ],
)  # fmt: skip
def test_what_is_no_such_loop_is_refused_in_words(stack: Any, segments: Any, init: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        stack.loop_until(segments, init, max_iterations=3)


@every
def test_a_carry_that_changes_is_named(stack: Any) -> None:
    for after, said in (
        (lambda m, x: ({"a": m["a"][:1]}, None), r"carry at a is \(2,\)"),
        (lambda m, x: ({"a": m["a"] > 0}, None), "carry at a is float64, and bool after"),
    ):
        with pytest.raises(OperatorError, match=said):
            stack.loop_until([lambda c, x: (c, None), lambda m: False, after], {"a": np.ones(2)}, max_iterations=3)
    for most, said in ((-1, "not negative"), (stack.asarray(3), "belongs into a condition")):
        with pytest.raises(OperatorError, match=said):
            stack.loop_until(doubling(1.0), 0.0, max_iterations=most)
